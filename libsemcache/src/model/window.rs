//! Windowed issue: which task a call queues next, on which device, if devices may not keep the pace that the plan counts on.
//!
//! A call that queues all of its tasks at once cannot react to a device that is slower than predicted. In a window, each device
//! has a few tasks queued that are not complete, and the rest is dealt again as completed tasks show how fast each device is.
//!
//! What is dealt are *chains*, tasks of which later ones need what earlier ones wrote (all steps of an output tile). A chain stays
//! on the device that has begun it. Of the others the last one of the device that would end last goes to the device that would end
//! it first, as long as it ends earlier there: what a plan gave a device stays on it unless balance needs more, and the inputs
//! with it. Nothing has been copied for a chain that is not begun, so dealing it again costs nothing.
//!
//! Pure: the caller says what time it is and which tasks are complete.

use std::collections::VecDeque;

use super::dealing::{Chain, Dealing, Next};
use super::drift::apart;

/// The last completed tasks by which a device's pace is judged.
const SAMPLES: usize = 3;
/// A task counts as at most that many times faster than predicted: the ends of two tasks may be noticed at the same moment.
const FASTEST: f64 = 16.0;
/// Chains are dealt again if the last device would end by this share later than if the work was divided evenly.
const DRIFT: f64 = 0.1;

/// A queued task.
#[derive(Clone, Copy, Debug)]
struct Queued {
    /// Its predicted seconds.
    seconds: f64,
    /// When it was queued; `None` if its end may be noticed late.
    at: Option<f64>,
}

/// One device.
#[derive(Clone, Debug)]
struct Lane {
    speed: f64,
    /// The rest of the chain that is begun.
    begun: VecDeque<(usize, f64)>,
    /// Chains that are not begun.
    waiting: VecDeque<Chain>,
    /// Seconds, at speed 1, of all tasks in `begun` and `waiting`.
    left_s: f64,
    /// Queued tasks that are not known to be complete.
    queued: VecDeque<Queued>,
    /// When the last completed task was found complete.
    completed: f64,
    /// Seconds that each of the last completed tasks took, and how many were predicted.
    samples: VecDeque<(f64, f64)>,
    /// The same of all completed tasks.
    all: (f64, f64),
}

impl Lane {
    fn new(speed: f64) -> Lane {
        Lane {
            speed: speed.max(f64::MIN_POSITIVE),
            begun: VecDeque::new(),
            waiting: VecDeque::new(),
            left_s: 0.0,
            queued: VecDeque::new(),
            completed: 0.0,
            samples: VecDeque::new(),
            all: (0.0, 0.0),
        }
    }

    fn give(&mut self, chain: Chain) {
        self.left_s += chain.seconds();
        self.waiting.push_back(chain);
    }

    /// Takes back the chain that it would begin last.
    fn take_back(&mut self) -> Option<Chain> {
        let chain = self.waiting.pop_back()?;
        self.left_s -= chain.seconds();
        Some(chain)
    }

    fn idle(&self) -> bool {
        self.begun.is_empty() && self.waiting.is_empty()
    }

    /// When its oldest queued task began to run.
    fn running_since(&self) -> Option<f64> {
        let queued = self.queued.front()?.at?;
        Some(queued.max(self.completed))
    }

    /// Predicted seconds of all queued tasks.
    fn queued_s(&self) -> f64 {
        self.queued.iter().map(|q| q.seconds).sum()
    }

    /// Measured seconds for each predicted one; `None` before anything is known. The task that runs counts with the time that it
    /// has taken so far, if that is longer than it should have.
    fn pace(&self, now: f64) -> Option<f64> {
        let sum = |(x, y): (f64, f64), s: &(f64, f64)| (x + s.0, y + s.1);
        let (took, predicted) = self.samples.iter().fold((0.0, 0.0), sum);
        let known = (predicted > 0.0).then(|| took / predicted);
        let (Some(since), Some(Queued { seconds, .. })) =
            (self.running_since(), self.queued.front())
        else {
            return known;
        };
        let running = (now - since) / seconds.max(f64::MIN_POSITIVE);
        match known {
            Some(known) => Some(known.max(running)),
            None => (running > 1.0).then_some(running),
        }
    }
}

/// The tasks of one call that are not queued yet, and what is known of its devices.
#[derive(Clone, Debug)]
pub struct Window {
    /// Tasks of one device that are queued and not complete, at most.
    depth: usize,
    lanes: Vec<Lane>,
    /// Tasks that another device got than the plan said.
    moved: u64,
}

impl Window {
    /// The chains of a call, in the order of the plan, on devices of these speeds, of which each has at most `depth` tasks queued.
    #[must_use]
    pub fn new(chains: Vec<Chain>, speeds: &[f64], depth: usize) -> Window {
        let mut lanes: Vec<Lane> = speeds.iter().map(|&speed| Lane::new(speed)).collect();
        for chain in chains {
            lanes[chain.device].give(chain);
        }
        Window {
            depth: depth.max(1),
            lanes,
            moved: 0,
        }
    }

    fn begin(&mut self, device: usize, now: f64) -> Next {
        let lane = &mut self.lanes[device];
        if lane.begun.is_empty()
            && let Some(chain) = lane.waiting.pop_front()
        {
            lane.begun = chain.tasks.into();
        }
        let Some((task, seconds)) = lane.begun.pop_front() else {
            return Next::Done;
        };
        lane.left_s -= seconds;
        lane.queued.push_back(Queued {
            seconds: seconds / lane.speed,
            at: Some(now),
        });
        Next::Task { device, task }
    }

    /// The pace of a device of which nothing is known: that of the others together.
    fn usual(&self, now: f64) -> f64 {
        let known = self.lanes.iter().filter_map(|lane| lane.pace(now));
        let (sum, count) = known.fold((0.0, 0.0), |(sum, n), pace| (sum + pace, n + 1.0));
        if count > 0.0 { sum / count } else { 1.0 }
    }

    /// Deals chains again if devices drift apart.
    fn deal(&mut self, now: f64) -> Vec<Chain> {
        let usual = self.usual(now);
        // Seconds on each device for one of a device of speed 1.
        let slowness: Vec<f64> = self
            .lanes
            .iter()
            .map(|l| l.pace(now).unwrap_or(usual) / l.speed)
            .collect();
        let mut ends: Vec<f64> = Vec::with_capacity(self.lanes.len());
        for (lane, slow) in self.lanes.iter().zip(&slowness) {
            let ran = lane.running_since().map_or(0.0, |since| now - since);
            let running = (lane.queued_s() * lane.speed * slow - ran).max(0.0);
            ends.push(running + lane.left_s * slow);
        }
        // If the work could be divided at will, all devices would end at the same time.
        let rates: f64 = slowness.iter().map(|slow| 1.0 / slow).sum();
        let even = ends
            .iter()
            .zip(&slowness)
            .map(|(end, slow)| end / slow)
            .sum::<f64>()
            / rates;
        let latest = ends.iter().copied().fold(0.0, f64::max);
        let mut dealt = Vec::new();
        if latest <= even * (1.0 + DRIFT) {
            return dealt;
        }
        let waiting = self.lanes.iter().map(|lane| lane.waiting.len()).sum();
        for _ in 0..waiting {
            let givers = (0..ends.len()).filter(|&d| !self.lanes[d].waiting.is_empty());
            let Some(from) = givers.max_by(|&x, &y| ends[x].total_cmp(&ends[y])) else {
                break;
            };
            let Some(work) = self.lanes[from].waiting.back().map(Chain::seconds) else {
                break;
            };
            let end = |d: usize| ends[d] + work * slowness[d];
            let takers = (0..ends.len()).filter(|&d| d != from);
            let Some(to) = takers.min_by(|&x, &y| end(x).total_cmp(&end(y))) else {
                break;
            };
            let ended = end(to);
            let sooner = ended < ends[from];
            let Some(chain) = sooner.then(|| self.lanes[from].take_back()).flatten() else {
                break;
            };
            ends[from] -= work * slowness[from];
            ends[to] = ended;
            let chain = Chain {
                device: to,
                ..chain
            };
            dealt.push(chain.clone());
            self.lanes[to].give(chain);
        }
        self.moved += dealt.iter().map(|c| c.tasks.len() as u64).sum::<u64>();
        dealt
    }
}

impl Dealing for Window {
    fn next(&mut self, now: f64) -> Next {
        let usual = self.usual(now);
        let mut first: Option<(f64, usize)> = None;
        for (device, lane) in self.lanes.iter().enumerate() {
            if lane.idle() || lane.queued.len() >= self.depth {
                continue;
            }
            let until = lane.queued_s() * lane.pace(now).unwrap_or(usual);
            if first.is_none_or(|(least, _)| until < least) {
                first = Some((until, device));
            }
        }
        if let Some((_, device)) = first {
            return self.begin(device, now);
        }
        let full = self.lanes.iter().enumerate().filter(|(_, l)| !l.idle());
        let ends = full.filter_map(|(device, lane)| {
            let front = lane.queued.front()?;
            let since = lane.running_since().unwrap_or(lane.completed);
            let end = since + front.seconds * lane.pace(now).unwrap_or(usual);
            Some((end, device))
        });
        let soonest = ends.min_by(|x, y| x.0.total_cmp(&y.0));
        soonest.map_or(Next::Done, |(_, device)| Next::Wait { device })
    }

    fn completed(&mut self, device: usize, now: f64) -> Vec<Chain> {
        let lane = &mut self.lanes[device];
        if let Some(Queued { seconds, at }) = lane.queued.pop_front() {
            if let Some(queued) = at {
                let took = now - queued.max(lane.completed);
                let took = took.max(seconds / FASTEST);
                lane.samples.push_back((took, seconds));
                lane.all.0 += took;
                lane.all.1 += seconds;
            }
            if lane.samples.len() > SAMPLES {
                lane.samples.pop_front();
            }
            lane.completed = now;
        }
        self.deal(now)
    }

    fn forget_time(&mut self) {
        for queued in self.lanes.iter_mut().flat_map(|lane| &mut lane.queued) {
            queued.at = None;
        }
    }

    fn moved(&self) -> u64 {
        self.moved
    }

    fn spread(&self) -> f64 {
        let known = self.lanes.iter().map(|lane| lane.all);
        let known = known.filter(|(_, predicted)| *predicted > 0.0);
        apart(known.map(|(took, predicted)| took / predicted))
    }

    fn rest(&self) -> Vec<usize> {
        let lanes = self.lanes.iter();
        let of = |lane: &Lane| {
            let waiting = lane.waiting.iter().flat_map(|c| c.tasks.iter());
            let tasks = lane.begun.iter().chain(waiting);
            tasks.map(|t| t.0).collect::<Vec<_>>()
        };
        lanes.flat_map(of).collect()
    }
}

#[cfg(test)]
mod tests;
