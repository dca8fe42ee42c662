//! Reports: their JSON, and how they add up.

use super::*;

fn process(pid: u32, did: Did) -> Process {
    Process {
        pid,
        processes: 1,
        begun_s: f64::from(pid),
        seconds: 2.5,
        did,
        ..Process::default()
    }
}

fn sample() -> Report {
    let device = |name: &str, kind: &str, memory| Device {
        name: name.to_owned(),
        kind: kind.to_owned(),
        memory,
        calls: 3,
        tasks: 12,
        p2p: 2000,
        left_out: [("slower".to_owned(), 5)].into(),
        ..Device::default()
    };
    let mut did = Did {
        devices: vec![
            device("sim0", "sim", 1 << 30),
            device("a \"b\"\\\n", "cuda", 7),
        ],
        ..Did::default()
    };
    for (name, offloaded, why) in [
        ("dgemm", 2, &[("small", 3), ("predicted_slower", 4)][..]),
        ("sdot", 1, &[]),
    ] {
        let calls = did.calls.entry(name.to_owned()).or_default();
        calls.offloaded = offloaded;
        for (why, n) in why {
            calls.add_host(why, *n);
        }
    }
    let c = &mut did.counts;
    (c.bytes.h2d, c.bytes.d2h, c.bytes.per_call) = (134_217_728, 1, 13_421_772_800);
    c.bytes.saved = 13_421_772_800 - 134_217_729;
    (c.faults.read, c.faults.p50_us) = (2, 1.25);
    did.degraded = ["no_driver", "map_limit"].map(str::to_owned).into();
    let mut report = Report::new("run");
    report.add_process(process(42, did));
    report
}

#[test]
fn json_has_every_key_of_the_contract() {
    let json = sample().json();
    let value: serde_json::Value = serde_json::from_str(&json).expect(&json);
    assert_eq!(value["version"], 3);
    assert_eq!(value["processes"][0]["pid"], 42);
    assert_eq!(value["processes"][0]["calls"]["dgemm"]["host"], 7);
    assert_eq!(value["devices"][0]["memory"], 1 << 30);
    assert_eq!(value["devices"][1]["name"], "a \"b\"\\\n");
    for key in ["calls", "tasks", "h2d", "d2h", "p2p"] {
        assert!(value["devices"][0][key].is_number(), "{key}");
    }
    assert_eq!(value["devices"][0]["left_out"]["slower"], 5);
    assert_eq!(value["calls"]["dgemm"]["host"], 7);
    assert_eq!(value["calls"]["dgemm"]["why_host"]["predicted_slower"], 4);
    assert_eq!(value["calls"]["sdot"]["offloaded"], 1);
    assert_eq!(value["calls"]["sdot"]["why_host"], serde_json::json!({}));
    assert_eq!(value["bytes"]["saved"], 13_421_772_800_u64 - 134_217_729);
    for key in ["h2d", "d2h", "p2p", "saved"] {
        assert!(value["bytes"][key].is_number(), "{key}");
    }
    for key in ["read", "write", "false_sharing", "p50_us", "p99_us"] {
        assert!(value["faults"][key].is_number(), "{key}");
    }
    for key in [
        "hits",
        "misses",
        "evictions",
        "closes",
        "coarse",
        "replayed",
    ] {
        assert!(value["cache"][key].is_number(), "{key}");
    }
    for key in ["scans", "written", "kept", "write_through"] {
        assert!(value["gate"][key].is_number(), "{key}");
    }
    for key in ["pinned", "pin_us", "pin_refused"] {
        assert!(value["host"][key].is_number(), "{key}");
    }
    assert_eq!(value["fallbacks"], 0);
    assert_eq!(
        value["degraded"],
        serde_json::json!(["map_limit", "no_driver"])
    );
    for key in crate::base::counters::KEYS {
        let group = if key.group.is_empty() {
            &value
        } else {
            &value[key.group]
        };
        assert!(group[key.name].is_number(), "{key:?}");
    }
}

#[test]
fn what_is_written_is_read() {
    let report = sample();
    assert_eq!(Report::parse(&report.json()), Ok(report));
}

#[test]
fn an_empty_report_is_valid_too() {
    let report = Report::default();
    assert!(report.sum.is_empty());
    let json = report.json();
    let value: serde_json::Value = serde_json::from_str(&json).expect(&json);
    assert_eq!(value["devices"], serde_json::json!([]));
    assert_eq!(value["calls"], serde_json::json!({}));
}

#[test]
fn other_texts_are_not_reports() {
    for text in ["{", "{}", r#"{"version":2}"#] {
        assert!(Report::parse(text).is_err(), "{text}");
    }
    // Keys of another release are left out, missing ones are zero.
    assert!(Report::parse(r#"{"version":3,"news":{"a":1},"bytes":{"h2d":1}}"#).is_ok());
}

#[test]
fn reports_add_up() {
    let one = sample();
    let mut two = Report::default();
    two.add(&one);
    assert_eq!(two, one);
    two.add(&one);
    assert_eq!(
        (two.counted(), two.sum.devices.len(), two.sum.offloaded()),
        (2, 2, 6)
    );
    assert_eq!(two.sum.calls["dgemm"].why_host["small"], 6);
    assert_eq!(two.sum.counts.bytes.saved, 2 * one.sum.counts.bytes.saved);
    assert_eq!(
        (two.sum.counts.faults.read, two.sum.counts.faults.p50_us),
        (4, 1.25)
    );
    assert_eq!(two.sum.degraded, one.sum.degraded);
}

#[test]
fn the_table_names_what_matters() {
    let table = sample().sum.table();
    for text in [
        "dgemm                2           7  predicted_slower 4, small 3",
        "13.3 GB less than copying at every call",
        "degraded  map_limit, no_driver",
    ] {
        assert!(table.contains(text), "{text} in {table}");
    }
}

#[test]
fn many_processes_share_an_entry() {
    let mut report = Report::new("run");
    let one = sample().sum;
    for pid in 1..=10_000 {
        report.add_process(process(pid, one.clone()));
    }
    assert_eq!(
        (report.processes.len(), report.counted()),
        (ENTRIES, 10_000)
    );
    assert_eq!(report.sum.offloaded(), 30_000);
    let rest = report.processes.last().expect("an entry");
    assert_eq!((rest.pid, rest.command.as_str()), (0, "9745 processes"));
    let mut sum = Report::default();
    sum.add(&report);
    sum.add(&report);
    assert_eq!((sum.processes.len(), sum.counted()), (ENTRIES, 20_000));
    assert_eq!(sum.sum.offloaded(), 60_000);
}
