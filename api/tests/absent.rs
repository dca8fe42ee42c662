//! Without the library: hints are absent, and scopes compute with the program's BLAS.
#![allow(
    unsafe_code,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test program, which loads a BLAS; a panic is how a test fails"
)]

mod calls;

use num_complex::Complex;
use semcache_api::{
    Device, Diag, Distribution, Error, Hints, Place, ShapeError, Side, Transpose, Uplo, View,
    ViewMut, scope,
};

const NO: Transpose = Transpose::No;

fn load_blas() {
    let load = |name: &&std::ffi::CStr| {
        // SAFETY: a BLAS may be loaded at any time.
        let found = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        !found.is_null()
    };
    let names = [c"libblas.so.3", c"libopenblas.so.0"];
    assert!(
        names.iter().any(load),
        "no BLAS: scripts/setup.sh installs one"
    );
}

#[test]
fn hints_are_absent() {
    let mut a = vec![1.0; 20];
    let mut view = ViewMut::new(&mut a, 4, 5, 4).unwrap();
    let absent = Error::Absent;
    assert_eq!(view.prefetch(Device::All), Err(absent));
    assert_eq!(view.coherent(), Err(absent));
    assert_eq!(view.read_cpu(), Err(absent));
    assert_eq!(view.write_cpu(), Err(absent));
    assert_eq!(view.evict(Device::Number(0)), Err(absent));
    assert_eq!(view.residency(Place::Host), Err(absent));
    assert_eq!(view.distribute(Distribution::Rows), Err(absent));
    assert_eq!(view.distribute_by(1, 1, |_, _| unreachable!()), Err(absent));
    assert_eq!(view.pin(Device::All).unwrap_err(), absent);
    assert_eq!(view.name("a"), Err(absent));
    assert_eq!(
        view.as_view().read_gpu(0, |_| unreachable!()),
        Err::<(), _>(absent)
    );
    assert_eq!(view.write_gpu(0, |_| unreachable!()), Err::<(), _>(absent));
    assert_eq!(semcache_api::statistics(), Err(absent));
    assert_eq!(semcache_api::rates(0), Err(absent));
    assert_eq!(semcache_api::predict("dgemm", [1, 1, 1], true), Err(absent));
    assert_eq!(semcache_api::devices(), 0);
    drop(semcache_api::range("a"));
    assert_eq!(scope(|s| Ok(s.status())), Ok(Err(absent)));
}

#[test]
fn without_a_blas_calls_say_so_and_one_may_come_later() {
    testkit::alone(|| {
        let (a, mut c) = ([2.0_f32], [1.0]);
        let mut product = || {
            scope(|s| {
                let a = View::new(&a, 1, 1, 1)?;
                s.gemm(NO, NO, 1.0, a, a, 3.0, ViewMut::new(&mut c, 1, 1, 1)?)
                    .map(drop)
            })
        };
        assert_eq!(product(), Err(Error::NoBlas("sgemm_")));
        load_blas();
        assert_eq!(product(), Ok(()));
        assert_eq!(c, [7.0]);
    });
}

#[test]
fn calls_are_right() {
    testkit::alone(|| {
        load_blas();
        calls::are_right(&[1, 2, 3, 20, 65]).unwrap();
    });
}

/// What a call of a routine with these views says.
macro_rules! says {
    (|$s:ident| $call:expr) => {
        scope(|$s| $call.map(drop))
    };
}

#[test]
fn sizes_must_agree() {
    let mismatch = Err(Error::Shape(ShapeError::Mismatch));
    let a = [0.0; 100];
    let of = |rows, cols| View::new(&a, rows, cols, 10).unwrap();
    let mut c = [0.0; 100];
    let mut out = ViewMut::new(&mut c, 4, 5, 10).unwrap();
    let (yes, left, upper) = (Transpose::Yes, Side::Left, Uplo::Upper);
    for (ta, tb, a, b) in [
        (NO, NO, of(4, 3), of(4, 5)),
        (NO, NO, of(5, 3), of(3, 5)),
        (NO, NO, of(4, 3), of(3, 4)),
        (yes, NO, of(4, 3), of(3, 5)),
        (NO, Transpose::Conjugate, of(4, 3), of(3, 5)),
    ] {
        assert_eq!(
            says!(|s| s.gemm(ta, tb, 1.0, a, b, 0.0, out.reborrow())),
            mismatch
        );
    }
    for (side, a, b) in [
        (left, of(5, 5), of(4, 5)),
        (Side::Right, of(4, 4), of(4, 5)),
        (left, of(4, 5), of(4, 5)),
        (left, of(4, 4), of(4, 4)),
    ] {
        assert_eq!(
            says!(|s| s.symm(side, upper, 1.0, a, b, 0.0, out.reborrow())),
            mismatch
        );
    }
    for (side, a) in [(left, of(5, 5)), (Side::Right, of(4, 4)), (left, of(4, 5))] {
        assert_eq!(
            says!(|s| s.trmm(side, upper, NO, Diag::Unit, 1.0, a, out.reborrow())),
            mismatch
        );
        assert_eq!(
            says!(|s| s.trsm(side, upper, NO, Diag::Unit, 1.0, a, out.reborrow())),
            mismatch
        );
    }
    assert_eq!(
        says!(|s| s.syrk(upper, NO, 1.0, of(4, 4), 0.0, out.reborrow())),
        mismatch
    );
    let mut square = out.block(.., ..4).unwrap();
    assert_eq!(
        says!(|s| s.syrk(upper, yes, 1.0, of(4, 5), 0.0, square.reborrow())),
        mismatch
    );
}

#[test]
fn what_the_blas_cannot_be_told_is_invalid() {
    let mut none: [f64; 0] = [];
    let long = ViewMut::new(&mut none, 0, 1 << 40, 1).unwrap();
    let (a, b) = (
        View::new(&[], 0, 0, 1).unwrap(),
        View::new(&[], 0, 1 << 40, 1).unwrap(),
    );
    assert_eq!(
        says!(|s| s.gemm(NO, NO, 1.0, a, b, 0.0, long)),
        Err(Error::Invalid)
    );

    let (one, a) = (Complex::new(1.0, 0.0), [Complex::new(1.0_f32, 0.0)]);
    let (a, mut c) = (View::new(&a, 1, 1, 1).unwrap(), a);
    let c = ViewMut::new(&mut c, 1, 1, 1).unwrap();
    let conjugate = Transpose::Conjugate;
    assert_eq!(
        says!(|s| s.syrk(Uplo::Upper, conjugate, one, a, one, c)),
        Err(Error::Invalid)
    );
}
