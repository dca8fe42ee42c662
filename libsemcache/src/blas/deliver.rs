//! Results that no copy could write into host memory, because their pages refused it: the calling thread stores them, where the
//! program's handlers get the faults as they would those of a BLAS.

use super::args::{self, Checked};
use super::call::Call;
use crate::base::Rect;
use crate::device::api::undelivered;
use crate::host::guards;
use crate::process::masked::Masked;

/// Before a call, and after it was `refused` because bytes of an operand could not be copied, with nothing locked: gives
/// up the blocks of operands whose memory has gone without notice.
///
/// Bytes of earlier results that could not be written, and that nobody waited for, were to go to such memory. What is there
/// now is the program's, so they are dropped.
pub fn part_with_gone(call: &Call, refused: bool) {
    if undelivered::none() && !refused {
        return;
    }
    let Some(places) = places(call) else {
        return;
    };
    for p in &places {
        if !undelivered::take(p).is_empty() || (refused && !guards::readable(p)) {
            guards::found(p.start);
            let _ = undelivered::take(p);
        }
    }
}

/// Where the operands are of a call that may run on devices.
fn places(call: &Call) -> Option<Vec<Rect>> {
    let _masked = Masked::new();
    match args::check(call) {
        Checked::Run(_, places) => Some(places),
        _ => None,
    }
}

/// After a call, with nothing locked and no signal blocked: stores what of its results no copy could write. The program's
/// handlers get the faults of that, as those of a BLAS.
pub fn deliver(call: &Call) {
    if undelivered::none() {
        return;
    }
    for p in places(call).iter().flatten() {
        deliver_to(p);
    }
}

/// The same of some of an operand, by its addresses.
#[expect(unsafe_code, reason = "writes the program's results")]
pub(super) fn deliver_to(rect: &Rect) {
    for bytes in undelivered::take(rect) {
        // SAFETY: of a result that the program expects the calling thread to write, where it says.
        unsafe { bytes.deliver() };
    }
}
