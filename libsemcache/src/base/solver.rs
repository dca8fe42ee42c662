//! The drivers of LAPACK that are known by name.
//!
//! The host's LAPACK runs them. Most LAPACKs call the BLAS inside themselves, past its public names, so that these calls cannot be
//! seen; the call of the driver can, and is counted and timed.

use super::dtype::Dtype;

/// Makes the enumeration from one table. A line has: the variant, the names by element type, the most arguments that it has in any
/// type, how many of these are flags (characters), each of which has a length behind all arguments, how many arguments come before
/// LWORK in real types and in complex ones (0: it has none), and how many come before the numbers of rows and of columns of A and before
/// A.
macro_rules! solvers {
    ($($(#[$doc:meta])* $variant:ident: $names:expr, $arguments:literal, $flags:literal, $lwork:expr, $a:expr;)*) => {
        /// A driver. One variant per operation; the element type is data.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Solver {
            $($(#[$doc])* $variant,)*
        }

        impl Solver {
            /// Every driver, in the order of the variants.
            pub const ALL: &[Solver] = &[$(Solver::$variant,)*];

            /// The plain name for an element type.
            #[must_use]
            pub const fn name(self, dtype: Dtype) -> &'static str {
                let names: [&'static str; 4] = match self { $(Solver::$variant => $names,)* };
                names[dtype as usize]
            }

            /// The most words that it is called with, the lengths of flags included.
            #[must_use]
            pub const fn words(self) -> usize {
                match self { $(Solver::$variant => $arguments + $flags,)* }
            }

            /// The number of arguments before LWORK, which is -1 in a call that only asks how much workspace another one would use.
            #[must_use]
            pub const fn before_lwork(self, dtype: Dtype) -> Option<usize> {
                let [real, complex]: [usize; 2] = match self { $(Solver::$variant => $lwork,)* };
                let before = if dtype.is_complex() { complex } else { real };
                if before > 0 { Some(before) } else { None }
            }

            /// How many arguments come before the number of rows of A, before the number of its columns, and before A.
            #[must_use]
            pub const fn before_a(self) -> [usize; 3] {
                match self { $(Solver::$variant => $a,)* }
            }
        }
    };
}

solvers! {
    /// Solves `A X = B`.
    Gesv: ["sgesv", "dgesv", "cgesv", "zgesv"], 8, 0, [0, 0], [0, 0, 2];
    /// Factors `A = P L U`.
    Getrf: ["sgetrf", "dgetrf", "cgetrf", "zgetrf"], 6, 0, [0, 0], [0, 1, 2];
    /// Solves by the factors of getrf.
    Getrs: ["sgetrs", "dgetrs", "cgetrs", "zgetrs"], 9, 1, [0, 0], [1, 1, 3];
    /// Inverts by the factors of getrf.
    Getri: ["sgetri", "dgetri", "cgetri", "zgetri"], 7, 0, [5, 5], [0, 0, 1];
    /// Solves `A X = B`, A positive definite.
    Posv: ["sposv", "dposv", "cposv", "zposv"], 8, 1, [0, 0], [1, 1, 3];
    /// Factors `A = L L^H`.
    Potrf: ["spotrf", "dpotrf", "cpotrf", "zpotrf"], 5, 1, [0, 0], [1, 1, 2];
    /// Solves by the factor of potrf.
    Potrs: ["spotrs", "dpotrs", "cpotrs", "zpotrs"], 8, 1, [0, 0], [1, 1, 3];
    /// Inverts by the factor of potrf.
    Potri: ["spotri", "dpotri", "cpotri", "zpotri"], 5, 1, [0, 0], [1, 1, 2];
    /// Eigenvalues of a symmetric or Hermitian matrix, and eigenvectors.
    Syev: ["ssyev", "dsyev", "cheev", "zheev"], 10, 2, [7, 7], [2, 2, 3];
    /// As syev, by divide and conquer.
    Syevd: ["ssyevd", "dsyevd", "cheevd", "zheevd"], 13, 2, [7, 7], [2, 2, 3];
    /// As syev, by relatively robust representations.
    Syevr: ["ssyevr", "dsyevr", "cheevr", "zheevr"], 23, 3, [17, 17], [3, 3, 4];
    /// The generalized symmetric or Hermitian eigenproblem, by divide and conquer.
    Sygvd: ["ssygvd", "dsygvd", "chegvd", "zhegvd"], 16, 2, [10, 10], [3, 3, 4];
    /// Eigenvalues of a general matrix, and eigenvectors.
    Geev: ["sgeev", "dgeev", "cgeev", "zgeev"], 14, 2, [12, 11], [2, 2, 3];
    /// As geev, balanced, with condition numbers.
    Geevx: ["sgeevx", "dgeevx", "cgeevx", "zgeevx"], 23, 4, [20, 19], [4, 4, 5];
    /// Singular values, and singular vectors.
    Gesvd: ["sgesvd", "dgesvd", "cgesvd", "zgesvd"], 15, 2, [12, 12], [2, 3, 4];
    /// As gesvd, by divide and conquer.
    Gesdd: ["sgesdd", "dgesdd", "cgesdd", "zgesdd"], 15, 1, [11, 11], [1, 2, 3];
    /// Factors `A = Q R`.
    Geqrf: ["sgeqrf", "dgeqrf", "cgeqrf", "zgeqrf"], 8, 0, [6, 6], [0, 1, 2];
    /// Q of the factors of geqrf.
    Orgqr: ["sorgqr", "dorgqr", "cungqr", "zungqr"], 9, 0, [7, 7], [0, 1, 3];
    /// Products with Q of the factors of geqrf. Its A is the other factor, which the product takes the place of.
    Ormqr: ["sormqr", "dormqr", "cunmqr", "zunmqr"], 13, 2, [11, 11], [2, 3, 8];
    /// Factors `A = L Q`.
    Gelqf: ["sgelqf", "dgelqf", "cgelqf", "zgelqf"], 8, 0, [6, 6], [0, 1, 2];
    /// Q of the factors of gelqf.
    Orglq: ["sorglq", "dorglq", "cunglq", "zunglq"], 9, 0, [7, 7], [0, 1, 3];
    /// Products with Q of the factors of gelqf. Its A is the other factor, which the product takes the place of.
    Ormlq: ["sormlq", "dormlq", "cunmlq", "zunmlq"], 13, 2, [11, 11], [2, 3, 8];
    /// Inverts a triangular matrix.
    Trtri: ["strtri", "dtrtri", "ctrtri", "ztrtri"], 6, 2, [0, 0], [2, 2, 3];
    /// The product of a triangle with its conjugate transpose: `U U^H` or `L^H L`.
    Lauum: ["slauum", "dlauum", "clauum", "zlauum"], 5, 1, [0, 0], [1, 1, 2];
    /// Solves with a triangular matrix.
    Trtrs: ["strtrs", "dtrtrs", "ctrtrs", "ztrtrs"], 10, 3, [0, 0], [3, 3, 5];
    /// The reciprocal condition number, by the factors of getrf.
    Gecon: ["sgecon", "dgecon", "cgecon", "zgecon"], 9, 1, [0, 0], [1, 1, 2];
    /// The reciprocal condition number, by the factor of potrf.
    Pocon: ["spocon", "dpocon", "cpocon", "zpocon"], 9, 1, [0, 0], [1, 1, 2];
    /// Least squares by QR or LQ.
    Gels: ["sgels", "dgels", "cgels", "zgels"], 11, 1, [9, 9], [1, 2, 4];
    /// Least squares by singular values, by divide and conquer.
    Gelsd: ["sgelsd", "dgelsd", "cgelsd", "zgelsd"], 15, 0, [11, 11], [0, 1, 3];
    /// Factors `A P = Q R`, P a permutation of columns.
    Geqp3: ["sgeqp3", "dgeqp3", "cgeqp3", "zgeqp3"], 10, 0, [7, 7], [0, 1, 2];
    /// Least squares by QR with column pivoting.
    Gelsy: ["sgelsy", "dgelsy", "cgelsy", "zgelsy"], 14, 0, [11, 11], [0, 1, 3];
    /// Least squares by singular values.
    Gelss: ["sgelss", "dgelss", "cgelss", "zgelss"], 14, 0, [11, 11], [0, 1, 3];
    /// Factors `A = L D L^T`, A symmetric.
    Sytrf: ["ssytrf", "dsytrf", "csytrf", "zsytrf"], 8, 1, [6, 6], [1, 1, 2];
    /// Solves by the factors of sytrf.
    Sytrs: ["ssytrs", "dsytrs", "csytrs", "zsytrs"], 9, 1, [0, 0], [1, 1, 3];
    /// Solves `A X = B`, A symmetric.
    Sysv: ["ssysv", "dsysv", "csysv", "zsysv"], 11, 1, [9, 9], [1, 1, 3];
    /// The Schur form.
    Gees: ["sgees", "dgees", "cgees", "zgees"], 15, 2, [12, 11], [3, 3, 4];
    /// As gees, with condition numbers.
    Geesx: ["sgeesx", "dgeesx", "cgeesx", "zgeesx"], 20, 3, [15, 14], [4, 4, 5];
}

impl Solver {
    /// Whether devices compute it, or begin it ([`super::dense`]).
    #[must_use]
    pub const fn runs_on_devices(self) -> bool {
        use Solver::{
            Gecon, Gelqf, Gels, Geqp3, Geqrf, Gesv, Getrf, Getri, Getrs, Lauum, Orglq, Orgqr,
            Ormlq, Ormqr, Pocon, Posv, Potrf, Potri, Potrs, Sysv, Sytrf, Sytrs, Trtri, Trtrs,
        };
        let lu = matches!(self, Getrf | Getrs | Gesv | Getri | Gecon);
        let cholesky = matches!(self, Potrf | Potrs | Posv | Potri | Pocon);
        let qr = matches!(self, Geqrf | Geqp3 | Orgqr | Ormqr | Gels);
        let lq = matches!(self, Gelqf | Orglq | Ormlq);
        let symmetric = matches!(self, Sytrf | Sytrs | Sysv);
        let alone = matches!(self, Trtrs | Trtri | Lauum);
        lu || cholesky || qr || lq || symmetric || alone || self.is_finished_by_host()
    }

    /// Whether a device begins it, and LAPACK computes the rest: the least squares of R, which is square, instead of those of a tall A.
    #[must_use]
    pub const fn is_finished_by_host(self) -> bool {
        matches!(self, Solver::Gelsd | Solver::Gelss | Solver::Gelsy)
    }

    /// Whether LAPACK scales A and B if their elements are extreme.
    #[must_use]
    pub const fn scales(self) -> bool {
        matches!(self, Solver::Gels) || self.is_finished_by_host()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workspace_is_an_argument() {
        for solver in Solver::ALL {
            for dtype in Dtype::ALL {
                // INFO, at least, comes behind it.
                let before = solver.before_lwork(dtype);
                assert!(
                    before.is_none_or(|n| n + 1 < solver.words()),
                    "{}",
                    solver.name(dtype)
                );
                assert!(solver.name(dtype).starts_with(dtype.letter()));
                let [rows, cols, a] = solver.before_a();
                assert!(rows <= cols && cols < a && before.is_none_or(|n| a + 1 < n));
            }
        }
        assert_eq!(Solver::Geev.before_lwork(Dtype::D), Some(12));
        assert_eq!(Solver::Geev.before_lwork(Dtype::Z), Some(11));
        assert_eq!(Solver::Gesv.before_lwork(Dtype::D), None);
    }
}
