//! Stand-in for the `cusparse` functions, for matrices in compressed rows (CSR) and dense operands by columns. What the real library
//! may refuse is refused: two integer types in one matrix, the conjugate transpose of a real matrix, other algorithms than the
//! default ones.

#![expect(
    unsafe_code,
    reason = "the program's pointers, as the C functions take them"
)]

use core::ffi::{c_int, c_void};

use semcache::base::sparse::{CsrKernel, Index};
use semcache::base::{Dtype, Op, Value};
use semcache::device::api::Operand;

use crate::blas::{self, Call};
use crate::descriptors::{Dense, Described, Kind, Matrix};
use crate::multiply::scratch_bytes;
use crate::names::{Outcome, Status};
use crate::platform::put;
use crate::state::{Handle, lock};

/// `CUSPARSE_ORDER_COL`
const BY_COLUMNS: c_int = 1;

/// A size in 64 bits, as cuSPARSE and cuSOLVER take them.
pub(crate) fn size(n: i64) -> Outcome<usize> {
    usize::try_from(n).map_err(|_| Status::InvalidValue)
}

/// `cudaDataType`
pub(crate) fn dtype(code: c_int) -> Outcome<Dtype> {
    match code {
        0 => Ok(Dtype::S),
        1 => Ok(Dtype::D),
        4 => Ok(Dtype::C),
        5 => Ok(Dtype::Z),
        _ => Err(Status::NotSupported),
    }
}

/// The address of an array of `n` elements.
fn array(addr: u64, n: usize) -> Outcome<u64> {
    if addr == 0 && n > 0 {
        return Err(Status::InvalidValue);
    }
    Ok(addr)
}

pub(crate) unsafe fn create(handle: *mut usize) -> Outcome {
    let mut state = lock()?;
    let context = state.current()?;
    let number = state.fresh();
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { put(handle, number)? };
    let fresh = Handle {
        context,
        stream: 0,
        device_pointers: false,
    };
    state.sparse_handles.insert(number, fresh);
    Ok(())
}

pub(crate) fn set_stream(handle: usize, stream: usize) -> Outcome {
    let mut state = lock()?;
    let known = state.sparse_handles.get_mut(&handle);
    known.ok_or(Status::InvalidHandle)?.stream = stream;
    Ok(())
}

unsafe fn describe(descriptor: *mut usize, what: Described) -> Outcome {
    let mut state = lock()?;
    let number = state.fresh();
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { put(descriptor, number)? };
    state.descriptors.add(number, what);
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "as in C")]
pub(crate) unsafe fn create_csr(
    descriptor: *mut usize,
    rows: i64,
    cols: i64,
    nnz: i64,
    offsets: u64,
    columns: u64,
    values: u64,
    offset_type: c_int,
    column_type: c_int,
    base: c_int,
    value_type: c_int,
) -> Outcome {
    let (rows, cols, nnz) = (size(rows)?, size(cols)?, size(nnz)?);
    let index = match (offset_type, column_type) {
        (2, 2) => Index::I32,
        (3, 3) => Index::I64,
        _ => return Err(Status::NotSupported),
    };
    let first = u8::try_from(base).ok().filter(|base| *base <= 1);
    let matrix = Matrix {
        dtype: dtype(value_type)?,
        index,
        first: first.ok_or(Status::InvalidValue)?,
        rows,
        cols,
        nnz,
        at: [
            array(offsets, rows + 1)?,
            array(columns, nnz)?,
            array(values, nnz)?,
        ],
        prepared: None,
    };
    // SAFETY: the caller keeps this function's contract.
    unsafe { describe(descriptor, Described::Sparse(matrix)) }
}

pub(crate) unsafe fn create_vector(
    descriptor: *mut usize,
    length: i64,
    values: u64,
    value_type: c_int,
) -> Outcome {
    let rows = size(length)?;
    let vector = Dense {
        dtype: dtype(value_type)?,
        rows,
        cols: 1,
        at: Operand::matrix(array(values, rows)?, rows.max(1)),
    };
    // SAFETY: the caller keeps this function's contract.
    unsafe { describe(descriptor, Described::Vector(vector)) }
}

pub(crate) unsafe fn create_dense(
    descriptor: *mut usize,
    rows: i64,
    cols: i64,
    ld: i64,
    values: u64,
    value_type: c_int,
    order: c_int,
) -> Outcome {
    let (rows, cols, ld) = (size(rows)?, size(cols)?, size(ld)?);
    if order != BY_COLUMNS {
        return Err(Status::NotSupported);
    }
    if ld < rows.max(1) {
        return Err(Status::InvalidValue);
    }
    let dense = Dense {
        dtype: dtype(value_type)?,
        rows,
        cols,
        at: Operand::matrix(array(values, rows * cols)?, ld),
    };
    // SAFETY: the caller keeps this function's contract.
    unsafe { describe(descriptor, Described::Dense(dense)) }
}

/// Operations that were queued with a descriptor do not need it any more.
pub(crate) fn destroy(kind: Kind, descriptor: usize) -> Outcome {
    let mut state = lock()?;
    if let Some(Described::Sparse(matrix)) = state.descriptors.remove(descriptor, kind)?
        && let Some(gone) = matrix.prepared
    {
        state.staging.hold_block(gone.last, gone.device, gone.block);
    }
    Ok(())
}

/// The arguments that all functions of a product have.
struct Asked {
    handle: usize,
    op: c_int,
    matrix: usize,
    dense: [usize; 2],
    scalars: [*const c_void; 2],
    compute: c_int,
    algorithm: c_int,
}

impl Asked {
    /// The kernel, without addresses of scratch memory and without scalars; `kind` is that of X and Y.
    fn kernel(&self, kind: Kind) -> Outcome<(Call, CsrKernel)> {
        let state = lock()?;
        let known = state.sparse_handles.get(&self.handle).copied();
        let call = Call::with(state, known.ok_or(Status::InvalidHandle)?)?;
        let objects = &call.state.descriptors;
        let op = blas::op(self.op)?;
        let matrix = objects.matrix(self.matrix)?;
        let [x, y] = self.dense.map(|dense| objects.dense(dense, kind));
        let (x, y) = (x?, y?);
        if self.scalars.iter().any(|s| s.is_null()) {
            return Err(Status::InvalidValue);
        }
        let one_type = [x.dtype, y.dtype, dtype(self.compute)?]
            .iter()
            .all(|d| *d == matrix.dtype);
        let real_conjugate = op == Op::ConjTrans && !matrix.dtype.is_complex();
        if !one_type || real_conjugate || self.algorithm != 0 {
            return Err(Status::NotSupported);
        }
        let kernel = CsrKernel {
            dtype: matrix.dtype,
            index: matrix.index,
            first: matrix.first,
            op,
            rows: matrix.rows,
            cols: matrix.cols,
            nnz: matrix.nnz,
            vectors: x.cols,
            alpha: Value::ONE,
            beta: Value::ZERO,
            offsets: matrix.at[0],
            columns: matrix.at[1],
            values: matrix.at[2],
            // Only the column indices tell which rows of X have to exist.
            touched: (0, 0),
            x: x.at,
            y: y.at,
            scratch: 0,
            pattern: 0,
        };
        if (x.rows, y.rows) != kernel.lengths() || x.cols != y.cols {
            return Err(Status::InvalidValue);
        }
        Ok((call, kernel))
    }

    /// As [`Asked::kernel`], with scratch memory and scalars.
    ///
    /// # Safety
    /// The scalars are the program's, of the type that it computes with.
    unsafe fn whole(&self, kind: Kind, scratch: u64) -> Outcome<(Call, CsrKernel)> {
        let (mut call, mut kernel) = self.kernel(kind)?;
        if scratch == 0 {
            return Err(Status::InvalidValue);
        }
        kernel.scratch = scratch;
        let [alpha, beta] = self.scalars;
        // cuSPARSE reads scalars by aligned vector instructions, and its caller dies of others.
        let size = kernel.dtype.size();
        if [alpha, beta]
            .iter()
            .any(|at| !at.addr().is_multiple_of(size))
        {
            return Err(Status::InvalidValue);
        }
        // SAFETY: the caller keeps this function's contract.
        unsafe {
            kernel.alpha = call.scalar(kernel.dtype, alpha)?;
            kernel.beta = call.scalar(kernel.dtype, beta)?;
        }
        call.checked(&kernel)?;
        Ok((call, kernel))
    }
}

#[expect(clippy::too_many_arguments, reason = "as in C")]
pub(crate) unsafe fn vector_scratch(
    handle: usize,
    op: c_int,
    alpha: *const c_void,
    matrix: usize,
    x: usize,
    beta: *const c_void,
    y: usize,
    compute: c_int,
    algorithm: c_int,
    bytes: *mut usize,
) -> Outcome {
    let asked = Asked {
        handle,
        op,
        matrix,
        dense: [x, y],
        scalars: [alpha, beta],
        compute,
        algorithm,
    };
    let (_, kernel) = asked.kernel(Kind::Vector)?;
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { put(bytes, scratch_bytes(&kernel)) }
}

#[expect(clippy::too_many_arguments, reason = "as in C")]
pub(crate) unsafe fn prepare(
    handle: usize,
    op: c_int,
    alpha: *const c_void,
    matrix: usize,
    x: usize,
    beta: *const c_void,
    y: usize,
    compute: c_int,
    algorithm: c_int,
    scratch: u64,
) -> Outcome {
    let asked = Asked {
        handle,
        op,
        matrix,
        dense: [x, y],
        scalars: [alpha, beta],
        compute,
        algorithm,
    };
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe {
        let (mut call, kernel) = asked.whole(Kind::Vector, scratch)?;
        call.prepare(matrix, &kernel)
    }
}

#[expect(clippy::too_many_arguments, reason = "as in C")]
pub(crate) unsafe fn multiply_vector(
    handle: usize,
    op: c_int,
    alpha: *const c_void,
    matrix: usize,
    x: usize,
    beta: *const c_void,
    y: usize,
    compute: c_int,
    algorithm: c_int,
    scratch: u64,
) -> Outcome {
    let asked = Asked {
        handle,
        op,
        matrix,
        dense: [x, y],
        scalars: [alpha, beta],
        compute,
        algorithm,
    };
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe {
        let (mut call, kernel) = asked.whole(Kind::Vector, scratch)?;
        let prepared = call.state.descriptors.matrix(matrix)?.prepared.clone();
        match prepared.filter(|p| p.scratch == scratch) {
            Some(prepared) => call.multiply_prepared(matrix, &prepared, &kernel),
            None => call.multiply(&kernel),
        }
    }
}

#[expect(clippy::too_many_arguments, reason = "as in C")]
pub(crate) unsafe fn vectors_scratch(
    handle: usize,
    op: c_int,
    op_x: c_int,
    alpha: *const c_void,
    matrix: usize,
    x: usize,
    beta: *const c_void,
    y: usize,
    compute: c_int,
    algorithm: c_int,
    bytes: *mut usize,
) -> Outcome {
    as_stored(op_x)?;
    let asked = Asked {
        handle,
        op,
        matrix,
        dense: [x, y],
        scalars: [alpha, beta],
        compute,
        algorithm,
    };
    let (_, kernel) = asked.kernel(Kind::Dense)?;
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { put(bytes, scratch_bytes(&kernel)) }
}

#[expect(clippy::too_many_arguments, reason = "as in C")]
pub(crate) unsafe fn multiply_vectors(
    handle: usize,
    op: c_int,
    op_x: c_int,
    alpha: *const c_void,
    matrix: usize,
    x: usize,
    beta: *const c_void,
    y: usize,
    compute: c_int,
    algorithm: c_int,
    scratch: u64,
) -> Outcome {
    as_stored(op_x)?;
    let asked = Asked {
        handle,
        op,
        matrix,
        dense: [x, y],
        scalars: [alpha, beta],
        compute,
        algorithm,
    };
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe {
        let (mut call, kernel) = asked.whole(Kind::Dense, scratch)?;
        call.multiply(&kernel)
    }
}

/// X is not transposed, or the stand-in does not have the product.
fn as_stored(op_x: c_int) -> Outcome {
    match blas::op(op_x)? {
        Op::None => Ok(()),
        Op::Trans | Op::ConjTrans => Err(Status::NotSupported),
    }
}
