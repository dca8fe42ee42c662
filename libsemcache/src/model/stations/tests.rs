use super::*;

/// Chains of `steps` tasks each, of which chain `i` is planned for device 0 and reads the tiles `inputs(i)`.
fn chains(count: usize, steps: usize, inputs: impl Fn(usize) -> Vec<u32>) -> Vec<Reading> {
    let chain = |i: usize| Reading {
        chain: Chain {
            device: 0,
            tasks: (0..steps).map(|s| (i * steps + s, 1.0)).collect(),
        },
        inputs: inputs(i),
    };
    (0..count).map(chain).collect()
}

/// Runs all tasks on devices of which a task takes `seconds`. Returns, for each device, its tasks in the order in which they were
/// queued, and when the last one ends.
fn run(mut stations: Stations, seconds: &[f64]) -> (Vec<Vec<usize>>, f64) {
    let mut queued = vec![Vec::new(); seconds.len()];
    let mut ends: Vec<VecDeque<f64>> = vec![VecDeque::new(); seconds.len()];
    let (mut now, mut last, mut given) = (0.0_f64, 0.0_f64, HashMap::new());
    loop {
        match stations.next(now) {
            Next::Give(chain) => {
                for (task, _) in chain.tasks {
                    assert_eq!(given.insert(task, chain.device), None);
                }
            }
            Next::Task { device, task } => {
                assert_eq!(given.get(&task).copied().unwrap_or(0), device);
                queued[device].push(task);
                let before = ends[device].back().copied().unwrap_or(now);
                ends[device].push_back(before.max(now) + seconds[device]);
            }
            Next::Wait { .. } => {
                let heads = ends.iter().enumerate();
                let heads = heads.filter_map(|(d, e)| Some((*e.front()?, d)));
                let (end, device) = heads.min_by(|a, b| a.0.total_cmp(&b.0)).expect("in flight");
                ends[device].pop_front();
                now = now.max(end);
                assert!(stations.completed(device, now).is_empty());
            }
            Next::Done => break,
        }
        last = ends.iter().flatten().fold(last, |last, end| last.max(*end));
    }
    assert!(stations.rest().is_empty());
    (queued, last)
}

fn stations(scheduler: Scheduler, chains: Vec<Reading>, devices: usize) -> Stations {
    Stations::new(scheduler, chains, vec![vec![false; devices]; devices], 1000)
}

#[test]
fn every_task_is_queued_once_and_chains_stay_in_order() {
    for scheduler in [Scheduler::Static, Scheduler::Blasx, Scheduler::Xkaapi] {
        for count in [1, 3, 4, 5, 17, 40] {
            let all = chains(count, 3, |i| vec![i as u32]);
            assert_eq!(stations(scheduler, all.clone(), 3).rest().len(), 3 * count);
            let (queued, _) = run(stations(scheduler, all, 3), &[1.0, 1.5, 2.0]);
            let mut found: Vec<usize> = queued.iter().flatten().copied().collect();
            found.sort_unstable();
            assert_eq!(found, (0..3 * count).collect::<Vec<_>>());
            for tasks in queued {
                for chain in 0..count {
                    let of = tasks.iter().filter(|&&task| task / 3 == chain);
                    assert!(of.is_sorted());
                }
            }
        }
    }
}

#[test]
fn static_shares_are_equal_and_others_follow_the_speed() {
    let share = |scheduler| {
        let all = chains(120, 2, |_| vec![]);
        let (queued, end) = run(stations(scheduler, all, 2), &[1.0, 3.0]);
        (queued[0].len(), queued[1].len(), end)
    };
    assert_eq!(share(Scheduler::Static), (120, 120, 360.0));
    for scheduler in [Scheduler::Blasx, Scheduler::Xkaapi] {
        let (fast, slow, end) = share(scheduler);
        assert!(
            fast > 160 && slow < 80 && end < 215.0,
            "{scheduler:?} {fast} {slow} {end}"
        );
    }
}

#[test]
fn blasx_begins_what_reads_tiles_that_are_near() {
    // Chains 0 to 3 read tile 0; of the next eight in the station, the even ones do so, too.
    let inputs = |i: usize| {
        vec![if i < 4 || i.is_multiple_of(2) {
            0
        } else {
            i as u32
        }]
    };
    let (queued, _) = run(stations(Scheduler::Blasx, chains(12, 1, inputs), 1), &[1.0]);
    assert_eq!(queued[0], [0, 1, 2, 3, 4, 6, 8, 10, 5, 7, 9, 11]);
    // A tile in the memory of a device over a fast link counts as one.
    let near = vec![vec![false, true], vec![true, false]];
    let mut both = Stations::new(Scheduler::Blasx, Vec::new(), near, 10);
    both.stations[1].tiles.insert(7, 1);
    both.stations[0].tiles.insert(8, 1);
    let reading = chains(1, 1, |_| vec![7, 8, 9]).remove(0);
    assert_eq!(both.priority(0, &reading), 3);
    assert_eq!(both.priority(1, &reading), 3);
}

#[test]
fn blasx_interleaves_four_chains_and_waits_for_them() {
    let mut all = stations(Scheduler::Blasx, chains(6, 2, |_| vec![]), 1);
    let mut queued = Vec::new();
    while let Next::Task { task, .. } = all.next(0.0) {
        queued.push(task);
    }
    assert_eq!(queued, [0, 2, 4, 6, 1, 3, 5, 7]);
    for _ in 0..7 {
        all.completed(0, 0.0);
        assert_eq!(all.next(0.0), Next::Wait { device: 0 });
    }
    all.completed(0, 0.0);
    assert_eq!(all.next(0.0), Next::Task { device: 0, task: 8 });
}

#[test]
fn a_memory_of_few_tiles_forgets_the_oldest() {
    let mut one = Stations::new(Scheduler::Blasx, Vec::new(), vec![vec![false]], 2);
    for tiles in [vec![1], vec![2], vec![1], vec![3]] {
        let reading = chains(1, 1, |_| tiles.clone()).remove(0);
        assert_eq!(one.begin(0, reading), None);
    }
    let mut held: Vec<u32> = one.stations[0].tiles.keys().copied().collect();
    held.sort_unstable();
    assert_eq!(held, [1, 3]);
}
