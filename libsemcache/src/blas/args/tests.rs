//! The rules, routine by routine.

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
