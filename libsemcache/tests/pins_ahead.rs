//! Calls on devices whose results are page-locked by another thread while inputs are sent: right results, and which memory
//! is page-locked. `host_pins` has the order of the pieces, the fuzzer everything around such calls.
#![expect(
    unsafe_code,
    reason = "plays an unmodified program: raw memory, raw addresses"
)]
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![allow(
    clippy::disallowed_methods,
    reason = "a test program, not the library in a user's process"
)]

use semcache::base::counters::COUNTERS;
use semcache::base::{Dtype, Routine, Value};
use semcache::blas::{Call, Outcome};
use semcache::host::{heap, pins};
use semcache::runtime::{self, Facts};

const N: usize = 1024;

fn matrix(seed: usize) -> *mut f64 {
    let at: *mut f64 = heap::malloc(N * N * 8).cast();
    for i in 0..N * N {
        // SAFETY: inside the fresh block.
        unsafe {
            at.add(i)
                .write((i * 7 + i / N * 3 + seed) as f64 % 9.0 - 4.0)
        };
    }
    at
}

fn get(at: *mut f64, row: usize, col: usize) -> f64 {
    // SAFETY: inside a block; an access to an inaccessible page faults and is served.
    unsafe { at.add(row + col * N).read_volatile() }
}

/// `C := A B + beta C`
fn multiply(a: *mut f64, b: *mut f64, c: *mut f64, beta: f64) {
    let n = i64::try_from(N).unwrap();
    let call = Call {
        alpha: Value::ONE,
        beta: Value { re: beta, im: 0.0 },
        ..Call::new(
            Routine::Gemm,
            Dtype::D,
            &[n, n, n],
            &[a, b, c].map(|m| (m.addr(), n)),
        )
    };
    let done = runtime::call(&call, &Facts::default());
    assert!(!matches!(done, Outcome::Host), "the call ran on the host");
}

fn check(a: *mut f64, b: *mut f64, c: *mut f64, old: impl Fn(usize, usize) -> f64) {
    for col in (0..N).step_by(101) {
        for row in (0..N).step_by(93) {
            let sum: f64 = (0..N).map(|k| get(a, row, k) * get(b, k, col)).sum();
            assert_eq!(
                get(c, row, col),
                sum + old(row, col),
                "row {row}, column {col}"
            );
        }
    }
}

#[test]
fn results_are_page_locked_while_inputs_are_sent() {
    let machines = ["seed=1", "late,seed=2", "poison,seed=3"].map(|sim| ("sim:3", sim));
    for (devices, sim) in machines.into_iter().chain([("sim:1", "late,seed=4")]) {
        let settings = [
            ("SEMCACHE_DEVICES", devices),
            ("SEMCACHE_SIM", sim),
            ("SEMCACHE_OFFLOAD", "always"),
            ("SEMCACHE_PANEL", "4KiB"),
            ("SEMCACHE_TILE", "128"),
            ("SEMCACHE_PIN", "again"),
        ];
        heap::configure(4096);
        let output = testkit::apart_under(&settings, || {
            let (a, b, c) = (matrix(1), matrix(2), matrix(3));
            multiply(a, b, c, 0.0);
            // Inputs come for the first time, so they pass through staging memory.
            assert_eq!(COUNTERS.host.pinned.get(), (N * N * 8) as u64);
            assert_eq!(pins::bytes(), N * N * 8);
            check(a, b, c, |_, _| 0.0);
            // C is page-locked now, and D is an input as well.
            let d = matrix(4);
            let old: Vec<f64> = (0..N * N).map(|i| get(d, i % N, i / N)).collect();
            multiply(c, b, d, 1.0);
            assert_eq!(COUNTERS.host.pinned.get(), 2 * (N * N * 8) as u64);
            check(c, b, d, |row, col| old[row + col * N]);
            // The result and an input in one block: all pieces are page-locked before the first task.
            let at: *mut f64 = heap::malloc(2 * N * N * 8).cast();
            // SAFETY: inside the block.
            let e = unsafe { at.add(N * N) };
            for i in 0..N * N {
                // SAFETY: as above.
                unsafe { at.add(i).write((i % 5) as f64) };
            }
            multiply(at, b, e, 0.0);
            check(at, b, e, |_, _| 0.0);
            assert_eq!(COUNTERS.host.pin_refused.get(), 0);
        });
        let text = String::from_utf8_lossy(&output.stderr);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{devices}, {sim}: {said}\n{text}");
    }
}
