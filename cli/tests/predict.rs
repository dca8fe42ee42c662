//! `semcache predict` on machines that need not be present: all its numbers are pure functions of its arguments.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a panic is how a test fails"
)]

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;

fn run(arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_semcache"))
        .arg("predict")
        .args(arguments.split_whitespace())
        .env_remove("LD_PRELOAD")
        .env_remove("COLUMNS")
        .output()
        .unwrap()
}

/// What is printed on stdout by a command that succeeds and prints nothing else.
fn said(arguments: &str) -> String {
    let output = run(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn json(arguments: &str) -> Value {
    serde_json::from_str(&said(&format!("{arguments} --json"))).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

/// The pages in the folder `predict`. `SEMCACHE_GOLDEN=write` writes them anew.
#[test]
fn pages() {
    for (file, arguments) in [
        ("dgemm-h200", "dgemm 16384 16384 16384 --from host"),
        (
            "dsyrk-everest",
            "dsyrk 16384 8192 --machine everest --locked --from a=device,c=host --to device",
        ),
        ("dgemv-h200", "dgemv 2000 1000 --machine h200"),
        (
            "daxpy-dgx1",
            "daxpy 100000000 --from device --to device --machine dgx1",
        ),
        (
            "strsm-makalu",
            "strsm 8000 3000 --side right --machine makalu",
        ),
        (
            "zgemm-small",
            "zgemm 20000 20000 20000 --machine kepler --memory 3GiB",
        ),
    ] {
        let path = format!("{}/tests/predict/{file}.txt", env!("CARGO_MANIFEST_DIR"));
        let found = format!("$ semcache predict {arguments}\n{}", said(arguments));
        if std::env::var("SEMCACHE_GOLDEN").is_ok_and(|v| v == "write") {
            fs::write(&path, &found).unwrap();
        }
        assert_eq!(found, fs::read_to_string(&path).unwrap(), "{file}");
    }
}

#[test]
fn json_says_the_same() {
    let found = json("dgemm 16384 16384 16384 --machine h200x8 --devices 2 --locked");
    assert_eq!(found["version"], 1);
    assert_eq!(found["routine"], "dgemm");
    assert_eq!(found["decision"]["on"], "devices");
    let devices = &found["devices"];
    assert_eq!(devices["ids"].as_array().unwrap().len(), 2);
    assert!(number(&devices["seconds"]) < number(&found["host_s"]));
    let timeline = &devices["timeline"];
    let operations = timeline["operations"].as_array().unwrap();
    let kernels = operations.iter().filter(|o| o["lane"] == "kernels");
    assert_eq!(kernels.count() as u64, timeline["tasks"].as_u64().unwrap());
    let last = operations.iter().map(|o| number(&o["end_s"]));
    assert_eq!(last.fold(0.0, f64::max), number(&timeline["seconds"]));
    let predictors = devices["predictors"].as_array().unwrap();
    let of = |name: &str| {
        let found = predictors.iter().find(|p| p["name"] == name).unwrap();
        number(&found["seconds"])
    };
    assert_eq!(of("timeline of the plan"), number(&timeline["seconds"]));
    assert!(of("streams, 2 copy engines") <= of("streams, 1 copy engine"));
    assert!(of("streams, 1 copy engine") <= of("explicit copies"));
}

/// Where operands are, and what is wanted at the host, changes what moves.
#[test]
fn operands_move_from_where_they_are() {
    let moved = |arguments: &str| {
        let found = json(&format!("dgemm 8192 8192 8192 --locked {arguments}"));
        let timeline = &found["devices"]["timeline"];
        ["bytes_uploaded", "bytes_written_back"].map(|key| number(&timeline[key]))
    };
    let matrix = (8192 * 8192 * 8) as f64;
    assert_eq!(moved(""), [2.0 * matrix, matrix]);
    assert_eq!(moved("--beta 1"), [3.0 * matrix, matrix]);
    assert_eq!(moved("--from a=device"), [matrix, matrix]);
    assert_eq!(moved("--from device --to device"), [0.0, 0.0]);
    assert_eq!(moved("--to device"), [2.0 * matrix, 0.0]);
}

#[test]
fn a_file_of_rates() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rates.toml");
    let write = |text: &str| fs::write(&path, text).unwrap();
    let seconds = |more: &str| {
        let found = json(&format!(
            "dgemm 8192 8192 8192 --machine {} {more}",
            path.display()
        ));
        number(&found["devices"]["seconds"])
    };
    write("version = 1\ndevice.h2d.bytes_per_s = 20e9\ndevice.p2p.bytes_per_s = 200e9");
    let slow = seconds("--locked");
    assert!(seconds("--locked --devices 2") < slow);
    write("version = 1\ndevice.h2d.bytes_per_s = 50e9\ndevice.d2h.bytes_per_s = 50e9");
    assert!(seconds("--locked") < slow);
    write("version = 1\nh2d = 3");
    let output = run(&format!("dgemm 9 9 9 --machine {}", path.display()));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.ends_with("rates.toml has no use for h2d\n"),
        "{error}"
    );
    assert_eq!(output.status.code(), Some(125));
}

#[test]
fn a_picture() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("chart.png");
    said(&format!("dgemm 4096 4096 4096 --png {}", path.display()));
    let decoder = png::Decoder::new(std::io::BufReader::new(fs::File::open(&path).unwrap()));
    let reader = decoder.read_info().unwrap();
    assert!(reader.info().width > 1000 && reader.info().height > 200);
}

/// What cannot be understood is one line on stderr, and status 125.
#[test]
fn what_is_not_understood() {
    for (arguments, line) in [
        (
            "dfoo 3",
            "dfoo: not a BLAS routine that devices run, such as dgemm, zherk, sgemv or daxpy",
        ),
        (
            "sdsdot 3",
            "sdsdot: not a BLAS routine that devices run, such as dgemm, zherk, sgemv or daxpy",
        ),
        ("dgemm 3 4", "dgemm has 3 sizes, m n k: 2 given"),
        ("daxpy 3 4", "daxpy has 1 size, n: 2 given"),
        (
            "dgemm 3 4 0",
            "size k 0: not a whole number from 1 to 1048576",
        ),
        (
            "dgemm 3 -4 1",
            "size n -4: not a whole number from 1 to 1048576",
        ),
        (
            "dgemm 3 4 99999999999999999999",
            "size k 99999999999999999999: not a whole number from 1 to 1048576",
        ),
        (
            "dgemm 3 4 5 --machine nowhere",
            "nowhere: neither a file of rates nor one of dgx1, everest, makalu, kepler, tesla, testbed1, testbed2, gtx680, titan, h100, h200, h200x4, h200x8",
        ),
        ("dgemm 3 4 5 --machine /", "/: not a file of rates"),
        (
            "dgemm 3 4 5 --devices 9 --machine dgx1",
            "--devices 9: not a whole number from 1 to 8, as many as dgx1 has",
        ),
        (
            "dgemm 3 4 5 --from q=device",
            "--from q=device: no operand q; there are a, b, c",
        ),
        (
            "dsyrk 3 4 --from b=device",
            "--from b=device: no operand b; there are a, c",
        ),
        (
            "dger 3 4 --from y=gpu",
            "--from y gpu: neither `host` nor `device`",
        ),
        (
            "dgemm 3 4 5 --to nowhere",
            "--to nowhere: neither `host` nor `device`",
        ),
        (
            "daxpy 5 --side right",
            "--side right: daxpy has no such argument",
        ),
        ("dgemm 5 5 5 --transa x", "--transa x: not one of n, t, c"),
        (
            "dgemm 5 5 5 --memory much",
            "--memory much: not a size, such as 80GiB",
        ),
        (
            "dgemm 5 5 5 --tile 0",
            "--tile 0: not a whole number from 1 to 1048576",
        ),
        ("dgemm 5 5 5 --beta nan", "--beta nan: not a number"),
        (
            "zherk 5 5 --transa t",
            "zherk: the BLAS does not allow these arguments",
        ),
        (
            "dimatcopy 5 6 --transa t",
            "dimatcopy: devices run no such call, the host BLAS does",
        ),
    ] {
        let output = run(arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(error, format!("semcache: {line}\n"), "{arguments}");
        assert_eq!(output.status.code(), Some(125), "{arguments}");
        assert!(output.stdout.is_empty(), "{arguments}");
    }
}
