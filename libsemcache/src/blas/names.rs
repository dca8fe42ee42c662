//! Names of BLAS routines (`dgemm`), and the dense index by which the counters know them.

use crate::base::{Dtype, Routine};

/// Index of a routine of one element type in the counters.
#[must_use]
pub fn index(routine: Routine, dtype: Dtype) -> usize {
    routine as usize * Dtype::ALL.len() + dtype as usize
}

/// The names of all indices.
#[must_use]
pub fn all() -> Vec<&'static str> {
    Routine::ALL
        .iter()
        .flat_map(|r| Dtype::ALL.map(|d| r.name(d)))
        .collect()
}

/// The given names that are not names of routines that devices run.
#[must_use]
pub fn unknown(some: &[String]) -> Vec<&str> {
    let known = all();
    let names = some.iter().map(String::as_str);
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
    }

    #[test]
    fn what_is_no_routine_is_told() {
        let some = ["dgemm", "gemm", "scasum", "dgbmv", ""].map(str::to_owned);
        assert_eq!(unknown(&some), ["gemm", "dgbmv", ""]);
    }
}
