//! The timeline: Gantt charts of the lanes of devices and of the threads, of the whole trace and of its longest call.

use maud::{Markup, html};

use super::charts::{axis, each, entry, grid};
use super::given::{Given, Traced};
use super::svg::{Rects, WIDTH};
use super::text::percent;
use crate::trace::gantt::Choice;
use crate::trace::gantt::axis::{Tick, ticks};
use crate::trace::gantt::bars::{Kind, Part};
use crate::trace::gantt::chart::{Chart, Most, Row};
use crate::trace::model::Trace;
use crate::trace::tell;

/// The most devices and threads of a chart.
const MOST: Most = Most {
    devices: 8,
    threads: 8,
};
/// The height of a row, in units of the chart.
const HIGH: usize = 24;
/// All heights of parts of a bar are multiples of this, so that neighbours are often alike.
const STEP: usize = 2;
/// The least height of a part of a bar.
const LEAST: usize = 4;
/// The number of marks of the axis.
const MARKS: usize = 8;

pub(super) fn section(given: &Given) -> Option<Markup> {
    each(given, |Traced { trace, .. }| {
        let whole = chart(trace, Choice::All)?;
        Some(html! {
            p.note {
                "Time runs from left to right. A bar is as high as its share of the time of its column; what is very short still has \
                 a mark. The number at the right is the share of the time in which the lane ran operations. Longer operations have \
                 their names under the pointer."
            }
            (whole)
            @if let Some(longest) = chart(trace, Choice::Longest) {
                p.note {
                    "The call that takes longest until its last operation ends. What belongs to other calls is pale."
                }
                (longest)
            }
        })
    })
}

/// A chart; nothing if the trace lacks what is to be shown.
fn chart(trace: &Trace, choice: Choice) -> Option<Markup> {
    let chart = Chart::new(trace, choice, WIDTH, MOST)
        .ok()
        .filter(|chart| !chart.rows.is_empty())?;
    let ticks = ticks(chart.window, chart.origin, MARKS);
    let mut kinds: Vec<Kind> = chart.kinds().into_iter().map(|(kind, _)| kind).collect();
    kinds.dedup();
    Some(html! {
        figure.gantt {
            figcaption { (chart.title) }
            @for chart_row in &chart.rows { (row(&chart, chart_row, &ticks)) }
            div.row { span.label {} (axis(&ticks)) span.share {} }
            p.axis-title { "time since " (chart.since) }
            p.legend { @for kind in &kinds { (entry(class(*kind), kind.name().0)) } }
            @if let Some(omitted) = &chart.omitted { p.note { (omitted) } }
        }
    })
}

fn row(chart: &Chart, row: &Row, ticks: &[Tick]) -> Markup {
    let label = if row.lane.is_empty() {
        row.owner.as_str()
    } else {
        row.lane
    };
    html! {
        @if !row.lane.is_empty() && !row.owner.is_empty() { p.owner { (row.owner) } }
        div.row.thread[row.lane.is_empty()] {
            span.label { (label) }
            svg viewBox=(format!("0 0 {WIDTH} {HIGH}")) preserveAspectRatio="none" role="img" aria-label=(told(row)) {
                rect.track width=(WIDTH) height=(HIGH) {}
                path.grid d=(grid(ticks, HIGH as f64)) {}
                @for (kind, strong, data) in bars(&row.columns) {
                    path.(class(kind)).pale[!strong] d=(data) { title { (kind.name().1) } }
                }
                @for (name, from, to) in &row.names {
                    @let (x, width) = place(chart, *from, *to);
                    rect.named x=(x) width=(width) height=(HIGH) {
                        title { (name) ": " (tell::length(to.saturating_sub(*from))) }
                    }
                }
            }
            span.share { @if let Some(busy) = row.busy { (percent(busy)) } }
        }
    }
}

/// What a row is of, in words.
fn told(row: &Row) -> String {
    match row.busy {
        Some(busy) => format!("{}: busy {}", row.lane, percent(busy)),
        None => row.owner.clone(),
    }
}

/// The left edge and the width of a span of time.
fn place(chart: &Chart, from: u64, to: u64) -> (String, String) {
    let scale = WIDTH as f64 / chart.window.length() as f64;
    let at =
        |moment: u64| (moment.saturating_sub(chart.window.from) as f64 * scale).min(WIDTH as f64);
    let x = (at(from) * 100.0).floor() / 100.0;
    let width = (at(to) - x).min(WIDTH as f64 - x).max(0.0);
    (
        format!("{x:.2}"),
        format!("{:.2}", (width * 100.0).floor() / 100.0),
    )
}

/// A rectangle of a bar: its columns, its top and its height.
struct Piece {
    from: usize,
    to: usize,
    top: usize,
    high: usize,
}

/// The parts of a row's columns, those of one kind as one path: they lie one on the other, as high as their shares.
fn bars(columns: &[Vec<Part>]) -> Vec<(Kind, bool, String)> {
    let mut pieces: [Vec<Piece>; 2 * Kind::ALL.len()] = Default::default();
    for (column, parts) in columns.iter().enumerate() {
        let mut top = HIGH;
        for part in parts {
            let steps = (part.share * (HIGH / STEP) as f64).round() as usize;
            let high = (steps * STEP).max(LEAST).min(top);
            if high == 0 {
                break;
            }
            top -= high;
            let of = &mut pieces[2 * (part.kind as usize) + usize::from(!part.strong)];
            match of.last_mut() {
                Some(last) if (last.to, last.top, last.high) == (column, top, high) => last.to += 1,
                _ => of.push(Piece {
                    from: column,
                    to: column + 1,
                    top,
                    high,
                }),
            }
        }
    }
    let kinds = Kind::ALL
        .into_iter()
        .flat_map(|kind| [(kind, true), (kind, false)]);
    let with = kinds.zip(pieces).filter(|(_, pieces)| !pieces.is_empty());
    with.map(|((kind, strong), pieces)| {
        let mut rects = Rects::default();
        for Piece {
            from,
            to,
            top,
            high,
        } in pieces
        {
            rects.add(from as f64, top as f64, (to - from) as f64, high as f64);
        }
        (kind, strong, rects.data())
    })
    .collect()
}

/// The class of a kind, which has its colour.
fn class(kind: Kind) -> &'static str {
    match kind {
        Kind::Upload => "upload",
        Kind::Download => "download",
        Kind::Peer => "peer",
        Kind::Within => "within",
        Kind::Kernel => "kernel",
        Kind::Wait => "wait",
        Kind::Pin => "pin",
        Kind::Start => "start",
        Kind::Fault => "fault",
        Kind::Call => "call",
        Kind::Other => "other",
    }
}
