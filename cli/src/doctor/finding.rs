//! A finding of `semcache doctor` about this machine, and the search for shared libraries.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// One result of an examination.
#[derive(Serialize)]
pub(super) struct Finding {
    /// Whether the result is as it should be.
    pub(super) ok: bool,
    pub(super) what: String,
    /// The value or state that was found.
    pub(super) found: String,
    /// What the user can do about it, if the result is not as it should be.
    pub(super) advice: Option<Cow<'static, str>>,
}

pub(super) fn ok(what: impl Into<String>, found: impl Into<String>) -> Finding {
    Finding {
        ok: true,
        what: what.into(),
        found: found.into(),
        advice: None,
    }
}

pub(super) fn warn(
    what: impl Into<String>,
    found: impl Into<String>,
    advice: impl Into<Cow<'static, str>>,
) -> Finding {
    Finding {
        ok: false,
        what: what.into(),
        found: found.into(),
        advice: Some(advice.into()),
    }
}

/// The path of a shared library, in the directories that the dynamic linker searches: `LD_LIBRARY_PATH`, the
/// directories of `/etc/ld.so.conf`, the built-in ones.
pub(super) fn find_library(name: &str) -> Option<PathBuf> {
    let own = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
    let mut dirs: Vec<PathBuf> = own
        .split(':')
        .filter(|d| !d.is_empty())
        .map(PathBuf::from)
        .collect();
    configured(Path::new("/etc/ld.so.conf"), &mut dirs, 0);
    for dir in [
        "/lib/x86_64-linux-gnu",
        "/usr/lib/x86_64-linux-gnu",
        "/lib64",
        "/usr/lib64",
        "/lib",
        "/usr/lib",
    ] {
        dirs.push(dir.into());
    }
    dirs.into_iter().map(|d| d.join(name)).find(|p| p.exists())
}

/// Collects the directories that a file in the format of `ld.so.conf` lists, included files too.
fn configured(file: &Path, dirs: &mut Vec<PathBuf>, depth: usize) {
    let text = fs::read_to_string(file).unwrap_or_default();
    for line in text
        .lines()
        .map(|l| l.split('#').next().unwrap_or("").trim())
    {
        match line.strip_prefix("include") {
            // The only form in use: all files with one ending in one directory.
            Some(pattern) if depth < 4 => {
                let pattern = Path::new(pattern.trim());
                let Some(dir) = pattern.parent() else {
                    continue;
                };
                let mut files: Vec<PathBuf> = fs::read_dir(dir)
                    .into_iter()
                    .flatten()
                    .flatten()
                    .map(|e| e.path())
                    .collect();
                files.sort();
                for f in files
                    .iter()
                    .filter(|f| f.extension() == pattern.extension())
                {
                    configured(f, dirs, depth + 1);
                }
            }
            None if line.starts_with('/') => dirs.push(line.into()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn included_directories_are_found() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let conf = dir.path().join("conf");
        let more = dir.path().join("more.d");
        fs::create_dir(&more).expect("made");
        fs::write(more.join("a.conf"), "# x\n/a # y\n").expect("written");
        fs::write(more.join("b.txt"), "/b\n").expect("written");
        fs::write(
            &conf,
            format!("/first\ninclude {}/*.conf\n", more.display()),
        )
        .expect("written");
        let mut dirs = Vec::new();
        configured(&conf, &mut dirs, 0);
        assert_eq!(dirs, [PathBuf::from("/first"), PathBuf::from("/a")]);
    }
}
