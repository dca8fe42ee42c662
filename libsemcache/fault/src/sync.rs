//! Atomics and the futex: the real ones, or loom's under `cfg(loom)`.

#[cfg(not(loom))]
mod real {
    use core::time::Duration;
    use rustix::thread::futex;
    use rustix::time::{ClockId, Timespec};

    pub(crate) use crate::sys::{current_tid, say};
    pub(crate) use core::sync::atomic::{
        AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };

    /// A 32-bit word that threads can sleep on.
    #[derive(Debug)]
    pub(crate) struct Word(AtomicU32);

    impl Word {
        pub(crate) const fn new(value: u32) -> Word {
            Word(AtomicU32::new(value))
        }

        /// Sleeps while the word equals `expected`, for at most `timeout`. Returns on a wake-up, on a
        /// different value, on a signal, on time-out: the caller looks again in every case.
        pub(crate) fn sleep(&self, expected: u32, timeout: Duration) {
            let timeout = Timespec {
                tv_sec: timeout.as_secs().try_into().unwrap_or(i64::MAX),
                tv_nsec: timeout.subsec_nanos().into(),
            };
            let _ = futex::wait(&self.0, futex::Flags::PRIVATE, expected, Some(&timeout));
        }

        pub(crate) fn wake_all(&self) {
            let _ = futex::wake(&self.0, futex::Flags::PRIVATE, i32::MAX as u32);
        }
    }

    impl core::ops::Deref for Word {
        type Target = AtomicU32;
        fn deref(&self) -> &AtomicU32 {
            &self.0
        }
    }

    /// Monotonic nanoseconds. rustix reads the vDSO through a pointer that it resolves at the first
    /// call, which `handler::install` makes.
    pub(crate) fn now_ns() -> u64 {
        let t = rustix::time::clock_gettime(ClockId::Monotonic);
        (t.tv_sec as u64)
            .wrapping_mul(1_000_000_000)
            .wrapping_add(t.tv_nsec as u64)
    }

    pub(crate) fn pause() {
        core::hint::spin_loop();
    }

    pub(crate) fn yield_now() {
        rustix::thread::sched_yield();
    }

    /// Builds an array of atomics in a constant.
    macro_rules! array {
        ($init:expr) => {
            [const { $init }; _]
        };
    }
    pub(crate) use array;
}

#[cfg(loom)]
mod model {
    use core::time::Duration;
    use loom::sync::{Condvar, Mutex};

    pub(crate) use loom::sync::atomic::{
        AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };

    /// A futex word: the mutex stands for the kernel's hash bucket lock, under which a sleeper compares
    /// and enqueues, and a waker finds it. There are no time-outs in the model, so that a lost wake-up
    /// shows as a deadlock.
    #[derive(Debug)]
    pub(crate) struct Word {
        value: AtomicU32,
        bucket: Mutex<()>,
        queue: Condvar,
    }

    impl Word {
        pub(crate) fn new(value: u32) -> Word {
            Word {
                value: AtomicU32::new(value),
                bucket: Mutex::new(()),
                queue: Condvar::new(),
            }
        }

        pub(crate) fn sleep(&self, expected: u32, _timeout: Duration) {
            let bucket = self.bucket.lock().expect("the model does not poison");
            if self.value.load(Ordering::Relaxed) == expected {
                drop(self.queue.wait(bucket).expect("the model does not poison"));
            }
        }

        pub(crate) fn wake_all(&self) {
            drop(self.bucket.lock().expect("the model does not poison"));
            self.queue.notify_all();
        }
    }

    impl core::ops::Deref for Word {
        type Target = AtomicU32;
        fn deref(&self) -> &AtomicU32 {
            &self.value
        }
    }

    pub(crate) fn now_ns() -> u64 {
        0
    }

    pub(crate) fn say(_line: &[u8]) {}

    pub(crate) fn yield_now() {
        loom::thread::yield_now();
    }

    macro_rules! array {
        ($init:expr) => {
            core::array::from_fn(|_| $init)
        };
    }
    pub(crate) use array;
}

#[cfg(loom)]
pub(crate) use model::*;
#[cfg(not(loom))]
pub(crate) use real::*;
