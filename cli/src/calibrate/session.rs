//! Repeats each measurement until it is precise enough, within the time for all of them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::progress::{Found, Progress};
use super::statistics::{LEAST, median, settled, width};
use super::tasks::Task;

/// Set by Ctrl-C: the measurement under way is the last one.
static STOP: AtomicBool = AtomicBool::new(false);

/// From now on Ctrl-C ends the measurements instead of the process.
pub(super) fn take_interrupts() -> Result<(), String> {
    ctrlc::set_handler(|| STOP.store(true, Ordering::Relaxed))
        .map_err(|e| format!("cannot handle Ctrl-C: {e}"))
}

/// Whether the user wants the measurements to end.
pub(super) fn stopped() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// One time of an operation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Sample {
    /// `None` if it could not be timed.
    pub(super) seconds: Option<f64>,
    /// Whether the work that was to run beside it did so to its end.
    pub(super) covered: bool,
}

impl Sample {
    /// A time beside which nothing had to run.
    pub(super) fn of(seconds: Option<f64>) -> Sample {
        Sample {
            seconds,
            covered: true,
        }
    }
}

/// What was measured.
#[derive(Debug, Default)]
pub(super) struct Measured {
    /// Seconds of each task that was measured.
    pub(super) seconds: BTreeMap<Task, f64>,
    /// Tasks whose interval did not become narrow in their time.
    pub(super) unsettled: Vec<Task>,
    /// Tasks beside which the other work ended too early: their times are too good.
    pub(super) uncovered: Vec<Task>,
    /// Tasks that failed, with the reason.
    pub(super) failed: Vec<(Task, String)>,
}

/// The time for all measurements.
pub(super) struct Session {
    end: Instant,
    /// The weights of the tasks that were not begun yet.
    left: u64,
    pub(super) measured: Measured,
    progress: Progress,
}

impl Session {
    pub(super) fn new(tasks: &[Task], end: Instant) -> Session {
        let left = tasks.iter().map(Task::weight).sum();
        Session {
            end,
            left,
            measured: Measured::default(),
            progress: Progress::new(left, tasks.len(), end),
        }
    }

    /// Measures a task until its interval is narrow, its share of the time is over, or the user ends it. The first sample is not
    /// counted: it loads kernels and touches memory.
    pub(super) fn measure(
        &mut self,
        task: &Task,
        mut sample: impl FnMut() -> Result<Sample, String>,
    ) {
        /// Samples of an operation that takes next to no time.
        const MOST: usize = 1000;
        /// Samples in a row that could not be timed.
        const UNTIMED: usize = 20;
        self.progress.begins(task);
        let now = Instant::now();
        let rest = self.end.saturating_duration_since(now).as_secs_f64();
        let share = rest * task.weight() as f64 / self.left.max(1) as f64;
        let until = now + Duration::from_secs_f64(share);
        self.left = self.left.saturating_sub(task.weight());
        let (mut samples, mut covered, mut untimed) = (Vec::new(), true, 0);
        let mut outcome = sample().map(drop);
        while outcome.is_ok() {
            match sample() {
                Ok(Sample {
                    seconds: Some(seconds),
                    covered: this,
                }) => {
                    samples.push(seconds);
                    covered &= this;
                    untimed = 0;
                }
                Ok(_) => {
                    untimed += 1;
                    if untimed == UNTIMED {
                        outcome = Err("the device tells no times".into());
                    }
                }
                Err(why) => outcome = Err(why),
            }
            let enough = samples.len() >= LEAST;
            let over = samples.len() >= MOST || stopped() || Instant::now() >= until;
            if enough && (over || settled(&samples)) {
                break;
            }
        }
        match (outcome, median(&samples)) {
            (Err(why), _) => self.measured.failed.push((*task, why)),
            // A clock that did not move measured nothing.
            (Ok(()), Some(seconds)) if seconds > 0.0 => {
                self.measured.seconds.insert(*task, seconds);
                if !settled(&samples) {
                    self.measured.unsettled.push(*task);
                }
                if !covered {
                    self.measured.uncovered.push(*task);
                }
            }
            (Ok(()), _) => {
                let why = "took no time that the clock tells";
                self.measured.failed.push((*task, why.into()));
            }
        }
        let found = self.measured.seconds.get(task).map(|seconds| Found {
            seconds: *seconds,
            samples: samples.len(),
            width: width(&samples).unwrap_or(0.0),
        });
        self.progress.ends(task, found);
    }

    /// Notes that a task was not begun, and why.
    pub(super) fn skip(&mut self, task: &Task, why: &str) {
        self.left = self.left.saturating_sub(task.weight());
        self.measured.failed.push((*task, why.to_owned()));
        self.progress.ends(task, None);
    }

    /// Ends the display of the progress.
    pub(super) fn finish(self) -> Measured {
        self.progress.finish();
        self.measured
    }
}
