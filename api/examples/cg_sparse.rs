//! Conjugate gradients for a sparse matrix in compressed rows: first with products by a loop, then with products by the library.
//!
//! `cargo run --release --example cg_sparse [K]`, under `semcache run --` or without.
//!
//! The system is a Laplacian of 27 points on a cube of K^3, whose solution is a vector of small integers. Of a step only two numbers come
//! home. Results go to stdout, the same with and without semcache; seconds and bytes go to stderr.

mod common;
mod sparse;

use semcache_api::Result;
use sparse::{Blas, Matrix, Product, compare, stencil};

const MOST: usize = 2000;

fn conjugate_gradients(
    blas: &Blas,
    a: &Matrix,
    b: &[f64],
    multiply: Product,
) -> Result<(Vec<f64>, usize)> {
    let (mut x, mut q) = (vec![0.0; b.len()], vec![0.0; b.len()]);
    let (mut r, mut p) = (blas.copy(b), blas.copy(b));
    let (mut rho, mut steps) = (blas.dot(b, b), 0);
    let goal = 1e-20 * rho;
    while rho > goal && steps < MOST {
        multiply(a, &p, &mut q)?;
        let alpha = rho / blas.dot(&p, &q);
        blas.add(alpha, &p, &mut x);
        blas.add(-alpha, &q, &mut r);
        let next = blas.dot(&r, &r);
        blas.scale(next / rho, &mut p);
        blas.add(1.0, &r, &mut p);
        rho = next;
        steps += 1;
    }
    Ok((x, steps))
}

fn main() -> Result<()> {
    let a = stencil(common::begin(100)?, 0.0)?;
    compare("cg_sparse", &a, conjugate_gradients)
}
