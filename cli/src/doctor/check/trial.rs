//! The check of one routine of the host BLAS, for one element type.

use num_complex::Complex64;
use semcache::base::Dtype;

use super::call::{Call, Routine, Wrong};
use super::data::Draw;

/// A routine that is checked for one element type.
pub(super) struct Trial<'a> {
    pub(super) routine: Routine<'a>,
    pub(super) dtype: Dtype,
    pub(super) draw: Draw,
}

impl<'a> Trial<'a> {
    pub(super) fn call(&self) -> Call<'a> {
        Call::new(self.routine, self.dtype)
    }

    /// Values for alpha and beta, often 0, 1 or -1, for which kernels have special code.
    pub(super) fn scalars(&mut self) -> (Complex64, Complex64) {
        let usual = [Complex64::ONE, -Complex64::ONE, Complex64::ZERO];
        let drawn = (self.draw.value(self.dtype), self.draw.value(self.dtype));
        let alpha = if self.draw.below(3) == 0 {
            self.draw.one_of(&usual[..2])
        } else {
            drawn.0
        };
        let beta = if self.draw.below(2) == 0 {
            self.draw.one_of(&usual)
        } else {
            drawn.1
        };
        (alpha, beta)
    }
}

type Check = fn(&mut Trial<'_>) -> Result<(), Wrong>;

/// A routine's name, in which `*` stands for the letter of the element type; the letters of its types; the function
/// that checks the routine.
pub(super) type Entry = (&'static str, &'static str, Check);
