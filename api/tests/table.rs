//! What the library is asked, by a library in its place that writes it down.
#![allow(
    unsafe_code,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test program, which loads a library; a panic is how a test fails"
)]

use std::ffi::{CStr, CString, c_char};
use std::mem::{forget, transmute};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

use semcache_api::{
    Device, Distribution, Error, Hints, Pending, Place, Scope, Transpose, View, ViewMut, scope,
};

const NO: Transpose = Transpose::No;

/// Loads the library, or an older one, into this process.
fn load(older: bool) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dir = tempfile::tempdir().unwrap();
    let library = dir.path().join("mock.so");
    let include = format!("-I{}", here.join("../include").display());
    let version = if older { "-DOLDER" } else { "-DNEWER" };
    let arguments = ["-shared", "-fPIC", &include, version];
    testkit::build::c(&here.join("tests/mock.c"), &library, &arguments);
    let name = CString::new(library.to_str().unwrap()).unwrap();
    // SAFETY: a library without constructors.
    let loaded = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    assert!(!loaded.is_null());
}

/// What it was asked since the last time.
fn asked() -> String {
    // SAFETY: the library has this function, which returns a string.
    unsafe {
        let found = libc::dlsym(libc::RTLD_DEFAULT, c"mock_written".as_ptr());
        let written: extern "C" fn() -> *const c_char = transmute(found);
        CStr::from_ptr(written()).to_str().unwrap().to_owned()
    }
}

#[test]
fn arguments_are_those_of_the_header() {
    testkit::alone(|| {
        load(false);
        let a = vec![0.0; 100];
        let view = View::new(&a, 4, 5, 6).unwrap();
        let event = view.prefetch(Device::All).unwrap();
        assert_eq!(view.prefetch(Device::Number(7)), Err(Error::NoRoom));
        assert_eq!(event.test(), Ok(false));
        assert_eq!(event.wait(), Err(Error::Lost));
        view.coherent().unwrap();
        view.read_cpu().unwrap();
        view.evict(Device::Number(2)).unwrap();
        assert_eq!(view.residency(Place::Device(2)), Ok(1002));
        assert_eq!(view.residency(Place::AnyDevice), Ok(999));
        assert_eq!(view.residency(Place::Host), Ok(998));
        view.name("A").unwrap();
        view.name("").unwrap();
        assert_eq!(view.name("\0"), Err(Error::Invalid));
        let expected = "\
            prefetch 4x5 ld 6 of 8: -1 event\nprefetch 4x5 ld 6 of 8: 7\nwait 42 0\nwait 42 1\n\
            coherent 4x5 ld 6 of 8: event\nto_cpu 4x5 ld 6 of 8: 0\nevict 4x5 ld 6 of 8: 2\n\
            residency 4x5 ld 6 of 8: 2\nresidency 4x5 ld 6 of 8: -1\nresidency 4x5 ld 6 of 8: -2\n\
            name 4x5 ld 6 of 8: A\nname 4x5 ld 6 of 8: (null)\n";
        assert_eq!(asked(), expected);

        let mut c = [num_complex::Complex::new(0.0_f32, 0.0); 6];
        ViewMut::new(&mut c, 2, 3, 2).unwrap().write_cpu().unwrap();
        assert_eq!(asked(), "to_cpu 2x3 ld 2 of 8: 1\n");

        assert_eq!(semcache_api::devices(), 3);
        let so_far = semcache_api::statistics().unwrap();
        let counts = [
            so_far.offloaded,
            so_far.h2d,
            so_far.d2h,
            so_far.p2p,
            so_far.faults,
        ];
        assert_eq!(counts, [1, 2, 3, 4, 5]);
        let rates = semcache_api::rates(0).unwrap();
        assert!(rates.h2d_bytes_per_s == 2.0 && rates.memory == 10);
        assert_eq!(semcache_api::rates(1), Err(Error::Invalid));
        let expected = semcache_api::predict("sgemm", [3, 4, 5], true).unwrap();
        assert_eq!(
            (expected.devices, expected.host_s, expected.devices_s),
            (2, 0.5, 0.25)
        );
        assert_eq!(asked(), "predict sgemm 3 4 5 1\n");
        let outer = semcache_api::range("outer");
        drop(semcache_api::range("inner"));
        drop(outer);
        assert_eq!(
            asked(),
            "range outer\nrange inner\nrange (null)\nrange (null)\n"
        );
    });
}

#[test]
fn an_older_library_lacks_functions() {
    testkit::alone(|| {
        load(true);
        let mut a = vec![0.0; 100];
        assert_eq!(semcache_api::devices(), 3);
        let mut view = ViewMut::new(&mut a, 4, 5, 6).unwrap();
        assert!(view.prefetch(Device::All).is_ok());
        asked();
        assert_eq!(view.coherent(), Err(Error::Absent));
        assert_eq!(view.write_cpu(), Err(Error::Absent));
        assert_eq!(view.write_gpu(0, |_| ()), Err(Error::Absent));
        assert_eq!(semcache_api::statistics(), Err(Error::Absent));
        drop(semcache_api::range("a"));
        let status = scope(|s| Ok(s.status()));
        assert_eq!(status, Ok(Err(Error::Absent)));
        assert_eq!(asked(), "");
    });
}

#[test]
fn a_scope_waits_at_its_end() {
    testkit::alone(|| {
        load(false);
        let (a, b, mut c) = (vec![2.0; 12], vec![3.0; 12], vec![4.0; 12]);
        let done = scope(|s| {
            assert_eq!(s.status(), Ok(()));
            let (a, b) = (View::new(&a, 2, 3, 4)?, View::new(&b, 2, 3, 3)?);
            let c = ViewMut::new(&mut c, 2, 2, 5)?;
            s.gemm(NO, Transpose::Yes, -1.0, a, b, 0.5, c)?;
            asked_is("section 1\ndgemm NT 2 2 3, -1, 4 2, 3 3, 0.5, 5 4, 11\n");
            Ok(7)
        });
        assert_eq!(done, Ok(7));
        asked_is("section 0\n");
        // Errors and panics end it, too; and nothing that is forgotten keeps it open.
        let failed = scope(|s| {
            let c = Pending::from(ViewMut::new(&mut c, 2, 2, 5)?);
            forget(Box::new((s, c)));
            s.gemm(NO, NO, 1.0, c, View::new(&b, 2, 2, 2)?, 0.0, c)
                .map(drop)
        });
        assert_eq!(failed, Err(Error::Overlap));
        asked_is("section 1\nsection 0\n");
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            scope::<_, ()>(|s| {
                let (a, b) = (View::new(&a, 2, 2, 4)?, View::new(&b, 2, 2, 2)?);
                let result = s.gemm(NO, NO, 1.0, a, b, 0.0, ViewMut::new(&mut c, 2, 2, 5)?)?;
                forget(Box::new((s, result)));
                resume_unwind(Box::new(4))
            })
        }));
        assert_eq!(*panicked.unwrap_err().downcast::<i32>().unwrap(), 4);
        asked_is("section 1\ndgemm NN 2 2 2, 1, 4 2, 2 3, 0, 5 4, 11\nsection 0\n");
    });
}

fn asked_is(expected: &str) {
    assert_eq!(asked(), expected);
}

#[test]
fn the_end_of_an_inner_scope_waits() {
    testkit::alone(|| {
        load(false);
        let begun = "section 1\n".repeat(2);
        scope(|_| {
            let inner = |_: &Scope<'_, '_>| {
                asked_is(&begun);
                Ok(())
            };
            scope(inner)?;
            asked_is("section 0\nsection 0\nsection 1\n");
            scope(|_| scope(inner))?;
            asked_is("section 0\nsection 0\nsection 0\nsection 1\nsection 1\nsection 0\nsection 0\nsection 1\n");
            Ok(())
        })
        .unwrap();
        asked_is("section 0\n");
    });
}

#[test]
fn what_is_pinned_or_held_ends() {
    testkit::alone(|| {
        load(false);
        let mut a = vec![0.0; 100];
        let mut view = ViewMut::new(&mut a, 4, 5, 6).unwrap();
        let pinned = view.pin(Device::Number(1)).unwrap();
        assert_eq!(pinned.sent().test(), Ok(false));
        // The matrix may be used meanwhile, through the view.
        view.columns_mut().for_each(|column| column.fill(1.0));
        asked_is("pin 4x5 ld 6 of 8: 1 1 event\nwait 42 0\n");
        drop(pinned);
        asked_is("pin 4x5 ld 6 of 8: -1 0\n");
        let found = view.write_gpu(1, |found| (found.address, found.ld, found.device));
        assert_eq!(found, Ok((0x1000, 64, 1)));
        asked_is("to_gpu 4x5 ld 6 of 8: 1 1\nrelease 99\n");
        let panicked = catch_unwind(|| view.as_view().read_gpu(0, |_| resume_unwind(Box::new(5))));
        assert_eq!(*panicked.unwrap_err().downcast::<i32>().unwrap(), 5);
        asked_is("to_gpu 4x5 ld 6 of 8: 0 0\nrelease 99\n");
    });
}

#[test]
fn matrices_are_distributed() {
    testkit::alone(|| {
        load(false);
        let a = vec![0.0; 100];
        let view = View::new(&a, 4, 5, 6).unwrap();
        let cyclic = Distribution::Cyclic {
            mb: 8,
            nb: 9,
            p: 2,
            q: 3,
        };
        let blocks = Distribution::Blocks { p: 0, q: 0 };
        for by in [
            Distribution::Nowhere,
            Distribution::Rows,
            Distribution::Columns,
            blocks,
            cyclic,
        ] {
            view.distribute(by).unwrap();
        }
        view.distribute_by(2, 3, |i, j| (10 * i + j) as u32)
            .unwrap();
        let all = [
            "0 0x0 0x0",
            "1 0x0 0x0",
            "2 0x0 0x0",
            "3 0x0 0x0",
            "4 8x9 2x3",
            "5 2x3 0x0 0 10 1 11",
        ];
        let lines = all.map(|line| format!("distribute 4x5 ld 6 of 8: {line} event\n"));
        assert_eq!(asked(), lines.concat());
        // A panic goes on behind the library, which has been told of no such device.
        let owner = |i: usize, _: usize| {
            if i == 0 {
                0
            } else {
                resume_unwind(Box::new(6))
            }
        };
        let panicked = catch_unwind(|| view.distribute_by(2, 3, owner));
        assert_eq!(*panicked.unwrap_err().downcast::<i32>().unwrap(), 6);
        asked_is("distribute 4x5 ld 6 of 8: 5 2x3 0x0 0 2147483647 0 2147483647 event\n");
        let huge = Distribution::Blocks { p: u32::MAX, q: 1 };
        assert_eq!(view.distribute(huge), Err(Error::Invalid));
        assert_eq!(asked(), "");
    });
}
