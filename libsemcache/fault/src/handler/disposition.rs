#![expect(
    unsafe_code,
    reason = "reads and writes the program's struct sigaction"
)]
//! The program's virtual dispositions of SIGSEGV and SIGBUS.
//!
//! Writers and readers may be signal handlers that interrupted a writer on the same thread, so no thread may ever wait
//! for another. Each write fills the next record of a ring, which no thread reads yet, and publishes its number; a
//! reader copies the current record and checks its stamp.

use crate::sys::{KernelAction, KernelSet};
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use libc::c_int;

/// What the program wants done with a signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Disposition {
    /// `SIG_DFL`, `SIG_IGN` or a function.
    pub(crate) handler: usize,
    /// `SA_` flags.
    pub(crate) flags: c_int,
    /// Signals blocked while the handler runs.
    pub(crate) mask: KernelSet,
}

impl Disposition {
    pub(crate) const DEFAULT: Disposition = Disposition {
        handler: libc::SIG_DFL,
        flags: 0,
        mask: 0,
    };

    pub(crate) const fn has(&self, flag: c_int) -> bool {
        self.flags & flag != 0
    }

    pub(crate) fn from_kernel(found: &KernelAction) -> Disposition {
        Disposition {
            handler: found.handler,
            flags: (found.flags & !crate::sys::SA_RESTORER) as c_int,
            mask: found.mask,
        }
    }

    /// # Safety
    /// `action` is valid for reads.
    pub(crate) unsafe fn from_libc(action: *const libc::sigaction) -> Disposition {
        // SAFETY: by the contract; fields are copied one by one. The kernel's set is the first word of
        // libc's, which is an array of words without padding.
        unsafe {
            Disposition {
                handler: (&raw const (*action).sa_sigaction).read(),
                flags: (&raw const (*action).sa_flags).read(),
                mask: (&raw const (*action).sa_mask).cast::<KernelSet>().read(),
            }
        }
    }

    /// # Safety
    /// `action` is valid for writes.
    pub(crate) unsafe fn write_libc(&self, action: *mut libc::sigaction) {
        // SAFETY: by the contract. All-zero bytes are a valid struct sigaction (SIG_DFL, no flags, no
        // restorer, an empty set); the fields that matter follow.
        unsafe {
            action.write_bytes(0, 1);
            (&raw mut (*action).sa_sigaction).write(self.handler);
            (&raw mut (*action).sa_flags).write(self.flags);
            (&raw mut (*action).sa_mask)
                .cast::<KernelSet>()
                .write(self.mask);
        }
    }
}

/// Number of writes that may be under way at once. Writes are `sigaction` calls of the program, most of them at its
/// start.
const RING: usize = 64;

#[derive(Debug)]
struct Record {
    stamp: AtomicU32,
    handler: AtomicUsize,
    flags: AtomicU32,
    mask: AtomicU64,
}

/// One signal's disposition.
#[derive(Debug)]
pub(crate) struct Table {
    /// The number of the next write.
    next: AtomicU32,
    /// The number of the current record.
    current: AtomicU32,
    ring: [Record; RING],
}

static SEGV: Table = Table::new();
static BUS: Table = Table::new();

/// The table of SIGSEGV or SIGBUS.
pub(crate) fn of(signal: c_int) -> Option<&'static Table> {
    match signal {
        libc::SIGSEGV => Some(&SEGV),
        libc::SIGBUS => Some(&BUS),
        _ => None,
    }
}

impl Table {
    /// Record 0 is all zero: `SIG_DFL`.
    const fn new() -> Table {
        Table {
            next: AtomicU32::new(1),
            current: AtomicU32::new(0),
            ring: [const {
                Record {
                    stamp: AtomicU32::new(0),
                    handler: AtomicUsize::new(libc::SIG_DFL),
                    flags: AtomicU32::new(0),
                    mask: AtomicU64::new(0),
                }
            }; RING],
        }
    }

    fn record(&self, number: u32) -> &Record {
        // The modulus is the array's length, so the index is in range.
        &self.ring[number as usize % RING]
    }

    /// Copies a record; `None` if it has been overwritten.
    fn read(&self, number: u32) -> Option<Disposition> {
        let record = self.record(number);
        if record.stamp.load(Ordering::Acquire) != number {
            return None;
        }
        let copy = Disposition {
            handler: record.handler.load(Ordering::Relaxed),
            flags: record.flags.load(Ordering::Relaxed).cast_signed(),
            mask: record.mask.load(Ordering::Relaxed),
        };
        fence(Ordering::Acquire);
        (record.stamp.load(Ordering::Relaxed) == number).then_some(copy)
    }

    fn latest(&self) -> (u32, Disposition) {
        // A record is overwritten 64 writes later: each failure means that a newer record became the current one.
        for _ in 0..RING {
            let number = self.current.load(Ordering::Acquire);
            if let Some(copy) = self.read(number) {
                return (number, copy);
            }
        }
        (self.current.load(Ordering::Acquire), Disposition::DEFAULT)
    }

    /// The current disposition.
    pub(crate) fn current(&self) -> Disposition {
        self.latest().1
    }

    fn fill(&self, new: &Disposition) -> u32 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let record = self.record(number);
        // A stamp that no reader looks for while this record is being filled.
        record
            .stamp
            .store(number.wrapping_sub(1), Ordering::Relaxed);
        fence(Ordering::Release);
        record.handler.store(new.handler, Ordering::Relaxed);
        record
            .flags
            .store(new.flags.cast_unsigned(), Ordering::Relaxed);
        record.mask.store(new.mask, Ordering::Relaxed);
        record.stamp.store(number, Ordering::Release);
        number
    }

    /// Sets the disposition and returns the one before.
    pub(crate) fn publish(&self, new: Disposition) -> Disposition {
        let number = self.fill(&new);
        let before = self.current.swap(number, Ordering::AcqRel);
        self.read(before).unwrap_or(Disposition::DEFAULT)
    }

    /// The disposition to deliver a signal to. With `SA_RESETHAND` this resets it to the default, and exactly one
    /// delivery gets the handler.
    pub(crate) fn deliver(&self) -> Disposition {
        loop {
            let (number, now) = self.latest();
            if !now.has(libc::SA_RESETHAND) || now.handler == libc::SIG_DFL {
                return now;
            }
            let reset = self.fill(&Disposition {
                handler: libc::SIG_DFL,
                ..now
            });
            if self
                .current
                .compare_exchange(number, reset, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                return now;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    fn numbered(n: usize) -> Disposition {
        Disposition {
            handler: n,
            flags: (n as c_int) << 1,
            mask: (n as u64) * 3,
        }
    }

    #[test]
    fn publish_returns_the_one_before_through_many_turns_of_the_ring() {
        let table = Table::new();
        assert_eq!(table.current(), Disposition::DEFAULT);
        for n in 1..500 {
            let before = table.publish(numbered(n));
            let expected = if n == 1 {
                Disposition::DEFAULT
            } else {
                numbered(n - 1)
            };
            assert_eq!(before, expected);
            assert_eq!(table.current(), numbered(n));
        }
    }

    #[test]
    fn readers_never_see_a_mixture() {
        let table = Table::new();
        table.publish(numbered(1));
        std::thread::scope(|s| {
            let writers: std::vec::Vec<_> = (0..2)
                .map(|w| {
                    let table = &table;
                    s.spawn(move || {
                        for n in 1..20_000 {
                            table.publish(numbered(2 * n + w));
                        }
                    })
                })
                .collect();
            while writers.iter().any(|w| !w.is_finished()) {
                let seen = table.current();
                assert_eq!(seen, numbered(seen.handler));
            }
        });
    }

    #[test]
    fn reset_hand_is_delivered_once() {
        let table = Table::new();
        let once = Disposition {
            handler: 7,
            flags: libc::SA_RESETHAND,
            mask: 1,
        };
        table.publish(once);
        assert_eq!(table.deliver(), once);
        assert_eq!(table.deliver().handler, libc::SIG_DFL);
        assert_eq!(table.current().handler, libc::SIG_DFL);
    }
}
