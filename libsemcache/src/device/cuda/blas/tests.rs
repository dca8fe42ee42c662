//! The lists of cuBLAS's functions name all that the code calls.
#![allow(clippy::disallowed_methods, reason = "reads the source")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Adds the functions of cuBLAS that the code in a file, or in the files of a folder, calls.
fn called(path: &Path, found: &mut BTreeSet<String>) {
    if path.is_dir() {
        for entry in fs::read_dir(path).expect("a readable folder") {
            called(&entry.expect("a readable entry").path(), found);
        }
        return;
    }
    let text = fs::read_to_string(path).expect("readable source");
    for line in text.lines() {
        let code = line.split("//").next().unwrap_or_default();
        let words = code.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '"');
        // A name in quotes is an entry of a list; types end in `_t`.
        let functions =
            words.filter(|w| w.starts_with("cublas") && !w.ends_with("_t") && *w != "cublas");
        found.extend(functions.map(str::to_owned));
    }
}

/// The bindings panic when a function is called that the loaded cuBLAS does not export, and that would end the user's
/// program. So every function that is called must be in the list that is looked up when cuBLAS is loaded.
#[test]
fn what_is_called_is_looked_up_before() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/device/cuda/blas");
    let mut found = BTreeSet::new();
    called(&folder, &mut found);
    called(&folder.with_extension("rs"), &mut found);
    let listed: BTreeSet<String> = super::functions().map(str::to_owned).collect();
    assert_eq!(found, listed);
    assert_eq!(super::functions().count(), listed.len(), "a function twice");
}
