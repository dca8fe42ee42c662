//! Samples of an input: tells whether the program rewrites the input before each call, without write-tracking its
//! pages.
//!
//! The pages of an input that no device holds are not protected, so no fault reports when the CPU writes to them; and
//! an upload pays only if the next calls find the input unchanged. A few words of the input, compared from call to
//! call, predict that well enough. Only predictions depend on these samples.
#![expect(unsafe_code, reason = "reads the program's operands")]

use crate::base::Rect;

/// Number of words in a sample.
const WORDS: usize = 16;

/// A hash of a few words of the operand, which most probably changes when the operand is rewritten. The caller holds no
/// lock: if other bytes of a page made it inaccessible, the read faults and is served.
#[must_use]
pub(super) fn sample(p: &Rect) -> u64 {
    let words = (p.bytes() / size_of::<u64>()).clamp(1, WORDS);
    let per_run = (p.width / size_of::<u64>()).max(1);
    let total = per_run * p.count;
    (0..words).fold(p.bytes() as u64, |sum, i| {
        let at = total / words * i + total % words * i / words;
        let addr = p.start + at / per_run * p.stride + at % per_run * size_of::<u64>();
        (sum ^ word(addr, p.width))
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .rotate_left(31)
    })
}

/// Eight bytes of the operand, or four if a run has only four. All eight of a double: the lower half is zero for whole
/// numbers.
fn word(addr: usize, run: usize) -> u64 {
    // SAFETY: these are bytes of the operand, which the program's call promises to be readable; no alignment is
    // assumed. If another thread of the program writes them now, that thread races with the call itself; the value is
    // only compared.
    unsafe {
        if run < size_of::<u64>() {
            u64::from(std::ptr::with_exposed_provenance::<u32>(addr).read_unaligned())
        } else {
            std::ptr::with_exposed_provenance::<u64>(addr).read_unaligned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    fn of<T>(data: &[T], width: usize, stride: usize, count: usize) -> u64 {
        let addr = data.as_ptr().expose_provenance();
        sample(&Rect::new(addr, width, stride, count))
    }

    #[test]
    fn whole_numbers_tell_too() {
        let mut a = vec![1.0_f64; 4096];
        let before = of(&a, 4096 * 8, 4096 * 8, 1);
        assert_eq!(before, of(&a, 4096 * 8, 4096 * 8, 1));
        a.fill(2.0);
        assert_ne!(before, of(&a, 4096 * 8, 4096 * 8, 1));
        // A row of a matrix of 64 rows: an element per run.
        let before = of(&a, 8, 64 * 8, 64);
        (0..64).for_each(|i| a[i * 64] = 3.0);
        assert_ne!(before, of(&a, 8, 64 * 8, 64));
        let mut b = [1.0_f32; 6];
        let before = of(&b, 4, 20, 2);
        b[0] = 2.0;
        assert_ne!(before, of(&b, 4, 20, 2));
    }
}
