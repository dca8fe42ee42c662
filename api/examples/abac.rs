//! D = A B + A C, by two products, and by a sum and one product: each first without hints, then with them.
//!
//! `cargo run --release --example abac [N]`, under `semcache run --` or without.
//!
//! Small integers throughout: all results are exact. They go to stdout, the same with and without semcache; seconds and bytes go to stderr.
#![expect(clippy::print_stdout, reason = "a program")]

mod common;

use common::{Meter, NO, checksum, host_work, integers};
use semcache_api::{Device, Hints, Result, View, ViewMut, scope};

/// The matrices of a variant, of order n.
struct Matrices {
    n: usize,
    a: Vec<f64>,
    b: Vec<f64>,
    c: Vec<f64>,
    d: Vec<f64>,
}

/// A matrix of order n, to be read.
fn view(of: &[f64], n: usize) -> Result<View<'_, f64>> {
    Ok(View::new(of, n, n, n)?)
}

/// D = A B + A C. Calls of a scope may return before they are complete, and the scope's end waits for both.
fn two_products(Matrices { n, a, b, c, d }: &mut Matrices) -> Result<()> {
    scope(|s| {
        let (a, b, c) = (view(a, *n)?, view(b, *n)?, view(c, *n)?);
        let d = s.gemm(NO, NO, 1.0, a, b, 0.0, ViewMut::new(d, *n, *n, *n)?)?;
        s.gemm(NO, NO, 1.0, a, c, 1.0, d).map(drop)
    })
}

/// The host has something else to do before the products, and before it reads D.
fn by_products(m: &mut Matrices) -> Result<f64> {
    let done = host_work(m.n);
    two_products(m)?;
    Ok(done + host_work(m.n))
}

fn by_products_hinted(m: &mut Matrices) -> Result<f64> {
    // Hint: the inputs go to the devices while the host works, in the order in which they are needed. Pays if the host works before the
    // first product. Nobody has to wait for the events: the products do.
    for input in [&m.a, &m.b, &m.c] {
        let _ = view(input, m.n)?.prefetch(Device::All);
    }
    let done = host_work(m.n);
    two_products(m)?;
    // Hint: D comes back while the host works. Pays if the host works before it reads D.
    let _ = view(&m.d, m.n)?.coherent();
    let done = done + host_work(m.n);
    // Hint: D can be read from here on without page faults. Pays if the CPU reads all of it.
    let _ = view(&m.d, m.n)?.read_cpu();
    Ok(done)
}

/// B = B + C, by the host.
fn add(b: &mut [f64], c: &[f64]) {
    b.iter_mut().zip(c).for_each(|(b, c)| *b += c);
}

/// D = A B.
fn one_product(Matrices { n, a, b, d, .. }: &mut Matrices) -> Result<()> {
    scope(|s| {
        let d = ViewMut::new(d, *n, *n, *n)?;
        s.gemm(NO, NO, 1.0, view(a, *n)?, view(b, *n)?, 0.0, d)
            .map(drop)
    })
}

fn by_a_sum(m: &mut Matrices) -> Result<f64> {
    add(&mut m.b, &m.c);
    one_product(m)?;
    Ok(host_work(m.n))
}

fn by_a_sum_hinted(m: &mut Matrices) -> Result<f64> {
    // Hint: A goes to the devices while the host adds. B would have to go there twice.
    let _ = view(&m.a, m.n)?.prefetch(Device::All);
    add(&mut m.b, &m.c);
    one_product(m)?;
    // Hints: as above.
    let _ = view(&m.d, m.n)?.coherent();
    let done = host_work(m.n);
    let _ = view(&m.d, m.n)?.read_cpu();
    Ok(done)
}

/// How many rows of D v are not those of A (B + C) v. With v = 1, 2, 3, 1, ... every element of D matters.
fn wrong(Matrices { n, a, b, c, d }: &Matrices) -> usize {
    let (mut sum, mut rows) = (vec![0.0; *n], vec![0.0; *n]);
    let v = |j: usize| (j % 3 + 1) as f64;
    for (j, (b, c)) in b.chunks(*n).zip(c.chunks(*n)).enumerate() {
        for (sum, (b, c)) in sum.iter_mut().zip(b.iter().zip(c)) {
            *sum += (b + c) * v(j);
        }
    }
    for (j, (a, d)) in a.chunks(*n).zip(d.chunks(*n)).enumerate() {
        for (row, (a, d)) in rows.iter_mut().zip(a.iter().zip(d)) {
            *row += a * sum[j] - d * v(j);
        }
    }
    rows.iter().filter(|row| **row != 0.0).count()
}

type Variant = fn(&mut Matrices) -> Result<f64>;

fn main() -> Result<()> {
    let n = common::begin(4096)?;
    let variants: [(&str, Variant); 4] = [
        ("by products, plain", by_products),
        ("by products, hinted", by_products_hinted),
        ("by a sum, plain", by_a_sum),
        ("by a sum, hinted", by_a_sum_hinted),
    ];
    let mut first = None;
    for (name, run) in variants {
        let (a, b, c) = (
            integers(n, (3, 5), 7),
            integers(n, (2, 7), 5),
            integers(n, (5, 1), 9),
        );
        let mut m = Matrices {
            n,
            a,
            b,
            c,
            d: vec![0.0; n * n],
        };
        let meter = Meter::new();
        let done = run(&mut m)?;
        let sum = checksum(&m.d);
        meter.report(name);
        println!("RESULT abac {name}: checksum {sum:.0}, host work {done:.6e}");
        if first.is_none() {
            println!("RESULT abac: wrong rows: {}", wrong(&m));
        }
        let first = first.get_or_insert_with(|| m.d.clone());
        println!(
            "RESULT abac {name}: as the first: {}",
            if *first == m.d { "yes" } else { "NO" }
        );
    }
    Ok(())
}
