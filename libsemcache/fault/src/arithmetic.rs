#![expect(
    unsafe_code,
    reason = "reads and writes the control register of the processor's arithmetic"
)]
//! Floating-point environment of the calling thread, in the register MXCSR: the rounding mode, which floating-point
//! exceptions raise SIGFPE, whether subnormal numbers are flushed to zero, and the exception flags, for all arithmetic
//! in SSE and AVX registers. The control word of the x87 unit is not read: libc's functions (`fesetround`,
//! `feenableexcept`) set both.

use core::arch::asm;
use core::marker::PhantomData;

/// The exception flags.
const RAISED: u32 = 0x3f;
/// The exception masks: an exception whose bit is zero raises SIGFPE.
const MASKED: u32 = 0x1f80;
/// The rounding mode; zero is to nearest.
const ROUNDING: u32 = 0x6000;

/// The value that a process starts with: rounding to nearest, all exceptions masked, no flushing to zero, no flags set.
const USUAL: u32 = MASKED;

fn get() -> u32 {
    let mut value = 0_u32;
    // SAFETY: stores the register into a local variable.
    unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut value, options(nostack, preserves_flags)) };
    value
}

fn set(value: u32) {
    // SAFETY: a value that `get` returned, or the one that a process starts with. Rust code may assume the latter, and
    // semcache's arithmetic runs under it; the former is restored for the program's code.
    unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const value, options(nostack, preserves_flags)) };
}

/// While this is alive the calling thread computes with the MXCSR that a process starts with: semcache's arithmetic
/// rounds to nearest and raises no SIGFPE, whatever the program has set, and a thread that is created meanwhile
/// inherits that. Dropping it restores the program's value, flags included, so the program sees no flag that semcache's
/// arithmetic has raised.
#[derive(Debug)]
#[must_use = "the program's arithmetic comes back when this is dropped"]
pub struct Usual(Before, PhantomData<*const ()>);

impl Usual {
    /// See [`Usual`].
    #[expect(clippy::new_without_default, reason = "a guard, not a value")]
    #[inline]
    pub fn new() -> Usual {
        Usual(usual(), PhantomData)
    }

    /// Whether devices compute as the program has set MXCSR: rounding to nearest, and all exceptions masked. Flushing
    /// to zero and exception flags, which devices lack too, are not compared.
    #[inline]
    #[must_use]
    pub fn devices_have_it(&self) -> bool {
        crate::broken!("break-environment") || self.0.0 & (MASKED | ROUNDING) == USUAL
    }
}

impl Drop for Usual {
    #[inline]
    fn drop(&mut self) {
        self.0.restore();
    }
}

/// The MXCSR that a thread had, to be restored.
#[derive(Clone, Copy, Debug)]
#[must_use = "has to be restored where the thread is not ours"]
pub struct Before(u32);

/// Gives the calling thread the MXCSR that a process starts with.
#[inline]
pub fn usual() -> Before {
    let before = get();
    // Raised flags do not change the results of arithmetic; `restore` sets them as they were.
    if before & !RAISED != USUAL {
        set(USUAL);
    }
    Before(before)
}

impl Before {
    /// Restores the value.
    #[inline]
    pub fn restore(self) {
        // Setting the register is cheaper than reading it first.
        set(self.0);
    }

    /// Restores the value, and returns the one that it replaces.
    #[inline]
    pub fn swap(self) -> Before {
        let now = Before(get());
        self.restore();
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs something with this value in the register, and checks that it is there afterwards.
    fn under(value: u32, run: impl FnOnce()) {
        let before = get();
        set(value);
        run();
        assert_eq!(get(), value);
        set(before);
    }

    #[test]
    fn every_setting_comes_back_with_its_flags() {
        for rounding in [0, 0x2000, 0x4000, 0x6000] {
            for flush in [0, 0x40, 0x8000, 0x8040] {
                for raised in [0, 1, 0x20, RAISED] {
                    under(MASKED | rounding | flush | raised, || {
                        let usual = Usual::new();
                        assert_eq!(get() & !RAISED, USUAL);
                        assert_eq!(usual.devices_have_it(), rounding == 0);
                        let inner = Usual::new();
                        assert!(inner.devices_have_it());
                        // Raises the flag for inexact results.
                        core::hint::black_box(1.0 / core::hint::black_box(3.0));
                        drop(inner);
                        core::hint::black_box(1.0 / core::hint::black_box(3.0));
                    });
                }
            }
        }
    }

    #[test]
    fn what_traps_is_for_the_host() {
        for traps in [0x80, 0x100, 0x200, 0x400, 0x800, 0x1000, MASKED] {
            under(MASKED & !traps, || {
                let usual = Usual::new();
                assert!(!usual.devices_have_it());
                // Would raise SIGFPE under the program's masks.
                core::hint::black_box(1.0 / core::hint::black_box(3.0));
            });
        }
    }
}
