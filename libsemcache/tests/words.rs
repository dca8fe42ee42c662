//! Comments and documents use the field's words: a list of private ones that none of them may hold.
#![allow(
    clippy::disallowed_methods,
    reason = "a test program, not the library in somebody's process"
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

/// Folders and documents, below the workspace.
const READ: &[&str] = &[
    "libsemcache",
    "blas-shim",
    "cli",
    "standin",
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

/// What a line says to its reader: all of a document's, and of code the comment. Quoted code (`between backticks`) is left out.
fn said(line: &str, ending: &str) -> String {
    let text = match ending {
        "md" => line,
        "rs" | "c" | "cpp" | "h" => line.split_once("//").map_or("", |(_, comment)| comment),
        "sh" | "py" | "m" | "toml" | "txt" => {
            line.split_once('#').map_or("", |(_, comment)| comment)
        }
        _ => "",
    };
    text.split('`').step_by(2).collect::<Vec<_>>().join(" ")
}

/// The private words of a line.
fn private(line: &str, ending: &str) -> Vec<&'static str> {
    let text = said(line, ending).to_lowercase();
    let letter = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let whole = |at: usize, word: &str| {
        // "decision d" is the beginning of a word: of the number of a decision.
        let open = word.ends_with(" d");
        !letter(text[..at].chars().next_back())
            && (open || !letter(text[at + word.len()..].chars().next()))
    };
    let words = PRIVATE.iter().map(|(word, _)| *word);
    words
        .filter(|word| text.match_indices(word).any(|(at, _)| whole(at, word)))
        .collect()
}

#[test]
fn no_private_words() {
    let mut read = Vec::new();
    READ.iter()
        .for_each(|name| files(&workspace().join(name), &mut read));
    let mut wrong = Vec::new();
    for path in &read {
        let Ok(text) = fs::read_to_string(path) else {
            continue;
        };
        let ending = path.extension().unwrap_or_default().to_string_lossy();
        for (i, line) in text.lines().enumerate() {
            for word in private(line, &ending) {
                let instead = PRIVATE
                    .iter()
                    .find(|(w, _)| *w == word)
                    .map_or("", |(_, i)| i);
                wrong.push(format!(
                    "{}:{}: \"{word}\": {instead}",
                    path.display(),
                    i + 1
                ));
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
    assert_eq!(
        private("// What is armed of them is scanned.", "rs"),
        ["armed"]
    );
    assert_eq!(
        private("Results go home (decision D7).", "md"),
        ["go home", "decision d"]
    );
    assert_eq!(private("x = 1 # Whoever reads it.", "py"), ["whoever"]);
    assert!(private("let armed = 1; // Unarmed, and `armed`.", "rs").is_empty());
}
