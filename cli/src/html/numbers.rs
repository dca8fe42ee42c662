//! All numbers of the report with what they mean.

use maud::{Markup, html};
use semcache::base::counters::KEYS;

use super::given::Given;
use super::text::{count, prose};

pub(super) fn section(given: &Given) -> Option<Markup> {
    let report = given.report.as_ref()?;
    // Numbers and texts only, so that this does not fail.
    let values = serde_json::to_value(&report.sum.counts).unwrap_or_default();
    let of = |group: &str, name: &str| {
        if group.is_empty() {
            values[name].clone()
        } else {
            values[group][name].clone()
        }
    };
    let rows = KEYS.iter().map(|key| {
        let dot = if key.group.is_empty() { "" } else { "." };
        (
            format!("{}{dot}{}", key.group, key.name),
            of(key.group, key.name),
            key.doc,
        )
    });
    let (zero, other): (Vec<_>, Vec<_>) =
        rows.partition(|(_, value, _)| value.as_f64() == Some(0.0));
    Some(html! {
        details {
            summary { (count(other.len() as u64)) " numbers that are not zero" }
            div.table { table {
                thead { tr { th { "name" } th.n { "value" } th { "meaning" } } }
                tbody { @for (name, value, doc) in &other {
                    tr { td { code { (name) } } td.n { (number(value)) } td.text { (prose(doc)) } }
                } }
            } }
            @if !zero.is_empty() {
                p.note {
                    "Zero: "
                    @for (place, (name, ..)) in zero.iter().enumerate() { @if place > 0 { ", " } code { (name) } }
                }
            }
        }
    })
}

fn number(value: &serde_json::Value) -> String {
    match value.as_u64() {
        Some(number) => count(number),
        None => value.to_string(),
    }
}
