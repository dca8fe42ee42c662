//! Whether another process of the machine still runs, from its line in `/proc`.

use rustix::fs::{CWD, Mode, OFlags, openat};

/// The clock ticks of a second in `/proc/PID/stat`.
const TICKS: u64 = 100;

/// Whether the process that had this id at a moment (nanoseconds since the machine started) still runs.
#[must_use]
pub fn lives(pid: u32, at_ns: u64) -> bool {
    // The line says in which tick the process began.
    let tick = at_ns / (1_000_000_000 / TICKS);
    begun(pid).is_some_and(|begun| begun <= tick)
}

/// When a process began, in clock ticks since the machine started; none if it has ended, whether or not its parent has asked
/// how.
#[must_use]
pub fn begun(pid: u32) -> Option<u64> {
    let path = format!("/proc/{pid}/stat");
    let file = openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut text = [0; 1024];
    let read = rustix::io::read(&file, &mut text).ok()?;
    parse(&String::from_utf8_lossy(text.get(..read)?))
}

/// The program's name, in parentheses, may have any characters. After it come the state, and as the 22nd field of the line the
/// time.
fn parse(line: &str) -> Option<u64> {
    let (_, rest) = line.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X" | "x") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood() {
        let line = |state| {
            format!("17 (a ) R (b) {state} 1 17 17 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 4711 1 2")
        };
        assert_eq!(parse(&line("S")), Some(4711));
        assert_eq!(parse(&line("Z")), None);
        assert_eq!(parse("17 (a"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn this_process_lives_and_none_of_the_future_does() {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let now = u64::try_from(now.tv_sec).expect("a time") * 1_000_000_000;
        let pid = std::process::id();
        assert!(lives(pid, now + 1_000_000_000) && !lives(pid, 1));
        assert!(!lives(u32::MAX, now));
    }
}
