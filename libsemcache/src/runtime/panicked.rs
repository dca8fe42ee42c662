//! Panics in a call: bugs of semcache's own, which may neither cross the stubs nor give wrong numbers.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::cache::changed::Changes;
use crate::cache::lost;

/// Runs a call; `None` if it panicked before it changed any of its results, so that the host BLAS can run it. If it panics
/// later, the process ends: run again from its beginning, the call would change its results twice.
pub fn caught<R>(call: impl FnOnce() -> R) -> Option<R> {
    let changes = Changes::none();
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(done) => Some(done),
        Err(payload) => {
            // Dropping the payload could panic again, outside of `catch_unwind`.
            mem::forget(payload);
            if let Some(addr) = changes.result() {
                lost::end_after_panic(addr);
            }
            None
        }
    }
}

#[cfg(test)]
#[allow(
    clippy::disallowed_methods,
    reason = "a test program, not the library in a user's process"
)]
mod tests {
    #![expect(unsafe_code, reason = "plays a host BLAS")]

    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::base::kernel::Kernel;
    use crate::base::{Dtype, Routine, Value};
    use crate::blas::finish::HostBlas;
    use crate::blas::{Call, Outcome, local};
    use crate::cache::changed;
    use crate::runtime::{self, Facts};
    use testkit::apart_under;

    const N: usize = 8;

    /// A host BLAS of which the task with this number panics, counted from 1, and how many tasks it has got.
    #[derive(Debug)]
    struct Panics(usize, AtomicUsize);

    impl HostBlas for Panics {
        fn has(&self, _: &Kernel) -> bool {
            true
        }

        unsafe fn compute(&self, kernel: &Kernel) -> bool {
            let task = self.1.fetch_add(1, Ordering::Relaxed) + 1;
            assert_ne!(task, self.0, "a bug in the door");
            // SAFETY: the caller's promise.
            unsafe { crate::sched::local::compute(kernel) };
            true
        }
    }

    /// Ends as the shim does: if a call was not done, the host BLAS runs all of it. C is 1, and becomes 1 + N.
    fn computed(host: &dyn HostBlas) {
        let mut c = vec![1.0_f64; N * N];
        let ones = vec![1.0_f64; N * N];
        let at = |m: &[f64]| (m.as_ptr().expose_provenance(), N as i64);
        let n = N as i64;
        let out = (c.as_mut_ptr().expose_provenance(), n);
        let call = Call {
            beta: Value::ONE,
            ..Call::new(
                Routine::Gemm,
                Dtype::D,
                &[n, n, n],
                &[at(&ones), at(&ones), out],
            )
        };
        let facts = Facts {
            host: Some(host),
            ..Facts::default()
        };
        if !matches!(
            caught(|| runtime::call(&call, &facts)),
            Some(Outcome::Done(_))
        ) {
            let _ = local::compute(None, &call);
        }
        assert_eq!(c, vec![1.0 + N as f64; N * N]);
    }

    /// Device 0 refuses the second task of the call, so the host gets all further ones.
    const REFUSED: [(&str, &str); 4] = [
        ("SEMCACHE_DEVICES", "sim:1"),
        ("SEMCACHE_SIM", "fail=launches:2"),
        ("SEMCACHE_TILE", "2"),
        ("SEMCACHE_OFFLOAD", "always"),
    ];

    #[test]
    fn a_call_that_has_changed_its_results_is_not_run_again() {
        let output = apart_under(&REFUSED, || {
            computed(&Panics(3, AtomicUsize::new(0)));
        });
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(70), "{told}");
        let ours = told.lines().filter(|l| l.starts_with("semcache: a panic"));
        assert_eq!(ours.count(), 1, "{told}");
    }

    #[test]
    fn a_call_whose_tasks_were_only_queued_is_not_run_again() {
        let output = apart_under(&REFUSED, || {
            computed(&Panics(1, AtomicUsize::new(0)));
        });
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(70), "{told}");
    }

    #[test]
    fn without_a_panic_the_host_finishes_it() {
        let output = apart_under(&REFUSED, || {
            let host = Panics(0, AtomicUsize::new(0));
            computed(&host);
            assert!(host.1.into_inner() > 2);
        });
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{told}");
    }

    #[test]
    fn a_call_that_has_changed_nothing_can_be_run_again() {
        let outer = Changes::none();
        changed::begun(8);
        // A call within a call, of a handler for example.
        assert_eq!(caught(|| panic!("before any change")), None::<()>);
        assert_eq!(caught(|| changed::begun(16)), Some(()));
        assert_eq!(outer.result(), Some(8));
        drop(outer);
        assert_eq!(Changes::none().result(), None);
    }
}
