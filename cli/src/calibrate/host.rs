//! Times of calls of the host BLAS, by the Fortran names of its routines.

use std::time::Instant;

use semcache::base::{Dtype, Routine as Kind, Work};
use semcache::model::rates::HostRates;

use super::pages::integer;
use super::session::Sample;
use super::tasks::{HostSizes, Operation, Task, dtype};
use crate::doctor::{Library, host_library};

/// Seconds that one call of the largest product may take, as the built-in rates predict it.
const LONGEST_S: f64 = 0.5;
/// The least seconds of calls between two looks at the clock.
const LEAST_S: f64 = 20e-6;

/// The host BLAS, and the operands of its calls.
pub(super) struct HostBlas {
    library: Library,
    pub(super) sizes: HostSizes,
    /// Operands, each with whether it holds singles.
    operands: Option<(bool, [Vec<u64>; 3])>,
}

/// The library that programs on this machine use as their BLAS.
pub(super) fn open(rates: &HostRates, quick: bool) -> Result<HostBlas, String> {
    let path = host_library().ok_or("neither libopenblas.so.0 nor libblas.so.3 was found")?;
    let path = path.to_str().ok_or("its path is not UTF-8")?;
    let library = Library::open(path).map_err(|e| format!("{path}: {e}"))?;
    let sizes = if quick {
        HostSizes {
            order: 64,
            cached: 1 << 12,
            large: 1 << 14,
        }
    } else {
        let fits = |order: &usize| {
            let work = Work::gemm(Dtype::Z, *order, *order, *order);
            work.flops() / rates.gemm_flops[Dtype::Z as usize] < LONGEST_S
        };
        let order = [4096, 2048, 1024].into_iter().find(fits).unwrap_or(512);
        HostSizes {
            order,
            // Both vectors of a sum, in a half of the caches.
            cached: (((rates.cache_bytes / 32.0) as usize) / 16 * 16).max(1 << 14),
            // Several times what the largest caches hold.
            large: 64 << 20,
        }
    };
    Ok(HostBlas {
        library,
        sizes,
        operands: None,
    })
}

/// The bytes that a task's call reads and writes, as predictions count them.
pub(super) fn traffic(task: &Task) -> f64 {
    let routine = match task.operation {
        Operation::HostReduction => Kind::Dot,
        _ => Kind::Axpy,
    };
    let mut work = Work::gemm(Dtype::D, task.size, 1, 1);
    work.routine = routine;
    work.traffic()
}

impl HostBlas {
    /// One sample of a call's time.
    pub(super) fn sample(&mut self, task: &Task) -> Result<Sample, String> {
        let n = task.size;
        let (name, dtype) = match task.operation {
            Operation::Product(_, which) => ("gemm", dtype(which)),
            Operation::HostReduction => ("dot", Dtype::D),
            _ => ("axpy", Dtype::D),
        };
        let words = match task.operation {
            Operation::Product(..) => (n * n * dtype.size()).div_ceil(8),
            _ => n,
        };
        self.fill(matches!(dtype, Dtype::S | Dtype::C), words);
        let name = format!("{}{name}", dtype.letter());
        let routine = self.library.routine(&name);
        let routine = routine.ok_or_else(|| format!("the host BLAS has no {name}"))?;
        let Some((_, [a, b, c])) = &mut self.operands else {
            return Ok(Sample::of(None));
        };
        let mut int = [n as u64];
        let (mut one, mut first) = ([1_u64], unit(dtype));
        let mut zero = [0_u64; 2];
        let mut letter = [u64::from(b'N')];
        let mut letter_too = letter;
        let ([mut m, mut k], [mut lda, mut ldb, mut ldc]) = ([int, int], [int, int, int]);
        let mut one_too = one;
        let mut run = || match task.operation {
            Operation::Product(..) => routine.call(&mut [
                &mut letter,
                &mut letter_too,
                &mut m,
                &mut int,
                &mut k,
                &mut first,
                a,
                &mut lda,
                b,
                &mut ldb,
                &mut zero,
                c,
                &mut ldc,
            ]),
            Operation::HostReduction => {
                routine.call(&mut [&mut int, a, &mut one, b, &mut one_too]);
            }
            // Each call adds the same integers: no number of calls makes the sums inexact or large.
            _ => routine.call(&mut [&mut int, &mut first, a, &mut one, c, &mut one_too]),
        };
        let begun = Instant::now();
        let mut calls = 0;
        loop {
            run();
            calls += 1;
            let seconds = begun.elapsed().as_secs_f64();
            if seconds >= LEAST_S {
                return Ok(Sample::of(Some(seconds / f64::from(calls))));
            }
        }
    }

    /// Makes the operands hold at least this many words of integers, as numbers of a precision.
    fn fill(&mut self, single: bool, words: usize) {
        if let Some((kind, operands)) = &self.operands
            && *kind == single
            && operands[0].len() >= words
        {
            return;
        }
        let word = |i: usize| {
            if single {
                let half = |i| u64::from(f32::from(integer(i)).to_bits());
                half(2 * i) | half(2 * i + 1) << 32
            } else {
                f64::from(integer(i)).to_bits()
            }
        };
        let operand = || (0..words).map(word).collect();
        self.operands = Some((single, [operand(), operand(), operand()]));
    }
}

/// The number one of an element type.
fn unit(dtype: Dtype) -> [u64; 2] {
    match dtype {
        Dtype::S | Dtype::C => [1_f32.to_bits().into(), 0],
        Dtype::D | Dtype::Z => [1_f64.to_bits(), 0],
    }
}
