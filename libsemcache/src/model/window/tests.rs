//! The window in virtual time: devices that do not keep their pace, against the shortest time that is possible on them.

use proptest::prelude::*;

use super::*;

/// A task that a device has got: its index, its work, and when it was queued.
#[derive(Clone, Copy, Debug)]
struct Queued {
    task: usize,
    work: f64,
    at: f64,
}

/// Devices whose rates change with time. Each computes its tasks one after the other.
struct Machine<'a> {
    /// Work that a device does in a second, at a time.
    rate: &'a dyn Fn(usize, f64) -> f64,
    queues: Vec<VecDeque<Queued>>,
    free: Vec<f64>,
    now: f64,
}

/// Time steps of the integration.
const STEP: f64 = 1e-2;

impl Machine<'_> {
    /// When the oldest task of a device is complete.
    fn end(&self, device: usize) -> Option<f64> {
        let Queued { mut work, at, .. } = *self.queues[device].front()?;
        let mut time = self.free[device].max(at);
        loop {
            let rate = (self.rate)(device, time);
            if work <= rate * STEP {
                return Some(time + work / rate);
            }
            work -= rate * STEP;
            time += STEP;
        }
    }

    /// Lets the next task of any device complete.
    fn step(&mut self) -> Option<(usize, usize)> {
        let ends = (0..self.queues.len()).filter_map(|d| Some((self.end(d)?, d)));
        let (end, device) = ends.min_by(|x, y| x.0.total_cmp(&y.0))?;
        self.now = end;
        self.free[device] = end;
        let done = self.queues[device].pop_front()?;
        Some((device, done.task))
    }
}

/// What came of a call.
struct Played {
    seconds: f64,
    /// For each device, its tasks in order.
    ran: Vec<Vec<usize>>,
    moved: u64,
    spread: f64,
}

/// Plays a call.
fn play(
    chains: &[Chain],
    speeds: &[f64],
    depth: usize,
    rate: &dyn Fn(usize, f64) -> f64,
) -> Played {
    let work: std::collections::BTreeMap<usize, f64> = chains
        .iter()
        .flat_map(|c| c.tasks.iter().copied())
        .collect();
    let mut window = Window::new(chains.to_vec(), speeds, depth);
    let mut machine = Machine {
        rate,
        queues: vec![VecDeque::new(); speeds.len()],
        free: vec![0.0; speeds.len()],
        now: 0.0,
    };
    let mut ran = vec![Vec::new(); speeds.len()];
    loop {
        match window.next(machine.now) {
            Next::Task { device, task } => {
                assert!(machine.queues[device].len() < depth);
                ran[device].push(task);
                let (work, at) = (work[&task], machine.now);
                machine.queues[device].push_back(Queued { task, work, at });
            }
            Next::Wait { device } => {
                assert!(!machine.queues[device].is_empty());
                let (device, _) = machine.step().expect("a task is queued");
                window.completed(device, machine.now);
            }
            Next::Give(chain) => panic!("{chain:?}"),
            Next::Done => break,
        }
    }
    assert!(window.rest().is_empty());
    let spread = window.spread();
    while machine.step().is_some() {}
    Played {
        seconds: machine.now,
        ran,
        moved: window.moved(),
        spread,
    }
}

/// Every chain of this number of tasks of one second, dealt round by the speeds of the devices.
fn product(chains: usize, steps: usize, speeds: &[f64]) -> Vec<Chain> {
    let mut given = vec![0.0; speeds.len()];
    let chain = |i: usize| {
        let loads = given
            .iter()
            .zip(speeds)
            .map(|(g, s)| (g + 1.0) / s)
            .enumerate();
        let least = loads.min_by(|x, y| x.1.total_cmp(&y.1));
        let device = least.map_or(0, |l| l.0);
        given[device] += 1.0;
        let tasks = (0..steps).map(|step| (i * steps + step, 1.0)).collect();
        Chain { device, tasks }
    };
    (0..chains).map(chain).collect()
}

/// The time in which devices do this much work if it can be divided at will: no schedule is shorter.
fn bound(work: f64, devices: usize, rate: &dyn Fn(usize, f64) -> f64) -> f64 {
    let (mut left, mut time) = (work, 0.0);
    while left > 0.0 {
        left -= (0..devices).map(|d| rate(d, time)).sum::<f64>() * STEP;
        time += STEP;
    }
    time
}

/// Issue 19's figure: a product in 8 x 8 tiles of 8 steps.
#[test]
fn one_device_of_four_is_slowed_ten_times_in_the_middle() {
    let speeds = [1.0; 4];
    let chains = product(64, 8, &speeds);
    let whole = 512.0 / 4.0;
    for slowed in 0..4 {
        // At moments at which the device has just begun a chain, and others.
        for at in [0.3, 0.45, 0.5, 0.51, 0.55, 0.6] {
            let rate = |device: usize, time: f64| {
                let slow = device == slowed && time >= at * whole;
                if slow { 0.1 } else { 1.0 }
            };
            let best = bound(512.0, 4, &rate);
            let played = play(&chains, &speeds, 3, &rate);
            let ratio = played.seconds / best;
            assert!(ratio <= 1.15, "{slowed} {at}: {ratio} of {best} s");
            assert!(played.moved > 0);
            // As planned, the call would take more than three times as long.
            let planned = play(&chains, &speeds, usize::MAX, &rate);
            assert!(planned.seconds > 3.0 * best || at > 0.5, "{at}");
        }
    }
}

#[test]
fn devices_of_other_speeds_than_planned_are_found_out() {
    let speeds = [1.0; 4];
    let chains = product(96, 6, &speeds);
    for actual in [
        [1.0, 1.0, 1.0, 0.25],
        [4.0, 1.0, 1.0, 1.0],
        [0.5, 1.0, 2.0, 3.0],
    ] {
        let rate = |device: usize, _| actual[device];
        let best = bound(576.0, 4, &rate);
        let played = play(&chains, &speeds, 3, &rate);
        assert!(
            played.seconds <= 1.1 * best,
            "{actual:?}: {} of {best}",
            played.seconds
        );
        assert!(played.spread > 2.0, "{actual:?}: {}", played.spread);
    }
}

#[test]
fn devices_that_keep_their_pace_compute_what_is_planned() {
    for speeds in [vec![1.0; 4], vec![3.0, 3.0, 1.0], vec![1.0]] {
        let chains = product(60, 5, &speeds);
        // All slower than predicted, by the same factor, is no drift; nor are small differences.
        for slower in [1.0, 2.0] {
            let rate = |device: usize, time: f64| {
                let noise = 0.03 * (time * 7.0 + device as f64).sin();
                speeds[device] / slower * (1.0 + noise)
            };
            let played = play(&chains, &speeds, 3, &rate);
            let planned = play(&chains, &speeds, usize::MAX, &rate);
            assert!(played.moved <= 10, "{speeds:?}: {}", played.moved);
            assert!(played.spread < 0.05, "{speeds:?}: {}", played.spread);
            assert!(played.seconds <= 1.02 * planned.seconds);
        }
    }
}

/// A device that does nothing for a while: its first task is never complete, so nothing but the time tells.
#[test]
fn a_device_that_hangs_at_first_gets_no_more() {
    let speeds = [1.0; 3];
    let rate = |device: usize, time: f64| {
        if device == 1 && time < 100.0 {
            1e-6
        } else {
            1.0
        }
    };
    let chains = product(60, 4, &speeds);
    let played = play(&chains, &speeds, 2, &rate);
    assert!(played.seconds <= 125.0, "{}", played.seconds);
    assert!(played.ran[1].len() <= 16, "{}", played.ran[1].len());
}

proptest! {
    /// Whatever the devices do: each task runs once, the tasks of a chain in order on one device.
    #[test]
    fn chains_stay_whole(
        sizes in proptest::collection::vec((0usize..4, 1usize..6, 1u32..9), 1..40),
        depth in 1usize..5,
        paces in proptest::collection::vec(0.05f64..4.0, 4),
        speeds in proptest::collection::vec(0.2f64..3.0, 4),
    ) {
        let mut next = 0;
        let mut chains = Vec::new();
        for (device, len, weight) in sizes {
            let tasks = (next..next + len).map(|t| (t, f64::from(weight))).collect();
            next += len;
            chains.push(Chain { device, tasks });
        }
        let rate = |device: usize, time: f64| paces[(device + (time / 5.0) as usize) % 4];
        let played = play(&chains, &speeds, depth, &rate);
        let all: usize = played.ran.iter().map(Vec::len).sum();
        prop_assert_eq!(all, next);
        for chain in &chains {
            let tasks: Vec<usize> = chain.tasks.iter().map(|t| t.0).collect();
            let homes = played.ran.iter().filter(|ran| ran.contains(&tasks[0]));
            let homes: Vec<_> = homes.collect();
            prop_assert_eq!(homes.len(), 1);
            let found: Vec<usize> = homes[0].iter().copied().filter(|t| tasks.contains(t)).collect();
            prop_assert_eq!(found, tasks);
        }
    }

    /// At any moment the rest holds each task that was not handed out, chains in order.
    #[test]
    fn the_rest_is_what_was_not_handed_out(steps in proptest::collection::vec(0usize..3, 0..60)) {
        let chains = product(9, 3, &[1.0; 3]);
        let mut window = Window::new(chains.clone(), &[1.0; 3], 2);
        let (mut out, mut now, mut busy) = (Vec::new(), 0.0, [0usize; 3]);
        for device in steps {
            now += 1.0 + device as f64;
            if let Next::Task { device, task } = window.next(now) {
                out.push(task);
                busy[device] += 1;
            }
            if busy[device] > 0 {
                busy[device] -= 1;
                window.completed(device, now);
            }
        }
        let mut all = out.clone();
        let rest = window.rest();
        for chain in &chains {
            let of: Vec<usize> = chain.tasks.iter().map(|t| t.0).collect();
            let left: Vec<usize> = rest.iter().copied().filter(|t| of.contains(t)).collect();
            prop_assert!(left.windows(2).all(|w| w[0] < w[1]));
        }
        all.extend(rest);
        all.sort_unstable();
        prop_assert_eq!(all, (0..27).collect::<Vec<_>>());
    }
}
