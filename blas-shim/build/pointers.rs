//! Generates Rust from `syscalls.txt` and `functions.txt`, which say of each argument of system calls and of libc's
//! functions whether it points to memory that the kernel reads or writes.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A line of a table after the name: its kind (`again`, `before`, ...) and one word for each argument.
type Row<'a> = (&'a str, Vec<&'a str>);

/// The lines of a table without comments, split into words.
fn lines(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines()
        .map(|line| line.split('#').next().unwrap_or(""))
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|words| !words.is_empty())
}

/// How many bytes an argument points to: what follows its letter, `=8`, `3` or `3*8`.
fn extent(text: &str) -> String {
    let number = |text: &str| {
        text.parse::<usize>()
            .unwrap_or_else(|_| panic!("a number expected: {text}"))
    };
    if text.is_empty() {
        return "Extent::Small".to_owned();
    }
    if let Some(bytes) = text.strip_prefix('=') {
        return format!("Extent::Bytes({})", number(bytes));
    }
    let (word, each) = text.split_once('*').unwrap_or((text, "1"));
    assert!((1..=6).contains(&number(word)), "no such argument: {text}");
    format!(
        "Extent::Counted {{ word: {}, each: {} }}",
        number(word) - 1,
        number(each)
    )
}

fn argument(text: &str) -> String {
    let (letter, rest) = text.split_at(1);
    match letter {
        "-" => "Arg::Plain".to_owned(),
        "r" => format!("Arg::Read({})", extent(rest)),
        "w" => format!("Arg::Written({})", extent(rest)),
        "n" => format!("Arg::Nested({})", extent(rest)),
        "a" => format!("Arg::Addresses({})", extent(rest)),
        "s" => "Arg::Text".to_owned(),
        "v" => "Arg::Texts".to_owned(),
        "e" => "Arg::Environment".to_owned(),
        _ => panic!("unknown argument: {text}"),
    }
}

/// A row as Rust: its `Kind`, and a slice of `Arg`.
fn shape((kind, arguments): &Row<'_>) -> String {
    let kind = match *kind {
        "again" => "Again",
        "before" => "Before",
        "exec" => "Exec",
        "kept" => "Kept",
        _ => panic!("unknown kind: {kind}"),
    };
    assert!(arguments.len() <= 6, "more than six words: {arguments:?}");
    let arguments: Vec<_> = arguments.iter().map(|text| argument(text)).collect();
    format!("Kind::{kind}, &[{}]", arguments.join(", "))
}

/// The two tables as Rust: `SYSTEM_CALLS`, by number, their `NUMBERS`, and one `function!` for each function.
pub(crate) fn expand(system_calls: &str, functions: &str) -> (String, String) {
    let mut rows: BTreeMap<&str, (&str, Row<'_>)> = BTreeMap::new();
    let (mut table, mut numbers) = (String::new(), Vec::new());
    for words in lines(system_calls) {
        let [number, name, kind, arguments @ ..] = &words[..] else {
            panic!("syscalls.txt: {words:?}");
        };
        if ["none", "hook", "left"].contains(kind) {
            continue;
        }
        let row = (*kind, arguments.to_vec());
        writeln!(table, "{number} => ({}),", shape(&row)).expect("a string grows");
        numbers.push(*number);
        rows.insert(name, (number, row));
    }
    let table = format!(
        "/// The system calls of the table, for [`super::raw`].\n\
         pub(super) const NUMBERS: &[c_long] = &[{}];\n\
         /// What is done about the memory that a system call's arguments point to.\n\
         fn system_call(number: c_long) -> Option<(Kind, &'static [Arg])> {{ Some(match number {{\n\
         {table} _ => return None,\n}}) }}\n",
        numbers.join(", ")
    );
    let mut hooks = String::new();
    for words in lines(functions) {
        let [name, result, rest @ ..] = &words[..] else {
            panic!("functions.txt: {words:?}");
        };
        let failed = match *result {
            "int" => "Int",
            "long" => "Long",
            "null" => "Null",
            "error" => "Error",
            _ => panic!("functions.txt: unknown result: {words:?}"),
        };
        let (name, call) = name.split_once('=').unwrap_or((name, ""));
        let of = |call: &str| {
            let known = rows.get(call);
            known.unwrap_or_else(|| panic!("functions.txt: no system call of this name: {call}"))
        };
        let row = match rest {
            [kind, arguments @ ..] => (*kind, arguments.to_vec()),
            [] => of(name).1.clone(),
        };
        let number = match call {
            "" => "None".to_owned(),
            call => format!("Some({})", of(call).0),
        };
        writeln!(
            hooks,
            "function!({name}, Failed::{failed}, {number}, {});",
            shape(&row)
        )
        .expect("a string grows");
    }
    (table, hooks)
}
