#![expect(unsafe_code, reason = "calls the program's signal handlers")]
//! Chaining: delivers a signal to the program's disposition, as the kernel would have, if semcache does not serve it.

use super::disposition::{self, Disposition};
use crate::sys;
use core::mem;
use libc::{c_int, c_void, siginfo_t};

/// `SIGBUS` that reports a memory error somewhere, not at an access of this thread.
const BUS_MCEERR_AO: c_int = 5;

type Handler = unsafe extern "C-unwind" fn(c_int, *mut siginfo_t, *mut c_void);

/// Hands a signal to the program's disposition.
///
/// `errno` stays as the program's handler leaves it, as it would without semcache. No code follows the handler, which
/// may never return (`siglongjmp`): leaving the signal frame restores the mask.
///
/// # Safety
/// The arguments are those of a signal frame that is being handled.
pub(super) unsafe fn deliver(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let to = disposition::of(signal).map_or(Disposition::DEFAULT, |t| t.deliver());
    // SAFETY: valid by the contract.
    let code = unsafe { (*info).si_code };
    // Whether an instruction raised the signal; that instruction raises it again when the handler returns.
    let synchronous = code > 0 && !(signal == libc::SIGBUS && code == BUS_MCEERR_AO);
    match to.handler {
        // The kernel does not let `SIG_IGN` ignore a signal that an instruction raised.
        libc::SIG_IGN if !synchronous => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            let default = sys::KernelAction::default();
            // SAFETY: the default action runs no code of the process.
            let _ = unsafe { sys::sigaction(signal, Some(&default)) };
            // Now either the instruction faults again, with the same signal, code and address, or the
            // signal is sent again with the same siginfo.
            if !synchronous {
                // SAFETY: `info` is valid by the contract.
                unsafe { sys::requeue(signal, info) };
            }
        }
        handler => {
            // The signal itself is one of the two that stay unblocked (see `handler`), and the fault handler's frame
            // blocks nothing, so the rest of the program's mask is added to that of the interrupted code.
            let block = to.mask & !super::mask::OURS;
            if block != 0 {
                let _ = sys::sigprocmask(libc::SIG_BLOCK, block);
            }
            // SAFETY: the program gave this address as a handler of this signal. A one-argument handler
            // ignores the rest: the kernel itself passes three on x86-64.
            unsafe { mem::transmute::<usize, Handler>(handler)(signal, info, context) };
            // SAFETY: `context` is valid by the contract. The program's handler may have edited the mask that returning
            // restores; SIGSEGV and SIGBUS are removed from it as from any other mask.
            unsafe { super::mask::strip_context(context) };
        }
    }
}
