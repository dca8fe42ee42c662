//! Shows how far the measurements are: a bar with the time left on a terminal, else one line for each.

use std::io::IsTerminal as _;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};

use super::tasks::Task;

/// What was found by a measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) seconds: f64,
    pub(super) samples: usize,
    /// Half the width of the confidence interval, as a share of the mean.
    pub(super) width: f64,
}

/// The display.
pub(super) struct Progress {
    /// `None` where stderr is no terminal.
    bar: Option<ProgressBar>,
    end: Instant,
    /// The weight of all tasks, and of those that have ended.
    all: u64,
    done: u64,
    /// The number of all tasks, and of those that have ended.
    count: usize,
    ended: usize,
    begun: Instant,
}

impl Progress {
    /// Begins to show tasks of this weight, which end at the latest at `end`.
    pub(super) fn new(all: u64, count: usize, end: Instant) -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(all);
            let style = ProgressStyle::with_template("[{bar:30}] {prefix}{msg}");
            if let Ok(style) = style {
                bar.set_style(style.progress_chars("=> "));
            }
            bar
        });
        Progress {
            bar,
            end,
            all,
            done: 0,
            count,
            ended: 0,
            begun: Instant::now(),
        }
    }

    pub(super) fn begins(&self, task: &Task) {
        if let Some(bar) = &self.bar {
            bar.set_prefix(format!("{:3.0} s left  ", self.left()));
            bar.set_message(task.name());
        }
    }

    /// Seconds left, by the pace until now, and at most what the time for all leaves.
    fn left(&self) -> f64 {
        let most = self.end.saturating_duration_since(Instant::now());
        let rest = (self.all - self.done.min(self.all)) as f64;
        let pace = self.begun.elapsed().as_secs_f64() / self.done.max(1) as f64;
        if self.done == 0 {
            most.as_secs_f64()
        } else {
            most.as_secs_f64().min(rest * pace)
        }
    }

    pub(super) fn ends(&mut self, task: &Task, found: Option<Found>) {
        self.done += task.weight();
        self.ended += 1;
        if let Some(bar) = &self.bar {
            bar.set_position(self.done);
            return;
        }
        let found = found.map_or("not measured".to_owned(), |found| {
            let Found {
                seconds,
                samples,
                width,
            } = found;
            format!(
                "{seconds:.3e} s +- {:.1} %, {samples} samples",
                100.0 * width
            )
        });
        let (ended, count, name) = (self.ended, self.count, task.name());
        eprintln!("semcache: {ended} of {count}: {name}: {found}");
    }

    pub(super) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}
