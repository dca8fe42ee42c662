//! Coherence of the whole runtime, checked against a sequential memory: random BLAS calls on random views, CPU reads
//! and writes, free, realloc and re-use of addresses, on simulated devices in every mode.
//!
//! Page protection and the SIGSEGV handler belong to the process, so each configuration runs in one of its own. Data
//! are small integers: any order of summation is exact, and every comparison is of bits.
#![allow(
    clippy::unwrap_used,
    clippy::type_complexity,
    reason = "a panic is how a test fails"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "a test program, not the library in a user's process"
)]
#![expect(
    unsafe_code,
    reason = "plays an unmodified program: raw memory, raw addresses"
)]
#![expect(
    clippy::print_stderr,
    clippy::exit,
    reason = "a test program of its own"
)]

use std::io::Write;

use semcache::base::counters::{COUNTERS, Degraded};
use semcache::base::dtype::Dtype;
use semcache::base::heuristics::Heuristic;
use semcache::base::{Op, Routine, Value};
use semcache::blas::{Call, Outcome};
use semcache::host::heap;
use semcache::runtime::{self, Facts};
use testkit::Rng;
use testkit::devices::{machines, modes, real};
use testkit::runner::{self, Case};

/// One block of the program and what it must contain.
struct Block {
    at: *mut u8,
    shadow: Vec<f64>,
    /// Upper bound of the magnitude of its elements.
    bound: f64,
}

impl Block {
    fn new(rng: &mut Rng, elements: usize) -> Self {
        let at = heap::malloc(elements * 8).cast::<u8>();
        assert!(!at.is_null());
        let mut b = Block {
            at,
            shadow: vec![0.0; elements],
            bound: 3.0,
        };
        b.write(rng, 0, elements);
        b
    }
    fn addr(&self) -> usize {
        self.at.addr()
    }
    fn write(&mut self, rng: &mut Rng, from: usize, n: usize) {
        for i in from..from + n {
            let v = rng.element();
            // SAFETY: inside the block; an access to an inaccessible page faults and is served.
            unsafe { self.at.cast::<f64>().add(i).write_volatile(v) };
            self.shadow[i] = v;
        }
        self.bound = self.bound.max(3.0);
    }
    fn check(&self, from: usize, n: usize, what: &str) {
        for i in from..from + n {
            // SAFETY: as in `write`.
            let got = unsafe { self.at.cast::<f64>().add(i).read_volatile() };
            assert!(
                got.to_bits() == self.shadow[i].to_bits() || got == self.shadow[i],
                "{what}: element {i} is {got}, not {}",
                self.shadow[i]
            );
        }
    }
}

fn scalar(rng: &mut Rng) -> Value {
    Value {
        re: rng.scalar(),
        im: 0.0,
    }
}

/// A random view of `rows` x `cols` that fits into `len` elements: offset and leading dimension.
fn place(rng: &mut Rng, len: usize, rows: usize, cols: usize) -> Option<(usize, usize)> {
    let max_ld = if cols > 1 {
        (len - rows.min(len)) / (cols - 1)
    } else {
        rows + 5
    };
    if rows > len || max_ld < rows {
        return None;
    }
    let ld = if rng.below(3) == 0 {
        rows.max(1)
    } else {
        rows + rng.below(max_ld - rows + 1).min(40)
    };
    let ld = ld.max(1);
    let used = (cols.max(1) - 1) * ld + rows;
    let off = if used < len {
        rng.below(len - used + 1)
    } else {
        0
    };
    Some((off, ld))
}

/// A random increment and offset for a vector of `n`.
fn vector(rng: &mut Rng, len: usize, n: usize) -> Option<(usize, i64)> {
    let inc = [1, 1, 1, 2, 3, -1, -2][rng.below(7)];
    let used = (n.max(1) - 1) * usize::try_from(i64::abs(inc)).unwrap() + 1;
    (used <= len).then(|| (rng.below(len - used + 1), inc))
}

/// Operand index of the output(s), and growth of the bound.
struct Made {
    call: Call,
    /// The same call on the shadows.
    twin: Call,
    outputs: Vec<usize>,
    bound: f64,
}

fn make(rng: &mut Rng, blocks: &mut [Block]) -> Option<Made> {
    let pick = |rng: &mut Rng, blocks: &[Block]| rng.below(blocks.len());
    let (i, j, o) = (pick(rng, blocks), pick(rng, blocks), pick(rng, blocks));
    let len = |b: usize| blocks[b].shadow.len();
    let real = |b: usize, off: usize| blocks[b].addr() + off * 8;
    let twin = |b: usize, off: usize| blocks[b].shadow.as_ptr().addr() + off * 8;
    let size = |rng: &mut Rng| [1, 2, 7, 16, 33, 64, 90][rng.below(7)];
    let dtype = Dtype::D;
    let (bi, bj, bo) = (blocks[i].bound, blocks[j].bound, blocks[o].bound);
    let both =
        |call: &dyn Fn(&dyn Fn(usize, usize) -> usize) -> Call, outputs: Vec<usize>, bound: f64| {
            Some(Made {
                call: call(&real),
                twin: call(&twin),
                outputs,
                bound,
            })
        };
    let op = |rng: &mut Rng| [Op::None, Op::Trans, Op::ConjTrans][rng.below(3)];
    match rng.below(9) {
        0..=2 => {
            let (m, n, k) = (size(rng), size(rng), size(rng));
            let (op_a, op_b) = (op(rng), op(rng));
            let (ra, ca) = if op_a == Op::None { (m, k) } else { (k, m) };
            let (rb, cb) = if op_b == Op::None { (k, n) } else { (n, k) };
            let (oa, lda) = place(rng, len(i), ra, ca)?;
            let (ob, ldb) = place(rng, len(j), rb, cb)?;
            let (oc, ldc) = place(rng, len(o), m, n)?;
            let (alpha, beta) = (scalar(rng), scalar(rng));
            let int = |x: usize| i64::try_from(x).unwrap();
            let call = move |at: &dyn Fn(usize, usize) -> usize| Call {
                op_a,
                op_b,
                alpha,
                beta,
                ..Call::new(
                    Routine::Gemm,
                    dtype,
                    &[int(m), int(n), int(k)],
                    &[
                        (at(i, oa), int(lda)),
                        (at(j, ob), int(ldb)),
                        (at(o, oc), int(ldc)),
                    ],
                )
            };
            both(&call, vec![o], 2.0 * k as f64 * bi * bj + 2.0 * bo)
        }
        3 | 4 => {
            let (m, n) = (size(rng), size(rng));
            let op = op(rng);
            let (nx, ny) = if op == Op::None { (n, m) } else { (m, n) };
            let (oa, lda) = place(rng, len(i), m, n)?;
            let (ox, incx) = vector(rng, len(j), nx)?;
            let (oy, incy) = vector(rng, len(o), ny)?;
            let (alpha, beta) = (scalar(rng), scalar(rng));
            let int = |x: usize| i64::try_from(x).unwrap();
            let call = move |at: &dyn Fn(usize, usize) -> usize| Call {
                op_a: op,
                alpha,
                beta,
                ..Call::new(
                    Routine::Gemv,
                    dtype,
                    &[int(m), int(n)],
                    &[(at(i, oa), int(lda)), (at(j, ox), incx), (at(o, oy), incy)],
                )
            };
            both(&call, vec![o], 2.0 * m.max(n) as f64 * bi * bj + 2.0 * bo)
        }
        5 => {
            let (m, n) = (size(rng), size(rng));
            let (oa, lda) = place(rng, len(o), m, n)?;
            let (ox, incx) = vector(rng, len(i), m)?;
            let (oy, incy) = vector(rng, len(j), n)?;
            let alpha = scalar(rng);
            let int = |x: usize| i64::try_from(x).unwrap();
            let call = move |at: &dyn Fn(usize, usize) -> usize| Call {
                alpha,
                ..Call::new(
                    Routine::Ger,
                    dtype,
                    &[int(m), int(n)],
                    &[(at(i, ox), incx), (at(j, oy), incy), (at(o, oa), int(lda))],
                )
            };
            both(&call, vec![o], 2.0 * bi * bj + bo)
        }
        6 => {
            let n = size(rng) * 5;
            let (ox, incx) = vector(rng, len(o), n)?;
            let incx = incx.abs();
            let alpha = scalar(rng);
            let routine = [Routine::Scal, Routine::Asum, Routine::Iamax][rng.below(3)];
            let call = move |at: &dyn Fn(usize, usize) -> usize| Call {
                alpha,
                ..Call::new(
                    routine,
                    dtype,
                    &[i64::try_from(n).unwrap()],
                    &[(at(o, ox), incx)],
                )
            };
            both(
                &call,
                if routine == Routine::Scal {
                    vec![o]
                } else {
                    vec![]
                },
                2.0 * bo,
            )
        }
        _ => {
            let n = size(rng) * 5;
            let (ox, incx) = vector(rng, len(i), n)?;
            let (oy, incy) = vector(rng, len(o), n)?;
            let alpha = scalar(rng);
            let routine = [Routine::Axpy, Routine::Copy, Routine::Swap, Routine::Dot][rng.below(4)];
            let call = move |at: &dyn Fn(usize, usize) -> usize| Call {
                alpha,
                ..Call::new(
                    routine,
                    dtype,
                    &[i64::try_from(n).unwrap()],
                    &[(at(i, ox), incx), (at(o, oy), incy)],
                )
            };
            let outputs = match routine {
                Routine::Swap => vec![i, o],
                Routine::Dot => vec![],
                _ => vec![o],
            };
            both(&call, outputs, 2.0 * bi + bo)
        }
    }
}

/// The same call with the opposite sign of a scalar that is neither zero nor one: the runtime may replay it from the
/// same note.
fn negate(call: &mut Call) {
    let other = |v: &mut Value| {
        if !v.is_zero() && !v.is_one() && v.re != -1.0 {
            v.re = -v.re;
        }
    };
    other(&mut call.alpha);
    other(&mut call.beta);
}

/// The host BLAS of this test: the same arithmetic on the program's addresses.
fn host(call: &Call) -> Outcome {
    semcache::blas::local::compute(None, call)
}

/// Some overlaps are legal for the runtime (such calls run on the host BLAS) but have no defined result.
fn defined(call: &Call) -> bool {
    match semcache::blas::args::check(call) {
        semcache::blas::args::Checked::Run(p, places) => {
            !semcache::blas::alias::conflicts(&p, &places)
        }
        _ => false,
    }
}

/// Makes a call, and the same call on the shadows. Returns how many ran on devices.
fn play(made: &Made, step: usize) -> usize {
    let want = host(&made.twin);
    let (got, offloaded) = match runtime::call(&made.call, &Facts::default()) {
        Outcome::Host => (host(&made.call), 0),
        done => (done, 1),
    };
    assert_eq!(got, want, "step {step}: {:?}", made.call);
    offloaded
}

/// Switches to write-through, which ends page protection. Results must then have been written back, as seen without a CPU
/// access: by a system call, which raises no faults.
fn go_write_through(blocks: &[Block]) {
    runtime::go_write_through(Degraded::OtherCuda);
    assert!(!runtime::any_protected(), "something is closed");
    for (i, b) in blocks.iter().enumerate() {
        let n = (b.shadow.len() * 8).min(4096);
        // SAFETY: the block lives; nothing else uses it.
        let bytes = unsafe { std::slice::from_raw_parts(b.at, n) };
        let (_reader, mut writer) = std::io::pipe().unwrap();
        assert_eq!(writer.write(bytes).ok(), Some(n), "block {i} is closed");
        b.check(0, b.shadow.len(), &format!("write-through, block {i}"));
    }
}

fn child(seed: u64, steps: usize) {
    heap::configure(4096);
    let mut rng = Rng::new(seed);
    let elements = |rng: &mut Rng| 600 + rng.below(9000);
    let mut blocks: Vec<Block> = (0..5)
        .map(|_| {
            let n = elements(&mut rng);
            Block::new(&mut rng, n)
        })
        .collect();
    let mut offloaded = 0;
    // Programs repeat calls: states of the generator before the last few calls.
    let mut recent: Vec<Rng> = Vec::new();
    let write_through_at: Option<usize> = std::env::var("COHERENCE_WRITE_THROUGH_AT")
        .ok()
        .and_then(|s| s.parse().ok());
    for step in 0..steps {
        if write_through_at == Some(step) {
            go_write_through(&blocks);
        }
        let b = rng.below(blocks.len());
        let len = blocks[b].shadow.len();
        match rng.below(20) {
            0..=10 => {
                let again = rng.below(4) > 0 && !recent.is_empty();
                let made = if again {
                    let at = rng.below(recent.len());
                    make(&mut recent[at].clone(), &mut blocks)
                } else {
                    let state = rng.clone();
                    let made = make(&mut rng, &mut blocks);
                    if made.is_some() {
                        if recent.len() > 3 {
                            recent.remove(0);
                        }
                        recent.push(state);
                    }
                    made
                };
                let Some(mut made) = made else {
                    continue;
                };
                if rng.below(2) == 0 {
                    negate(&mut made.call);
                    negate(&mut made.twin);
                }
                if made.bound > 1e14 {
                    // Values that grew too large would no longer be exact integers.
                    blocks[b].write(&mut rng, 0, len);
                    blocks[b].bound = 3.0;
                    continue;
                }
                if !defined(&made.call) {
                    continue;
                }
                if std::env::var_os("COHERENCE_TRACE").is_some() {
                    let b0 = &blocks[0];
                    eprintln!(
                        "step {step}: {:?} block 0 at {} .. {} [1246] = {}",
                        made.call,
                        b0.addr(),
                        b0.addr() + b0.shadow.len() * 8,
                        b0.shadow.get(1246).unwrap_or(&0.0)
                    );
                }
                offloaded += play(&made, step);
                // Habits: the same call again and again, with the same reads and writes in between. The call's inputs
                // stay, so that each round at most triples the output.
                let rounds = [0, 0, 0, 0, 8][rng.below(5)];
                let (every, part, rewrite) = (1 + rng.below(3), rng.below(3), rng.below(3));
                for round in 0..rounds {
                    if made.bound > 1e9 {
                        break;
                    }
                    for &o in made.outputs.iter().filter(|_| round % every == 0) {
                        let n = blocks[o].shadow.len();
                        let n = if part == 0 { n / 9 } else { n };
                        blocks[o].check(0, n, &format!("step {step}, round {round}"));
                    }
                    if rewrite == 0 && made.bound < 1e6 {
                        blocks[b].write(&mut rng, 0, len);
                    }
                    offloaded += play(&made, step);
                }
                if rounds > 0 {
                    made.bound *= 1e4;
                }
                if std::env::var_os("COHERENCE_PEDANTIC").is_some() {
                    for b in &blocks {
                        b.check(
                            0,
                            b.shadow.len(),
                            &format!("step {step}, after {:?}", made.call),
                        );
                    }
                }
                for o in made.outputs {
                    blocks[o].bound = blocks[o].bound.max(made.bound);
                }
            }
            11..=14 => {
                let from = rng.below(len);
                let n = rng.below((len - from).min(700) + 1);
                blocks[b].check(from, n, &format!("step {step}"));
            }
            15 | 16 => {
                let from = rng.below(len);
                let n = rng.below((len - from).min(700) + 1);
                blocks[b].write(&mut rng, from, n);
            }
            17 => {
                // SAFETY: from `heap::malloc`, not used again.
                unsafe { heap::free(blocks[b].at.cast()) };
                let n = elements(&mut rng);
                blocks[b] = Block::new(&mut rng, n);
            }
            18 => {
                let n = elements(&mut rng);
                // SAFETY: from `heap::malloc`; the old address is not used again.
                blocks[b].at = unsafe { heap::realloc(blocks[b].at.cast(), n * 8) }.cast();
                let keep = n.min(len);
                blocks[b].shadow.resize(n, 0.0);
                blocks[b].write(&mut rng, keep, n - keep);
            }
            _ => blocks[b].check(0, len, &format!("step {step}, all")),
        }
    }
    for (i, b) in blocks.iter().enumerate() {
        b.check(0, b.shadow.len(), &format!("at the end, block {i}"));
    }
    let c = &COUNTERS;
    eprintln!(
        "offloaded {offloaded} closes {} faults {} false sharing {} evictions {} fallbacks {} replayed {} \
         scans {} written {} kept {}",
        c.cache.closes.get(),
        c.faults.read.get() + c.faults.write.get(),
        c.faults.false_sharing.get(),
        c.cache.evictions.get(),
        c.fallbacks.get(),
        c.cache.replayed.get(),
        c.gate.scans.get(),
        c.gate.written.get(),
        c.gate.kept.get()
    );
    if offloaded == 0 {
        std::process::exit(3);
    }
}

/// The heuristics that are left out in turn: in most programs none, in one each a single one, in one all of them.
fn without() -> Vec<String> {
    let names: Vec<&str> = Heuristic::ALL.iter().map(|(_, name, _)| *name).collect();
    let one = names
        .iter()
        .flat_map(|name| ["none".to_owned(), (*name).to_owned()]);
    one.chain([names.join(",")]).collect()
}

/// Every seed on every machine, in every mode, with these panels and gates.
fn configurations(seeds: u64) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut without = without().into_iter().cycle();
    let machines = machines(&[
        (1, "64MiB"),
        (2, "64MiB"),
        (3, "64MiB"),
        (2, "256KiB"),
        (1, "32KiB"),
    ]);
    for seed in 1..=seeds {
        for (devices, memory) in &machines {
            for &mode in modes(&["", "late", "poison", "late,poison", "poison,seed"]) {
                let mode = mode.replace("seed", &format!("seed={seed}"));
                for (panel, gate) in [
                    ("4KiB", "auto"),
                    ("16KiB", "mixed"),
                    ("4KiB", "eager"),
                    ("16KiB", "wp-async"),
                ] {
                    let name = format!(
                        "seed {seed} {devices} memory {memory} mode '{mode}' panel {panel} gate {gate}"
                    );
                    let without = without.next().unwrap_or_default();
                    // Some programs switch to write-through on the way.
                    let switches = (panel, seed % 3) == ("16KiB", 2);
                    cases.push(
                        Case::new(name, move || child(seed, 300))
                            .set("SEMCACHE_DEVICES", devices)
                            .set("SEMCACHE_MEMORY", *memory)
                            .set("SEMCACHE_SIM", &mode)
                            .set("SEMCACHE_PANEL", panel)
                            .set("SEMCACHE_GATE", gate)
                            .set("SEMCACHE_WITHOUT", without)
                            .set(
                                "COHERENCE_WRITE_THROUGH_AT",
                                if switches { "150" } else { "" },
                            )
                            .set("SEMCACHE_TILE", ["16", "64", "auto"][seed as usize % 3])
                            .set("SEMCACHE_OFFLOAD", "always"),
                    );
                }
            }
        }
    }
    cases
}

/// A device refuses the operation at each index of a fixed program: the answer must be right. A device is lost: the
/// answer must be right, or the one line must say that the only copy is gone.
fn injected(seeds: u64) -> Vec<Case> {
    let mut cases = Vec::new();
    let most = if real() { 0 } else { seeds as usize * 60 };
    for n in 1..=most {
        let mode = ["late", "poison", "seed=3"][n % 3];
        for fail in ["refuse", "lost"] {
            let case = Case::new(format!("fail={fail}:{n}"), || child(7, 60))
                .set("SEMCACHE_DEVICES", "sim:2")
                .set("SEMCACHE_MEMORY", "256KiB")
                .set("SEMCACHE_SIM", format!("fail={fail}:{n},{mode}"))
                .set("SEMCACHE_PANEL", "4KiB")
                .set("SEMCACHE_GATE", ["auto", "wp-async"][n / 3 % 2])
                .set("SEMCACHE_TILE", "16")
                .set("SEMCACHE_OFFLOAD", "always");
            cases.push(if fail == "lost" {
                case.may_lose()
            } else {
                case
            });
        }
    }
    cases
}

fn main() {
    let seeds = std::env::var("COHERENCE_SEEDS").map_or(3, |seeds| seeds.parse().unwrap());
    let mut cases = configurations(seeds);
    cases.extend(injected(seeds));
    runner::main(cases, |ended| {
        let of = |injected| {
            let these = ended
                .iter()
                .filter(|e| e.0.starts_with("fail=") == injected);
            runner::totals(these.map(|e| &e.1).filter(|output| output.status.success()))
        };
        let (totals, failed) = (of(false), of(true));
        eprintln!(
            "offloaded, closes, faults, false sharing, evictions, fallbacks, replayed, scans, written, kept: {totals:?}"
        );
        assert!(real() || failed[5] > 0, "no injected refusal was met");
        assert!(
            totals[..3].iter().all(|&n| n > 0),
            "a run that closes nothing proves nothing"
        );
        assert!(totals[4] > 0, "nothing was evicted");
        assert!(totals[6] > 0, "nothing was replayed");
        assert!(
            real() || totals[7..].iter().all(|&n| n > 0),
            "nothing was scanned, or nothing found, or nothing kept"
        );
    });
}
