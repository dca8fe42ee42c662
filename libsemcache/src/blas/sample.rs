//! Whether the program rewrites an input before each call, seen without watching its memory.
//!
//! An input that no device holds is not protected, so nothing tells when the CPU writes it; and sending it to a
//! device pays only if the next calls find it unchanged. A few words of it, compared from call to call, answer
//! that well enough for a prediction. Nothing else depends on them.
#![expect(unsafe_code, reason = "reads the program's operands")]

use super::args::Placed;

/// Words that are looked at.
const WORDS: usize = 16;

/// A number that changes when the operand is rewritten, most probably. No lock is held: a page that is closed for
/// the sake of its other bytes faults and is served.
#[must_use]
pub(super) fn sample(p: &Placed) -> u64 {
    let words = (p.bytes() / size_of::<u64>()).clamp(1, WORDS);
    let per_run = (p.width / size_of::<u64>()).max(1);
    let total = per_run * p.count;
    (0..words).fold(p.bytes() as u64, |sum, i| {
        let at = total / words * i + total % words * i / words;
        let addr = p.addr + at / per_run * p.stride + at % per_run * size_of::<u64>();
        let word: *const u32 = std::ptr::with_exposed_provenance(addr);
        // SAFETY: four bytes of the operand, which the program promised by its call to be readable; nothing is
        // assumed of their alignment. Another thread of the program that writes them would be its own race
        // with the call; the value is only compared.
        let value = unsafe { word.read_unaligned() };
        (sum ^ u64::from(value))
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .rotate_left(31)
    })
}
