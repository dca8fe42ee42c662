//! Calls whose operands exceed the devices' memory: with memory for three tiles of 256 of the routine's type, and more, no
//! call is refused and every result is right. With a fixed tile the bits of a level-3 result depend neither on the number of
//! devices nor on the memory.
//!
//! One process per configuration.
#![expect(
    unsafe_code,
    reason = "plays an unmodified program: raw memory, raw addresses"
)]
#![expect(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a test program of its own"
)]
#![allow(clippy::disallowed_methods, reason = "reads its own variables")]

#[path = "memory/chunks.rs"]
mod chunks;
#[path = "sweep/operand.rs"]
mod operand;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Mutex;

use operand::{Kind, Operand};
use semcache::base::counters::COUNTERS;
use semcache::base::{Diag, Dtype, Form, Op, Routine, Side, Uplo, Value};
use semcache::blas::{Call, Outcome, local};
use semcache::host::{adopt, heap};
use semcache::runtime::{self, Facts};
use testkit::runner::{self, Case};
use testkit::{Rng, devices};

const ROUTINES: [Routine; 10] = [
    Routine::Gemm,
    Routine::Gemmt,
    Routine::Symm,
    Routine::Hemm,
    Routine::Syrk,
    Routine::Herk,
    Routine::Syr2k,
    Routine::Her2k,
    Routine::Trmm,
    Routine::Trsm,
];

/// The order of the least tile that every level-3 call has room for.
const TILE: usize = 256;

/// Levels 1 and 2 need no tiles: in less memory shorter operands exceed it, whose strided elements the simulator copies one by one.
const CHUNK: usize = 128;

/// A call of a routine, without operands, and its operands' shapes.
struct Made {
    call: Call,
    operands: Vec<Shape>,
}

/// An operand: a matrix, or a vector, which lies in memory as a matrix with one row.
#[derive(Clone, Copy)]
struct Shape {
    rows: usize,
    cols: usize,
    /// Elements from column to column.
    ld: usize,
    /// The leading dimension or the increment that the call has.
    step: i64,
    kind: Kind,
}

fn int(n: usize) -> i64 {
    i64::try_from(n).expect("small")
}

/// A call with some of the flags that the routine takes; `turn` chooses them.
fn make(routine: Routine, dtype: Dtype, (m, n, k): (usize, usize, usize), turn: usize) -> Made {
    use Routine::{Gemm, Gemmt, Hemm, Her2k, Herk, Symm, Syr2k, Syrk, Trmm, Trsm};
    let form = Form {
        side: [Side::Left, Side::Right][turn % 2],
        uplo: [Uplo::Lower, Uplo::Upper][turn / 2 % 2],
        diag: [Diag::NonUnit, Diag::Unit][turn / 4 % 2],
    };
    let hermitian = matches!(routine, Hemm | Herk | Her2k);
    let turned = if hermitian { Op::ConjTrans } else { Op::Trans };
    let ops = [
        [Op::None, turned][turn / 2 % 2],
        [Op::None, turned][turn % 2],
    ];
    let stored = |op, r, c| if op == Op::None { (r, c) } else { (c, r) };
    let order = if form.side == Side::Left { m } else { n };
    let matrix = |r, c, kind| Shape {
        rows: r,
        cols: c,
        ld: r + turn % 3,
        step: int(r + turn % 3),
        kind,
    };
    let general = |(r, c)| matrix(r, c, Kind::General);
    let result = |r, c| matrix(r, c, Kind::Result);
    let (sizes, operands) = match routine {
        Gemm => (
            vec![m, n, k],
            vec![
                general(stored(ops[0], m, k)),
                general(stored(ops[1], k, n)),
                result(m, n),
            ],
        ),
        Gemmt => (
            vec![n, k],
            vec![
                general(stored(ops[0], n, k)),
                general(stored(ops[1], k, n)),
                matrix(n, n, Kind::Symmetric(form.uplo, false)),
            ],
        ),
        Symm | Hemm => (
            vec![m, n],
            vec![
                matrix(order, order, Kind::Symmetric(form.uplo, hermitian)),
                general((m, n)),
                result(m, n),
            ],
        ),
        Syrk | Herk => (
            vec![n, k],
            vec![general(stored(ops[0], n, k)), result(n, n)],
        ),
        Syr2k | Her2k => {
            let input = general(stored(ops[0], n, k));
            (vec![n, k], vec![input, input, result(n, n)])
        }
        Trmm | Trsm => (
            vec![m, n],
            vec![
                matrix(order, order, Kind::Triangular(form.uplo, form.diag)),
                general((m, n)),
            ],
        ),
        other => unreachable!("{other:?}"),
    };
    let two = Value { re: 2.0, im: 0.0 };
    let sizes: Vec<i64> = sizes.into_iter().map(int).collect();
    let call = Call {
        form,
        op_a: if matches!(routine, Symm | Hemm) {
            Op::None
        } else {
            ops[0]
        },
        op_b: if matches!(routine, Gemm | Gemmt) {
            ops[1]
        } else {
            Op::None
        },
        alpha: [Value::ONE, two][turn % 2],
        beta: [Value::ZERO, Value::ONE, two][turn % 3],
        ..Call::new(routine, dtype, &sizes, &[])
    };
    Made { call, operands }
}

fn at(call: Call, addresses: &[usize], operands: &[Shape]) -> Call {
    let mut call = call;
    for ((pointer, addr), shape) in call.at.iter_mut().zip(addresses).zip(operands) {
        (pointer.addr, pointer.ld) = (*addr, shape.step);
    }
    call
}

/// Runs every routine of level 3, and compares with one kernel on the host; then all of them must have run on devices, and
/// tiles must have been evicted.
fn right(dtype: Dtype, sizes: (usize, usize, usize), turns: std::ops::Range<usize>, tiles: usize) {
    start();
    let of_type = |r: &&Routine| dtype.is_complex() || !r.hermitian();
    let mut calls = 0;
    for &routine in ROUTINES.iter().filter(of_type) {
        calls += same(routine, dtype, turns.clone(), false, &|turn| {
            make(routine, dtype, sizes, turn)
        });
    }
    // With memory for nine tiles some calls fit.
    evicted(calls, if tiles < 9 { calls } else { 0 });
}

/// As [`right`], with every routine of levels 1 and 2, on matrices and vectors that exceed a memory of `tiles` tiles of
/// [`CHUNK`].
fn right_in_chunks(dtype: Dtype, turns: std::ops::Range<usize>, tiles: usize) {
    start();
    let len = tiles * CHUNK * CHUNK;
    let order = (len + len / 4).isqrt();
    let mut calls = 0;
    for routine in chunks::routines(dtype) {
        calls += same(routine, dtype, turns.clone(), false, &|turn| {
            chunks::make(routine, dtype, (order, len + 77), turn)
        });
    }
    evicted(calls, calls);
}

/// Calls of a routine whose operands exceed a memory of 256 KiB, during which an operation of a device fails.
fn right_after_a_failure(routine: Routine, turn: usize) {
    start();
    same(routine, Dtype::Z, turn..turn + 1, true, &|turn| {
        chunks::make(routine, Dtype::Z, (190, 20_000), turn)
    });
    println!("{} fallbacks", COUNTERS.fallbacks.get());
}

/// Runs a routine once for each turn, and compares; the number of calls. Only if an operation is `failing` may the devices
/// leave a call to the host.
fn same(
    routine: Routine,
    dtype: Dtype,
    turns: std::ops::Range<usize>,
    failing: bool,
    make: &dyn Fn(usize) -> Made,
) -> u64 {
    let mut rng = Rng::new(7 + routine as u64);
    let mut calls = 0;
    for turn in turns {
        let Made { call, operands } = make(turn);
        let placed: Vec<Operand> = operands
            .iter()
            .map(|o| Operand::new(&mut rng, dtype, o.rows, o.cols, o.ld, o.kind))
            .collect();
        let ours: Vec<usize> = placed.iter().map(|o| o.at + o.offset).collect();
        let theirs: Vec<usize> = placed.iter().map(Operand::shadow_at).collect();
        let what = format!("{dtype:?} {routine:?} {turn}");
        // Twice: the tiles that the first call leaves on devices are the second call's input.
        for _ in 0..2 {
            calls += 1;
            let ours = at(call, &ours, &operands);
            let done = match runtime::call(&ours, &Facts::default()) {
                Outcome::Host if failing => local::compute(None, &ours),
                done => done,
            };
            assert!(!matches!(done, Outcome::Host), "{what} ran on the host");
            let expected = local::compute(None, &at(call, &theirs, &operands));
            assert!(alike(routine, &done, &expected), "{what}: {done:?}");
        }
        for (i, o) in placed.iter().enumerate() {
            o.check(dtype, &format!("{what}, operand {i}"));
        }
    }
    calls
}

/// Whether two outcomes are equal; norms are rounded, as whole numbers have roots that are none.
fn alike(routine: Routine, one: &Outcome, other: &Outcome) -> bool {
    match (routine, one, other) {
        (Routine::Nrm2, Outcome::Done(one), Outcome::Done(other)) => {
            (one.re - other.re).abs() <= 1e-6 * other.re
        }
        _ => one == other,
    }
}

/// Asserts that no task was refused, and that more than `least` tiles were evicted.
fn evicted(calls: u64, least: u64) {
    assert_eq!(COUNTERS.fallbacks.get(), 0, "tasks were refused");
    let evictions = COUNTERS.cache.evictions.get();
    assert!(evictions > least, "{evictions} evictions in {calls} calls");
    println!("{calls} calls, {evictions} evictions");
}

/// Prints a hash of the bits of each routine's result on numbers that round.
fn bits(dtype: Dtype, sizes: (usize, usize, usize)) {
    start();
    for routine in ROUTINES {
        let hermitian = matches!(routine, Routine::Hemm | Routine::Herk | Routine::Her2k);
        if hermitian && !dtype.is_complex() {
            continue;
        }
        for turn in 0..6 {
            let Made { call, operands } = make(routine, dtype, sizes, turn);
            let mut addresses = Vec::new();
            for (i, o) in operands.iter().enumerate() {
                let triangular = matches!(o.kind, Kind::Triangular(..));
                addresses.push(numbers(
                    dtype,
                    (o.ld, o.cols),
                    (o.rows, i + 3 * turn),
                    triangular,
                ));
            }
            let done = runtime::call(&at(call, &addresses, &operands), &Facts::default());
            assert!(
                !matches!(done, Outcome::Host),
                "{routine:?} {turn} ran on the host"
            );
            let result = operands[operands.len() - 1];
            let bytes = result.ld * result.cols * dtype.size();
            let at = std::ptr::with_exposed_provenance::<u8>(addresses[addresses.len() - 1]);
            let mut hash = DefaultHasher::new();
            // SAFETY: the block has at least these bytes, and lives until the process ends.
            unsafe { std::slice::from_raw_parts(at, bytes) }.hash(&mut hash);
            println!("bits {dtype:?} {routine:?} {turn} {:x}", hash.finish());
        }
    }
    assert_eq!(COUNTERS.fallbacks.get(), 0, "tasks were refused");
}

/// A matrix of numbers between -1 and 1; a triangular one is near the identity, so that solutions stay small.
fn numbers(
    dtype: Dtype,
    (ld, cols): (usize, usize),
    (rows, seed): (usize, usize),
    triangular: bool,
) -> usize {
    let single = matches!(dtype, Dtype::S | Dtype::C);
    let reals = dtype.size() / if single { 4 } else { 8 };
    let at = heap::malloc((ld * cols * dtype.size()).max(8192)).expose_provenance();
    assert_ne!(at, 0);
    for i in 0..ld * cols * reals {
        let mixed = (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15 ^ seed as u64);
        let mut x = ((mixed >> 20) % 20_001) as f64 / 10_000.0 - 1.0;
        let (row, col) = (i / reals % ld, i / reals / ld);
        if triangular {
            x = x / rows as f64 + f64::from(u8::from(row == col && i % reals == 0));
        }
        // SAFETY: element `i` of a block of that many numbers.
        unsafe {
            if single {
                std::ptr::with_exposed_provenance_mut::<f32>(at)
                    .add(i)
                    .write(x as f32);
            } else {
                std::ptr::with_exposed_provenance_mut::<f64>(at)
                    .add(i)
                    .write(x);
            }
        }
    }
    at
}

fn start() {
    heap::configure(4096);
    adopt::configure(4096);
}

/// The hashes that the first configuration of a type printed.
static FIRST: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());

fn same_bits(dtype: Dtype, output: &std::process::Output) -> Result<(), String> {
    if !output.status.success() {
        return Err("it failed".into());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = text.lines().filter(|l| l.starts_with("bits ")).collect();
    if lines.len() < 42 {
        return Err(format!("{} results", lines.len()));
    }
    let found = lines.join("\n");
    let mut first = FIRST.lock().map_err(|e| e.to_string())?;
    let expected = first
        .entry(format!("{dtype:?}"))
        .or_insert_with(|| found.clone());
    if *expected == found {
        return Ok(());
    }
    let differing = expected.lines().zip(found.lines()).filter(|(a, b)| a != b);
    Err(format!(
        "other bits: {:?}",
        differing.take(5).collect::<Vec<_>>()
    ))
}

fn main() {
    let real = devices::real();
    let mut cases = Vec::new();
    let tiles = |dtype: Dtype, tiles: usize, order: usize| {
        (tiles * order * order * dtype.size()).to_string()
    };
    let settings =
        |name: String, devices: String, memory: String, body: Box<dyn FnOnce() + Send>| {
            Case::new(name, body)
                .set("SEMCACHE_DEVICES", devices)
                .set("SEMCACHE_MEMORY", memory)
                .set("SEMCACHE_OFFLOAD", "always")
        };
    for (i, (dtype, count, modes)) in [
        (Dtype::D, 3, "late,poison,seed=1"),
        (Dtype::Z, 3, ""),
        (Dtype::S, 3, "poison,seed=2"),
        (Dtype::C, 4, "late,seed=3"),
        (Dtype::D, 7, ""),
        (Dtype::S, 9, "late,poison,seed=4"),
    ]
    .into_iter()
    .enumerate()
    {
        for n in 1..=if real { 1 } else { 3 } {
            let devices = if real {
                devices::named()
            } else {
                format!("sim:{n}")
            };
            // A complex product takes four times as long as a real one.
            let sizes = match dtype.is_complex() {
                true => (410, 390, 350 + 10 * n),
                false => (560, 530, 500 + 10 * n),
            };
            let turns = match count {
                3 if real || n == 1 && matches!(dtype, Dtype::D) => 0..6,
                3 => 2 * (n - 1)..2 * n,
                _ => n..n + 2,
            };
            let name = format!("right {dtype:?} {count} tiles {devices} '{modes}'");
            let simulated = |case: Case| match real {
                true => case,
                false => case.set("SEMCACHE_SIM", modes),
            };
            // Levels 1 and 2 in fewer cases: their operands are as large, and their calls are more.
            if real || n == 1 + (i + 1) % 3 {
                cases.push(simulated(settings(
                    format!("{name}, levels 1 and 2"),
                    devices.clone(),
                    tiles(dtype, count, CHUNK),
                    Box::new(move || right_in_chunks(dtype, n..n + 2, count)),
                )));
            }
            cases.push(simulated(settings(
                name,
                devices,
                tiles(dtype, count, TILE),
                Box::new(move || right(dtype, sizes, turns, count)),
            )));
        }
    }
    {
        use Routine::{Asum, Dot, Hemv, Her2, Nrm2, Trmv, Trsv};
        let failures = ["refuse", "lost"].into_iter().flat_map(|fail| {
            let routines = [Dot, Asum, Nrm2, Hemv, Trmv, Trsv, Her2].into_iter();
            routines.flat_map(move |routine| [2, 9, 16, 27].map(|at| (fail, routine, at)))
        });
        for (fail, routine, at) in failures.filter(|_| !real) {
            let case = settings(
                format!("{routine:?} fail={fail}:{at}"),
                "sim:2".into(),
                "256KiB".into(),
                Box::new(move || right_after_a_failure(routine, at)),
            );
            let case = case.set("SEMCACHE_SIM", format!("fail={fail}:{at},poison"));
            cases.push(match fail {
                "lost" => case.may_lose(),
                _ => case,
            });
        }
    }
    for dtype in Dtype::ALL {
        let sizes = (330, 300, 270);
        // Three tiles, with what the last one of a dimension may have in addition, in columns of whole 256 bytes.
        let tile = 3 * (80 * dtype.size()).next_multiple_of(256) * 80;
        for (n, memory) in [
            (1, 64 << 20),
            (1, tile),
            (2, 3 * tile),
            (3, tile),
            (4, 64 << 20),
        ] {
            if real && n > 1 {
                continue;
            }
            let devices = if real {
                devices::named()
            } else {
                format!("sim:{n}")
            };
            let name = format!("bits {dtype:?} {devices} {memory}");
            let case = settings(
                name,
                devices,
                memory.to_string(),
                Box::new(move || bits(dtype, sizes)),
            );
            cases.push(
                case.set("SEMCACHE_TILE", "64")
                    .judged(move |output| same_bits(dtype, output)),
            );
        }
    }
    runner::main(cases, |_| ());
}
