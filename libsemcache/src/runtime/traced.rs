//! The trace of this process: where it goes, its calls, and its end.

use std::path::PathBuf;

use super::report::file::{destination, is_main};
use super::secluded::is_secluded;
use crate::base::config::Config;
use crate::base::counters::WhyHost;
use crate::trace::{self, Event, Side, Within, now, nvtx, on, record};

fn path(config: &Config, template: &str, pid: u32) -> PathBuf {
    destination(template, pid, is_main(config.main_pid, pid))
}

/// Begins the trace if one is asked for, and the ranges of NVTX if a tool is attached, unless the program restricts its
/// own system calls already.
pub(super) fn begin(config: &Config) {
    if is_secluded() {
        return;
    }
    if config.nvtx {
        nvtx::attach();
    }
    if let Some(template) = config.trace.as_deref() {
        trace::begin(config.trace_limit as u64, |pid| path(config, template, pid));
    }
}

/// In the child of a fork: a trace of its own, from the child's first call on.
pub(super) fn child(config: &Config) {
    if let Some(template) = config.trace.as_deref() {
        trace::child(|pid| path(config, template, pid));
    }
}

/// Ends the trace. `counted` are calls that have no event, because the library's entry passed them on to the host BLAS:
/// plain name, reason, number.
pub(super) fn end(counted: &[(&str, WhyHost, u64)]) {
    if !counted.is_empty() {
        trace::ready();
    }
    let of = |(name, why, n): &(&str, WhyHost, u64)| (format!("host.{name}.{}", why.name()), *n);
    trace::finish(counted.iter().map(of).collect());
}

/// A step of bringing devices up, which began at this time, has ended.
pub(super) fn step(step: &'static str, begun: u64) {
    record(Event::Start {
        span: (begun, now()),
        step,
    });
}

/// A call that the trace or a tool sees.
#[derive(Debug)]
pub(super) struct Traced {
    within: Within,
    begun: u64,
    name: &'static str,
    sizes: [u32; 3],
}

impl Traced {
    /// The call begins; `None` if no trace is written and no tool attached. The calling thread holds no lock of the
    /// runtime.
    pub(super) fn begin(sizes: [i64; 3], name: &'static str) -> Option<Traced> {
        if !on() && !nvtx::attached() {
            return None;
        }
        trace::ready();
        let size = |n: i64| u32::try_from(n).unwrap_or(if n < 0 { 0 } else { u32::MAX });
        let sizes = sizes.map(size);
        Some(Traced {
            within: Within::call(name, sizes),
            begun: now(),
            name,
            sizes,
        })
    }

    /// The call has been counted.
    pub(super) fn end(self, side: Side) {
        record(Event::Call {
            id: self.within.id(),
            span: (self.begun, now()),
            name: self.name,
            sizes: self.sizes,
            side,
        });
        if nvtx::attached()
            && let Side::Host(why) = side
        {
            nvtx::mark(self.name, why.name());
        }
    }
}
