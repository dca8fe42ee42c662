//! Generates the table of exported symbols and one stub per symbol from `symbols.txt`, and hooks of system calls and of
//! libc's functions from `syscalls.txt` and `functions.txt` ([`pointers`]).

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

#[path = "build/mpi.rs"]
mod mpi;
#[path = "build/pointers.rs"]
mod pointers;

/// The spellings of a routine's name: variant of `Spelling`, prefix, suffix.
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
                row.spellings.chars().all(|s| "fpc?".contains(s)),
                "symbols.txt: unknown spelling in: {line}"
            );
            row
        })
        .collect()
}

/// The variant of `Class`: `dotc_sub` becomes `Sub(Routine::Dotc)`.
fn variant(class: &str) -> String {
    if let Some(solver) = class.strip_prefix("lapack_") {
        return format!("Solver(Solver::{})", capital(solver));
    }
    let (class, kind) = match class.strip_suffix("_sub") {
        Some(class) => (class, "Sub"),
        None => (class, "Call"),
    };
    let routine = match class {
        "jump" => return "Jump".to_owned(),
        "gemm_batch_strided" => return "Strided".to_owned(),
        "gemm_batch" => "GemmBatch".to_owned(),
        "realscal" => "RealScal".to_owned(),
        // Without conjugation, the complex routine is the operation that real types have.
        "geru" => "Ger".to_owned(),
        "dotu" => "Dot".to_owned(),
        _ => capital(class),
    };
    format!("{kind}(Routine::{routine})")
}

fn capital(name: &str) -> String {
    name[..1].to_uppercase() + &name[1..]
}

fn main() {
    println!("cargo:rerun-if-changed=symbols.txt");
    println!("cargo:rerun-if-changed=syscalls.txt");
    println!("cargo:rerun-if-changed=functions.txt");
    println!("cargo:rerun-if-changed=mpi.txt");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=build/mpi.rs");
    println!("cargo:rerun-if-changed=build/pointers.rs");
    // The library is never unloaded: other objects hold addresses of the stubs for as long as the process lives.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libsemcache_blas.so");
    println!("cargo:rustc-cdylib-link-arg={}", glibc_versions::LIBRARIES);

    let text = fs::read_to_string("symbols.txt").expect("symbols.txt is readable");
    let rows = parse(&text);
    let (mut table, mut names, mut stubs) = (String::new(), String::new(), String::new());
    let (mut index, mut start) = (0usize, 0usize);
    for row in &rows {
        let jump = row.class == "jump";
        let dtype = if row.dtype == "-" {
            "D".to_owned()
        } else {
            row.dtype.to_uppercase()
        };
        let (class, may_be_missing) = (variant(row.class), row.spellings.contains('?'));
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
                "Symbol {{ start: {start}, length: {}, class: Class::{class}, dtype: Dtype::{dtype}, \
                 spelling: Spelling::{spelling}, may_be_missing: {may_be_missing} }},",
                name.len(),
            )
            .expect("a string grows");
            write!(names, "{name}\\0").expect("a string grows");
            start += name.len() + 1;
            let stub = match spelling {
                _ if jump => format!("jump!({name}, {index});"),
                "Plain" | "Plain64" => format!("enter_any!({name}, {index});"),
                _ => {
                    let cblas = before.ends_with("cblas_");
                    format!("enter!({name}, {index}, {cblas}, Class::{class});")
                }
            };
            writeln!(stubs, "{stub}").expect("a string grows");
            index += 1;
        }
    }
    let generated = format!(
        "/// Number of exported symbols.\npub(crate) const COUNT: usize = {index};\n\
         /// All exported symbols; a stub knows its own index.\n\
         pub(crate) static SYMBOLS: [Symbol; COUNT] = [\n{table}];\n\
         /// The names of all symbols, each with a zero byte behind it.\n\
         static NAMES: &str = \"{names}\";\n"
    );
    let out = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    fs::write(Path::new(&out).join("symbols.rs"), generated).expect("OUT_DIR is writable");
    fs::write(Path::new(&out).join("stubs.rs"), stubs).expect("OUT_DIR is writable");
    let table = |name| fs::read_to_string(name).expect("the table is readable");
    let (calls, functions) = pointers::expand(&table("syscalls.txt"), &table("functions.txt"));
    fs::write(Path::new(&out).join("system_calls.rs"), calls).expect("OUT_DIR is writable");
    fs::write(Path::new(&out).join("functions.rs"), functions).expect("OUT_DIR is writable");
    let hooks = mpi::expand(&table("mpi.txt"));
    fs::write(Path::new(&out).join("mpi.rs"), hooks).expect("OUT_DIR is writable");
}
