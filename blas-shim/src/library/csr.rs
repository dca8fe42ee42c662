//! `semcache_csr_multiply`.

#![expect(unsafe_code, reason = "arguments arrive as raw pointers from C")]

use core::ffi::{c_int, c_void};

use semcache::base::sparse::Index;
use semcache::base::{Dtype, Op, Scalar as _, Value};
use semcache::hints::Status;
use semcache::hints::view::View;
use semcache::runtime::sparse;
use semcache::sparse::csr::Csr as Sparse;
use semcache::sparse::product::Product;

use super::args::{Matrix, Sized32, guarded, taken, view};

/// `semcache_csr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Csr {
    size: u32,
    kind: u32,
    index_bytes: u32,
    base: u32,
    rows: i64,
    cols: i64,
    row_offsets: *const c_void,
    columns: *const c_void,
    values: *const c_void,
}

// SAFETY: numbers and pointers, the size first.
unsafe impl Sized32 for Csr {}

/// A number of this type.
///
/// # Safety
/// Null, or a number of this type.
unsafe fn number(dtype: Dtype, at: *const c_void) -> Result<Value, Status> {
    if at.is_null() {
        return Err(Status::Invalid);
    }
    // SAFETY: the caller keeps this function's contract.
    Ok(semcache::with_dtype!(dtype, T => unsafe { at.cast::<T>().read_unaligned() }.to_value()))
}

/// # Safety
/// Null, or a structure of the size that its first field says.
unsafe fn sparse_matrix(at: *const Csr) -> Result<Sparse, Status> {
    // SAFETY: the caller keeps this function's contract.
    let csr = unsafe { taken(at)? };
    let dtype = Dtype::ALL
        .into_iter()
        .find(|d| u32::from(d.letter()) == csr.kind);
    let index = match csr.index_bytes {
        4 => Index::I32,
        8 => Index::I64,
        _ => return Err(Status::Invalid),
    };
    let extent = |n: i64| usize::try_from(n).map_err(|_| Status::Invalid);
    Ok(Sparse {
        dtype: dtype.ok_or(Status::Invalid)?,
        index,
        first: u8::try_from(csr.base)
            .ok()
            .filter(|base| *base < 2)
            .ok_or(Status::Invalid)?,
        rows: extent(csr.rows)?,
        cols: extent(csr.cols)?,
        offsets: csr.row_offsets.addr(),
        columns: csr.columns.addr(),
        values: csr.values.addr(),
    })
}

pub(super) unsafe extern "C" fn csr_multiply(
    a: *const Csr,
    op: c_int,
    alpha: *const c_void,
    x: *const Matrix,
    beta: *const c_void,
    y: *const Matrix,
) -> c_int {
    let op = match u8::try_from(op).unwrap_or(0).to_ascii_uppercase() {
        b'N' => Some(Op::None),
        b'T' => Some(Op::Trans),
        b'C' => Some(Op::ConjTrans),
        _ => None,
    };
    // SAFETY: the program passes what `semcache.h` says.
    guarded(|| unsafe {
        let csr = sparse_matrix(a)?;
        let product = Product {
            csr,
            op: op.ok_or(Status::Invalid)?,
            alpha: number(csr.dtype, alpha)?,
            beta: number(csr.dtype, beta)?,
            x: view(x)?,
            y: view(y)?,
        };
        let fits = |of: &View| of.element == csr.dtype.size();
        if !fits(&product.x) || !fits(&product.y) {
            return Err(Status::Invalid);
        }
        sparse::multiply(&product)
    })
}
