//! With the library preloaded, on simulated devices: results are exact, and hints do what they say.
//!
//! `API_LIBRARY` names the library, which may be an older one; without it the package `semcache-blas` is built.
#![allow(
    unsafe_code,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test program; a panic is how a test fails"
)]

mod calls;

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::OnceLock;

use semcache_api::{
    Device, Distribution, Error, Hints, Pending, Place, Result, Transpose, View, ViewMut, predict,
    range, rates, scope, statistics,
};
use tempfile::TempDir;

const NO: Transpose = Transpose::No;

/// The library's path.
fn library() -> String {
    static BUILT: OnceLock<TempDir> = OnceLock::new();
    // The second one in the process of a test.
    for name in ["API_LIBRARY", "LD_PRELOAD"] {
        if let Ok(library) = env::var(name) {
            return library;
        }
    }
    let dir = BUILT.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let package = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("blas-shim");
        let to = dir.path().join("libsemcache_blas.so");
        testkit::build::library(package.to_str().unwrap(), &[], &to);
        dir
    });
    dir.path()
        .join("libsemcache_blas.so")
        .to_str()
        .unwrap()
        .to_owned()
}

/// Runs a test's body in a process with the library, where small matrices go to devices, too.
fn preloaded<F: FnOnce()>(body: F) {
    let library = library();
    assert!(Path::new(&library).exists(), "no library at {library}");
    let variables = [
        ("LD_PRELOAD", library.as_str()),
        ("SEMCACHE_DEVICES", "sim:2"),
        ("SEMCACHE_SIM", "late,poison"),
        ("SEMCACHE_OFFLOAD", "always"),
        ("SEMCACHE_PANEL", "4KiB"),
        ("SEMCACHE_OWN", "4KiB"),
        ("OPENBLAS_NUM_THREADS", "1"),
    ];
    let output = testkit::apart_under(&variables, body);
    let (said, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        output.status.success(),
        "{}\n{said}\n{errors}",
        output.status
    );
}

const N: usize = 192;

fn whole(seed: usize) -> Vec<f64> {
    (0..N * N)
        .map(|i| ((i * 7 + seed) % 11) as f64 - 5.0)
        .collect()
}

fn view(of: &[f64]) -> View<'_, f64> {
    View::new(of, N, N, N).unwrap()
}

fn view_mut(of: &mut [f64]) -> ViewMut<'_, f64> {
    ViewMut::new(of, N, N, N).unwrap()
}

/// The product, by its definition.
fn product(a: &[f64], b: &[f64]) -> Vec<f64> {
    let mut c = vec![0.0; N * N];
    for (c, b) in c.chunks_mut(N).zip(b.chunks(N)) {
        for (a, b) in a.chunks(N).zip(b) {
            c.iter_mut().zip(a).for_each(|(c, a)| *c += a * b);
        }
    }
    c
}

/// The answer of a function for which a library that is not of this tree may be too old.
fn newer<T>(answer: Result<T>) -> Option<T> {
    match answer {
        Err(Error::Absent) if env::var_os("API_LIBRARY").is_some() => None,
        other => Some(other.unwrap()),
    }
}

#[test]
fn calls_are_right() {
    preloaded(|| {
        calls::are_right(&[1, 2, 64, 130]).unwrap();
        let calls = statistics().unwrap().offloaded;
        assert!(calls >= 4 * 2 * 7, "{calls} calls ran on devices");
    });
}

#[test]
fn hints_move_matrices() {
    preloaded(|| {
        let mut a = whole(1);
        let all = (N * N * size_of::<f64>()) as u64;
        // Devices may not keep the bytes of pages that the matrix shares with other data.
        let nearly = |bytes: u64| (all - 2 * 4096..=all).contains(&bytes);
        let mut matrix = view_mut(&mut a);
        let sent = matrix.prefetch(Device::Number(1)).unwrap();
        assert_eq!(semcache_api::devices(), 2);
        sent.wait().unwrap();
        assert_eq!(sent.test(), Ok(true));
        assert!(nearly(matrix.residency(Place::Device(1)).unwrap()));
        assert!(nearly(matrix.residency(Place::AnyDevice).unwrap()));
        assert_eq!(matrix.residency(Place::Device(0)), Ok(0));
        assert_eq!(matrix.residency(Place::Host), Ok(all));
        matrix.coherent().unwrap().wait().unwrap();
        matrix.read_cpu().unwrap();
        assert!(nearly(matrix.residency(Place::Device(1)).unwrap()));
        matrix.write_cpu().unwrap();
        assert_eq!(matrix.residency(Place::AnyDevice), Ok(0));
        matrix.prefetch(Device::All).unwrap().wait().unwrap();
        assert!(matrix.residency(Place::Device(0)).unwrap() > 0);
        matrix.evict(Device::All).unwrap();
        assert_eq!(matrix.residency(Place::AnyDevice), Ok(0));
        assert!(statistics().unwrap().h2d >= 2 * (all - 2 * 4096));
        assert_eq!(a, whole(1));

        let on_stack = [0.0; 16];
        let on_stack = View::new(&on_stack, 4, 4, 4).unwrap();
        assert_eq!(on_stack.prefetch(Device::All), Err(Error::Untracked));
        assert_eq!(view(&a).prefetch(Device::Number(9)), Err(Error::Invalid));
        assert_eq!(
            view(&a).prefetch(Device::Number(u32::MAX)),
            Err(Error::Invalid)
        );
    });
}

#[test]
fn results_are_there_when_the_scope_has_ended() {
    preloaded(|| {
        let (a, b) = (whole(1), whole(2));
        let (mut c, mut d) = (vec![0.0; N * N], vec![0.0; N * N]);
        let chain = |c, d| {
            scope(|s| {
                let c = s.gemm(NO, NO, 1.0, view(&a), view(&b), 0.0, view_mut(c))?;
                newer(s.status().and_then(|()| c.coherent()));
                s.gemm(NO, NO, 1.0, c, view(&a), 0.0, view_mut(d)).map(drop)
            })
        };
        chain(&mut c, &mut d).unwrap();
        let first = product(&a, &b);
        assert!(c == first && d == product(&first, &a));
        // Also in a scope that is left by a panic, by an error, and in a scope inside another.
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            scope::<_, ()>(|s| {
                s.gemm(NO, NO, 2.0, view(&b), view(&a), 0.0, view_mut(&mut c))?;
                resume_unwind(Box::new(()))
            })
        }));
        assert!(panicked.is_err());
        let second = product(&b, &a);
        assert!(c.iter().zip(&second).all(|(c, s)| *c == 2.0 * s));
        let whole_scope = scope(|s| {
            let c = Pending::from(view_mut(&mut c));
            let inner = scope(|inner| {
                s.gemm(NO, NO, 1.0, view(&a), view(&b), 0.0, c)?;
                inner
                    .gemm(NO, NO, 1.0, c, view(&a), 0.0, view_mut(&mut d))
                    .map(drop)
            });
            assert!(inner == Ok(()) && d == product(&first, &a));
            s.gemm(NO, NO, 1.0, view(&b), view(&a), 0.0, c)?;
            Err::<(), _>(Error::Invalid)
        });
        assert!(whole_scope == Err(Error::Invalid) && c == second);
        assert!(statistics().unwrap().offloaded >= 6);
    });
}

#[test]
fn matrices_are_pinned_named_and_distributed() {
    preloaded(|| {
        let (a, b, mut c) = (whole(1), whole(2), vec![0.0; N * N]);
        let mut result = view_mut(&mut c);
        newer(view(&a).name("A"));
        newer(view(&a).name(""));
        let pinned = newer(view(&a).pin(Device::All));
        if let Some(pinned) = &pinned {
            pinned.sent().wait().unwrap();
            assert!(view(&a).residency(Place::AnyDevice).unwrap() > 0);
        }
        // An output, too.
        let output = newer(result.pin(Device::Number(0)));
        let cyclic = Distribution::Cyclic {
            mb: 64,
            nb: 64,
            p: 2,
            q: 1,
        };
        newer(result.distribute(cyclic).and_then(|sent| sent.wait()));
        let owner = |i, j| u32::from((i + j) % 2 == 1);
        newer(
            view(&b)
                .distribute_by(64, 96, owner)
                .and_then(|sent| sent.wait()),
        );
        scope(|s| {
            s.gemm(NO, NO, 1.0, view(&a), view(&b), 0.0, result.reborrow())
                .map(drop)
        })
        .unwrap();
        assert!(result.columns_mut().eq(product(&a, &b).chunks(N)));
        drop((pinned, output));
        newer(result.distribute(Distribution::Nowhere));
        assert!(c == product(&a, &b));
        let panicked =
            catch_unwind(|| view(&b).distribute_by(64, 64, |_, _| resume_unwind(Box::new(()))));
        assert!(panicked.map_or(true, |answer| newer(answer).is_none()));
    });
}

#[test]
fn kernels_of_the_program_use_matrices_on_devices() {
    preloaded(|| {
        let (a, mut c) = (whole(1), whole(2));
        // Simulated devices have memory that the CPU can use.
        let column = |of: &semcache_api::DeviceMatrix, j: usize| {
            assert!(of.context.is_null() && of.ld >= N);
            std::ptr::with_exposed_provenance_mut::<f64>(of.address as usize)
                .wrapping_add(j * of.ld)
        };
        let mut result = view_mut(&mut c);
        let sums = view(&a).read_gpu(1, |a| {
            result.write_gpu(1, |c| {
                for j in 0..N {
                    // SAFETY: columns of as many elements are there until the function returns.
                    unsafe { std::ptr::copy(column(a, j), column(c, j), N) };
                }
            })
        });
        let done = newer(sums.and_then(|done| done)).is_some();
        assert!(c == whole(if done { 1 } else { 2 }));
    });
}

#[test]
fn rates_and_predictions_are_told() {
    preloaded(|| {
        let _named = range("all of it");
        view(&whole(1))
            .prefetch(Device::All)
            .unwrap()
            .wait()
            .unwrap();
        if let Some(rates) = newer(rates(0)) {
            assert!(rates.h2d_bytes_per_s > 0.0 && rates.memory > 0);
            assert_eq!(semcache_api::rates(9), Err(Error::Invalid));
        }
        if let Some(expected) = newer(predict("dgemm", [1000, 1000, 1000], false)) {
            assert!(expected.devices <= 2 && expected.host_s > 0.0 && expected.devices_s > 0.0);
            assert_eq!(predict("nonsense", [1, 1, 1], false), Err(Error::Invalid));
        }
    });
}
