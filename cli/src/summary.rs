//! What the reports of a run add up to.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use semcache::runtime::report::{destination, human, saved};
use serde_json::Value;

/// The calls of one routine.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Calls {
    pub(crate) offloaded: u64,
    pub(crate) host: u64,
    pub(crate) why_host: BTreeMap<String, u64>,
}

/// One report, or the sum of several.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Summary {
    /// How many reports.
    pub(crate) processes: usize,
    /// Name, kind and memory of the devices of the first report that names any.
    pub(crate) devices: Vec<(String, String, u64)>,
    pub(crate) calls: BTreeMap<String, Calls>,
    pub(crate) h2d: u64,
    pub(crate) d2h: u64,
    pub(crate) p2p: u64,
    pub(crate) saved: i64,
    pub(crate) fault_reads: u64,
    pub(crate) fault_writes: u64,
    pub(crate) false_sharing: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) evictions: u64,
    pub(crate) closes: u64,
    pub(crate) fallbacks: u64,
    pub(crate) degraded: Vec<String>,
}

impl Summary {
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Self::parse(&text).map_err(|e| format!("{}: {e}", path.display()))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let json: Value = serde_json::from_str(text).map_err(|e| format!("not a report: {e}"))?;
        match json["version"].as_u64() {
            Some(1) => {}
            Some(version) => {
                return Err(format!(
                    "a report of version {version}; this command reads 1"
                ));
            }
            None => return Err("not a report: it has no version".to_owned()),
        }
        let number = |group: &str, key: &str| json[group][key].as_u64().unwrap_or(0);
        let calls = json["calls"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, c)| {
                let why = c["why_host"].as_object().into_iter().flatten();
                let calls = Calls {
                    offloaded: c["offloaded"].as_u64().unwrap_or(0),
                    host: c["host"].as_u64().unwrap_or(0),
                    why_host: why
                        .map(|(k, n)| (k.clone(), n.as_u64().unwrap_or(0)))
                        .collect(),
                };
                (name.clone(), calls)
            });
        let text = |v: &Value| v.as_str().unwrap_or("?").to_owned();
        Ok(Summary {
            processes: 1,
            devices: json["devices"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|d| {
                    (
                        text(&d["name"]),
                        text(&d["kind"]),
                        d["memory"].as_u64().unwrap_or(0),
                    )
                })
                .collect(),
            calls: calls.collect(),
            h2d: number("bytes", "h2d"),
            d2h: number("bytes", "d2h"),
            p2p: number("bytes", "p2p"),
            saved: json["bytes"]["saved"].as_i64().unwrap_or(0),
            fault_reads: number("faults", "read"),
            fault_writes: number("faults", "write"),
            false_sharing: number("faults", "false_sharing"),
            hits: number("cache", "hits"),
            misses: number("cache", "misses"),
            evictions: number("cache", "evictions"),
            closes: number("cache", "closes"),
            fallbacks: json["fallbacks"].as_u64().unwrap_or(0),
            degraded: json["degraded"]
                .as_array()
                .into_iter()
                .flatten()
                .map(text)
                .collect(),
        })
    }

    pub(crate) fn add(&mut self, other: &Summary) {
        self.processes += other.processes;
        if self.devices.is_empty() {
            self.devices.clone_from(&other.devices);
        }
        for (name, calls) in &other.calls {
            let mine = self.calls.entry(name.clone()).or_default();
            mine.offloaded += calls.offloaded;
            mine.host += calls.host;
            for (why, n) in &calls.why_host {
                *mine.why_host.entry(why.clone()).or_default() += n;
            }
        }
        self.saved += other.saved;
        for (mine, more) in [
            (&mut self.h2d, other.h2d),
            (&mut self.d2h, other.d2h),
            (&mut self.p2p, other.p2p),
            (&mut self.fault_reads, other.fault_reads),
            (&mut self.fault_writes, other.fault_writes),
            (&mut self.false_sharing, other.false_sharing),
            (&mut self.hits, other.hits),
            (&mut self.misses, other.misses),
            (&mut self.evictions, other.evictions),
            (&mut self.closes, other.closes),
            (&mut self.fallbacks, other.fallbacks),
        ] {
            *mine += more;
        }
        for what in &other.degraded {
            if !self.degraded.contains(what) {
                self.degraded.push(what.clone());
            }
        }
    }

    /// The closing line of `semcache run`.
    pub(crate) fn line(&self) -> String {
        const NAMED: usize = 4;
        if self.calls.is_empty() {
            return format!("semcache: the program made no BLAS calls{}", self.tail());
        }
        let mut routines: Vec<(&String, &Calls)> =
            self.calls.iter().filter(|(_, c)| c.offloaded > 0).collect();
        if routines.is_empty() {
            return format!("semcache: {}{}", self.all_on_host(), self.tail());
        }
        routines.sort_by_key(|(_, c)| core::cmp::Reverse(c.offloaded));
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
        let faults = self.fault_reads + self.fault_writes;
        format!(
            "semcache: {} calls offloaded; {} moved, {}; {faults} fault{}{}",
            parts.join(", "),
            human(self.h2d + self.d2h),
            saved(self.saved),
            if faults == 1 { "" } else { "s" },
            self.tail()
        )
    }

    fn all_on_host(&self) -> String {
        let mut why: BTreeMap<&str, u64> = BTreeMap::new();
        for (reason, n) in self.calls.values().flat_map(|c| &c.why_host) {
            *why.entry(reason).or_default() += n;
        }
        let all: u64 = self.calls.values().map(|c| c.host).sum();
        let mut why: Vec<(&str, u64)> = why.into_iter().collect();
        why.sort_by_key(|(_, n)| core::cmp::Reverse(*n));
        let why: Vec<String> = why
            .iter()
            .map(|(reason, n)| format!("{reason} {n}"))
            .collect();
        format!("no call offloaded; {all} on the host ({})", why.join(", "))
    }

    fn tail(&self) -> String {
        let mut tail = String::new();
        if self.fallbacks > 0 {
            tail.push_str(&format!("; {} finished on the host", self.fallbacks));
        }
        if !self.degraded.is_empty() {
            tail.push_str(&format!("; degraded: {}", self.degraded.join(", ")));
        }
        if self.processes > 1 {
            tail.push_str(&format!("; {} processes", self.processes));
        }
        tail
    }
}

/// The report files of a run: told apart from what lay there before.
#[derive(Debug)]
pub(crate) struct Files {
    template: String,
    before: Vec<(PathBuf, Identity)>,
}

type Identity = (u64, i64, i64, u64);

fn identity(path: &Path) -> Option<Identity> {
    let stat = std::fs::symlink_metadata(path).ok()?;
    Some((stat.ino(), stat.mtime(), stat.mtime_nsec(), stat.size()))
}

impl Files {
    /// Remembers what is there. `template` is an absolute path that may hold `%p`.
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

    /// Reports written since then, that of the main process `pid` first.
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

    /// Everything that may be a report of this template: with `%p` in the file name, any number in its
    /// place; without, the path itself and the path with `.<number>`.
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

    const JACOBI: &str = r#"{"version":1,"devices":[{"name":"sim0","kind":"sim","memory":7}],
        "calls":{"dgemv":{"offloaded":100,"host":0,"why_host":{}}},
        "bytes":{"h2d":134000000,"d2h":3000000,"p2p":0,"saved":13400000000},
        "faults":{"read":1,"write":1,"false_sharing":0,"p50_us":1.0,"p99_us":2.0},
        "cache":{"hits":1,"misses":2,"evictions":3,"closes":4},"fallbacks":0,"degraded":[]}"#;

    #[test]
    fn the_closing_line() {
        let one = Summary::parse(JACOBI).expect("a report");
        assert_eq!(
            one.line(),
            "semcache: dgemv 100 of 100 calls offloaded; 137 MB moved, 13.4 GB not moved; 2 faults"
        );
        let mut two = one.clone();
        two.add(&one);
        assert_eq!(
            two.line(),
            "semcache: dgemv 200 of 200 calls offloaded; 274 MB moved, 26.8 GB not moved; 4 faults; 2 processes"
        );
    }

    #[test]
    fn nothing_offloaded_says_why() {
        let text = r#"{"version":1,"calls":{"dgemm":{"offloaded":0,"host":5,"why_host":{"small":2,"no_device":3}}},
            "degraded":["no_driver"]}"#;
        assert_eq!(
            Summary::parse(text).expect("a report").line(),
            "semcache: no call offloaded; 5 on the host (no_device 3, small 2); degraded: no_driver"
        );
        assert_eq!(
            Summary::parse(r#"{"version":1}"#).expect("a report").line(),
            "semcache: the program made no BLAS calls"
        );
    }

    #[test]
    fn other_files_are_not_reports() {
        assert!(Summary::parse("{").is_err());
        assert!(Summary::parse("{}").is_err());
        assert!(Summary::parse(r#"{"version":2}"#).is_err());
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
