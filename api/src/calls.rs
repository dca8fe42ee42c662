//! The BLAS calls of a scope.

#![expect(unsafe_code, reason = "calls the BLAS")]
#![expect(clippy::too_many_arguments, reason = "those of the BLAS, in its order")]

use crate::error::{Error, Result, ShapeError};
use crate::flags::{Diag, Side, Transpose, Uplo};
use crate::operand::{Operand, Pending};
use crate::placed::Placed;
use crate::scalar::Scalar;
use crate::scope::Scope;

/// Sizes as the BLAS reads them.
///
/// # Errors
/// One needs more than 32 bits.
fn sizes<const N: usize>(sizes: [usize; N]) -> Result<[i64; N]> {
    let mut out = [0; N];
    for (out, size) in out.iter_mut().zip(sizes) {
        *out = i32::try_from(size).map_err(|_| Error::Invalid)?.into();
    }
    Ok(out)
}

/// Rows and columns of an operand.
fn shape<T>(of: &Placed<T>, transpose: Transpose) -> (usize, usize) {
    match transpose {
        Transpose::No => (of.rows, of.cols),
        Transpose::Yes | Transpose::Conjugate => (of.cols, of.rows),
    }
}

/// Refuses sizes that do not agree, and a result that shares elements with an input.
fn agree<T>(sizes: bool, result: &Placed<T>, inputs: &[&Placed<T>]) -> Result<()> {
    if !sizes {
        return Err(ShapeError::Mismatch.into());
    }
    if inputs.iter().any(|input| input.overlaps(result)) {
        return Err(Error::Overlap);
    }
    Ok(())
}

// SAFETY, of all calls below. The function is the BLAS's, of this routine and element type. Flags, sizes and scalars outlive the call,
// after which no BLAS uses them. The elements of every operand are in memory that is borrowed for 'scope, the result's mutably and by
// this thread alone (`Pending` is not sent), and a BLAS reaches no others: sizes and leading dimensions are those of the operands, whose
// sizes agree. The result shares none with the inputs. A library that runs the call later than this returns it is done when the scope
// ends, which is not before 'scope does; and until then memory that is read has the result, or makes the reader wait.
impl<'scope> Scope<'scope, '_> {
    /// `C = alpha op(A) op(B) + beta C`.
    ///
    /// Example: [`scope`](crate::scope).
    ///
    /// # Errors
    /// Sizes do not agree, C shares elements with an input, or the process has no BLAS.
    pub fn gemm<T: Scalar>(
        &self,
        transa: Transpose,
        transb: Transpose,
        alpha: T,
        a: impl Operand<'scope, T>,
        b: impl Operand<'scope, T>,
        beta: T,
        c: impl Into<Pending<'scope, T>>,
    ) -> Result<Pending<'scope, T>> {
        let (a, b, result) = (a.placed(), b.placed(), c.into());
        let c = result.placed;
        let (a_rows, k) = shape(&a, transa);
        agree(
            a_rows == c.rows && shape(&b, transb) == (k, c.cols),
            &c,
            &[&a, &b],
        )?;
        let [m, n, k, lda, ldb, ldc] = sizes([c.rows, c.cols, k, a.ld, b.ld, c.ld])?;
        let gemm = T::routines().gemm.find()?;
        // SAFETY: see above.
        unsafe {
            gemm(
                transa.letter(),
                transb.letter(),
                &m,
                &n,
                &k,
                &alpha,
                a.data.as_ptr(),
                &lda,
                b.data.as_ptr(),
                &ldb,
                &beta,
                c.data.as_ptr(),
                &ldc,
                1,
                1,
            );
        }
        Ok(result)
    }

    /// `C = alpha A B + beta C`, or `alpha B A + beta C` with A on the right; A is symmetric, and one triangle of it is read.
    ///
    /// ```
    /// use semcache_api::{Side, Uplo, View, ViewMut, scope};
    /// # unsafe { libc::dlopen(c"libblas.so.3".as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    ///
    /// let (a, b) = ([1.0, 2.0, f64::NAN, 3.0], [1.0, 1.0]);
    /// let mut c = [0.0; 2];
    /// scope(|s| {
    ///     let (a, b) = (View::new(&a, 2, 2, 2)?, View::new(&b, 2, 1, 2)?);
    ///     s.symm(Side::Left, Uplo::Lower, 1.0, a, b, 0.0, ViewMut::new(&mut c, 2, 1, 2)?)
    ///         .map(drop)
    /// })?;
    /// assert_eq!(c, [3.0, 5.0]);
    /// # Ok::<(), semcache_api::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`gemm`](Self::gemm).
    pub fn symm<T: Scalar>(
        &self,
        side: Side,
        uplo: Uplo,
        alpha: T,
        a: impl Operand<'scope, T>,
        b: impl Operand<'scope, T>,
        beta: T,
        c: impl Into<Pending<'scope, T>>,
    ) -> Result<Pending<'scope, T>> {
        let (a, b, result) = (a.placed(), b.placed(), c.into());
        let c = result.placed;
        let same = (b.rows, b.cols) == (c.rows, c.cols);
        agree(same && order(side, &a, &c), &c, &[&a, &b])?;
        let [m, n, lda, ldb, ldc] = sizes([c.rows, c.cols, a.ld, b.ld, c.ld])?;
        let symm = T::routines().symm.find()?;
        // SAFETY: see above.
        unsafe {
            symm(
                side.letter(),
                uplo.letter(),
                &m,
                &n,
                &alpha,
                a.data.as_ptr(),
                &lda,
                b.data.as_ptr(),
                &ldb,
                &beta,
                c.data.as_ptr(),
                &ldc,
                1,
                1,
            );
        }
        Ok(result)
    }

    /// `C = alpha op(A) op(A)^T + beta C`, where C is symmetric, and one triangle of it is changed. Complex numbers are not conjugated.
    ///
    /// ```
    /// use semcache_api::{Transpose, Uplo, View, ViewMut, scope};
    /// # unsafe { libc::dlopen(c"libblas.so.3".as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    ///
    /// let a = [1.0_f32, 2.0];
    /// let mut c = [0.0; 4];
    /// scope(|s| {
    ///     let a = View::new(&a, 2, 1, 2)?;
    ///     s.syrk(Uplo::Lower, Transpose::No, 1.0, a, 0.0, ViewMut::new(&mut c, 2, 2, 2)?)
    ///         .map(drop)
    /// })?;
    /// assert_eq!(c, [1.0, 2.0, 0.0, 4.0]);
    /// # Ok::<(), semcache_api::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`gemm`](Self::gemm); [`Error::Invalid`] for complex numbers and [`Transpose::Conjugate`], which the BLAS does not have.
    pub fn syrk<T: Scalar>(
        &self,
        uplo: Uplo,
        trans: Transpose,
        alpha: T,
        a: impl Operand<'scope, T>,
        beta: T,
        c: impl Into<Pending<'scope, T>>,
    ) -> Result<Pending<'scope, T>> {
        let (a, result) = (a.placed(), c.into());
        let c = result.placed;
        let (n, k) = shape(&a, trans);
        agree((n, n) == (c.rows, c.cols), &c, &[&a])?;
        if T::COMPLEX && trans == Transpose::Conjugate {
            return Err(Error::Invalid);
        }
        let [n, k, lda, ldc] = sizes([n, k, a.ld, c.ld])?;
        let syrk = T::routines().syrk.find()?;
        // SAFETY: see above.
        unsafe {
            syrk(
                uplo.letter(),
                trans.letter(),
                &n,
                &k,
                &alpha,
                a.data.as_ptr(),
                &lda,
                &beta,
                c.data.as_ptr(),
                &ldc,
                1,
                1,
            );
        }
        Ok(result)
    }

    /// `B = alpha op(A) B`, or `alpha B op(A)` with A on the right, where A is triangular.
    ///
    /// ```
    /// use semcache_api::{Diag, Side, Transpose, Uplo, View, ViewMut, scope};
    /// # unsafe { libc::dlopen(c"libblas.so.3".as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    ///
    /// let (a, mut b) = ([2.0, 1.0, f64::NAN, 3.0], [1.0, 1.0]);
    /// scope(|s| {
    ///     let (a, b) = (View::new(&a, 2, 2, 2)?, ViewMut::new(&mut b, 2, 1, 2)?);
    ///     s.trmm(Side::Left, Uplo::Lower, Transpose::No, Diag::NonUnit, 1.0, a, b).map(drop)
    /// })?;
    /// assert_eq!(b, [2.0, 4.0]);
    /// # Ok::<(), semcache_api::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`gemm`](Self::gemm).
    pub fn trmm<T: Scalar>(
        &self,
        side: Side,
        uplo: Uplo,
        transa: Transpose,
        diag: Diag,
        alpha: T,
        a: impl Operand<'scope, T>,
        b: impl Into<Pending<'scope, T>>,
    ) -> Result<Pending<'scope, T>> {
        self.triangular(
            Triangular::Product,
            (side, uplo, transa, diag),
            alpha,
            &a.placed(),
            b.into(),
        )
    }

    /// `B = alpha op(A)^-1 B`, or `alpha B op(A)^-1` with A on the right, where A is triangular.
    ///
    /// Example: [`Pending`].
    ///
    /// # Errors
    /// As [`gemm`](Self::gemm).
    pub fn trsm<T: Scalar>(
        &self,
        side: Side,
        uplo: Uplo,
        transa: Transpose,
        diag: Diag,
        alpha: T,
        a: impl Operand<'scope, T>,
        b: impl Into<Pending<'scope, T>>,
    ) -> Result<Pending<'scope, T>> {
        self.triangular(
            Triangular::Solution,
            (side, uplo, transa, diag),
            alpha,
            &a.placed(),
            b.into(),
        )
    }

    fn triangular<T: Scalar>(
        &self,
        what: Triangular,
        (side, uplo, transa, diag): (Side, Uplo, Transpose, Diag),
        alpha: T,
        a: &Placed<T>,
        result: Pending<'scope, T>,
    ) -> Result<Pending<'scope, T>> {
        let b = result.placed;
        agree(order(side, a, &b), &b, &[a])?;
        let [m, n, lda, ldb] = sizes([b.rows, b.cols, a.ld, b.ld])?;
        let routine = match what {
            Triangular::Product => T::routines().trmm.find()?,
            Triangular::Solution => T::routines().trsm.find()?,
        };
        // SAFETY: see above.
        unsafe {
            routine(
                side.letter(),
                uplo.letter(),
                transa.letter(),
                diag.letter(),
                &m,
                &n,
                &alpha,
                a.data.as_ptr(),
                &lda,
                b.data.as_ptr(),
                &ldb,
                1,
                1,
                1,
                1,
            );
        }
        Ok(result)
    }
}

/// What is done with a triangular matrix.
#[derive(Clone, Copy)]
enum Triangular {
    Product,
    Solution,
}

/// Whether a matrix is square and fits on this side of another.
fn order<T>(side: Side, a: &Placed<T>, b: &Placed<T>) -> bool {
    let order = match side {
        Side::Left => b.rows,
        Side::Right => b.cols,
    };
    (a.rows, a.cols) == (order, order)
}
