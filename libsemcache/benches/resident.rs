//! Benchmark of the runtime's own time in a BLAS call on resident operands, on a device whose kernels and copies take
//! no time.
//!
//! `cargo bench -p semcache --bench resident [CALLS] [WORDS]` prints nanoseconds per call, for replayed calls and for
//! calls that are planned anew; WORDS: only the lines that contain all of these words.
#![expect(unsafe_code, reason = "plays an unmodified program")]
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measuring program of its own"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "a measuring program of its own, not the library in a user's process"
)]

mod null;

use std::time::Instant;

use null::{Null, block};
use semcache::base::{Dtype, Routine, Value};
use semcache::blas::{Call, Outcome};
use semcache::host::heap;
use semcache::runtime::{self, Facts};

const N: usize = 1 << 17;

fn int(n: usize) -> i64 {
    i64::try_from(n).unwrap()
}

/// Prints nanoseconds per call, the best of a few rounds; `vary` turns each call into one that no earlier call equals.
fn measure(what: &str, calls: usize, round: &[Call], vary: &dyn Fn(&Call, usize) -> Call) {
    let mut words = std::env::args().skip(1).filter(|a| !a.starts_with('-'));
    if words.any(|w| w.parse::<usize>().is_err() && !what.contains(&w)) {
        return;
    }
    let issue = |c: &Call| {
        assert_ne!(runtime::call(c, &Facts::default()), Outcome::Host, "{c:?}");
    };
    let mut best = f64::INFINITY;
    for _ in 0..7 {
        for c in round.iter().chain(round).chain(round) {
            issue(c);
        }
        let start = Instant::now();
        for i in 0..calls {
            issue(&vary(&round[i % round.len()], i));
        }
        best = best.min(start.elapsed().as_secs_f64() / calls as f64 * 1e9);
    }
    println!("{what:<44} {best:>8.0} ns per call");
}

/// One element fewer in each call, so that no call can be replayed.
fn shorter(c: &Call, i: usize) -> Call {
    let less = int(i % 1000);
    let less = if c.routine.level() == 1 {
        less
    } else {
        less % 256
    };
    Call {
        m: c.m - less,
        ..*c
    }
}

fn main() {
    let calls: usize = std::env::args()
        .find_map(|a| a.parse().ok())
        .unwrap_or(100_000);
    for (name, value) in [
        ("SEMCACHE_OFFLOAD", "always"),
        ("SEMCACHE_DEVICES", "sim:1"),
    ] {
        if std::env::var_os(name).is_none() {
            // SAFETY: no other thread runs yet.
            unsafe { std::env::set_var(name, value) };
        }
    }
    heap::configure(1 << 20);
    assert!(runtime::start::start_on(Box::leak(Box::new(Null::new(1, 0)))).is_some());
    let (x, y, z) = (block(N, true), block(N, true), block(N, true));
    let a = block(512 * 512, true);
    let half = Value { re: 0.5, im: 0.0 };
    let dtype = Dtype::D;
    let vectors = |routine, operands: &[(usize, i64)]| Call {
        alpha: half,
        ..Call::new(routine, dtype, &[int(N)], operands)
    };
    let axpy = vectors(Routine::Axpy, &[(x, 1), (y, 1)]);
    let dot = vectors(Routine::Dot, &[(x, 1), (y, 1)]);
    let nrm2 = vectors(Routine::Nrm2, &[(x, 1)]);
    let gemv = Call {
        alpha: half,
        beta: half,
        ..Call::new(
            Routine::Gemv,
            dtype,
            &[512, 512],
            &[(a, 512), (x, 1), (z, 1)],
        )
    };
    let same = |c: &Call, _: usize| *c;
    let chain = [axpy, dot, gemv];
    let each = [
        ("daxpy", axpy),
        ("ddot", dot),
        ("dnrm2", nrm2),
        ("dgemv", gemv),
    ];
    for (name, c) in &each {
        measure(
            &format!("{name}, the same again"),
            calls,
            std::slice::from_ref(c),
            &same,
        );
    }
    measure("daxpy, ddot, dgemv in turn", calls, &chain, &same);
    for (name, c) in &each {
        measure(
            &format!("{name}, another each time"),
            calls,
            std::slice::from_ref(c),
            &shorter,
        );
    }
}
