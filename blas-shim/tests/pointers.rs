//! `syscalls.txt` lists every system call of the kernel's headers, and the hooks that the tables name exist.
#![allow(
    clippy::disallowed_methods,
    reason = "a test program, not the library in a user's process"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

const SYSTEM_CALLS: &str = include_str!("../syscalls.txt");
const FUNCTIONS: &str = include_str!("../functions.txt");
const HOOKS: &str = include_str!("exports/hooks.txt");
/// The sources that hook a system call for which the table says `hook`.
const BY_NAME: [&str; 2] = [
    include_str!("../src/hooks/raw.rs"),
    include_str!("../src/hooks/io.rs"),
];

/// The lines of a table without comments, split into words.
fn lines(table: &str) -> impl Iterator<Item = Vec<&str>> {
    table
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(|line| line.split_whitespace().collect())
}

#[test]
fn every_system_call_of_the_kernels_headers_is_in_the_table() {
    let header = fs::read_to_string("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
        .expect("linux-libc-dev is installed with the compiler");
    let mut table = BTreeMap::new();
    for words in lines(SYSTEM_CALLS) {
        let number: u32 = words[0].parse().expect("a number");
        assert!(table.insert(number, words[1]).is_none(), "{number} twice");
    }
    let mut seen = 0;
    for line in header.lines() {
        let Some((name, number)) = line
            .strip_prefix("#define __NR_")
            .and_then(|rest| rest.split_once(' '))
        else {
            continue;
        };
        let number = number.trim().parse().expect("a number");
        assert_eq!(table.get(&number), Some(&name), "system call {number}");
        seen += 1;
    }
    assert!(seen > 300, "{seen} system calls in the header");
}

#[test]
fn what_is_left_out_says_why_and_what_is_hooked_is() {
    for words in lines(SYSTEM_CALLS) {
        let (name, kind) = (words[1], words[2]);
        match kind {
            "left" => assert!(words[3] == "#" && words.len() > 6, "{name}: no reason"),
            "hook" => {
                let constant = format!("SYS_{name}");
                let named = BY_NAME.iter().any(|source| {
                    source
                        .split(|c: char| !c.is_alphanumeric() && c != '_')
                        .any(|word| word == constant)
                });
                assert!(named, "{name} is not in src/hooks");
            }
            "none" => assert_eq!(words.len(), 3, "{name} has arguments"),
            "again" | "before" | "exec" | "kept" => {
                assert!(words.len() > 3, "{name} has no arguments");
            }
            _ => panic!("{name}: {kind}"),
        }
    }
}

#[test]
fn every_function_of_the_table_is_exported() {
    let hooks: BTreeSet<&str> = HOOKS.lines().collect();
    let mut seen = BTreeSet::new();
    for words in lines(FUNCTIONS) {
        let name = words[0].split('=').next().expect("a name");
        assert!(hooks.contains(name), "{name}");
        assert!(seen.insert(name), "{name} twice");
    }
}
