//! X = L^-1 B, then C = A X, while the host does something else: first one call after the other, then in one scope with hints.
//!
//! `cargo run --release --example trsm_gemm [N]`, under `semcache run --` or without.
//!
//! L(i, j) = r(i) / r(j) with r among 1, 2, 4, -1, -2, -4: its inverse has two diagonals, and all results are exact. They go to stdout, the
//! same with and without semcache; seconds and bytes go to stderr.
#![expect(clippy::print_stdout, reason = "a program")]

mod common;

use common::{Meter, NO, checksum, host_work, integers};
use semcache_api::{Device, Diag, Hints, Result, Side, Uplo, View, ViewMut, scope};

fn r(i: usize) -> f64 {
    [1.0, -2.0, 4.0, -1.0, 2.0, 2.0, -4.0][i % 7]
}

/// The host has something else to do after each call; each scope waits for its call first.
fn plain(n: usize, l: &[f64], b: &mut [f64], a: &[f64], c: &mut [f64]) -> Result<f64> {
    scope(|s| {
        let (l, b) = (View::new(l, n, n, n)?, ViewMut::new(b, n, n, n)?);
        s.trsm(Side::Left, Uplo::Lower, NO, Diag::Unit, 1.0, l, b)
            .map(drop)
    })?;
    let done = host_work(n);
    scope(|s| {
        let (a, x, c) = (
            View::new(a, n, n, n)?,
            View::new(b, n, n, n)?,
            ViewMut::new(c, n, n, n)?,
        );
        s.gemm(NO, NO, 1.0, a, x, 0.0, c).map(drop)
    })?;
    Ok(done + host_work(n))
}

fn hinted(n: usize, l: &[f64], b: &mut [f64], a: &[f64], c: &mut [f64]) -> Result<f64> {
    let done = scope(|s| {
        let (l, b) = (View::new(l, n, n, n)?, ViewMut::new(b, n, n, n)?);
        let (a, c) = (View::new(a, n, n, n)?, ViewMut::new(c, n, n, n)?);
        // In one scope the host works while the devices do. Pays where it has something to do that needs no result: to read one here is
        // an error of the compiler.
        let x = s.trsm(Side::Left, Uplo::Lower, NO, Diag::Unit, 1.0, l, b)?;
        // Hint: A is not needed before the second call. Pays if the host works meanwhile.
        let _ = a.prefetch(Device::All);
        let done = host_work(n);
        let c = s.gemm(NO, NO, 1.0, a, x, 0.0, c)?;
        // Hint: C comes back as soon as it is complete, while the host works. Pays if the CPU reads it afterwards.
        let _ = c.coherent();
        Ok(done + host_work(n))
    })?;
    // Hint: C can be read from here on without page faults. Pays if the CPU reads all of it.
    let _ = View::new(c, n, n, n)?.read_cpu();
    Ok(done)
}

fn main() -> Result<()> {
    let n = common::begin(4096)?;
    let triangle = |i, j| if i < j { -7777.0 } else { r(i) / r(j) };
    let mut first = None;
    for (name, hints) in [("plain", false), ("hinted", true)] {
        let l: Vec<f64> = (0..n * n).map(|at| triangle(at % n, at / n)).collect();
        let (given, a) = (integers(n, (3, 5), 7), integers(n, (2, 7), 5));
        let (mut b, mut c) = (given.clone(), vec![0.0; n * n]);
        let meter = Meter::new();
        let run = if hints { hinted } else { plain };
        let done = run(n, &l, &mut b, &a, &mut c)?;
        let sum = checksum(&c);
        meter.report(name);
        // What X must be: of each column two neighbours.
        let up = |at: usize| {
            if at.is_multiple_of(n) {
                0.0
            } else {
                r(at % n) / r(at % n - 1) * given[at - 1]
            }
        };
        let wrong = (0..n * n).filter(|&at| b[at] != given[at] - up(at)).count();
        println!(
            "RESULT trsm_gemm {name}: checksums {sum:.2} {:.2}, wrong elements of X: {wrong}, host work {done:.6e}",
            checksum(&b)
        );
        let results = (b, c);
        let first = first.get_or_insert_with(|| results.clone());
        println!(
            "RESULT trsm_gemm {name}: as the first: {}",
            if *first == results { "yes" } else { "NO" }
        );
    }
    Ok(())
}
