//! What the examples share: a BLAS, the size, a clock, and counts of what was moved. None of it is needed to use the crate.

use std::env;
use std::time::Instant;

use semcache_api::{Device, Error, Hints, Result, Statistics, Transpose, View, ViewMut, scope};

/// As it is, for calls.
pub(crate) const NO: Transpose = Transpose::No;

/// Loads a BLAS unless the process has one: the library, or what the program is linked with.
#[expect(unsafe_code, reason = "loads a library")]
fn load_blas() {
    // SAFETY: names that end with a zero; what the library does when it is loaded is its own.
    unsafe {
        if libc::dlsym(libc::RTLD_DEFAULT, c"dgemm_".as_ptr()).is_null() {
            libc::dlopen(c"libblas.so.3".as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL);
        }
    }
}

/// The order of the matrices: the program's argument. Brings devices and their BLAS up, so that the first variant does not pay for it;
/// without the library that does nothing.
pub(crate) fn begin(otherwise: usize) -> Result<usize> {
    load_blas();
    let n = match env::args().nth(1) {
        Some(n) => n.parse().map_err(|_| Error::Invalid)?,
        None => otherwise,
    };
    if !(1..=46340).contains(&n) {
        return Err(Error::Invalid);
    }
    const FIRST: usize = 512;
    let (a, mut c) = (vec![1.0; FIRST * FIRST], vec![0.0; FIRST * FIRST]);
    let view = View::new(&a, FIRST, FIRST, FIRST)?;
    let sent = view.prefetch(Device::All);
    if sent.and_then(|sent| sent.wait()).is_ok() {
        scope(|s| {
            let c = ViewMut::new(&mut c, FIRST, FIRST, FIRST)?;
            s.gemm(NO, NO, 1.0, view, view, 0.0, c).map(drop)
        })?;
    }
    Ok(n)
}

/// What a program has to do on the host besides: about as much as sending two matrices to a GPU.
#[allow(dead_code, reason = "not in all examples")]
pub(crate) fn host_work(n: usize) -> f64 {
    (0..8 * n * n).fold(0.0, |total, i| total + ((i & 1023) as f64).sqrt())
}

/// Integers between -modulus / 2 and modulus / 2, in an order that p and q choose.
#[allow(dead_code, reason = "not in all examples")]
pub(crate) fn integers(n: usize, (p, q): (usize, usize), modulus: usize) -> Vec<f64> {
    let element = |i| ((p * (i % n) + q * (i / n)) % modulus) as f64 - (modulus / 2) as f64;
    (0..n * n).map(element).collect()
}

/// A sum in which every element counts.
pub(crate) fn checksum(of: &[f64]) -> f64 {
    let terms = of.iter().enumerate();
    terms.fold(0.0, |sum, (i, a)| sum + a * (i % 13 + 1) as f64)
}

/// Seconds and bytes of a part of the program.
pub(crate) struct Meter {
    begun: Instant,
    before: Statistics,
}

impl Meter {
    pub(crate) fn new() -> Self {
        Meter {
            before: semcache_api::statistics().unwrap_or_default(),
            begun: Instant::now(),
        }
    }

    #[expect(clippy::print_stderr, reason = "a program's")]
    pub(crate) fn report(&self, what: &str) {
        let seconds = self.begun.elapsed().as_secs_f64();
        let (before, after) = (self.before, semcache_api::statistics().unwrap_or_default());
        let moved = |before, after| (after - before) as f64 / 1e6;
        eprintln!(
            "{what}: {seconds:.3} s; {:.1} MB to devices, {:.1} MB to the host, {:.1} MB between devices; {} calls on devices, {} faults",
            moved(before.h2d, after.h2d),
            moved(before.d2h, after.d2h),
            moved(before.p2p, after.p2p),
            after.offloaded - before.offloaded,
            after.faults - before.faults
        );
    }
}
