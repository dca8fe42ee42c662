//! Comments, documents, messages and names use the field's words: lists of private ones that none of them may hold.
#![allow(
    clippy::disallowed_methods,
    reason = "a test program, not the library in a user's process"
)]

use std::fs;
use std::path::{Path, PathBuf};

/// A private word or phrase, in lower case, and what to write instead. A word matches as a whole.
const PRIVATE: &[(&str, &str)] = &[
    ("armed", "write-tracked"),
    ("disarmed", "no longer write-tracked"),
    ("goes home", "is copied to the host, is written back"),
    ("go home", "are copied to the host, are written back"),
    ("going home", "being copied to the host, being written back"),
    ("brings home", "copies to the host, writes back"),
    ("bring home", "copy to the host, write back"),
    ("brought home", "copied to the host, written back"),
    ("sent home", "copied to the host, written back"),
    ("sends home", "copies to the host, writes back"),
    ("homeward", "streamed write-back"),
    ("toll", "prediction error"),
    ("remembered call", "replayed call"),
    ("on trial", "probed (A/B probe)"),
    ("is the host's", "runs on the host BLAS"),
    ("are the host's", "run on the host BLAS"),
    ("whoever", "the actor's name"),
    ("somebody", "the actor's name"),
    ("so many", "the number's name"),
    ("decision d", "the reason itself"),
];

/// Private names of functions, types, fields and modules, and what to write instead.
const NAMES: &[(&str, &str)] = &[
    ("toll", "prediction_error"),
    ("memo", "host_decisions"),
    ("remembered", "replayed"),
    ("homeward", "streamed"),
    ("homecoming", "PendingCopies"),
    ("bring_home", "write_back"),
    ("comes_home", "writes_back"),
    ("send_home", "queue_write_back"),
    ("on_trial", "probing"),
    ("trials", "AbProbes"),
    ("invest", "amortisation"),
    ("goes_home", "note_host"),
    ("stays_home", "stays_on_host"),
    ("at_home", "on_host"),
    ("eagergate", "WriteThroughGate"),
    ("bets", "Amortisation"),
    ("masked", "SignalsBlocked"),
    ("armed", "write_tracked"),
    ("disarm", "untrack"),
    ("unwatched", "not_write_tracked"),
    ("open_territory", "untrapped"),
    ("aside", "scratch"),
    ("go_eager", "go_write_through"),
];

/// Where the names are checked: the code of these folders. Tests and the fuzzer also play other programs.
const NAMED: &[&str] = &["libsemcache/src", "blas-shim/src", "cli/src"];

/// Folders and documents, below the workspace.
const READ: &[&str] = &[
    "libsemcache",
    "blas-shim",
    "cli",
    "standin",
    "fuzz",
    "testkit",
    "glibc-versions",
    "scripts",
    "bench",
    "docs",
    "examples",
    "tests",
    "README.md",
    "ARCHITECTURE.md",
    "SPECIFICATION.md",
    "CONTRIBUTING.md",
];

/// Tables of measurements say what was measured in the words of their time; this list has to name what it forbids.
const SKIPPED: &[&str] = &["bench/results", "libsemcache/tests/words.rs"];

fn workspace() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let workspace = package.parent();
    workspace
        .expect("the package lies in the workspace")
        .to_owned()
}

fn files(at: &Path, found: &mut Vec<PathBuf>) {
    let name = at.strip_prefix(workspace()).expect("below the workspace");
    let hidden = |n: &std::ffi::OsStr| n.to_string_lossy().starts_with('.') || n == "target";
    if SKIPPED.iter().any(|s| name == Path::new(s)) || at.file_name().is_some_and(hidden) {
        return;
    }
    if at.is_dir() {
        let mut inside: Vec<PathBuf> = fs::read_dir(at)
            .expect("a readable folder")
            .map(|e| e.expect("a readable entry").path())
            .collect();
        inside.sort();
        inside.iter().for_each(|path| files(path, found));
    } else {
        found.push(at.to_owned());
    }
}

/// A line of code without its comment, and the comment.
fn parted<'a>(line: &'a str, ending: &str) -> (&'a str, &'a str) {
    let mark = match ending {
        "md" => return ("", line),
        "rs" | "c" | "cpp" | "h" => "//",
        "sh" | "py" | "m" | "scn" | "toml" | "txt" => "#",
        _ => return (line, ""),
    };
    line.split_once(mark).unwrap_or((line, ""))
}

/// What a line says to its reader: all of a document's, and of code the comment and the strings. Quoted code (`between
/// backticks`) is left out.
fn said(line: &str, ending: &str) -> String {
    let (code, comment) = parted(line, ending);
    let strings = code.split('"').skip(1).step_by(2);
    let comment = comment.split('`').step_by(2);
    strings.chain(comment).collect::<Vec<_>>().join(" ")
}

/// Those entries of a list whose words are in a text, each as a whole word; `joins` says whether an underscore belongs to
/// a word.
fn found<'a>(list: &'a [(&str, &str)], text: &str, joins: bool) -> Vec<(&'a str, &'a str)> {
    let text = text.to_lowercase();
    let letter = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_' && joins);
    let whole = |at: usize, word: &str| {
        // "decision d" is the beginning of a word: of the number of a decision.
        let open = word.ends_with(" d");
        !letter(text[..at].chars().next_back())
            && (open || !letter(text[at + word.len()..].chars().next()))
    };
    let met = |word: &str| text.match_indices(word).any(|(at, _)| whole(at, word));
    list.iter().copied().filter(|(word, _)| met(word)).collect()
}

/// The private words that a line says.
fn words(line: &str, ending: &str) -> Vec<(&'static str, &'static str)> {
    found(PRIVATE, &said(line, ending), true)
}

/// The private names in a line of code.
fn names(line: &str) -> Vec<(&'static str, &'static str)> {
    found(NAMES, parted(line, "rs").0, false)
}

#[test]
fn no_private_words() {
    let mut read = Vec::new();
    READ.iter()
        .for_each(|name| files(&workspace().join(name), &mut read));
    for name in NAMED {
        let folder = workspace().join(name);
        assert!(
            read.iter().any(|path| path.starts_with(&folder)),
            "no file in {name}"
        );
    }
    let mut wrong = Vec::new();
    for path in &read {
        assert!(path.exists(), "no {}", path.display());
        // A file that is not text says nothing.
        let Ok(text) = fs::read_to_string(path) else {
            continue;
        };
        let ending = path.extension().unwrap_or_default().to_string_lossy();
        let named = NAMED
            .iter()
            .any(|dir| path.starts_with(workspace().join(dir)));
        for (i, line) in text.lines().enumerate() {
            let mut met = words(line, &ending);
            if named {
                met.extend(names(line));
            }
            for (word, instead) in met {
                let at = path.display();
                wrong.push(format!("{at}:{}: \"{word}\": {instead}", i + 1));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} private words:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn a_private_word_is_found() {
    let words = |line, ending| {
        words(line, ending)
            .into_iter()
            .map(|(word, _)| word)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        words("// What is armed of them is scanned.", "rs"),
        ["armed"]
    );
    assert_eq!(
        words("Results go home (decision D7).", "md"),
        ["go home", "decision d"]
    );
    assert_eq!(words("x = 1 # Whoever reads it.", "py"), ["whoever"]);
    assert_eq!(words("say(\"results go home\");", "rs"), ["go home"]);
    assert!(words("let armed = 1; // Unarmed, and `armed`.", "rs").is_empty());
}

#[test]
fn a_private_name_is_found() {
    let found: Vec<_> = names("fn armed_in(toll: Toll) {} // masked")
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(found, ["toll", "armed"]);
    assert!(names("let memory = unmasked;").is_empty());
}
