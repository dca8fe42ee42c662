//! What a file of rates may say.

use super::*;
use crate::base::{DeviceId, DeviceSet, Dtype, Work};
use crate::model::decide::{self, Decision, Floor, Mode, OperandState, Question};

fn h100() -> Rates {
    Rates::h100(HostRates::of_cores(16))
}

/// A file with these lines behind its version.
fn file(lines: &str) -> Result<Given, String> {
    Given::parse(&format!("version = 1\n{lines}"))
}

/// A value of a figure that no table has, within its bounds, and as it is written.
fn odd(figure: &Figure<'_>) -> (f64, String) {
    let value = if figure.bounds == SHARE { 0.123 } else { 3.0 };
    let text = match figure.count {
        Count::One => value.to_string(),
        Count::All | Count::First => {
            format!("[{}]", vec![value.to_string(); figure.at.len()].join(", "))
        }
    };
    (value, text)
}

#[test]
fn every_key_replaces_its_figure_alone() {
    let mut table = h100();
    let paths: Vec<&str> = figures(&mut table).iter().map(|f| f.path).collect();
    assert_eq!(paths.len(), 36);
    for (i, path) in paths.iter().enumerate() {
        assert!(!paths[..i].contains(path), "{path} twice");
        let (value, text) = odd(&figures(&mut table)[i]);
        let mut rates = file(&format!("{path} = {text}")).expect(path).over(h100());
        assert_ne!(rates, h100(), "{path}");
        for (j, (ours, before)) in figures(&mut rates)
            .iter()
            .zip(figures(&mut h100()))
            .enumerate()
        {
            if i == j {
                assert!(ours.at.iter().all(|v| *v == value), "{path}: {ours:?}");
            } else {
                assert_eq!(ours.at, before.at, "{path} changes {}", ours.path);
            }
        }
    }
}

#[test]
fn what_is_missing_stays() {
    for text in [
        "",
        "# a comment\n[machine]\ngpu = \"any\"\ngpus = 2\n[device.h2d]\n[host]",
    ] {
        let given = file(text).expect(text);
        assert_eq!((given.over(h100()), given.figures), (h100(), vec![]));
    }
}

#[test]
fn what_is_said_of_the_machine() {
    let given = file(
        "[machine]\ngpu = \"A\"\ngpus = 2\ncpu = \"B\"\nmeasured = \"2026-01-02\"\nthreads = 4\nunsettled = [\"x\"]",
    );
    let said = given.expect("a file").said().clone();
    let text = |t: &str| Some(t.to_owned());
    assert_eq!(
        said,
        Said {
            gpu: text("A"),
            gpus: Some(2),
            cpu: text("B"),
            measured: text("2026-01-02"),
            threads: Some(4),
        }
    );
    for bad in [
        "machine = 1",
        "[machine]",
        "[machine]\ngpu = 1\ncpu = [\"B\"]\nmeasured = 2026-01-02\nthreads = 1.5",
        "[machine]\ngpu = \"A\\u001b[1m\"\ncpu = \"B\\nC\"\nthreads = -1",
    ] {
        assert_eq!(file(bad).expect(bad).said(), &Said::default(), "{bad}");
    }
}

#[test]
fn figures_are_listed_by_kind() {
    let mut rates = h100();
    let mut other = *rates.of(DeviceId(0));
    other.launch_s = 9.0;
    rates.kinds = Kinds::new([*rates.of(DeviceId(0)), other]).expect("devices");
    for (kind, launch) in [(0, h100().of(DeviceId(0)).launch_s), (1, 9.0)] {
        let all = listed(&rates, kind);
        assert_eq!(all.len(), 36);
        assert!(all.contains(&("device.launch_s", vec![launch])));
        assert!(all.contains(&("pin", rates.pin.0.to_vec())));
    }
}

#[test]
fn what_a_file_may_have() {
    for (path, values) in [
        ("pin", &[1e9][..]),
        ("device.launch_s", &[1e-6]),
        ("host.gemm_flops", &[1.0; 4]),
    ] {
        assert!(allowed(path, values), "{path}");
    }
    for (path, values) in [
        ("pin", &[][..]),
        ("device.launch_s", &[0.0]),
        ("device.launch_s", &[f64::NAN]),
        ("host.gemm_flops", &[1.0; 3]),
        ("machine.gpu", &[1.0]),
    ] {
        assert!(!allowed(path, values), "{path}");
    }
}

#[test]
fn figures_hold_for_the_number_of_gpus_that_they_were_measured_with() {
    let lines = "task_s = 1.0\npin = [1.0]\nh2d_all = [1.0]\nd2h_all = [1.0]\nhost.call_s = 1.0\n";
    let given = file(&format!("{lines}[machine]\ngpus = 2")).expect("a file");
    for (gpus, totals) in [(2, true), (1, true), (3, false)] {
        let used = given.clone().used_with(gpus);
        for path in ["pin", "h2d_all", "d2h_all"] {
            assert_eq!(used.has(path), totals, "{gpus} {path}");
        }
        assert!(used.has("task_s") && !used.has("host.call_s"));
    }
    let eight = file(&format!("{lines}[machine]\ngpus = 8")).expect("a file");
    assert!(eight.used_with(16).has("pin"));
    let unsaid = file(lines).expect("a file").used_with(1);
    assert!(!unsaid.has("pin") && unsaid.has("task_s"));
}

#[test]
fn sections_and_lists() {
    let given = file(
        "h2d_all = [50e9, 6_0e9]\ntask_s = 5e-6\n[device]\nruns = [0.5, 0.6, 0.7, 0.8, 1]\nlaunch_s = 4.0e-6\n\
         [device.gemm.d]\npeak_flops = 60_000_000_000_000\n[host]\ngemm_flops = [4e12, 2e12, 4e12, 2e12]",
    );
    let rates = given.expect("a good file").over(h100());
    // Of two totals the second holds for four and eight devices, too.
    assert_eq!(rates.h2d_all, Total([50e9, 60e9, 60e9, 60e9]));
    assert_eq!(
        rates.of(DeviceId(0)).runs,
        RunShares([0.5, 0.6, 0.7, 0.8, 1.0])
    );
    assert_eq!((rates.task_s, rates.of(DeviceId(0)).launch_s), (5e-6, 4e-6));
    assert_eq!(rates.of(DeviceId(0)).gemm(Dtype::D).peak_flops, 6e13);
    assert_eq!(rates.of(DeviceId(0)).gemm(Dtype::D).half_size, 16.0);
    assert_eq!(rates.host.gemm_flops, [4e12, 2e12, 4e12, 2e12]);
}

#[test]
fn bad_files_say_why_in_one_line() {
    for (text, why) in [
        ("", "does not say \"version = 1\""),
        ("[version]", "has another version than 1"),
        ("version = 2", "has another version than 1"),
        ("version = \"1\"", "has another version than 1"),
        ("version = 1\ntask_s = ", "is not TOML: line 2: "),
        (
            "version = 1\n\ntask_s = 1\ntask_s = 1",
            "is not TOML: line 4: ",
        ),
        ("{\"version\": 1}", "has an inline table"),
        ("version = 1\ntask = 1", "has no use for task"),
        (
            "version = 1\n[device.h2d]\nrate = 1",
            "has no use for device.h2d.rate",
        ),
        ("version = 1\ndevice = 1", "has no use for device"),
        (
            "version = 1\ntask_s = 0",
            "has a task_s that is not within 1e-12 and 1e3",
        ),
        (
            "version = 1\ntask_s = -1e-6",
            "has a task_s that is not within",
        ),
        (
            "version = 1\ntask_s = nan",
            "has a task_s that is not within",
        ),
        (
            "version = 1\ntask_s = inf",
            "has a task_s that is not within",
        ),
        (
            "version = 1\ntask_s = 1e400",
            "has a task_s that is not within",
        ),
        (
            "version = 1\ntask_s = \"fast\"",
            "has a task_s that is not a number",
        ),
        (
            "version = 1\ntask_s = [1e-6]",
            "has a task_s that is not a number",
        ),
        (
            "version = 1\ntask_s = true",
            "has a task_s that is not a number",
        ),
        (
            "version = 1\npin = 1e9",
            "has a pin that is not a list of 1 to 4 numbers",
        ),
        (
            "version = 1\npin = []",
            "has a pin that is not a list of 1 to 4 numbers",
        ),
        (
            "version = 1\npin = [1, 1, 1, 1, 1]",
            "has a pin that is not a list",
        ),
        (
            "version = 1\npin = [1e9, 0]",
            "has a pin that is not within 1e0 and 1e18",
        ),
        (
            "version = 1\ndevice.runs = [1, 1, 1, 1]",
            "has a device.runs that is not a list of 5",
        ),
        (
            "version = 1\ndevice.runs = [1, 1, 1, 1, 1.1]",
            "has a device.runs that is not within",
        ),
        (
            "version = 1\ndevice.h2d.bid_slowdown = 0.9",
            "has a device.h2d.bid_slowdown that is not within",
        ),
    ] {
        let got = Given::parse(text).expect_err(text);
        assert!(got.starts_with(why), "{text:?}: {got:?}");
        assert!(!got.contains('\n'), "{got:?}");
    }
    // No depth of brackets ends the process.
    let deep = format!("version = 1\npin = {}", "[".repeat(60_000));
    assert!(Given::parse(&deep).is_err());
    let deep = format!(
        "version = 1\npin = {}1{}",
        "[".repeat(30_000),
        "]".repeat(30_000)
    );
    assert!(Given::parse(&deep).is_err());
    let deep = format!("version = 1\n{}x = 1", "a.".repeat(30_000));
    assert!(Given::parse(&deep).is_err());
}

/// The predicted seconds on devices, and on the host, of a product whose operands are in host memory.
fn predicted(n: usize, rates: &Rates) -> (f64, f64) {
    let of = |read, written| OperandState {
        bytes: n * n * 8,
        read,
        written,
        unpinned: n * n * 8,
        read_back: 1.0,
        looked: 1.0,
        ..OperandState::default()
    };
    let operands = [of(true, false), of(true, false), of(true, true)];
    let question = Question {
        work: Work::gemm(Dtype::D, n, n, n),
        host_s: None,
        operands: &operands,
        devices: DeviceSet::equal(2),
        prefer: DeviceId(0),
        memory: &[60 << 30],
        mode: Mode::Always,
        tile: None,
        planner: None,
    };
    match decide::decide(&question, rates, &Floor::default()) {
        Decision::Offload {
            predicted_s,
            host_s,
            ..
        } => (predicted_s, host_s),
        Decision::Host(why) => panic!("{why:?}"),
    }
}

#[test]
fn predictions_follow_the_file() {
    let before = predicted(16384, &h100());
    let slow = file("h2d_all = [5e9]").expect("a file").over(h100());
    assert!(predicted(16384, &slow).0 > 4.0 * before.0);
    let slow = file("host.gemm_flops = [1e9, 1e9, 1e9, 1e9]")
        .expect("a file")
        .over(h100());
    assert_eq!(predicted(16384, &slow).0, before.0);
    assert!(predicted(16384, &slow).1 > 4.0 * before.1);
}

#[test]
fn predictions_are_finite_within_the_bounds() {
    for greatest in [false, true] {
        let mut known = h100();
        let mut lines = String::new();
        for figure in figures(&mut known) {
            let value = if greatest {
                figure.bounds.1
            } else {
                figure.bounds.0
            };
            lines += &match figure.count {
                Count::One => format!("{} = {value:e}\n", figure.path),
                _ => format!(
                    "{} = [{}]\n",
                    figure.path,
                    vec![format!("{value:e}"); figure.at.len()].join(",")
                ),
            };
        }
        let rates = file(&lines).expect("bounds are allowed").over(h100());
        for n in [1, 100, 2048, 1 << 17] {
            let (device, host) = predicted(n, &rates);
            assert!(device.is_finite() && device > 0.0, "{n}: {device}");
            assert!(host.is_finite() && host > 0.0, "{n}: {host}");
        }
    }
}

#[test]
fn inline_tables_are_refused() {
    let deep = format!("{}1{}", "a.a = { ".repeat(5000), " }".repeat(5000));
    for text in ["device = { launch_s = 1e-6 }", &deep] {
        let why = file(text).expect_err("an inline table");
        assert!(why.contains("inline table"), "{why}");
    }
}
