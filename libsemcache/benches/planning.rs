//! Processor time of planning a product: cutting it into tasks, and the timeline of these.
//!
//! `cargo bench -p semcache --bench planning` prints, for each tile and memory, the tasks, microseconds for all and for
//! each, and the share of the predicted makespan (dgemm of order N from and to the host of an H200).
#![expect(clippy::print_stdout, reason = "a measuring program of its own")]

use std::hint::black_box;
use std::time::Instant;

use semcache::base::{DeviceSet, Dtype, Form, Links, Op, Routine, TileSize, Value};
use semcache::model::rates::{HostRates, Rates};
use semcache::model::select::{Fetch, tiles};
use semcache::plan::{Operand, Problem, Resources, lower, strips_in_core, tilings};
use semcache::sched::memory::{Devices, schedule, schedule_in_core};

fn product(n: usize) -> Problem {
    Problem {
        routine: Routine::Gemm,
        dtype: Dtype::D,
        form: Form::default(),
        op_a: Op::None,
        op_b: Op::None,
        m: n,
        n,
        k: n,
        alpha: Value::ONE,
        beta: Value::ZERO,
        operands: vec![Operand::matrix(n, n, n); 3],
    }
}

/// The median of some runs, in microseconds, and what the last one returned.
/// Devices that read each other's memory directly.
fn on(rates: &Rates, count: usize) -> Devices {
    Devices::new(&DeviceSet::equal(count), rates, &Links::DIRECT)
}

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
}
