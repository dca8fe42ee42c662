//! File descriptors that a device's libraries have open. A program that closes every descriptor, as daemons do, would
//! take them from the driver and so lose the GPU, with the results that only the GPU has.
//!
//! A descriptor is noted when it is opened by a thread that runs code of such a library ([`super::driver_scope`]). To the
//! program a noted descriptor looks like one that is not open.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

use semcache_fault::descriptor::file_of;

/// Descriptors that can be noted: those below this number.
const NUMBERS: usize = 4096;
const WORD: usize = u64::BITS as usize;

/// The noted descriptors of this process.
static PROCESS: Numbers = Numbers::new();

/// The process that noted the descriptors. A child that shares its memory (`vfork`) usually has a descriptor table of
/// its own.
static OWNER: AtomicU32 = AtomicU32::new(0);

struct Numbers {
    bits: [AtomicU64; NUMBERS / WORD],
    /// The identity of the file that each descriptor was opened for.
    files: [AtomicU64; NUMBERS],
    count: AtomicU32,
}

/// Notes a descriptor.
pub fn hold(number: i32) {
    if let Some(file) = file_of(number) {
        OWNER.store(process(), SeqCst);
        PROCESS.hold(number, file);
    }
}

/// Forgets a descriptor: it was closed, or belongs to the program now.
pub fn release(number: i32) {
    PROCESS.release(number);
}

/// Whether a descriptor is noted.
#[must_use]
pub fn held(number: i32) -> bool {
    next(number, number).is_some()
}

/// The first noted descriptor from `first` to `last`. A descriptor that refers to another file by now is forgotten.
#[must_use]
pub fn next(first: i32, last: i32) -> Option<i32> {
    if !PROCESS.any() {
        return None;
    }
    let mut from = first;
    loop {
        let number = PROCESS.next(from, last)?;
        if OWNER.load(SeqCst) != process() {
            return None;
        }
        if PROCESS.is_for(number, file_of(number)) {
            return Some(number);
        }
        PROCESS.release(number);
        from = number;
    }
}

/// Forgets all descriptors: in the child of a fork, which has no devices, and after the devices were shut down. The
/// program may close them then.
pub fn forget_all() {
    PROCESS.forget_all();
}

fn process() -> u32 {
    rustix::process::getpid()
        .as_raw_nonzero()
        .get()
        .unsigned_abs()
}

/// The word and the bit of a descriptor in `bits`.
fn place(number: i32) -> Option<(usize, u64)> {
    let number = usize::try_from(number).ok().filter(|&n| n < NUMBERS)?;
    Some((number / WORD, 1 << (number % WORD)))
}

impl Numbers {
    const fn new() -> Numbers {
        Numbers {
            bits: [const { AtomicU64::new(0) }; NUMBERS / WORD],
            files: [const { AtomicU64::new(0) }; NUMBERS],
            count: AtomicU32::new(0),
        }
    }

    fn any(&self) -> bool {
        self.count.load(SeqCst) > 0
    }

    fn hold(&self, number: i32, file: u64) {
        let Some((word, bit)) = place(number) else {
            return;
        };
        self.files[word * WORD + bit.trailing_zeros() as usize].store(file, SeqCst);
        if self.bits[word].fetch_or(bit, SeqCst) & bit == 0 {
            self.count.fetch_add(1, SeqCst);
        }
    }

    fn is_for(&self, number: i32, file: Option<u64>) -> bool {
        usize::try_from(number)
            .ok()
            .and_then(|number| self.files.get(number))
            .is_some_and(|noted| Some(noted.load(SeqCst)) == file)
    }

    fn release(&self, number: i32) {
        if !self.any() {
            return;
        }
        if let Some((word, bit)) = place(number)
            && self.bits[word].load(SeqCst) & bit != 0
            && self.bits[word].fetch_and(!bit, SeqCst) & bit != 0
        {
            self.count.fetch_sub(1, SeqCst);
        }
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
        for word in &self.bits {
            let noted = word.swap(0, SeqCst).count_ones();
            self.count.fetch_sub(noted, SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_is_found_in_order() {
        let held = Numbers::new();
        assert_eq!(held.next(0, i32::MAX), None);
        for number in [3, 63, 64, 700, 4095, -1, 4096, 3] {
            held.hold(number, 17);
        }
        let mut found = Vec::new();
        let mut from = 0;
        while let Some(number) = held.next(from, i32::MAX) {
            found.push(number);
            from = number + 1;
        }
        assert_eq!(found, [3, 63, 64, 700, 4095]);
        assert!(held.is_for(63, Some(17)) && !held.is_for(63, Some(18)));
        assert!(!held.is_for(63, None) && !held.is_for(-1, None));
        assert_eq!(held.next(4, 62), None);
        assert_eq!(held.next(4, 63), Some(63));
        assert_eq!(held.next(-5, 3), Some(3));
        for number in [63, 63, -7] {
            held.release(number);
        }
        assert_eq!(held.next(4, 700), Some(64));
        held.forget_all();
        assert!(!held.any() && held.next(0, i32::MAX).is_none());
    }

    /// A descriptor that was closed past the hooks, and refers to another file now.
    #[test]
    fn a_number_of_another_file_is_forgotten() {
        use nix::sys::memfd::{MFdFlags, memfd_create};
        use std::os::fd::AsRawFd;
        let (end, other) = nix::unistd::pipe().unwrap();
        // Above the descriptors that other tests open and close meanwhile.
        let number = rustix::io::fcntl_dupfd_cloexec(&end, 900).unwrap();
        hold(number.as_raw_fd());
        assert!(held(number.as_raw_fd()));
        let mut number = number;
        let other_file = memfd_create("other", MFdFlags::empty()).unwrap();
        nix::unistd::dup2(other_file, &mut number).unwrap();
        assert!(!held(number.as_raw_fd()));
        hold(number.as_raw_fd());
        assert_eq!(next(0, 4095), Some(number.as_raw_fd()));
        let closed = number.as_raw_fd();
        drop(number);
        assert!(!held(closed));
        drop((end, other));
    }
}
