//! A ring of events: one thread adds, the trace's thread takes. A thread that ends leaves its ring to a later one.
#![expect(unsafe_code, reason = "the adding end belongs to one thread")]

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use rtrb::{Consumer, Producer, RingBuffer};
use semcache_fault::handler::threads::exists;

use super::event::Event;

/// The events that a ring holds.
const EVENTS: usize = 8192;

/// See the module.
#[derive(Debug)]
pub(super) struct Ring {
    /// The thread that adds.
    owner: AtomicU32,
    adding: UnsafeCell<Producer<Event>>,
    taking: Mutex<Taking>,
}

/// The taking end.
#[derive(Debug)]
struct Taking {
    events: Consumer<Event>,
    /// The thread that recorded the next event.
    tid: u32,
}

// SAFETY: `adding` is used by the thread whose id is `owner` only, and a ring gets another owner only when that thread
// has ended: its id is free, or belongs to the thread that takes the ring over. All threads see what the thread that
// ended wrote, because the kernel has ended it before it says so or gives its id to another one.
unsafe impl Sync for Ring {}

/// What became of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pushed {
    /// It is in the ring.
    Yes,
    /// It is in the ring, which is now half full.
    Half,
    /// The ring is full.
    No,
}

impl Ring {
    /// A ring for the calling thread.
    pub(super) fn new(tid: u32, name: [u8; 16]) -> Ring {
        let (adding, events) = RingBuffer::new(EVENTS);
        let ring = Ring {
            owner: AtomicU32::new(tid),
            adding: UnsafeCell::new(adding),
            taking: Mutex::new(Taking { events, tid }),
        };
        // SAFETY: no other thread knows the ring yet.
        unsafe { ring.push(Event::Thread { tid, name }) };
        ring
    }

    /// Whether the ring's thread has ended: thread `tid` is the calling one, so an earlier thread of this number is no
    /// more.
    pub(super) fn is_free(&self, tid: u32) -> bool {
        let owner = self.owner.load(Ordering::Acquire);
        owner == tid || !exists(owner)
    }

    /// Gives the ring to the calling thread; not if the ring is full.
    ///
    /// # Safety
    /// [`Ring::is_free`], and no other thread is given the ring at the same time.
    pub(super) unsafe fn give(&self, tid: u32, name: [u8; 16]) -> bool {
        self.owner.store(tid, Ordering::Release);
        // SAFETY: the calling thread is the owner now.
        unsafe { self.push(Event::Thread { tid, name }) != Pushed::No }
    }

    /// Adds an event.
    ///
    /// # Safety
    /// The calling thread owns the ring, and no signal handler of the program can interrupt it here.
    pub(super) unsafe fn push(&self, event: Event) -> Pushed {
        // SAFETY: only the owner uses this end, and it is not interrupted.
        let adding = unsafe { &mut *self.adding.get() };
        match adding.push(event) {
            Err(_) => Pushed::No,
            Ok(()) if adding.slots() == EVENTS / 2 => Pushed::Half,
            Ok(()) => Pushed::Yes,
        }
    }

    /// Takes all events: `each` gets each of them with the id of the thread that recorded it.
    pub(super) fn drain(&self, mut each: impl FnMut(u32, &Event)) {
        let mut taking = self.taking.lock().unwrap_or_else(PoisonError::into_inner);
        // Not more than were there at first: a thread that records without end would keep this one here for ever.
        for _ in 0..EVENTS {
            let Ok(event) = taking.events.pop() else {
                return;
            };
            if let Event::Thread { tid, .. } = event {
                taking.tid = tid;
            }
            each(taking.tid, &event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(at: u64) -> Event {
        Event::Start {
            span: (at, at),
            step: "test",
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_and_nothing_is_lost() {
        let ring = Ring::new(7, [0; 16]);
        let mut pushed = Vec::new();
        for at in 0..EVENTS as u64 {
            // SAFETY: this thread made the ring, and no other uses it.
            pushed.push(unsafe { ring.push(start(at)) });
        }
        let half = pushed.iter().position(|p| *p == Pushed::Half);
        assert_eq!(half, Some(EVENTS / 2 - 2));
        assert_eq!(pushed.last(), Some(&Pushed::No));
        let mut got = Vec::new();
        ring.drain(|tid, event| got.push((tid, *event)));
        assert_eq!(got.len(), EVENTS);
        assert!(got.iter().all(|(tid, _)| *tid == 7));
        assert_eq!(
            got[1..],
            (0..EVENTS as u64 - 1)
                .map(|at| (7, start(at)))
                .collect::<Vec<_>>()
        );
    }

    #[test]
    fn the_next_thread_of_a_ring_is_told_apart() {
        let tid = rustix::thread::gettid()
            .as_raw_nonzero()
            .get()
            .unsigned_abs();
        let ring = std::thread::scope(|s| {
            let made = s.spawn(|| {
                let tid = rustix::thread::gettid();
                Ring::new(tid.as_raw_nonzero().get().unsigned_abs(), [0; 16])
            });
            made.join().expect("ended")
        });
        // The kernel may take a moment to end the thread after its join.
        while !ring.is_free(tid) {
            std::thread::yield_now();
        }
        // SAFETY: its thread has ended, and no other thread knows the ring.
        assert!(unsafe { ring.give(tid, [0; 16]) });
        assert!(ring.is_free(tid) && !ring.is_free(tid + 1));
        // SAFETY: given to this thread above.
        unsafe { ring.push(start(1)) };
        let mut threads = Vec::new();
        ring.drain(|tid, _| threads.push(tid));
        assert_eq!(threads[1..], [tid, tid]);
        assert_ne!(threads[0], tid);
    }
}
