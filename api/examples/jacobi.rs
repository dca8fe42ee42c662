//! Jacobi's method for a dense system with several right-hand sides, one product per step: first without hints, then with them.
//!
//! `cargo run --release --example jacobi [N]`, under `semcache run --` or without.
//!
//! Solves (R + d I) X = B, made so that the solution has small integers. Results go to stdout, the same with and without semcache; seconds
//! and bytes go to stderr.
#![expect(clippy::print_stdout, reason = "a program")]

mod common;

use common::{Meter, NO, checksum};
use semcache_api::{Device, Hints, Result, View, ViewMut, range, scope};

const STEPS: usize = 60;
/// Right-hand sides.
const SIDES: usize = 16;

fn wanted(i: usize, side: usize) -> f64 {
    ((i + side) % 7 + 1) as f64
}

/// B = (R + d I) wanted.
fn prepare(n: usize, r: &[f64], d: f64) -> Vec<f64> {
    let mut b = vec![0.0; n * SIDES];
    for (side, b) in b.chunks_mut(n).enumerate() {
        for (j, column) in r.chunks(n).enumerate() {
            b[j] += d * wanted(j, side);
            b.iter_mut()
                .zip(column)
                .for_each(|(b, r)| *b += r * wanted(j, side));
        }
    }
    b
}

/// X = (B - Y) / d.
fn update(d: f64, b: &[f64], y: &[f64], x: &mut [f64]) {
    for ((x, b), y) in x.iter_mut().zip(b).zip(y) {
        *x = (b - y) / d;
    }
}

/// Y = R X. The scope waits for it at its end.
fn product(n: usize, r: &[f64], x: &[f64], y: &mut [f64]) -> Result<()> {
    scope(|s| {
        let (r, x) = (View::new(r, n, n, n)?, View::new(x, n, SIDES, n)?);
        s.gemm(NO, NO, 1.0, r, x, 0.0, ViewMut::new(y, n, SIDES, n)?)
            .map(drop)
    })
}

fn plain(n: usize, r: &[f64], d: f64) -> Result<Vec<f64>> {
    let b = prepare(n, r, d);
    let (mut x, mut y) = (vec![0.0; n * SIDES], vec![0.0; n * SIDES]);
    for _ in 0..STEPS {
        product(n, r, &x, &mut y)?;
        update(d, &b, &y, &mut x);
    }
    Ok(x)
}

fn hinted(n: usize, r: &[f64], d: f64) -> Result<Vec<f64>> {
    // Hint: R goes to the devices while the host makes B, and stays there as long as `_pinned` lives, in which R cannot be changed. Pays if
    // the host has something to do before the first step; and if other matrices would push R out between the steps.
    let _pinned = View::new(r, n, n, n)?.pin(Device::All);
    let b = prepare(n, r, d);
    let (mut x, mut y) = (vec![0.0; n * SIDES], vec![0.0; n * SIDES]);
    // Hint: traces have this range.
    let _steps = range("Jacobi");
    for _ in 0..STEPS {
        product(n, r, &x, &mut y)?;
        // Hints: all of Y comes back at once, and the copies of X are dropped. Pays if Y and X take several page faults otherwise, of up
        // to 2 MiB each; results that are smaller than `SEMCACHE_OWN` come back with the call.
        let _ = View::new(&y, n, SIDES, n)?.read_cpu();
        let _ = ViewMut::new(&mut x, n, SIDES, n)?.write_cpu();
        update(d, &b, &y, &mut x);
    }
    Ok(x)
}

fn main() -> Result<()> {
    let n = common::begin(8192)?;
    let d = 4.0 * n as f64;
    let entry = |i, j| {
        if i == j {
            0.0
        } else {
            ((7 * i + 3 * j) % 5) as f64 - 2.0
        }
    };
    let matrix: Vec<f64> = (0..n * n).map(|at| entry(at % n, at / n)).collect();
    let mut solutions = Vec::new();
    for (name, solve) in [("plain", plain as fn(_, &_, _) -> _), ("hinted", hinted)] {
        let r = matrix.clone();
        let meter = Meter::new();
        let x = solve(n, &r, d)?;
        meter.report(name);
        let error = |(at, x): (usize, &f64)| (x - wanted(at % n, at / n)).abs();
        let error = x.iter().enumerate().map(error).fold(0.0, f64::max);
        let within = if error < 1e-9 { "yes" } else { "NO" };
        println!(
            "RESULT jacobi {name}: checksum {:.6}, error below 1e-9: {within}",
            checksum(&x)
        );
        solutions.push(x);
    }
    // Devices may add in another order.
    let apart = solutions[0]
        .iter()
        .zip(&solutions[1])
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f64::max);
    let within = if apart < 1e-12 { "yes" } else { "NO" };
    println!("RESULT jacobi: hinted and plain agree within 1e-12: {within}");
    Ok(())
}
