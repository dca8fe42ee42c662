//! `semcache top`: shows what a run does while it does it, from the counters that its processes share.

mod columns;
mod find;
mod numbers;
mod page;
pub(crate) mod rates;
mod screen;
mod tables;
mod terminal;
#[cfg(test)]
mod tests;
pub(crate) mod words;

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use procfs::Current as _;
use semcache::runtime::report::Report;

use crate::signals;
use crate::trace::print;
use find::{Found, Runs};
use page::Head;
use rates::{Look, Watch};

#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// Seconds between two looks at the counters
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    interval: Duration,
    /// Print what there is now as text, with mean rates since the run began, and end
    #[arg(long)]
    once: bool,
    /// Print what was counted until now as a JSON report, and end
    #[arg(long)]
    json: bool,
    /// A process of the run, or the semcache run command that started it; without it, the only run of this user
    #[arg(value_name = "PID")]
    pid: Option<u32>,
}

fn interval(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("seconds, from 0.1 to 3600".to_owned()),
    }
}

/// The columns of a line of `--once`: command lines have no more.
const WIDE: usize = 400;

pub(crate) fn top(options: &Options) -> Result<ExitCode, String> {
    let found = match options.pid {
        Some(pid) => find::of(pid),
        None => match find::only() {
            Runs::One(found) => Ok(*found),
            Runs::None(why) => Err(why),
            Runs::Several(lines) => {
                print(&(lines.join("\n") + "\n"))?;
                Err("several runs; semcache top PID shows one of them".to_owned())
            }
        },
    };
    let found = match found {
        Ok(found) => found,
        Err(why) => {
            eprintln!("semcache: {why}");
            return Ok(ExitCode::FAILURE);
        }
    };
    if options.json {
        let mut report = Report::new(found.run.name());
        found.run.add_all(&mut report);
        print(&report.json())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut watched = Watched::new(found)?;
    if options.once {
        let (head, look) = watched.look();
        print(&page::text(&head, &look, WIDE))?;
        return Ok(ExitCode::SUCCESS);
    }
    if !std::io::stdout().is_terminal() {
        return Err("top wants a terminal; --once prints text, --json a report".to_owned());
    }
    if let Some(signal) = screen::show(options.interval, || watched.look())? {
        signals::die_of(signal);
    }
    Ok(ExitCode::SUCCESS)
}

/// A run, and what was seen of it.
struct Watched {
    found: Found,
    watch: Watch,
    /// A moment on two clocks: in seconds since the machine started, and as this process measures time.
    clock: (f64, Instant),
    looks: u32,
}

impl Watched {
    fn new(found: Found) -> Result<Watched, String> {
        let uptime = procfs::Uptime::current().map_err(|error| format!("/proc/uptime: {error}"))?;
        Ok(Watched {
            watch: Watch::new(found.began()),
            found,
            clock: (uptime.uptime, Instant::now()),
            looks: 0,
        })
    }

    fn look(&mut self) -> (Head, Look) {
        let now = self.clock.0 + self.clock.1.elapsed().as_secs_f64();
        let seconds = now - self.found.began();
        let processes = self.found.processes();
        let ended = self.found.has_ended(&processes);
        let mut look = self.watch.look(now, processes);
        if ended {
            look = look.whole(seconds);
        }
        let head = Head {
            run: self.found.run.name().to_owned(),
            command: self.found.command.clone(),
            seconds,
            refused: self.found.run.refused(),
            ended,
            whole: ended || self.looks == 0,
        };
        self.looks += 1;
        (head, look)
    }
}
