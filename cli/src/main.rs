//! The `semcache` command: runs an unmodified program with the library preloaded, examines whether this machine can use
//! it, prints the library's reports, reads its traces, and predicts calls.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a command talks to its user, and reads its own environment"
)]

mod calibrate;
mod doctor;
mod env;
mod glibc;
mod html;
mod library;
mod machine;
mod output;
mod predict;
mod progress;
mod report;
mod run;
mod signals;
mod strict;
mod summary;
mod ticks;
mod top;
mod trace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Runs unmodified BLAS programs on the machine's devices.
#[derive(Parser, Debug)]
#[command(name = "semcache", version)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Runs a program with its BLAS calls offloaded, and says at the end what was done.
    Run(run::Options),
    /// Says what of this machine semcache can use, and what to do about the rest.
    Doctor(output::Output),
    /// Measures what this machine's GPUs, their links and the host BLAS reach, in minutes, and keeps it for all later runs:
    /// predictions then follow from it.
    Calibrate(calibrate::Options),
    /// Shows the rates by which calls are predicted on this machine, and where each figure comes from.
    Machine(machine::Options),
    /// Prints every environment variable: what it accepts, its default, its value now; and the machines that can be simulated.
    Env(output::Output),
    /// Prints a JSON report (`--report`, `SEMCACHE_REPORT`) as a table; several are added up. Or makes a page with charts of
    /// reports and traces (`--html`).
    Report(report::Options),
    /// Shows what a run does while it does it: calls, copies and page faults per second, by routine, process and device.
    Top(top::Options),
    /// Reads a trace (`--trace`, `SEMCACHE_TRACE`) and says where the time went: what devices and threads did, when no
    /// kernel ran, and what was waited for.
    Trace(trace::Options),
    /// Predicts one BLAS call on a machine that need not be present: its time, where it would run, what bounds it, what
    /// published models say, and a chart of its copies and kernels.
    Predict(Box<predict::Options>),
    /// Calls all routines of a host BLAS for `doctor`, in a process of its own that a faulty library may crash.
    #[command(name = doctor::CHECK, hide = true)]
    Check {
        /// The library's file.
        path: String,
    },
    /// The second half of `run`, in the process that becomes the program.
    #[command(name = run::BECOME, hide = true)]
    Become(run::Become),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().verb {
        Verb::Run(options) => run::run(&options),
        Verb::Become(become_) => Ok(run::become_program(&become_)),
        Verb::Check { path } => Ok(doctor::check(&path)),
        Verb::Doctor(output) => doctor::doctor(&output),
        Verb::Calibrate(options) => calibrate::calibrate(&options),
        Verb::Machine(options) => machine::machine(&options),
        Verb::Env(output) => env::env(&output),
        Verb::Report(options) => report::report(&options),
        Verb::Top(options) => top::top(&options),
        Verb::Trace(options) => trace::trace(&options),
        Verb::Predict(options) => predict::predict(&options),
    };
    outcome.unwrap_or_else(|message| {
        eprintln!("semcache: {message}");
        ExitCode::from(run::OWN_FAILURE)
    })
}
