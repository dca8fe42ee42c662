//! The argument rules of sums, copies and transpositions of matrices, and of sums of vectors.

use super::*;
use crate::blas::Outcome;
use crate::blas::local::compute;

/// A call with an A of three rows and four columns.
fn call(routine: Routine, op_a: Op, operands: &[(usize, i64)]) -> Call {
    let call = Call::new(routine, Dtype::D, &[3, 4], operands);
    Call {
        op_a,
        alpha: TWO,
        beta: TWO,
        ..call
    }
}

#[test]
fn geadd_rules() {
    let geadd = |lda, ldc| call(Routine::Geadd, Op::None, &[(0x1000, lda), (0x2000, ldc)]);
    let Checked::Run(p, placed) = check(&geadd(3, 5)) else {
        panic!("runs");
    };
    assert_eq!((p.m, p.n, p.k, p.beta), (3, 4, 1, TWO));
    assert_eq!((p.access(0), p.access(1)), (Access::Read, Access::Update));
    assert_eq!(
        (placed[1].width, placed[1].stride, placed[1].count),
        (24, 40, 4)
    );
    for bad in [
        geadd(2, 5),
        geadd(3, 2),
        Call {
            m: -1,
            ..geadd(3, 5)
        },
    ] {
        assert_eq!(check(&bad), Checked::Bad);
    }
    for nothing in [
        Call {
            m: 0,
            ..geadd(3, 5)
        },
        Call {
            n: 0,
            ..geadd(3, 5)
        },
        Call {
            alpha: Value::ZERO,
            ..geadd(3, 5)
        },
    ] {
        assert_eq!(check(&nothing), Checked::NoProduct);
    }
    let overwritten = Call {
        beta: Value::ZERO,
        ..geadd(3, 5)
    };
    assert!(matches!(check(&overwritten), Checked::Run(p, _) if p.access(1) == Access::Overwrite));
}

#[test]
fn omatcopy_rules() {
    let copy = |op, ldb| call(Routine::Omatcopy, op, &[(0x1000, 3), (0x2000, ldb)]);
    for (op, rows, cols) in [(Op::None, 3, 4), (Op::Trans, 4, 3), (Op::ConjTrans, 4, 3)] {
        assert_eq!(check(&copy(op, rows - 1)), Checked::Bad);
        let Checked::Run(p, placed) = check(&copy(op, rows)) else {
            panic!("runs");
        };
        assert_eq!(p.access(1), Access::Overwrite);
        assert_eq!(
            (p.operands[1].rows as i64, p.operands[1].cols),
            (rows, cols)
        );
        assert_eq!((placed[0].bytes(), placed[1].bytes()), (96, 96));
    }
}

#[test]
fn imatcopy_rules() {
    let copy = |op, n, alpha| Call {
        alpha,
        n,
        ..call(Routine::Imatcopy, op, &[(0x1000, 5)])
    };
    assert!(runs(&check(&copy(Op::None, 4, TWO))));
    assert!(runs(&check(&copy(Op::Trans, 3, Value::ONE))));
    assert_eq!(check(&copy(Op::Trans, 4, TWO)), Checked::Host);
    assert_eq!(check(&copy(Op::None, 4, Value::ONE)), Checked::NoProduct);
    assert_eq!(check(&copy(Op::None, 4, Value::ZERO)), Checked::NoProduct);
}

#[test]
fn axpby_rules() {
    let axpby = |n, incx, incy, alpha| Call {
        alpha,
        ..Call::new(
            Routine::Axpby,
            Dtype::D,
            &[n],
            &[(0x1000, incx), (0x2000, incy)],
        )
    };
    assert!(runs(&check(&axpby(9, -2, 3, TWO))));
    assert_eq!(check(&axpby(9, 1, 0, TWO)), Checked::Host);
    // With a zero alpha only y is scaled; if the increment of y is zero, the host BLAS does that scaling, too.
    assert_eq!(check(&axpby(9, 1, 0, Value::ZERO)), Checked::Host);
    assert_eq!(check(&axpby(9, 1, 1, Value::ZERO)), Checked::NoProduct);
    assert_eq!(check(&axpby(-1, 1, 1, TWO)), Checked::NoProduct);
}

/// With a zero alpha only a scaling is left: `C := beta C`, `B := 0`, `y := beta y`.
#[test]
fn a_zero_alpha_leaves_a_scaling() {
    let cases = [
        (Routine::Geadd, 2.0),
        (Routine::Omatcopy, 0.0),
        (Routine::Imatcopy, 0.0),
        (Routine::Axpby, 2.0),
    ];
    for (routine, factor) in cases {
        let mut out: Vec<f64> = (1..=15).map(f64::from).collect();
        let at = (out.as_mut_ptr().expose_provenance(), 5);
        let operands = [(0x1000, 5), at];
        let call = Call {
            alpha: Value::ZERO,
            ..call(routine, Op::None, &operands[2 - routine.operands().len()..])
        };
        let call = if routine == Routine::Axpby {
            call
        } else {
            Call { n: 3, ..call }
        };
        assert_eq!(check(&call), Checked::NoProduct, "{routine:?}");
        assert_eq!(scaled(&call).len(), 1, "{routine:?}");
        assert_eq!(compute(None, &call), Outcome::Done(Value::ZERO));
        for (i, v) in out.iter().enumerate() {
            let (row, col) = (i % 5, i / 5);
            let inside = row < if routine == Routine::Axpby { 1 } else { 3 };
            let old = (row + 5 * col + 1) as f64;
            assert_eq!(
                *v,
                if inside { factor * old } else { old },
                "{routine:?} {i}"
            );
        }
    }
}
