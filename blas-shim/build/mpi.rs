//! Generates Rust from `mpi.txt`, which says of each argument of MPI's functions what it means for the program's memory.

use std::fmt::Write as _;

/// The place of the next argument that begins with this word, from `at` on: `n`, and whether an `8` follows the word.
fn next(arguments: &[&str], at: usize, word: &str) -> Option<(usize, bool)> {
    let of = |argument: &str| {
        let rest = argument.strip_prefix(word)?;
        matches!(rest, "" | "8").then_some(rest == "8")
    };
    (at..arguments.len()).find_map(|i| Some((i, of(arguments[i])?)))
}

/// An argument of which there is one in a function.
fn single(arguments: &[&str], word: &str) -> String {
    match next(arguments, 0, word) {
        Some((at, _)) => format!("Some({at})"),
        None => "None".to_owned(),
    }
}

fn capital(name: &str) -> String {
    name[..1].to_uppercase() + &name[1..]
}

/// A buffer as Rust; `large`: of a function whose counts are of 64 bits.
fn buffer(name: &str, arguments: &[&str], at: usize, large: bool) -> Option<String> {
    let mut words = arguments[at].split('.');
    let written = match words.next()? {
        "r" => false,
        "w" => true,
        _ => return None,
    };
    let shape = words
        .next()
        .unwrap_or_else(|| panic!("mpi.txt: {name}: no shape"));
    let (mut ends, mut who) = ("Group", "All");
    for word in words {
        match word {
            "root" | "leaf" | "both" => who = word,
            "in" => ends = "Sources",
            "out" => ends = "Destinations",
            _ => panic!("mpi.txt: {name}: unknown: {word}"),
        }
    }
    let count = next(arguments, at, if shape == "bytes" { "size" } else { "n" });
    // A buffer of one element has no count.
    let (count, wide) = count.unwrap_or((0, false));
    let (displacements, far) = next(arguments, at, "d").unwrap_or((0, false));
    let datatype = next(arguments, at, "t").map_or(0, |(at, _)| at);
    let parts = next(arguments, at, "parts").map_or(0, |(at, _)| at);
    let scattered = arguments.contains(&"r.sum");
    Some(format!(
        "Operand {{ at: {at}, written: {written}, shape: Shape::{}, ends: Ends::{ends}, who: Who::{}, count: {count}, \
         wide: {}, displacements: {displacements}, far: {}, datatype: {datatype}, parts: {parts}, scattered: {scattered} }}",
        capital(shape),
        capital(who),
        wide || large,
        far || large,
    ))
}

/// One hook for each function, and the row of each.
pub(crate) fn expand(text: &str) -> String {
    let mut hooks = String::new();
    for line in text.lines() {
        let words: Vec<_> = line
            .split('#')
            .next()
            .unwrap_or("")
            .split_whitespace()
            .collect();
        let [name, kind, arguments @ ..] = &words[..] else {
            assert!(words.is_empty(), "mpi.txt: {line}");
            continue;
        };
        if ["none", "operator"].contains(kind) {
            continue;
        }
        let (name, sizes) = match name.strip_suffix("/c") {
            Some(name) => (name, &[false, true][..]),
            None => (*name, &[false][..]),
        };
        for large in sizes {
            let buffers: Vec<_> = (0..arguments.len())
                .filter_map(|at| buffer(name, arguments, at, *large))
                .collect();
            let number = next(arguments, 0, "q").and_then(|(q, _)| {
                let before = next(&arguments[..q], 0, "n")?;
                (buffers.is_empty()).then_some(before.0)
            });
            let number = number.map_or("None".to_owned(), |at| format!("Some({at})"));
            let of = |word| single(arguments, word);
            let name = format!("MPI_{name}{}", if *large { "_c" } else { "" });
            let letters: Vec<_> = ('a'..).take(arguments.len()).map(String::from).collect();
            // Open MPI 4 has the persistent collective functions of MPI 4 as extensions.
            let extension = *kind == "persistent" && arguments.contains(&"c") && !large;
            let names = match extension {
                true => format!("{name}, P{name}, MPIX{0}, PMPIX{0}", &name[3..]),
                false => format!("{name}, P{name}"),
            };
            writeln!(
                hooks,
                "hook!([{names}], ({}), Row {{ name: \"{name}\", kind: Kind::{}, buffers: &[{}], comm: {}, root: {}, request: {}, handle: {}, \
                 number: {number}, flag: {}, index: {}, indices: {}, window: {}, window_at: {}, file: {}, rank: {}, base: {}, size: {}, given_up: {} }});",
                letters.join(", "),
                capital(kind),
                buffers.join(", "),
                of("c"),
                of("root"),
                of("q"),
                of("handle"),
                of("flag"),
                of("index"),
                of("indices"),
                of("win"),
                of("winptr"),
                of("file"),
                of("rank"),
                of("base"),
                of("size"),
                of("at"),
            )
            .expect("a string grows");
        }
    }
    hooks
}
