//! The page in terminals of several sizes, from made-up counters; `SEMCACHE_GOLDEN=write` writes the pages in `cli/tests/top` and
//! the picture in `docs` anew.

use std::fmt::Write as _;
use std::path::Path;

use ratatui_core::backend::TestBackend;
use ratatui_core::buffer::Buffer;
use ratatui_core::style::{Color, Modifier};
use ratatui_core::terminal::Terminal;
use semcache::runtime::report::Process;

use super::page::{self, Choice, Head};
use super::rates::{Look, Watch};
use super::screen::draw;
use super::tables::{Order, Tab};

/// A rank of a job after `n` steps.
fn rank(number: u32, n: u64, command: &str) -> Process {
    let gpu = |share: u64| {
        format!(
            r#"{{"name":"NVIDIA H100 80GB HBM3","kind":"cuda","memory":84000000000,"calls":{},"tasks":{},
                "h2d":{},"d2h":{},"p2p":{}}}"#,
            n * 40,
            n * 320 / share,
            n * 120_000_000 / share,
            n * 9_000_000 / share,
            n * 2_000_000
        )
    };
    let text = format!(
        r#"{{"devices":[{},{}],
        "calls":{{
            "dgemm":{{"offloaded":{},"host":{},"why_host":{{"small":{},"starting":7}}}},
            "dtrsm":{{"offloaded":{},"host":0,"why_host":{{}}}},
            "dsyrk":{{"offloaded":{},"host":3,"why_host":{{"predicted_slower":3}}}},
            "ddot":{{"offloaded":0,"host":{},"why_host":{{"small":{}}}}}}},
        "bytes":{{"h2d":{},"d2h":{},"p2p":{}}},
        "faults":{{"read":{},"write":{}}},
        "cache":{{"hits":{},"misses":{},"evictions":{},"closes":{}}},
        "degraded":["map_limit"]}}"#,
        gpu(1),
        gpu(2),
        n * 40,
        n * 12 + 7,
        n * 12,
        n * 6,
        n * 3,
        n * 900,
        n * 900,
        n * 180_000_000,
        n * 13_500_000,
        n * 4_000_000,
        n * 2,
        n / 2,
        n * 400,
        n * 25,
        n / 8,
        n * 4,
    );
    Process {
        pid: 48_210 + number,
        parent: 48_200,
        rank: Some(number),
        command: command.to_owned(),
        processes: 1,
        begun_s: 1000.0 + f64::from(number) / 8.0,
        seconds: n as f64,
        ended: number == 3,
        did: serde_json::from_str(&text).expect("what a process did"),
    }
}

/// Two looks at a job of four ranks, a second apart, of which one has ended.
fn job() -> (Head, Look) {
    let command = "python3 train.py --steps 400 --order 16384";
    let ranks = |n: u64| -> Vec<Process> {
        (0..4)
            .map(|i| rank(i, if i == 3 { 57 } else { n + u64::from(i) * 3 }, command))
            .collect()
    };
    let mut watch = Watch::new(1000.0);
    watch.look(1132.0, ranks(131));
    let mut look = watch.look(1133.0, ranks(132));
    // Rank 2 is ahead.
    look.rows[2]
        .since
        .calls
        .entry("dgemm".to_owned())
        .or_default()
        .offloaded += 9;
    let head = Head {
        run: "1f3a9c0d2b4e-48200".to_owned(),
        command: "semcache run --devices cuda:0,1 -- mpirun -n 4 python3 train.py --steps 400 --order 16384".to_owned(),
        seconds: 133.0,
        ..Head::default()
    };
    (head, look)
}

/// What a terminal of this size shows.
fn shown(head: &Head, look: &Look, choice: &Choice, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    let drawn = terminal.draw(|frame| draw(frame, head, look, choice));
    drawn.expect("a page");
    terminal.backend().buffer().clone()
}

fn lines(buffer: &Buffer) -> Vec<String> {
    let width = usize::from(buffer.area.width);
    let rows = buffer.content().chunks(width);
    rows.map(|row| {
        let row: String = row.iter().map(|cell| cell.symbol()).collect();
        row.trim_end().to_owned()
    })
    .collect()
}

fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    if std::env::var("SEMCACHE_GOLDEN").is_ok_and(|v| v == "write") {
        std::fs::write(&path, text).expect("a writable file");
        return;
    }
    let wanted = std::fs::read_to_string(&path).expect("a golden file");
    assert_eq!(text, wanted, "{name} (SEMCACHE_GOLDEN=write writes it)");
}

#[test]
fn pages_are_the_golden_ones() {
    let (head, look) = job();
    for (width, height) in [(80, 24), (40, 12), (200, 60)] {
        let buffer = shown(&head, &look, &Choice::default(), width, height);
        let text = lines(&buffer).join("\n") + "\n";
        golden(&format!("tests/top/{width}x{height}.txt"), &text);
    }
}

/// The cells of a line: two spaces or more are between them.
fn cells(line: &str) -> Vec<&str> {
    line.split("  ")
        .map(str::trim)
        .filter(|cell| !cell.is_empty())
        .collect()
}

#[test]
fn every_size_shows_every_table_without_overlap() {
    let (mut head, look) = job();
    for (width, height) in [
        (80, 24),
        (40, 12),
        (200, 60),
        (60, 30),
        (20, 5),
        (1, 1),
        (3, 40),
    ] {
        for tab in Tab::ALL {
            for (ended, skip) in [(false, 0), (true, 0), (false, 1000)] {
                head.ended = ended;
                let choice = Choice {
                    tab,
                    skip,
                    order: Order::Total,
                };
                let buffer = shown(&head, &look, &choice, width, height);
                let lines = lines(&buffer);
                assert_eq!(lines.len(), usize::from(height));
                if width < 40 {
                    continue;
                }
                let titles = ["routine ", "process ", "device "];
                let heads: Vec<usize> = (0..lines.len())
                    .filter(|i| titles.iter().any(|title| lines[*i].starts_with(title)))
                    .collect();
                assert!(!heads.is_empty(), "{}", lines.join("\n"));
                for at in heads {
                    let columns = cells(&lines[at]).len();
                    let rows = lines[at + 1..lines.len() - 1].iter();
                    for row in rows.take_while(|line| !line.is_empty()) {
                        // The last cell, the reasons, may be empty.
                        let found = cells(row).len();
                        assert!(
                            found == columns || found + 1 == columns,
                            "{}",
                            lines.join("\n")
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn tables_are_sorted_and_scrolled() {
    let (head, look) = job();
    let first = |tab, order, skip| {
        let choice = Choice { tab, order, skip };
        let lines = lines(&shown(&head, &look, &choice, 80, 24));
        let at = lines
            .iter()
            .position(|line| line.contains("devices/s"))
            .expect("a table");
        lines[at + 1]
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    // Most calls are those of ddot.
    assert_eq!(first(Tab::Routines, Order::Busiest, 0), "ddot");
    assert_eq!(first(Tab::Routines, Order::Name, 1), "ddot");
    assert_eq!(first(Tab::Processes, Order::Busiest, 0), "48212");
    assert_eq!(first(Tab::Processes, Order::Name, 0), "48210");
    let choice = Choice {
        tab: Tab::Processes,
        order: Order::Name,
        skip: 9,
    };
    let small = lines(&shown(&head, &look, &choice, 40, 12));
    assert!(
        small.iter().any(|line| line.ends_with(" of 4")),
        "{}",
        small.join("\n")
    );
}

#[test]
fn names_cannot_command_the_terminal() {
    let mut process = rank(0, 5, "evil\u{1b}[2J\u{202e}\nname");
    process.did.devices[0].name = "sim\u{7}0".to_owned();
    let look = Watch::new(0.0).look(1.0, vec![process]);
    let head = Head {
        command: "a\u{1b}]0;title\u{7}".to_owned(),
        run: "r\u{9b}".to_owned(),
        ..Head::default()
    };
    let all = Tab::ALL.map(|tab| {
        let choice = Choice {
            tab,
            ..Choice::default()
        };
        lines(&shown(&head, &look, &choice, 200, 60)).join("\n")
    });
    for text in all.into_iter().chain([page::text(&head, &look, 400)]) {
        assert!(
            text.chars()
                .all(|c| c == '\n' || !(c.is_control() || c == '\u{202e}')),
            "{text}"
        );
        assert!(text.contains(r"evil\u{1b}[2J\u{202e}\nname"), "{text}");
    }
}

#[test]
fn text_says_all() {
    let (mut head, look) = job();
    head.refused = 3;
    let text = page::text(&head, &look, 400);
    for part in [
        "4 processes, 3 running",
        "too small to gain",
        "made while devices were starting",
        "The process is near vm.max_map_count: pages that could not be protected stay accessible, and results in them are copied",
        "3 processes found no room",
        "NVIDIA H100 80GB HBM3",
        "--steps 400 --order 16384",
    ] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    head.ended = true;
    let ended = lines(&shown(&head, &look, &Choice::default(), 80, 24));
    assert!(ended[0].ends_with("ended after 2:13"), "{}", ended[0]);
    assert!(ended[23].starts_with("The run has ended"), "{}", ended[23]);
}

/// A run that has just begun has no numbers yet.
#[test]
fn nothing_is_shown_of_nothing() {
    let look = Watch::new(0.0).look(0.0, Vec::new());
    for tab in Tab::ALL {
        let choice = Choice {
            tab,
            ..Choice::default()
        };
        let lines = lines(&shown(&Head::default(), &look, &choice, 80, 24));
        assert!(lines[0].contains("0 processes"), "{}", lines.join("\n"));
    }
}

#[test]
fn the_picture_in_docs_is_the_page() {
    let (head, look) = job();
    golden(
        "../docs/top.svg",
        &svg(&shown(&head, &look, &Choice::default(), 80, 24)),
    );
}

/// The size of a character, and the margin around the page.
const WIDTH: f64 = 8.43;
const HEIGHT: f64 = 18.0;
const MARGIN: f64 = 14.0;

fn paint(color: Color, otherwise: &'static str) -> &'static str {
    match color {
        Color::Black => "#11151c",
        Color::Green => "#9ece6a",
        Color::Yellow => "#e0af68",
        Color::Cyan => "#7dcfff",
        Color::DarkGray => "#7a84a6",
        _ => otherwise,
    }
}

/// A screen as a picture.
fn svg(buffer: &Buffer) -> String {
    let (columns, rows) = (
        usize::from(buffer.area.width),
        f64::from(buffer.area.height),
    );
    let (width, height) = (
        columns as f64 * WIDTH + 2.0 * MARGIN,
        rows * HEIGHT + 2.0 * MARGIN,
    );
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.1} {height:.1}\"\n  \
         font-family=\"DejaVu Sans Mono, Menlo, Consolas, monospace\" font-size=\"14\">\n\
         <title>semcache top</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#1a1b26\"/>\n"
    );
    for (y, row) in buffer.content().chunks(columns).enumerate() {
        let top = MARGIN + y as f64 * HEIGHT;
        let mut x = 0;
        for run in row.chunk_by(|a, b| (a.fg, a.bg, a.modifier) == (b.fg, b.bg, b.modifier)) {
            let text: String = run.iter().map(|cell| cell.symbol()).collect();
            let left = MARGIN + x as f64 * WIDTH;
            let long = run.len() as f64 * WIDTH;
            x += run.len();
            let (cell, back) = (&run[0], paint(run[0].bg, ""));
            if !back.is_empty() {
                // Writing to a String does not fail.
                let _ = writeln!(
                    out,
                    "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{long:.1}\" height=\"{HEIGHT}\" fill=\"{back}\"/>"
                );
            }
            words(&mut out, &text, cell, left, top + HEIGHT * 0.72);
        }
    }
    out + "</svg>\n"
}

/// Each word at the place of its first character: fonts differ in their widths.
fn words(out: &mut String, text: &str, cell: &ratatui_core::buffer::Cell, left: f64, base: f64) {
    let mut style = format!("fill=\"{}\"", paint(cell.fg, "#c8d0e8"));
    if cell.modifier.contains(Modifier::BOLD) {
        style += " font-weight=\"bold\"";
    }
    if cell.modifier.contains(Modifier::UNDERLINED) {
        style += " text-decoration=\"underline\"";
    }
    let mut x = left;
    for word in text.split(' ') {
        if !word.is_empty() {
            let word = word.replace('&', "&amp;").replace('<', "&lt;");
            let _ = writeln!(
                out,
                "<text x=\"{x:.1}\" y=\"{base:.1}\" {style}>{word}</text>"
            );
        }
        x += (word.chars().count() + 1) as f64 * WIDTH;
    }
}
