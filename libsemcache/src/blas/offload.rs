//! Where a call runs, and by which plan: gathers what the model needs to know of the operands and asks it
//! (decision D8).

pub(super) mod batch;
mod tried;

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::base::masked::{Masked, if_handlers};
use log::Level::Debug;
use log::{debug, log_enabled};

use super::call::Call;
use super::memo::{self, Memo};
use super::sample::sample;
use crate::base::config::{Config, Devices, Offload, SimMachine};
use crate::base::counters::{COUNTERS, WhyHost};
use crate::base::{DeviceId, Interval, Rect};
use crate::cache::history::History;
use crate::cache::{Cache, Residency};
use crate::device::api::{Backend, Caps};
use crate::host::Block;
use crate::model::decide::{self, Decision, Floor, Mode, OperandState, Question, Reason};
use crate::model::exec;
use crate::model::invest::{Bets, Use};
use crate::model::machine::{HostRates, Machine as Rates, Total, Vectors};
use crate::model::observe::{Observed, Quantity, Refined};
use crate::model::trial::{Place, Trials};
use crate::model::work::Work;
use crate::plan::{self, Access, Plan, Problem, Shape};
use crate::topology;

/// The machine as the decision sees it.
#[derive(Debug)]
pub struct Machine {
    mode: Mode,
    tile: Option<usize>,
    memory: usize,
    /// Whether times on this machine tell anything: those of simulated devices do not.
    real: bool,
    learned: Mutex<Learned>,
    memo: Memo,
    /// The clock of trials.
    began: Instant,
}

/// What earlier calls taught.
#[derive(Debug)]
struct Learned {
    rates: Refined,
    bets: Bets,
    trials: Trials,
}

impl Machine {
    /// Built-in rates for the devices of a backend, and for a host BLAS with that many threads. Simulated
    /// devices are predicted as the machine that they model.
    #[must_use]
    pub fn new(config: &Config, backend: Option<&'static dyn Backend>, threads: usize) -> Self {
        let host = HostRates::of(threads, vectors());
        let devices = backend.map_or(&[][..], |b| b.devices());
        let mode = match config.offload {
            Offload::Auto => Mode::Auto,
            Offload::Always => Mode::Always,
            Offload::Never => Mode::Never,
        };
        Self {
            mode,
            tile: config.tile,
            memory: devices.iter().map(|c| c.memory).min().unwrap_or(0),
            real: devices.first().is_some_and(|c| c.kind == "cuda"),
            learned: Mutex::new(Learned {
                rates: Refined::new(rates(config, devices, host)),
                bets: Bets::default(),
                trials: Trials::default(),
            }),
            memo: Memo::default(),
            began: Instant::now(),
        }
    }

    fn learned(&self) -> MutexGuard<'_, Learned> {
        self.learned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a measured time into account. Whoever waits for a copy, a kernel or the host anyway may tell.
    pub fn observe(&self, seen: &Observed) {
        if self.real {
            self.learned().rates.observe(seen);
        }
    }

    /// Whether predictions are put to trials.
    fn tries(&self) -> bool {
        self.real && self.mode == Mode::Auto
    }

    fn now(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Whether the call is the host's wherever its operands are, if they are not kept from the host.
    #[must_use]
    pub fn hopeless(&self, call: &Call) -> bool {
        self.mode == Mode::Auto
            && call.work().is_some_and(|work| {
                // A handler of the program that interrupted this thread could wait for the same lock.
                let _masked = if_handlers();
                let rates = *self.learned().rates.machine();
                decide::hopeless(&work, &rates)
            })
    }

    /// Whether the call was sent to the host a moment ago, and goes there again without a decision.
    #[must_use]
    pub fn stays_home(&self, call: &Call) -> bool {
        self.mode == Mode::Auto && self.memo.take(memo::of_call(call))
    }

    /// The call's seconds on the host, and on one device that has nothing of it yet, whose memory is new and whose
    /// result is read.
    #[must_use]
    pub fn cold(&self, problem: &Problem, places: &[Rect]) -> (f64, f64) {
        let states: Vec<OperandState<'_>> = places
            .iter()
            .enumerate()
            .map(|(i, p)| OperandState {
                unpinned: p.bytes(),
                read_back: 1.0,
                looked: 1.0,
                ..state(problem, i, p.bytes())
            })
            .collect();
        let question = Question {
            work: problem.work(),
            operands: &states,
            devices: 1,
            prefer: 0,
            memory: if self.memory == 0 {
                usize::MAX
            } else {
                self.memory
            },
            mode: Mode::Always,
            tile: self.tile,
        };
        let rates = *self.learned().rates.machine();
        let host = decide::on_host(&question, &rates);
        match decide::decide(&question, &rates, &Floor::default()) {
            Decision::Offload { predicted_s, .. } => (host, predicted_s),
            Decision::Host(_) => (host, f64::INFINITY),
        }
    }

    /// A call of the program's begins on this thread: one that it sent to the host is over, so that took the host
    /// no longer. An upper bound only, for what the program did in between is in it; so it can show that the host
    /// is faster than believed, never that it is slower. (The host BLAS is jumped to, with no frame of ours left
    /// to come back to.)
    pub fn back(&self) {
        let Some(sent) = SENT.take() else {
            return;
        };
        let seconds = sent.at.elapsed().as_secs_f64();
        if seconds < sent.expected_s {
            // A handler that jumps out would leave locked what was learned.
            let _masked = Masked::new();
            self.observe(&Observed {
                quantity: Quantity::Host(sent.work),
                seconds,
            });
        }
    }

    /// The thread is about to run a call on the host that finds its operands there.
    fn sent(&self, work: Work, expected_s: f64) {
        if self.real {
            SENT.set(Some(Sent {
                at: Instant::now(),
                work,
                expected_s,
            }));
        }
    }
}

/// A call that went to the host.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Instant,
    work: Work,
    expected_s: f64,
}

std::thread_local! {
    static SENT: Cell<Option<Sent>> = const { Cell::new(None) };
}

/// Threads of the host BLAS: what the user says in the ways that the libraries understand, at most all cores.
#[must_use]
pub fn host_threads(environment: &dyn Fn(&str) -> Option<String>, cores: usize) -> usize {
    // OpenBLAS asks in this order; the other libraries have a name of their own each.
    const NAMES: [&str; 5] = [
        "OPENBLAS_NUM_THREADS",
        "GOTO_NUM_THREADS",
        "MKL_NUM_THREADS",
        "BLIS_NUM_THREADS",
        "OMP_NUM_THREADS",
    ];
    let said = NAMES.iter().find_map(|name| {
        let value = environment(name)?;
        // OMP_NUM_THREADS may list one number for each level of nesting.
        let first: usize = value.split(',').next()?.trim().parse().ok()?;
        (first > 0).then_some(first)
    });
    said.unwrap_or(cores).clamp(1, cores.max(1))
}

fn vectors() -> Vectors {
    #[cfg(target_arch = "x86_64")]
    {
        if std::is_x86_feature_detected!("avx512f") {
            return Vectors::Avx512;
        }
        if !std::is_x86_feature_detected!("fma") {
            return Vectors::Sse;
        }
    }
    Vectors::Avx2
}

/// Built-in figures: of the modelled machine for simulated devices, by the product's name for others.
fn rates(config: &Config, devices: &[Caps], host: HostRates) -> Rates {
    let mut rates = match &config.devices {
        Devices::Sim(SimMachine::Count(_)) => Rates::h200(host),
        Devices::Sim(SimMachine::Preset(name)) => match topology::preset(name) {
            Some(machine) => Rates::modelled(&machine, host),
            None => Rates::generic(host),
        },
        _ => Rates::by_name(devices.first().map_or("", |c| c.name.as_str()), host),
    };
    if let Some(gbs) = config.sim.link_gbs {
        let rate = gbs * 1e9;
        rates.device = rates.device.with_link(rate);
        rates.h2d_all = Total([1.0, 2.0, 4.0, devices.len().max(1) as f64].map(|n| n * rate));
        rates.d2h_all = rates.h2d_all;
    }
    rates
}

/// An operand of which nothing is known.
fn state(problem: &Problem, operand: usize, bytes: usize) -> OperandState<'static> {
    OperandState {
        bytes,
        read: problem.fetches(operand),
        written: problem.access(operand) != Access::Read,
        ..OperandState::default()
    }
}

/// What is to be expected of each operand's block beyond the prediction, counted for the first operand in it.
fn beyond_s(
    cache: &Cache,
    machine: &Machine,
    problem: &Problem,
    places: &[Rect],
    blocks: &[Option<Block>],
    found: &[(Residency, History, usize)],
) -> Vec<f64> {
    let now = Instant::now();
    let of = |i: usize| {
        let id = blocks[i].filter(|_| machine.real)?.id;
        let inside = |j: &usize| blocks[*j].is_some_and(|b| b.id == id);
        if (0..i).any(|j| inside(&j)) {
            return None;
        }
        let panels = |j: usize| cache.panels(&places[j]);
        let all = (i..places.len()).filter(inside);
        let output = all.clone().any(|j| problem.access(j) != Access::Read);
        Some(found[i].1.beyond_s(all.map(panels).sum(), output, now))
    };
    (0..places.len()).map(|i| of(i).unwrap_or(0.0)).collect()
}

/// Where in its block an operand is that the call reads and of which devices have less than half.
fn gone(
    problem: &Problem,
    operand: usize,
    place: &Rect,
    rect: &Rect,
    residency: &Residency,
) -> Option<Interval> {
    let missing = residency.union < place.bytes() / 2;
    (problem.fetches(operand) && missing).then(|| rect.span())
}

/// The seconds that a call is to take.
#[derive(Clone, Copy, Debug)]
pub struct Seconds {
    /// In all.
    pub whole: f64,
    /// The calling thread's own, pinning and packing not counted.
    pub own: f64,
    /// The fault of a look at a result.
    pub look: f64,
}

/// The plan of a call that is to run on devices, and what it is predicted to take.
///
/// # Errors
/// Why it is not.
pub fn decide(
    cache: &Cache,
    machine: &Machine,
    problem: &Problem,
    places: &[Rect],
    blocks: &[Option<Block>],
) -> Result<(Plan, Seconds), WhyHost> {
    let work = problem.work();
    let usable = cache.backend().usable();
    let mut found: Vec<(Residency, History, usize)> = Vec::with_capacity(places.len());
    let mut on = vec![0_usize; usable];
    let key = memo::of_problem(problem, places);
    for (i, (p, b)) in places.iter().zip(blocks).enumerate() {
        let (residency, history) = match b {
            Some(b) => {
                let rect = p.counted_from(b.start);
                let residency = cache.residency(b.id, &rect);
                let unwatched = residency.union == 0 && problem.access(i) == Access::Read;
                if unwatched && machine.mode == Mode::Auto {
                    cache.note_sample(b, &rect, sample(p));
                }
                // One use of a block, however many operands lie in it.
                let first = (0..i).find(|&j| blocks[j].is_some_and(|f| f.id == b.id));
                let history = first.map_or_else(|| cache.note_use(b, key), |j| found[j].1);
                (residency, history)
            }
            None => (Residency::default(), History::TRANSIENT),
        };
        for (sum, n) in on.iter_mut().zip(&residency.resident) {
            *sum += n;
        }
        let unpinned = b.map_or(0, |b| cache.unpinned(&b));
        found.push((residency, history, unpinned));
    }
    // Level 1 and 2 mostly run on one device: what the others hold must move.
    let prefer = on
        .iter()
        .enumerate()
        .max_by_key(|&(i, n)| (n, usize::MAX - i))
        .map_or(0, |(i, _)| i);
    let beyond = beyond_s(cache, machine, problem, places, blocks, &found);
    let mut states = Vec::with_capacity(places.len());
    let mut learned = machine.learned();
    for (i, (p, b)) in places.iter().zip(blocks).enumerate() {
        let (residency, history, unpinned) = &found[i];
        let seen = history.seen();
        states.push(OperandState {
            resident: residency.union.min(p.bytes()),
            on: &residency.resident,
            unpinned: *unpinned,
            stale: residency.stale,
            read_back: history.read_back(),
            looked: history.looked(),
            beyond_s: beyond[i],
            alone: history.alone(),
            seen: b.map_or(seen, |b| {
                let gone = gone(problem, i, p, &p.counted_from(b.start), residency);
                learned.bets.count_for(b.id, seen, gone)
            }),
            ..state(problem, i, p.bytes())
        });
    }
    let rates = *learned.rates.machine();
    drop(learned);
    let question = Question {
        work,
        operands: &states,
        devices: usable,
        prefer,
        memory: machine.memory,
        mode: machine.mode,
        tile: machine.tile,
    };
    let predicted = decide::decide(&question, &rates, &Floor::default());
    let decision = tried::tried(machine, key, predicted, &question, &rates);
    if log_enabled!(Debug) {
        tell(problem, &question, &rates, &decision, decision != predicted);
    }
    let (devices, tile, predicted_s) = match decision {
        Decision::Offload {
            devices,
            tile,
            predicted_s,
            host_s,
        } => {
            let invested = machine.mode == Mode::Auto && predicted_s >= host_s;
            let mut learned = machine.learned();
            for ((p, b), s) in places.iter().zip(blocks).zip(&states) {
                if let Some(b) = b.filter(|_| s.read) {
                    let how = if s.resident < s.bytes / 2 {
                        let on = if invested { s.seen } else { 0 };
                        Use::Sent { on }
                    } else {
                        Use::Found
                    };
                    learned.bets.used(b.id, p.counted_from(b.start).span(), how);
                }
            }
            if machine.tries() {
                let mark = COUNTERS.remembered.get();
                learned
                    .trials
                    .went(key, machine.now(), Place::Devices, mark);
            }
            let learned_s: f64 = states.iter().map(|s| s.beyond_s).sum();
            (devices, tile, predicted_s - learned_s)
        }
        Decision::Host(Reason::Off) => return Err(WhyHost::Never),
        Decision::Host(Reason::NoDevice) => return Err(WhyHost::NoDevice),
        Decision::Host(Reason::Small) => return Err(WhyHost::Small),
        Decision::Host(Reason::PredictedSlower) => {
            for (i, b) in blocks.iter().enumerate() {
                if let Some(b) = b {
                    cache.note_host_call(b.id, problem.access(i) != Access::Read);
                }
            }
            let host_s = decide::on_host(&question, &rates);
            let plain_s = exec::host_s(&work, &rates.host);
            let mut learned = machine.learned();
            // Each call of a trial is looked at.
            let calls = if machine.tries() && learned.trials.on_trial(key) {
                0
            } else {
                machine.memo.put(key, plain_s)
            };
            if machine.tries() {
                learned.trials.went(key, machine.now(), Place::Host, calls);
            }
            drop(learned);
            if host_s <= plain_s {
                machine.sent(work, plain_s);
            }
            return Err(WhyHost::PredictedSlower);
        }
    };
    // What the chosen devices have no room for, all of them may.
    lower(problem, machine, devices, tile, prefer)
        .or_else(|| lower(problem, machine, usable, tile, prefer))
        .map(|plan| {
            let seconds = Seconds {
                whole: predicted_s,
                own: rates.call_s + rates.task_s * plan.tasks.len() as f64,
                look: rates.fault_s,
            };
            (plan, seconds)
        })
        .ok_or(WhyHost::OutOfMemory)
}

/// What was decided, and why.
fn tell(
    problem: &Problem,
    question: &Question<'_>,
    rates: &Rates,
    decision: &Decision,
    tried: bool,
) {
    let operands: Vec<String> = question
        .operands
        .iter()
        .map(|o| {
            format!(
                "{} KiB ({} resident, {} stale, {} to pin, seen {}, alone {}, read back {:.2}, looked {:.2}, beyond {:.1} us)",
                o.bytes >> 10,
                o.resident >> 10,
                o.stale >> 10,
                o.unpinned >> 10,
                o.seen,
                o.alone,
                o.read_back,
                o.looked,
                o.beyond_s * 1e6
            )
        })
        .collect();
    let verdict = match decision {
        Decision::Offload {
            devices,
            predicted_s,
            ..
        } => {
            format!("{devices} devices, {:.1} us", predicted_s * 1e6)
        }
        Decision::Host(reason) => format!("host: {}", reason.key()),
    };
    debug!(
        "{} {} x {} x {}: {verdict}{}; host {:.1} us; {}",
        problem.routine.name(problem.dtype),
        problem.m,
        problem.n,
        problem.k,
        if tried {
            ", against the prediction"
        } else {
            ""
        },
        decide::on_host(question, rates) * 1e6,
        operands.join(", ")
    );
}

/// The plan for so many devices, if they have room.
fn lower(
    problem: &Problem,
    machine: &Machine,
    devices: usize,
    tile: usize,
    prefer: usize,
) -> Option<Plan> {
    let mut shape = Shape::new(devices, tile, machine.memory);
    let first = DeviceId(u8::try_from(prefer).unwrap_or(0));
    shape.prefer = first;
    if machine.mode == Mode::Always {
        // Asked to use the devices whatever it costs, also to spread small problems over all of them.
        shape.grain = 1;
    }
    let mut plan = plan::lower(problem, &shape);
    if devices == 1 {
        // A plan for one device numbers it zero.
        plan.tasks.iter_mut().for_each(|t| t.device = first);
        plan.footprints.iter_mut().for_each(|f| f.device = first);
    }
    plan.fits.then_some(plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_the_host() {
        let with = |set: &[(&str, &str)], cores| {
            let lookup = |name: &str| {
                let found = set.iter().find(|(n, _)| *n == name);
                found.map(|(_, v)| (*v).to_owned())
            };
            host_threads(&lookup, cores)
        };
        assert_eq!(with(&[], 16), 16);
        assert_eq!(with(&[("OMP_NUM_THREADS", "4,2")], 16), 4);
        assert_eq!(
            with(
                &[("OMP_NUM_THREADS", "4"), ("OPENBLAS_NUM_THREADS", " 8 ")],
                16
            ),
            8
        );
        assert_eq!(
            with(
                &[("OPENBLAS_NUM_THREADS", "0"), ("OMP_NUM_THREADS", "3")],
                16
            ),
            3
        );
        assert_eq!(with(&[("MKL_NUM_THREADS", "many")], 2), 2);
        assert_eq!(with(&[("OPENBLAS_NUM_THREADS", "64")], 2), 2);
        assert_eq!(with(&[], 0), 1);
    }
}
