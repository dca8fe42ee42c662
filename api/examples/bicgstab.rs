//! BiCGSTAB for an unsymmetric sparse matrix in compressed rows: first with products by a loop, then with products by the library.
//!
//! `cargo run --release --example bicgstab [K]`, under `semcache run --` or without.
//!
//! The system is convection and diffusion on a cube of K^3 points, whose solution is a vector of small integers. Of a step only five
//! numbers come home. Results go to stdout, the same with and without semcache; seconds and bytes go to stderr.

mod common;
mod sparse;

use semcache_api::Result;
use sparse::{Blas, Matrix, Product, compare, stencil};

const MOST: usize = 1000;

/// `b` is the shadow of the first residual.
fn bicgstab(blas: &Blas, a: &Matrix, b: &[f64], multiply: Product) -> Result<(Vec<f64>, usize)> {
    let n = b.len();
    let (mut x, mut v, mut t) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
    let (mut r, mut p) = (blas.copy(b), blas.copy(b));
    let mut square = blas.dot(b, b);
    let (mut rho, goal, mut steps) = (square, 1e-20 * square, 0);
    while square > goal && steps < MOST {
        multiply(a, &p, &mut v)?;
        let alpha = rho / blas.dot(b, &v);
        blas.add(-alpha, &v, &mut r);
        multiply(a, &r, &mut t)?;
        // Zero if r is: half a step was enough.
        let most = blas.dot(&t, &t);
        let omega = if most > 0.0 {
            blas.dot(&t, &r) / most
        } else {
            0.0
        };
        blas.add(alpha, &p, &mut x);
        blas.add(omega, &r, &mut x);
        blas.add(-omega, &t, &mut r);
        square = blas.dot(&r, &r);
        let next = blas.dot(b, &r);
        blas.add(-omega, &v, &mut p);
        blas.scale(next / rho * alpha / omega, &mut p);
        blas.add(1.0, &r, &mut p);
        rho = next;
        steps += 1;
    }
    Ok((x, steps))
}

fn main() -> Result<()> {
    let a = stencil(common::begin(100)?, 1.5)?;
    compare("bicgstab", &a, bicgstab)
}
