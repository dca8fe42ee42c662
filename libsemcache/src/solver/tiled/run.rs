//! A factorization by tiles, from its first operation to its results.

use super::blocked::all;
use super::cholesky::Cholesky;
use super::lu::Lu;
use super::sides::{self, Part};
use super::tiling::Tiling;
use crate::base::dense::Step;
use crate::cache::Cache;
use crate::solver::compute::{Ended, Solution};
use crate::solver::queue::{Made, Queueing, Refused};
use crate::solver::system::System;

impl System {
    /// As [`System::solve`], by tiles, on devices that have loaded what they need.
    ///
    /// # Errors
    /// Nothing has changed.
    pub fn solve_tiled(&self, cache: &Cache, tiling: &Tiling) -> Result<Ended, Refused> {
        let mut queueing = Queueing::new(self, cache, tiling.owner(0, 0));
        let solved = solved(&mut queueing, tiling);
        queueing.ended(solved)
    }
}

fn solved(queueing: &mut Queueing<'_>, tiling: &Tiling) -> Result<Ended, Refused> {
    let (from, _) = queueing.program(queueing.system.a)?;
    let mut parts = sides::load(queueing, tiling)?;
    let found = match queueing.system.factors() {
        Some(Step::Cholesky) => cholesky(queueing, tiling, from, &mut parts)?,
        Some(Step::Lu) => lu(queueing, tiling, from, &mut parts)?,
        _ => return Err(Refused::Other),
    };
    let Some((pivots, mut results)) = found else {
        return Ok(Ended::Info);
    };
    for part in &parts {
        if !part.usual(queueing)? {
            return Ok(Ended::Info);
        }
        results.push(part.made(queueing));
    }
    let home = queueing.store(&results)?;
    Ok(Ended::Solved(Solution {
        pivots,
        home,
        ..Solution::default()
    }))
}

/// The pivots and the parts of the factor; `None` if INFO is not 0, or elements are no usual numbers.
type Found = Option<(Vec<i64>, Vec<Made>)>;

fn cholesky(
    queueing: &mut Queueing<'_>,
    tiling: &Tiling,
    from: usize,
    parts: &mut [Part],
) -> Result<Found, Refused> {
    let mut cholesky = Cholesky {
        queueing,
        tiling,
        from,
        tiles: Vec::new(),
        answers: Vec::new(),
    };
    if !all(tiling, &mut cholesky)? {
        return Ok(None);
    }
    cholesky.solve(parts)?;
    match cholesky.usual()? {
        true => Ok(Some((Vec::new(), cholesky.made()?))),
        false => Ok(None),
    }
}

fn lu(
    queueing: &mut Queueing<'_>,
    tiling: &Tiling,
    from: usize,
    parts: &mut [Part],
) -> Result<Found, Refused> {
    let mut lu = Lu {
        queueing,
        tiling,
        from,
        columns: Vec::new(),
        answers: Vec::new(),
        sums: Vec::new(),
    };
    if !all(tiling, &mut lu)? {
        return Ok(None);
    }
    lu.solve(parts)?;
    lu.finish()?;
    match lu.found()? {
        Some(pivots) => Ok(Some((pivots, lu.made()?))),
        None => Ok(None),
    }
}
