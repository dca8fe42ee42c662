//! Calls that are left off between two of their tasks, while handlers of the program run: a handler may leave the call by a jump,
//! and then nothing of this library runs any more that could free the call's memory.
//!
//! So such a call is kept in a table, under the address of a variable in the frame that goes on with it. As two live frames share
//! no address, a call that is found under the address of another frame was left, and its memory is freed. No lock guards the
//! table: a handler may fork.
#![expect(unsafe_code, reason = "calls are kept as pointers")]

use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::SeqCst};

use crate::base::counters::COUNTERS;
use crate::blas::window::Unfinished;

/// Calls in the table, at most. If there are more, the memory of those that are left by a jump is not freed.
const PLACES: usize = 64;

/// A place of the table.
struct Place {
    /// The address in the frame of a call; 0: the place is free.
    frame: AtomicUsize,
    /// The call.
    call: AtomicPtr<Unfinished>,
}

static TABLE: [Place; PLACES] = [const {
    Place {
        frame: AtomicUsize::new(0),
        call: AtomicPtr::new(ptr::null_mut()),
    }
}; PLACES];

/// A call that is left off, until [`LeftOff::take_up`].
#[derive(Debug)]
pub(super) struct LeftOff {
    call: *mut Unfinished,
    place: Option<usize>,
}

impl LeftOff {
    /// Keeps a call; `frame` is the address of a variable that lives until the call is taken up. Signals are blocked.
    pub(super) fn keep(call: Box<Unfinished>, frame: usize) -> LeftOff {
        let left = TABLE.iter().position(|p| p.frame.load(SeqCst) == frame);
        let free = |p: &Place| p.frame.compare_exchange(0, frame, SeqCst, SeqCst).is_ok();
        let place = left.or_else(|| TABLE.iter().position(free));
        let call = Box::into_raw(call);
        let before = place.map_or(ptr::null_mut(), |at| TABLE[at].call.swap(call, SeqCst));
        if !before.is_null() {
            COUNTERS.window.left.add(1);
            // SAFETY: a pointer of `Box::into_raw` above. The `LeftOff` that has it, too, was in a frame with this address, and that
            // frame was left, since this one is alive.
            drop(unsafe { Box::from_raw(before) });
        }
        LeftOff { call, place }
    }

    /// The call, to go on with it. Signals are blocked.
    pub(super) fn take_up(self) -> Box<Unfinished> {
        if let Some(at) = self.place {
            TABLE[at].call.store(ptr::null_mut(), SeqCst);
            TABLE[at].frame.store(0, SeqCst);
        }
        // SAFETY: from `Box::into_raw` in `keep`. No other call was kept under the address of a frame that is alive, so the call was
        // not freed there, and nothing else has the pointer now.
        unsafe { Box::from_raw(self.call) }
    }
}
