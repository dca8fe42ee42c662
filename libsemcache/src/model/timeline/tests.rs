use super::*;
use crate::model::classes::ClassRates;
use crate::model::rates::LinkRate;
use proptest::prelude::*;

const LINK: LinkRate = LinkRate {
    latency_s: 0.0,
    bytes_per_s: 1.0,
    bid_slowdown: 1.0,
};

fn device(slots: usize) -> Device {
    Device {
        slots,
        links: DeviceLinks {
            h2d: LINK,
            d2h: LINK,
            p2p: LinkRate {
                bytes_per_s: 10.0,
                ..LINK
            },
            classes: ClassRates::default(),
            port: None,
        },
    }
}

/// A device with eight slots behind a port.
fn behind(port: Option<usize>) -> Device {
    let mut device = device(8);
    device.links.port = port;
    device
}

/// A tile of one byte.
const ONE: Tile = Tile {
    bytes: 1.0,
    home: 0.0,
    share: 1.0,
    uploader: None,
};

/// The same load, whose results are written back as soon as they are final.
fn with_write_back(mut load: Load) -> Load {
    let written: Vec<u32> = load
        .uses
        .iter()
        .filter(|u| u.writes)
        .map(|u| u.tile)
        .collect();
    for tile in written {
        load.tiles[tile as usize].home = 1.0;
    }
    load
}

/// The tiles of a task, each with whether it is read and whether it is written.
type Uses<'a> = &'a [(u32, (bool, bool))];

const READ: (bool, bool) = (true, false);
const UPDATE: (bool, bool) = (true, true);
const OVERWRITE: (bool, bool) = (false, true);

/// Tasks of a second each on tiles of one byte: device, and tiles with their use.
fn load(tasks: &[(usize, Uses<'_>)]) -> Load {
    let mut load = Load::default();
    for (device, uses) in tasks {
        load.tasks.push(Task {
            device: *device,
            seconds: 1.0,
            first_use: load.uses.len(),
        });
        for &(tile, (reads, writes)) in *uses {
            load.uses.push(Use {
                tile,
                reads,
                writes,
            });
        }
    }
    let tiles = load.uses.iter().map(|u| u.tile + 1).max().unwrap_or(0);
    load.tiles = vec![ONE; tiles as usize];
    load
}

fn dropped(schedule: &Schedule) -> Vec<(usize, u32)> {
    schedule.drops.iter().map(|d| (d.task, d.tile)).collect()
}

#[test]
fn copies_run_ahead_of_kernels() {
    let l = load(&[
        (0, &[(0, READ), (1, OVERWRITE)]),
        (0, &[(2, READ), (1, UPDATE)]),
    ]);
    let s = schedule(&l, &[device(3)]).unwrap();
    assert_eq!((s.starts, s.seconds), (vec![1.0, 2.0], 3.0));
    assert_eq!((s.bytes_in, s.bytes_out), (2.0, 0.0));
    // With two slots the second upload waits for the first kernel.
    let s = schedule(&l, &[device(2)]).unwrap();
    assert_eq!((s.starts.clone(), s.seconds), (vec![1.0, 3.0], 4.0));
    assert_eq!(dropped(&s), [(1, 0)]);
    assert_eq!(schedule(&l, &[device(1)]), None);
}

#[test]
fn a_result_that_gives_way_is_written_back_first() {
    let l = load(&[(0, &[(0, OVERWRITE)]), (0, &[(1, OVERWRITE)])]);
    let s = schedule(&l, &[device(1)]).unwrap();
    assert_eq!((s.starts, s.bytes_out), (vec![0.0, 2.0], 1.0));
    // If results are written back as soon as they are final, the last one is, too.
    let s = schedule(&with_write_back(l), &[device(1)]).unwrap();
    assert_eq!((s.seconds, s.bytes_out), (4.0, 2.0));
}

#[test]
fn the_farthest_next_use_gives_way() {
    let one = |tile| [(tile, READ)];
    let (a, b, c, d) = (one(0), one(1), one(2), one(3));
    let order: Vec<(usize, Uses<'_>)> = [&a, &b, &c, &d, &a, &b, &d, &c]
        .map(|t| (0, &t[..]))
        .to_vec();
    // Least recent use would send eight tiles.
    let s = schedule(&load(&order), &[device(3)]).unwrap();
    assert_eq!(s.bytes_in, 5.0);
    assert_eq!(dropped(&s), [(3, 2), (7, 0)]);
}

#[test]
fn an_equal_call_finds_what_fits() {
    let tiles: Vec<[(u32, (bool, bool)); 1]> = (0..10).map(|t| [(t, READ)]).collect();
    let order: Vec<(usize, Uses<'_>)> = tiles.iter().map(|t| (0, &t[..])).collect();
    let mut l = load(&order);
    // Kernels far shorter than the copies.
    l.tasks.iter_mut().for_each(|t| t.seconds = 0.01);
    for _ in 0..3 {
        let s = schedule(&l, &[device(6)]).unwrap();
        let first = l.resident.is_empty();
        let expected = if first { 10.0..=10.0 } else { 4.0..=5.0 };
        assert!(expected.contains(&s.bytes_in), "{}", s.bytes_in);
        let mut held: Vec<u32> = l.resident.iter().map(|r| r.1).collect();
        for task in 0..10 {
            held.retain(|t| !dropped(&s).contains(&(task, *t)));
            let tile = u32::try_from(task).unwrap();
            if !held.contains(&tile) {
                held.push(tile);
            }
        }
        assert_eq!(held.len(), 6);
        l.resident = held.iter().map(|&t| (0, t, true)).collect();
    }
}

#[test]
fn another_device_is_a_source() {
    let mut l = load(&[
        (0, &[(0, READ), (1, OVERWRITE)]),
        (1, &[(0, READ), (2, OVERWRITE)]),
        (1, &[(1, READ), (2, UPDATE)]),
    ]);
    // The host brings tile 0 in a second; a copy of the first device's arrives 0.1 s later than that. Results that only a
    // device has come over any link.
    for links in [Links::fast(2), Links::DIRECT] {
        l.links = links;
        let s = schedule(&l, &[device(4), device(4)]).unwrap();
        assert_eq!((s.bytes_in, s.bytes_peer), (2.0, 1.0));
        assert_eq!(s.starts, [1.0, 1.0, 2.1]);
    }
}

#[test]
fn copies_from_peers_overlap_uploads() {
    // Device 0 has tiles 0 and 1, device 1 uploads tile 2 and gets the others from device 0.
    let mut l = load(&[
        (0, &[(0, READ), (1, READ), (3, OVERWRITE)]),
        (1, &[(2, READ), (0, READ), (1, READ), (4, OVERWRITE)]),
    ]);
    l.resident = vec![(0, 0, true), (0, 1, true)];
    l.links = Links::fast(2);
    let mut slow = device(4);
    slow.links.p2p.bytes_per_s = 2.0;
    let s = schedule(&l, &[slow; 2]).unwrap();
    assert_eq!((s.bytes_in, s.bytes_peer), (1.0, 2.0));
    assert_eq!(s.starts, [0.0, 1.0]);
}

/// Of bytes that the host has, too: which sources each setting allows.
#[test]
fn settings_choose_the_sources() {
    use crate::base::config::Peers;
    // Device 1 needs tile 0, which device 0 has, and tile 1, which is on its way there.
    let mut l = load(&[
        (0, &[(0, READ), (1, READ), (3, OVERWRITE)]),
        (1, &[(2, READ), (0, READ), (1, READ), (4, OVERWRITE)]),
    ]);
    l.resident = vec![(0, 0, true)];
    let slower = Links::new(vec![vec![Link::Slower; 2]; 2]);
    for (links, peers, joins, expected) in [
        (Links::fast(2), Peers::Auto, true, 2.0),
        (Links::fast(2), Peers::Auto, false, 1.0),
        (Links::fast(2), Peers::Off, true, 0.0),
        (slower.clone(), Peers::Auto, true, 0.0),
        (slower.clone(), Peers::Any, true, 2.0),
        (slower, Peers::Any, false, 1.0),
    ] {
        l.links = links.used(peers, joins);
        let s = schedule(&l, &[device(4); 2]).unwrap();
        assert_eq!(s.bytes_peer, expected, "{peers:?} {joins}");
        assert_eq!(s.bytes_in + s.bytes_peer, 4.0);
    }
    // What only a device will have is waited for in any case.
    let mut l = load(&[(0, &[(0, OVERWRITE)]), (1, &[(0, READ), (1, OVERWRITE)])]);
    l.links = Links::fast(2).used(Peers::Off, false);
    let s = schedule(&l, &[device(4); 2]).unwrap();
    assert_eq!((s.bytes_peer, s.starts), (1.0, vec![0.0, 1.1]));
}

#[test]
fn devices_share_a_port_only_while_both_transfer() {
    type One = (usize, [(u32, (bool, bool)); 1]);
    let (one, other) = (
        [0, 1, 2, 3].map(|tile| -> One { (0, [(tile, READ)]) }),
        [4, 5, 6, 7].map(|tile| -> One { (1, [(tile, READ)]) }),
    );
    let both: Vec<_> = one.iter().zip(&other).flat_map(|(a, b)| [a, b]).collect();
    let seconds = |tasks: &[&One], port| {
        let tasks: Vec<(usize, Uses<'_>)> = tasks.iter().map(|(d, u)| (*d, &u[..])).collect();
        let mut l = load(&tasks);
        l.tasks.iter_mut().for_each(|t| t.seconds = 0.0);
        // Together the devices reach half as much again as one of them.
        l.ports = vec![Port { h2d: 1.5, d2h: 1.0 }];
        schedule(&l, &[behind(Some(0)), behind(port)])
            .unwrap()
            .seconds
    };
    let alone: Vec<_> = one.iter().collect();
    assert_eq!(seconds(&alone, Some(0)), 4.0);
    assert!((seconds(&both, Some(0)) - 8.0 / 1.5).abs() < 1e-9);
    assert_eq!(seconds(&both, None), 4.0);
    // Results that both devices write back: each has one after every second.
    let results = |tasks: &[&One]| {
        let over = |(d, [(tile, _)]): &One| (*d, [(*tile, OVERWRITE)]);
        let tasks: Vec<_> = tasks.iter().map(|t| over(t)).collect();
        let tasks: Vec<(usize, Uses<'_>)> = tasks.iter().map(|(d, u)| (*d, &u[..])).collect();
        let mut l = with_write_back(load(&tasks));
        l.ports = vec![Port { h2d: 1.5, d2h: 1.0 }];
        schedule(&l, &[behind(Some(0)); 2]).unwrap().seconds
    };
    assert_eq!(results(&alone), 5.0);
    assert!((8.0..=9.0).contains(&results(&both)), "{}", results(&both));
}

#[test]
fn without_a_link_tiles_pass_through_the_host() {
    let mut l = load(&[
        (0, &[(1, OVERWRITE)]),
        (1, &[(1, READ), (2, OVERWRITE)]),
        (2, &[(1, READ), (3, OVERWRITE)]),
    ]);
    let none = vec![Link::None; 3];
    l.links = Links::new([
        none.clone(),
        none,
        vec![Link::None, Link::Faster(0), Link::None],
    ]);
    let s = schedule(&l, &[device(4); 3]).unwrap();
    // The first kernel ends at 1. Its tile is at the host at 2, on device 1 at 3, and at 3, too, on device 2, from the host.
    assert_eq!((s.bytes_out, s.bytes_in, s.bytes_peer), (1.0, 2.0, 0.0));
    assert_eq!(s.starts, [0.0, 3.0, 3.0]);
}

#[test]
fn one_thread_queues_the_tasks_of_all_devices() {
    let mut l = load(&[
        (0, &[(0, READ), (1, OVERWRITE)]),
        (1, &[(2, OVERWRITE)]),
        (0, &[(3, OVERWRITE)]),
    ]);
    l.issue_s = 5.0;
    let s = schedule(&l, &[device(4), device(4)]).unwrap();
    assert_eq!(s.starts, [5.0, 10.0, 15.0]);
    // The second upload is queued when the thread is done with the first two tasks.
    let mut l = load(&[
        (0, &[(0, OVERWRITE)]),
        (0, &[(0, UPDATE)]),
        (0, &[(1, READ)]),
    ]);
    l.issue_s = 0.25;
    let s = schedule(&l, &[device(4)]).unwrap();
    assert_eq!(s.starts, [0.25, 1.25, 2.25]);
    l.issue_s = 1.0;
    let s = schedule(&l, &[device(4)]).unwrap();
    assert_eq!(s.starts, [1.0, 2.0, 3.0]);
}

#[test]
fn what_devices_have_costs_nothing() {
    let mut l = load(&[(0, &[(0, READ), (1, UPDATE)])]);
    l.tiles[0].bytes = 0.0;
    let s = schedule(&l, &[device(usize::MAX)]).unwrap();
    assert_eq!((s.starts, s.bytes_in), (vec![1.0], 1.0));
    // Half of the result is read by the CPU.
    l.tiles[1] = Tile {
        bytes: 0.0,
        home: 0.5,
        ..ONE
    };
    let s = schedule(&l, &[device(usize::MAX)]).unwrap();
    assert_eq!((s.seconds, s.bytes_in, s.bytes_out), (1.5, 0.0, 0.5));
}

proptest! {
    #[test]
    fn tasks_find_their_tiles(
        tasks in proptest::collection::vec(
            (0usize..3, proptest::collection::vec((0u32..12, 0usize..3), 1..4)), 1..60),
        slots in 3usize..8,
        resident in proptest::collection::vec((0usize..3, 0u32..12, proptest::bool::ANY), 0..6),
        written_back in proptest::bool::ANY,
    ) {
        let kinds = [READ, UPDATE, OVERWRITE];
        let tasks: Vec<(usize, Vec<_>)> = tasks
            .into_iter()
            .map(|(d, mut uses)| {
                uses.sort_unstable();
                uses.dedup_by_key(|u| u.0);
                (d, uses.into_iter().map(|(t, k)| (t, kinds[k])).collect())
            })
            .collect();
        let borrowed: Vec<(usize, Uses<'_>)> =
            tasks.iter().map(|(d, u)| (*d, &u[..])).collect();
        let mut l = load(&borrowed);
        l.tiles.resize(12, ONE);
        if written_back {
            l = with_write_back(l);
        }
        l.resident = resident;
        let devices = [device(slots); 3];
        let s = schedule(&l, &devices).unwrap();
        let mut held: Vec<Vec<u32>> = vec![Vec::new(); 3];
        for &(d, t, _) in &l.resident {
            if !held[d].contains(&t) && held[d].len() < slots {
                held[d].push(t);
            }
        }
        let mut drops = s.drops.iter().peekable();
        let mut free = [0.0; 3];
        for (at, (d, uses)) in tasks.iter().enumerate() {
            while let Some(drop) = drops.next_if(|drop| drop.task == at) {
                prop_assert!(held[*d].contains(&drop.tile));
                prop_assert!(uses.iter().all(|(t, _)| *t != drop.tile));
                held[*d].retain(|t| *t != drop.tile);
            }
            for (t, _) in uses {
                if !held[*d].contains(t) {
                    held[*d].push(*t);
                }
            }
            prop_assert!(held[*d].len() <= slots);
            prop_assert!(s.starts[at] >= free[*d]);
            free[*d] = s.starts[at] + 1.0;
        }
        prop_assert!(drops.next().is_none());
        prop_assert!(s.seconds >= free.iter().copied().fold(0.0, f64::max));
    }
}

#[test]
fn tiles_apart_need_no_slot_and_stay() {
    let mut l = load(&[
        (0, &[(0, READ), (1, OVERWRITE)]),
        (0, &[(0, READ), (2, OVERWRITE)]),
        (0, &[(0, READ), (3, OVERWRITE)]),
    ]);
    assert!(schedule(&l, &[device(1)]).is_none());
    for valid in [true, false] {
        l.apart = vec![(0, 0, valid)];
        let s = schedule(&l, &[device(1)]).expect("a slot for each result");
        assert_eq!(s.bytes_in, if valid { 0.0 } else { 1.0 });
        assert_eq!(dropped(&s), [(1, 1), (2, 2)]);
    }
}

/// Each device multiplies two tiles that both use by two tiles of its own.
#[test]
fn devices_share_the_uploads_of_what_both_use() {
    let task = |device: usize, shared: u32, own: u32| (device, [(shared, READ), (own, READ)]);
    let tasks = [task(0, 0, 2), task(1, 0, 3), task(0, 1, 4), task(1, 1, 5)];
    let tasks: Vec<(usize, Uses<'_>)> = tasks.iter().map(|(d, uses)| (*d, &uses[..])).collect();
    let mut l = load(&tasks);
    l.tasks.iter_mut().for_each(|t| t.seconds = 0.01);
    let seconds = |l: &Load| {
        let s = schedule(l, &[device(usize::MAX); 2]).unwrap();
        (s.bytes_in, s.bytes_peer, s.seconds)
    };
    // Links no faster than the host's: each device uploads all that it uses.
    l.share_uploads(2);
    assert!(l.tiles.iter().all(|t| t.uploader.is_none()));
    let apart = seconds(&l);
    l.links = Links::fast(2);
    l.share_uploads(2);
    let uploaders: Vec<_> = l.tiles.iter().map(|t| t.uploader).collect();
    assert_eq!(uploaders[..3], [Some(0), Some(1), None]);
    let (sent, between, together) = seconds(&l);
    assert_eq!((sent, between), (6.0, 2.0));
    assert!(together < apart.2, "{together} {apart:?}");
}

/// An observer is told every operation: those of a lane follow each other, their bytes are those of the schedule, and it ends
/// with the last of them.
#[test]
fn an_observer_sees_the_schedule() {
    let tasks: Vec<(usize, Uses<'_>)> = vec![
        (0, &[(0, READ), (1, OVERWRITE)]),
        (1, &[(0, READ), (2, OVERWRITE)]),
        (0, &[(3, READ), (1, UPDATE)]),
        (1, &[(3, READ), (2, UPDATE)]),
    ];
    let mut load = with_write_back(load(&tasks));
    load.links = Links::fast(2);
    load.share_uploads(2);
    let devices = [device(9), device(9)];
    let mut seen = Vec::new();
    let watched = watched(&load, &devices, &mut seen).unwrap();
    assert_eq!(schedule(&load, &devices), Some(watched.clone()));
    let of = |kind: fn(&Did) -> bool| seen.iter().filter(move |o: &&Operation| kind(&o.did));
    let bytes = |kind| of(kind).map(|o| o.bytes).sum::<f64>();
    assert_eq!(bytes(|d| *d == Did::Upload), watched.bytes_in);
    assert_eq!(bytes(|d| *d == Did::WriteBack), watched.bytes_out);
    assert_eq!(bytes(|d| matches!(d, Did::Peer(_))), watched.bytes_peer);
    assert!(watched.bytes_peer > 0.0);
    let kernels = of(|d| matches!(d, Did::Kernel(_)));
    assert_eq!(kernels.map(|o| o.start).collect::<Vec<_>>(), watched.starts);
    let last = seen.iter().map(|o| o.end).fold(0.0, f64::max);
    assert_eq!(last, watched.seconds);
    for kind in [
        (|d| *d == Did::Upload) as fn(&Did) -> bool,
        |d| *d == Did::WriteBack,
        |d| matches!(d, Did::Kernel(_)),
        |d| matches!(d, Did::Peer(_)),
    ] {
        for d in 0..2 {
            let lane: Vec<_> = of(kind).filter(|o| o.device == d).collect();
            assert!(lane.windows(2).all(|w| w[0].end <= w[1].start));
        }
    }
}
