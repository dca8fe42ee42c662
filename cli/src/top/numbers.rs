//! The counts of a run, in all and per second.

use ratatui_core::style::{Color, Modifier, Style};
use ratatui_core::text::{Line, Span};
use semcache::runtime::report::Did;
use semcache::runtime::report::table::human;

use super::rates::{Look, faults, moved, on_host};
use super::words::{bytes_rate, filled, fit, rate};

/// A number with its name.
struct Entry {
    name: &'static str,
    of: fn(&Did) -> u64,
    is_bytes: bool,
}

const fn count(name: &'static str, of: fn(&Did) -> u64) -> Entry {
    Entry {
        name,
        of,
        is_bytes: false,
    }
}

const fn bytes(name: &'static str, of: fn(&Did) -> u64) -> Entry {
    Entry {
        name,
        of,
        is_bytes: true,
    }
}

/// The bytes that came from devices: those in mapped memory, too, from which the calling thread copied them.
fn to_host(did: &Did) -> u64 {
    did.counts.bytes.d2h + did.counts.bytes.mapped
}

fn sparse_on_host(did: &Did) -> u64 {
    did.counts.sparse_host + did.counts.sparse_passed
}

const DEVICES: Entry = count("calls on devices", Did::offloaded);
const HOST: Entry = count("calls on host", on_host);
const UPLOADED: Entry = bytes("to devices", |did| did.counts.bytes.h2d);
const WRITTEN_BACK: Entry = bytes("to the host", to_host);
const BETWEEN: Entry = bytes("between devices", |did| did.counts.bytes.p2p);
const MOVED: Entry = bytes("bytes moved", moved);
const FAULTS: Entry = count("page faults", faults);
const HITS: Entry = count("cache hits", |did| did.counts.cache.hits);
const MISSES: Entry = count("cache misses", |did| did.counts.cache.misses);
const EVICTIONS: Entry = count("evictions", |did| did.counts.cache.evictions);
const CLOSES: Entry = count("closes", |did| did.counts.cache.closes);
const SPARSE: Entry = count("sparse, devices", |did| did.counts.sparse);
const SPARSE_HOST: Entry = count("sparse, host", sparse_on_host);

/// The least width for two numbers beside each other, the width of one of them, and the spaces between two.
const TWO: usize = 76;
const WIDEST: usize = 44;
const GAP: usize = 4;

/// At most `room` lines, the first of which is the head.
pub(super) fn lines(look: &Look, whole: bool, most: usize, room: usize) -> Vec<Line<'static>> {
    let mut left = vec![DEVICES, HOST, FAULTS, EVICTIONS, CLOSES];
    let mut right = vec![UPLOADED, WRITTEN_BACK, BETWEEN, HITS, MISSES];
    if look.total.counts.sparse + sparse_on_host(&look.total) > 0 {
        left.push(SPARSE);
        right.push(SPARSE_HOST);
    }
    let two = most >= TWO;
    if !two {
        // What says most comes first.
        left = vec![
            DEVICES,
            HOST,
            MOVED,
            FAULTS,
            HITS,
            MISSES,
            EVICTIONS,
            CLOSES,
            UPLOADED,
            WRITTEN_BACK,
            BETWEEN,
        ];
        right.clear();
    }
    let columns = if two {
        ((most - GAP) / 2).min(WIDEST)
    } else {
        most.min(WIDEST)
    };
    let per_second = if whole { "mean/s" } else { "per second" };
    let head = three(["", per_second, "total"], columns);
    let style = Style::new().fg(Color::DarkGray);
    let mut out = vec![match two {
        true => Line::styled(head.concat() + &" ".repeat(GAP) + &head.concat(), style),
        false => Line::styled(head.concat(), style),
    }];
    for (i, entry) in left.iter().enumerate() {
        let mut spans = spans(entry, look, columns);
        if let Some(entry) = right.get(i) {
            spans.push(Span::raw(" ".repeat(GAP)));
            spans.extend(self::spans(entry, look, columns));
        }
        out.push(Line::from(spans));
    }
    out.truncate(room);
    out
}

/// A name, a rate and a sum in `columns` columns.
fn three(texts: [&str; 3], columns: usize) -> [String; 3] {
    let number = (columns * 3 / 10).max(1);
    let name = columns.saturating_sub(2 * number);
    [
        filled(texts[0], name, true),
        filled(texts[1], number, false),
        filled(&fit(texts[2], number.saturating_sub(1)), number, false),
    ]
}

fn spans(entry: &Entry, look: &Look, columns: usize) -> Vec<Span<'static>> {
    let (total, since) = ((entry.of)(&look.total), (entry.of)(&look.since));
    let per_second = look.per_second(since);
    let (per_second, total) = match entry.is_bytes {
        true => (bytes_rate(per_second), human(total)),
        false => (rate(per_second), total.to_string()),
    };
    let [name, per_second, total] = three([entry.name, &per_second, &total], columns);
    let busy = match since {
        0 => Style::default(),
        _ => Style::new().add_modifier(Modifier::BOLD),
    };
    vec![
        Span::styled(name, Style::new().fg(Color::Cyan)),
        Span::styled(per_second, busy),
        Span::raw(total),
    ]
}
