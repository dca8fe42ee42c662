//! Windowed issue of a plan: a few tasks ahead of each device, and the rest dealt again by the pace of the devices
//! ([`crate::model::window`]).
//!
//! Between two tasks nothing is held: the issue can be left off and taken up again, or never.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::memory::work;
use super::queue::{Memory, Out, Queue};
use super::room::Tiles;
use super::run::Stopped;
use super::streamed::StreamedWriteBack;
use crate::base::config::Scheduler;
use crate::base::counters::COUNTERS;
use crate::base::{DeviceSet, Link};
use crate::cache::Cache;
use crate::cache::pins::Pinning;
use crate::cache::task::Use;
use crate::device::api::{Backend, DeviceError, Ticket};
use crate::model::dealing::{self, Dealing, Next};
use crate::model::exec::device_s;
use crate::model::rates::Rates;
use crate::model::stations::{Reading, Stations};
use crate::model::window::Window;
use crate::plan::{Access, Plan, Problem, chains};

/// A device that has not completed a task for this number of seconds is waited for without an end to the wait, in which the machine
/// finds out whether the device is lost.
const MOST_S: f64 = 10.0;
/// How long a thread waits for one device before it looks at the others, and at what it may be interrupted for.
const SLICE: Duration = Duration::from_micros(200);

/// A plan that is issued in a window.
#[derive(Debug)]
pub struct Windowed {
    plan: Plan,
    devices: DeviceSet,
    dealing: Box<dyn Dealing>,
    /// For each device, the tickets of its tasks that are not known to be complete.
    tickets: Vec<VecDeque<Ticket>>,
    /// The tasks in the order in which they were queued.
    queued: Vec<usize>,
    is_queued: Vec<bool>,
    /// The task that could not be queued.
    failed: Option<usize>,
    /// The ticket that was waited for last, and since when.
    awaited: Option<(Ticket, f64)>,
}

impl Windowed {
    /// A plan on these devices of a cache, by whose rates the tasks are predicted, dealt to them as `scheduler` does; by default with
    /// at most `depth` tasks of each device in flight.
    #[must_use]
    pub fn new(
        cache: &Cache,
        problem: &Problem,
        plan: Plan,
        (devices, rates): (&DeviceSet, &Rates),
        (scheduler, depth): (Scheduler, usize),
    ) -> Windowed {
        let links = cache.links();
        let caps = cache.backend().devices().iter();
        let memory = caps.map(|caps| caps.memory).min().unwrap_or(0);
        let first = rates.of(devices.id(0));
        let seconds = |at: usize| device_s(&work(problem, &plan.tasks[at]), first);
        let chains = chains(problem, &plan).into_iter().map(|c| dealing::Chain {
            device: devices.position(c.device).unwrap_or(0),
            tasks: c.tasks.into_iter().map(|at| (at, seconds(at))).collect(),
        });
        let speeds: Vec<f64> = devices.ids().map(|id| devices.speed(id)).collect();
        let chains: Vec<_> = chains.collect();
        let dealing: Box<dyn Dealing> = match scheduler {
            Scheduler::Planned => Box::new(Window::new(chains, &speeds, depth)),
            other => {
                let (readings, tile) = readings(problem, &plan, chains);
                let near = devices.ids().map(|to| {
                    let fast = |from| matches!(links.of(to, from), Link::Faster(_));
                    devices.ids().map(fast).collect()
                });
                let capacity = memory / tile.max(1);
                Box::new(Stations::new(other, readings, near.collect(), capacity))
            }
        };
        Windowed {
            dealing,
            tickets: vec![VecDeque::new(); devices.len()],
            devices: *devices,
            queued: Vec::with_capacity(plan.tasks.len()),
            is_queued: vec![false; plan.tasks.len()],
            failed: None,
            awaited: None,
            plan,
        }
    }

    /// Queues tasks until all are queued, or `pause` says that the thread has something else to do. Returns whether all are
    /// queued. `now` is the time in seconds.
    ///
    /// # Errors
    /// The first task that could not be queued, or a device is lost. [`Windowed::into_plan`] has the tasks before it first.
    pub fn advance(
        &mut self,
        cache: &Cache,
        (problem, operands): (&Problem, &[Use]),
        tiles: Option<&Tiles>,
        streamed: &mut StreamedWriteBack,
        now: &dyn Fn() -> f64,
        pause: &dyn Fn() -> bool,
    ) -> Result<bool, Stopped> {
        let memory = Memory {
            tiles,
            uploaders: None,
            pinning: Pinning::none(),
            results: None,
        };
        let mut queue = Queue::new(cache, problem, &self.plan, operands, memory, Out::Nowhere);
        let stopped = |queued: &[usize], error| Stopped {
            at: queued.len(),
            error,
        };
        // In virtual time the devices' paces are those of the modelled machine.
        let backend = cache.backend();
        let now = &|| backend.now().unwrap_or_else(now);
        loop {
            queue.dealt = self.dealing.moved() > 0;
            match self.dealing.next(now()) {
                Next::Give(chain) => self.give(&[chain], streamed),
                Next::Task { device, task } => match queue.task(&self.plan, task) {
                    Ok(ticket) => {
                        queue.write_back(&self.plan, task, streamed);
                        self.tickets[device].push_back(ticket);
                        self.queued.push(task);
                        self.is_queued[task] = true;
                    }
                    Err(error) => {
                        self.failed = Some(task);
                        return Err(stopped(&self.queued, error));
                    }
                },
                Next::Wait { device } => {
                    let waited = self.wait(cache, device, streamed, now);
                    waited.map_err(|error| stopped(&self.queued, error.into()))?;
                }
                Next::Done => {
                    queue.send(streamed.left_over(problem, operands), streamed);
                    return Ok(true);
                }
            }
            // After at least one step: however often signals come, the call proceeds.
            if pause() {
                return Ok(false);
            }
        }
    }

    /// The thread is about to do something else, so the time of the tasks in flight says nothing about their devices.
    pub fn forget_time(&mut self) {
        self.dealing.forget_time();
    }

    /// Waits for the oldest task of a device, or a moment, and notes all tasks that are complete.
    fn wait(
        &mut self,
        cache: &Cache,
        device: usize,
        streamed: &mut StreamedWriteBack,
        now: &dyn Fn() -> f64,
    ) -> Result<(), DeviceError> {
        let backend = cache.backend();
        if backend.now().is_some() {
            return self.wait_for_first(backend, streamed);
        }
        if let Some(&ticket) = self.tickets[device].front() {
            let since = match self.awaited {
                Some((awaited, since)) if awaited == ticket => since,
                _ => now(),
            };
            self.awaited = Some((ticket, since));
            if now() - since > MOST_S {
                backend.wait(ticket)?;
            }
            if backend.wait_at_most(ticket, SLICE)? {
                self.complete(device, streamed, now());
            }
        }
        for device in 0..self.tickets.len() {
            while let Some(&ticket) = self.tickets[device].front() {
                if !backend.done(ticket)? {
                    break;
                }
                self.complete(device, streamed, now());
            }
        }
        Ok(())
    }

    /// On a machine in virtual time it is known which of the devices' oldest tasks ends first: waits for that.
    fn wait_for_first(
        &mut self,
        backend: &dyn Backend,
        streamed: &mut StreamedWriteBack,
    ) -> Result<(), DeviceError> {
        let heads = self.tickets.iter().enumerate();
        let ends = heads.filter_map(|(device, tickets)| {
            let ticket = *tickets.front()?;
            Some((backend.end(ticket)?, device, ticket))
        });
        if let Some((end, device, ticket)) = ends.min_by(|a, b| a.0.total_cmp(&b.0)) {
            backend.wait(ticket)?;
            self.complete(device, streamed, end);
        }
        Ok(())
    }

    /// The oldest task of a device is complete.
    fn complete(&mut self, device: usize, streamed: &mut StreamedWriteBack, now: f64) {
        self.tickets[device].pop_front();
        let dealt = self.dealing.completed(device, now);
        if !dealt.is_empty() {
            self.give(&dealt, streamed);
        }
    }

    /// These chains, of which nothing is queued, are now on the devices that they name.
    fn give(&mut self, dealt: &[dealing::Chain], streamed: &mut StreamedWriteBack) {
        let moved = dealt.iter().flat_map(|chain| {
            let device = self.devices.id(chain.device);
            chain.tasks.iter().map(move |task| (task.0, device))
        });
        self.plan.give(moved);
        COUNTERS
            .window
            .moved
            .add(dealt.iter().map(|c| c.tasks.len() as u64).sum());
        let queued = &self.is_queued;
        streamed.dealt(&self.plan, &|at| queued[at]);
    }

    /// The number of tasks that are queued.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.queued.len()
    }

    /// The plan with its tasks in the order in which they were queued, and behind these the others.
    #[must_use]
    pub fn into_plan(self) -> Plan {
        let mut plan = self.plan;
        let rest = self.failed.into_iter().chain(self.dealing.rest());
        let order = self.queued.into_iter().chain(rest);
        plan.tasks = order.map(|at| plan.tasks[at].clone()).collect();
        plan
    }

    /// Of the devices' measured paces, by which share the fastest and the slowest lie apart.
    #[must_use]
    pub fn spread(&self) -> f64 {
        self.dealing.spread()
    }
}

/// Chains with the tiles of the inputs that each reads, in the order of the output's rows and then its columns; and the bytes of the
/// largest of these tiles.
fn readings(problem: &Problem, plan: &Plan, chains: Vec<dealing::Chain>) -> (Vec<Reading>, usize) {
    let (mut numbers, mut largest) = (HashMap::new(), 0);
    let mut found = Vec::with_capacity(chains.len());
    for chain in chains {
        let (mut inputs, mut place) = (Vec::new(), (usize::MAX, usize::MAX));
        for (at, _) in &chain.tasks {
            for part in &plan.tasks[*at].parts {
                if problem.access(part.operand) != Access::Read {
                    place = place.min((part.row, part.col));
                    continue;
                }
                largest = largest.max(part.rows * part.cols * problem.dtype.size());
                let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
                let tile = (part.operand, part.row, part.col);
                inputs.push(*numbers.entry(tile).or_insert(next));
            }
        }
        inputs.sort_unstable();
        inputs.dedup();
        found.push((place, Reading { chain, inputs }));
    }
    found.sort_by_key(|(place, _)| *place);
    (
        found.into_iter().map(|(_, reading)| reading).collect(),
        largest,
    )
}
