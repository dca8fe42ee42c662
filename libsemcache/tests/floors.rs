//! The house rules that the compiler does not know: which floor may import which, how long a file may be,
//! and where unsafe code may live. A change of one of these tables is a change of the architecture: make it
//! in the same commit as the code that needs it, and in ARCHITECTURE.md.
#![allow(
    clippy::disallowed_methods,
    reason = "a test program, not the library in somebody's process"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Each floor with those that it may import. Every floor may import itself.
const FLOORS: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("topology", &["base"]),
    ("directory", &["base"]),
    ("protect", &["base"]),
    ("host", &["base", "protect"]),
    ("device", &["base", "topology"]),
    ("plan", &["base", "device::api", "model"]),
    ("model", &["base", "topology", "plan"]),
    (
        "transfer",
        &["base", "topology", "directory", "host", "device"],
    ),
    (
        "cache",
        &[
            "base",
            "topology",
            "directory",
            "protect",
            "host",
            "device",
            "transfer",
        ],
    ),
    ("sched", &["base", "device", "plan", "cache"]),
    (
        "blas",
        &[
            "base",
            "device::api",
            "topology",
            "host",
            "plan",
            "model",
            "cache",
            "sched",
        ],
    ),
    (
        "runtime",
        &[
            "base",
            "topology",
            "directory",
            "protect",
            "host",
            "device",
            "plan",
            "model",
            "transfer",
            "cache",
            "sched",
            "blas",
        ],
    ),
];

/// The pure core: no unsafe code may ever be let in.
const PURE: &[&str] = &["base", "topology", "directory", "plan", "model"];

/// Files or folders of the workspace that may hold `expect(unsafe_code`.
const UNSAFE: &[&str] = &[
    "libsemcache/fault/src/",
    "libsemcache/src/protect/",
    "libsemcache/src/host/",
    "libsemcache/src/device/",
    "libsemcache/src/transfer/",
    "libsemcache/src/cache/",
    "libsemcache/src/sched/",
    "libsemcache/src/blas/finish.rs",
    "libsemcache/src/blas/remember.rs",
    "libsemcache/src/blas/deliver.rs",
    "libsemcache/src/blas/local.rs",
    "libsemcache/src/blas/sample.rs",
    "libsemcache/src/runtime/",
    "blas-shim/src/",
    "standin/src/",
    "cli/src/signals.rs",
    "cli/src/doctor/check/call.rs",
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

/// The module paths that follow each `crate::` (not `$crate::`, a macro's), two segments deep; groups
/// (`crate::{a::b, c}`) are opened.
fn imports(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$') {
            continue;
        }
        let rest = &code[at + "crate::".len()..];
        if let Some(group) = rest.strip_prefix('{') {
            let mut depth = 0;
            let mut item = String::new();
            for c in group.chars() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    _ => {}
                }
                if c == ',' && depth == 0 {
                    found.insert(two_segments(&item));
                    item.clear();
                } else {
                    item.push(c);
                }
            }
            found.insert(two_segments(&item));
        } else {
            found.insert(two_segments(rest));
        }
    }
    found.remove("");
    found
}

fn two_segments(path: &str) -> String {
    let path: String = path
        .trim_start()
        .chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_' || *c == ':')
        .collect();
    let segments: Vec<&str> = path.split("::").filter(|s| !s.is_empty()).take(2).collect();
    segments.join("::")
}

fn floor_of(path: &Path) -> Option<String> {
    let inside = path
        .strip_prefix(workspace().join("libsemcache/src"))
        .ok()?;
    let first = inside.components().next()?.as_os_str().to_str()?;
    Some(first.trim_end_matches(".rs").to_owned())
}

#[test]
fn imports_go_down_only() {
    let mut wrong = Vec::new();
    for path in all_sources() {
        let Some(floor) = floor_of(&path).filter(|f| f != "lib") else {
            continue;
        };
        let Some((_, allowed)) = FLOORS.iter().find(|(name, _)| *name == floor) else {
            wrong.push(format!("{}: no such floor in the table", path.display()));
            continue;
        };
        for import in imports(&code(&read(&path))) {
            let target = import.split("::").next().unwrap_or_default();
            let known = FLOORS.iter().any(|(name, _)| *name == target);
            if known
                && target != floor
                && !allowed.contains(&target)
                && !allowed.contains(&import.as_str())
            {
                wrong.push(format!("{}: imports {import}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_folder_is_a_floor() {
    for (floor, allowed) in FLOORS {
        let folder = workspace().join("libsemcache/src").join(floor);
        assert!(folder.is_dir(), "{floor} has no folder");
        for target in *allowed {
            let name = target.split("::").next().unwrap_or_default();
            assert!(
                FLOORS.iter().any(|(f, _)| *f == name),
                "{floor}: no floor {name}"
            );
        }
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
    let mut wrong = Vec::new();
    for path in all_sources() {
        let text = code(&read(&path));
        // Spelled apart, or this test would find itself.
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
        let pure = floor_of(&path).is_some_and(|f| PURE.contains(&f.as_str()));
        if !listed || pure {
            wrong.push(name);
        }
    }
    assert!(
        wrong.is_empty(),
        "unsafe code outside the list:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn the_reader_of_imports_reads() {
    let text = code(
        "use crate::base::{Dtype, ids};\n// use crate::never::x;\nuse crate::{plan::{self, Problem}, device::api::Op};\n\
         fn f() { crate::model::rate(); $crate::cache::x!(); }\n#[cfg(test)]\nmod tests { use crate::sched; }\n",
    );
    let found: Vec<String> = imports(&text).into_iter().collect();
    assert_eq!(found, ["base", "device::api", "model::rate", "plan"]);
}
