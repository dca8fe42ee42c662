//! Products of sparse matrices that programs ask MKL for (`mkl_sparse_?_mv`, `mkl_sparse_?_mm`).
//!
//! The handle of a matrix is MKL's. Where the arrays lie that MKL would compute with, MKL itself says at each call
//! (`mkl_sparse_?_export_csr`, which takes some nanoseconds): those that the program gave, or MKL's own ones, after `mkl_sparse_optimize`
//! and for a matrix that MKL has computed. So no function that makes, changes or ends a handle need be known. It also says how wide the
//! integers are, which the plain names do not. What is not a plain product in compressed rows is passed on to MKL, with all arguments as
//! they were, as are products that devices would not compute sooner.

#![expect(
    unsafe_code,
    reason = "frames and arguments arrive as raw pointers from the stubs"
)]

use core::ffi::{c_int, c_void};
use core::mem::transmute;
use core::ptr;
use std::panic::catch_unwind;
use std::time::Instant;

use semcache::base::sparse::Index;
use semcache::base::{Dtype, Op, Scalar as _, Value};
use semcache::hints::view::View;
use semcache::process::signals_blocked::SignalsBlocked;
use semcache::runtime::sparse::{self, Tried};
use semcache::sparse::csr::Csr;
use semcache::sparse::product::Product;
use semcache::with_dtype;
use semcache_fault::cancel;

use crate::core as runtime;
use crate::frame::Frame;
use crate::hooks::real::with_errno_kept;
use crate::products::{self, Function, PRODUCTS};
use crate::resolve;
use crate::sites::{self, Binding};
use crate::symbols;
use crate::thread;

// From mkl_spblas.h: `sparse_status_t`, `sparse_operation_t`, `sparse_matrix_type_t`, `sparse_layout_t`.
const SUCCESS: c_int = 0;
const EXECUTION_FAILED: c_int = 4;
const NOT_SUPPORTED: c_int = 6;
const NON_TRANSPOSE: u32 = 10;
const TRANSPOSE: u32 = 11;
const CONJUGATE_TRANSPOSE: u32 = 12;
const GENERAL: u32 = 20;
const ROW_MAJOR: u32 = 101;
const COLUMN_MAJOR: u32 = 102;

/// `matrix_descr`, in the two registers in which it is passed.
#[derive(Clone, Copy)]
#[repr(C)]
struct Descr(u64, u32);

type Mv<T> =
    unsafe extern "C" fn(c_int, T, *const c_void, Descr, *const c_void, T, *mut c_void) -> c_int;

/// With 64-bit integers; functions with 32-bit ones read the lower halves.
type Mm<T> = unsafe extern "C" fn(
    c_int,
    T,
    *const c_void,
    Descr,
    c_int,
    *const c_void,
    i64,
    i64,
    T,
    *mut c_void,
    i64,
) -> c_int;

type Export = unsafe extern "C" fn(
    *const c_void,
    *mut c_int,
    *mut i64,
    *mut i64,
    *mut usize,
    *mut usize,
    *mut usize,
    *mut usize,
) -> c_int;

/// Computes a product, or returns MKL's function, to which the stub jumps with all arguments unchanged.
///
/// # Safety
/// Called by the stubs only, with the frame of a call of the function.
pub(crate) unsafe extern "C-unwind" fn multiply(frame: *mut Frame, number: u32) -> *const c_void {
    // As in `entry::enter`.
    let cancellation = cancel::deferred();
    // SAFETY: the stub's frame is valid, and only this call uses it until this function returns.
    let target = with_errno_kept(|| entered(unsafe { &mut *frame }, number));
    cancellation.restore();
    target
}

fn entered(frame: &mut Frame, number: u32) -> *const c_void {
    let number = number as usize % products::COUNT;
    let function = &PRODUCTS[number];
    let site = frame.site();
    let index = symbols::COUNT + number;
    let binding = sites::cached(index, site).or_else(|| bind(number, site));
    let Some(binding) = binding else {
        return ended(frame, NOT_SUPPORTED);
    };
    thread::state().forwarded(frame.entry_sp(), site);
    // SAFETY: this is the frame of a call of the function, whose library has said which function exports its matrices.
    let Some(product) = (unsafe { decoded(frame, function, binding) }) else {
        sparse::passed_on();
        return binding.target;
    };
    let name = function.name.to_str().unwrap_or_default();
    let tried = runtime::caught(|| {
        runtime::runs_here();
        sparse::attempt(&product, name)
    });
    match tried {
        Some(Ok(Tried::Done)) => ended(frame, SUCCESS),
        Some(Ok(Tried::Host(None))) => {
            sparse::passed_on();
            binding.target
        }
        Some(Ok(Tried::Host(Some(entries)))) => {
            sparse::passed_on();
            let begun = Instant::now();
            // SAFETY: the library's function, with the arguments of the call.
            let status = unsafe { passed(frame, function, binding.target, &product) };
            sparse::host_took(&product, entries, begun.elapsed());
            ended(frame, status)
        }
        // Y may have changed.
        Some(Err(_)) | None => ended(frame, EXECUTION_FAILED),
    }
}

/// The call is done, with this status.
fn ended(frame: &mut Frame, status: c_int) -> *const c_void {
    frame.result = u64::from(status.cast_unsigned());
    ptr::null()
}

#[cold]
fn bind(number: usize, site: usize) -> Option<&'static Binding> {
    sites::known(symbols::COUNT + number, site).or_else(|| {
        // As in `entry::bind`.
        let _blocked = SignalsBlocked::new();
        catch_unwind(|| resolve::product(number, site))
            .ok()
            .flatten()
    })
}

/// What a call asks for; `None` if MKL has to answer it.
///
/// # Safety
/// The frame is that of a call of the function.
unsafe fn decoded(frame: &Frame, function: &Function, binding: &Binding) -> Option<Product> {
    let op = match frame.word(0) as u32 {
        NON_TRANSPOSE => Op::None,
        TRANSPOSE => Op::Trans,
        CONJUGATE_TRANSPOSE => Op::ConjTrans,
        _ => return None,
    };
    if frame.word(2) as u32 != GENERAL {
        return None;
    }
    // SAFETY: the program passes a handle, or null.
    let csr = unsafe { exported(binding.export, frame.word(1) as usize, function.dtype) }?;
    if sparse::is_small(&csr) {
        return None;
    }
    let (from, to) = match op {
        Op::None => (csr.cols, csr.rows),
        Op::Trans | Op::ConjTrans => (csr.rows, csr.cols),
    };
    let view = |addr: u64, rows: usize, (cols, ld): (usize, usize)| View {
        addr: addr as usize,
        rows,
        cols,
        ld,
        element: function.dtype.size(),
    };
    let vector = |length: usize| (1, length.max(1));
    let (x, y) = if function.many {
        let integer = |position| {
            let word = frame.word(position);
            let value = match csr.index {
                Index::I32 => i64::from(word as u32 as i32),
                Index::I64 => word.cast_signed(),
            };
            usize::try_from(value).ok().filter(|value| *value > 0)
        };
        let (columns, ldx, ldy) = (integer(6)?, integer(7)?, integer(9)?);
        let (of_x, of_y) = match frame.word(4) as u32 {
            COLUMN_MAJOR if columns == 1 => (vector(from), vector(to)),
            ROW_MAJOR if (columns, ldx, ldy) == (1, 1, 1) => (vector(from), vector(to)),
            COLUMN_MAJOR => ((columns, ldx), (columns, ldy)),
            _ => return None,
        };
        (
            view(frame.word(5), from, of_x),
            view(frame.word(8), to, of_y),
        )
    } else {
        (
            view(frame.word(4), from, vector(from)),
            view(frame.word(5), to, vector(to)),
        )
    };
    let [alpha, beta] = scalars(frame, function.dtype);
    Some(Product {
        csr,
        op,
        alpha,
        beta,
        x,
        y,
    })
}

/// Alpha and beta, which are passed by value: a complex number of two floats in one register, of two doubles in two.
fn scalars(frame: &Frame, dtype: Dtype) -> [Value; 2] {
    [0, 1].map(|i| {
        let (re, im) = match dtype {
            Dtype::S => (f64::from(frame.float(i)), 0.0),
            Dtype::D => (frame.double(i), 0.0),
            Dtype::C => {
                let bits = frame.double(i).to_bits();
                let half = |shift: u32| f64::from(f32::from_bits((bits >> shift) as u32));
                (half(0), half(32))
            }
            Dtype::Z => (frame.double(2 * i), frame.double(2 * i + 1)),
        };
        Value { re, im }
    })
}

/// The matrix of a handle in compressed rows; `None` if MKL does not have it so, or its rows do not follow each other.
///
/// # Safety
/// `export` is null, or the function of its library; the handle is null, or one of this library's.
unsafe fn exported(export: *const c_void, handle: usize, dtype: Dtype) -> Option<Csr> {
    if export.is_null() || handle == 0 {
        return None;
    }
    // A function with 32-bit integers leaves the upper halves.
    let (mut rows, mut cols) = (-1_i64, -1_i64);
    let mut base: c_int = -1;
    let [mut starts, mut ends, mut columns, mut values] = [0_usize; 4];
    // SAFETY: the caller keeps this function's contract.
    let status = unsafe {
        let export = transmute::<*const c_void, Export>(export);
        export(
            ptr::with_exposed_provenance(handle),
            &raw mut base,
            &raw mut rows,
            &raw mut cols,
            &raw mut starts,
            &raw mut ends,
            &raw mut columns,
            &raw mut values,
        )
    };
    let narrow = |n: i64| n >> 32 == -1;
    let index = match (narrow(rows), narrow(cols)) {
        (true, true) => Index::I32,
        (false, false) => Index::I64,
        _ => return None,
    };
    let extent = |n: i64| match index {
        Index::I32 => usize::try_from(n as i32).ok(),
        Index::I64 => usize::try_from(n).ok(),
    };
    let follow = status == SUCCESS && ends == starts.wrapping_add(index.size());
    Some(Csr {
        dtype,
        index,
        first: u8::try_from(base).ok().filter(|base| *base < 2)?,
        rows: extent(rows)?,
        cols: extent(cols)?,
        offsets: starts,
        columns,
        values,
    })
    .filter(|_| follow)
}

/// Makes the call of MKL's function here, so that its time can be taken. No lock is held, and no signal blocked.
///
/// # Safety
/// The frame is that of a call of the function, and `target` MKL's.
unsafe fn passed(
    frame: &Frame,
    function: &Function,
    target: *const c_void,
    product: &Product,
) -> c_int {
    let address = |position| ptr::with_exposed_provenance::<c_void>(frame.word(position) as usize);
    let y = |position| address(position).cast_mut();
    let integer = |position| frame.word(position).cast_signed();
    let (op, layout) = (frame.word(0) as c_int, frame.word(4) as c_int);
    let descr = Descr(frame.word(2), frame.word(3) as u32);
    let (alpha, beta) = (product.alpha, product.beta);
    with_dtype!(function.dtype, T => {
        let (alpha, beta) = (T::from_value(alpha), T::from_value(beta));
        // SAFETY: the function has these arguments.
        unsafe {
            if function.many {
                let mm = transmute::<*const c_void, Mm<T>>(target);
                mm(op, alpha, address(1), descr, layout, address(5), integer(6), integer(7), beta, y(8), integer(9))
            } else {
                let mv = transmute::<*const c_void, Mv<T>>(target);
                mv(op, alpha, address(1), descr, address(4), beta, y(5))
            }
        }
    })
}
