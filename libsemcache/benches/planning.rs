//! Processor time of planning a product: cutting it into tasks, and the timeline of these.
//!
//! `cargo bench -p semcache --bench planning` prints, for each tile and memory, the tasks, microseconds for all and for
//! each, and the share of the predicted makespan (dgemm of order N from and to the host of an H200). Then, for each routine of level 3,
//! by how many per cent the makespan exceeds the least one if less time is spent on trying tiles: mean and largest of 60 random
//! shapes.
#![expect(clippy::print_stdout, reason = "a measuring program of its own")]

use std::hint::black_box;
use std::time::Instant;

use semcache::base::{DeviceSet, Dtype, Form, Links, Op, Routine, TileSize, Value};
use semcache::blas::tiling::{candidates, planning_s};
use semcache::model::rates::{HostRates, Rates};
use semcache::model::select::{Fetch, tiles};
use semcache::plan::{Operand, Problem, Resources, lower, strips_in_core, tilings};
use semcache::sched::memory::{Devices, schedule, schedule_in_core};

fn product(n: usize) -> Problem {
    problem(Routine::Gemm, [n; 3], Value::ZERO)
}

/// A problem of a routine of level 3 with these sizes, as far as it has them.
fn problem(routine: Routine, [m, n, k]: [usize; 3], beta: Value) -> Problem {
    let matrix = |rows, cols| Operand::matrix(rows, cols, rows);
    let (n, k, operands) = match routine {
        Routine::Gemm => (n, k, vec![matrix(m, k), matrix(k, n), matrix(m, n)]),
        Routine::Symm => (n, m, vec![matrix(m, m), matrix(m, n), matrix(m, n)]),
        Routine::Syrk => (m, k, vec![matrix(m, k), matrix(m, m)]),
        Routine::Syr2k => (m, k, vec![matrix(m, k), matrix(m, k), matrix(m, m)]),
        _ => (n, m, vec![matrix(m, m), matrix(m, n)]),
    };
    Problem {
        routine,
        dtype: Dtype::D,
        form: Form::default(),
        op_a: Op::None,
        op_b: Op::None,
        m,
        n,
        k,
        alpha: Value::ONE,
        beta,
        operands,
    }
}

/// Devices that read each other's memory directly.
fn on(rates: &Rates, count: usize) -> Devices {
    Devices::new(&DeviceSet::equal(count), rates, &Links::DIRECT)
}

/// The median of some runs, in microseconds, and what the last one returned.
fn timed<T>(run: impl Fn() -> T) -> (f64, T) {
    let once = || {
        let start = Instant::now();
        let made = black_box(run());
        (start.elapsed().as_secs_f64() * 1e6, made)
    };
    let (_, mut last) = once();
    let mut times: Vec<f64> = (0..7)
        .map(|_| {
            let (us, made) = once();
            last = made;
            us
        })
        .collect();
    times.sort_by(f64::total_cmp);
    (times[3], last)
}

fn line(what: &str, tasks: usize, us: f64, seconds: f64) {
    println!(
        "| {what} | {tasks} | {us:.0} | {:.2} | {:.2} % |",
        us / tasks as f64,
        us * 1e-4 / seconds
    );
}

/// What it is called, and microseconds that trying tiles may take by the microseconds of the call.
type Budget = (&'static str, fn(f64) -> f64);

/// Microseconds that trying tiles may take, given the least makespan so far in microseconds. The runtime has *to 100 us*, and *to 200 us*
/// for triangular and symmetric routines on several devices. The makespan within the last one counts as the least.
const BUDGETS: [Budget; 5] = [
    ("20 us", |_| 20.0),
    ("100 us, 1 %", |call| f64::max(100.0, call * 0.01)),
    ("5 % from 20 to 100 us, 1 %", |call| {
        f64::max((call * 0.05).clamp(20.0, 100.0), call * 0.01)
    }),
    ("5 % from 20 to 200 us, 1 %", |call| {
        f64::max((call * 0.05).clamp(20.0, 200.0), call * 0.01)
    }),
    ("2 ms", |_| 2000.0),
];

/// The least makespan of those tiles that are tried within each of the budgets, as the runtime tries them, the first one in any case.
fn within_budgets(
    p: &Problem,
    devices: usize,
    rates: &Rates,
    moved: &[Fetch],
) -> [f64; BUDGETS.len()] {
    let Problem { m, n, k, .. } = *p;
    let mut spent_us = 0.0;
    let mut least = [(f64::INFINITY, true); BUDGETS.len()];
    for tile in candidates(p, &DeviceSet::equal(devices), devices > 1) {
        spent_us += planning_s(&tile, tile.products(m, n, k).max(devices)) * 1e6;
        for ((_, most_us), (seconds, goes_on)) in BUDGETS.iter().zip(&mut least) {
            *goes_on &= seconds.is_infinite() || spent_us <= most_us(*seconds * 1e6);
        }
        if !least.iter().any(|(_, goes_on)| *goes_on) {
            break;
        }
        let mut r = Resources::new(devices, 1, 1 << 40);
        r.tile = tile;
        let made = schedule_in_core(p, &lower(p, &r), &on(rates, devices), moved);
        let made = made.map_or(f64::INFINITY, |made| made.seconds);
        for (seconds, _) in least.iter_mut().filter(|(_, goes_on)| *goes_on) {
            *seconds = seconds.min(made);
        }
    }
    least.map(|(seconds, _)| seconds)
}

/// Sizes between 200 and 10,000, as many small as large ones by their logarithm.
fn shapes() -> impl Iterator<Item = [usize; 3]> {
    let mut state = 1_u64;
    let mut size = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (200.0 * 50_f64.powf((state >> 40) as f64 / (1 << 24) as f64)) as usize
    };
    (0..60).map(move |_| [size(), size(), size()])
}

fn budgets(devices: usize, rates: &Rates) {
    let names = BUDGETS.map(|(name, _)| name).join(" | ");
    println!("\n| devices | routine | operands | {names} |");
    println!("|---|---|---|{}", "---|".repeat(BUDGETS.len()));
    let (sent, none) = (Fetch { get: 1.0, set: 0.0 }, Fetch::default());
    let kinds = [
        ("from the host", sent, sent),
        ("from and to it", sent, Fetch::ALL),
        ("inputs from it", sent, none),
        ("resident", none, none),
    ];
    use Routine::{Gemm, Symm, Syr2k, Syrk, Trmm, Trsm};
    for routine in [Gemm, Syrk, Syr2k, Symm, Trmm, Trsm] {
        for (kind, inputs, output) in kinds {
            let (mut sum, mut largest) = ([0.0; BUDGETS.len()], [0.0_f64; BUDGETS.len()]);
            let mut count = 0.0;
            for shape in shapes() {
                let p = problem(routine, shape, Value::ONE);
                let mut moved = vec![inputs; p.operands.len() - 1];
                moved.push(output);
                let least = within_budgets(&p, devices, rates, &moved);
                for (i, seconds) in least.iter().enumerate() {
                    let over = 100.0 * (seconds / least[least.len() - 1] - 1.0);
                    sum[i] += over;
                    largest[i] = largest[i].max(over);
                }
                count += 1.0;
            }
            let cell = |i: usize| format!("{:.2}, {:.0}", sum[i] / count, largest[i]);
            let cells = (0..BUDGETS.len()).map(cell).collect::<Vec<_>>().join(" | ");
            println!("| {devices} | {routine:?} | {kind} | {cells} |");
        }
    }
}

fn main() {
    println!("| product | tasks | us | us each | of the makespan |\n|---|---|---|---|---|");
    let rates = Rates::h200(HostRates::of_cores(16));
    for (n, devices) in [(2048, 1), (4096, 1), (16384, 1), (16384, 2), (49152, 1)] {
        let (p, on) = (product(n), on(&rates, devices));
        let moved = [
            Fetch { get: 1.0, set: 0.0 },
            Fetch { get: 1.0, set: 0.0 },
            Fetch { get: 0.0, set: 1.0 },
        ];
        let squares = tiles(n).take(7).map(TileSize::square);
        for tile in squares.chain(strips_in_core(&p)) {
            let mut r = Resources::new(devices, 1, 1 << 40);
            r.tile = tile;
            let (us, (tasks, made)) = timed(|| {
                let plan = lower(&p, &r);
                let made = schedule_in_core(&p, &plan, &on, &moved);
                (plan.tasks.len(), made)
            });
            if let Some(made) = made {
                let TileSize { m, n: wide, k, .. } = tile;
                let what = format!(
                    "{n} on {devices}, {m} x {wide} x {k}: {:.4} s",
                    made.seconds
                );
                line(&what, tasks, us, made.seconds);
            }
        }
    }
    let p = product(16384);
    for share in [5, 25, 80] {
        let r = Resources::new(1, 2048, 3 * 16384 * 16384 * 8 / 100 * share);
        let (us, (tasks, best)) = timed(|| {
            let (mut tasks, mut best) = (0, f64::INFINITY);
            for tiling in tilings(&p, &r) {
                // As the runtime does it: no longer than a hundredth of the best so far.
                let more = tasks + tiling.tile.products(p.m, p.n, p.k);
                if more as f64 * 0.3e-6 > f64::max(100e-6, best * 0.01) {
                    continue;
                }
                let tiling = Some(tiling);
                let plan = lower(&p, &Resources { tiling, ..r });
                tasks += plan.tasks.len();
                if let Some(s) = schedule(&p, &plan, &on(&rates, 1), r.memory) {
                    best = best.min(s.seconds);
                }
            }
            (tasks, best)
        });
        line(&format!("16384, {share} % of the memory"), tasks, us, best);
    }
    for devices in [1, 2, 4] {
        budgets(devices, &rates);
    }
}
