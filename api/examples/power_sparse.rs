//! The largest eigenvalue of a sparse matrix in compressed rows by power iteration: first with products by a loop, then by the library.
//!
//! `cargo run --release --example power_sparse [K]`, under `semcache run --` or without.
//!
//! The matrix is a Laplacian of 27 points on a cube of K^3, whose eigenvalues are known. Of a step only one number comes home. Results go
//! to stdout, the same with and without semcache; seconds and bytes go to stderr.
#![expect(clippy::print_stdout, reason = "a program")]

mod common;
mod sparse;

use std::f64::consts::PI;
use std::mem::swap;

use common::Meter;
use semcache_api::Result;
use sparse::{Blas, Matrix, PRODUCTS, Product, stencil, yes};

const STEPS: usize = 200;

fn power_iteration(blas: &Blas, a: &Matrix, k: usize, multiply: Product) -> Result<f64> {
    // Signs change along one axis, as those of an eigenvector do.
    let sign = |i| [1.0, -1.0][i % k % 2];
    let mut x: Vec<f64> = (0..a.rows()).map(sign).collect();
    let (mut y, mut norm) = (vec![0.0; x.len()], blas.dot(&x, &x).sqrt());
    blas.scale(1.0 / norm, &mut x);
    for _ in 0..STEPS {
        multiply(a, &x, &mut y)?;
        norm = blas.dot(&y, &y).sqrt();
        blas.scale(1.0 / norm, &mut y);
        swap(&mut x, &mut y);
    }
    Ok(norm)
}

fn main() -> Result<()> {
    let k = common::begin(100)?;
    let a = stencil(k, 0.0)?;
    // The matrix is 27 less a product of three matrices, one for each axis, with 1 on three diagonals.
    let along = |i: usize| 1.0 + 2.0 * (PI * i as f64 / (k + 1) as f64).cos();
    let (most, least) = (along(1), along(k));
    let known = 27.0 - least * if least < 0.0 { most } else { least }.powi(2);
    let blas = Blas::new()?;
    let mut found = Vec::new();
    for (way, product) in PRODUCTS {
        let meter = Meter::new();
        let eigenvalue = power_iteration(&blas, &a, k, product)?;
        meter.report(way);
        println!(
            "RESULT power_sparse {way}: eigenvalue {eigenvalue:.6}, known within 0.1 %: {}",
            yes((eigenvalue - known).abs() < 1e-3 * known)
        );
        found.push(eigenvalue);
    }
    // Devices may add in another order.
    let agree = yes((found[0] - found[1]).abs() < 1e-9);
    println!("RESULT power_sparse: eigenvalues agree within 1e-9: {agree}");
    Ok(())
}
