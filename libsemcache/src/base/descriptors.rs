//! Descriptors that a device's libraries have open. A program that closes every number, as daemons do, takes a GPU away
//! from its driver with them, and what only that GPU has.
//!
//! Which they are is noted where they are opened, by a thread that is in such a library ([`super::inside`]). To the
//! program such a number is one that is not open.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

/// Numbers that can be noted. A table of descriptors of this size is large.
const NUMBERS: usize = 1 << 16;
const WORD: usize = u64::BITS as usize;

/// The process's.
static PROCESS: Held = Held::new();

struct Held {
    bits: [AtomicU64; NUMBERS / WORD],
    count: AtomicU32,
}

/// The process whose numbers they are. A child that shares its memory has numbers of its own.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// Notes a number.
pub fn hold(number: i32) {
    OWNER.store(process(), SeqCst);
    PROCESS.hold(number);
}

/// Forgets a number; whether it was noted.
pub fn release(number: i32) -> bool {
    PROCESS.release(number)
}

/// Whether a number is noted.
#[must_use]
pub fn held(number: i32) -> bool {
    next(number, number).is_some()
}

/// The first number from `first` to `last` that is noted.
#[must_use]
pub fn next(first: i32, last: i32) -> Option<i32> {
    if !PROCESS.any() {
        return None;
    }
    PROCESS
        .next(first, last)
        .filter(|_| OWNER.load(SeqCst) == process())
}

fn process() -> u32 {
    rustix::process::getpid()
        .as_raw_nonzero()
        .get()
        .unsigned_abs()
}

/// In the child of a fork, which has no devices: whoever closes them there is right.
pub fn forget_all() {
    PROCESS.forget_all();
}

/// Where the bit of a number is.
fn place(number: i32) -> Option<(usize, u64)> {
    let number = usize::try_from(number).ok().filter(|&n| n < NUMBERS)?;
    Some((number / WORD, 1 << (number % WORD)))
}

impl Held {
    const fn new() -> Held {
        Held {
            bits: [const { AtomicU64::new(0) }; NUMBERS / WORD],
            count: AtomicU32::new(0),
        }
    }

    fn any(&self) -> bool {
        self.count.load(SeqCst) > 0
    }

    fn hold(&self, number: i32) {
        let Some((word, bit)) = place(number) else {
            return;
        };
        if self.bits[word].fetch_or(bit, SeqCst) & bit == 0 {
            self.count.fetch_add(1, SeqCst);
        }
    }

    fn release(&self, number: i32) -> bool {
        if !self.any() {
            return false;
        }
        let Some((word, bit)) = place(number) else {
            return false;
        };
        let noted = self.bits[word].fetch_and(!bit, SeqCst) & bit != 0;
        if noted {
            self.count.fetch_sub(1, SeqCst);
        }
        noted
    }

    fn next(&self, first: i32, last: i32) -> Option<i32> {
        let mut number = usize::try_from(first).unwrap_or(0);
        let last = usize::try_from(last).ok()?.min(NUMBERS - 1);
        while number <= last {
            let left = self.bits[number / WORD].load(SeqCst) >> (number % WORD);
            if left == 0 {
                number = (number / WORD + 1) * WORD;
                continue;
            }
            number += left.trailing_zeros() as usize;
            return i32::try_from(number).ok().filter(|_| number <= last);
        }
        None
    }

    fn forget_all(&self) {
        if self.any() {
            for word in &self.bits {
                word.store(0, SeqCst);
            }
            self.count.store(0, SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_is_found_in_order() {
        let held = Held::new();
        assert_eq!(held.next(0, i32::MAX), None);
        for number in [3, 63, 64, 700, 65535, -1, 65536, 3] {
            held.hold(number);
        }
        let mut found = Vec::new();
        let mut from = 0;
        while let Some(number) = held.next(from, i32::MAX) {
            found.push(number);
            from = number + 1;
        }
        assert_eq!(found, [3, 63, 64, 700, 65535]);
        assert_eq!(held.next(4, 62), None);
        assert_eq!(held.next(4, 63), Some(63));
        assert_eq!(held.next(-5, 3), Some(3));
        assert!(held.release(63) && !held.release(63) && !held.release(-7));
        assert_eq!(held.next(4, 700), Some(64));
        held.forget_all();
        assert!(!held.any() && held.next(0, i32::MAX).is_none() && !held.release(3));
    }
}
