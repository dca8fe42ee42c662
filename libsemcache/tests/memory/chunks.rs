//! Calls of levels 1 and 2.

use semcache::base::{Diag, Dtype, Form, Op, Routine, Side, Uplo, Value};
use semcache::blas::Call;

use super::operand::Kind;
use super::{Made, Shape, int};

/// The routines of levels 1 and 2 that a type has, without iamax: the host BLAS runs it if the vector does not fit.
pub(crate) fn routines(dtype: Dtype) -> Vec<Routine> {
    let of_type = |r: &Routine| match r {
        Routine::Iamax => false,
        Routine::Rotm => !dtype.is_complex(),
        Routine::Gerc | Routine::Dotc | Routine::RealScal => dtype.is_complex(),
        r => !r.hermitian() || dtype.is_complex(),
    };
    let all = Routine::ALL.iter().copied().filter(|r| r.level() < 3);
    all.filter(of_type).collect()
}

/// A call of a routine on matrices of order `n` and vectors of level 1 of `len` elements; `turn` chooses flags, scalars and
/// increments.
pub(crate) fn make(routine: Routine, dtype: Dtype, (n, len): (usize, usize), turn: usize) -> Made {
    use Routine::{Geadd, Imatcopy, Omatcopy};
    use Routine::{Gemv, Ger, Gerc, Hemv, Her, Her2, Symv, Syr, Syr2, Trmv, Trsv};
    let form = Form {
        side: Side::Left,
        uplo: [Uplo::Lower, Uplo::Upper][turn % 2],
        diag: [Diag::NonUnit, Diag::Unit][turn / 2 % 2],
    };
    // A square that is transposed in place needs a copy of itself on the device, so no more than a share of the memory.
    let op_a = match routine {
        Imatcopy => Op::None,
        Gemv | Trmv | Trsv | Omatcopy => [Op::None, Op::Trans, Op::ConjTrans][turn % 3],
        _ => Op::None,
    };
    let (m, other) = (n, n + 30);
    let matrix = |r: usize, c: usize, kind| Shape {
        rows: r,
        cols: c,
        ld: r + turn % 3,
        step: int(r + turn % 3),
        kind,
    };
    // Increments of both signs; the routines with a single vector do nothing with a negative one.
    let vector = |len: usize, i: usize, kind| {
        let inc = 1 + (turn + i) % 3;
        let back = (turn + i).is_multiple_of(2) && (routine.level() == 2 || two(routine));
        Shape {
            rows: 1,
            cols: len,
            ld: inc,
            step: if back { -int(inc) } else { int(inc) },
            kind,
        }
    };
    let (general, result) = (Kind::General, Kind::Result);
    let half = match routine {
        Trmv | Trsv => Kind::Triangular(form.uplo, form.diag),
        Symv | Hemv => Kind::Symmetric(form.uplo, routine.hermitian()),
        _ => Kind::Result,
    };
    let (sizes, operands) = match routine {
        Gemv => {
            let (x, y) = if op_a == Op::None {
                (other, m)
            } else {
                (m, other)
            };
            let a = matrix(m, other, general);
            (
                vec![m, other],
                vec![a, vector(x, 0, general), vector(y, 1, result)],
            )
        }
        Ger | Gerc => {
            let vectors = [vector(m, 0, general), vector(other, 1, general)];
            let a = matrix(m, other, result);
            (vec![m, other], vec![vectors[0], vectors[1], a])
        }
        Symv | Hemv => {
            let a = matrix(n, n, half);
            (
                vec![n],
                vec![a, vector(n, 0, general), vector(n, 1, result)],
            )
        }
        Trmv | Trsv => (vec![n], vec![matrix(n, n, half), vector(n, 1, result)]),
        Syr | Her => (vec![n], vec![vector(n, 0, general), matrix(n, n, half)]),
        Syr2 | Her2 => {
            let vectors = [vector(n, 0, general), vector(n, 1, general)];
            (vec![n], vec![vectors[0], vectors[1], matrix(n, n, half)])
        }
        Geadd | Omatcopy | Imatcopy => {
            let (r, c) = if op_a == Op::None {
                (m, other)
            } else {
                (other, m)
            };
            let both = [matrix(m, other, general), matrix(r, c, result)];
            let count = routine.operands().len();
            (vec![m, other], both[2 - count..].to_vec())
        }
        _ => {
            let count = routine.operands().len();
            let vectors = (0..count).map(|i| vector(len, i, result));
            (vec![len], vectors.collect())
        }
    };
    let two = Value { re: 2.0, im: 0.0 };
    let sizes: Vec<i64> = sizes.into_iter().map(int).collect();
    let call = Call {
        form,
        op_a,
        alpha: [two, Value { re: -1.0, im: 0.0 }][turn % 2],
        beta: [Value::ZERO, Value::ONE, two][turn % 3],
        ..Call::new(routine, dtype, &sizes, &[])
    };
    Made { call, operands }
}

fn two(routine: Routine) -> bool {
    routine.operands().len() == 2
}
