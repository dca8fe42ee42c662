//! Reads, writes and copies of blocks by the CPU.

#![expect(
    unsafe_code,
    reason = "plays an unmodified program: memcpy and its kin"
)]

use crate::world::World;

pub(super) fn look(w: &mut World) {
    let slot = w.any();
    for _ in 0..1 + w.rng.below(4) {
        let (from, n) = w.slots[slot].span(&mut w.rng);
        if w.rng.one_in(2) {
            w.slots[slot].check(from + w.rng.below(n), 1, "one element");
            continue;
        }
        w.slots[slot].check(from, n, "a run");
    }
}

pub(super) fn look_all(w: &mut World) {
    let slot = w.any();
    w.slots[slot].check_all("everything");
}

pub(super) fn write(w: &mut World) {
    let slot = w.any();
    let (from, n) = w.slots[slot].span(&mut w.rng);
    let block = &mut w.slots[slot];
    match w.rng.below(4) {
        // Elements of a row: one in every `step` elements.
        0 => {
            let step = 1 + w.rng.below(130);
            for i in (from..from + n).step_by(step) {
                block.fill(i, 1, &mut w.rng);
            }
        }
        1 => block.fill(from, n, &mut w.rng),
        _ => {
            for _ in 0..1 + w.rng.below(3) {
                let i = from + w.rng.below(n);
                block.fill(i, 1, &mut w.rng);
            }
        }
    }
}

pub(super) fn write_all(w: &mut World) {
    let slot = w.any();
    for (from, n) in w.slots[slot].runs() {
        w.slots[slot].fill(from, n, &mut w.rng);
    }
}

pub(super) fn copy(w: &mut World) {
    let group = w.any_group();
    let (a, b) = (w.pick(group), w.pick(group));
    let ((from, n), (to, m)) = (w.slots[a].span(&mut w.rng), w.slots[b].span(&mut w.rng));
    let n = n.min(m);
    let (source, target) = (w.slots[a].addr(from), w.slots[b].addr(to));
    let unit = w.slots[a].unit();
    match w.rng.below(5) {
        0 => {
            w.note = format!("memset {n} elements at {to} of {b}");
            // SAFETY: inside the block.
            unsafe { libc::memset(target.cast(), 0, n * unit) };
            w.slots[b].shadow_mut(to, n).fill(0);
        }
        1 => {
            let wanted = w.slots[a].shadow(from, n).to_vec();
            // The fuzzer takes zeros of either sign as equal, memcmp does not.
            let exact = wanted.chunks(4).all(|c| c != [0, 0, 0, 0x80]);
            // SAFETY: inside the block.
            let same =
                unsafe { libc::memcmp(source.cast(), wanted.as_ptr().cast(), n * unit) } == 0;
            if !same && exact {
                w.slots[a].check(from, n, "memcmp says that they differ");
            }
        }
        _ => {
            w.note = format!("memmove {n} elements from {from} of {a} to {to} of {b}");
            let bytes = w.slots[a].shadow(from, n).to_vec();
            // SAFETY: inside the blocks, which may be one.
            unsafe {
                if a == b {
                    libc::memmove(target.cast(), source.cast(), n * unit);
                } else {
                    libc::memcpy(target.cast(), source.cast(), n * unit);
                }
            }
            w.slots[b].shadow_mut(to, n).copy_from_slice(&bytes);
            let bound = w.bound(a);
            w.raise(b, bound);
        }
    }
}
