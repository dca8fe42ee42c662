//! Products on simulated devices that do not hold the operands, in late and poison mode, against plain loops.

use super::*;
use crate::base::config::{Peers, Scheduler};
use crate::base::counters::{self, COUNTERS};
use crate::base::{DeviceId, Dtype, Form, Op, Rect, RectSet, Routine, TileSize, Value};
use crate::cache::pins::Pinning;
use crate::device::sim::{SimConfig, SimMachine};
use crate::model::{HostRates, Rates};
use crate::plan::tiling::Order;
use crate::plan::{Operand as Shape, Part, Resources, Task, Tiling, lower};
use crate::protect::WriteThroughGate;
use crate::sched::{Windowed, operand};

const SIZES: [usize; 3] = [88, 72, 95];

/// `C := op(A) op(B) + beta C` in one allocation.
struct Product {
    cache: Cache,
    problem: Problem,
    operands: Vec<Use>,
    /// Elements from the start of the allocation to each operand, and to its end.
    starts: Vec<usize>,
    data: Vec<f64>,
    before: Vec<f64>,
}

impl Product {
    fn new(ops: (Op, Op), beta: f64, devices: usize, memory: usize) -> Product {
        let [m, n, k] = SIZES;
        let stored = |op, r, c| match op {
            Op::None => Shape::matrix(r, c, r + 3),
            _ => Shape::matrix(c, r, c),
        };
        let shapes = vec![
            stored(ops.0, m, k),
            stored(ops.1, k, n),
            Shape::matrix(m, n, m + 1),
        ];
        let mut starts = vec![0];
        for shape in &shapes {
            starts.push(starts[starts.len() - 1] + shape.ld * shape.cols);
        }
        let number = |i: usize| (i * 7 % 11) as f64 - 5.0;
        let mut data: Vec<f64> = (0..starts[3]).map(number).collect();
        let problem = Problem {
            routine: Routine::Gemm,
            dtype: Dtype::D,
            form: Form::default(),
            op_a: ops.0,
            op_b: ops.1,
            m,
            n,
            k,
            alpha: Value::ONE,
            beta: Value { re: beta, im: 0.0 },
            operands: shapes,
        };
        let sim = SimMachine::new(SimConfig {
            devices,
            memory,
            late: true,
            poison: true,
            ..SimConfig::default()
        });
        let sim = Box::leak(Box::new(sim.expect("a machine")));
        let cache = Cache::new(sim, &WriteThroughGate, 4096, 4096);
        let base = data.as_mut_ptr().expose_provenance();
        let id = cache.add_transient(base, data.len() * 8);
        let operands = (0..3).map(|i| operand(&problem, i, id, base, base + starts[i] * 8));
        Product {
            operands: operands.collect(),
            before: data.clone(),
            cache,
            problem,
            starts,
            data,
        }
    }

    /// Runs a plan out of core. Returns the rows of each piece of C that was written back.
    fn run(&self, plan: &Plan) -> Vec<usize> {
        let rates = Rates::h200(HostRates::of_cores(4));
        let devices = DeviceSet::equal(self.cache.backend().devices().len());
        let (cache, problem, operands) = (&self.cache, &self.problem, &self.operands);
        let holds = make_room(cache, problem, plan, operands, (&devices, &rates)).expect("room");
        assert!(matches!(holds, Holds::Tiles(_)), "the operands fit");
        let mut streamed = StreamedWriteBack::new(plan, &[2], true);
        let memory = Memory {
            tiles: holds.tiles(),
            uploaders: None,
            pinning: Pinning::none(),
            results: None,
        };
        let out = Out::Nowhere;
        let done = run(cache, problem, plan, operands, memory, out, &mut streamed);
        assert!(done.is_ok(), "{done:?}");
        streamed.sent().iter().map(|(_, r)| r.width / 8).collect()
    }

    /// Writes everything back and compares.
    fn check(self) {
        let id = self.operands[0].id;
        let whole = Rect::interval(0, self.before.len() * 8);
        self.cache.open(id, &whole, false).expect("written back");
        self.cache.finish_transient(id);
        let (p, before) = (&self.problem, &self.before);
        let at = |x: usize, op: Op, r: usize, c: usize| {
            let (r, c) = if op == Op::None { (r, c) } else { (c, r) };
            before[self.starts[x] + r + c * p.operands[x].ld]
        };
        let mut expected = before.clone();
        for (i, j) in (0..p.m).flat_map(|i| (0..p.n).map(move |j| (i, j))) {
            let terms = (0..p.k).map(|l| at(0, p.op_a, i, l) * at(1, p.op_b, l, j));
            let sum: f64 = terms.sum();
            let old = at(2, Op::None, i, j);
            expected[self.starts[2] + i + j * p.operands[2].ld] = sum + p.beta.re * old;
        }
        assert!(self.data == expected, "{:?} {:?}", p.op_a, p.op_b);
    }
}

/// Strips of 48 rows and tiles of 16 columns, on devices that hold eight strips each.
#[test]
fn products_in_strips_equal_the_whole() {
    let (memory, none, trans) = (96 << 10, Op::None, Op::Trans);
    for ops in [(none, none), (none, trans), (trans, none), (trans, trans)] {
        for (devices, beta) in [(1, 0.0), (1, 2.0), (2, 0.0), (2, 2.0), (3, 0.0), (3, 2.0)] {
            let product = Product::new(ops, beta, devices, memory);
            let mut resources = Resources::new(devices, 64, memory);
            resources.tiling = Some(Tiling {
                tile: TileSize::long(16, 3, ops),
                block_rows: if ops.0 == Op::None { 1 } else { 3 },
                block_cols: 2,
                order: Order::ColumnsOfBlocks,
                in_core: false,
            });
            let plan = lower(&product.problem, &resources);
            let longer = |t: &Task| {
                let mut parts = t.parts.iter();
                parts.any(|p| plan.strips.around(t.device, p).rows > p.rows)
            };
            assert!(plan.fits && plan.tasks.iter().any(longer), "{ops:?}");
            let evictions = COUNTERS.cache.evictions.get();
            let rows = product.run(&plan);
            assert!(COUNTERS.cache.evictions.get() > evictions);
            // Each strip of the output leaves as a whole.
            assert!(rows.iter().all(|&rows| rows >= 32), "{ops:?}: {rows:?}");
            product.check();
        }
    }
}

/// A call that fits leaves all of A on the device. A call out of core with the same A does not send it again, unless it needs
/// the memory for more tiles.
#[test]
fn what_an_earlier_call_left_stays_if_that_is_worth_it() {
    for (memory, stays) in [(170 << 10, true), (74 << 10, false)] {
        let ops = (Op::None, Op::None);
        let mut product = Product::new(ops, 0.0, 1, memory);
        let all = (product.problem.n, product.operands.clone());
        product.problem.n = 1;
        for i in [1, 2] {
            product.problem.operands[i].cols = 1;
            let (id, base) = (all.1[i].id, all.1[i].base);
            let at = base + product.starts[i] * 8;
            product.operands[i] = operand(&product.problem, i, id, base, at);
        }
        let fits = lower(&product.problem, &Resources::new(1, 1024, 1 << 20));
        assert_eq!(fits.tasks.len(), 1);
        let mut streamed = StreamedWriteBack::default();
        let done = run(
            &product.cache,
            &product.problem,
            &fits,
            &product.operands,
            Memory {
                tiles: None,
                uploaders: None,
                pinning: Pinning::none(),
                results: None,
            },
            Out::Nowhere,
            &mut streamed,
        );
        assert!(done.is_ok(), "{done:?}");
        let (id, whole) = (product.operands[0].id, product.operands[0].view);
        let held = |p: &Product| p.cache.residency(id, &whole).union;
        assert_eq!(held(&product), whole.bytes());

        (product.problem.n, product.operands) = all;
        for i in [1, 2] {
            product.problem.operands[i].cols = product.problem.n;
        }
        let plan = lower(&product.problem, &Resources::new(1, 16, memory));
        let rates = Rates::h200(HostRates::of_cores(4));
        let on = (&DeviceSet::equal(1), &rates);
        let (cache, problem) = (&product.cache, &product.problem);
        let holds = make_room(cache, problem, &plan, &product.operands, on);
        assert!(matches!(holds, Ok(Holds::Tiles(_))));
        assert_eq!(held(&product) == whole.bytes(), stays, "{memory}");
        product.run(&plan);
        product.check();
    }
}

/// A call with the first rows of B leaves a replica of them. It holds tiles of a later call, but not their strips: these
/// tiles are moved without the rest of their strips.
#[test]
fn strips_that_an_earlier_call_left_in_part() {
    let ops = (Op::None, Op::None);
    let mut product = Product::new(ops, 0.0, 1, 1 << 20);
    let all = (product.problem.k, product.operands.clone());
    for (k, tile) in [
        (16, TileSize::square(16)),
        (all.0, TileSize::long(16, 3, ops)),
    ] {
        product.problem.k = k;
        product.problem.operands[0].cols = k;
        product.problem.operands[1].rows = k;
        for i in [0, 1] {
            let (id, base) = (all.1[i].id, all.1[i].base);
            let at = base + product.starts[i] * 8;
            product.operands[i] = operand(&product.problem, i, id, base, at);
        }
        let mut resources = Resources::new(1, 16, 1 << 20);
        resources.tile = tile;
        let plan = lower(&product.problem, &resources);
        let longer = |p: &Part| plan.strips.around(DeviceId(0), p).rows > p.rows;
        let mut parts = plan.tasks.iter().flat_map(|t| &t.parts);
        assert_eq!(parts.any(longer), k > 16);
        let done = run(
            &product.cache,
            &product.problem,
            &plan,
            &product.operands,
            Memory {
                tiles: None,
                uploaders: None,
                pinning: Pinning::none(),
                results: None,
            },
            Out::Nowhere,
            &mut StreamedWriteBack::default(),
        );
        assert!(done.is_ok(), "{done:?}");
    }
    product.check();
}

/// Two devices need the same tiles of A. In late mode each of these is still on its way to the first one when the second one
/// needs it.
#[test]
fn copies_in_flight_are_sources_only_if_the_settings_say_so() {
    testkit::alone(|| {
        for joins in [true, false] {
            let memory = 1 << 20;
            let mut product = Product::new((Op::None, Op::None), 2.0, 2, memory);
            product.cache = product.cache.with_peers(Peers::Auto, joins);
            let plan = lower(&product.problem, &Resources::new(2, 32, memory));
            let before = COUNTERS.bytes.p2p.get();
            let whole = Memory {
                tiles: None,
                uploaders: None,
                pinning: Pinning::none(),
                results: None,
            };
            let done = run(
                &product.cache,
                &product.problem,
                &plan,
                &product.operands,
                whole,
                Out::Nowhere,
                &mut StreamedWriteBack::default(),
            );
            assert!(done.is_ok(), "{done:?}");
            let copied = COUNTERS.bytes.p2p.get() > before;
            assert_eq!(copied, joins);
            product.check();
        }
    });
}

/// Devices with links that are faster than the host's: A, which all of them use, is uploaded once, a part of it to each.
#[test]
fn devices_share_the_uploads_of_what_all_of_them_use() {
    // No other test uses these devices, whose counters belong to the process.
    let ids = [17, 18, 19].map(DeviceId);
    let product = Product::new((Op::None, Op::None), 0.0, 20, 1 << 20);
    let devices = DeviceSet::of(ids.map(|id| (id, 1.0)));
    let mut resources = Resources::new(3, 16, 1 << 20);
    resources.devices = devices;
    let plan = lower(&product.problem, &resources);
    let rates = Rates::h200(HostRates::of_cores(4));
    let (cache, problem) = (&product.cache, &product.problem);
    let holds = make_room(cache, problem, &plan, &product.operands, (&devices, &rates));
    let Ok(Holds::Whole(mut uploaders)) = holds else {
        panic!("{holds:?}");
    };
    let memory = Memory {
        tiles: None,
        uploaders: Some(&mut uploaders),
        pinning: Pinning::none(),
        results: None,
    };
    let mut streamed = StreamedWriteBack::default();
    let operands = &product.operands;
    let done = run(
        cache,
        problem,
        &plan,
        operands,
        memory,
        Out::Nowhere,
        &mut streamed,
    );
    assert!(done.is_ok(), "{done:?}");
    let bytes = |i: usize| operands[i].view.bytes() as u64;
    let sent = ids.map(|id| counters::on_device(id).h2d.get());
    assert_eq!(sent.iter().sum::<u64>(), bytes(0) + bytes(1), "{sent:?}");
    // Each has a third of B, and about a third of A.
    let third = (bytes(0) + bytes(1)) / 3;
    let fair = |sent: &u64| (third * 3 / 4..third * 5 / 4).contains(sent);
    assert!(sent.iter().all(fair), "{sent:?}");
    for id in ids {
        let held = cache.residency(operands[0].id, &operands[0].view);
        assert_eq!(held.resident[id.index()] as u64, bytes(0));
    }
    product.check();
}

/// Devices that are as fast as each other, of which the plan takes one for ten times as fast: chains go to the others. The issue
/// is left off after each task, or not at all. Every tile is written back once, behind its last task.
#[test]
fn chains_that_go_to_other_devices_are_computed_once() {
    let (none, trans) = (Op::None, Op::Trans);
    let set = DeviceSet::of(
        [10.0, 1.0, 1.0]
            .into_iter()
            .zip(0..)
            .map(|(s, i)| (DeviceId(i), s)),
    );
    let rates = Rates::h200(HostRates::of_cores(4));
    let mut moved = 0;
    for (ops, memory) in [
        ((none, none), 1 << 20),
        ((trans, none), 96 << 10),
        ((none, trans), 1 << 20),
    ] {
        for (beta, each) in [(0.0, true), (2.0, false)] {
            let product = Product::new(ops, beta, 3, memory);
            let mut resources = Resources::new(3, 16, memory);
            (resources.devices, resources.apart) = (set, true);
            resources.grain = 1;
            let plan = lower(&product.problem, &resources);
            let (cache, operands) = (&product.cache, &product.operands);
            let call = (&product.problem, &**operands);
            let holds = make_room(cache, call.0, &plan, operands, (&set, &rates)).expect("room");
            let tiles = holds.tiles();
            assert_eq!(tiles.is_some(), memory < 1 << 20);
            let mut streamed = StreamedWriteBack::new(&plan, &[2], tiles.is_some());
            let mut windowed = Windowed::new(
                cache,
                call.0,
                plan.clone(),
                (&set, &rates),
                (Scheduler::Planned, 2),
            );
            let watch = std::time::Instant::now();
            let now = || watch.elapsed().as_secs_f64();
            let mut left_off = 0;
            loop {
                let gone = windowed.advance(cache, call, tiles, &mut streamed, &now, &|| each);
                if gone.expect("no device refuses") {
                    break;
                }
                left_off += 1;
            }
            assert_eq!(left_off >= plan.tasks.len(), each);
            assert_eq!(windowed.queued(), plan.tasks.len());
            let dealt = windowed.into_plan();
            let runs_elsewhere = |t: &&Task| !plan.tasks.contains(t);
            moved += dealt.tasks.iter().filter(runs_elsewhere).count();
            let mut sent = RectSet::new();
            for (_, rect) in streamed.sent() {
                assert!(!sent.overlaps(rect));
                sent.insert(rect);
            }
            assert_eq!(sent.bytes(), product.operands[2].view.bytes());
            product.check();
        }
    }
    assert!(moved > 50, "{moved}");
}

/// A device refuses a task in the middle: the tasks that were queued come first, and the others are those that are left.
#[test]
fn a_windowed_plan_that_stops_has_what_is_queued_first() {
    let product = Product::new((Op::None, Op::None), 0.0, 2, 1 << 20);
    let set = DeviceSet::equal(2);
    let rates = Rates::h200(HostRates::of_cores(4));
    let mut resources = Resources::new(2, 16, 1 << 20);
    resources.apart = true;
    let plan = lower(&product.problem, &resources);
    let call = (&product.problem, &*product.operands);
    let mut windowed = Windowed::new(
        &product.cache,
        call.0,
        plan.clone(),
        (&set, &rates),
        (Scheduler::Planned, 3),
    );
    let queued = std::cell::Cell::new(0);
    let mut streamed = StreamedWriteBack::default();
    let pause = || {
        queued.set(queued.get() + 1);
        queued.get() == 20
    };
    let gone = windowed.advance(&product.cache, call, None, &mut streamed, &|| 0.0, &pause);
    assert!(matches!(gone, Ok(false)));
    // The program frees an operand.
    product.cache.finish_transient(product.operands[1].id);
    let stopped = windowed.advance(&product.cache, call, None, &mut streamed, &|| 0.0, &|| {
        false
    });
    let Err(Stopped { at, error }) = stopped else {
        panic!("{stopped:?}");
    };
    assert_eq!(error, crate::cache::CacheError::Gone);
    let tasks = windowed.into_plan().tasks;
    assert_eq!(tasks.len(), plan.tasks.len());
    assert!(plan.tasks.iter().all(|t| tasks.contains(t)));
    // The steps of a tile stay in their order.
    for (i, task) in tasks.iter().enumerate() {
        let first = task.parts[2].access == crate::plan::Access::Overwrite;
        let same =
            |t: &&Task| t.parts[2].row == task.parts[2].row && t.parts[2].col == task.parts[2].col;
        assert_eq!(tasks[..i].iter().any(|t| same(&t)), !first);
    }
    assert!(at > 0 && at < tasks.len());
}
