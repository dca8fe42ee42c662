//! LU factors of a matrix by blocks, without pivots: first without hints, then with a block-cyclic distribution, then with a distribution
//! of the program's own.
//!
//! `cargo run --release --example lu [N]`, under `semcache run --` or without.
//!
//! A(i, j) = r(i) min(i, j) c(j), counted from one, with r and c among 1, 2, 4, -1, -2, -4. Its factors are known, L(i, j) = r(i) / r(j)
//! and U(i, j) = r(i) c(j), and all numbers on the way to them exact. Results go to stdout, the same with and without semcache; seconds
//! and bytes go to stderr.
#![expect(clippy::print_stdout, reason = "a program")]

mod common;

use common::{Meter, NO, checksum};
use semcache_api::{
    Diag, Distribution, Hints, Pending, Result, Side, Uplo, View, ViewMut, range, scope,
};

const VALUES: [f64; 7] = [1.0, -2.0, 4.0, -1.0, 2.0, 2.0, -4.0];

fn r(i: usize) -> f64 {
    VALUES[i % 7]
}

fn c(j: usize) -> f64 {
    VALUES[j % 5]
}

/// The factors of a block on the diagonal, by the host.
fn factor(mut block: ViewMut<'_, f64>) {
    let mut columns: Vec<&mut [f64]> = block.columns_mut().collect();
    for k in 0..columns.len() {
        let (done, rest) = columns.split_at_mut(k + 1);
        let pivots = &mut done[k][k..];
        let pivot = pivots[0];
        pivots[1..].iter_mut().for_each(|a| *a /= pivot);
        for column in rest {
            let above = column[k];
            column[k + 1..]
                .iter_mut()
                .zip(&pivots[1..])
                .for_each(|(a, l)| *a -= l * above);
        }
    }
}

/// The row of blocks, the column of blocks, and the rest of the matrix, of which the block on the diagonal (`here`) has its factors.
fn update(n: usize, here: usize, rest: ViewMut<'_, f64>) -> Result<()> {
    scope(|s| {
        let rest = Pending::from(rest);
        let (diagonal, right) = (rest.block(..here, ..here)?, rest.block(..here, here..n)?);
        let (below, inner) = (rest.block(here..n, ..here)?, rest.block(here..n, here..n)?);
        s.trsm(
            Side::Left,
            Uplo::Lower,
            NO,
            Diag::Unit,
            1.0,
            diagonal,
            right,
        )?;
        s.trsm(
            Side::Right,
            Uplo::Upper,
            NO,
            Diag::NonUnit,
            1.0,
            diagonal,
            below,
        )?;
        s.gemm(NO, NO, -1.0, below, right, 1.0, inner).map(drop)
    })
}

fn plain(n: usize, nb: usize, a: &mut [f64]) -> Result<()> {
    let mut a = ViewMut::new(a, n, n, n)?;
    for k in (0..n).step_by(nb) {
        let (to, rest) = (n.min(k + nb), n - k);
        factor(a.reborrow().block(k..to, k..to)?);
        update(rest, to - k, a.reborrow().block(k.., k..)?)?;
    }
    Ok(())
}

/// Blocks go to the devices that compute them from the call of `distribute` on.
fn hinted(
    n: usize,
    nb: usize,
    a: &mut [f64],
    distribute: impl FnOnce(View<'_, f64>) -> Result<()>,
) -> Result<()> {
    let mut a = ViewMut::new(a, n, n, n)?;
    // Hint: messages and traces have this name, and the range below.
    let _ = a.name("A");
    // Hint. Pays with several devices: a block stays where it is, and only what other devices need of the new row and column is copied
    // between them.
    let _ = distribute(a.as_view());
    for k in (0..n).step_by(nb) {
        let (to, rest) = (n.min(k + nb), n - k);
        let step = range("block on the diagonal");
        let mut diagonal = a.reborrow().block(k..to, k..to)?;
        // Hint: the host changes this block. Pays since its columns lie in many pages: one wait instead of a fault for each.
        let _ = diagonal.write_cpu();
        factor(diagonal);
        drop(step);
        update(rest, to - k, a.reborrow().block(k.., k..)?)?;
    }
    // Hint: the factors come back at once. Pays if the CPU reads all of them.
    let _ = a.read_cpu();
    Ok(())
}

/// The library sends the blocks of a grid that is as square as the devices permit.
fn block_cyclic(n: usize, nb: usize, a: &mut [f64]) -> Result<()> {
    let of = Distribution::Cyclic {
        mb: nb,
        nb,
        p: 0,
        q: 0,
    };
    hinted(n, nb, a, |a| a.distribute(of)?.wait())
}

/// Diagonals of blocks are dealt to the devices, there and back (0 1 1 0 0 1 ...): every row and column of blocks is spread over all.
fn own_distribution(n: usize, nb: usize, a: &mut [f64]) -> Result<()> {
    let devices = semcache_api::devices().max(1);
    let owner = |i: usize, j: usize| {
        let turn = (i + j) % (2 * devices);
        let device = turn.min(2 * devices - 1 - turn);
        device as u32
    };
    hinted(n, nb, a, |a| a.distribute_by(nb, nb, owner)?.wait())
}

type Variant = fn(usize, usize, &mut [f64]) -> Result<()>;

fn main() -> Result<()> {
    let n = common::begin(8192)?;
    let nb = (n / 8).clamp(32, 256);
    let variants: [(&str, Variant); 3] = [
        ("plain", plain),
        ("block-cyclic", block_cyclic),
        ("own distribution", own_distribution),
    ];
    let mut first = None;
    for (name, run) in variants {
        let entry = |i: usize, j: usize| r(i) * (i.min(j) + 1) as f64 * c(j);
        let mut a: Vec<f64> = (0..n * n).map(|at| entry(at % n, at / n)).collect();
        let meter = Meter::new();
        run(n, nb, &mut a)?;
        let sum = checksum(&a);
        meter.report(name);
        let known = |i, j| if i > j { r(i) / r(j) } else { r(i) * c(j) };
        let wrong = (0..n * n)
            .filter(|&at| a[at] != known(at % n, at / n))
            .count();
        println!("RESULT lu {name}: checksum {sum:.2}, wrong elements: {wrong}");
        let first = first.get_or_insert_with(|| a.clone());
        println!(
            "RESULT lu {name}: as the first: {}",
            if *first == a { "yes" } else { "NO" }
        );
    }
    Ok(())
}
