//! Argument rules of the reference BLAS: a decoded call in, a [`Problem`] and the places of its operands
//! out. What is not worth a device, or what only the host BLAS can answer, is told apart here.

use super::call::{Args, Call};
use crate::base::{Dtype, Rect, Value};
use crate::device::api::Op;
use crate::plan::{Form, Operand, Problem, Routine};

/// What the argument rules say of a call. All but [`Checked::Run`] go to the host BLAS, untouched.
#[derive(Clone, PartialEq, Debug)]
pub enum Checked {
    /// An argument is illegal: the host BLAS reports it by `xerbla` in the way that the program expects.
    Bad,
    /// A quick return of the reference, or as good as one: nothing, or only a scaling, is computed.
    Nothing,
    /// Legal, but left to the host: an increment of zero (or one that is not positive where the reference
    /// then does nothing), operands that are not aligned to their element, extents beyond the address
    /// space.
    Host,
    /// A computation that devices may do.
    Run(Box<Problem>, Vec<Placed>),
}

/// The bytes of one operand in the program's memory: `count` runs of `width` bytes, `stride` apart, the
/// first at `addr`. A single run has `stride == width`; runs never overlap each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placed {
    /// Lowest address.
    pub addr: usize,
    /// Bytes of each run.
    pub width: usize,
    /// Distance between the starts of runs, in bytes.
    pub stride: usize,
    /// Number of runs, at least one.
    pub count: usize,
}

impl Placed {
    /// One past the highest byte.
    #[must_use]
    pub const fn end(&self) -> usize {
        self.addr + (self.count - 1) * self.stride + self.width
    }

    /// The same bytes as a rectangle whose offsets are addresses.
    #[must_use]
    pub fn rect(&self) -> Rect {
        Rect::new(self.addr, self.width, self.stride, self.count)
    }

    /// Bytes of the operand itself, gaps not counted.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.width * self.count
    }
}

/// Why a call does not become a problem.
enum Stop {
    Bad,
    Nothing,
    Host,
}

type Found = Result<(Problem, Vec<Placed>), Stop>;

/// Applies the argument rules.
#[must_use]
pub fn check(call: &Call) -> Checked {
    match build(call) {
        Ok((problem, placed)) => Checked::Run(Box::new(problem), placed),
        Err(Stop::Bad) => Checked::Bad,
        Err(Stop::Nothing) => Checked::Nothing,
        Err(Stop::Host) => Checked::Host,
    }
}

/// What a product with nothing to multiply still does: the factor and the place of `beta C` or `beta y`.
#[must_use]
pub fn scaled(call: &Call) -> Option<(Value, Placed)> {
    let (beta, operand, addr) = match call.args {
        Args::Gemm {
            m, n, beta, c, ldc, ..
        } => {
            let (m, n) = (size(m).ok()?, size(n).ok()?);
            (beta, Operand::matrix(m, n, leading(ldc, m).ok()?), c)
        }
        Args::Gemv {
            op,
            m,
            n,
            beta,
            y,
            incy,
            ..
        } if m > 0 && n > 0 && incy != 0 => {
            let len = size(if op == Op::None { m } else { n }).ok()?;
            (beta, vector(len, incy).ok()?, y)
        }
        _ => return None,
    };
    let empty = operand.rows == 0 || operand.cols == 0;
    if empty || beta.is_one() {
        return None;
    }
    Some((beta, locate(call.dtype.size(), &operand, addr)?))
}

fn build(call: &Call) -> Found {
    let dtype = call.dtype;
    match (call.routine, call.args) {
        (Routine::Gemm, args @ Args::Gemm { .. }) => gemm(dtype, args),
        (Routine::Gemv, args @ Args::Gemv { .. }) => gemv(dtype, args),
        (Routine::Ger | Routine::Gerc, args @ Args::Ger { .. }) => ger(call.routine, dtype, args),
        (
            Routine::Scal | Routine::RealScal | Routine::Nrm2 | Routine::Asum | Routine::Iamax,
            args @ Args::One { .. },
        ) => one(call.routine, dtype, args),
        (
            Routine::Axpy | Routine::Copy | Routine::Swap | Routine::Dot | Routine::Dotc,
            args @ Args::Two { .. },
        ) => two(call.routine, dtype, args),
        _ => Err(Stop::Host),
    }
}

fn gemm(dtype: Dtype, args: Args) -> Found {
    let Args::Gemm {
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
    } = args
    else {
        return Err(Stop::Host);
    };
    let (m, n, k) = (size(m)?, size(n)?, size(k)?);
    let (rows_a, cols_a) = if op_a == Op::None { (m, k) } else { (k, m) };
    let (rows_b, cols_b) = if op_b == Op::None { (k, n) } else { (n, k) };
    let lda = leading(lda, rows_a)?;
    let ldb = leading(ldb, rows_b)?;
    let ldc = leading(ldc, m)?;
    // With nothing to multiply the reference returns or scales C: the host does that in no time.
    if m == 0 || n == 0 || k == 0 || alpha.is_zero() {
        return Err(Stop::Nothing);
    }
    let operands = vec![
        Operand::matrix(rows_a, cols_a, lda),
        Operand::matrix(rows_b, cols_b, ldb),
        Operand::matrix(m, n, ldc),
    ];
    let placed = place(dtype, &operands, &[a, b, c])?;
    let problem = Problem {
        routine: Routine::Gemm,
        dtype,
        form: Form::default(),
        op_a,
        op_b,
        m,
        n,
        k,
        alpha,
        beta,
        operands,
    };
    Ok((problem, placed))
}

fn gemv(dtype: Dtype, args: Args) -> Found {
    let Args::Gemv {
        op,
        m,
        n,
        alpha,
        a,
        lda,
        x,
        incx,
        beta,
        y,
        incy,
    } = args
    else {
        return Err(Stop::Host);
    };
    let (m, n) = (size(m)?, size(n)?);
    let lda = leading(lda, m)?;
    if incx == 0 || incy == 0 {
        return Err(Stop::Bad);
    }
    if m == 0 || n == 0 || alpha.is_zero() {
        return Err(Stop::Nothing);
    }
    let (len_x, len_y) = if op == Op::None { (n, m) } else { (m, n) };
    let operands = vec![
        Operand::matrix(m, n, lda),
        vector(len_x, incx)?,
        vector(len_y, incy)?,
    ];
    let placed = place(dtype, &operands, &[a, x, y])?;
    let problem = Problem {
        routine: Routine::Gemv,
        dtype,
        form: Form::default(),
        op_a: op,
        op_b: Op::None,
        m,
        n,
        k: 1,
        alpha,
        beta,
        operands,
    };
    Ok((problem, placed))
}

fn ger(routine: Routine, dtype: Dtype, args: Args) -> Found {
    let Args::Ger {
        m,
        n,
        alpha,
        x,
        incx,
        y,
        incy,
        a,
        lda,
    } = args
    else {
        return Err(Stop::Host);
    };
    let (m, n) = (size(m)?, size(n)?);
    let lda = leading(lda, m)?;
    if incx == 0 || incy == 0 {
        return Err(Stop::Bad);
    }
    if m == 0 || n == 0 || alpha.is_zero() {
        return Err(Stop::Nothing);
    }
    let operands = vec![
        vector(m, incx)?,
        vector(n, incy)?,
        Operand::matrix(m, n, lda),
    ];
    let placed = place(dtype, &operands, &[x, y, a])?;
    let problem = Problem {
        m,
        n,
        ..plain(routine, dtype, alpha, operands)
    };
    Ok((problem, placed))
}

fn one(routine: Routine, dtype: Dtype, args: Args) -> Found {
    let Args::One { n, alpha, x, incx } = args else {
        return Err(Stop::Host);
    };
    // The level-1 routines report nothing: a size of zero or less is an empty vector.
    if n <= 0 {
        return Err(Stop::Nothing);
    }
    if incx <= 0 {
        return Err(Stop::Host);
    }
    let scaling = matches!(routine, Routine::Scal | Routine::RealScal);
    if scaling && alpha.is_one() {
        return Err(Stop::Nothing);
    }
    let operands = vec![vector(size(n)?, incx)?];
    let placed = place(dtype, &operands, &[x])?;
    let alpha = if scaling { alpha } else { Value::ONE };
    Ok((plain(routine, dtype, alpha, operands), placed))
}

fn two(routine: Routine, dtype: Dtype, args: Args) -> Found {
    let Args::Two {
        n,
        alpha,
        x,
        incx,
        y,
        incy,
    } = args
    else {
        return Err(Stop::Host);
    };
    if n <= 0 || (routine == Routine::Axpy && alpha.is_zero()) {
        return Err(Stop::Nothing);
    }
    if incx == 0 || incy == 0 {
        return Err(Stop::Host);
    }
    let n = size(n)?;
    let operands = vec![vector(n, incx)?, vector(n, incy)?];
    let placed = place(dtype, &operands, &[x, y])?;
    let alpha = if routine == Routine::Axpy {
        alpha
    } else {
        Value::ONE
    };
    Ok((plain(routine, dtype, alpha, operands), placed))
}

/// A problem of one or two vectors; its length is the first operand's.
fn plain(routine: Routine, dtype: Dtype, alpha: Value, operands: Vec<Operand>) -> Problem {
    Problem {
        routine,
        dtype,
        form: Form::default(),
        op_a: Op::None,
        op_b: Op::None,
        m: operands.first().map_or(0, |x| x.rows),
        n: 1,
        k: 1,
        alpha,
        beta: Value::ZERO,
        operands,
    }
}

/// A size argument: negative ones are illegal.
fn size(n: i64) -> Result<usize, Stop> {
    usize::try_from(n).map_err(|_| Stop::Bad)
}

/// A leading dimension: at least the rows, and at least one.
fn leading(ld: i64, rows: usize) -> Result<usize, Stop> {
    match usize::try_from(ld) {
        Ok(ld) if ld >= rows.max(1) => Ok(ld),
        _ => Err(Stop::Bad),
    }
}

/// A vector operand; `inc` is not zero.
fn vector(n: usize, inc: i64) -> Result<Operand, Stop> {
    let stride = usize::try_from(inc.unsigned_abs()).map_err(|_| Stop::Host)?;
    Ok(Operand::vector(n, stride, inc < 0))
}

fn place(dtype: Dtype, operands: &[Operand], addrs: &[usize]) -> Result<Vec<Placed>, Stop> {
    operands
        .iter()
        .zip(addrs)
        .map(|(operand, &addr)| locate(dtype.size(), operand, addr).ok_or(Stop::Host))
        .collect()
}

/// The bytes of an operand that is not empty; `None` for those that devices cannot take: a null pointer,
/// an address that is no multiple of the element (complex vector loads would trap on the device), an
/// extent that leaves the address space.
fn locate(element: usize, operand: &Operand, addr: usize) -> Option<Placed> {
    if addr == 0 || !addr.is_multiple_of(element) {
        return None;
    }
    let (run, count) = match operand {
        Operand { vector: false, .. } => (operand.rows, operand.cols),
        Operand { ld: 1, .. } => (operand.rows, 1),
        _ => (1, operand.rows),
    };
    let width = run.checked_mul(element)?;
    let stride = if count == 1 {
        width
    } else {
        operand.ld.checked_mul(element)?
    };
    let last = count.checked_sub(1)?.checked_mul(stride)?;
    let end = last.checked_add(width)?.checked_add(addr)?;
    (isize::try_from(end).is_ok()).then_some(Placed {
        addr,
        width,
        stride,
        count,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Access;

    const TWO: Value = Value { re: 2.0, im: 0.0 };

    #[derive(Clone, Copy)]
    struct G {
        op_a: Op,
        op_b: Op,
        m: i64,
        n: i64,
        k: i64,
        lda: i64,
        ldb: i64,
        ldc: i64,
        alpha: Value,
        beta: Value,
    }
    const G0: G = G {
        op_a: Op::None,
        op_b: Op::None,
        m: 3,
        n: 4,
        k: 5,
        lda: 3,
        ldb: 5,
        ldc: 3,
        alpha: TWO,
        beta: TWO,
    };
    fn g(g: G) -> Checked {
        check(&Call {
            routine: Routine::Gemm,
            dtype: Dtype::D,
            args: Args::Gemm {
                op_a: g.op_a,
                op_b: g.op_b,
                m: g.m,
                n: g.n,
                k: g.k,
                alpha: g.alpha,
                a: 0x1000,
                lda: g.lda,
                b: 0x2000,
                ldb: g.ldb,
                beta: g.beta,
                c: 0x3000,
                ldc: g.ldc,
            },
        })
    }
    fn runs(c: &Checked) -> bool {
        matches!(c, Checked::Run(..))
    }

    #[test]
    fn gemm_rules() {
        assert!(runs(&g(G0)));
        for bad in [
            G { m: -1, ..G0 },
            G { n: -1, ..G0 },
            G { k: -1, ..G0 },
            G { lda: 2, ..G0 },
            G { ldb: 4, ..G0 },
            G { ldc: 2, ..G0 },
            G {
                lda: i64::MIN,
                ..G0
            },
            // lda >= max(1, rows) is asked even of empty matrices, before any quick return.
            G { m: 0, lda: 0, ..G0 },
            G {
                op_a: Op::Trans,
                lda: 4,
                ..G0
            },
            G {
                op_b: Op::ConjTrans,
                ldb: 3,
                ..G0
            },
        ] {
            assert_eq!(g(bad), Checked::Bad);
        }
        assert!(runs(&g(G {
            op_a: Op::Trans,
            lda: 5,
            ..G0
        })));
        assert!(runs(&g(G {
            op_b: Op::Trans,
            ldb: 4,
            ..G0
        })));
        for nothing in [
            G { m: 0, ..G0 },
            G { n: 0, ..G0 },
            G { k: 0, ..G0 },
            G {
                alpha: Value::ZERO,
                ..G0
            },
            G {
                alpha: Value::ZERO,
                beta: Value::ONE,
                ..G0
            },
        ] {
            assert_eq!(g(nothing), Checked::Nothing);
        }
    }

    #[test]
    fn gemm_places() {
        let Checked::Run(p, placed) = g(G {
            op_a: Op::Trans,
            lda: 7,
            ..G0
        }) else {
            panic!("runs");
        };
        assert_eq!((p.m, p.n, p.k), (3, 4, 5));
        assert_eq!(p.operands[0], Operand::matrix(5, 3, 7));
        assert_eq!(p.access(2), Access::Update);
        let a = Placed {
            addr: 0x1000,
            width: 40,
            stride: 56,
            count: 3,
        };
        assert_eq!(placed[0], a);
        assert_eq!((a.end(), a.bytes()), (0x1000 + 2 * 56 + 40, 120));
    }

    #[test]
    fn extents_beyond_the_address_space_go_to_the_host() {
        assert_eq!(
            g(G {
                lda: i64::MAX,
                ..G0
            }),
            Checked::Host
        );
        assert_eq!(
            g(G {
                lda: i64::MAX / 16,
                ..G0
            }),
            Checked::Host
        );
        let big = G {
            m: 1 << 40,
            lda: 1 << 40,
            ldc: 1 << 40,
            n: 1 << 40,
            ldb: 5,
            ..G0
        };
        assert_eq!(g(big), Checked::Host);
        // The leading dimension of a single column is never multiplied with.
        assert!(runs(&g(G {
            k: 1,
            lda: i64::MAX,
            ldb: 1,
            ..G0
        })));
    }

    fn v(op: Op, m: i64, n: i64, lda: i64, incx: i64, incy: i64, alpha: Value) -> Checked {
        check(&Call {
            routine: Routine::Gemv,
            dtype: Dtype::Z,
            args: Args::Gemv {
                op,
                m,
                n,
                alpha,
                a: 0x1000,
                lda,
                x: 0x2000,
                incx,
                beta: Value::ZERO,
                y: 0x3000,
                incy,
            },
        })
    }

    #[test]
    fn gemv_rules() {
        assert_eq!(v(Op::None, -1, 4, 3, 1, 1, TWO), Checked::Bad);
        assert_eq!(v(Op::None, 3, -4, 3, 1, 1, TWO), Checked::Bad);
        assert_eq!(v(Op::Trans, 3, 4, 2, 1, 1, TWO), Checked::Bad);
        assert_eq!(v(Op::None, 3, 4, 3, 0, 1, TWO), Checked::Bad);
        assert_eq!(v(Op::None, 3, 4, 3, 1, 0, TWO), Checked::Bad);
        assert_eq!(v(Op::None, 0, 4, 1, 1, 1, TWO), Checked::Nothing);
        assert_eq!(v(Op::None, 3, 4, 3, 1, 1, Value::ZERO), Checked::Nothing);
        let Checked::Run(p, placed) = v(Op::Trans, 3, 4, 3, -1, -2, TWO) else {
            panic!("runs");
        };
        assert_eq!(p.operands[1], Operand::vector(3, 1, true));
        assert_eq!(p.operands[2], Operand::vector(4, 2, true));
        assert_eq!(p.access(2), Access::Overwrite);
        assert_eq!(
            placed[1],
            Placed {
                addr: 0x2000,
                width: 48,
                stride: 48,
                count: 1
            }
        );
        assert_eq!(
            placed[2],
            Placed {
                addr: 0x3000,
                width: 16,
                stride: 32,
                count: 4
            }
        );
    }

    fn r(m: i64, n: i64, lda: i64, incx: i64, incy: i64, alpha: Value) -> Checked {
        check(&Call {
            routine: Routine::Gerc,
            dtype: Dtype::C,
            args: Args::Ger {
                m,
                n,
                alpha,
                x: 0x1000,
                incx,
                y: 0x2000,
                incy,
                a: 0x3000,
                lda,
            },
        })
    }

    #[test]
    fn ger_rules() {
        assert_eq!(r(-1, 2, 2, 1, 1, TWO), Checked::Bad);
        assert_eq!(r(3, -2, 3, 1, 1, TWO), Checked::Bad);
        assert_eq!(r(3, 2, 2, 1, 1, TWO), Checked::Bad);
        assert_eq!(r(3, 2, 3, 0, 1, TWO), Checked::Bad);
        assert_eq!(r(3, 2, 3, 1, 0, TWO), Checked::Bad);
        assert_eq!(r(3, 0, 3, 1, 1, TWO), Checked::Nothing);
        assert_eq!(r(3, 2, 3, 1, 1, Value::ZERO), Checked::Nothing);
        let Checked::Run(p, placed) = r(3, 2, 4, 1, -1, TWO) else {
            panic!("runs");
        };
        assert_eq!((p.m, p.n, p.access(2)), (3, 2, Access::Update));
        assert_eq!(
            placed[2],
            Placed {
                addr: 0x3000,
                width: 24,
                stride: 32,
                count: 2
            }
        );
    }

    fn l1(routine: Routine, n: i64, alpha: Value, x: usize, incx: i64) -> Checked {
        check(&Call {
            routine,
            dtype: Dtype::S,
            args: Args::One { n, alpha, x, incx },
        })
    }
    fn l2(routine: Routine, n: i64, alpha: Value, incx: i64, incy: i64) -> Checked {
        let args = Args::Two {
            n,
            alpha,
            x: 0x1000,
            incx,
            y: 0x2000,
            incy,
        };
        check(&Call {
            routine,
            dtype: Dtype::S,
            args,
        })
    }

    #[test]
    fn level_one_rules() {
        for routine in [Routine::Scal, Routine::Nrm2, Routine::Asum, Routine::Iamax] {
            assert!(runs(&l1(routine, 3, TWO, 0x1000, 2)));
            assert_eq!(l1(routine, 0, TWO, 0x1000, 1), Checked::Nothing);
            assert_eq!(l1(routine, i64::MIN, TWO, 0x1000, 1), Checked::Nothing);
            assert_eq!(l1(routine, 3, TWO, 0x1000, 0), Checked::Host);
            assert_eq!(l1(routine, 3, TWO, 0x1000, -1), Checked::Host);
            // Unaligned and null.
            assert_eq!(l1(routine, 3, TWO, 0x1002, 1), Checked::Host);
            assert_eq!(l1(routine, 3, TWO, 0, 1), Checked::Host);
        }
        assert_eq!(
            l1(Routine::Scal, 3, Value::ONE, 0x1000, 1),
            Checked::Nothing
        );
        // Zero times NaN is NaN: a zero alpha is no quick return here.
        assert!(runs(&l1(Routine::Scal, 3, Value::ZERO, 0x1000, 1)));
        for routine in [Routine::Axpy, Routine::Copy, Routine::Swap, Routine::Dot] {
            assert!(runs(&l2(routine, 3, TWO, -1, 2)));
            assert_eq!(l2(routine, -1, TWO, 1, 1), Checked::Nothing);
            assert_eq!(l2(routine, 3, TWO, 0, 1), Checked::Host);
            assert_eq!(l2(routine, 3, TWO, 1, 0), Checked::Host);
            assert_eq!(l2(routine, 3, TWO, i64::MIN, 1), Checked::Host);
        }
        assert_eq!(l2(Routine::Axpy, 3, Value::ZERO, 1, 1), Checked::Nothing);
    }

    #[test]
    fn arguments_of_another_class_go_to_the_host() {
        assert_eq!(l1(Routine::Gemm, 3, TWO, 0x1000, 1), Checked::Host);
        assert_eq!(l2(Routine::Nrm2, 3, TWO, 1, 1), Checked::Host);
    }
}
