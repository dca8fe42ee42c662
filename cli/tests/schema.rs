//! What commands print as JSON against the schemas in `docs/schema`, which are for users.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a panic is how a test fails"
)]

use std::fs;
use std::process::{Command, Output};

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::{Value, json};

/// Runs the command without the user's settings, on one thread of the host BLAS.
fn run(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_semcache"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SEMCACHE_") {
            command.env_remove(name);
        }
    }
    command.args(arguments).env_remove("LD_PRELOAD");
    command.env("OPENBLAS_NUM_THREADS", "1");
    command.envs(variables.iter().copied()).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// The JSON that the command prints, and nothing else; its exit status is that of the same command without `--json`.
fn printed(arguments: &[&str], variables: &[(&str, &str)]) -> Value {
    let plain = run(arguments, variables);
    let output = run(&[arguments, &["--json"]].concat(), variables);
    assert_eq!(output.status.code(), plain.status.code(), "{arguments:?}");
    assert_eq!(text(&output.stderr), text(&plain.stderr), "{arguments:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A schema of `docs/schema`. It is open to keys that are added later; here it is closed, so that each key must be in it.
struct Schema {
    schemas: Schemas,
    index: SchemaIndex,
}

impl Schema {
    fn of(command: &str) -> Schema {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/schema");
        let path = format!("{folder}/{command}.schema.json");
        let mut schema = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        close(&mut schema);
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        compiler.add_resource(&path, schema).unwrap();
        let index = compiler.compile(&path, &mut schemas).unwrap();
        Schema { schemas, index }
    }

    /// Why a document is refused.
    fn refuses(&self, document: &Value) -> Option<String> {
        let judged = self.schemas.validate(document, self.index);
        judged.err().map(|error| format!("{error:#}"))
    }

    fn accepts(&self, document: &Value) {
        assert_eq!(self.refuses(document), None, "{document:#}");
    }

    /// Each of these documents, which differ from an accepted one in a key or a value, is refused.
    fn refuses_altered(&self, document: &Value, altered: &[(&str, Value)]) {
        self.accepts(document);
        for (pointer, value) in altered {
            let mut other = document.clone();
            *other.pointer_mut(pointer).expect(pointer) = value.clone();
            assert!(self.refuses(&other).is_some(), "{pointer} = {value}");
        }
        for key in document.as_object().unwrap().keys() {
            let mut other = document.clone();
            other.as_object_mut().unwrap().remove(key);
            assert!(self.refuses(&other).is_some(), "without {key}");
        }
        let mut other = document.clone();
        other["more"] = json!(1);
        assert!(self.refuses(&other).is_some(), "another key");
    }
}

/// Forbids all keys of objects that their schema does not list, and checks that each that it lists is described.
fn close(schema: &mut Value) {
    if let Some(properties) = schema.get("properties").and_then(Value::as_object)
        && schema.get("type").is_some()
    {
        for (key, of) in properties {
            assert!(of.get("description").is_some(), "{key} has no description");
        }
        schema["additionalProperties"] = json!(false);
    }
    match schema {
        Value::Object(parts) => parts.values_mut().for_each(close),
        Value::Array(parts) => parts.iter_mut().for_each(close),
        _ => {}
    }
}

/// A text with one space between words, as a table and its cells have them alike.
fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn doctor() {
    let schema = Schema::of("doctor");
    let found = printed(&["doctor"], &[]);
    schema.refuses_altered(
        &found,
        &[
            ("/version", json!(2)),
            ("/works", json!("yes")),
            ("/findings", json!([])),
            ("/findings/0/ok", json!(null)),
            ("/findings/0/advice", json!(1)),
            ("/findings/0", json!({"ok": true})),
        ],
    );
    // A library that is not there is told with advice, and by the exit status. No GPU is visible: what is timed as it comes up
    // differs from run to run.
    let wrong = [
        ("SEMCACHE_LIB", "/nowhere"),
        ("SEMCACHE_HOST_BLAS", "/nowhere"),
        ("CUDA_VISIBLE_DEVICES", ""),
    ];
    assert_eq!(run(&["doctor", "--json"], &wrong).status.code(), Some(1));
    let found = printed(&["doctor"], &wrong);
    schema.accepts(&found);
    assert_eq!(found["works"], false);
    let library = &found["findings"][0];
    assert_eq!(
        (&library["what"], &library["ok"]),
        (&json!("library"), &json!(false))
    );
    assert_eq!(library["advice"], "build it: cargo build --release");
    // The text says the same.
    let mut rows = String::new();
    for finding in found["findings"].as_array().unwrap() {
        let [what, found] = ["what", "found"].map(|key| finding[key].as_str().unwrap());
        let ok = finding["ok"].as_bool().unwrap();
        rows += &format!("{} {what} {found} ", if ok { "ok" } else { "warn" });
        let advice = finding["advice"].as_str();
        assert_eq!(ok, advice.is_none());
        rows += &advice.map_or(String::new(), |advice| format!("-> {advice} "));
    }
    let shown = run(&["doctor"], &wrong);
    assert_eq!(squeezed(text(&shown.stdout)), squeezed(&rows));
}

#[test]
fn env() {
    let schema = Schema::of("env");
    let set = [("SEMCACHE_TILE", "5\n12"), ("SEMCACHE_LIB", "/nowhere")];
    let found = printed(&["env"], &set);
    schema.refuses_altered(
        &found,
        &[
            ("/version", json!("1")),
            ("/variables/0/name", json!("PATH")),
            ("/variables/0/value", json!(5)),
            ("/presets/0/title", json!(null)),
            ("/presets/0", json!("dgx1")),
        ],
    );
    let variables = found["variables"].as_array().unwrap();
    let value = |name: &str| {
        let of = variables.iter().find(|v| v["name"] == name);
        of.expect(name)["value"].clone()
    };
    assert_eq!(value("SEMCACHE_TILE"), "5\n12");
    assert_eq!(value("SEMCACHE_LIB"), "/nowhere");
    assert_eq!(value("SEMCACHE_DEVICES"), Value::Null);
    // The text says the same.
    let shown = run(&["env"], &set);
    let shown = text(&shown.stdout);
    for variable in variables {
        for key in ["name", "doc", "values", "default"] {
            assert!(shown.contains(variable[key].as_str().unwrap()));
        }
    }
    // Each preset is a machine that devices can be had of.
    for preset in found["presets"].as_array().unwrap() {
        let [name, title] = ["name", "title"].map(|key| preset[key].as_str().unwrap());
        assert!(shown.contains(title), "{title}");
        let devices = format!("sim:{name}");
        let output = run(&["machine", "--devices", &devices], &[]);
        assert!(output.status.success(), "{devices}");
    }
}

#[test]
fn machine() {
    let schema = Schema::of("machine");
    let found = printed(&["machine", "--devices", "none"], &[]);
    schema.refuses_altered(
        &found,
        &[
            ("/version", json!(0)),
            ("/devices", json!(null)),
            ("/figures/0/values", json!([])),
            ("/figures/0/values/0", json!("55 GB/s")),
            ("/figures/0/unit", json!("GB/s")),
            ("/figures/0/model", json!(0)),
        ],
    );
    assert_eq!(found["devices"], "no devices are wanted (SEMCACHE_DEVICES)");
    // The text has the same lines and figures.
    let shown = run(&["machine", "--devices", "none"], &[]);
    let shown: Vec<&str> = text(&shown.stdout).lines().collect();
    assert_eq!(shown[0], found["devices"]);
    let figures = found["figures"].as_array().unwrap();
    assert_eq!(shown.len(), 1 + figures.len());
    for (line, figure) in shown[1..].iter().zip(figures) {
        assert!(line.starts_with(figure["key"].as_str().unwrap()), "{line}");
        assert!(line.ends_with(figure["source"].as_str().unwrap()), "{line}");
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rates.toml");
    fs::write(&path, "version = 1\nh2d_all = [5e10]\n").unwrap();
    let path = path.to_str().unwrap();
    let found = printed(&["machine", "--devices", "sim:dgx1", path], &[]);
    schema.accepts(&found);
    let figure = &found["figures"][0];
    assert_eq!(
        (&figure["key"], &figure["unit"]),
        (&json!("h2d_all"), &json!("B/s"))
    );
    assert_eq!(
        (&figure["values"][0], &figure["source"]),
        (&json!(5e10), &json!(path))
    );
    let off = [("SEMCACHE_RATES", "off")];
    let found = printed(&["machine", "--devices", "sim:2"], &off);
    schema.accepts(&found);
    assert_eq!(found["file"], "no file of rates is wanted (SEMCACHE_RATES)");
    // What is refused is a line on stderr, and stdout is empty.
    for (devices, line) in [
        (
            "foo",
            "semcache: SEMCACHE_DEVICES=foo is not one of auto, none, cuda",
        ),
        (
            "sim:foo",
            "semcache: SEMCACHE_DEVICES=sim:foo names no machine that can be simulated; the presets are dgx1, ",
        ),
    ] {
        let output = run(&["machine", "--json", "--devices", devices], &[]);
        assert!(text(&output.stderr).starts_with(line), "{output:?}");
        assert_eq!(
            (output.status.code(), &*output.stdout),
            (Some(125), &[][..])
        );
    }
}

#[test]
fn predict() {
    let schema = Schema::of("predict");
    let predicted = |arguments: &str| {
        let words: Vec<&str> = arguments.split(' ').collect();
        printed(&[&["predict"], &*words].concat(), &[])
    };
    let found = predicted("dgemm 16384 16384 16384 --machine h200x8 --devices 2");
    schema.refuses_altered(
        &found,
        &[
            ("/version", json!(2)),
            ("/sizes/0", json!(1.5)),
            ("/to", json!("nowhere")),
            ("/decision", json!({"on": "host"})),
            ("/host_s", json!("17 s")),
            ("/host_s", json!(-1)),
            ("/devices", json!({})),
            ("/devices/bound", json!("luck")),
            ("/devices/busy/0/what", json!("luck")),
            ("/devices/predictors/0/pieces", json!(0.5)),
            ("/devices/timeline/operations/0/lane", json!("luck")),
            ("/devices/timeline/operations/0/start_s", json!(null)),
        ],
    );
    for arguments in [
        "daxpy 100",
        "dgemv 2000 1000 --machine h200",
        "dsyrk 8192 4096 --machine everest --from a=device,c=host --to device",
        "strsm 8000 3000 --side right --machine makalu",
        // Devices have no room for it.
        "zgemm 20000 20000 20000 --machine kepler --memory 1MiB",
    ] {
        schema.accepts(&predicted(arguments));
    }
}
