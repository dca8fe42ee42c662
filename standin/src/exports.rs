//! The exported functions of libcuda, libcublas, libcusparse and libcusolver, made from the rows of the table.

#![expect(unsafe_code, reason = "exports C functions")]

use core::ffi::{c_char, c_int, c_uint, c_void};

use semcache::base::Dtype::{C, D, S, Z};
use semcache::base::Routine::{
    Asum, Copy, Dot, Dotc, Ger, Gerc, Hemm, Hemv, Her, Her2, Her2k, Herk, Iamax, Nrm2, Swap, Symm,
    Symv, Syr, Syr2, Syr2k, Syrk, Trmv, Trsm, Trsv,
};

use crate::calls::{self, Family};
use crate::descriptors::Kind;
use crate::table::{Entry, functions};
use crate::transfer::{Copy2, Copy3};
use crate::{
    allocate, blas, context, exchange, indefinite, level2, level3, matrices, order, packed,
    platform, qr, solver, sparse, transfer,
};

macro_rules! exports {
    ($($family:ident [$($name:ident $(: $tag:expr)?),+ $(,)?] $args:tt => $body:path;)+) => {
        $($(export! { $family $name [$($tag)?] $args $body })+)+
    };
}

macro_rules! export {
    ($family:ident $name:ident [$($tag:expr)?] ($($arg:ident: $type:ty),*) $body:path) => {
        // SAFETY: no other object of a process that uses the stand-in has the real function of this name.
        #[unsafe(no_mangle)]
        #[allow(unused_unsafe, reason = "not every body is unsafe")]
        unsafe extern "C" fn $name($($arg: $type),*) -> c_int {
            calls::enter(Family::$family, Entry::$name as usize, || {
                // SAFETY: the program keeps the contract of the C function of this name.
                unsafe { $body($($tag,)? $($arg),*) }
            })
        }
    };
}

functions! { exports }
