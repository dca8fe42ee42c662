//! The element types.

use std::fmt::Debug;

use num_complex::Complex;

use crate::blas::{Routine, Routines};

/// The elements of matrices: `f32`, `f64`, and [`Complex`] numbers of these. No other type can be one.
///
/// ```
/// use semcache_api::{Scalar, View};
///
/// fn bytes<T: Scalar>(a: View<'_, T>) -> usize {
///     a.rows() * a.cols() * size_of::<T>()
/// }
///
/// let a = [num_complex::Complex::new(1.0_f64, -1.0); 6];
/// assert_eq!(bytes(View::new(&a, 3, 2, 3)?), 96);
/// # Ok::<(), semcache_api::Error>(())
/// ```
pub trait Scalar: sealed::Sealed + Copy + PartialEq + Debug + Send + Sync + 'static {}

pub(crate) mod sealed {
    use crate::blas::Routines;

    /// What only this crate can implement.
    pub trait Sealed: Sized + 'static {
        /// Whether numbers have an imaginary part.
        const COMPLEX: bool;
        /// The BLAS for these elements.
        fn routines() -> &'static Routines<Self>;
    }
}

macro_rules! scalars {
    ($($t:ty, $letter:literal, $complex:literal;)*) => {$(
        impl Scalar for $t {}
        impl sealed::Sealed for $t {
            const COMPLEX: bool = $complex;
            fn routines() -> &'static Routines<Self> {
                static ROUTINES: Routines<$t> = Routines {
                    gemm: Routine::new(concat!($letter, "gemm_\0")),
                    symm: Routine::new(concat!($letter, "symm_\0")),
                    syrk: Routine::new(concat!($letter, "syrk_\0")),
                    trmm: Routine::new(concat!($letter, "trmm_\0")),
                    trsm: Routine::new(concat!($letter, "trsm_\0")),
                };
                &ROUTINES
            }
        }
    )*};
}

scalars! {
    f32, "s", false;
    f64, "d", false;
    Complex<f32>, "c", true;
    Complex<f64>, "z", true;
}
