//! House rules that the compiler does not check: which floor may use which, that no files depend on each other in a
//! circle, how long a file may be, and where unsafe code may live. A change of one of these tables is a change of the
//! architecture: make it in the same commit as the code that needs it, and in ARCHITECTURE.md. [`graph`] defines what a
//! dependency is.
#![allow(
    clippy::disallowed_methods,
    reason = "a test program, not the library in a user's process"
)]

#[path = "floors/graph.rs"]
mod graph;

use std::fs;
use std::path::{Path, PathBuf};

use graph::{Edges, circles, edges};

/// A table of floors: each with the modules that its files may use. Every floor may use itself.
type Floors<'a> = &'a [(&'a str, &'a [&'a str])];

const FLOORS: Floors = &[
    ("base", &[]),
    ("process", &[]),
    ("topology", &["base"]),
    ("directory", &["base"]),
    ("protect", &["base", "process"]),
    ("trace", &["base", "process"]),
    ("host", &["base", "process", "protect"]),
    ("device", &["base", "process", "topology", "trace"]),
    ("plan", &["base"]),
    ("model", &["base", "topology"]),
    ("transfer", &["base", "device::api", "trace"]),
    ("policy", &["base"]),
    (
        "cache",
        &[
            "base",
            "process",
            "directory",
            "protect",
            "host",
            "device::api",
            "transfer",
            "policy",
            "trace",
        ],
    ),
    (
        "hints",
        &[
            "base",
            "process",
            "host",
            "device::api",
            "transfer",
            "cache",
        ],
    ),
    (
        "sparse",
        &["base", "process", "host", "cache", "device::arith", "hints"],
    ),
    ("solver", &["base", "cache", "hints", "sparse::arrays"]),
    ("sched", &["base", "device", "plan", "model", "cache"]),
    (
        "blas",
        &[
            "base",
            "process",
            "topology",
            "host",
            "device::api",
            "plan",
            "model",
            "policy",
            "cache",
            "sched",
            "trace",
        ],
    ),
    (
        "runtime",
        &[
            "base",
            "process",
            "protect",
            "host",
            "device",
            "model::rates_file",
            "cache",
            "sched",
            "blas",
            "hints",
            "sparse",
            "solver",
            "trace",
        ],
    ),
];

/// The pure core, which may never contain unsafe code.
const PURE: &[&str] = &["base", "topology", "directory", "plan", "model", "policy"];

/// Files or folders of the workspace that may hold `expect(unsafe_code`.
const UNSAFE: &[&str] = &[
    "libsemcache/fault/src/",
    "libsemcache/src/process/crew.rs",
    "libsemcache/src/process/shared.rs",
    "libsemcache/src/protect/",
    "libsemcache/src/trace/",
    "libsemcache/src/host/",
    "libsemcache/src/device/",
    "libsemcache/src/transfer/",
    "libsemcache/src/cache/",
    "libsemcache/src/sched/",
    "libsemcache/src/sparse/",
    "libsemcache/src/solver/",
    "libsemcache/src/blas/finish.rs",
    "libsemcache/src/blas/replay.rs",
    "libsemcache/src/blas/deliver.rs",
    "libsemcache/src/blas/local.rs",
    "libsemcache/src/blas/mapped.rs",
    "libsemcache/src/blas/sample.rs",
    "libsemcache/src/runtime/",
    "blas-shim/src/",
    "standin/src/",
    "api/src/",
    "cli/src/signals.rs",
    "cli/src/doctor/check/call.rs",
    "cli/src/calibrate/machine.rs",
];

/// The most lines of a file, without its tests.
const LONGEST: usize = 600;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the package lies in the workspace")
        .to_owned()
}

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("a readable folder") {
        let path = entry.expect("a readable entry").path();
        // A module's tests in a file of their own follow other rules.
        if path.file_stem().is_some_and(|n| n == "tests") {
            continue;
        }
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

fn all_sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for package in [
        "libsemcache/src",
        "libsemcache/fault/src",
        "blas-shim/src",
        "standin/src",
        "cli/src",
        "api/src",
        "glibc-versions/src",
    ] {
        sources(&workspace().join(package), &mut found);
    }
    found.sort();
    found
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("readable source")
}

/// The source without comments and without what follows `#[cfg(test)] mod`, which ends a file.
fn code(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let line = line.split("//").next().unwrap_or_default();
        out.push_str(line);
        out.push('\n');
    }
    match out.find("#[cfg(test)]\nmod ") {
        Some(tests) => out[..tests].to_owned(),
        None => out,
    }
}

/// The first folder of a path, or the name of a file without one.
fn first(path: &str) -> &str {
    path.split(['/', ':']).next().unwrap_or(path)
}

/// Whether a file is, or lies in, a module.
fn lies_in(file: &str, module: &str) -> bool {
    let rest = file.strip_prefix(&module.replace("::", "/"));
    rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

/// Dependencies that a table forbids and a crate has, dependencies that the table allows and no file has, and circles
/// that it would allow.
fn disagreements(table: Floors, edges: &Edges) -> Vec<String> {
    let mut wrong = Vec::new();
    let across = || {
        edges
            .iter()
            .filter(|((from, to), _)| first(from) != first(to))
    };
    for ((from, to), item) in across().filter(|((from, _), _)| from.contains('/')) {
        match table.iter().find(|(floor, _)| *floor == first(from)) {
            None => wrong.push(format!("{from}: no such floor in the table")),
            Some((_, allowed)) if !allowed.iter().any(|module| lies_in(to, module)) => {
                wrong.push(format!("{from} must not use {to}: {item}"));
            }
            Some(_) => {}
        }
    }
    for (floor, allowed) in table {
        for module in *allowed {
            let used = across().any(|((from, to), _)| first(from) == *floor && lies_in(to, module));
            if !used {
                wrong.push(format!("{floor}: no file uses {module}"));
            }
        }
    }
    let allowed = table
        .iter()
        .flat_map(|(floor, allowed)| allowed.iter().map(|module| (*floor, first(module))));
    for circle in circles(allowed) {
        wrong.push(format!("the table allows a circle: {circle:?}"));
    }
    wrong
}

#[test]
fn floors_use_what_the_table_says() {
    let edges = edges_of("libsemcache/src/lib.rs");
    let wrong = disagreements(FLOORS, &edges);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_folder_is_a_floor() {
    for (floor, _) in FLOORS {
        let folder = workspace().join("libsemcache/src").join(floor);
        assert!(folder.is_dir(), "{floor} has no folder");
    }
}

#[test]
fn files_stay_short() {
    let long: Vec<String> = all_sources()
        .into_iter()
        .filter_map(|path| {
            let lines = code(&read(&path)).lines().count();
            (lines > LONGEST).then(|| format!("{}: {lines} lines", path.display()))
        })
        .collect();
    assert!(
        long.is_empty(),
        "longer than {LONGEST}:\n{}",
        long.join("\n")
    );
}

#[test]
fn unsafe_code_lives_where_the_list_says() {
    let (mut wrong, mut idle) = (Vec::new(), UNSAFE.to_vec());
    for path in all_sources() {
        let text = code(&read(&path));
        // Spelled in two parts, or this test would find itself.
        if !text.contains(concat!("expect(\n    unsafe", "_code"))
            && !text.contains(concat!("expect(unsafe", "_code"))
        {
            if text.contains(concat!("allow(unsafe", "_code")) {
                wrong.push(format!("{}: expect, not allow", path.display()));
            }
            continue;
        }
        let name = path
            .strip_prefix(workspace())
            .expect("a source of the workspace")
            .to_string_lossy()
            .into_owned();
        let listed = UNSAFE.iter().any(|u| name.starts_with(u));
        let pure = name
            .strip_prefix("libsemcache/src/")
            .is_some_and(|file| PURE.contains(&first(file)));
        if !listed || pure {
            wrong.push(name.clone());
        }
        idle.retain(|listed| !name.starts_with(listed));
    }
    assert!(idle.is_empty(), "no unsafe code there: {idle:?}");
    assert!(
        wrong.is_empty(),
        "unsafe code outside the list:\n{}",
        wrong.join("\n")
    );
}

/// The roots of the crates whose files are held against the rule; the fuzzer is not among them yet.
const ROOTS: &[&str] = &[
    "libsemcache/src/lib.rs",
    "libsemcache/fault/src/lib.rs",
    "blas-shim/src/lib.rs",
    "standin/src/lib.rs",
    "cli/src/main.rs",
    "api/src/lib.rs",
    "fuzz/src/lib.rs",
    "testkit/src/lib.rs",
];

fn edges_of(root: &str) -> Edges {
    let (dir, root) = root.rsplit_once('/').expect("a folder and a file");
    let dir = workspace().join(dir);
    edges(root, &|file| fs::read_to_string(dir.join(file)).ok())
}

/// Each circle with its edges, and an item for each edge.
fn described(edges: &Edges) -> Vec<String> {
    circles(edges.keys().map(|(from, to)| (from.as_str(), to.as_str())))
        .iter()
        .map(|circle| {
            let inside = |file: &str| circle.contains(file);
            let lines: Vec<String> = edges
                .iter()
                .filter(|((from, to), _)| inside(from) && inside(to))
                .map(|((from, to), item)| format!("  {from} -> {to}: {item}"))
                .collect();
            format!("{} files\n{}", circle.len(), lines.join("\n"))
        })
        .collect()
}

#[test]
fn no_circles() {
    let found: Vec<String> = ROOTS
        .iter()
        .flat_map(|root| {
            described(&edges_of(root))
                .into_iter()
                .map(move |c| format!("{root}: {c}"))
        })
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// A made-up crate: names and texts of its files.
fn made_up(files: &[(&str, &str)]) -> Edges {
    edges("lib.rs", &|file| {
        let found = files.iter().find(|(name, _)| *name == file);
        found.map(|(_, text)| (*text).to_owned())
    })
}

fn pairs(edges: &Edges) -> Vec<(&str, &str)> {
    edges
        .keys()
        .map(|(from, to)| (from.as_str(), to.as_str()))
        .collect()
}

#[test]
fn paths_lead_to_the_file_that_defines() {
    let edges = made_up(&[
        ("lib.rs", "pub mod a; mod b; mod c;"),
        (
            "a/mod.rs",
            "pub mod deep; mod made; pub use deep::Thing; pub(crate) use made::*;",
        ),
        (
            "a/deep.rs",
            "pub struct Thing; #[macro_export] macro_rules! told { () => {} }",
        ),
        (
            "a/made.rs",
            "macro_rules! table { ($n:ident) => { pub struct $n; } } table! { Row } pub fn free() {}",
        ),
        (
            "b.rs",
            "use crate::a; use std::fmt; fn f(x: fmt::Error) -> a::Thing { x.free() }
             #[cfg(test)] mod tests { use crate::c::g; }",
        ),
        (
            "c/mod.rs",
            "mod inner; #[cfg(test)] mod tests; pub fn g() { crate::told!(); assert!(super::a::free() == 0..1) }",
        ),
        (
            "c/inner.rs",
            "use crate::a::made::Row; fn h(y: Row) { y.g() }",
        ),
    ]);
    assert_eq!(
        pairs(&edges),
        [
            ("b.rs", "a/deep.rs"),
            ("c/inner.rs", "a/made.rs"),
            ("c/mod.rs", "a/deep.rs"),
            ("c/mod.rs", "a/made.rs"),
        ]
    );
}

#[test]
fn a_circle_is_found() {
    let files = |last| {
        made_up(&[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "pub struct B; fn f() { super::c::g() }"),
            ("c.rs", last),
        ])
    };
    assert!(described(&files("pub fn g() {}")).is_empty());
    let found = described(&files("pub fn g() { let _ = vec![crate::a::A]; }"));
    assert_eq!(
        found,
        [
            "3 files\n  a.rs -> b.rs: crate::b::B\n  b.rs -> c.rs: super::c::g\n  c.rs -> a.rs: crate::a::A"
        ]
    );
}

#[test]
fn the_table_is_held_against_the_files() {
    let edges = made_up(&[
        ("lib.rs", "mod low; mod high;"),
        ("low/mod.rs", "pub mod part; pub mod rest;"),
        ("low/part.rs", "pub fn f() {}"),
        ("low/rest.rs", ""),
        ("high/mod.rs", "use crate::low::part::f;"),
    ]);
    let wrong = |table: Floors| disagreements(table, &edges);
    assert!(wrong(&[("low", &[]), ("high", &["low"])]).is_empty());
    assert!(wrong(&[("low", &[]), ("high", &["low::part"])]).is_empty());
    assert_eq!(
        wrong(&[("low", &[]), ("high", &[])]),
        ["high/mod.rs must not use low/part.rs: crate::low::part::f"]
    );
    assert_eq!(
        wrong(&[("low", &[])]),
        ["high/mod.rs: no such floor in the table"]
    );
    let unused = wrong(&[("low", &[]), ("high", &["low::part", "low::rest"])]);
    assert_eq!(unused, ["high: no file uses low::rest"]);
    let circle = wrong(&[("low", &["high"]), ("high", &["low"])]);
    assert_eq!(
        circle,
        [
            "low: no file uses high",
            r#"the table allows a circle: {"high", "low"}"#
        ]
    );
}
