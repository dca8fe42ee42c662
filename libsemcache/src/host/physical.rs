//! How much physical memory and how many mappings this process may use: the machine's, and the limits of the process's
//! control groups.

use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use rustix::fs::{CWD, Mode, OFlags};

use crate::protect;

/// Memory of the machine in bytes. Allocates nothing.
pub(super) fn machine() -> usize {
    static KNOWN: AtomicUsize = AtomicUsize::new(0);
    match KNOWN.load(Relaxed) {
        0 => {
            let info = rustix::system::sysinfo();
            let unit = u64::from(info.mem_unit.max(1));
            #[expect(
                clippy::useless_conversion,
                reason = "the kernel's word has another width elsewhere"
            )]
            let total = u64::from(info.totalram).saturating_mul(unit);
            let total = usize::try_from(total).unwrap_or(usize::MAX).max(1);
            KNOWN.store(total, Relaxed);
            total
        }
        known => known,
    }
}

/// How many mappings this process may still add. Allocates nothing.
pub(super) fn mappings() -> usize {
    protect::max_map_count().saturating_sub(protect::mapped())
}

/// How much of the machine's memory this process may use: the smallest limit of the control groups that the process is
/// in. Reads files.
#[must_use]
pub fn memory() -> usize {
    let mut list = [0; 4096];
    let groups = read("/proc/self/cgroup", &mut list);
    let limit = groups.lines().filter_map(limit_of).min();
    limit.map_or(machine(), |limit| limit.min(machine()))
}

/// How much more memory this process may use, roughly: what the machine has available, or what is left of the limit of its control groups
/// beside its own resident pages. Reads files.
#[must_use]
pub fn available() -> usize {
    let (mut meminfo, mut statm) = ([0; 512], [0; 128]);
    let lines = read("/proc/meminfo", &mut meminfo).lines();
    let kib = lines
        .filter_map(|line| line.strip_prefix("MemAvailable:"))
        .filter_map(|value| value.split_whitespace().next()?.parse::<usize>().ok())
        .next();
    let of_machine = kib.map_or(usize::MAX, |kib| kib.saturating_mul(1024));
    let resident = read("/proc/self/statm", &mut statm)
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse::<usize>().ok())
        .unwrap_or(0);
    let page = semcache_fault::pages::page_size();
    of_machine.min(memory().saturating_sub(resident.saturating_mul(page)))
}

/// The memory limit of the control group that a line of /proc/self/cgroup (`hierarchy:controllers:path`) names. The
/// limit of a group also binds the groups below it, so all groups on the path count. Inside a container the path may be
/// that of the host; the limit is then in the mounted root.
fn limit_of(line: &str) -> Option<usize> {
    let mut fields = line.splitn(3, ':');
    let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    let (root, file) = match controllers {
        "" => ("/sys/fs/cgroup", "memory.max"),
        c if c.split(',').any(|c| c == "memory") => {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return None,
    };
    let mut path = path.trim_end_matches('/');
    let mut least = None;
    loop {
        let mut text = [0; 64];
        let value = read(&format!("{root}{path}/{file}"), &mut text);
        // "max", the text for no limit, does not parse as a number.
        if let Ok(n) = value.trim().parse::<usize>() {
            least = Some(least.map_or(n, |l: usize| l.min(n)));
        }
        match path.rfind('/') {
            Some(at) => path = &path[..at],
            None => return least,
        }
    }
}

/// The beginning of a small file; empty if it cannot be read.
fn read<'a>(path: &str, into: &'a mut [u8]) -> &'a str {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let got = rustix::fs::openat(CWD, path, flags, Mode::empty())
        .and_then(|file| rustix::io::read(&file, &mut *into))
        .unwrap_or(0);
    into.get(..got)
        .and_then(|bytes| core::str::from_utf8(bytes).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_memory() {
        assert!(machine() > 64 << 20);
        assert!(mappings() > 1000);
        assert!((1 << 20..=machine()).contains(&memory()));
        assert!((1 << 20..=memory()).contains(&available()));
    }

    #[test]
    fn lines_that_say_nothing_of_memory() {
        for line in [
            "",
            "7:pids:/x",
            "4:memory:",
            "0::/no/such/group",
            "1:cpu,cpuacct:/",
        ] {
            assert!(limit_of(line).is_none_or(|n| n > 1 << 20), "{line}");
        }
    }
}
