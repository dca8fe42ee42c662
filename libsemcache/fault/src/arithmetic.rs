#![expect(
    unsafe_code,
    reason = "reads and writes the control register of the processor's arithmetic"
)]
//! How the calling thread computes: what it rounds to, which exceptions trap, what is flushed to zero, and the exceptions
//! that it has seen. The register MXCSR, which every x86-64 BLAS computes by; that of the x87 unit concerns `long double`
//! alone.

use core::arch::asm;
use core::marker::PhantomData;

/// Exceptions that have been seen.
const RAISED: u32 = 0x3f;
/// Exceptions that do not trap.
const MASKED: u32 = 0x1f80;
/// Where results are rounded to; zero is to nearest.
const ROUNDING: u32 = 0x6000;

/// What a process begins with: to nearest, and nothing traps, is flushed to zero or has been seen.
const USUAL: u32 = MASKED;

fn get() -> u32 {
    let mut value = 0_u32;
    // SAFETY: stores the register into our variable.
    unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut value, options(nostack, preserves_flags)) };
    value
}

fn set(value: u32) {
    // SAFETY: a value of the register that `get` returned, or the one that a process begins with. Compiled code may assume
    // the latter, and does while a guard is alive; the former is what its caller computes by.
    unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const value, options(nostack, preserves_flags)) };
}

/// The calling thread computes as a process begins to, until this is dropped: whatever the program has set, our own
/// arithmetic rounds to nearest and raises no signal, and a thread that is made meanwhile inherits that. Then everything is
/// as the program left it; what our arithmetic raised, it does not see.
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

    /// Whether the program's arithmetic is one that every device has: to nearest, and nothing traps. Devices keep what the
    /// program's processor would flush to zero; they raise nothing.
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

/// How a thread computed, to go back to.
#[derive(Clone, Copy, Debug)]
#[must_use = "has to be restored where the thread is not ours"]
pub struct Before(u32);

/// Makes the calling thread compute as a process begins to.
#[inline]
pub fn usual() -> Before {
    let before = get();
    // Flags change nothing for us.
    if before & !RAISED != USUAL {
        set(USUAL);
    }
    Before(before)
}

impl Before {
    /// Goes back to it.
    #[inline]
    pub fn restore(self) {
        // Cheaper than looking first.
        set(self.0);
    }

    /// The same, and says what that replaces.
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

    /// A value of the register.
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
                        // Inexact.
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
                // Would trap.
                core::hint::black_box(1.0 / core::hint::black_box(3.0));
            });
        }
    }
}
