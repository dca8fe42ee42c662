//! Delivery of results that no copy could write into host memory because their pages refused it: the calling thread
//! stores them, so that the program's own SIGSEGV handler sees these faults as it sees those of a BLAS.

use super::args::{self, Checked};
use super::call::Call;
use crate::base::Rect;
use crate::device::api::undelivered;
use crate::host::guards;
use crate::process::signals_blocked::SignalsBlocked;

/// Stops tracking the blocks of operands whose host memory was unmapped or protected unnoticed. Called with no lock
/// held, before a call, and again after devices refused the call (`refused`) because bytes of an operand could not be
/// copied.
///
/// Results of earlier calls that could not be written to such memory, and that no call waited for, are dropped: the
/// program now uses these addresses for other data.
pub fn part_with_gone(call: &Call, refused: bool) {
    part_with(places(call), refused);
}

/// As [`part_with_gone`], for operands at these addresses, which are asked for only if something waits to be delivered or was `refused`.
pub fn part_with(places: impl IntoIterator<Item = Rect>, refused: bool) {
    if undelivered::none() && !refused {
        return;
    }
    for p in places {
        if !undelivered::take(&p).is_empty() || (refused && !guards::readable(&p)) {
            guards::found(p.start);
            let _ = undelivered::take(&p);
        }
    }
}

/// The addresses of the operands, if devices may run the call. The arguments are checked when the first one is asked for.
fn places(call: &Call) -> impl Iterator<Item = Rect> {
    let checked = || {
        let _blocked = SignalsBlocked::new();
        match args::check(call) {
            Checked::Run(_, places) => places,
            _ => Vec::new(),
        }
    };
    core::iter::once_with(checked).flatten()
}

/// Stores those bytes of the call's results that no copy could write. Called at the end of the call, with no lock held
/// and no signal blocked: the program's handlers get the faults of these stores as they get those of a BLAS.
pub fn deliver(call: &Call) {
    deliver_to(places(call));
}

/// As [`deliver`], for results at these addresses, which are asked for only if something waits to be delivered.
#[expect(unsafe_code, reason = "writes the program's results")]
pub fn deliver_to(places: impl IntoIterator<Item = Rect>) {
    if undelivered::none() {
        return;
    }
    for bytes in places.into_iter().flat_map(|p| undelivered::take(&p)) {
        // SAFETY: the bytes belong to a result that the program asked the calling thread to write at this address.
        unsafe { bytes.deliver() };
    }
}
