//! The prediction of one call on a machine that is described and need not be present: what the library would decide there, by
//! the code that decides ([`decide::decide`]), and how each predictor sees it. Nothing of the process is read or changed.

use super::asked::Asked;
use super::offload_policy::{Policy, state};
use super::tiling::{self, Planned};
use crate::base::{DeviceSet, Links};
use crate::model::decide::{self, Beside, Decision, Mode, OperandState, Planner, Question};
use crate::model::exec;
use crate::model::predictor::{Answer, CLOSED_FORMS, Case, Predictor};
use crate::model::rates::Rates;
use crate::model::select::Choice;
use crate::model::timeline::{Did, Operation, Schedule};
use crate::plan::{Pace, Plan, Problem};
use crate::sched::memory::Devices;
use crate::sched::timeline::Timeline;

/// A machine.
#[derive(Clone, PartialEq, Debug)]
pub struct Machine {
    /// The rates of its devices and of its host BLAS.
    pub rates: Rates,
    /// How its devices read each other's memory.
    pub links: Links,
    /// Bytes of memory of each device.
    pub memory: Vec<usize>,
}

/// A call, and where its operands are.
#[derive(Clone, Copy, Debug)]
pub struct Asking<'a> {
    /// The call, with checked arguments.
    pub problem: &'a Problem,
    /// For each operand, whether devices hold it. The newest bytes of a result that devices hold are there only.
    pub on_devices: &'a [bool],
    /// Whether the CPU reads the results after the call.
    pub read_back: bool,
    /// Whether host memory is page-locked already.
    pub locked: bool,
    /// The tile size, if it is given (`SEMCACHE_TILE`).
    pub tile: Option<usize>,
}

/// What one predictor says.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Said {
    /// Its name.
    pub name: &'static str,
    /// The paper and its equations.
    pub source: &'static str,
    /// Its answer, for copies and kernels only; `None` if it does not apply. The closed forms count the pieces of one device,
    /// the timeline those of all.
    pub answer: Option<Answer>,
}

/// The plan of a call and its timeline.
#[derive(Clone, PartialEq, Debug)]
pub struct Timed {
    /// The tasks.
    pub plan: Plan,
    /// Seconds and bytes.
    pub schedule: Schedule,
    /// Each copy and kernel. Devices are numbered by their positions in [`OnDevices::devices`].
    pub operations: Vec<Operation>,
}

/// A call on the devices.
#[derive(Clone, PartialEq, Debug)]
pub struct OnDevices {
    /// The devices that are used, the fastest first.
    pub devices: DeviceSet,
    /// Tile size, and seconds of the whole call.
    pub choice: Choice,
    /// Whether the timeline made this choice; else the closed forms did.
    pub by_timeline: bool,
    /// What of these seconds is not the time of copies and kernels.
    pub beside: Beside,
    /// What each predictor says of the copies and kernels with this tile on these devices.
    pub said: Vec<Said>,
    /// The plan and its timeline; `None` if the devices have no room for the call.
    pub timed: Option<Timed>,
}

/// A prediction.
#[derive(Clone, PartialEq, Debug)]
pub struct Prediction {
    /// Seconds on the host BLAS, the write-back of stale operands included.
    pub host_s: f64,
    /// Where the library would run the call.
    pub decision: Decision,
    /// How the call would run on the devices; `None` if there is none.
    pub on_devices: Option<OnDevices>,
}

/// What keeps a resource busy during a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Load {
    /// Copies from the host to a device.
    Uploads,
    /// Copies from other devices to a device.
    PeerCopies,
    /// Kernels of a device.
    Kernels,
    /// Copies from a device to the host.
    WriteBacks,
    /// Page-locking of host memory by the calling thread.
    PageLocking,
    /// Issuing of tasks by the calling thread.
    Issuing,
}

impl Load {
    /// Every one.
    pub const ALL: [Load; 6] = [
        Load::Uploads,
        Load::PeerCopies,
        Load::Kernels,
        Load::WriteBacks,
        Load::PageLocking,
        Load::Issuing,
    ];
}

impl Prediction {
    /// Whether the devices have room for the call. A call without is refused, and runs on the host BLAS.
    #[must_use]
    pub fn has_room(&self) -> bool {
        let on = self.on_devices.as_ref();
        on.is_some_and(|on| on.timed.is_some())
    }
}

impl OnDevices {
    /// For how many seconds each resource is busy, of several devices the one that is busy longest.
    #[must_use]
    pub fn loads(&self) -> [(Load, f64); 6] {
        let operations = self.timed.iter().flat_map(|timed| &timed.operations);
        let mut busy = vec![[0.0; 4]; self.devices.len().max(1)];
        for operation in operations {
            let lane = match operation.did {
                Did::Upload => 0,
                Did::Peer(_) => 1,
                Did::Kernel(_) => 2,
                Did::WriteBack => 3,
            };
            busy[operation.device][lane] += operation.end - operation.start;
        }
        let tasks = self
            .timed
            .as_ref()
            .map_or(0, |timed| timed.plan.tasks.len());
        let longest = |lane: usize| busy.iter().map(|lanes| lanes[lane]).fold(0.0, f64::max);
        Load::ALL.map(|load| {
            let seconds = match load {
                Load::PageLocking => self.beside.locking_s,
                Load::Issuing => tasks as f64 * Pace::USUAL.issue_s,
                lane => longest(lane as usize),
            };
            (load, seconds)
        })
    }

    /// The resource that is busy longest.
    #[must_use]
    pub fn bound(&self) -> Load {
        let longest = self.loads().into_iter().max_by(|x, y| x.1.total_cmp(&y.1));
        longest.map_or(Load::Kernels, |(load, _)| load)
    }
}

/// Predicts a call. The host's part of calls on devices (`SEMCACHE_HOST_SHARE`) is left out, and so is what a process learns
/// from earlier calls: the call is the first one of its kind.
#[must_use]
pub fn predict(machine: &Machine, asking: &Asking<'_>) -> Prediction {
    let (problem, rates) = (asking.problem, machine.rates);
    let policy = Policy::of_machine(rates, &machine.links, &machine.memory, asking.tile);
    let work = problem.work();
    let usable = exec::by_speed(&work, &rates, machine.memory.len());
    let states: Vec<OperandState<'_>> = (0..problem.operands.len())
        .map(|i| operand(asking, i))
        .collect();
    let planned = Planned::new(&policy, &rates, problem, &usable);
    let planner = Some(&planned).filter(|planned| planned.serves());
    let question = Question {
        work,
        host_s: None,
        operands: &states,
        devices: usable,
        prefer: usable.id(0),
        memory: &policy.memory,
        mode: policy.mode,
        tile: policy.tile,
        planner: planner.map(|planned| planned as &dyn Planner),
    };
    let asked = Asked {
        question,
        rates: &rates,
        more_s: 0.0,
    };
    Prediction {
        host_s: asked.on_host(),
        decision: asked.answer(Mode::Auto),
        on_devices: decide::on_devices(&question, &rates)
            .map(|found| looked_at(&policy, &rates, problem, &question, found)),
    }
}

fn operand(asking: &Asking<'_>, i: usize) -> OperandState<'static> {
    let (problem, shape) = (asking.problem, &asking.problem.operands[i]);
    let bytes = shape.rows * shape.cols * problem.dtype.size();
    let resident = asking.on_devices.get(i).is_some_and(|there| *there);
    let plain = state(problem, i, bytes);
    let known = |yes: bool| if yes { bytes } else { 0 };
    OperandState {
        resident: known(resident),
        stale: known(resident && plain.written),
        unpinned: known(!resident && !asking.locked),
        read_back: f64::from(u8::from(asking.read_back)),
        looked: f64::from(u8::from(asking.read_back)),
        ..plain
    }
}

/// What each predictor says of a call on devices, and its timeline.
fn looked_at(
    policy: &Policy,
    rates: &Rates,
    problem: &Problem,
    question: &Question<'_>,
    found: decide::OnDevices,
) -> OnDevices {
    let decide::OnDevices {
        devices,
        used,
        choice,
        beside,
        bytes,
        moved,
    } = found;
    let mut resources = tiling::resources(policy, rates, problem, &devices, choice.tile);
    resources.prefer = question.prefer;
    let on = Devices::new(&devices, rates, &policy.links);
    let mean = rates.among(&used);
    let case = Case {
        work: question.work,
        bytes: &bytes,
        moved: &moved,
        tile: choice.tile,
        devices: used.len(),
        rates: &mean,
        task_s: rates.task_s,
    };
    let timeline = Timeline::new(problem, &resources, &on);
    let mut operations = Vec::new();
    let timed = timeline.plan(&case, &mut operations);
    let timed = timed.map(|(plan, schedule)| Timed {
        plan,
        schedule,
        operations,
    });
    let said = |predictor: &dyn Predictor, answer| Said {
        name: predictor.name(),
        source: predictor.source(),
        answer,
    };
    let closed = CLOSED_FORMS.iter().map(|p| said(*p, p.answer(&case)));
    let of_plan = timed.as_ref().map(|timed| Answer {
        seconds: timed.schedule.seconds,
        pieces: timed.plan.tasks.len(),
    });
    let planned = question
        .planner
        .and_then(|planner| planner.choice(&used, question.tile.map(|_| choice.tile), &moved));
    OnDevices {
        devices,
        choice,
        by_timeline: planned.is_some(),
        beside,
        said: closed.chain([said(&timeline, of_plan)]).collect(),
        timed,
    }
}

#[cfg(test)]
mod tests;
