//! Keeps `dup2` and `close` of the program's away from the number under which semcache is opening a descriptor.
//!
//! The kernel opens a file under the lowest free number. Until semcache has moved the descriptor to a high number, the
//! program may put a file of its own under the low one: it does if it duplicates a file onto one number after the
//! other. So a thread that opens a descriptor and a thread that duplicates onto a number exclude each other, where the
//! program calls libc's functions, which the library hooks. A `close` waits while a descriptor is being opened; one that has
//! begun before that may still come in between. What comes by a system call past the hooks is found by
//! comparing files ([`crate::descriptor::Known::open`]).
//!
//! Every wait here ends: a thread may have ended in the middle, or be stopped for long. What it left is deleted by the
//! thread that waited in vain, so that no other thread waits for it again.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

use rustix::thread::{Timespec, nanosleep};

use crate::sys::current_tid;

/// How often a thread that waits looks again, and after which time. An opening takes some microseconds, the whole wait
/// ends after a fifth of a second.
const LOOKS: u32 = 2000;
const PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 30_000,
};

static PROCESS: Openings = Openings::new();

/// The threads that open descriptors, and those that duplicate onto numbers.
#[derive(Debug)]
struct Openings {
    /// The thread that is opening a descriptor, as in [`thread`]; 0 if there is none.
    opener: AtomicU64,
    /// Number of threads that are duplicating a descriptor onto a number of their choice.
    duplicating: AtomicU32,
}

/// Opens a descriptor and moves it, while no `dup2` is in progress and no other thread opens one.
pub(crate) fn exclusively<R>(open: impl FnOnce() -> R) -> R {
    PROCESS.exclusively(thread(), open)
}

/// Duplicates a descriptor onto a number of the program's choice, while semcache is not opening any.
pub fn duplicating<R>(duplicate: impl FnOnce() -> R) -> R {
    PROCESS.duplicating(thread, duplicate)
}

/// Returns when semcache is not opening a descriptor: called before the program closes a number, which it may not own.
pub fn settle() {
    PROCESS.settle(thread);
}

/// The calling thread: its process in the upper half, its own id in the lower.
fn thread() -> u64 {
    let process = rustix::process::getpid().as_raw_nonzero().get();
    u64::from(process.cast_unsigned()) << 32 | u64::from(current_tid())
}

/// Whether two threads are of one process. A child of a fork finds a copy of its parent's words here, and a child that
/// shares its parent's memory the words themselves; both have descriptor tables of their own.
fn together(one: u64, other: u64) -> bool {
    one >> 32 == other >> 32
}

fn pause() {
    let _ = nanosleep(&PAUSE);
}

impl Openings {
    const fn new() -> Openings {
        Openings {
            opener: AtomicU64::new(0),
            duplicating: AtomicU32::new(0),
        }
    }

    fn exclusively<R>(&self, me: u64, open: impl FnOnce() -> R) -> R {
        let mut looks = 0;
        while let Err(other) = self.opener.compare_exchange(0, me, SeqCst, SeqCst) {
            if other == me {
                // A signal handler opens, and it interrupted this thread while it was opening.
                return open();
            }
            if !together(other, me) || looks == LOOKS {
                self.forget(other);
                continue;
            }
            looks += 1;
            pause();
        }
        // A thread that opens and one that duplicates each announce themselves before they look for the other: at least
        // one of them sees the other.
        looks = 0;
        while self.duplicating.load(SeqCst) > 0 {
            if looks == LOOKS {
                self.duplicating.store(0, SeqCst);
            }
            looks += 1;
            pause();
        }
        let made = open();
        self.forget(me);
        made
    }

    fn duplicating<R>(&self, me: impl Fn() -> u64, duplicate: impl FnOnce() -> R) -> R {
        loop {
            self.duplicating.fetch_add(1, SeqCst);
            if self.other(&me).is_none() {
                break;
            }
            self.duplicated();
            self.settle(&me);
        }
        let made = duplicate();
        self.duplicated();
        made
    }

    fn duplicated(&self) {
        // A thread that waited in vain may have set the count to zero.
        let less = |n: u32| n.checked_sub(1);
        let _ = self.duplicating.fetch_update(SeqCst, SeqCst, less);
    }

    fn settle(&self, me: impl Fn() -> u64) {
        for _ in 0..LOOKS {
            if self.other(&me).is_none() {
                return;
            }
            pause();
        }
        if let Some(other) = self.other(me) {
            self.forget(other);
        }
    }

    /// Another thread of this process that is opening a descriptor.
    fn other(&self, me: impl Fn() -> u64) -> Option<u64> {
        let opener = self.opener.load(SeqCst);
        if opener == 0 {
            return None;
        }
        let me = me();
        (opener != me && together(opener, me)).then_some(opener)
    }

    fn forget(&self, opener: u64) {
        let _ = self.opener.compare_exchange(opener, 0, SeqCst, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use core::sync::atomic::AtomicBool;

    #[test]
    fn never_both() {
        let openings = Openings::new();
        let (opening, duplicating) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| {
                    for _ in 0..1000 {
                        openings.exclusively(thread(), || {
                            assert_eq!(opening.fetch_add(1, SeqCst), 0);
                            assert_eq!(duplicating.load(SeqCst), 0);
                            opening.fetch_sub(1, SeqCst);
                        });
                        std::thread::yield_now();
                    }
                });
                s.spawn(|| {
                    for _ in 0..1000 {
                        openings.duplicating(thread, || {
                            duplicating.fetch_add(1, SeqCst);
                            assert_eq!(opening.load(SeqCst), 0);
                            duplicating.fetch_sub(1, SeqCst);
                        });
                        std::thread::yield_now();
                    }
                });
            }
        });
        let words = (
            openings.opener.into_inner(),
            openings.duplicating.into_inner(),
        );
        assert_eq!(words, (0, 0));
    }

    #[test]
    fn a_close_waits_for_an_opening() {
        let (openings, closed) = (Openings::new(), AtomicBool::new(false));
        std::thread::scope(|s| {
            openings.exclusively(thread(), || {
                s.spawn(|| {
                    openings.settle(thread);
                    closed.store(true, SeqCst);
                });
                std::thread::yield_now();
                assert!(!closed.load(SeqCst));
            });
        });
        assert!(closed.load(SeqCst));
    }

    /// A signal handler that interrupts an opening, or a duplication, does not wait for its own thread.
    #[test]
    fn a_thread_does_not_wait_for_itself() {
        let openings = Openings::new();
        openings.exclusively(thread(), || {
            openings.settle(thread);
            openings.duplicating(thread, || openings.exclusively(thread(), || ()));
            openings.duplicating(thread, || openings.duplicating(thread, || ()));
            assert_eq!(openings.opener.load(SeqCst), thread());
        });
        assert_eq!(openings.opener.load(SeqCst), 0);
    }

    /// A thread that ended in the middle is waited for once, and one of another process is not waited for.
    #[test]
    fn what_was_left_is_deleted() {
        let openings = Openings::new();
        let ended = thread() ^ 1 << 30;
        openings.opener.store(ended, SeqCst);
        openings.duplicating(thread, || assert_eq!(openings.opener.load(SeqCst), 0));
        openings.duplicating.store(7, SeqCst);
        openings.opener.store(ended, SeqCst);
        openings.exclusively(thread(), || ());
        let parents = thread() ^ 1 << 60;
        openings.opener.store(parents, SeqCst);
        openings.settle(thread);
        assert_eq!(openings.opener.load(SeqCst), parents);
        openings.exclusively(thread(), || ());
        let words = (
            openings.opener.into_inner(),
            openings.duplicating.into_inner(),
        );
        assert_eq!(words, (0, 0));
    }
}
