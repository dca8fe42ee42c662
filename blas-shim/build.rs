//! Generates the table of exported symbols and one stub per symbol from `symbols.txt`, and hooks of system calls and of
//! libc's functions from `syscalls.txt` and `functions.txt` ([`pointers`]).

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

#[path = "build/pointers.rs"]
mod pointers;

/// How a spelling is made from a routine's name: variant of `Spelling`, before, after.
const FORTRAN: [(&str, &str, &str); 4] = [
    ("Under", "", "_"),
    ("Under64", "", "_64_"),
    ("ScipyUnder", "scipy_", "_"),
    ("ScipyUnder64", "scipy_", "_64_"),
];
const PLAIN: [(&str, &str, &str); 2] = [("Plain", "", ""), ("Plain64", "", "_64")];
const CBLAS: [(&str, &str, &str); 5] = [
    ("Cblas", "cblas_", ""),
    ("Cblas64Under", "cblas_", "64_"),
    ("CblasUnder64", "cblas_", "_64"),
    ("ScipyCblas", "scipy_cblas_", ""),
    ("ScipyCblas64", "scipy_cblas_", "64_"),
];

/// One line of `symbols.txt`.
struct Row<'a> {
    routine: &'a str,
    class: &'a str,
    dtype: &'a str,
    spellings: &'a str,
}

fn parse(text: &str) -> Vec<Row<'_>> {
    text.lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
        .map(|line| {
            let mut words = line.split_whitespace();
            let mut word = || {
                words
                    .next()
                    .unwrap_or_else(|| panic!("symbols.txt: four words expected: {line}"))
            };
            let row = Row {
                routine: word(),
                class: word(),
                dtype: word(),
                spellings: word(),
            };
            assert!(
                row.spellings.chars().all(|s| "fpc".contains(s)),
                "symbols.txt: unknown spelling in: {line}"
            );
            row
        })
        .collect()
}

/// The variant of `Class`: `dotc_sub` becomes `Sub(Routine::Dotc)`.
fn variant(class: &str) -> String {
    let (class, kind) = match class.strip_suffix("_sub") {
        Some(class) => (class, "Sub"),
        None => (class, "Call"),
    };
    let routine = match class {
        "jump" => return "Jump".to_owned(),
        "gemm_batch_strided" => return "Strided".to_owned(),
        "gemm_batch" => "GemmBatch".to_owned(),
        "realscal" => "RealScal".to_owned(),
        // What is not conjugated is the operation that real types have.
        "geru" => "Ger".to_owned(),
        "dotu" => "Dot".to_owned(),
        _ => class[..1].to_uppercase() + &class[1..],
    };
    format!("{kind}(Routine::{routine})")
}

/// The name that calls of a routine are counted under: what is one operation has one.
fn counted(routine: &str) -> &str {
    let name = routine
        .trim_end_matches("_sub")
        .trim_end_matches("_strided")
        .trim_end_matches("3m");
    match name.strip_suffix("r") {
        Some(gemmt) if gemmt.ends_with("gemmt") => gemmt,
        _ => name,
    }
}

/// The stub that finds the sizes of a routine's calls.
fn sizes(class: &str, cblas: bool) -> String {
    let shape = match class {
        "gemm" | "gemmt" | "gemv" => class,
        // Only the whole arrays tell.
        "gemm_batch" | "gemm_batch_strided" => return "look".to_owned(),
        "symm" | "hemm" => "symm",
        "syrk" | "herk" | "syr2k" | "her2k" => "rank_k",
        "trmm" | "trsm" => "triangular",
        "ger" | "geru" | "gerc" | "geadd" => "ger",
        "omatcopy" | "imatcopy" => "matcopy",
        "symv" | "hemv" | "syr" | "her" | "syr2" | "her2" => "symv",
        "trmv" | "trsv" => "trmv",
        _ => "vector",
    };
    format!("{}_{shape}", if cblas { "cblas" } else { "fortran" })
}

fn main() {
    println!("cargo:rerun-if-changed=symbols.txt");
    println!("cargo:rerun-if-changed=syscalls.txt");
    println!("cargo:rerun-if-changed=functions.txt");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=build/pointers.rs");
    // The stubs hold addresses of this library for as long as the process lives.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libsemcache_blas.so");

    let text = fs::read_to_string("symbols.txt").expect("symbols.txt is readable");
    let rows = parse(&text);
    let (mut table, mut stubs) = (String::new(), String::new());
    let mut counters: Vec<&str> = Vec::new();
    let mut index = 0usize;
    for row in &rows {
        let jump = row.class == "jump";
        let counter = if jump {
            0
        } else {
            let name = counted(row.routine);
            counters.iter().position(|c| *c == name).unwrap_or_else(|| {
                counters.push(name);
                counters.len() - 1
            })
        };
        let dtype = if row.dtype == "-" {
            "D".to_owned()
        } else {
            row.dtype.to_uppercase()
        };
        let mut spellings = Vec::new();
        for (letter, list) in [('f', &FORTRAN[..]), ('p', &PLAIN[..]), ('c', &CBLAS[..])] {
            if row.spellings.contains(letter) {
                spellings.extend_from_slice(list);
            }
        }
        for (spelling, before, after) in spellings {
            let name = format!("{before}{}{after}", row.routine);
            writeln!(
                table,
                "Symbol {{ name: c\"{name}\", routine: \"{}\", class: Class::{}, dtype: Dtype::{dtype}, \
                 spelling: Spelling::{spelling}, counter: {counter} }},",
                row.routine,
                variant(row.class)
            )
            .expect("a string grows");
            let kind = match spelling {
                "Plain" | "Plain64" => "enter_any",
                _ => "enter",
            };
            if jump {
                writeln!(stubs, "jump!({name}, {index});").expect("a string grows");
            } else {
                let sizes = sizes(row.class, before.ends_with("cblas_"));
                writeln!(stubs, "{kind}!({name}, {index}, {sizes});").expect("a string grows");
            }
            index += 1;
        }
    }
    let generated = format!(
        "/// Number of exported symbols.\npub(crate) const COUNT: usize = {index};\n\
         /// All exported symbols; a stub knows its own index.\n\
         pub(crate) static SYMBOLS: [Symbol; COUNT] = [\n{table}];\n\
         /// The routines that can be offloaded, by plain name.\n\
         pub(crate) const COUNTED: [&str; {}] = {counters:?};\n",
        counters.len()
    );
    let out = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    fs::write(Path::new(&out).join("symbols.rs"), generated).expect("OUT_DIR is writable");
    fs::write(Path::new(&out).join("stubs.rs"), stubs).expect("OUT_DIR is writable");
    let table = |name| fs::read_to_string(name).expect("the table is readable");
    let (calls, functions) = pointers::expand(&table("syscalls.txt"), &table("functions.txt"));
    fs::write(Path::new(&out).join("system_calls.rs"), calls).expect("OUT_DIR is writable");
    fs::write(Path::new(&out).join("functions.rs"), functions).expect("OUT_DIR is writable");
}
