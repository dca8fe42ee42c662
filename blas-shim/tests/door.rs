//! Tests of the door to the host BLAS: simulated devices refuse every second kernel, or are lost, and the host BLAS
//! finishes the calls; or it computes a part of each call. Results are exactly those of OpenBLAS, and the report says who
//! computed.
#![allow(
    clippy::disallowed_methods,
    reason = "a test program, not the library in a user's process"
)]

mod kit;

use std::path::Path;
use std::process::Output;

use kit::{ALWAYS, OPENBLAS, OPENBLAS_64, REFERENCE, REFERENCE_64, kit};

/// Runs a client on simulated devices with these failures, and reads its report.
fn failing(client: &Path, args: &[&str], tile: &str, fail: &str) -> (Output, String) {
    simulated(client, args, tile, &format!("fail={fail}"), "off")
}

/// Runs a client on simulated devices that behave so, with this share for the host, and reads its report.
fn simulated(client: &Path, args: &[&str], tile: &str, how: &str, share: &str) -> (Output, String) {
    let kit = kit();
    let name = client.file_name().expect("a file").to_string_lossy();
    let mode = args.last().copied().unwrap_or_default();
    let mode = mode.rsplit('/').next().unwrap_or_default();
    let report = kit.dir.join(format!("{name}-{mode}-{how}-{share}.json"));
    let output = kit.run(
        &kit.library,
        client,
        args,
        &[
            ALWAYS,
            ("SEMCACHE_PANEL", "4KiB"),
            ("SEMCACHE_OWN", "4KiB"),
            ("SEMCACHE_DEVICES", "sim:1"),
            ("SEMCACHE_TILE", tile),
            ("SEMCACHE_SIM", how),
            ("SEMCACHE_HOST_SHARE", share),
            ("SEMCACHE_REPORT", report.to_str().expect("UTF-8")),
        ],
    );
    let text = std::fs::read_to_string(&report).unwrap_or_default();
    (output, text)
}

/// The first number of this key in a report, or in the part of it behind another key.
fn number(report: &str, behind: &str, key: &str) -> u64 {
    let part = report.split_once(behind).map_or("", |(_, part)| part);
    let value = part.split_once(&format!("\"{key}\":"));
    let value = value.map_or("", |(_, value)| value.trim_start());
    let digits = value.split(|c: char| !c.is_ascii_digit()).next();
    digits.and_then(|d| d.parse().ok()).unwrap_or(0)
}

fn passed(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{:?}\n{text}\n{errors}",
        output.status
    );
    text
}

fn client(
    source: &str,
    name: &str,
    int: &str,
    (fortran, cblas): (&str, &str),
    link: &str,
) -> std::path::PathBuf {
    let args = [
        "-w",
        "-DDOOR",
        "-DCBLAS",
        &format!("-DINT={int}"),
        &format!("-DF(x)={fortran}"),
        &format!("-DC(x)={cblas}"),
        link,
    ];
    kit().compile(
        &format!("{source}.c"),
        &format!("door_{source}_{name}"),
        &args,
    )
}

/// Every call of level 3 has at least two tasks, and each second kernel of all is refused: so each call is refused at its
/// second task.
fn family(name: &str, int: &str, spelling: (&str, &str), link: &str) {
    for (source, least) in [("decode", 1000), ("level3", 15_000)] {
        let client = client(source, name, int, spelling, link);
        let (output, report) = failing(&client, &[OPENBLAS], "2", "launches:2");
        let text = passed(&output);
        assert!(text.contains(" 0 failures"), "{text}");
        let of = |key| number(&report, "", key);
        assert!(
            of("fallback_host_tasks") > least,
            "{source} {name}: {report}"
        );
        assert_eq!(of("fallback_own_tasks"), 0, "{source} {name}: {report}");
    }
}

#[test]
fn lp64() {
    family("lp64", "int", ("x##_", "cblas_##x"), OPENBLAS);
    family("lp64_ref", "int", ("x##_", "cblas_##x"), REFERENCE);
}

#[test]
fn ilp64() {
    family("ilp64", "long", ("x##_", "cblas_##x"), OPENBLAS_64);
    family("ilp64_ref", "long", ("x##_", "cblas_##x"), REFERENCE_64);
}

/// No library has these spellings: the door finds the names of the system's BLAS, as calls do.
#[test]
fn other_spellings() {
    let library = kit().library.to_str().expect("UTF-8");
    family("suffix64_", "long", ("x##_64_", "cblas_##x##64_"), library);
    family("scipy", "int", ("scipy_##x##_", "scipy_cblas_##x"), library);
}

/// A device is lost in the middle of a call of every routine: vectors and sums, too, which are one task.
#[test]
fn lost_devices() {
    let (mut host, mut ended, mut whole) = (0, 0, 0);
    for (source, last, step) in [("decode", 5200, 37), ("level2", 9000, 101)] {
        let client = client(source, "lost", "int", ("x##_", "cblas_##x"), OPENBLAS);
        for n in (1..last).step_by(step) {
            let (output, report) = failing(&client, &[OPENBLAS], "2", &format!("lost:{n}"));
            if output.status.code() == Some(70) {
                ended += 1;
                continue;
            }
            let text = passed(&output);
            assert!(text.contains(" 0 failures"), "{source} {n}: {text}");
            assert_eq!(number(&report, "", "fallback_own_tasks"), 0, "{source} {n}");
            match number(&report, "", "fallback_host_tasks") {
                0 => whole += 1,
                tasks => host += tasks,
            }
        }
    }
    assert!(
        host > 500 && ended > 0,
        "{host} tasks, {ended} ended, {whole} whole"
    );
}

/// The host BLAS computes a part of every call whose columns can be divided, beside devices that run the rest, or refuse it.
#[test]
fn parts_of_calls() {
    for (source, least) in [("decode", 100), ("level3", 500)] {
        let client = client(source, "parts", "int", ("x##_", "cblas_##x"), OPENBLAS);
        for (how, share) in [
            ("late", "30%"),
            ("poison", "85%"),
            ("fail=launches:2", "40%"),
        ] {
            let (output, report) = simulated(&client, &[OPENBLAS], "2", how, share);
            let text = passed(&output);
            assert!(text.contains(" 0 failures"), "{source} {how}: {text}");
            let of = |key| number(&report, "", key);
            assert!(of("host_parts") > least, "{source} {how}: {report}");
            assert_eq!(of("fallback_own_tasks"), 0, "{source} {how}: {report}");
            let refused = of("fallback_host_tasks") > 0;
            assert_eq!(refused, how.starts_with("fail"), "{source} {how}: {report}");
        }
    }
}

/// As [`lost_devices`], while the host computes a part of each call.
#[test]
fn devices_are_lost_beside_the_hosts_part() {
    let (mut host, mut ended) = (0, 0);
    let client = client(
        "decode",
        "lost_parts",
        "int",
        ("x##_", "cblas_##x"),
        OPENBLAS,
    );
    for n in (1..5200).step_by(97) {
        let how = format!("fail=lost:{n}");
        let (output, report) = simulated(&client, &[OPENBLAS], "2", &how, "35%");
        if output.status.code() == Some(70) {
            ended += 1;
            continue;
        }
        let text = passed(&output);
        assert!(text.contains(" 0 failures"), "{n}: {text}");
        host += number(&report, "", "fallback_host_tasks");
    }
    assert!(host > 100, "{host} tasks, {ended} ended");
}

#[test]
fn nothing_is_held_within_the_host() {
    let kit = kit();
    let provider = kit.compile("door.c", "libdoor.so", &["-shared", "-fPIC", "-DPROVIDER"]);
    let provider = provider.to_str().expect("UTF-8");
    let client = kit.compile("door.c", "door", &[provider, "-pthread"]);
    let modes = ["nested", "free", "jump"];
    let ways = [("fail=launches:2", "off"), ("late", "30%")];
    for (mode, (how, share)) in modes.into_iter().flat_map(|m| ways.map(|way| (m, way))) {
        let (output, report) = simulated(&client, &[mode], "16", how, share);
        passed(&output);
        let (tasks, parts) = ("fallback_host_tasks", "host_parts");
        let (key, least) = if share == "off" {
            (tasks, 100)
        } else {
            (parts, 5)
        };
        assert!(number(&report, "", key) > least, "{mode}: {report}");
        assert_eq!(
            number(&report, "", "fallback_own_tasks"),
            0,
            "{mode}: {report}"
        );
        // The calls that the host BLAS made within stayed there.
        assert!(
            number(&report, "\"dgemv\"", "nested") > 100,
            "{mode}: {report}"
        );
        assert_eq!(
            number(&report, "\"dgemv\"", "offloaded"),
            0,
            "{mode}: {report}"
        );
    }
}
