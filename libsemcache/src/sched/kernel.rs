//! From a task and the places of its operands to a kernel, on device or host addresses.

use crate::base::{Form, Routine, Value};
use crate::cache::task::Located;
use crate::device::api::{DevMat, DevVec, Kernel};
use crate::plan::{Problem, Task};

/// The kernel of one task. `at[i]` is where part `i` lies; a reduction has its result place last, or gets it by
/// [`with_out`].
#[must_use]
pub fn kernel(p: &Problem, t: &Task, at: &[Located]) -> Kernel {
    let es = p.dtype.size();
    let mat = |i: usize| DevMat {
        addr: at[i].addr,
        ld: (at[i].pitch / es).max(t.parts[i].rows).max(1),
    };
    let vec = |i: usize| {
        // A contiguous vector stays so wherever it lies, also as a column of a compact replica.
        let step = if p.operands[i].ld == 1 || t.parts[i].rows <= 1 {
            1
        } else {
            (at[i].pitch / es).max(1)
        };
        let inc = isize::try_from(step).unwrap_or(isize::MAX);
        DevVec {
            addr: at[i].addr,
            inc: if p.operands[i].reversed { -inc } else { inc },
        }
    };
    let out = || at.get(p.operands.len()).map_or(0, |l| l.addr);
    let (dtype, n) = (p.dtype, t.op.m);
    let plain = matches!(p.routine, Routine::Gemm | Routine::GemmBatch);
    let own = plain.then_some((p.op_a, p.op_b));
    if let Some((op_a, op_b)) = t.op.product.or(own) {
        return Kernel::Gemm {
            dtype,
            op_a,
            op_b,
            m: t.op.m,
            n: t.op.n,
            k: t.op.k,
            alpha: t.op.alpha,
            a: mat(0),
            b: mat(1),
            beta: t.op.beta,
            c: mat(2),
        };
    }
    let Form { side, uplo, diag } = p.form;
    let (op, alpha, beta) = (p.op_a, t.op.alpha, t.op.beta);
    let hermitian = matches!(p.routine, Routine::Hemm | Routine::Herk | Routine::Her2k);
    match p.routine {
        // A product is dealt with above.
        Routine::Gemm | Routine::GemmBatch | Routine::Symm | Routine::Hemm => Kernel::Symm {
            dtype,
            hermitian,
            side,
            uplo,
            m: t.op.m,
            n: t.op.n,
            alpha,
            a: mat(0),
            b: mat(1),
            beta,
            c: mat(2),
        },
        Routine::Syrk | Routine::Herk => Kernel::Syrk {
            dtype,
            hermitian,
            uplo,
            op,
            n: t.op.n,
            k: t.op.k,
            alpha,
            a: mat(0),
            beta,
            c: mat(1),
        },
        Routine::Syr2k | Routine::Her2k => Kernel::Syr2k {
            dtype,
            hermitian,
            uplo,
            op,
            n: t.op.n,
            k: t.op.k,
            alpha,
            a: mat(0),
            b: mat(1),
            beta,
            c: mat(2),
        },
        Routine::Gemmt => Kernel::Gemmt {
            dtype,
            uplo,
            op_a: p.op_a,
            op_b: p.op_b,
            n: t.op.n,
            k: t.op.k,
            alpha,
            a: mat(0),
            b: mat(1),
            beta,
            c: mat(2),
        },
        Routine::Trmm => Kernel::Trmm {
            dtype,
            side,
            uplo,
            op,
            diag,
            m: t.op.m,
            n: t.op.n,
            alpha,
            a: mat(0),
            b: mat(1),
        },
        Routine::Trsm => Kernel::Trsm {
            dtype,
            side,
            uplo,
            op,
            diag,
            m: t.op.m,
            n: t.op.n,
            alpha,
            a: mat(0),
            b: mat(1),
        },
        Routine::Gemv => Kernel::Gemv {
            dtype,
            op: p.op_a,
            m: t.op.m,
            n: t.op.n,
            alpha: t.op.alpha,
            a: mat(0),
            x: vec(1),
            beta: t.op.beta,
            y: vec(2),
        },
        Routine::Ger | Routine::Gerc => Kernel::Ger {
            dtype,
            conj: p.routine == Routine::Gerc,
            m: t.op.m,
            n: t.op.n,
            alpha: t.op.alpha,
            x: vec(0),
            y: vec(1),
            a: mat(2),
        },
        Routine::Symv | Routine::Hemv => Kernel::Symv {
            dtype,
            hermitian: p.routine == Routine::Hemv,
            uplo,
            n,
            alpha,
            a: mat(0),
            x: vec(1),
            beta,
            y: vec(2),
        },
        Routine::Trmv => Kernel::Trmv {
            dtype,
            uplo,
            op,
            diag,
            n,
            a: mat(0),
            x: vec(1),
        },
        Routine::Trsv => Kernel::Trsv {
            dtype,
            uplo,
            op,
            diag,
            n,
            a: mat(0),
            x: vec(1),
        },
        Routine::Syr | Routine::Her => Kernel::Syr {
            dtype,
            hermitian: p.routine == Routine::Her,
            uplo,
            n,
            alpha,
            x: vec(0),
            a: mat(1),
        },
        Routine::Syr2 | Routine::Her2 => Kernel::Syr2 {
            dtype,
            hermitian: p.routine == Routine::Her2,
            uplo,
            n,
            alpha,
            x: vec(0),
            y: vec(1),
            a: mat(2),
        },
        Routine::Rot => Kernel::Rot {
            dtype,
            n,
            x: vec(0),
            y: vec(1),
            c: alpha.re,
            s: beta.re,
        },
        Routine::Rotm => Kernel::Rotm {
            dtype,
            n,
            x: vec(0),
            y: vec(1),
            h: columns(alpha, beta),
        },
        Routine::Axpy => Kernel::Axpy {
            dtype,
            n,
            alpha: t.op.alpha,
            x: vec(0),
            y: vec(1),
        },
        Routine::Scal | Routine::RealScal => Kernel::Scal {
            dtype,
            n,
            alpha: t.op.alpha,
            x: vec(0),
        },
        Routine::Copy => Kernel::Copy {
            dtype,
            n,
            x: vec(0),
            y: vec(1),
        },
        Routine::Swap => Kernel::Swap {
            dtype,
            n,
            x: vec(0),
            y: vec(1),
        },
        Routine::Dot | Routine::Dotc => Kernel::Dot {
            dtype,
            conj: p.routine == Routine::Dotc,
            n,
            x: vec(0),
            y: vec(1),
            out: out(),
        },
        Routine::Nrm2 => Kernel::Nrm2 {
            dtype,
            n,
            x: vec(0),
            out: out(),
        },
        Routine::Asum => Kernel::Asum {
            dtype,
            n,
            x: vec(0),
            out: out(),
        },
        Routine::Iamax => Kernel::Iamax {
            dtype,
            n,
            x: vec(0),
            out: out(),
        },
    }
}

/// The matrix of a rotm by columns.
fn columns(alpha: Value, beta: Value) -> [f64; 4] {
    [alpha.re, alpha.im, beta.re, beta.im]
}

/// The kernel with other scalars, as far as it has any.
#[must_use]
pub fn with_scalars(mut kernel: Kernel, new_alpha: Value, new_beta: Value) -> Kernel {
    match &mut kernel {
        Kernel::Gemm { alpha, beta, .. }
        | Kernel::Symm { alpha, beta, .. }
        | Kernel::Syrk { alpha, beta, .. }
        | Kernel::Syr2k { alpha, beta, .. }
        | Kernel::Gemmt { alpha, beta, .. }
        | Kernel::Gemv { alpha, beta, .. }
        | Kernel::Symv { alpha, beta, .. } => {
            (*alpha, *beta) = (new_alpha, new_beta);
        }
        Kernel::Rot { c, s, .. } => (*c, *s) = (new_alpha.re, new_beta.re),
        Kernel::Rotm { h, .. } => *h = columns(new_alpha, new_beta),
        Kernel::Trmm { alpha, .. }
        | Kernel::Trsm { alpha, .. }
        | Kernel::Ger { alpha, .. }
        | Kernel::Syr { alpha, .. }
        | Kernel::Syr2 { alpha, .. }
        | Kernel::Axpy { alpha, .. }
        | Kernel::Scal { alpha, .. } => {
            *alpha = new_alpha;
        }
        _ => {}
    }
    kernel
}

/// The kernel of a reduction with another place for its value.
#[must_use]
pub fn with_out(mut kernel: Kernel, addr: u64) -> Kernel {
    match &mut kernel {
        Kernel::Dot { out, .. }
        | Kernel::Nrm2 { out, .. }
        | Kernel::Asum { out, .. }
        | Kernel::Iamax { out, .. } => *out = addr,
        _ => {}
    }
    kernel
}
