//! Scalar arguments as BLAS functions take them: by address, stored as their type.

#![expect(unsafe_code, reason = "stores a number of a type that is data")]

use core::ffi::c_void;

use semcache::base::{Dtype, Scalar, Value};
use semcache::with_dtype;

/// A scalar in memory, stored as its element type.
#[derive(Debug)]
#[repr(C, align(16))]
pub(crate) struct Stored([u8; 16]);

impl Stored {
    pub(crate) fn new(dtype: Dtype, value: Value) -> Stored {
        let mut stored = Stored([0; 16]);
        // SAFETY: 16 bytes hold the largest type.
        with_dtype!(dtype, T => unsafe {
            stored.0.as_mut_ptr().cast::<T>().write(T::from_value(value));
        });
        stored
    }

    pub(crate) fn at(&self) -> *const c_void {
        self.0.as_ptr().cast()
    }
}
