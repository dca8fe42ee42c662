//! Random histories of the queues alone, without threads: the test plays the workers.

use super::*;

const DEVICES: usize = 3;
const LANE: [Lane; LANES] = Lane::ALL;

struct Dice(u64);

impl Dice {
    fn roll(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % n
    }
}

fn work(dice: &mut Dice) -> Work {
    let region = Region { addr: 0, pitch: 0 };
    let shape = Shape { width: 0, count: 0 };
    if dice.roll(3) == 0 {
        let from = DeviceId(dice.roll(DEVICES) as u8);
        Work::Peer {
            from,
            src: region,
            dst: region,
            shape,
        }
    } else {
        Work::Poison { dst: region, shape }
    }
}

/// Plays one history. Checks at every start of an operation that all tickets which it names are complete and none has
/// failed, and at the end that every ticket is complete or failed.
fn play(seed: u64, late: bool, losses: bool) {
    let mut dice = Dice(seed);
    let mut q = Queues::new(DEVICES, late, false);
    let mut issued: Vec<(Ticket, Vec<Ticket>)> = Vec::new();
    let mut running: Vec<usize> = Vec::new();
    let mut executed: Vec<Ticket> = Vec::new();
    let mut wake = StreamSet::default();
    let stream_ticket = |s: usize, seq| Ticket {
        device: device_of(s),
        lane: LANE[s % LANES],
        seq,
    };
    let start =
        |q: &mut Queues, s: usize, executed: &mut Vec<Ticket>, issued: &[(Ticket, Vec<Ticket>)]| {
            let Next::Run(op) = q.next(s) else {
                return false;
            };
            let ticket = stream_ticket(s, op.seq);
            let (_, after) = issued.iter().find(|(t, _)| *t == ticket).expect("issued");
            assert!(
                after.iter().all(|t| q.status(*t) == Status::Done),
                "started too early"
            );
            let before = issued
                .iter()
                .filter(|(t, _)| index(t.device, t.lane) == s && t.seq < op.seq);
            assert!(
                before.clone().all(|(t, _)| q.status(*t) != Status::Pending),
                "out of order"
            );
            executed.push(ticket);
            true
        };
    for _ in 0..400 {
        match dice.roll(if losses { 40 } else { 38 }) {
            0..=14 => {
                let s = dice.roll(DEVICES * LANES);
                let after: Vec<Ticket> = (0..dice.roll(4))
                    .filter_map(|_| issued.get(dice.roll(issued.len().max(1))).map(|(t, _)| *t))
                    .collect();
                let w = work(&mut dice);
                match q.enqueue(device_of(s), LANE[s % LANES], &after, w, &mut wake) {
                    Ok(t) => issued.push((t, after)),
                    Err(DeviceError::Lost { device }) => assert!(q.is_lost(device)),
                    Err(e) => panic!("{e}"),
                }
            }
            15..=24 => {
                let s = dice.roll(DEVICES * LANES);
                if !running.contains(&s) && start(&mut q, s, &mut executed, &issued) {
                    running.push(s);
                }
            }
            25..=34 if !running.is_empty() => {
                let s = running.swap_remove(dice.roll(running.len()));
                q.finish(s, &mut wake);
            }
            35..=37 if !issued.is_empty() => {
                let (t, _) = issued[dice.roll(issued.len())];
                q.demand(t, &mut wake);
            }
            38 if dice.roll(8) == 0 => q.lose(DeviceId(dice.roll(DEVICES) as u8), &mut wake),
            39 if dice.roll(8) == 0 && !running.is_empty() => {
                let s = running.swap_remove(0);
                executed.retain(|t| index(t.device, t.lane) != s || q.status(*t) == Status::Done);
                q.fail(s, &mut wake);
            }
            _ => {}
        }
    }
    for (t, _) in &issued {
        q.demand(*t, &mut wake);
    }
    running.drain(..).for_each(|s| q.finish(s, &mut wake));
    while (0..DEVICES * LANES).any(|s| {
        let ran = start(&mut q, s, &mut executed, &issued);
        if ran {
            q.finish(s, &mut wake);
        }
        ran
    }) {}
    for (t, after) in &issued {
        match q.status(*t) {
            Status::Done => {
                assert!(executed.contains(t));
                assert!(
                    after.iter().all(|t| q.status(*t) == Status::Done),
                    "ran on lost data"
                );
            }
            Status::Lost(by) => assert!(q.is_lost(by) && !executed.contains(t)),
            other => panic!("{t:?} of seed {seed} ends {other:?}"),
        }
    }
}

#[test]
fn every_ticket_ends_and_nothing_runs_early() {
    for seed in 0..400 {
        for late in [false, true] {
            play(seed, late, false);
            play(seed, late, true);
        }
    }
}

#[test]
fn late_operations_stay_until_demanded() {
    let mut q = Queues::new(1, true, false);
    let mut wake = StreamSet::default();
    let work = || Work::Poison {
        dst: Region { addr: 0, pitch: 0 },
        shape: Shape { width: 0, count: 0 },
    };
    let d = DeviceId(0);
    let a = q
        .enqueue(d, Lane::In, &[], work(), &mut wake)
        .expect("queued");
    let b = q
        .enqueue(d, Lane::Compute, &[a], work(), &mut wake)
        .expect("queued");
    let _c = q
        .enqueue(d, Lane::Compute, &[], work(), &mut wake)
        .expect("queued");
    assert_eq!(wake.iter().count(), 0);
    assert!(matches!(q.next(index(d, Lane::In)), Next::Sleep));
    q.demand(b, &mut wake);
    assert_eq!(wake.iter().collect::<Vec<_>>(), [0, 2]);
    assert!(matches!(q.next(2), Next::Sleep), "waits for a");
    assert!(matches!(q.next(0), Next::Run(_)));
    let mut wake = StreamSet::default();
    q.finish(0, &mut wake);
    assert_eq!(wake.iter().collect::<Vec<_>>(), [2]);
    assert!(matches!(q.next(2), Next::Run(Op { seq: 1, .. })));
    q.finish(2, &mut wake);
    assert!(matches!(q.next(2), Next::Sleep), "c is not demanded");
}
