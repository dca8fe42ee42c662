//! What `semcache top` shows, as lines of a given width: the run, its counts in all and per second, and tables of routines,
//! processes and devices.

use ratatui_core::style::{Color, Modifier, Style};
use ratatui_core::text::{Line, Span};
use semcache::base::counters::{Calls, Degraded};

use super::columns::table;
use super::numbers;
use super::rates::Look;
use super::tables::{self, Order, Tab};
use super::words::{duration, filled, fit, plain, told, width, wrapped};

/// What is known of a run beside its counters.
#[derive(Clone, Debug, Default)]
pub(super) struct Head {
    pub(super) run: String,
    pub(super) command: String,
    /// Seconds since the run began.
    pub(super) seconds: f64,
    /// Processes that found no place among the counters.
    pub(super) refused: u32,
    /// Whether no process of the run is left.
    pub(super) ended: bool,
    /// Whether the rates are those of the whole run, and not since the look before.
    pub(super) whole: bool,
}

/// What the user has chosen to see.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Choice {
    pub(super) tab: Tab,
    pub(super) order: Order,
    /// Rows of the chosen table that are passed over.
    pub(super) skip: usize,
}

/// The most lines of a table that is not the chosen one.
const OTHER: usize = 8;
/// The least height of a screen with room for more than numbers and one table.
const ROOMY: usize = 18;

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn dim() -> Style {
    Style::new().fg(Color::DarkGray)
}

fn bar() -> Style {
    Style::new().fg(Color::Black).bg(Color::Cyan)
}

fn warning() -> Style {
    Style::new().fg(Color::Yellow)
}

/// The whole page as text, of any length, with all three tables.
pub(super) fn text(head: &Head, look: &Look, most: usize) -> String {
    let mut lines = beginning(head, look, most);
    lines.extend(numbers::lines(look, head.whole, most, usize::MAX));
    lines.extend(reasons(look, most));
    lines.extend(degraded(look, most, usize::MAX));
    lines.extend(refused(head, most));
    for tab in Tab::ALL {
        let (columns, rows) = tables::of(tab, look, Order::default());
        if rows.is_empty() {
            continue;
        }
        lines.push(Line::default());
        lines.extend(table(&columns, &rows, most).into_iter().map(Line::from));
    }
    let mut out = String::new();
    for line in lines {
        out += line.to_string().trim_end();
        out.push('\n');
    }
    out
}

/// The page for a screen: at most `height` lines, the last of which is that of the keys.
pub(super) fn screen(
    head: &Head,
    look: &Look,
    choice: &Choice,
    most: usize,
    height: usize,
) -> Vec<Line<'static>> {
    let mut lines = beginning(head, look, most);
    // What is above the tables, for which some lines are kept.
    let room = height.saturating_sub(lines.len() + 5);
    lines.extend(numbers::lines(look, head.whole, most, room));
    let roomy = height >= ROOMY;
    if roomy {
        lines.extend(reasons(look, most));
        lines.extend(degraded(look, most, (height / 10).max(1)));
        lines.extend(refused(head, most));
        lines.push(Line::default());
    } else if !look.total.degraded.is_empty() && height > 12 {
        let names: Vec<&str> = look.total.degraded.iter().map(String::as_str).collect();
        let names = format!("degraded: {}", plain(&names.join(", ")));
        lines.push(Line::styled(fit(&names, most), warning()));
    }
    let below = height.saturating_sub(lines.len() + 1);
    lines.extend(sections(look, choice, most, below));
    lines.truncate(height.saturating_sub(1));
    lines.resize(height.saturating_sub(1), Line::default());
    lines.push(keys(head, choice, most));
    lines
}

/// The run, its command, how long it runs, and how many processes it has.
fn beginning(head: &Head, look: &Look, most: usize) -> Vec<Line<'static>> {
    let counted: u64 = look.rows.iter().map(|row| row.process.processes).sum();
    let live = look.rows.iter().filter(|row| !row.process.ended).count();
    let processes = match (counted, live) {
        (1, 1) => "1 process".to_owned(),
        (1, _) => "1 process, ended".to_owned(),
        (n, live) => format!("{n} processes, {live} running"),
    };
    let state = if head.ended { "ended after " } else { "" };
    let right = format!("{processes}  {state}{}", duration(head.seconds));
    let run = format!("run {}", plain(&head.run));
    let name = "semcache top  ";
    let (name, right) = match width(name) + width(&run) + 2 + width(&right) <= most {
        true => (name, right),
        false => ("", format!("{state}{}", duration(head.seconds))),
    };
    let room = most.saturating_sub(width(name) + width(&right) + 2);
    let middle = filled(&run, room, true);
    let first = Line::from(vec![
        Span::styled(name, bold()),
        Span::raw(middle + "  "),
        Span::styled(right, bold()),
    ]);
    let command = fit(&plain(&head.command), most);
    vec![first, Line::styled(command, Style::new().fg(Color::Green))]
}

/// Why calls ran on the host, in one line.
fn reasons(look: &Look, most: usize) -> Option<Line<'static>> {
    let mut sum = Calls::default();
    look.total.calls.values().for_each(|calls| sum.add(calls));
    if sum.host == 0 {
        return None;
    }
    let why = told(&sum);
    Some(Line::from(vec![
        Span::styled("host calls  ", bold()),
        Span::raw(fit(&why, most.saturating_sub(12))),
    ]))
}

/// What does not work as it should, in at most `lines` lines.
fn degraded(look: &Look, most: usize, lines: usize) -> Vec<Line<'static>> {
    let mut out = Vec::new();
    for name in &look.total.degraded {
        let known = Degraded::ALL.iter().find(|known| known.name() == name);
        let meaning = known.map_or_else(|| plain(name), |known| known.doc().replace('`', ""));
        for (i, text) in wrapped(&meaning, most.saturating_sub(12))
            .into_iter()
            .enumerate()
        {
            let title = if i == 0 {
                "degraded    "
            } else {
                "            "
            };
            out.push((title, text));
        }
    }
    let more = out.len() > lines;
    out.truncate(lines);
    if more && let Some((_, last)) = out.last_mut() {
        *last = fit(&format!("{last} \u{2026}"), most.saturating_sub(12));
    }
    let line = |(title, text)| {
        Line::from(vec![
            Span::styled(title, warning().add_modifier(Modifier::BOLD)),
            Span::styled(text, warning()),
        ])
    };
    out.into_iter().map(line).collect()
}

fn refused(head: &Head, most: usize) -> Option<Line<'static>> {
    let text = format!("{} processes found no room to count", head.refused);
    (head.refused > 0).then(|| Line::styled(fit(&text, most), warning()))
}

/// The tables: that of the chosen tab, and the others where there is room for them.
fn sections(look: &Look, choice: &Choice, most: usize, room: usize) -> Vec<Line<'static>> {
    let (columns, rows) = tables::of(choice.tab, look, choice.order);
    let mut texts = table(&columns, &rows, most);
    // A blank line, a title, the head and the rows.
    let needs = |tab: Tab| tables::of(tab, look, choice.order).1.len() + 3;
    // Half of the lines at least are those of the chosen table, unless it is shorter.
    let mine = (texts.len() + 1).min(room.div_ceil(2));
    let mut room_here = room;
    let mut others = Vec::new();
    for tab in Tab::ALL.into_iter().filter(|tab| *tab != choice.tab) {
        let lines = needs(tab).min(OTHER);
        if lines > 3 && room_here >= mine + lines {
            others.push((tab, lines));
            room_here -= lines;
        }
    }
    let visible = room_here.saturating_sub(2);
    let skip = choice.skip.min(rows.len().saturating_sub(visible));
    let shown = rows.len().saturating_sub(skip).min(visible);
    let place = match shown < rows.len() {
        true => format!("{}-{} of {}", skip + 1, skip + shown, rows.len()),
        false => String::new(),
    };
    let mut out = vec![tabs(choice.tab, &place, most)];
    out.push(head_of_table(&texts.remove(0), most));
    let body = texts.into_iter().skip(skip).take(visible);
    out.extend(body.map(Line::from));
    for (tab, lines) in others {
        let (columns, rows) = tables::of(tab, look, choice.order);
        let mut texts = table(&columns, &rows, most);
        out.push(Line::default());
        out.push(Line::styled(fit(tab.title(), most), bold()));
        out.push(head_of_table(&texts.remove(0), most));
        out.extend(texts.into_iter().take(lines - 3).map(Line::from));
    }
    out
}

fn head_of_table(text: &str, most: usize) -> Line<'static> {
    Line::styled(filled(text, most, true), bar())
}

/// The names of the tables, the chosen one marked, and which of its rows are shown.
fn tabs(chosen: Tab, place: &str, most: usize) -> Line<'static> {
    let mut spans = Vec::new();
    let mut used = 0;
    for tab in Tab::ALL {
        let style = match tab == chosen {
            true => bold().add_modifier(Modifier::UNDERLINED),
            false => dim(),
        };
        let title = fit(tab.title(), most.saturating_sub(used));
        used += width(&title) + 2;
        spans.push(Span::styled(title, style));
        spans.push(Span::raw("  "));
    }
    if used + width(place) <= most {
        spans.push(Span::styled(
            filled(place, most - used, false),
            Style::default(),
        ));
    }
    Line::from(spans)
}

/// The last line: which keys do what, or that the run has ended.
fn keys(head: &Head, choice: &Choice, most: usize) -> Line<'static> {
    if head.ended {
        let text = fit("The run has ended. Any key closes this page.", most);
        return Line::styled(text, warning().add_modifier(Modifier::BOLD));
    }
    let order = format!("order: {}", choice.order.title());
    let mut spans = Vec::new();
    let mut used = 0;
    for (key, what) in [
        ("q", "quit"),
        ("p", "next table"),
        ("o", &order),
        ("\u{2191}\u{2193}", "scroll"),
    ] {
        let needed = width(key) + 1 + width(what) + 2;
        if used + needed > most + 2 {
            break;
        }
        used += needed;
        spans.push(Span::styled(key, bold()));
        spans.push(Span::styled(format!(" {what}  "), dim()));
    }
    Line::from(spans)
}
