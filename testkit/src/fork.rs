//! Children by `fork`.

#![expect(unsafe_code, reason = "forks")]

use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitStatus;

use nix::errno::Errno;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};

/// A child of this process.
#[must_use]
#[derive(Debug)]
pub struct Forked(Pid);

/// Forks. The child runs `body` and leaves by `_exit`: with status 0, or 101 if it panicked.
///
/// # Safety
/// The child has this thread only: `body` must not wait for other threads, nor for locks that they may have held.
///
/// # Panics
/// If there is no child.
pub unsafe fn forked(body: impl FnOnce()) -> Forked {
    // SAFETY: the caller's promise.
    match unsafe { fork() }.unwrap() {
        ForkResult::Parent { child } => Forked(child),
        ForkResult::Child => {
            let ended = catch_unwind(AssertUnwindSafe(body));
            // SAFETY: takes no pointer.
            unsafe { nix::libc::_exit(if ended.is_ok() { 0 } else { 101 }) }
        }
    }
}

impl Forked {
    /// Waits for its end.
    ///
    /// # Panics
    /// If the child was waited for elsewhere.
    pub fn wait(self) -> ExitStatus {
        let status = loop {
            match waitpid(self.0, None) {
                Err(Errno::EINTR) => (),
                status => break status.unwrap(),
            }
        };
        match status {
            WaitStatus::Exited(_, code) => ExitStatus::from_raw(code << 8),
            WaitStatus::Signaled(_, signal, _) => ExitStatus::from_raw(signal as i32),
            other => panic!("{other:?}"),
        }
    }
}
