//! How many threads the host BLAS computes with, lowered while background threads of the runtime need cores
//! ([`semcache::process::background`]).
//!
//! With one H100 and 16 cores, coming up takes 0.4 s of one core. OpenBLAS's threads wait for work without sleeping, so no core looks idle to the
//! kernel and the starting thread shares one with them: dgemv of 900 took 10 to 25 ms a call instead of 0.03 in that time, with 15 threads
//! what it always takes.
//!
//! OpenBLAS built with threads of its own reads the number at the beginning of each call from the word `blas_cpu_number`, which is written here
//! directly: `openblas_set_num_threads` may start threads or wait for a lock. Builds with OpenMP are left alone.

#![expect(
    unsafe_code,
    reason = "a word and functions of a library, found by their names"
)]

use core::ffi::{CStr, c_int};
use core::mem::transmute;
use core::sync::atomic::{AtomicI32, Ordering};

use super::objects::Object;

/// The number is lowered by this share of it at most: not at all with two or three threads, of which each is worth more than the wait. A
/// program that reads the lowered number and sets it back later loses no more.
const SHARE: i32 = 4;
/// What `openblas_get_parallel` returns for a build with threads of its own.
const THREADS: c_int = 1;
const PARALLEL: [&CStr; 4] = [
    c"openblas_get_parallel",
    c"openblas_get_parallel64_",
    c"scipy_openblas_get_parallel",
    c"scipy_openblas_get_parallel64_",
];

/// The number of threads of a library's BLAS calls.
pub(super) struct Threads {
    /// The library's word.
    number: &'static AtomicI32,
    /// The program's number, and the lower one that stood in its place last; both 0 if there was none.
    own: AtomicI32,
    lowered: AtomicI32,
}

impl Threads {
    /// That of a library, which is never unloaded; `None` if it has none that may be changed.
    pub(super) fn of(library: &Object) -> Option<Threads> {
        let handle = library.open()?;
        let parallel = PARALLEL.iter().find_map(|name| handle.symbol(name))?;
        // SAFETY: a function of OpenBLAS's by its name: it takes nothing and returns an integer.
        let parallel: extern "C" fn() -> c_int = unsafe { transmute(parallel) };
        let number = handle.symbol(c"blas_cpu_number")?;
        // SAFETY: an `int` of OpenBLAS's by its name, aligned, in a library that is never unloaded. The library accesses it with plain loads
        // and stores of the whole word, as `openblas_set_num_threads` does beside calls of other threads.
        let number = unsafe { AtomicI32::from_ptr(number as *mut i32) };
        let threads = Threads {
            number,
            own: AtomicI32::new(0),
            lowered: AtomicI32::new(0),
        };
        (parallel() == THREADS).then_some(threads)
    }

    /// Whether both are the same word: a library that calls another one's threads.
    pub(super) fn is(&self, other: &Threads) -> bool {
        core::ptr::eq(self.number, other.number)
    }

    /// Lowers the number to `most`, by a quarter at most, or gives the program's number back if that is no more. A number that the program has
    /// set meanwhile counts as the program's; but if it is the lowered one, the program has read it and sets it back. One thread at a time
    /// calls this.
    pub(super) fn lower(&self, most: i32) {
        let now = self.number.load(Ordering::Relaxed);
        let (own, lowered) = (
            self.own.load(Ordering::Relaxed),
            self.lowered.load(Ordering::Relaxed),
        );
        let own = if lowered != 0 && now == lowered {
            own
        } else {
            now
        };
        let new = own.min(most.max(own - own / SHARE));
        // A number that the program sets in this moment stays. The child of a fork by another thread finds what it needs to give the number
        // back.
        let set = |new| {
            let _ = self
                .number
                .compare_exchange(now, new, Ordering::Relaxed, Ordering::Relaxed);
        };
        if new < own {
            self.own.store(own, Ordering::Relaxed);
            self.lowered.store(new, Ordering::Relaxed);
        }
        if new != now {
            set(new);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn threads(number: &'static AtomicI32) -> Threads {
        Threads {
            number,
            own: AtomicI32::new(0),
            lowered: AtomicI32::new(0),
        }
    }

    #[test]
    fn lowered_and_given_back() {
        static NUMBER: AtomicI32 = AtomicI32::new(16);
        let t = threads(&NUMBER);
        for (most, expected) in [(15, 15), (2, 12), (14, 14), (i32::MAX, 16), (16, 16)] {
            t.lower(most);
            assert_eq!(NUMBER.load(Ordering::Relaxed), expected, "most {most}");
        }
    }

    #[test]
    fn what_the_program_sets_stays() {
        static NUMBER: AtomicI32 = AtomicI32::new(16);
        let t = threads(&NUMBER);
        t.lower(15);
        NUMBER.store(4, Ordering::Relaxed);
        t.lower(i32::MAX);
        assert_eq!(NUMBER.load(Ordering::Relaxed), 4);
        t.lower(2);
        assert_eq!(NUMBER.load(Ordering::Relaxed), 3);
        t.lower(i32::MAX);
        assert_eq!(NUMBER.load(Ordering::Relaxed), 4);
        // It had read the lowered number, and sets that back.
        NUMBER.store(3, Ordering::Relaxed);
        t.lower(i32::MAX);
        assert_eq!(NUMBER.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn few_threads_are_left_alone() {
        static NUMBER: AtomicI32 = AtomicI32::new(3);
        threads(&NUMBER).lower(1);
        assert_eq!(NUMBER.load(Ordering::Relaxed), 3);
    }
}
