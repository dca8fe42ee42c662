//! Decodes the batched products: `gemm_batch` and `gemm_batch_strided`.
//!
//! | routine | since | C | Fortran |
//! |---|---|---|---|
//! | `?gemm_batch` | MKL 11.3 | yes | yes |
//! | | OpenBLAS 0.3.29 | yes | since 0.3.31 |
//! | `?gemm_batch_strided` | MKL 2021 | yes | yes |
//! | | OpenBLAS 0.3.31 | yes | yes |
//!
//! `gemm_batch` has groups of products of one shape. All arguments but the pointers to matrices come once per group, in
//! arrays: of characters in Fortran and of enumerations in C; scalars come in arrays even where C passes a single
//! scalar by value. `gemm_batch_strided` has one shape; the matrices of an operand follow each other at a distance in
//! elements, which is zero where all products use one matrix.
//!
//! A negative number of groups or products, or a negative distance, marks the batch as `doubtful`: MKL reports such an
//! argument as an error, OpenBLAS computes a result.

use semcache::base::routine::Number;
use semcache::base::{Dtype, Op, Routine, Scalar, Value};
use semcache::blas::batch::Batch;
use semcache::blas::{Call, Pointer};
use semcache::with_dtype;

use super::reader::{LOWEST, Reader, load_int, one_name};
use super::row_major;
use crate::frame::Frame;
use crate::symbols::{Class, Symbol, Width};

/// Whether the calls of a class are batches.
pub(crate) fn is_batch(class: Class) -> bool {
    matches!(class, Class::Call(Routine::GemmBatch) | Class::Strided)
}

/// The number of multiplications of the batch's largest product.
///
/// # Safety
/// The frame is that of a call of the symbol, a batch, with integers of this width.
pub(super) unsafe fn largest(frame: &Frame, symbol: &Symbol, width: Width) -> i64 {
    let work = |m: i64, n: i64, k: i64| {
        let k = k.max(0);
        m.max(0).saturating_mul(n.max(0)).saturating_mul(k)
    };
    let mut r = Reader::new(frame, symbol, width);
    if symbol.class == Class::Call(Routine::GemmBatch) {
        let Some(groups) = Groups::read(&mut r) else {
            return 0;
        };
        let of = |i| {
            work(
                groups.int(groups.m, i),
                groups.int(groups.n, i),
                groups.int(groups.k, i),
            )
        };
        let any = |i: &usize| groups.int(groups.sizes, *i) > 0;
        (0..groups.count).filter(any).map(of).max().unwrap_or(0)
    } else {
        Strided::read(&mut r).map_or(0, |s| {
            let Call { m, n, k, .. } = s.first;
            if s.count > 0 { work(m, n, k) } else { 0 }
        })
    }
}

/// Reads the arguments of a batch. `None`: an argument is not valid; the host BLAS gets the call with unchanged
/// arguments.
///
/// # Safety
/// As [`largest`].
pub(crate) unsafe fn decode(frame: &Frame, symbol: &Symbol, width: Width) -> Option<Batch> {
    let mut r = Reader::new(frame, symbol, width);
    if symbol.class == Class::Call(Routine::GemmBatch) {
        Groups::read(&mut r)?.batch()
    } else {
        Strided::read(&mut r)?.batch()
    }
}

/// The arguments of `gemm_batch`: addresses of arrays, except the number of groups.
struct Groups {
    cblas: bool,
    width: Width,
    dtype: Dtype,
    row_major: bool,
    op_a: usize,
    op_b: usize,
    m: usize,
    n: usize,
    k: usize,
    alpha: usize,
    a: usize,
    lda: usize,
    b: usize,
    ldb: usize,
    beta: usize,
    c: usize,
    ldc: usize,
    count: usize,
    negative: bool,
    sizes: usize,
}

impl Groups {
    fn read(r: &mut Reader<'_>) -> Option<Groups> {
        let row_major = r.row_major(&[])?;
        let [op_a, op_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc] =
            std::array::from_fn(|_| r.address());
        let count = r.int()?;
        let sizes = r.address();
        let arrays = [
            op_a, op_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, sizes,
        ];
        if count > 0 && arrays.iter().any(|address| *address < LOWEST) {
            return None;
        }
        Some(Groups {
            cblas: r.cblas,
            width: r.width,
            dtype: r.dtype,
            row_major,
            op_a,
            op_b,
            m,
            n,
            k,
            alpha,
            a,
            lda,
            b,
            ldb,
            beta,
            c,
            ldc,
            count: usize::try_from(count).unwrap_or(0),
            negative: count < 0,
            sizes,
        })
    }

    /// The `i`-th integer of an array.
    fn int(&self, array: usize, i: usize) -> i64 {
        let bytes = match self.width {
            Width::Bits32 => 4,
            Width::Bits64 => 8,
        };
        // SAFETY: the program's array has an element for each group.
        unsafe { load_int(array + i * bytes, self.width) }
    }

    fn op(&self, array: usize, i: usize) -> Option<Op> {
        let code = if self.cblas {
            // SAFETY: the program's array has an enumeration for each group; enumerations have 32 bits.
            let code = unsafe { (array as *const i32).add(i).read_unaligned() };
            [(111, Op::None), (112, Op::Trans), (113, Op::ConjTrans)]
                .into_iter()
                .find(|(c, _)| *c == code)
        } else {
            // SAFETY: the program's array has a character for each group.
            let code = unsafe { (array as *const u8).add(i).read() }.to_ascii_uppercase();
            [(b'N', Op::None), (b'T', Op::Trans), (b'C', Op::ConjTrans)]
                .into_iter()
                .find(|(c, _)| *c == code)
                .map(|(c, op)| (i32::from(c), op))
        };
        let (_, op) = code?;
        Some(one_name(op, self.dtype))
    }

    fn scalar(&self, array: usize, i: usize) -> Value {
        // SAFETY: the program's array has a scalar for each group.
        with_dtype!(self.dtype, T => unsafe { (array as *const T).add(i).read_unaligned() }.to_value())
    }

    fn batch(&self) -> Option<Batch> {
        let mut total = 0usize;
        let mut doubtful = self.negative;
        for i in 0..self.count {
            let size = self.int(self.sizes, i);
            doubtful |= size < 0;
            total = total.checked_add(usize::try_from(size).unwrap_or(0))?;
        }
        let mut batch = Batch::with_room(self.dtype, total)?;
        batch.doubtful = doubtful;
        let mut next = 0;
        for i in 0..self.count {
            let (op_a, op_b) = (self.op(self.op_a, i)?, self.op(self.op_b, i)?);
            let [m, n, k] = [self.m, self.n, self.k].map(|array| self.int(array, i));
            let [lda, ldb, ldc] = [self.lda, self.ldb, self.ldc].map(|array| self.int(array, i));
            let one = Call {
                op_a,
                op_b,
                alpha: self.scalar(self.alpha, i),
                beta: self.scalar(self.beta, i),
                ..Call::new(Routine::Gemm, self.dtype, &[m, n, k], &[])
            };
            for _ in 0..self.int(self.sizes, i).max(0) {
                // Another thread of the program has changed the sizes since they were summed up.
                if next == total {
                    return None;
                }
                let at = [(self.a, lda), (self.b, ldb), (self.c, ldc)].map(|(array, ld)| {
                    // SAFETY: the arrays of matrices have an element for each product.
                    let addr = unsafe { (array as *const usize).add(next).read_unaligned() };
                    Pointer { addr, ld }
                });
                let product = Call { at, ..one };
                batch.calls.push(by_columns(product, self.row_major)?);
                next += 1;
            }
        }
        Some(batch)
    }
}

/// The arguments of `gemm_batch_strided`.
struct Strided {
    row_major: bool,
    /// The first product.
    first: Call,
    /// From a matrix of each operand to the next one, in elements.
    strides: [i64; 3],
    count: i64,
}

impl Strided {
    fn read(r: &mut Reader<'_>) -> Option<Strided> {
        let row_major = r.row_major(&[])?;
        let mut first = Call::new(Routine::Gemm, r.dtype, &[], &[]);
        (first.op_a, first.op_b) = (r.op()?, r.op()?);
        (first.m, first.n, first.k) = (r.int()?, r.int()?, r.int()?);
        first.alpha = r.number(Number::Element)?;
        let mut strides = [0; 3];
        for (i, stride) in strides.iter_mut().enumerate() {
            if i == 2 {
                first.beta = r.number(Number::Element)?;
            }
            let (addr, ld) = (r.address(), r.int()?);
            first.at[i] = Pointer { addr, ld };
            *stride = r.int()?;
        }
        Some(Strided {
            row_major,
            first,
            strides,
            count: r.int()?,
        })
    }

    fn batch(&self) -> Option<Batch> {
        let total = usize::try_from(self.count).unwrap_or(0);
        let dtype = self.first.dtype;
        let mut batch = Batch::with_room(dtype, total)?;
        batch.doubtful = self.count < 0 || self.strides.iter().any(|s| *s < 0);
        for i in 0..total {
            let mut product = self.first;
            for (at, stride) in product.at.iter_mut().zip(self.strides) {
                let bytes = stride
                    .wrapping_mul(i as i64)
                    .wrapping_mul(dtype.size() as i64);
                at.addr = (at.addr as i64).wrapping_add(bytes) as usize;
            }
            batch.calls.push(by_columns(product, self.row_major)?);
        }
        Some(batch)
    }
}

fn by_columns(product: Call, row_major: bool) -> Option<Call> {
    if row_major {
        row_major::by_columns(&product)
    } else {
        Some(product)
    }
}
