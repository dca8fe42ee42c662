//! `semcache run --progress`: a line on stderr that says what the run has done until now: on a terminal one line that is written
//! anew each second and erased at the end, else a line every ten seconds.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use semcache::runtime::counted::Run;
use semcache::runtime::report::table::human;

use crate::top::rates::{Look, Watch, faults, moved, on_host};
use crate::top::words::{bytes_rate, duration, fit, rate};

/// The time between two lines; the caller asks up to a hundred times a second.
const ON_TERMINAL: Duration = Duration::from_millis(900);
const IN_FILE: Duration = Duration::from_millis(9_900);

/// Erases a terminal's line and goes to its beginning.
const ERASE: &str = "\r\u{1b}[K";

#[derive(Debug)]
pub(crate) struct Progress {
    terminal: bool,
    watch: Watch,
    begun: Instant,
    last: Instant,
    /// Whether there is a line to erase.
    shown: bool,
}

impl Progress {
    pub(crate) fn new() -> Progress {
        let now = Instant::now();
        Progress {
            terminal: std::io::stderr().is_terminal(),
            watch: Watch::new(0.0),
            begun: now,
            last: now,
            shown: false,
        }
    }

    /// Says what the run has done, if it is time to.
    pub(crate) fn tell(&mut self, run: &Run) {
        let between = if self.terminal { ON_TERMINAL } else { IN_FILE };
        if self.last.elapsed() < between {
            return;
        }
        self.last = Instant::now();
        let seconds = self.begun.elapsed().as_secs_f64();
        let look = self.watch.look(seconds, run.processes());
        let line = line(&look, seconds);
        let mut out = std::io::stderr().lock();
        // Nobody may read it any more: the run goes on.
        let _ = match self.terminal {
            true => {
                let columns = crossterm::terminal::size().map_or(80, |(columns, _)| columns);
                let most = usize::from(columns).saturating_sub(1);
                write!(out, "{ERASE}{}", fit(&line, most))
            }
            false => writeln!(out, "{line}"),
        };
        let _ = out.flush();
        self.shown = self.terminal;
    }

    /// Erases the line, before other lines are written.
    pub(crate) fn end(&mut self) {
        if self.shown {
            let mut out = std::io::stderr().lock();
            let _ = write!(out, "{ERASE}").and_then(|()| out.flush());
            self.shown = false;
        }
    }
}

fn line(look: &Look, seconds: f64) -> String {
    let (total, since) = (&look.total, &look.since);
    let per_second = |n| rate(look.per_second(n));
    format!(
        "semcache: {}: {} calls on devices ({}/s), {} on the host ({}/s); {} moved ({}); {} page faults",
        duration(seconds),
        total.offloaded(),
        per_second(since.offloaded()),
        on_host(total),
        per_second(on_host(since)),
        human(moved(total)),
        bytes_rate(look.per_second(moved(since))),
        faults(total),
    )
}

#[cfg(test)]
mod tests {
    use semcache::runtime::report::Process;

    use super::*;

    #[test]
    fn the_line() {
        let text = r#"{"calls":{"dgemm":{"offloaded":120,"host":5,"why_host":{"small":5}}},
            "bytes":{"h2d":3000000,"d2h":500000,"mapped":500000},"faults":{"read":1,"write":2}}"#;
        let process = Process {
            pid: 1,
            processes: 1,
            did: serde_json::from_str(text).expect("what a process did"),
            ..Process::default()
        };
        let look = Watch::new(0.0).look(10.0, vec![process]);
        assert_eq!(
            line(&look, 10.0),
            "semcache: 0:10: 120 calls on devices (12/s), 5 on the host (0.5/s); 4 MB moved (400 kB/s); 3 page faults"
        );
    }
}
