//! Tests of `check`, routine by routine: which calls become a problem for devices (`Run`), have an illegal argument (`Bad`),
//! have no product to compute, so that the host BLAS at most scales the output (`NoProduct`), or go to the host BLAS for
//! another reason (`Host`).

mod half;
mod matrices;

use super::*;
use crate::base::{Diag, Dtype, Form, Side, Uplo, Value};
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
        op_a: g.op_a,
        op_b: g.op_b,
        alpha: g.alpha,
        beta: g.beta,
        ..Call::new(
            Routine::Gemm,
            Dtype::D,
            &[g.m, g.n, g.k],
            &[(0x1000, g.lda), (0x2000, g.ldb), (0x3000, g.ldc)],
        )
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
        // The reference BLAS demands lda >= max(1, rows of A as stored) even of empty matrices, before any quick return.
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
        assert_eq!(g(nothing), Checked::NoProduct);
    }
}

#[test]
fn gemm_operands_and_their_bytes() {
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
    let a = Rect::new(0x1000, 40, 56, 3);
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
    // A matrix of a single column ends before its leading dimension counts, so its extent does not overflow.
    assert!(runs(&g(G {
        k: 1,
        lda: i64::MAX,
        ldb: 1,
        ..G0
    })));
}

fn v(op: Op, m: i64, n: i64, lda: i64, incx: i64, incy: i64, alpha: Value) -> Checked {
    check(&Call {
        op_a: op,
        alpha,
        beta: Value::ZERO,
        ..Call::new(
            Routine::Gemv,
            Dtype::Z,
            &[m, n],
            &[(0x1000, lda), (0x2000, incx), (0x3000, incy)],
        )
    })
}

#[test]
fn gemv_rules() {
    assert_eq!(v(Op::None, -1, 4, 3, 1, 1, TWO), Checked::Bad);
    assert_eq!(v(Op::None, 3, -4, 3, 1, 1, TWO), Checked::Bad);
    assert_eq!(v(Op::Trans, 3, 4, 2, 1, 1, TWO), Checked::Bad);
    assert_eq!(v(Op::None, 3, 4, 3, 0, 1, TWO), Checked::Bad);
    assert_eq!(v(Op::None, 3, 4, 3, 1, 0, TWO), Checked::Bad);
    assert_eq!(v(Op::None, 0, 4, 1, 1, 1, TWO), Checked::NoProduct);
    assert_eq!(v(Op::None, 3, 4, 3, 1, 1, Value::ZERO), Checked::NoProduct);
    let Checked::Run(p, placed) = v(Op::Trans, 3, 4, 3, -1, -2, TWO) else {
        panic!("runs");
    };
    assert_eq!(p.operands[1], Operand::vector(3, 1, true));
    assert_eq!(p.operands[2], Operand::vector(4, 2, true));
    assert_eq!(p.access(2), Access::Overwrite);
    assert_eq!(placed[1], Rect::new(0x2000, 48, 48, 1));
    assert_eq!(placed[2], Rect::new(0x3000, 16, 32, 4));
}

fn r(m: i64, n: i64, lda: i64, incx: i64, incy: i64, alpha: Value) -> Checked {
    check(&Call {
        alpha,
        ..Call::new(
            Routine::Gerc,
            Dtype::C,
            &[m, n],
            &[(0x1000, incx), (0x2000, incy), (0x3000, lda)],
        )
    })
}

#[test]
fn ger_rules() {
    assert_eq!(r(-1, 2, 2, 1, 1, TWO), Checked::Bad);
    assert_eq!(r(3, -2, 3, 1, 1, TWO), Checked::Bad);
    assert_eq!(r(3, 2, 2, 1, 1, TWO), Checked::Bad);
    assert_eq!(r(3, 2, 3, 0, 1, TWO), Checked::Bad);
    assert_eq!(r(3, 2, 3, 1, 0, TWO), Checked::Bad);
    assert_eq!(r(3, 0, 3, 1, 1, TWO), Checked::NoProduct);
    assert_eq!(r(3, 2, 3, 1, 1, Value::ZERO), Checked::NoProduct);
    let Checked::Run(p, placed) = r(3, 2, 4, 1, -1, TWO) else {
        panic!("runs");
    };
    assert_eq!((p.m, p.n, p.access(2)), (3, 2, Access::Update));
    assert_eq!(placed[2], Rect::new(0x3000, 24, 32, 2));
}

fn of_vector(routine: Routine, n: i64, alpha: Value, x: usize, incx: i64) -> Checked {
    check(&Call {
        alpha,
        ..Call::new(routine, Dtype::S, &[n], &[(x, incx)])
    })
}
fn of_vectors(routine: Routine, n: i64, alpha: Value, incx: i64, incy: i64) -> Checked {
    check(&Call {
        alpha,
        ..Call::new(routine, Dtype::S, &[n], &[(0x1000, incx), (0x2000, incy)])
    })
}

#[test]
fn level_one_rules() {
    for routine in [Routine::Scal, Routine::Nrm2, Routine::Asum, Routine::Iamax] {
        assert!(runs(&of_vector(routine, 3, TWO, 0x1000, 2)));
        assert_eq!(of_vector(routine, 0, TWO, 0x1000, 1), Checked::NoProduct);
        assert_eq!(
            of_vector(routine, i64::MIN, TWO, 0x1000, 1),
            Checked::NoProduct
        );
        assert_eq!(of_vector(routine, 3, TWO, 0x1000, 0), Checked::Host);
        assert_eq!(of_vector(routine, 3, TWO, 0x1000, -1), Checked::Host);
        // Devices take no address that is null or not a multiple of the element size.
        assert_eq!(of_vector(routine, 3, TWO, 0x1002, 1), Checked::Host);
        assert_eq!(of_vector(routine, 3, TWO, 0, 1), Checked::Host);
    }
    assert_eq!(
        of_vector(Routine::Scal, 3, Value::ONE, 0x1000, 1),
        Checked::NoProduct
    );
    // Zero times NaN is NaN, so scal has no quick return for a zero alpha.
    assert!(runs(&of_vector(Routine::Scal, 3, Value::ZERO, 0x1000, 1)));
    for routine in [Routine::Axpy, Routine::Copy, Routine::Swap, Routine::Dot] {
        assert!(runs(&of_vectors(routine, 3, TWO, -1, 2)));
        assert_eq!(of_vectors(routine, -1, TWO, 1, 1), Checked::NoProduct);
        assert_eq!(of_vectors(routine, 3, TWO, 0, 1), Checked::Host);
        assert_eq!(of_vectors(routine, 3, TWO, 1, 0), Checked::Host);
        assert_eq!(of_vectors(routine, 3, TWO, i64::MIN, 1), Checked::Host);
    }
    assert_eq!(
        of_vectors(Routine::Axpy, 3, Value::ZERO, 1, 1),
        Checked::NoProduct
    );
}

#[test]
fn a_batch_is_no_single_product() {
    let operands = [(0x1000, 3), (0x2000, 3), (0x3000, 3)];
    let call = |routine| check(&Call::new(routine, Dtype::D, &[3, 3, 3], &operands));
    assert!(runs(&call(Routine::Gemm)));
    assert_eq!(call(Routine::GemmBatch), Checked::Host);
    // A gemm with one operand is illegal.
    assert_eq!(of_vector(Routine::Gemm, 3, TWO, 0x1000, 1), Checked::Bad);
}

#[derive(Clone, Copy)]
struct S {
    side: Side,
    m: i64,
    n: i64,
    lda: i64,
    ldb: i64,
    ldc: i64,
    alpha: Value,
}
const S0: S = S {
    side: Side::Left,
    m: 3,
    n: 4,
    lda: 3,
    ldb: 3,
    ldc: 3,
    alpha: TWO,
};
fn symm(routine: Routine, s: S) -> Checked {
    let form = Form {
        side: s.side,
        uplo: Uplo::Upper,
        diag: Diag::NonUnit,
    };
    check(&Call {
        form,
        alpha: s.alpha,
        beta: Value::ZERO,
        ..Call::new(
            routine,
            Dtype::Z,
            &[s.m, s.n],
            &[(0x1000, s.lda), (0x2000, s.ldb), (0x3000, s.ldc)],
        )
    })
}

#[test]
fn symm_rules() {
    for routine in [Routine::Symm, Routine::Hemm] {
        let Checked::Run(p, placed) = symm(routine, S0) else {
            panic!("runs");
        };
        assert_eq!((p.routine, p.m, p.n, p.k), (routine, 3, 4, 3));
        assert_eq!(p.form.uplo, Uplo::Upper);
        assert_eq!(p.operands[0], Operand::matrix(3, 3, 3));
        assert_eq!(p.operands[1..], [Operand::matrix(3, 4, 3); 2]);
        assert_eq!(placed[2].start, 0x3000);
        assert_eq!(p.access(2), Access::Overwrite);
        let right = S {
            side: Side::Right,
            lda: 4,
            ..S0
        };
        let Checked::Run(p, _) = symm(routine, right) else {
            panic!("runs");
        };
        assert_eq!(p.k, 4);
        assert_eq!(p.operands[0], Operand::matrix(4, 4, 4));
        for bad in [
            S { m: -1, ..S0 },
            S { n: -1, ..S0 },
            S { lda: 2, ..S0 },
            S { ldb: 2, ..S0 },
            S { ldc: 2, ..S0 },
            S { lda: 3, ..right },
            S { n: 0, lda: 0, ..S0 },
            S { m: 0, ldb: 0, ..S0 },
        ] {
            assert_eq!(symm(routine, bad), Checked::Bad);
        }
        for nothing in [
            S { m: 0, ..S0 },
            S { n: 0, ..S0 },
            S {
                alpha: Value::ZERO,
                ..S0
            },
        ] {
            assert_eq!(symm(routine, nothing), Checked::NoProduct);
        }
    }
}

#[derive(Clone, Copy)]
struct R {
    dtype: Dtype,
    op: Op,
    n: i64,
    k: i64,
    lda: i64,
    ldb: i64,
    ldc: i64,
    alpha: Value,
    beta: Value,
}
const R0: R = R {
    dtype: Dtype::Z,
    op: Op::None,
    n: 4,
    k: 3,
    lda: 4,
    ldb: 4,
    ldc: 4,
    alpha: Value { re: 2.0, im: 1.0 },
    beta: Value { re: 3.0, im: 1.0 },
};
fn rank(routine: Routine, r: R) -> Checked {
    let operands = [(0x1000, r.lda), (0x2000, r.ldb), (0x3000, r.ldc)];
    let operands = match routine {
        Routine::Syr2k | Routine::Her2k => operands.to_vec(),
        _ => vec![operands[0], operands[2]],
    };
    check(&Call {
        form: Form {
            uplo: Uplo::Upper,
            ..Form::default()
        },
        op_a: r.op,
        alpha: r.alpha,
        beta: r.beta,
        ..Call::new(routine, r.dtype, &[r.n, r.k], &operands)
    })
}

#[test]
fn rank_k_rules() {
    use Routine::{Her2k, Herk, Syr2k, Syrk};
    for routine in [Syrk, Herk, Syr2k, Her2k] {
        let hermitian = matches!(routine, Herk | Her2k);
        let (transposed, other) = if hermitian {
            (Op::ConjTrans, Op::Trans)
        } else {
            (Op::Trans, Op::ConjTrans)
        };
        let inputs = if matches!(routine, Syr2k | Her2k) {
            2
        } else {
            1
        };
        let Checked::Run(p, placed) = rank(routine, R0) else {
            panic!("runs");
        };
        assert_eq!((p.m, p.n, p.k, p.op_a), (4, 4, 3, Op::None));
        assert_eq!((p.form.uplo, p.operands.len()), (Uplo::Upper, inputs + 1));
        assert_eq!(p.operands[inputs - 1], Operand::matrix(4, 3, 4));
        assert_eq!(p.operands[inputs], Operand::matrix(4, 4, 4));
        assert_eq!(placed[inputs].start, 0x3000);
        assert_eq!(p.access(inputs), Access::Update);
        assert_eq!(p.alpha.im == 0.0, routine == Herk);
        assert_eq!(p.beta.im == 0.0, hermitian);
        let across = R {
            op: transposed,
            lda: 3,
            ldb: 3,
            ..R0
        };
        let Checked::Run(p, _) = rank(routine, across) else {
            panic!("runs");
        };
        assert_eq!(p.op_a, transposed);
        assert_eq!(p.operands[0], Operand::matrix(3, 4, 3));
        for bad in [
            R { op: other, ..R0 },
            R { n: -1, ..R0 },
            R { k: -1, ..R0 },
            R { lda: 3, ..R0 },
            R { ldc: 3, ..R0 },
            R { lda: 2, ..across },
            R { k: 0, lda: 3, ..R0 },
        ] {
            assert_eq!(rank(routine, bad), Checked::Bad);
        }
        let short = rank(routine, R { ldb: 3, ..R0 });
        assert_eq!(short == Checked::Bad, inputs == 2);
        for nothing in [
            R { n: 0, ..R0 },
            R { k: 0, ..R0 },
            R {
                alpha: Value::ZERO,
                ..R0
            },
        ] {
            assert_eq!(rank(routine, nothing), Checked::NoProduct);
        }
        // Rank-k updates of real matrices: both transposes mean the same, and there is no Hermitian routine.
        for op in [Op::Trans, Op::ConjTrans] {
            let real = R {
                dtype: Dtype::D,
                op,
                ..across
            };
            match rank(routine, real) {
                Checked::Run(p, _) => assert_eq!((p.op_a, hermitian), (Op::Trans, false)),
                checked => assert_eq!((checked, hermitian), (Checked::Host, true)),
            }
        }
    }
}

#[derive(Clone, Copy)]
struct T {
    side: Side,
    m: i64,
    n: i64,
    lda: i64,
    ldb: i64,
    alpha: Value,
}
const T0: T = T {
    side: Side::Right,
    m: 3,
    n: 4,
    lda: 4,
    ldb: 3,
    alpha: TWO,
};
fn triangular(routine: Routine, t: T) -> Checked {
    let form = Form {
        side: t.side,
        uplo: Uplo::Upper,
        diag: Diag::Unit,
    };
    check(&Call {
        form,
        op_a: Op::Trans,
        alpha: t.alpha,
        ..Call::new(
            routine,
            Dtype::S,
            &[t.m, t.n],
            &[(0x1000, t.lda), (0x2000, t.ldb)],
        )
    })
}

#[test]
fn triangular_rules() {
    for routine in [Routine::Trmm, Routine::Trsm] {
        let Checked::Run(p, placed) = triangular(routine, T0) else {
            panic!("runs");
        };
        assert_eq!((p.m, p.n, p.k, p.op_a), (3, 4, 4, Op::Trans));
        assert_eq!((p.form.side, p.form.diag), (Side::Right, Diag::Unit));
        let operands = [Operand::matrix(4, 4, 4), Operand::matrix(3, 4, 3)];
        assert_eq!(p.operands, operands);
        assert_eq!((placed.len(), placed[1].start), (2, 0x2000));
        assert_eq!((p.access(0), p.access(1)), (Access::Read, Access::Update));
        let left = T {
            side: Side::Left,
            lda: 3,
            ..T0
        };
        let Checked::Run(p, _) = triangular(routine, left) else {
            panic!("runs");
        };
        assert_eq!((p.k, p.operands[0]), (3, Operand::matrix(3, 3, 3)));
        for bad in [
            T { m: -1, ..T0 },
            T { n: -1, ..T0 },
            T { lda: 3, ..T0 },
            T { ldb: 2, ..T0 },
            T { lda: 2, ..left },
            T { m: 0, ldb: 0, ..T0 },
        ] {
            assert_eq!(triangular(routine, bad), Checked::Bad);
        }
        for nothing in [
            T { m: 0, ..T0 },
            T { n: 0, ..T0 },
            T {
                alpha: Value::ZERO,
                ..T0
            },
        ] {
            assert_eq!(triangular(routine, nothing), Checked::NoProduct);
        }
    }
}
