//! Golden protocol files: a list of events, and the actions that the directory answers with.
//!
//! Each `tests/scenarios/*.scn` of the repository is played; the indented lines under an event are what is
//! expected. `SEMCACHE_BLESS=1` rewrites them, so that a change of the protocol is read as a diff.
//!
//! ```text
//! # A comment.
//! alloc A extent=32768 panel=4096 page=4096 tracked=0..32768 content=32000     padding from 32000 on
//! replica A 1 dev0 0..32768
//! A device-read 1 512+64/512*8          8 runs of 64 bytes from 512, 512 apart
//!     protect 0..8192 read
//!     copy host -> 1 512+64/512*8
//! ```
//!
//! `links=2` on the line of an allocation: two devices whose links to each other are faster than those to the host.
//!
//! Events: `enclose RECT`, `device-read R RECT`, `device-write R RECT [keep]`, `cpu-read A..B`,
//! `cpu-write A..B`, `dirty A..B ...`, `write-back RECT`, `settle RECT`, `evict R`, `flush`, `lost devN`,
//! `write-through A..B on|off`. `show` prints the state. Text after two spaces is a remark.
#![allow(
    clippy::disallowed_methods,
    reason = "a test program, not the library in a user's process"
)]
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeMap;
use std::path::Path;

use semcache::base::{Access, DeviceId, Interval, Links, Rect, RectSet, ReplicaId};
use semcache::directory::{Action, Allocation, Event, Place};

#[test]
fn scenarios_have_the_expected_actions() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/scenarios");
    let bless = std::env::var_os("SEMCACHE_BLESS").is_some_and(|value| value == "1");
    let entries = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|ext| ext == "scn"));
    files.sort();
    assert!(files.len() >= 11, "only {} scenarios found", files.len());
    let mut wrong = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        let played = play(&text, &path);
        if played == text {
            continue;
        }
        if bless {
            std::fs::write(&path, played).unwrap();
            continue;
        }
        let same = |(a, b): &(&str, &str)| a == b;
        let at = played.lines().zip(text.lines()).take_while(same).count();
        let (got, want) = (played.lines().nth(at), text.lines().nth(at));
        wrong.push(format!(
            "{}:{}: got {got:?}, expected {want:?}",
            path.display(),
            at + 1
        ));
    }
    assert!(
        wrong.is_empty(),
        "{}\n(SEMCACHE_BLESS=1 accepts what is)",
        wrong.join("\n")
    );
}

/// The text, with the directory's answer under each event.
fn play(text: &str, path: &Path) -> String {
    let mut out = String::new();
    let mut allocs: BTreeMap<String, Allocation> = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        if line.starts_with("    ") {
            continue;
        }
        out.push_str(line);
        out.push('\n');
        let code = line.split_once("  ").map_or(line, |(code, _)| code);
        let words: Vec<&str> = code.split_whitespace().collect();
        if words.is_empty() || code.starts_with('#') {
            continue;
        }
        let Some(answer) = act(&words, &mut allocs) else {
            panic!("{}:{}: not understood: {line}", path.display(), number + 1);
        };
        for line in answer {
            out.push_str("    ");
            out.push_str(&line);
            out.push('\n');
        }
    }
    out
}

fn act(words: &[&str], allocs: &mut BTreeMap<String, Allocation>) -> Option<Vec<String>> {
    match words {
        ["alloc", name, options @ ..] => {
            let option = |key: &str| {
                options
                    .iter()
                    .find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
            };
            let number = |key| option(key)?.parse().ok();
            let tracked = interval(option("tracked")?)?;
            let (extent, panel, page) = (number("extent")?, number("panel")?, number("page")?);
            let content = number("content").unwrap_or(extent);
            let links = number("links").map_or_else(Links::default, Links::fast);
            let alloc = Allocation::new(extent, panel, page, tracked)
                .with_content(content)
                .with_links(links);
            allocs.insert((*name).to_owned(), alloc);
            Some(Vec::new())
        }
        ["replica", name, id, on, rect_] => {
            allocs
                .get_mut(*name)?
                .add_replica(replica(id)?, device(on)?, rect(rect_)?);
            Some(Vec::new())
        }
        [name, "show"] => Some(show(allocs.get(*name)?)),
        [name, event_ @ ..] => {
            let alloc = allocs.get_mut(*name)?;
            let mut actions = Vec::new();
            let answer = alloc.step(&event(event_)?, &mut actions);
            alloc.check().unwrap();
            Some(match answer {
                Ok(_) => actions.iter().map(describe).collect(),
                Err(illegal) => vec![format!("illegal: {illegal}")],
            })
        }
        [] => None,
    }
}

fn event(words: &[&str]) -> Option<Event> {
    Some(match words {
        ["device-read", id, rect_] => Event::DeviceRead {
            replica: replica(id)?,
            rect: rect(rect_)?,
        },
        ["device-write", id, rect_, rest @ ..] => Event::DeviceWrite {
            replica: replica(id)?,
            rect: rect(rect_)?,
            keep: flag(rest, "keep")?,
        },
        ["cpu-read", span] => Event::CpuRead {
            span: interval(span)?,
        },
        ["cpu-write", span] => Event::CpuWrite {
            span: interval(span)?,
        },
        ["dirty", pages @ ..] => {
            let pages = pages
                .iter()
                .map(|page| interval(page))
                .collect::<Option<_>>()?;
            Event::Dirty { pages }
        }
        ["enclose", rect_] => Event::Enclose { rect: rect(rect_)? },
        ["write-back", rect_] => Event::WriteBack { rect: rect(rect_)? },
        ["settle", rect_] => Event::Settle { rect: rect(rect_)? },
        ["evict", id] => Event::Evict {
            replica: replica(id)?,
        },
        ["flush"] => Event::Flush,
        ["lost", on] => Event::Lost {
            device: device(on)?,
        },
        ["write-through", span, on @ ("on" | "off")] => Event::WriteThrough {
            span: interval(span)?,
            on: *on == "on",
        },
        _ => return None,
    })
}

fn flag(rest: &[&str], name: &str) -> Option<bool> {
    match rest {
        [] => Some(false),
        [word] if *word == name => Some(true),
        _ => None,
    }
}

fn replica(word: &str) -> Option<ReplicaId> {
    word.parse().ok().map(ReplicaId)
}

fn device(word: &str) -> Option<DeviceId> {
    word.strip_prefix("dev")?.parse().ok().map(DeviceId)
}

fn interval(word: &str) -> Option<Interval> {
    let (start, end) = word.split_once("..")?;
    Some(Interval::new(start.parse().ok()?, end.parse().ok()?))
}

fn rect(word: &str) -> Option<Rect> {
    if let Some(span) = interval(word) {
        return Some(Rect::from(span));
    }
    let (start, rest) = word.split_once('+')?;
    let (width, rest) = rest.split_once('/')?;
    let (stride, count) = rest.split_once('*')?;
    let (start, width) = (start.parse().ok()?, width.parse().ok()?);
    Rect::try_new(start, width, stride.parse().ok()?, count.parse().ok()?)
}

fn describe(action: &Action) -> String {
    let place = |place: &Place| match place {
        Place::Host => "host".to_owned(),
        Place::Replica(id) => id.0.to_string(),
    };
    match action {
        Action::Protect { span, access } => {
            format!("protect {} {}", show_span(*span), name(*access))
        }
        Action::Copy { from, to, rect } => {
            format!("copy {} -> {} {}", place(from), place(to), show_rect(rect))
        }
        Action::Invalid { replica, rect } => format!("invalid {} {}", replica.0, show_rect(rect)),
        Action::Drop { replica } => format!("drop {}", replica.0),
        Action::LostData { rect } => format!("lost-data {}", show_rect(rect)),
    }
}

fn show(alloc: &Allocation) -> Vec<String> {
    let list = |set: &RectSet| {
        let rects: Vec<_> = set.iter().map(show_rect).collect();
        if rects.is_empty() {
            "nothing".to_owned()
        } else {
            rects.join(" ")
        }
    };
    let mut lines = vec![format!("stale {}", list(alloc.stale()))];
    for (id, replica) in alloc.replicas() {
        lines.push(format!("valid {} {}", id.0, list(&replica.valid)));
    }
    let mut runs = Vec::new();
    alloc.access_runs(alloc.tracked(), &mut runs);
    for (span, access) in runs {
        lines.push(format!("access {} {}", show_span(span), name(access)));
    }
    lines
}

fn show_rect(rect: &Rect) -> String {
    if rect.is_interval() {
        return show_span(rect.span());
    }
    format!(
        "{}+{}/{}*{}",
        rect.start, rect.width, rect.stride, rect.count
    )
}

fn show_span(span: Interval) -> String {
    format!("{}..{}", span.start, span.end)
}

fn name(access: Access) -> &'static str {
    match access {
        Access::None => "none",
        Access::Read => "read",
        Access::ReadWrite => "open",
    }
}
