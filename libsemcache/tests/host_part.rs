//! Calls of which the host computes a part while devices compute the rest: when there is such a part, what it finds and what
//! it leaves behind. `sweep` has all routines.
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
use semcache::base::{Dtype, Op, Routine, Value};
use semcache::blas::{Call, Outcome};
use semcache::host::heap;
use semcache::runtime::{self, Facts};

/// Order of the matrices: a column is two pages.
const N: usize = 1024;

/// A square matrix in a block of its own.
struct Matrix(*mut f64);

impl Matrix {
    fn new(seed: usize) -> Matrix {
        let matrix = Matrix(heap::malloc(N * N * 8).cast());
        assert_eq!(matrix.0.addr() % 4096, 0);
        matrix.fill(seed);
        matrix
    }

    fn fill(&self, seed: usize) {
        for i in 0..N * N {
            let value = ((i * 7 + i / N * 3 + seed) % 9) as f64 - 4.0;
            // SAFETY: inside the block; an access to an inaccessible page faults and is served.
            unsafe { self.0.add(i).write_volatile(value) };
        }
    }

    fn get(&self, row: usize, col: usize) -> f64 {
        // SAFETY: as in `fill`.
        unsafe { self.0.add(row + col * N).read_volatile() }
    }
}

/// `C := A B`, and by how many the calls with a part of the host rose.
fn multiply(a: &Matrix, b: &Matrix, c: &Matrix) -> u64 {
    let before = COUNTERS.host_parts.get();
    let n = i64::try_from(N).unwrap();
    let at = |m: &Matrix| (m.0.addr(), n);
    let call = Call {
        op_a: Op::None,
        op_b: Op::None,
        alpha: Value::ONE,
        beta: Value::ZERO,
        ..Call::new(Routine::Gemm, Dtype::D, &[n, n, n], &[at(a), at(b), at(c)])
    };
    let done = runtime::call(&call, &Facts::default());
    assert!(!matches!(done, Outcome::Host), "the call ran on the host");
    COUNTERS.host_parts.get() - before
}

/// Compares some columns from both parts.
fn check(a: &Matrix, b: &Matrix, c: &Matrix) {
    for col in [0, N / 2, N - 300, N - 2, N - 1] {
        for row in (0..N).step_by(93) {
            let sum: f64 = (0..N).map(|k| a.get(row, k) * b.get(k, col)).sum();
            assert_eq!(c.get(row, col), sum, "row {row}, column {col}");
        }
    }
}

/// Runs `body` in a process of its own with two devices, each twice as fast as the host, and these variables.
fn alone<F: FnOnce()>(variables: &[(&str, &str)], body: F) {
    heap::configure(4096);
    let mut all = vec![
        ("SEMCACHE_DEVICES", "sim:2"),
        (
            "SEMCACHE_RATES",
            concat!(env!("CARGO_MANIFEST_DIR"), "/tests/host_part/rates.toml"),
        ),
    ];
    all.extend(variables);
    let output = testkit::apart_under(&all, body);
    let text = String::from_utf8_lossy(&output.stderr);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{text}");
}

#[test]
fn the_host_has_a_part_where_its_rate_counts() {
    alone(&[], || {
        let (a, b, c) = (Matrix::new(1), Matrix::new(2), Matrix::new(3));
        // Inputs stay on devices, their part of C too; the host's part is always at home.
        for _ in 0..3 {
            assert_eq!(multiply(&a, &b, &c), 1);
        }
        check(&a, &b, &c);
        // Copies of inputs on devices that the CPU changed are not used.
        b.fill(5);
        assert_eq!(multiply(&a, &b, &c), 1);
        check(&a, &b, &c);
    });
}

#[test]
fn the_host_has_no_part_where_it_would_wait_for_an_input() {
    alone(&[], || {
        let (a, b) = (Matrix::new(1), Matrix::new(2));
        let (c, d) = (Matrix::new(3), Matrix::new(4));
        assert_eq!(multiply(&a, &b, &c), 1);
        // The devices' part of C is on devices only; what the host wrote of it is uploaded.
        assert_eq!(multiply(&c, &b, &d), 0);
        // D is stale where the host's part would be.
        assert_eq!(multiply(&a, &b, &d), 0);
        check(&a, &b, &d);
        check(&a, &b, &c);
        // The CPU has read all of C.
        assert_eq!(multiply(&c, &b, &d), 0, "of D the part is stale");
        check(&c, &b, &d);
        assert_eq!(multiply(&c, &b, &d), 1);
        check(&c, &b, &d);
    });
}

#[test]
fn a_fixed_tile_or_a_setting_leaves_the_host_out() {
    for (name, value) in [
        ("SEMCACHE_TILE", "256"),
        ("SEMCACHE_HOST_SHARE", "off"),
        ("SEMCACHE_OFFLOAD", "always"),
        ("SEMCACHE_GATE", "eager"),
    ] {
        alone(&[(name, value)], || {
            let (a, b, c) = (Matrix::new(1), Matrix::new(2), Matrix::new(3));
            assert_eq!(multiply(&a, &b, &c), 0);
            check(&a, &b, &c);
        });
    }
}

/// A part that begins in the middle of a page, and of panels, is right, too.
#[test]
fn a_forced_share_is_kept_wherever_it_begins() {
    for share in ["1%", "37%", "99%"] {
        let variables = [("SEMCACHE_HOST_SHARE", share), ("SEMCACHE_TILE", "100")];
        alone(&variables, || {
            let (a, b, c) = (Matrix::new(1), Matrix::new(2), Matrix::new(3));
            for seed in 0..3 {
                a.fill(seed);
                assert_eq!(multiply(&a, &b, &c), 1);
                check(&a, &b, &c);
            }
        });
    }
}
