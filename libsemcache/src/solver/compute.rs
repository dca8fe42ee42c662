//! A system on one device, from its first operation to its results.

use super::blas::{elements, values};
use super::condition::{Apply, one_norm};
use super::least_squares::is_unscaled;
use super::queue::{HEAD, Home, OF_SECOND, Queueing, ROOM, Refused, SUMS};
use super::symmetric;
use super::system::{Condition, System, adjoint, range};
use crate::base::dense::{DenseKernel, Step};
use crate::base::{DeviceId, Diag, Dtype, Form, Intent, Op, Rect, Routine, Solver, Uplo, Value};
use crate::cache::task::Use;
use crate::cache::{Cache, lost};
use crate::device::api::{Kernel, Operand};
use crate::sparse::arrays::Own;

/// The diagonal of R is that much larger than numbers whose squares are not normal, and smaller than those whose squares overflow.
const SQUARES: f64 = 1e4;

/// What became of a system.
#[derive(Debug)]
pub enum Ended {
    /// Its results are in place, on the device, but for what the solution says.
    Solved(Solution),
    /// INFO is not 0: the matrix is singular or not positive definite; or it has elements that are no numbers. Nothing has changed.
    Info,
}

/// What the CPU has to write of the results.
#[derive(Debug, Default)]
pub struct Solution {
    /// The pivots of a factorization, or which column of A is each column of `A P`, from 1.
    pub pivots: Vec<i64>,
    /// The scalar factors of its reflectors, as elements of the matrix.
    pub tau: Vec<u8>,
    /// The reciprocal condition number of gecon and pocon.
    pub condition: Option<f64>,
    /// Matrices, or parts of them, that could not get their results on a device after others had got theirs: another thread of the
    /// program has changed the mapping of their memory meanwhile, or the device has no room.
    pub home: Home,
}

impl System {
    /// Computes the call on a device, which has loaded what it needs, and waits until it knows how that ended. `given` are the pivots of a
    /// factor, as 64-bit integers within the matrix, or the scalar factors of its reflectors. The results stay on the device until the CPU
    /// touches them. The cache's lock is not held, and signals are blocked.
    ///
    /// # Errors
    /// Nothing has changed.
    pub fn solve(&self, cache: &Cache, device: DeviceId, given: &[u8]) -> Result<Ended, Refused> {
        let mut queueing = Queueing::new(self, cache, device);
        let solved = queueing.solved(given);
        queueing.ended(solved)
    }
}

impl Queueing<'_> {
    /// The end of the call, whose results have been put in their place if it was solved.
    pub(super) fn ended(&self, solved: Result<Ended, Refused>) -> Result<Ended, Refused> {
        // Replicas drop inputs on pages that cannot be protected, whatever became of the call.
        let (pending, settled) = self.cache.settle(self.used.iter(), &[]);
        let arrived = self.cache.arrive(&pending).and(settled);
        let stored = matches!(solved, Ok(Ended::Solved(_)));
        if let Err(error) = arrived
            && stored
        {
            let mut written = self.used.iter().filter(|u| u.access != Intent::Read);
            lost::end_process(written.next().map_or(0, Use::addr), &error);
        }
        solved
    }

    fn solved(&mut self, given: &[u8]) -> Result<Ended, Refused> {
        let system = self.system;
        if system.solver == Solver::Geqp3 {
            let a = self.placed(system.a)?;
            return self.pivoted(&a);
        }
        // INFO, and the pivots or scalar factors.
        let found = system.found();
        let mut answer = vec![0; HEAD + found];
        answer.extend_from_slice(given);
        let answer = self.own(Own::new(self.cache, answer.into()));
        let a = self.placed(system.a)?;
        if let Some(condition) = system.condition {
            return self.estimated(&a, condition);
        }
        let (mut results, mut sums) = (Vec::new(), 0);
        // Where the sums of the factor, of given right sides and of the result end.
        let mut ends = Vec::new();
        let mut factor = a.clone();
        if let Some(step) = system.factors() {
            factor = self.copied_to_work(&a)?;
            self.step(step, &factor, None, answer, Intent::Overwrite)?;
            results.push(match system.solver.is_finished_by_host() {
                true => self.upper(&factor, &a)?,
                false => self.made(system.a, &factor, &a),
            });
            // The triangle that is not read may hold anything.
            if matches!(step, Step::Lu | Step::Qr) {
                sums = self.sum(&factor, answer, sums)?;
                ends.push(sums);
            }
        } else if system.by_rows() {
            factor = self.copied_to_work(&a)?;
        }
        // That of a symmetric matrix is looked at with its pivots.
        let factored = system.factors().is_some_and(|step| step != Step::Symmetric);
        let looked_at = factored || system.divides() || system.squares();
        let diagonal = match looked_at {
            true => Some(self.diagonal(system.worked(), &factor)?),
            false => None,
        };
        let (mut of_second, mut pivots) = (answer, Vec::new());
        if system.factors() == Some(Step::Symmetric) {
            match self.symmetric_pivots(&factor, answer)? {
                Some(found) => pivots = found,
                None => return Ok(Ended::Info),
            }
            if system.applies().is_some() {
                of_second = self.widened(&pivots);
            }
        }
        let second = match system.b {
            Some(view) => {
                let b = self.placed(view)?;
                let copy = self.right_sides(view, &b)?;
                if system.solver.scales() {
                    sums = self.sum(&copy, answer, sums)?;
                    ends.push(sums);
                }
                Some((view, copy, b))
            }
            None if system.of_identity() => {
                Some((system.a, self.identity(system.worked())?, a.clone()))
            }
            None if system.solver == Solver::Lauum => {
                Some((system.a, self.cleaned(system.a, &a)?, a.clone()))
            }
            None => None,
        };
        if let Some((view, result, to)) = second {
            let shortest = system.is_underdetermined();
            match (system.solver, system.applies()) {
                (Solver::Lauum, _) => {}
                (Solver::Gels, Some(step)) => {
                    if shortest {
                        self.triangular(&factor, &result)?;
                    }
                    self.step(step, &factor, Some(&result), answer, Intent::Update)?;
                    if !shortest {
                        self.triangular(&factor, &result)?;
                    }
                }
                (_, Some(step)) => {
                    self.step(step, &factor, Some(&result), of_second, Intent::Update)?;
                }
                (_, None) => self.triangular(&factor, &result)?,
            }
            sums = self.sum(&result, answer, sums)?;
            ends.push(sums);
            let result = match system.solver {
                Solver::Potri | Solver::Lauum => self.squared(&result, &a)?,
                Solver::Trtri => self.inverted(&result, &a)?,
                _ => result,
            };
            results.push(self.made(view, &result, &to));
        }
        if let Some(diagonal) = diagonal
            && !usual(system, self.answer(diagonal)?)
        {
            return Ok(Ended::Info);
        }
        let (answer, of_second) = (self.answer(answer)?, self.answer(of_second)?);
        if system.factors().is_some() && info(answer) != 0 {
            return Ok(Ended::Info);
        }
        if system.applies().is_some() && info(&of_second[OF_SECOND..]) != 0 {
            return Err(Refused::Other);
        }
        // Large matrices have several sums.
        let all = sums_of(system.dtype, answer, sums);
        let of = |(i, end): (usize, &usize)| {
            let from = i.checked_sub(1).map_or(0, |before| ends[before]);
            all[from..*end].iter().sum()
        };
        let sums: Vec<f64> = ends.iter().enumerate().map(of).collect();
        if !finite(&sums) || !is_unscaled(system, &sums) {
            return Ok(Ended::Info);
        }
        let found = answer[HEAD..][..found].to_vec();
        let mut tau = Vec::new();
        match system.factors() {
            Some(Step::Qr) => tau = found,
            Some(Step::Symmetric) => {}
            _ => pivots = pivots_of(&found, system.a.rows)?,
        }
        let home = self.store(&results)?;
        Ok(Ended::Solved(Solution {
            pivots,
            tau,
            condition: None,
            home,
        }))
    }

    /// The pivots of a symmetric matrix by its factor, for which the calling thread waits; `None` if LAPACK is to compute the call.
    fn symmetric_pivots(
        &mut self,
        factor: &Use,
        answer: usize,
    ) -> Result<Option<Vec<i64>>, Refused> {
        let system = self.system;
        let diagonal = self.diagonal(system.a, factor)?;
        let beside = self.beside_diagonal(factor)?;
        let found = self.answer(answer)?;
        if info(found) != 0 {
            return Ok(None);
        }
        let beside = beside.map_or(Ok(&[][..]), |at| self.answer(at))?;
        let of_d = [self.answer(diagonal)?, beside];
        let pivots = symmetric::pivots_of(system, found);
        Ok(pivots.filter(|pivots| symmetric::is_usual(system, pivots, of_d)))
    }

    /// The reciprocal condition number of a matrix by its factor. Vectors go to the device and come back, one after the other.
    #[expect(clippy::cast_precision_loss, reason = "an order of a matrix")]
    fn estimated(&mut self, a: &Use, condition: Condition) -> Result<Ended, Refused> {
        let (system, dtype) = (self.system, self.system.dtype);
        let order = system.a.rows;
        let (tiny, largest) = range(dtype);
        let adjoint = adjoint(dtype);
        let lower = |op| (Uplo::Lower, op, Diag::Unit);
        let triangle = |uplo, op| (uplo, op, Diag::NonUnit);
        let mut unlike = false;
        let norm = one_norm(order, (!dtype.is_complex(), tiny), |apply, x| {
            // The infinity norm is the one-norm of the conjugate transpose.
            let forward = (apply == Apply::Itself) == (system.op == Op::None);
            let solutions = match (system.solver, system.uplo, forward) {
                (Solver::Pocon, Uplo::Upper, _) => [
                    triangle(Uplo::Upper, adjoint),
                    triangle(Uplo::Upper, Op::None),
                ],
                (Solver::Pocon, Uplo::Lower, _) => [
                    triangle(Uplo::Lower, Op::None),
                    triangle(Uplo::Lower, adjoint),
                ],
                (_, _, true) => [lower(Op::None), triangle(Uplo::Upper, Op::None)],
                (_, _, false) => [triangle(Uplo::Upper, adjoint), lower(adjoint)],
            };
            let bytes = elements(dtype, &x);
            let whole = Rect::interval(0, bytes.len());
            let own = Own::new(self.cache, bytes.into());
            let vector = own.part(whole, (dtype.size(), 1), Intent::Update);
            let at = self.own(own);
            for (uplo, op_a, diag) in solutions {
                let kernel = Kernel {
                    form: Form {
                        uplo,
                        diag,
                        ..Form::default()
                    },
                    op_a,
                    m: order,
                    n: order,
                    ..Kernel::of(Routine::Trsv, dtype, [Operand::default(); 2])
                };
                let solve = |at: &[Operand]| Kernel {
                    at: [at[0], Operand { step: 1, ..at[1] }, Operand::default()],
                    ..kernel
                };
                self.cache
                    .queue(self.device, &[a.clone(), vector.clone()], ROOM, &solve)?;
            }
            let solved: Vec<Value> = values(dtype, self.answer(at)?).collect();
            unlike |= solved
                .iter()
                .any(|x| !x.re.is_finite() || !x.im.is_finite());
            match unlike {
                // LAPACK scales what would overflow.
                true => Err(Refused::Other),
                false => Ok(solved),
            }
        });
        match norm {
            Err(_) if unlike => Ok(Ended::Info),
            Err(refused) => Err(refused),
            // Sums of LAPACK, which are of the matrix's precision, may overflow.
            Ok(norm) if 1.0 / norm < largest && norm < largest / (10.0 * order as f64) => {
                Ok(Ended::Solved(Solution {
                    condition: Some(1.0 / norm / condition.norm),
                    ..Solution::default()
                }))
            }
            Ok(_) => Ok(Ended::Info),
        }
    }
}

/// INFO in an answer of a device.
pub(super) fn info(answer: &[u8]) -> i32 {
    let bytes = answer.first_chunk();
    bytes.map_or(-1, |info| i32::from_ne_bytes(*info))
}

/// Sums of sizes of elements, in an answer of a device.
pub(super) fn sums_of(dtype: Dtype, answer: &[u8], sums: usize) -> Vec<f64> {
    let real = dtype.real();
    let sum = |at: usize| values(real, &answer[SUMS * (1 + at)..][..real.size()]);
    (0..sums).flat_map(sum).map(|sum| sum.re).collect()
}

/// Whether these are finite. What becomes of infinite numbers, and of those that are none, is LAPACK's to say: it leaves out products with
/// zeros.
pub(super) fn finite(sums: &[f64]) -> bool {
    sums.iter().all(|sum| sum.is_finite())
}

/// The pivots that a device has found in a matrix of this many rows.
pub(super) fn pivots_of(found: &[u8], rows: usize) -> Result<Vec<i64>, Refused> {
    let (each, _) = found.as_chunks::<{ DenseKernel::PIVOT }>();
    let pivots = each.iter().map(|pivot| i64::from_ne_bytes(*pivot));
    let last = i64::try_from(rows).unwrap_or(i64::MAX);
    let checked = pivots.map(|pivot| match (1..=last).contains(&pivot) {
        true => Ok(pivot),
        false => Err(Refused::Other),
    });
    checked.collect()
}

/// Whether a factor with this diagonal is one that LAPACK would find, too, and divides by.
pub(super) fn usual(system: &System, diagonal: &[u8]) -> bool {
    let mut all = values(system.dtype, diagonal);
    match system.factors() {
        // A row with an infinite element, or one that is no number, has such a diagonal.
        Some(Step::Cholesky) => all.all(|x| x.re.is_finite()),
        // LAPACK scales columns whose squares no number holds: its reflectors are unitary where rounding has left next to nothing of a
        // column. Such a column whose squares have all become zero has a zero here, and is none to a matrix of usual numbers.
        Some(Step::Qr) => {
            let (tiny, largest) = range(system.dtype);
            let usual = tiny.sqrt() * SQUARES..largest.sqrt() / SQUARES;
            let mut found = false;
            let each = all.all(|x| {
                let size = x.re.abs();
                found |= size > 0.0;
                // gels does not solve by a singular triangle.
                size == 0.0 && system.solver != Solver::Gels || usual.contains(&size)
            });
            each && found
        }
        Some(_) => true,
        // LAPACK takes the diagonal of a triangle that it squares to be real.
        None => !all.any(|x| system.divides() && x.is_zero() || system.squares() && x.im != 0.0),
    }
}
