//! Sums up the reports of a run's processes.

use core::cmp::Reverse;
use core::fmt::Display;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use semcache::base::counters::{Calls, Values};
use semcache::runtime::report::file::destination;
use semcache::runtime::report::{Report, human, saved};

/// The sums over the reports of a run.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    /// The number of reports.
    pub(crate) processes: usize,
    total: Report,
}

impl Summary {
    /// Adds the report in a file to the sums.
    pub(crate) fn add(&mut self, path: &Path) -> Result<(), String> {
        let named = |e: &dyn Display| format!("{}: {e}", path.display());
        let text = std::fs::read_to_string(path).map_err(|e| named(&e))?;
        self.add_text(&text).map_err(|e| named(&e))
    }

    fn add_text(&mut self, text: &str) -> Result<(), String> {
        self.total.add(&Report::parse(text)?);
        self.processes += 1;
        Ok(())
    }

    /// The sums as a table, with a line end after each line.
    pub(crate) fn table(&self) -> String {
        let processes = match self.processes {
            0 | 1 => String::new(),
            n => format!("{n} processes\n"),
        };
        processes + &self.total.table()
    }

    /// The closing line of `semcache run`.
    pub(crate) fn line(&self) -> String {
        const NAMED: usize = 4;
        let calls = &self.total.calls;
        let counts = &self.total.counts;
        let sparse = (counts.sparse, counts.sparse + sparse_on_host(counts));
        if calls.is_empty() && sparse.1 == 0 {
            return format!("semcache: the program made no BLAS calls{}", self.tail());
        }
        let mut routines: Vec<(&String, &Calls)> =
            calls.iter().filter(|(_, c)| c.offloaded > 0).collect();
        if routines.is_empty() && sparse.0 == 0 {
            return format!("semcache: {}{}", self.all_on_host(), self.tail());
        }
        routines.sort_by_key(|(_, c)| Reverse(c.offloaded));
        let mut parts: Vec<String> = routines
            .iter()
            .take(NAMED)
            .map(|(name, c)| format!("{name} {} of {}", c.offloaded, c.offloaded + c.host))
            .collect();
        if routines.len() > NAMED {
            let rest = &routines[NAMED..];
            let offloaded: u64 = rest.iter().map(|(_, c)| c.offloaded).sum();
            let all: u64 = rest.iter().map(|(_, c)| c.offloaded + c.host).sum();
            parts.push(format!("{} others {offloaded} of {all}", rest.len()));
        }
        if sparse.0 > 0 {
            parts.push(format!("sparse products {} of {}", sparse.0, sparse.1));
        }
        let (bytes, faults) = (&self.total.counts.bytes, &self.total.counts.faults);
        let faults = faults.read + faults.write;
        format!(
            "semcache: {} calls offloaded; {} moved, {}; {faults} fault{}{}",
            parts.join(", "),
            human(bytes.h2d + bytes.d2h + bytes.mapped),
            saved(bytes.saved),
            if faults == 1 { "" } else { "s" },
            self.tail()
        )
    }

    fn all_on_host(&self) -> String {
        let mut sum = Calls::default();
        self.total.calls.values().for_each(|c| sum.add(c));
        let mut why: Vec<(&String, &u64)> = sum.why_host.iter().collect();
        why.sort_by_key(|(_, n)| Reverse(**n));
        let why: Vec<String> = why
            .iter()
            .map(|(reason, n)| format!("{reason} {n}"))
            .collect();
        let all = sum.host;
        let mut line = String::from("no call offloaded");
        if all > 0 {
            line.push_str(&format!("; {all} on the host ({})", why.join(", ")));
        }
        match sparse_on_host(&self.total.counts) {
            0 => {}
            n => line.push_str(&format!("; {n} sparse products on the host")),
        }
        line
    }

    fn tail(&self) -> String {
        let mut tail = String::new();
        if self.total.counts.fallbacks > 0 {
            tail.push_str(&format!(
                "; {} finished on the host",
                self.total.counts.fallbacks
            ));
        }
        if !self.total.degraded.is_empty() {
            let names: Vec<&str> = self.total.degraded.iter().map(String::as_str).collect();
            tail.push_str(&format!("; degraded: {}", names.join(", ")));
        }
        if self.processes > 1 {
            tail.push_str(&format!("; {} processes", self.processes));
        }
        tail
    }
}

/// The report files of a run, which are distinguished from files that existed before the run.
#[derive(Debug)]
pub(crate) struct Files {
    template: String,
    before: Vec<(PathBuf, Identity)>,
}

type Identity = (u64, i64, i64, u64);

/// Products of sparse matrices that the host computed.
fn sparse_on_host(counts: &Values) -> u64 {
    counts.sparse_host + counts.sparse_passed
}

fn identity(path: &Path) -> Option<Identity> {
    let stat = std::fs::symlink_metadata(path).ok()?;
    Some((stat.ino(), stat.mtime(), stat.mtime_nsec(), stat.size()))
}

impl Files {
    /// Notes the report files that exist before the run. `template` is an absolute path that may contain `%p`.
    pub(crate) fn before(template: &str) -> Self {
        let mut this = Files {
            template: template.to_owned(),
            before: Vec::new(),
        };
        this.before = this
            .candidates()
            .into_iter()
            .filter_map(|p| identity(&p).map(|id| (p, id)))
            .collect();
        this
    }

    /// The reports written since [`Files::before`], that of the main process `pid` first.
    pub(crate) fn new_reports(&self, pid: u32) -> Vec<PathBuf> {
        let main = destination(&self.template, pid, true);
        let mut new: Vec<PathBuf> = self
            .candidates()
            .into_iter()
            .filter(|p| {
                let now = identity(p);
                now.is_some()
                    && !self
                        .before
                        .iter()
                        .any(|(old, id)| old == p && Some(*id) == now)
            })
            .collect();
        new.sort_by_key(|p| (*p != main, p.clone()));
        new
    }

    /// All files that may be reports of this template: with `%p` in the file name, any number in its place; without,
    /// the path itself and the path with `.<number>` appended.
    fn candidates(&self) -> Vec<PathBuf> {
        let path = Path::new(&self.template);
        let (Some(dir), Some(name)) = (path.parent(), path.file_name().and_then(|n| n.to_str()))
        else {
            return Vec::new();
        };
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        entries
            .filter(|e| e.file_name().to_str().is_some_and(|n| matches(name, n)))
            .map(|e| e.path())
            .collect()
    }
}

fn matches(template: &str, name: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match template.split_once("%p") {
        None => {
            name == template
                || name
                    .strip_prefix(template)
                    .and_then(|rest| rest.strip_prefix('.'))
                    .is_some_and(number)
        }
        Some((head, tail)) => name
            .strip_prefix(head)
            .and_then(|rest| rest.bytes().take_while(u8::is_ascii_digit).count().into())
            .is_some_and(|digits: usize| {
                let pid = &name[head.len()..head.len() + digits];
                number(pid) && name[head.len() + digits..] == tail.replace("%p", pid)
            }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JACOBI: &str = r#"{"version":2,"devices":[{"name":"sim0","kind":"sim","memory":7}],
        "calls":{"dgemv":{"offloaded":100,"host":0,"why_host":{}}},
        "bytes":{"h2d":134000000,"d2h":3000000,"p2p":0,"saved":13400000000},
        "faults":{"read":1,"write":1,"false_sharing":0,"p50_us":1.0,"p99_us":2.0},
        "cache":{"hits":1,"misses":2,"evictions":3,"closes":4},"fallbacks":0,"degraded":[]}"#;

    fn summary(text: &str) -> Summary {
        let mut summary = Summary::default();
        summary.add_text(text).expect("a report");
        summary
    }

    #[test]
    fn the_closing_line() {
        let mut sum = summary(JACOBI);
        assert_eq!(
            sum.line(),
            "semcache: dgemv 100 of 100 calls offloaded; 137 MB moved, 13.4 GB not moved; 2 faults"
        );
        sum.add_text(JACOBI).expect("a report");
        assert_eq!(
            sum.line(),
            "semcache: dgemv 200 of 200 calls offloaded; 274 MB moved, 26.8 GB not moved; 4 faults; 2 processes"
        );
        assert!(sum.table().starts_with("2 processes\n"));
    }

    #[test]
    fn nothing_offloaded_says_why() {
        let text = r#"{"version":2,"calls":{"dgemm":{"offloaded":0,"host":5,"why_host":{"small":2,"no_device":3}}},
            "degraded":["no_driver"]}"#;
        assert_eq!(
            summary(text).line(),
            "semcache: no call offloaded; 5 on the host (no_device 3, small 2); degraded: no_driver"
        );
        assert_eq!(
            summary(r#"{"version":2}"#).line(),
            "semcache: the program made no BLAS calls"
        );
    }

    #[test]
    fn sparse_products_count() {
        let line = |text| summary(text).line();
        assert_eq!(
            line(r#"{"version":2,"sparse_host":1,"sparse_passed":2}"#),
            "semcache: no call offloaded; 3 sparse products on the host"
        );
        assert_eq!(
            line(r#"{"version":2,"sparse":5,"sparse_host":1,"sparse_passed":2}"#),
            "semcache: sparse products 5 of 8 calls offloaded; 0 B moved, 0 B not moved; 0 faults"
        );
    }

    #[test]
    fn names_of_reports() {
        assert!(matches("r", "r") && matches("r", "r.12"));
        assert!(!matches("r", "r.12.tmp") && !matches("r", "r.") && !matches("r", "rx"));
        assert!(matches("r%p.json", "r12.json") && matches("%p-%p", "7-7"));
        assert!(!matches("r%p.json", "r.json") && !matches("%p-%p", "7-8"));
    }

    #[test]
    fn only_new_files_count() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("r");
        std::fs::write(&path, "old").expect("written");
        std::fs::write(dir.path().join("r.5"), "old").expect("written");
        let files = Files::before(path.to_str().expect("utf-8"));
        assert!(files.new_reports(9).is_empty());
        std::fs::write(dir.path().join("r.6"), "new").expect("written");
        std::fs::write(dir.path().join("fresh"), "new, longer").expect("written");
        std::fs::rename(dir.path().join("fresh"), &path).expect("renamed");
        assert_eq!(files.new_reports(9), [path, dir.path().join("r.6")]);
    }
}
