//! Push: results that the CPU reads in each round are written back before the CPU touches them, and results that the
//! program does not read are not: counted.
//!
//! Faults and counters belong to the process, so each scenario runs in one of its own under each configuration. Data
//! are small integers: every comparison is of bits.
#![expect(clippy::unwrap_used, reason = "a test program of its own")]
#![expect(
    unsafe_code,
    reason = "plays an unmodified program: raw memory, raw addresses"
)]

#[path = "push/block.rs"]
mod block;

use std::collections::BTreeMap;
use std::time::Instant;

use block::{Block, run};
use semcache::base::counters::COUNTERS;
use semcache::base::dtype::Dtype;
use semcache::base::{Interval, Op, Rect, Routine, Value};
use semcache::blas::{Call, Outcome, Pointer};
use semcache::cache::call::Survey;
use semcache::cache::hot::OPERANDS;
use semcache::host::{self, heap};
use semcache::runtime::{self, Facts};
use testkit::runner::{self, Case};

/// Waits for pieces that are being written back, so that the rest of the test does not depend on their speed.
fn land(x: &Block) {
    let cache = runtime::get().and_then(|r| r.cache).unwrap();
    let block = host::find(x.addr()).unwrap();
    let whole = Rect::from(Interval::new(0, x.want.len() * 8));
    let (coming, _) = cache.settle(std::iter::empty(), &[(block.id, whole)]);
    cache.arrive(&coming).unwrap();
}

/// `C := A B + beta C`, all of them `n` x `n`.
fn gemm(n: usize, a: &Block, b: &Block, beta: f64, c: &mut Block) {
    let int = i64::try_from(n).unwrap();
    let call = |a: usize, b: usize, c: usize| Call {
        op_a: Op::None,
        op_b: Op::None,
        beta: Value { re: beta, im: 0.0 },
        ..Call::new(
            Routine::Gemm,
            Dtype::D,
            &[int, int, int],
            &[(a, int), (b, int), (c, int)],
        )
    };
    run(&call(a.addr(), b.addr(), c.addr()));
    let at = |x: &[f64]| x.as_ptr().addr();
    let _ = semcache::blas::local::compute(None, &call(at(&a.want), at(&b.want), at(&c.want)));
}

/// `y := A x`, A is `m` x `n`.
fn gemv((m, n): (usize, usize), a: &Block, x: &Block, y: &mut Block) {
    let int = |i: usize| i64::try_from(i).unwrap();
    let call = |a: usize, x: usize, y: usize| Call {
        op_a: Op::None,
        beta: Value::ZERO,
        ..Call::new(
            Routine::Gemv,
            Dtype::D,
            &[int(m), int(n)],
            &[(a, int(m)), (x, 1), (y, 1)],
        )
    };
    run(&call(a.addr(), x.addr(), y.addr()));
    let at = |x: &[f64]| x.as_ptr().addr();
    let _ = semcache::blas::local::compute(None, &call(at(&a.want), at(&x.want), at(&y.want)));
}

/// What the counters added since `before`.
#[derive(Clone, Copy, Debug)]
struct Counts {
    reads: u64,
    writes: u64,
    d2h: u64,
    h2d: u64,
}

fn counts() -> Counts {
    Counts {
        reads: COUNTERS.faults.read.get(),
        writes: COUNTERS.faults.write.get(),
        d2h: COUNTERS.bytes.d2h.get() + COUNTERS.bytes.mapped.get(),
        h2d: COUNTERS.bytes.h2d.get(),
    }
}

fn since(before: Counts) -> Counts {
    let now = counts();
    Counts {
        reads: now.reads - before.reads,
        writes: now.writes - before.writes,
        d2h: now.d2h - before.d2h,
        h2d: now.h2d - before.h2d,
    }
}

/// Large enough to be pushed while no thread waits for it.
const LARGE: usize = 384;
const LARGE_BYTES: u64 = (LARGE * LARGE * 8) as u64;

/// `D = A B; D += A C; read D`: from the third round on the second product is written back once, before the CPU touches
/// it.
fn abac() {
    let n = LARGE;
    let [a, b, c] = [1, 2, 3].map(|seed| Block::new(n * n, seed));
    let mut d = Block::new(n * n, 4);
    for round in 0..6 {
        let before = counts();
        gemm(n, &a, &b, 0.0, &mut d);
        assert_eq!(since(before).d2h, 0, "round {round}");
        gemm(n, &a, &c, 1.0, &mut d);
        let pushed = since(before).d2h;
        land(&d);
        d.check(&format!("round {round}"));
        let all = since(before);
        assert_eq!(all.d2h, LARGE_BYTES, "round {round}");
        if round < 2 {
            assert_eq!(pushed, 0, "round {round}");
            assert!(all.reads > 1, "round {round}: {all:?}");
        } else {
            assert_eq!(pushed, LARGE_BYTES, "round {round}");
            // Panels that are written back are made accessible at once.
            assert_eq!(all.reads, 1, "round {round}");
        }
    }
    // From here on the CPU does not read the result.
    let before = counts();
    for _ in 0..5 {
        gemm(n, &a, &b, 0.0, &mut d);
        gemm(n, &a, &c, 1.0, &mut d);
    }
    assert_eq!(since(before).d2h, LARGE_BYTES, "pushed once for nothing");
    d.check("after many products");
    // The CPU writes into a result that is being written back.
    for round in 0..8 {
        gemm(n, &a, &b, 0.0, &mut d);
        d.set(round * 1000, 1.0);
        d.set(n * n - 1 - round * 777, 2.0);
        d.check(&format!("written in round {round}"));
        gemm(n, &a, &d, 1.0, &mut Block::new(n * n, 5));
    }
}

/// A result that was pushed, and is read when all of it is written back, costs one fault.
fn landed() {
    let n = LARGE;
    let [a, b] = [1, 2].map(|seed| Block::new(n * n, seed));
    let mut d = Block::new(n * n, 4);
    for round in 0..6 {
        gemm(n, &a, &b, 0.0, &mut d);
        land(&d);
        let before = counts();
        d.check(&format!("round {round}"));
        if round >= 2 {
            assert_eq!(since(before).reads, 1, "round {round}");
        }
    }
}

/// A small result that is read in each round is readable when the call returns; an input that is rewritten in each
/// round is not write-tracked.
fn jacobi() {
    let (m, n) = (1024, 640);
    let a = Block::new(m * n, 1);
    let mut x = Block::new(n, 2);
    let mut y = Block::new(m, 3);
    let mut quiet = 0;
    for round in 0..200 {
        let before = counts();
        for i in 0..n {
            x.set(i, ((i + round) % 5) as f64 - 2.0);
        }
        gemv((m, n), &a, &x, &mut y);
        y.check(&format!("round {round}"));
        let all = since(before);
        if round > 0 {
            assert_eq!(all.h2d, (n * 8) as u64, "round {round}");
        }
        assert_eq!(all.d2h, (m * 8) as u64, "round {round}");
        quiet += u64::from(all.reads + all.writes == 0);
    }
    assert!(quiet >= 180, "{quiet} rounds of 200 without a fault");
    // The input is not rewritten any more: some calls later its replica stays on the device.
    for round in 0..80 {
        gemv((m, n), &a, &x, &mut y);
        y.check(&format!("same input, round {round}"));
    }
    let before = counts();
    for round in 0..20 {
        gemv((m, n), &a, &x, &mut y);
        y.check(&format!("resident input, round {round}"));
    }
    assert_eq!(since(before).h2d, 0);
    // The CPU's next change of the input is noticed.
    x.set(n / 2, 7.0);
    gemv((m, n), &a, &x, &mut y);
    y.check("changed input");
    // As an output the vector is write-tracked like any other.
    for round in 0..8 {
        x.fill(round);
        gemv((m, n), &a, &x, &mut y);
        y.check("rewritten again");
    }
    let square = Block::new(n * n, 6);
    gemv((n, n), &square, &Block::new(n, 9), &mut x);
    x.check("an output");
}

/// Reads of few scattered elements write back few panels.
fn random() {
    let n = LARGE;
    let [a, b] = [1, 2].map(|seed| Block::new(n * n, seed));
    let mut d = Block::new(n * n, 4);
    for round in 0..6 {
        let before = counts();
        gemm(n, &a, &b, 0.0, &mut d);
        for i in [9, 5, 1, 7, 3] {
            let at = n * n / 10 * i;
            assert!(d.get(at) == d.want[at]);
        }
        let all = since(before);
        assert_eq!((all.reads, all.d2h), (5, 5 * 4096), "round {round}");
    }
    d.check("at the end");
}

/// The CPU touches every panel of an input between calls: the prediction error that this causes is noted for the block,
/// and expected of the next block of the same length.
fn visited() {
    let n = LARGE;
    // The result is the largest operand, so that the prediction error of the calls themselves is noted for it.
    let mut c = Block::new(n * n + 4096, 3);
    let [mut a, b] = [1, 2].map(|seed| Block::new(n * n + 512 * seed, seed));
    for round in 0..5 {
        gemm(n, &a, &b, 0.0, &mut c);
        for at in (0..n * n).step_by(64) {
            a.set(at, f64::from(round));
        }
    }
    // The prediction error is expected again for some time from then on.
    let then = Instant::now();
    gemm(n, &a, &b, 0.0, &mut c);
    let cache = runtime::get().and_then(|r| r.cache).unwrap();
    let beyond_s = |x: &Block| {
        let block = host::find(x.addr()).unwrap();
        let place = Rect::from(Interval::new(x.addr(), x.addr() + 8));
        let mut used = BTreeMap::new();
        let blocks = [Some(block)];
        let survey = Survey {
            places: &[place],
            blocks: &blocks,
            user: 1,
            inputs: [false; OPERANDS],
            fetched: [false; OPERANDS],
            sample: |_| 0,
        };
        let found = cache.survey(&survey, &mut used);
        assert_eq!(found.unwrap().len(), 1);
        used[&block.id].beyond_s(1, false, then)
    };
    assert!(beyond_s(&a) > 0.0);
    assert!(beyond_s(&b) == 0.0, "nobody visits it");
    assert!(beyond_s(&Block::new(a.want.len(), 6)) > 0.0);
    c.check("visited");
}

/// Results that only the CPU reads are left in mapped memory, also by replayed calls, until a device reads one.
fn mapped() {
    let (m, n) = (1536, 512);
    let (a, mut x, mut y) = (Block::new(m * n, 1), Block::new(m, 2), Block::new(m, 3));
    gemv((m, n), &a, &x, &mut y);
    // The rows of a call are divided among several devices.
    let cache = runtime::get().and_then(|r| r.cache).unwrap();
    let one = cache.backend().devices().len() == 1;
    let mapped = || COUNTERS.cache.mapped.get();
    let replayed = || COUNTERS.cache.replayed.get();
    let mut z = Block::new(m, 5);
    for phase in 0..2 {
        let before = (mapped(), replayed());
        for round in 0..40 {
            if round % 8 == 0 {
                x.fill(round);
            }
            gemv((m, n), &a, &x, &mut y);
            y.check(&format!("phase {phase}, round {round}"));
        }
        assert!(!one || mapped() - before.0 > 24, "{before:?}, {}", mapped());
        assert!(
            !one || replayed() - before.1 > 8,
            "{before:?}, {}",
            replayed()
        );
        // A device reads the result: from then on it stays there.
        let mut last = mapped();
        for round in 0..20 {
            gemv((m, n), &a, &x, &mut y);
            gemv((m, n), &a, &y, &mut z);
            y.check("read by a device");
            if round > 4 {
                assert!(mapped() - last <= 1, "round {round}");
            }
            last = mapped();
        }
        z.check("of a result");
    }
    // The CPU writes into the result between the calls, and a device leaves another result in a part of it.
    for round in 0..20 {
        gemv((m, n), &a, &x, &mut y);
        y.check("before the CPU writes");
        y.set(round * 7, 100.0);
        y.check("after the CPU wrote");
        gemv((m / 2, n), &a, &x, &mut y);
        y.check("half of it is new");
    }
    // Memory that is never protected: a small vector, twice on the stack of this thread.
    let mut small = vec![0.0_f64; 64];
    let before = mapped();
    for round in 0..4 {
        x.fill(round);
        let int = 64_i64;
        let call = |y: usize| Call {
            op_a: Op::None,
            beta: Value::ZERO,
            ..Call::new(
                Routine::Gemv,
                Dtype::D,
                &[int, int],
                &[(a.addr(), int), (x.addr(), 1), (y, 1)],
            )
        };
        let mut here = [f64::NAN; 64];
        run(&call(here.as_mut_ptr().addr()));
        let mut want = [0.0_f64; 64];
        let at = |x: &[f64]| x.as_ptr().addr();
        let plain = Call {
            at: [(at(&a.want), int), (at(&x.want), 1), (at(&want), 1)]
                .map(|(addr, ld)| Pointer { addr, ld }),
            ..call(0)
        };
        let _ = semcache::blas::local::compute(None, &plain);
        assert_eq!(
            std::hint::black_box(&mut here),
            std::hint::black_box(&mut want)
        );
        small.copy_from_slice(&here);
    }
    assert!(!one || mapped() - before == 4);
}

/// Vectors in memory of unknown lifetime: replayed calls upload the input and leave the result in mapped memory.
fn sent() {
    let n = 384_usize;
    let int = i64::try_from(n).unwrap();
    let mut a = Block::new(n * n, 1);
    let (mut x, mut y, mut want) = (vec![0.0_f64; n], vec![0.0_f64; n], vec![0.0_f64; n]);
    let at = |x: &[f64]| x.as_ptr().expose_provenance();
    let gemv = |a: usize, x: usize, y: usize| Call {
        op_a: Op::Trans,
        beta: Value::ZERO,
        ..Call::new(
            Routine::Gemv,
            Dtype::D,
            &[int, int],
            &[(a, int), (x, 1), (y, 1)],
        )
    };
    let dot = |x: usize, y: usize| Call::new(Routine::Dot, Dtype::D, &[int], &[(x, 1), (y, 1)]);
    let replayed = || COUNTERS.cache.replayed.get();
    let (mut sum, mut calls) = (0.0, replayed());
    for round in 0..60_usize {
        if round == 30 {
            // Several devices divide the rows of the matrix.
            let cache = runtime::get().and_then(|r| r.cache).unwrap();
            let one = cache.backend().devices().len() == 1;
            let least = if one { 40 } else { 20 };
            assert!(replayed() - calls >= least, "{}", replayed() - calls);
            calls = replayed();
        }
        if round > 30 && round % 8 == 0 {
            a.set(round * 31, 3.0);
        }
        for (i, x) in x.iter_mut().enumerate() {
            *x = ((i * 5 + round * 3) % 7) as f64 - 3.0;
        }
        run(&gemv(a.addr(), at(&x), at(&y)));
        let _ = semcache::blas::local::compute(None, &gemv(at(&a.want), at(&x), at(&want)));
        assert_eq!(
            std::hint::black_box(&mut y),
            std::hint::black_box(&mut want),
            "round {round}"
        );
        let Outcome::Done(value) = runtime::call(&dot(at(&x), at(&y)), &Facts::default()) else {
            panic!("round {round}: not on a device");
        };
        let plain: f64 = x.iter().zip(&y).map(|(x, y)| x * y).sum();
        assert_eq!(value.re, plain, "round {round}");
        sum += plain;
    }
    assert!(replayed() > calls && sum != 0.0);
}

const SCENARIOS: [(&str, fn()); 7] = [
    ("abac", abac),
    ("landed", landed),
    ("jacobi", jacobi),
    ("random", random),
    ("visited", visited),
    ("mapped", mapped),
    ("sent", sent),
];

fn main() {
    let mut cases = Vec::new();
    for (name, body) in SCENARIOS {
        for devices in [1, 2] {
            for mode in ["", "late", "poison", "late,poison"] {
                let process = move || {
                    heap::configure(4096);
                    body();
                };
                let case = Case::new(format!("{name} sim:{devices} '{mode}'"), process)
                    .set("SEMCACHE_DEVICES", format!("sim:{devices}"))
                    .set("SEMCACHE_MEMORY", "64MiB")
                    .set("SEMCACHE_SIM", mode)
                    .set("SEMCACHE_PANEL", "4KiB")
                    .set("SEMCACHE_TILE", "128")
                    .set("SEMCACHE_OFFLOAD", "always");
                // The prediction error comes from measured times.
                cases.push(match name {
                    "visited" => case.alone(),
                    _ => case,
                });
            }
        }
    }
    runner::main(cases, |_| ());
}
