//! Runs cases, each in a process and under settings of its own. The command line is that of Rust's harness: words are parts
//! of the names of cases to run, `--exact`, `--list`, `--ignored`, `--nocapture` and the like mean the same.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "shows what cases say where that is asked for"
)]

use std::process::Output;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};

use crate::devices::real;
use crate::process::{LIMIT, again, here, run, wanted};

/// A case that may run beside others holds it for reading, one that runs alone for writing.
static RUNNING: RwLock<()> = RwLock::new(());

type Judge = dyn Fn(&Output) -> Result<(), String> + Send;

/// One test.
pub struct Case {
    name: String,
    settings: Vec<(String, String)>,
    limit: Duration,
    on_demand: bool,
    alone: bool,
    judge: Box<Judge>,
    body: Box<dyn FnOnce() + Send>,
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?}", self.name, self.settings)
    }
}

impl Case {
    /// A case whose process runs `body` on its main thread, and must end well.
    pub fn new(name: impl Into<String>, body: impl FnOnce() + Send + 'static) -> Case {
        Case {
            name: name.into(),
            settings: Vec::new(),
            limit: LIMIT,
            on_demand: false,
            alone: false,
            judge: Box::new(|output| match output.status.success() {
                true => Ok(()),
                false => Err("it failed".into()),
            }),
            body: Box::new(body),
        }
    }

    /// Sets this variable in the environment of the case's process.
    #[must_use]
    pub fn set(mut self, variable: &str, value: impl Into<String>) -> Case {
        self.settings.push((variable.into(), value.into()));
        self
    }

    /// A case whose end is judged by another function.
    #[must_use]
    pub fn judged(
        mut self,
        judge: impl Fn(&Output) -> Result<(), String> + Send + 'static,
    ) -> Case {
        self.judge = Box::new(judge);
        self
    }

    /// A case that may also end with the library's line that the only copy of a matrix is gone.
    #[must_use]
    pub fn may_lose(self) -> Case {
        self.judged(|output| {
            let text = String::from_utf8_lossy(&output.stderr);
            let lost = output.status.code() == Some(70);
            match output.status.success() || lost && text.contains("the only copy of the matrix") {
                true => Ok(()),
                false => Err("it failed".into()),
            }
        })
    }

    /// A case that counts as hanging if it takes longer than this.
    #[must_use]
    pub fn within(mut self, limit: Duration) -> Case {
        self.limit = limit;
        self
    }

    /// A case that runs only with `--ignored` or `--include-ignored`.
    #[must_use]
    pub fn on_demand(mut self) -> Case {
        self.on_demand = true;
        self
    }

    /// A case that measures time, or looks at what was measured: no other case of this test program runs beside it.
    #[must_use]
    pub fn alone(mut self) -> Case {
        self.alone = true;
        self
    }

    fn run(self) -> Result<(String, Output), Failed> {
        let mut command = again(&self.name);
        command.envs(self.settings);
        let running = match self.alone {
            true => (
                None,
                Some(RUNNING.write().unwrap_or_else(PoisonError::into_inner)),
            ),
            false => (
                Some(RUNNING.read().unwrap_or_else(PoisonError::into_inner)),
                None,
            ),
        };
        let output =
            run(&mut command, b"", self.limit).map_err(|state| format!("hangs\n{state}"))?;
        drop(running);
        match (self.judge)(&output) {
            Ok(()) => Ok((self.name, output)),
            Err(why) => Err(Failed::from(format!(
                "{why}: {}\n{}\n{}",
                output.status,
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            ))),
        }
    }
}

/// Whether this process was started for one case: then what cases find prepared is there.
#[must_use]
pub fn in_a_case() -> bool {
    wanted().is_some()
}

/// How many cases run at once: one on real devices, which cases would share; on simulated ones two if there are two cores,
/// and no more, since each case starts threads of its own.
fn at_once() -> usize {
    match real() {
        true => 1,
        false => thread::available_parallelism().map_or(1, |cores| cores.get().min(2)),
    }
}

/// The `main` of a test program. Two cases run at once on simulated devices, one on real ones, unless `--test-threads` says
/// otherwise. If all cases ran and passed, `whole` gets how they ended, in any
/// order, and checks what only all of them together can show.
///
/// # Panics
/// If the process was started for a case that does not exist.
pub fn main(cases: Vec<Case>, whole: impl FnOnce(&[(String, Output)])) {
    if let Some(name) = wanted() {
        let case = cases.into_iter().find(|case| case.name == name);
        here(case.unwrap_or_else(|| panic!("no case {name}")).body);
    }
    let mut arguments = Arguments::from_args();
    // Cargo does not pass its own --quiet on.
    arguments.quiet |= arguments.format.is_none() && arguments.filter.is_none();
    arguments.test_threads.get_or_insert_with(at_once);
    let nocapture = arguments.nocapture;
    let all = cases.iter().filter(|case| !case.on_demand).count();
    let passed = Arc::new(Mutex::new(Vec::new()));
    let trial = |case: Case| {
        let (name, on_demand, passed) = (case.name.clone(), case.on_demand, passed.clone());
        Trial::test(name, move || {
            let ended = case.run()?;
            if nocapture {
                print!("{}:\n{}", ended.0, String::from_utf8_lossy(&ended.1.stdout));
                eprint!("{}", String::from_utf8_lossy(&ended.1.stderr));
            }
            passed.lock().unwrap().push(ended);
            Ok(())
        })
        .with_ignored_flag(on_demand)
    };
    let conclusion = libtest_mimic::run(&arguments, cases.into_iter().map(trial).collect());
    conclusion.exit_if_failed();
    let passed = passed.lock().unwrap();
    if passed.len() >= all {
        whole(&passed);
    }
}

/// Adds up the numbers in the last line that each process wrote to stderr, column by column.
#[must_use]
pub fn totals<'a>(said: impl Iterator<Item = &'a Output>) -> Vec<u64> {
    let mut totals = Vec::new();
    for output in said {
        let text = String::from_utf8_lossy(&output.stderr);
        let words = text.lines().last().unwrap_or("").split_whitespace();
        for (i, n) in words.filter_map(|w| w.parse::<u64>().ok()).enumerate() {
            match totals.get_mut(i) {
                Some(total) => *total += n,
                None => totals.push(n),
            }
        }
    }
    totals
}
