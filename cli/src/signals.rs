//! Passes signals from the command to the program that it runs, and waits for the end of the program.
//!
//! The command blocks the signals that would otherwise end it and takes them one by one, together with SIGCHLD. A
//! signal from a terminal goes to the whole foreground process group, so the program has received it already; a signal
//! that another process sends to the command alone is passed on.

#![expect(
    unsafe_code,
    reason = "sigwaitinfo and resetting a disposition have no safe wrapper"
)]

use core::time::Duration;

use nix::libc;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, kill, raise, sigaction};
use nix::sys::time::TimeSpec;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// The signals that are passed on to the program.
const PASSED_ON: [Signal; 6] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];

/// How the program ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// The program exited with this status.
    Exited(u8),
    /// The program was killed by this signal.
    Signaled(Signal),
}

/// Blocks the signals that [`wait`] takes. Returns those that were not blocked before, which must be unblocked in the
/// program.
pub(crate) fn hold() -> Result<Vec<Signal>, String> {
    let mut set = SigSet::empty();
    for signal in PASSED_ON.into_iter().chain([Signal::SIGCHLD]) {
        set.add(signal);
    }
    let before =
        SigSet::thread_get_mask().map_err(|e| format!("cannot read the signal mask: {e}"))?;
    set.thread_block()
        .map_err(|e| format!("cannot block signals: {e}"))?;
    Ok(set.iter().filter(|s| !before.contains(*s)).collect())
}

/// Unblocks `signals`, in the child process, where [`hold`] has blocked them.
pub(crate) fn release(signals: &[Signal]) -> Result<(), String> {
    let mut set = SigSet::empty();
    for signal in signals {
        set.add(*signal);
    }
    set.thread_unblock()
        .map_err(|e| format!("cannot unblock signals: {e}"))
}

/// Waits for the end of `child`, and passes signals on in the meantime; calls `each`, which says after how long it is to be called again
/// at the latest. The signals of [`hold`] must be blocked.
pub(crate) fn wait(child: Pid, each: &mut dyn FnMut() -> Duration) -> Result<End, String> {
    let mut set = SigSet::empty();
    for signal in PASSED_ON.into_iter().chain([Signal::SIGCHLD]) {
        set.add(signal);
    }
    let mut pause = each();
    loop {
        // If SIGCHLD was ignored when the command was started, waitpid fails with ECHILD, and the child's exit status
        // cannot be found out.
        match waitpid(child, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(_, code)) => {
                return Ok(End::Exited(u8::try_from(code & 0xff).unwrap_or(u8::MAX)));
            }
            Ok(WaitStatus::Signaled(_, signal, _)) => return Ok(End::Signaled(signal)),
            Ok(_) => {}
            Err(error) => return Err(format!("cannot learn how the program ended: {error}")),
        }
        let (signal, from_process) = take(&set, pause);
        pause = each();
        if let Some(signal) = signal.filter(|s| *s != Signal::SIGCHLD && from_process) {
            // If the program has ended in the meantime, the next round of the loop finds that out.
            let _ = kill(child, signal);
        }
    }
}

/// Waits until a signal of `set` is pending, for the time `pause` at most, and takes it from the pending signals. Returns the signal,
/// and whether a process sent it (and not the terminal); no signal if the time has passed.
fn take(set: &SigSet, pause: Duration) -> (Option<Signal>, bool) {
    // SAFETY: siginfo_t is plain data for which all zeroes is a valid value.
    let mut info: libc::siginfo_t = unsafe { core::mem::zeroed() };
    let pause = *TimeSpec::from_duration(pause).as_ref();
    // SAFETY: the pointers are to live objects of the right types; the call writes only to `info`.
    let signal = unsafe { libc::sigtimedwait(set.as_ref(), &raw mut info, &pause) };
    (
        Signal::try_from(signal).ok(),
        info.si_code != libc::SI_KERNEL,
    )
}

/// Ends this process by `signal`, as the program ended, without a second core file. Returns only if that signal cannot
/// end this process.
pub(crate) fn die_of(signal: Signal) {
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: the default action runs no code of this program.
    let _ = unsafe { sigaction(signal, &default) };
    let _ = release(&[signal]);
    let _ = raise(signal);
}
