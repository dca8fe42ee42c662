//! The argument rules of level-2 routines with one triangle, and of rotations.

use super::*;

/// A call of the routine whose arguments are all legal.
fn legal(routine: Routine, dtype: Dtype) -> Call {
    let (n, lda, incx, incy) = (4, 5, 2, -1);
    let (alpha, beta, uplo) = (TWO, Value::ZERO, Uplo::Upper);
    let (a, x, y) = (0x1000, 0x2000, 0x3000);
    match routine {
        Routine::Symv | Routine::Hemv => Call {
            form: Form {
                uplo,
                ..Form::default()
            },
            alpha,
            beta,
            ..Call::new(routine, dtype, &[n], &[(a, lda), (x, incx), (y, incy)])
        },
        Routine::Trmv | Routine::Trsv => Call {
            form: Form {
                side: Side::Left,
                uplo,
                diag: Diag::Unit,
            },
            op_a: Op::Trans,
            ..Call::new(routine, dtype, &[n], &[(a, lda), (x, incx)])
        },
        Routine::Syr | Routine::Her => Call {
            form: Form {
                uplo,
                ..Form::default()
            },
            alpha: Value { re: 2.0, im: 7.0 },
            ..Call::new(routine, dtype, &[n], &[(x, incx), (a, lda)])
        },
        Routine::Syr2 | Routine::Her2 => Call {
            form: Form {
                uplo,
                ..Form::default()
            },
            alpha: Value { re: 2.0, im: 7.0 },
            ..Call::new(routine, dtype, &[n], &[(x, incx), (y, incy), (a, lda)])
        },
        _ => Call {
            alpha,
            beta,
            ..Call::new(routine, dtype, &[n], &[(x, incx), (y, incy)])
        },
    }
}

const ALL: [Routine; 8] = [
    Routine::Symv,
    Routine::Hemv,
    Routine::Trmv,
    Routine::Trsv,
    Routine::Syr,
    Routine::Her,
    Routine::Syr2,
    Routine::Her2,
];

fn of(routine: Routine, dtype: Dtype, change: impl Fn(&mut Call)) -> Checked {
    let mut call = legal(routine, dtype);
    change(&mut call);
    check(&call)
}

/// The result for the legal call with one argument changed: the size (0), leading dimension (1), increment of x (2) or
/// of y (3), if the routine has that.
fn with(routine: Routine, part: usize, value: i64) -> Checked {
    of(routine, Dtype::Z, |call| {
        if part == 0 {
            let size = routine.record().signature.sizes[0];
            *call.size_mut(size) = value;
        }
        let addr = [0, 0x1000, 0x2000, 0x3000][part];
        let mut operands = call.at.iter_mut();
        if let Some(at) = operands.find(|at| part > 0 && at.addr == addr) {
            at.ld = value;
        }
    })
}

#[test]
fn triangles_and_vectors() {
    for routine in ALL {
        let Checked::Run(p, placed) = of(routine, Dtype::Z, |_| {}) else {
            panic!("runs");
        };
        assert_eq!((p.m, p.n, p.k, p.form.uplo), (4, 4, 1, Uplo::Upper));
        let matrix = p.operands.iter().position(|o| !o.vector).expect("one");
        assert_eq!(p.operands[matrix], Operand::matrix(4, 4, 5));
        assert_eq!(placed[matrix].start, 0x1000);
        assert_eq!(placed.len(), p.operands.len());
        let access: Vec<_> = (0..placed.len()).map(|i| p.access(i)).collect();
        let (x, y) = (Operand::vector(4, 2, false), Operand::vector(4, 1, true));
        let vectors: Vec<_> = p.operands.iter().copied().filter(|o| o.vector).collect();
        use Access::{Overwrite, Read, Update};
        match routine {
            Routine::Symv | Routine::Hemv => {
                assert_eq!(access, [Read, Read, Overwrite]);
                assert_eq!(vectors, [x, y]);
            }
            Routine::Trmv | Routine::Trsv => {
                assert_eq!(access, [Read, Update]);
                assert_eq!((p.op_a, p.form.diag), (Op::Trans, Diag::Unit));
                assert_eq!(vectors, [x]);
            }
            Routine::Syr | Routine::Her => {
                assert_eq!(access, [Read, Update]);
                assert_eq!(p.alpha.im, if routine == Routine::Her { 0.0 } else { 7.0 });
            }
            _ => {
                assert_eq!(access, [Read, Read, Update]);
                assert_eq!((vectors, p.alpha.im), (vec![x, y], 7.0));
            }
        }
        assert_eq!(with(routine, 0, -1), Checked::Bad);
        assert_eq!(with(routine, 0, 0), Checked::NoProduct);
        assert_eq!(with(routine, 1, 3), Checked::Bad);
        assert!(runs(&with(routine, 1, 4)));
        assert_eq!(with(routine, 2, 0), Checked::Bad);
        let two = !matches!(
            routine,
            Routine::Trmv | Routine::Trsv | Routine::Syr | Routine::Her
        );
        assert_eq!(with(routine, 3, 0) == Checked::Bad, two);
        let zero = of(routine, Dtype::Z, |call| call.alpha = Value::ZERO);
        let scaled = !matches!(routine, Routine::Trmv | Routine::Trsv);
        assert_eq!(zero == Checked::NoProduct, scaled);
        let hermitian = matches!(routine, Routine::Hemv | Routine::Her | Routine::Her2);
        let real = of(routine, Dtype::D, |_| {});
        assert_eq!(real == Checked::Host, hermitian);
    }
}

#[test]
fn what_a_symv_without_a_product_scales() {
    let mut call = legal(Routine::Symv, Dtype::D);
    let [scaling] = scaled(&call)[..] else {
        panic!("y");
    };
    assert_eq!((scaling.place.start, scaling.place.width), (0x3000, 32));
    call.n = 0;
    assert_eq!(scaled(&call), []);
    assert_eq!(scaled(&legal(Routine::Syr2, Dtype::D)), []);
}

#[test]
fn rotations() {
    for routine in [Routine::Rot, Routine::Rotm] {
        let Checked::Run(p, placed) = of(routine, Dtype::S, |_| {}) else {
            panic!("runs");
        };
        assert_eq!((p.m, p.alpha, p.beta), (4, TWO, Value::ZERO));
        assert_eq!((placed[0].count, placed[1].width), (4, 16));
        assert_eq!((p.access(0), p.access(1)), (Access::Update, Access::Update));
        for n in [-1, 0] {
            assert_eq!(with(routine, 0, n), Checked::NoProduct);
        }
        assert_eq!(with(routine, 2, 0), Checked::Host);
        assert_eq!(with(routine, 3, 0), Checked::Host);
        let complex = of(routine, Dtype::C, |_| {});
        assert_eq!(complex == Checked::Host, routine == Routine::Rotm);
    }
}
