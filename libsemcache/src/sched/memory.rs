//! What the model's timeline says of a plan.

use std::hash::Hash;

use rustc_hash::FxHashMap;

use crate::base::{DeviceId, DeviceSet, Links, Rect, Work};
use crate::cache::place::tile_bytes;
use crate::model::clocks::DeviceLinks;
use crate::model::exec::device_s;
use crate::model::ports::Ports;
use crate::model::rates::{DeviceRates, Rates};
use crate::model::select::Fetch;
use crate::model::timeline::{self, Device, Load, Schedule, Tile};
use crate::plan::{Access, Pace, Part, Plan, Problem, Task, touched};

/// The most tiles that a device holds of a call: what looks at all replicas of a matrix takes longer with each.
pub(super) const MOST_SLOTS: usize = 1024;

/// The devices of a call. The timeline numbers them by their positions in the set.
#[derive(Clone, Debug)]
pub struct Devices {
    set: DeviceSet,
    /// The rates of each: its own, if the ports are known that several share, else those while all of them transfer.
    rates: Vec<DeviceRates>,
    ports: Ports,
    /// How they read each other's memory.
    links: Links,
    /// Seconds of the host's part of the call.
    host_s: f64,
}

impl Devices {
    /// The devices of a set; `links` are those between all devices.
    #[must_use]
    pub fn new(set: &DeviceSet, rates: &Rates, links: &Links) -> Devices {
        Devices {
            set: *set,
            rates: match rates.ports.each().is_empty() {
                true => rates.each(set),
                false => set.ids().map(|id| *rates.of(id)).collect(),
            },
            ports: rates.ports,
            links: links.between(set),
            host_s: 0.0,
        }
    }

    /// The same devices, beside which the host computes a part of the call in these seconds.
    #[must_use]
    pub fn beside_host(mut self, host_s: f64) -> Devices {
        self.host_s = host_s;
        self
    }

    /// The devices as the timeline takes them, each with its number of slots.
    pub(super) fn with(&self, slots: &[usize]) -> Vec<Device> {
        let device = |((id, rates), &slots): ((DeviceId, &DeviceRates), &usize)| Device {
            slots,
            links: DeviceLinks::new(rates, self.ports.of(id)),
        };
        let each = self.set.ids().zip(&self.rates);
        each.zip(slots).map(device).collect()
    }
}

/// Device memory that holds any of these tiles.
pub(super) fn slot<'a>(tiles: impl Iterator<Item = &'a Rect>) -> usize {
    tiles.map(tile_bytes).max().unwrap_or(0)
}

/// The tasks of a plan as the timeline takes them. `moved` says how much of each operand is sent, and written back, in
/// multiples of what the call uses of it; all if it is empty. A tile of the timeline is a strip of the plan. Two of them are
/// one tile if `place` gives them one place; the places are returned in the order of [`Load::tiles`].
pub(super) fn load<K: Copy + Eq + Hash>(
    problem: &Problem,
    plan: &Plan,
    on: &Devices,
    moved: &[Fetch],
    place: impl Fn(&Part) -> K,
) -> (Load, Vec<K>) {
    let mut load = Load {
        issue_s: Pace::USUAL.issue_s,
        host_s: on.host_s,
        links: on.links.clone(),
        ports: on.ports.each().to_vec(),
        ..Load::default()
    };
    let (mut places, mut known) = (Vec::new(), FxHashMap::default());
    for task in &plan.tasks {
        let device = on.set.position(task.device).unwrap_or(0);
        let rates = &on.rates[device];
        load.tasks.push(timeline::Task {
            device,
            seconds: device_s(&work(problem, task), rates),
            first_use: load.uses.len(),
        });
        for part in &task.parts {
            let strip = &plan.strips.around(task.device, part);
            let at = place(strip);
            let tile = *known.entry(at).or_insert_with(|| {
                places.push(at);
                let whole = &problem.operands[part.operand];
                // Whole columns without gaps between them are one run.
                let run = match strip.rows == whole.ld {
                    true => strip.rows * strip.cols,
                    false => strip.rows,
                };
                load.tiles.push(Tile {
                    bytes: 0.0,
                    home: 0.0,
                    share: rates.runs.of(run * problem.dtype.size()),
                    uploader: None,
                });
                load.tiles.len() - 1
            });
            let all = strip.rows * strip.cols;
            let (read, written) = match problem.routine.triangle() {
                Some(triangle) if triangle == part.operand && strip == part => {
                    of_triangle(problem, task, part)
                }
                _ if part.access == Access::Overwrite => (0, all),
                _ => (all, all),
            };
            let reads = read > 0;
            let bytes = |elements| (elements * problem.dtype.size()) as f64;
            let Fetch { get, set } = moved.get(part.operand).copied().unwrap_or(Fetch::ALL);
            let (writes, known) = (part.access != Access::Read, &mut load.tiles[tile]);
            // A tile that is not read before it is written has its size nevertheless: it may have to be copied later.
            let sent = if reads { read } else { written };
            known.bytes = known.bytes.max(bytes(sent) * get);
            if writes {
                known.home = known.home.max(bytes(written) * set);
            }
            load.uses.push(timeline::Use {
                tile: u32::try_from(tile).unwrap_or(u32::MAX),
                reads,
                writes,
            });
        }
    }
    (load, places)
}

/// The elements of a part of the triangle that a task needs on its device before, and those that it uses or writes.
fn of_triangle(problem: &Problem, task: &Task, part: &Part) -> (usize, usize) {
    let pieces = touched(problem, &task.kernel, part);
    let elements = |pieces: &mut dyn Iterator<Item = &Part>| pieces.map(|p| p.rows * p.cols).sum();
    let mut read = pieces.iter().filter(|p| p.access != Access::Overwrite);
    (elements(&mut read), elements(&mut pieces.iter()))
}

/// The work of a task.
#[must_use]
pub fn work(problem: &Problem, task: &Task) -> Work {
    let k = &task.kernel;
    Work {
        routine: k.routine,
        side: problem.form.side,
        dtype: k.dtype,
        m: k.m,
        n: k.n,
        k: k.k,
    }
}

/// The schedule of a plan on devices of `memory` bytes each, which hold nothing before the call.
#[must_use]
pub fn schedule(problem: &Problem, plan: &Plan, on: &Devices, memory: usize) -> Option<Schedule> {
    let (load, devices) = out_of_core(problem, plan, on, memory);
    timeline::schedule(&load, &devices)
}

/// What [`schedule`] has the timeline of.
pub(super) fn out_of_core(
    problem: &Problem,
    plan: &Plan,
    on: &Devices,
    memory: usize,
) -> (Load, Vec<Device>) {
    let place = |p: &Part| (p.operand, problem.bytes(p, 0));
    let (load, places) = load(problem, plan, on, &[], place);
    let slots = memory / slot(places.iter().map(|(_, rect)| rect)).max(1);
    let slots = slots.min(MOST_SLOTS);
    (load, on.with(&vec![slots; on.set.len()]))
}

/// A part of an operand: operand, first row and column, rows and columns.
type PartPlace = (usize, usize, usize, usize, usize);

fn part_place(p: &Part) -> PartPlace {
    (p.operand, p.row, p.col, p.rows, p.cols)
}

/// The inputs that several devices of a call read, each with the device that it is uploaded to if no device holds it
/// ([`Load::share_uploads`]).
#[derive(Debug, Default)]
pub struct Uploaders(FxHashMap<PartPlace, DeviceId>);

impl Uploaders {
    /// The inputs of a plan whose operands fit into the memory of its devices.
    #[must_use]
    pub fn new(problem: &Problem, plan: &Plan, on: &Devices) -> Uploaders {
        if !timeline::shares_uploads(&on.links, on.set.len()) {
            return Uploaders::default();
        }
        let (mut load, places) = load(problem, plan, on, &[], part_place);
        load.share_uploads(on.set.len());
        let tiles = load.tiles.iter().zip(places);
        let shared = tiles.filter_map(|(tile, place)| Some((place, on.set.id(tile.uploader?))));
        Uploaders(shared.collect())
    }

    /// The device that an input is uploaded to. Once only: the task that asks is the first one that uses the input.
    pub(super) fn first(&mut self, part: &Part) -> Option<DeviceId> {
        if self.0.is_empty() {
            return None;
        }
        self.0.remove(&part_place(part))
    }
}

/// The schedule of a plan on devices whose memory holds all operands. `moved`: how much of each operand has to be sent, and
/// written back.
#[must_use]
pub fn schedule_in_core(
    problem: &Problem,
    plan: &Plan,
    on: &Devices,
    moved: &[Fetch],
) -> Option<Schedule> {
    let (load, devices) = in_core(problem, plan, on, moved);
    timeline::schedule(&load, &devices)
}

/// What [`schedule_in_core`] has the timeline of.
pub(super) fn in_core(
    problem: &Problem,
    plan: &Plan,
    on: &Devices,
    moved: &[Fetch],
) -> (Load, Vec<Device>) {
    let (mut load, _) = load(problem, plan, on, moved, part_place);
    load.share_uploads(on.set.len());
    (load, on.with(&vec![usize::MAX; on.set.len()]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::work::RunShares;
    use crate::base::{Dtype, Form, Op, Routine, Side, TileSize, Uplo, Value};
    use crate::device::sim::SimConfig;
    use crate::model::HostRates;
    use crate::model::exec::{self, by_speed, row_s};
    use crate::model::select::tiles;
    use crate::plan::{self, Operand, Resources, lower, strips_in_core, tilings};

    fn h200() -> Rates {
        Rates::h200(HostRates::of_cores(16))
    }

    /// Devices that read each other's memory directly.
    fn direct(rates: &Rates, count: usize) -> Devices {
        Devices::new(&DeviceSet::equal(count), rates, &Links::DIRECT)
    }

    fn problem(routine: Routine, (m, n, k): (usize, usize, usize), beta: Value) -> Problem {
        let matrix = |r, c| Operand::matrix(r, c, r);
        use Routine::{Gemm, Symm, Syr2k, Syrk, Trmm, Trsm};
        let operands = match routine {
            Gemm => vec![matrix(m, k), matrix(k, n), matrix(m, n)],
            Symm => vec![matrix(m, m), matrix(m, n), matrix(m, n)],
            Syrk => vec![matrix(m, k), matrix(m, m)],
            Syr2k => vec![matrix(m, k), matrix(m, k), matrix(m, m)],
            Trmm | Trsm => vec![matrix(m, m), matrix(m, n)],
            other => unreachable!("{other:?}"),
        };
        Problem {
            routine,
            dtype: Dtype::D,
            form: Form {
                side: Side::Left,
                uplo: Uplo::Lower,
                ..Form::default()
            },
            op_a: Op::None,
            op_b: Op::None,
            m,
            n: if matches!(routine, Syrk | Syr2k) {
                m
            } else {
                n
            },
            k: if matches!(routine, Symm | Trmm | Trsm) {
                m
            } else {
                k
            },
            alpha: Value::ONE,
            beta,
            operands,
        }
    }

    /// Elements that the best simple blocking sends to one of `devices` devices, each of which has `n` columns, or as much of a
    /// triangle.
    fn simple(routine: Routine, (m, n, k): (usize, usize, usize), memory: f64, beta: bool) -> f64 {
        let [m, n, k] = [m, n, k].map(|d| d as f64);
        // Of a triangle of order m a device has as much as of n columns.
        let share = n / m;
        let s = (0.9 * memory).sqrt();
        let c = if beta { m * n } else { 0.0 };
        let blocks = |m: f64, n: f64, k: f64| m * k * (n / s).ceil() + k * n * (m / s).ceil();
        // A device's part of a triangle, but at least one pass over what its rows and columns need.
        let triangle = |k: f64| (share * blocks(m, m, k) / 2.0).max(m * k);
        match routine {
            Routine::Gemm | Routine::Symm => {
                let panel_a = m * k + k * n * (m * k / (0.9 * memory)).ceil();
                let panel_b = k * n + m * k * (n * k / (0.9 * memory)).ceil();
                c + blocks(m, n, k).min(panel_a).min(panel_b)
            }
            Routine::Syrk => c / 2.0 + triangle(k),
            Routine::Syr2k => c / 2.0 + triangle(2.0 * k),
            _ => {
                let panel_b = m * m / 2.0 * (m * n / (0.9 * memory)).ceil();
                m * n + (m * m / 2.0 * (n / s).ceil() + m * n / 2.0 * (m / s).ceil()).min(panel_b)
            }
        }
    }

    /// The schedule of the tiling that ends first, of those that the plan offers.
    fn best(p: &Problem, devices: usize, memory: usize, runs: RunShares) -> Option<Schedule> {
        let mut rates = h200();
        rates.kinds.each_mut()[0].runs = runs;
        let mut r = Resources::new(devices, 2048, memory);
        r.pace = Pace {
            row_s: row_s(p.routine),
            runs,
            ..Pace::USUAL
        };
        let schedules = tilings(p, &r).into_iter().filter_map(|t| {
            let tiling = Some(t);
            let plan = lower(p, &Resources { tiling, ..r });
            schedule(p, &plan, &direct(&rates, devices), memory)
        });
        schedules.min_by(|a, b| a.seconds.total_cmp(&b.seconds))
    }

    /// The estimate that ranks tilings, and the timeline that chooses among the first, look for the least time; so a few
    /// per cent more may be sent than the best blocking would. On a link that is as fast for short columns as for long ones:
    /// where it is not, sending more in longer columns may take less time.
    #[test]
    fn what_is_sent_stays_near_the_best_simple_blocking() {
        use Routine::{Gemm, Symm, Syr2k, Syrk, Trmm, Trsm};
        let n = 16384;
        for routine in [Gemm, Symm, Syrk, Syr2k, Trsm, Trmm] {
            for (devices, beta) in [(1, 0.0), (1, 1.0), (2, 0.0), (3, 1.0), (4, 0.0)] {
                let p = problem(routine, (n, n, n), Value { re: beta, im: 0.0 });
                let all: usize = p.operands.iter().map(|o| o.rows * o.cols * 8).sum();
                // Of a triangle a device owns columns, whose blocks are narrower than they could be.
                let narrow = devices > 1 && matches!(routine, Syrk | Syr2k);
                // Of four devices one thread queues the tasks of all: fewer, larger tiles take less time, of which memory holds fewer.
                let most = match devices {
                    _ if narrow => 1.75,
                    4 => 1.3,
                    _ => 1.25,
                };
                for share in [5, 10, 25, 50, 80] {
                    let memory = all / 100 * share / devices;
                    let s =
                        best(&p, devices, memory, RunShares::ALL).expect("memory for many tiles");
                    let part = (n, n / devices, n);
                    let simple = simple(routine, part, memory as f64 / 8.0, beta != 0.0);
                    let sent = (s.bytes_in + s.bytes_peer) / 8.0 / devices as f64;
                    assert!(
                        sent <= most * simple,
                        "{routine:?} on {devices} with {share} %: {}",
                        sent / simple
                    );
                }
            }
        }
    }

    /// Each memory is planned for itself, so the best of a few tilings may be a little worse than that for less memory.
    #[test]
    fn more_memory_is_hardly_slower() {
        use Routine::{Gemm, Symm, Syr2k, Syrk, Trmm, Trsm};
        let (n, narrow) = (8192, 512);
        let shapes = [(n, n, n), (narrow, n, n), (n, narrow, n), (n, n, narrow)];
        let runs = h200().of(DeviceId(0)).runs;
        for routine in [Gemm, Symm, Syrk, Syr2k, Trmm, Trsm] {
            for shape in shapes {
                let p = problem(routine, shape, Value::ZERO);
                let all: usize = p.operands.iter().map(|o| o.rows * o.cols * 8).sum();
                let mut least = f64::INFINITY;
                for step in 1..=10 {
                    let s = best(&p, 1, all / 10 * step, runs).expect("memory for many tiles");
                    assert!(
                        s.seconds <= 1.05 * least,
                        "{routine:?} {shape:?} at {step}: {} after {least}",
                        s.seconds
                    );
                    least = least.min(s.seconds);
                }
            }
        }
    }

    /// Of a triangle that is not read, the squares on the diagonal are sent, and all of it is written back.
    #[test]
    fn a_triangle_that_is_not_read_is_written_back_whole() {
        let rates = h200();
        let (n, beta) = (4096, Value::ZERO);
        let p = problem(Routine::Syrk, (n, n, 256), beta);
        let moved = [Fetch { get: 0.0, set: 0.0 }, Fetch::ALL];
        let half = (n * n * 8 / 2) as f64;
        for tile in [n, n / 2] {
            let r = Resources::new(1, tile, 80 << 30);
            let schedule = schedule_in_core(&p, &lower(&p, &r), &direct(&rates, 1), &moved);
            let schedule = schedule.expect("memory for all");
            let (sent, back) = (schedule.bytes_in / half, schedule.bytes_out / half);
            assert!((sent - 0.25).abs() < 0.01, "{tile}: {sent}");
            assert!((back - 1.125).abs() < 0.01, "{tile}: {back}");
        }
    }

    /// BLASX's machine Everest, of which one pair of devices is linked: bytes of a product of order 16384 that cross any link.
    #[test]
    fn a_product_on_everest_moves_each_input_over_few_links() {
        let everest = SimConfig::preset("everest").expect("a preset");
        let links = everest.links();
        let machine = everest.preset.expect("a model");
        let rates = Rates::modelled(&machine, HostRates::of_cores(16));
        let n = 16384;
        let p = problem(Routine::Gemm, (n, n, n), Value::ZERO);
        let sent = Fetch { get: 1.0, set: 0.0 };
        let moved = [sent, sent, Fetch { get: 0.0, set: 1.0 }];
        let on = Devices::new(&DeviceSet::equal(3), &rates, &links);
        let plan = lower(&p, &Resources::new(3, 2048, 11 << 30));
        let s = schedule_in_core(&p, &plan, &on, &moved).expect("memory for all");
        let matrix = (n * n * 8) as f64;
        // A goes to device 0 and to one of the other two over PCIe, and most of it from that one to the last.
        assert!(s.bytes_in <= 3.3 * matrix, "{} GB in", s.bytes_in / 1e9);
        assert!(
            s.bytes_peer >= 0.7 * matrix,
            "{} GB over the link",
            s.bytes_peer / 1e9
        );
        assert_eq!(s.bytes_out, matrix);
        let all = s.bytes_in + s.bytes_peer + s.bytes_out;
        assert!(all <= 13e9, "{} GB", all / 1e9);
    }

    /// BLASX's machine Makalu, whose devices are unequal: products of order 16384 in double and in single precision.
    #[test]
    fn unequal_devices_work_at_the_sum_of_their_rates() {
        let makalu = SimConfig::preset("makalu").expect("a preset");
        let links = makalu.links();
        let machine = makalu.preset.expect("a model");
        let rates = Rates::modelled(&machine, HostRates::of_cores(16));
        let n = 16384;
        // In single precision the uploads take as long as half of the arithmetic.
        for (dtype, least_share) in [(Dtype::D, 0.95), (Dtype::S, 0.85)] {
            let mut p = problem(Routine::Gemm, (n, n, n), Value::ZERO);
            p.dtype = dtype;
            let set = by_speed(&p.work(), &rates, 4);
            let on = Devices::new(&set, &rates, &links);
            let sent = Fetch { get: 1.0, set: 0.0 };
            let moved = [sent, sent, Fetch { get: 0.0, set: 1.0 }];
            let seconds = tiles(n).map(|tile| {
                let mut r = Resources::new(4, tile, 11 << 30);
                r.devices = set;
                let plan = lower(&p, &r);
                let s = schedule_in_core(&p, &plan, &on, &moved);
                s.expect("memory for all").seconds
            });
            let least = seconds.fold(f64::INFINITY, f64::min);
            let peak = |id| rates.of(id).gemm(dtype).peak_flops;
            let ideal = p.work().flops() / set.ids().map(peak).sum::<f64>();
            let share = ideal / least;
            assert!(share >= least_share, "{dtype:?}: {share}");
        }
    }

    /// On Makalu the rate of the CPU comes on top of that of the devices: a product of doubles of order 16384 in columns of
    /// whole pages.
    #[test]
    fn the_host_adds_its_rate_to_that_of_the_devices() {
        use crate::model::decide::host_part::{pays, share};
        let makalu = SimConfig::preset("makalu").expect("a preset");
        let (links, machine) = (makalu.links(), makalu.preset.expect("a model"));
        let rates = Rates::modelled(&machine, HostRates::of_cores(16));
        let n = 16384;
        let p = problem(Routine::Gemm, (n, n, n), Value::ZERO);
        let set = by_speed(&p.work(), &rates, 4);
        let sent = Fetch { get: 1.0, set: 0.0 };
        let moved = [sent, sent, Fetch { get: 0.0, set: 1.0 }];
        let least = |p: &Problem, on: &Devices| {
            let seconds = tiles(n).map(|tile| {
                let mut r = Resources::new(4, tile, 11 << 30);
                r.devices = set;
                let s = schedule_in_core(p, &lower(p, &r), on, &moved);
                s.expect("memory for all").seconds
            });
            seconds.fold(f64::INFINITY, f64::min)
        };
        let on = Devices::new(&set, &rates, &links);
        let without = least(&p, &on);
        let host_s = exec::host_s(&p.work(), &rates.host);
        let share = share(&p.work(), &set, &rates, 1.0, host_s).expect("the host is worth it");
        let columns = plan::host_part::columns(&p, share, 4096).expect("columns for both");
        let part = plan::host_part(&p, columns).expect("both parts");
        let of_host_s = |task| exec::host_s(&work(&p, task), &rates.host);
        let of_host = part.tasks.iter().map(of_host_s).sum();
        let with = least(&part.devices, &on.clone().beside_host(of_host));
        assert!(pays(with, without), "{with} {without}");
        let peak = |id| rates.of(id).gemm(Dtype::D).peak_flops;
        let devices: f64 = set.ids().map(peak).sum();
        let host = p.work().flops() / host_s;
        let reached = p.work().flops() / with;
        assert!(
            reached >= 0.95 * (devices + host),
            "{reached} of {devices} and {host}"
        );
        // The rate that the host adds.
        let added = reached - p.work().flops() / without;
        assert!((added / host - 1.0).abs() < 0.05, "{added} of {host}");
    }

    /// A call ends with the host's part, which begins when all tasks are queued.
    #[test]
    fn the_hosts_part_begins_behind_the_last_task() {
        let rates = h200();
        let p = problem(Routine::Gemm, (4096, 4096, 4096), Value::ZERO);
        let plan = lower(&p, &Resources::new(1, 1024, 80 << 30));
        let seconds = |host_s| {
            let on = direct(&rates, 1).beside_host(host_s);
            schedule_in_core(&p, &plan, &on, &[])
                .expect("memory")
                .seconds
        };
        let without = seconds(0.0);
        assert_eq!(seconds(without / 2.0 - 3e-3), without);
        let queued = plan.tasks.len() as f64 * Pace::USUAL.issue_s;
        assert_eq!(seconds(1.0), 1.0 + queued);
    }

    /// Operands that fit, from and to the host.
    #[test]
    fn long_columns_hide_more_of_the_copies() {
        use Routine::{Gemm, Symm, Trmm};
        let rates = h200();
        let out = Fetch { get: 0.0, set: 1.0 };
        let seconds = |p: &Problem, tile: TileSize, moved: &[Fetch]| {
            let mut r = Resources::new(1, 1, 80 << 30);
            r.tile = tile;
            let plan = lower(p, &r);
            let schedule = schedule_in_core(p, &plan, &direct(&rates, 1), moved);
            schedule.expect("memory for all").seconds
        };
        for (routine, n, most) in [
            (Gemm, 2048, 0.8),
            (Gemm, 4096, 0.7),
            (Symm, 4096, 0.8),
            (Trmm, 4096, 0.95),
        ] {
            let p = problem(routine, (n, n, n), Value::ZERO);
            let mut moved = vec![Fetch { get: 1.0, set: 0.0 }; p.operands.len()];
            moved[p.operands.len() - 1] = if routine == Trmm { Fetch::ALL } else { out };
            let least = |tiles: Vec<TileSize>| {
                let tiles = tiles.into_iter().filter(|t| t.products(n, n, n) <= 128);
                tiles
                    .map(|t| seconds(&p, t, &moved))
                    .fold(f64::INFINITY, f64::min)
            };
            let squares = least(tiles(n).map(TileSize::square).collect());
            let strips = least(strips_in_core(&p));
            assert!(
                strips < most * squares,
                "{routine:?} {n}: {strips} {squares}"
            );
        }
    }
}
