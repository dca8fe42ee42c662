//! Charts of traces made by hand.

use std::time::{Duration, Instant};

use embedded_graphics::pixelcolor::Rgb888;

use super::bars::{Bars, Kind};
use super::chart::{Chart, Most};
use super::picture::{LEFT, TOP, WIDTH, colour, png};
use super::text::page;
use super::window::{Choice, Window};
use super::write_file;
use crate::trace::model::{Did, Trace, What};
use crate::trace::tests::hand::{Hand, IN, OUT, id};

/// A call that returns before its kernel has run, beside the copies of another.
fn hand() -> Trace {
    Hand::new(2)
        .call(1, (0, 40))
        .slice(1, "wait", (10, 20), Did::Wait(id(0, IN, 1)))
        .call(2, (200, 210))
        .op(id(0, IN, 1), What::Upload, 1, 5, (8, 20), &[])
        .op(id(1, OUT, 1), What::Download, 2, 5, (50, 60), &[])
        .kernel(1, 1, 15, (20, 100))
        .done()
}

#[test]
fn a_call_as_text() {
    let page = page(&hand(), Choice::Call(1), 72).expect("a page");
    let expected = "\
prog: call 1 (dgemm), 8 x 8 x 8, on devices, of thread 7: 100 us from 0.000000 s
device 0 sim0      copies in  |  ▄▄▄▄▄                           |  12 %
                   copies out |                                  |   0 %
                   kernels    |      ████████████████████████████|  80 %
device 1 sim1      copies in  |                                  |   0 %
                   copies out |                 ▔▔▔▔             |  10 %
                   kernels    |                                  |   0 %
thread 7 main                 |━━━░░░░━━━━━━━                    |
";
    let rows: String = page.lines().take(8).map(|l| l.to_owned() + "\n").collect();
    assert_eq!(rows, expected, "{page}");
    assert!(
        page.contains("of this call: ▄ upload   █ kernel   ░ wait   ━ call\n"),
        "{page}"
    );
    assert!(page.contains("of others:    ▔ download\n"), "{page}");
    assert!(page.contains("0 us") && page.contains("50 us"), "{page}");
}

#[test]
fn windows_and_what_they_lack() {
    let trace = hand();
    let of = |call, from, to| page(&trace, Choice::of(call, from, to)?, 72);
    assert_eq!(of(Some("longest"), None, None), of(Some("1"), None, None));
    let empty = of(None, Some("1"), Some("2")).expect("a page");
    assert!(empty.contains("No operation"), "{empty}");
    for (call, from, to, error) in [
        (
            Some("9"),
            None,
            None,
            "no call or fault 9; its calls have numbers from 1 to 2",
        ),
        (Some("x"), None, None, "neither the number"),
        (Some("1"), Some("0"), None, "--call has a window"),
        (None, Some("-1"), None, "not a number of seconds"),
        (None, Some("1"), None, "the trace ends at 0.00021 s"),
        (None, Some("2"), Some("1"), "--to 1 is not later"),
    ] {
        let told = of(call, from, to).expect_err("an error");
        assert!(told.contains(error) && !told.contains('\n'), "{told}");
    }
}

#[test]
fn odd_traces_have_charts() {
    let mut backwards = hand();
    backwards.devices[0].lanes[0].ops[0].to = 0;
    (backwards.from, backwards.to) = (9, 3);
    let mut late = hand();
    (late.from, late.to) = (0, u64::MAX);
    late.devices[0].lanes[2].ops[0].to = u64::MAX;
    let instant = Hand::new(1).kernel(1, 0, 0, (5, 5)).done();
    for trace in [Trace::default(), instant, backwards, late] {
        for choice in [
            Choice::All,
            Choice::Call(1),
            Choice::Longest,
            Choice::Between(Some(0.0), Some(1e300)),
            Choice::Between(None, Some(1e-9)),
        ] {
            let _ = png(&trace, choice);
            for width in [0, 61, usize::MAX] {
                let _ = page(&trace, choice, width);
            }
        }
    }
    let instant = Hand::new(1).kernel(1, 0, 0, (5, 5)).done();
    let page = page(&instant, Choice::All, 72).expect("a page");
    assert!(page.contains('█'), "{page}");
}

#[test]
fn shares_are_exact_and_short_slices_are_there() {
    let mut bars = Bars::new(Window::new(0, 1000), 10);
    assert!(bars.add(Kind::Kernel, true, 150, 400));
    assert!(bars.add(Kind::Kernel, true, 999, 999));
    assert!(!bars.add(Kind::Kernel, true, 1000, 1200));
    let shares = bars.columns();
    let shares: Vec<f64> = shares
        .iter()
        .map(|c| c.iter().map(|p| p.share).sum())
        .collect();
    assert_eq!(shares[..5], [0.0, 0.5, 1.0, 1.0, 0.0]);
    assert!(shares[9] > 0.0);
}

#[test]
fn ten_million_long_slices_take_seconds() {
    let begin = Instant::now();
    let mut bars = Bars::new(Window::new(0, 20_000_000), 1600);
    for at in 0..10_000_000 {
        bars.add(Kind::Kernel, true, at, 20_000_000 - at);
    }
    assert_eq!(bars.columns().len(), 1600);
    assert!(begin.elapsed() < Duration::from_secs(20));
}

#[test]
fn what_has_no_row_is_told() {
    let most = Most {
        devices: 1,
        threads: 0,
    };
    let chart = Chart::new(&hand(), Choice::All, 100, most).expect("a chart");
    let told = "Not shown: 1 more device and 1 more thread, less busy in this time.";
    assert_eq!(chart.omitted.as_deref(), Some(told));
    assert_eq!(chart.rows.len(), 3);
    assert!(chart.rows[0].owner.starts_with("device 0"));
}

/// The size of a PNG file's picture and its bytes, three for each pixel.
fn decoded(file: &[u8]) -> (usize, usize, Vec<u8>) {
    let mut reader = png::Decoder::new(std::io::Cursor::new(file))
        .read_info()
        .expect("a header");
    let mut bytes = vec![0; reader.output_buffer_size().expect("a size")];
    let info = reader.next_frame(&mut bytes).expect("a picture");
    (info.width as usize, info.height as usize, bytes)
}

#[test]
fn a_picture_has_bars_of_the_colours_of_their_kinds() {
    let file = png(&hand(), Choice::Call(1)).expect("a picture");
    let (width, height, bytes) = decoded(&file);
    assert_eq!((width, bytes.len()), (WIDTH, 3 * WIDTH * height));
    // The third row of the first device: its kernel runs from a fifth of the window to its end.
    let pixel = |x: usize, row: usize| {
        let at = 3 * ((TOP + 8 + 30 * row + 5) * WIDTH + x);
        Rgb888::new(bytes[at], bytes[at + 1], bytes[at + 2])
    };
    assert_eq!(pixel(LEFT + 1000, 2), colour(Kind::Kernel, true));
    assert_ne!(pixel(LEFT + 100, 2), colour(Kind::Kernel, true));
    let empty = png(&hand(), Choice::Between(Some(1.0), Some(2.0))).expect("a picture");
    assert_eq!(decoded(&empty).0, WIDTH);
}

#[test]
fn a_picture_replaces_a_regular_file_only() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("chart.png");
    for bytes in [&b"one"[..], b"two"] {
        write_file(&path, bytes).expect("written");
        assert_eq!(std::fs::read(&path).expect("the file"), bytes);
    }
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&path, &link).expect("a link");
    for refused in [
        link.as_path(),
        dir.path(),
        &dir.path().join("none/chart.png"),
    ] {
        write_file(refused, b"three").expect_err("refused");
    }
    assert_eq!(std::fs::read_dir(&dir).expect("the folder").count(), 2);
    assert_eq!(std::fs::read(&path).expect("the file"), b"two");
}
