//! Names of BLAS routines and of LAPACK's drivers (`dgemm`, `dgesv`), and the index of each in the tables of counters: 0, 1, 2, ...
//! without gaps.

use crate::base::{Dtype, Routine, Solver};

/// The index of a routine of one element type in the tables of counters.
#[must_use]
pub fn index(routine: Routine, dtype: Dtype) -> usize {
    routine as usize * Dtype::ALL.len() + dtype as usize
}

/// The index of a driver of LAPACK for one element type in the tables of counters.
#[must_use]
pub fn index_of_solver(solver: Solver, dtype: Dtype) -> usize {
    (Routine::ALL.len() + solver as usize) * Dtype::ALL.len() + dtype as usize
}

/// The names of all routines in all element types, ordered by [`index`]. A routine that BLAS has not in a type (`cherk`, but
/// no `dherk`) has an index and a name all the same, and is never counted.
#[must_use]
pub fn all() -> Vec<&'static str> {
    let solvers = Solver::ALL
        .iter()
        .flat_map(|s| Dtype::ALL.map(|d| s.name(d)));
    routines().chain(solvers).collect()
}

fn routines() -> impl Iterator<Item = &'static str> {
    Routine::ALL
        .iter()
        .flat_map(|r| Dtype::ALL.map(|d| r.name(d)))
}

/// Those of `names` that no device runs: misspelt, or routines that are never offloaded (`dgbmv`).
#[must_use]
pub fn unknown(names: &[String]) -> Vec<&str> {
    let solvers = (Solver::ALL.iter()).filter(|s| s.runs_on_devices());
    let solvers = solvers.flat_map(|s| Dtype::ALL.map(|d| s.name(d)));
    let known: Vec<_> = routines().chain(solvers).collect();
    let names = names.iter().map(String::as_str);
    names.filter(|name| !known.contains(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::counters::MAX_ROUTINES;

    #[test]
    fn indices_are_dense_and_agree_with_names() {
        let names = all();
        for (i, &r) in Routine::ALL.iter().enumerate() {
            for d in Dtype::ALL {
                assert_eq!(index(r, d), i * 4 + d as usize);
                assert_eq!(names[index(r, d)], r.name(d));
                // The counters have no room for higher indices.
                assert!(index(r, d) < MAX_ROUTINES);
            }
        }
        for &s in Solver::ALL {
            for d in Dtype::ALL {
                assert_eq!(names[index_of_solver(s, d)], s.name(d));
            }
        }
        assert_eq!(names.len(), MAX_ROUTINES);
    }

    #[test]
    fn names_that_no_device_runs_are_found() {
        let names = ["dgemm", "gemm", "scasum", "dgbmv", "dgesv", "dsyevd", ""].map(str::to_owned);
        assert_eq!(unknown(&names), ["gemm", "dgbmv", "dsyevd", ""]);
    }
}
