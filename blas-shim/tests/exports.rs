//! Tests of the exported names: the library exports exactly the listed ones. A further name would hide a function of
//! that name in another library, and a call of a missing name would bypass the library.
#![allow(
    clippy::disallowed_methods,
    reason = "a test program, not the library in a user's process"
)]

mod kit;

use std::collections::BTreeSet;

use kit::{kit, symbols};

const BLAS: &str = include_str!("exports/blas.txt");
const HOOKS: &str = include_str!("exports/hooks.txt");
const API: &str = include_str!("exports/api.txt");
const MKL: &str = include_str!("exports/mkl.txt");
const MPI: &str = include_str!("exports/mpi.txt");

/// The names of a list, which is sorted and contains each name once.
fn names(list: &str) -> Vec<&str> {
    let names: Vec<&str> = list.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(names.is_sorted_by(|a, b| a < b), "not sorted, or twice");
    names
}

fn same(what: &str, found: &BTreeSet<&str>, listed: &BTreeSet<&str>) {
    let more: Vec<_> = found.difference(listed).collect();
    let less: Vec<_> = listed.difference(found).collect();
    assert!(
        more.is_empty() && less.is_empty(),
        "{what}: {more:?} not in exports/*.txt, {less:?} only there"
    );
}

#[test]
fn the_library_exports_the_lists_and_nothing_else() {
    let output = std::process::Command::new("nm")
        .args(["-D", "--defined-only", "--format=just-symbols"])
        .arg(kit().library.as_path())
        .output()
        .expect("nm is installed");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("names are ASCII");
    let lists = [BLAS, HOOKS, API, MKL, MPI].map(names);
    let count = lists.iter().map(Vec::len).sum();
    let listed: BTreeSet<&str> = lists.into_iter().flatten().collect();
    assert_eq!(listed.len(), count, "a name in two lists");
    // `nm` prints one line for each symbol, so a second version of a symbol would be found.
    assert_eq!(text.lines().count(), count);
    same("nm", &text.lines().collect(), &listed);
}

#[test]
fn the_list_of_the_blas_is_that_of_the_stubs() {
    let symbols = symbols();
    let made: BTreeSet<&str> = symbols.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(made.len(), symbols.len(), "a name twice");
    same("symbols.txt", &made, &names(BLAS).into_iter().collect());
}

/// A program that finds a library's own name, such as `openblas_get_config`, takes this library for that BLAS. Programs know MKL by its
/// version, its threads and its choice of interface; the products of `MKL` need a matrix that only MKL makes.
#[test]
fn no_other_librarys_own_name() {
    for name in [BLAS, HOOKS, API].into_iter().flat_map(names) {
        let lower = name.to_lowercase();
        for own in ["mkl_", "openblas_", "goto_", "bli_", "flexiblas_"] {
            assert!(!lower.starts_with(own), "{name}");
        }
        assert!(!lower.contains("num_threads"), "{name}");
    }
}
