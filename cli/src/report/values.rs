//! The numbers of a report by name: the path of each in the JSON (`bytes.h2d`, `calls.dgemm.why_host.small`), and sums of several.

use std::collections::BTreeMap;

use semcache::runtime::report::Report;
use serde_json::Value;

/// Sums that have names of their own.
pub(super) const SUMS: &[(&str, &str)] = &[
    ("offloaded", "Calls of all routines that ran on devices."),
    ("host", "Calls of all routines that ran on the host BLAS."),
    ("faults", "`faults.read` and `faults.write`."),
    ("moved", "`bytes.h2d`, `bytes.d2h` and `bytes.mapped`."),
    ("per_call", "`bytes.per_call`."),
    ("counted", "Processes that made BLAS calls."),
    ("reports", "Files that were added up."),
    ("degraded.NAME", "Processes that lack this feature."),
];

/// The numbers of a sum of `files` reports. What is not there is zero, but for a name that no report can have ([`get`]).
pub(super) fn of(report: &Report, files: usize) -> BTreeMap<String, f64> {
    let mut all = BTreeMap::new();
    flatten("", &serde_json::json!(report.sum), &mut all);
    let counts = &report.sum.counts;
    let (bytes, faults) = (&counts.bytes, &counts.faults);
    let host: u64 = report.sum.calls.values().map(|c| c.host).sum();
    for (name, value) in [
        ("offloaded", report.sum.offloaded()),
        ("host", host),
        ("faults", faults.read + faults.write),
        ("moved", bytes.h2d + bytes.d2h + bytes.mapped),
        ("per_call", bytes.per_call),
        ("counted", report.counted()),
        ("reports", files as u64),
        ("refused", u64::from(report.refused)),
    ] {
        all.insert(name.to_owned(), value as f64);
    }
    for process in &report.processes {
        for name in &process.did.degraded {
            *all.entry(format!("degraded.{name}")).or_default() += process.processes as f64;
        }
    }
    all
}

fn flatten(prefix: &str, value: &Value, all: &mut BTreeMap<String, f64>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let dot = if prefix.is_empty() { "" } else { "." };
                flatten(&format!("{prefix}{dot}{name}"), value, all);
            }
        }
        Value::Array(elements) => {
            for (i, value) in elements.iter().enumerate() {
                flatten(&format!("{prefix}.{i}"), value, all);
            }
        }
        _ => {
            if let Some(number) = value.as_f64() {
                all.insert(prefix.to_owned(), number);
            }
        }
    }
}

/// The number of a name; zero for one that a report may leave out (a routine, a reason, a device, a feature).
///
/// # Errors
/// A name that no report has.
pub(super) fn get(all: &BTreeMap<String, f64>, name: &str) -> Result<f64, String> {
    if let Some(value) = all.get(name) {
        return Ok(*value);
    }
    let open = ["calls.", "degraded.", "devices.", "time."];
    match open.iter().any(|group| name.starts_with(group)) {
        true => Ok(0.0),
        false => Err(format!(
            "no report has a number {name} (semcache report --keys)"
        )),
    }
}

/// Something that is to hold of a report: `KEY OP NUMBER`, or `KEY` alone, which means `KEY>0`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Assertion {
    key: String,
    op: &'static str,
    number: f64,
}

impl Assertion {
    /// Reads an assertion.
    ///
    /// # Errors
    /// What is none.
    pub(super) fn parse(text: &str) -> Result<Assertion, String> {
        const OPS: [&str; 6] = [">=", "<=", "==", "!=", ">", "<"];
        let bad = || format!("{text}: not KEY OP NUMBER, with OP one of > >= < <= == !=");
        let op = OPS.into_iter().find(|op| text.contains(op));
        let Some(op) = op else {
            let key = text.trim();
            let word = |c: char| c.is_ascii_alphanumeric() || "._".contains(c);
            return match !key.is_empty() && key.chars().all(word) {
                true => Ok(Assertion {
                    key: key.to_owned(),
                    op: ">",
                    number: 0.0,
                }),
                false => Err(bad()),
            };
        };
        let (key, number) = text.split_once(op).ok_or_else(bad)?;
        Ok(Assertion {
            key: key.trim().to_owned(),
            op,
            number: number.trim().parse().map_err(|_| bad())?,
        })
    }

    /// What is wrong, if the assertion does not hold.
    ///
    /// # Errors
    /// A name that no report has.
    pub(super) fn broken(&self, all: &BTreeMap<String, f64>) -> Result<Option<String>, String> {
        let value = get(all, &self.key)?;
        let number = self.number;
        #[expect(clippy::float_cmp, reason = "what the user asks for: counts are exact")]
        let holds = match self.op {
            ">=" => value >= number,
            "<=" => value <= number,
            "==" => value == number,
            "!=" => value != number,
            ">" => value > number,
            _ => value < number,
        };
        let told = || format!("{} = {value}, must be {} {number}", self.key, self.op);
        Ok((!holds).then(told))
    }
}

#[cfg(test)]
mod tests {
    use semcache::runtime::report::{Did, Process};

    use super::*;

    fn numbers() -> BTreeMap<String, f64> {
        let text = r#"{"calls":{"dgemm":{"offloaded":2,"host":3,"why_host":{"small":3}}},
            "bytes":{"h2d":10,"d2h":5,"saved":-4},"faults":{"read":1,"write":1,"p50_us":1.5},"degraded":["mpi"],
            "devices":[{"name":"sim0","tasks":7}]}"#;
        let did: Did = serde_json::from_str(text).expect("what a process did");
        let mut report = Report::new("run");
        for pid in 1..3 {
            report.add_process(Process {
                pid,
                processes: 1,
                did: did.clone(),
                ..Process::default()
            });
        }
        of(&report, 1)
    }

    #[test]
    fn numbers_have_names() {
        let all = numbers();
        for (name, value) in [
            ("offloaded", 4.0),
            ("host", 6.0),
            ("calls.dgemm.why_host.small", 6.0),
            ("calls.ddot.offloaded", 0.0),
            ("bytes.saved", -8.0),
            ("moved", 30.0),
            ("faults", 4.0),
            ("faults.p50_us", 1.5),
            ("devices.0.tasks", 14.0),
            ("devices.1.tasks", 0.0),
            ("degraded.mpi", 2.0),
            ("degraded.no_gate", 0.0),
            ("counted", 2.0),
            ("reports", 1.0),
        ] {
            assert_eq!(get(&all, name), Ok(value), "{name}");
        }
        assert!(get(&all, "bytes.h2").is_err() && get(&all, "offload").is_err());
    }

    #[test]
    fn assertions() {
        let all = numbers();
        let broken = |text: &str| Assertion::parse(text).and_then(|a| a.broken(&all));
        for text in [
            "offloaded",
            "host==6",
            "host >= 6",
            "moved<31",
            "bytes.saved <= -8",
            "faults!=3",
        ] {
            assert_eq!(broken(text), Ok(None), "{text}");
        }
        assert_eq!(
            broken("host<6"),
            Ok(Some("host = 6, must be < 6".to_owned()))
        );
        assert_eq!(broken("degraded.no_gate").map(|b| b.is_some()), Ok(true));
        for text in ["", "host 6", "host=6", "host==six", "nothing==1", "==1"] {
            assert!(broken(text).is_err(), "{text}");
        }
    }
}
