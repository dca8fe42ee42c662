//! A Gantt chart as text.

use super::axis::ticks;
use super::bars::{Kind, Part};
use super::chart::{Chart, Most};
use super::window::Choice;
use crate::trace::model::Trace;

/// The widest and the narrowest page.
const WIDTHS: (usize, usize) = (60, 1000);
/// The most characters of the name of a device or thread.
const OWNER: usize = 24;
/// How many characters a mark of the axis has for its text.
const MARK: usize = 10;
/// The width of ` 100 %`.
const BUSY: usize = 6;

/// The page: a title, a row for each lane and thread, an axis and a legend.
pub(super) fn page(trace: &Trace, choice: Choice, width: usize) -> Result<String, String> {
    let width = width.clamp(WIDTHS.0, WIDTHS.1);
    let most = Most {
        devices: usize::MAX,
        threads: 4,
    };
    // The labels have the same width in every chart: what they are is known only when the columns are counted.
    let label = OWNER.min(width / 4) + 1 + LANE;
    let columns = width - label - BUSY - 3;
    let chart = Chart::new(trace, choice, columns, most)?;
    let mut text = format!("{}\n", chart.title);
    if chart.rows.is_empty() {
        text += "No operation of a device and no slice of a thread lies in this time.\n";
        return Ok(text);
    }
    let owner = label - 1 - LANE;
    for row in &chart.rows {
        let cells: String = row.columns.iter().map(|c| cell(c)).collect();
        let busy = row
            .busy
            .map_or(String::new(), |share| format!(" {:>3.0} %", 100.0 * share));
        let name: String = row.owner.chars().take(owner).collect();
        let line = format!("{name:owner$} {:LANE$} |{cells}|{busy}", row.lane);
        text += line.trim_end();
        text += "\n";
    }
    text += &axis(&chart, label, columns);
    text += &legend(&chart);
    Ok(text)
}

/// The width of `copies out`.
const LANE: usize = 10;

/// The marks below the rows, their texts, and what they count.
fn axis(chart: &Chart, label: usize, columns: usize) -> String {
    let ticks = ticks(chart.window, chart.origin, (columns / MARK).max(1));
    let (mut line, mut texts) = (vec!['─'; columns + 1], String::new());
    for tick in ticks {
        let at = ((tick.at * columns as f64) as usize).min(columns);
        line[at] = '┬';
        let gap = at.checked_sub(texts.chars().count());
        let fits = at + tick.text.len() <= columns + 1 + BUSY;
        if let Some(gap) = gap.filter(|gap| fits && (*gap > 0 || texts.is_empty())) {
            texts += &" ".repeat(gap);
            texts += &tick.text;
        }
    }
    let line: String = line.into_iter().collect();
    let blank = " ".repeat(label + 2);
    format!(
        "{blank}{line}\n{blank}{texts}\n{blank}time since {}; at the right: the share in which the lane was busy\n",
        chart.since
    )
}

fn legend(chart: &Chart) -> String {
    let kinds = chart.kinds();
    let mut text = String::new();
    for strong in [true, false] {
        let of = kinds.iter().filter(|(_, s)| *s == strong);
        let of = of.map(|(kind, _)| format!("{} {}", character(*kind, strong), kind.name().0));
        let of: Vec<String> = of.collect();
        if of.is_empty() {
            continue;
        }
        text += match (chart.of_call, strong) {
            (false, _) => "",
            (_, true) => "of this call: ",
            (_, false) => "of others:    ",
        };
        text += &of.join("   ");
        text += "\n";
    }
    if let Some(omitted) = &chart.omitted {
        text += omitted;
        text += "\n";
    }
    text
}

/// The character of a column: of what belongs to the call, if there is any, what takes the most time.
fn cell(parts: &[Part]) -> char {
    let order = |a: &&Part, b: &&Part| (a.strong.cmp(&b.strong)).then(a.share.total_cmp(&b.share));
    let most = parts.iter().max_by(order);
    most.map_or(' ', |part| character(part.kind, part.strong))
}

/// The character of a kind, thinner for what does not belong to the call.
fn character(kind: Kind, strong: bool) -> char {
    let (strongly, weakly) = match kind {
        Kind::Upload => ('▄', '▂'),
        Kind::Download => ('▀', '▔'),
        Kind::Peer => ('▌', '▏'),
        Kind::Within => ('▐', '▕'),
        Kind::Kernel => ('█', '▒'),
        Kind::Wait => ('░', '·'),
        Kind::Pin => ('▓', '▗'),
        Kind::Start => ('▚', '▝'),
        Kind::Fault => ('▞', '▘'),
        Kind::Call => ('━', '─'),
        Kind::Other => ('▪', '▫'),
    };
    if strong { strongly } else { weakly }
}
