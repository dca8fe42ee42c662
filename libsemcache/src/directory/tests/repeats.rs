//! Repeated calls: [`Allocation::repeats`] predicts what the events of a call do that finds the state as an earlier one
//! left it.

use crate::base::{DeviceId, Intent, Interval, Rect, RectSet, ReplicaId};
use crate::directory::{Action, Allocation, Event, Place};

fn set(rects: impl IntoIterator<Item = Rect>) -> RectSet {
    rects.into_iter().collect()
}

fn same(a: &RectSet, b: &RectSet) -> bool {
    let within = |a: &RectSet, b: &RectSet| a.iter().all(|rect| b.contains(rect));
    within(a, b) && within(b, a)
}

/// Plays the events of a call on an operand that `repeats` accepts, and compares them with its prediction. Returns
/// whether `repeats` accepts the operand.
pub(super) fn check(before: &Allocation, replica: ReplicaId, rect: &Rect, intent: Intent) -> bool {
    let Some(written_back) = before.repeats(replica, rect, intent) else {
        return false;
    };
    let mut after = before.clone();
    let mut actions = Vec::new();
    let used = Event::used(replica, *rect, intent);
    for event in [
        Event::Enclose { rect: *rect },
        used,
        Event::Settle { rect: *rect },
    ] {
        after.step(&event, &mut actions).unwrap();
    }
    let copied = actions.iter().map(|action| match action {
        Action::Copy {
            from: Place::Replica(from),
            to: Place::Host,
            rect,
        } if *from == replica => *rect,
        other => panic!("{intent:?} of {rect:?} does {other:?}"),
    });
    let (copied, written_back) = (set(copied), set(written_back));
    assert!(
        same(&copied, &written_back),
        "{copied:?} is written back, not {written_back:?}"
    );
    assert!(same(before.stale(), after.stale()));
    for ((a, was), (b, is)) in before.replicas().zip(after.replicas()) {
        assert!(a == b && same(&was.valid, &is.valid));
    }
    same_pages(before, &after);
    true
}

/// Pages are as accessible as before, and as many of those that operands share with other data are write-tracked.
fn same_pages(before: &Allocation, after: &Allocation) {
    let all = Interval::new(0, before.extent());
    let (mut was, mut is) = (Vec::new(), Vec::new());
    before.access_runs(all, &mut was);
    after.access_runs(all, &mut is);
    assert_eq!(was, is);
    assert_eq!(before.tracked_edges(), after.tracked_edges());
}

/// Plays the events of a call that writes an operand which `only_outdates` accepts: nothing may change but that other replicas lose their
/// copies of it.
pub(super) fn check_outdated(before: &Allocation, replica: ReplicaId, rect: &Rect, intent: Intent) {
    if intent == Intent::Read || !before.only_outdates(replica, rect) {
        return;
    }
    let mut after = before.clone();
    let mut actions = Vec::new();
    for event in [
        Event::Enclose { rect: *rect },
        Event::used(replica, *rect, intent),
        Event::Settle { rect: *rect },
    ] {
        after.step(&event, &mut actions).unwrap();
    }
    let mut outdated: Vec<(ReplicaId, RectSet)> = Vec::new();
    for action in actions {
        let Action::Invalid { replica: of, rect } = action else {
            panic!("{intent:?} of {rect:?} does {action:?}");
        };
        assert!(of != replica);
        outdated.push((of, set([rect])));
    }
    assert!(same(before.stale(), after.stale()));
    for ((a, was), (b, is)) in before.replicas().zip(after.replicas()) {
        let mut left = was.valid.clone();
        for (of, gone) in &outdated {
            if *of == a {
                gone.iter().for_each(|gone| left.remove(gone));
            }
        }
        assert!(a == b && same(&left, &is.valid));
        assert!(a == replica || !is.valid.overlaps(rect));
    }
    same_pages(before, &after);
}

#[test]
fn a_write_takes_copies_from_other_replicas() {
    let page = 16;
    let mut alloc = Allocation::new(160, page, page, Interval::new(0, 160));
    let all = Rect::interval(0, 160);
    let replicas = [ReplicaId(1), ReplicaId(2)];
    for (id, device) in replicas.into_iter().zip([0, 1].map(DeviceId)) {
        alloc.add_replica(id, device, all);
    }
    let mut step = |event: Event| alloc.step(&event, &mut Vec::new()).unwrap();
    step(Event::Enclose { rect: all });
    step(Event::used(replicas[0], all, Intent::Overwrite));
    let halo = Rect::interval(70, 90);
    step(Event::used(replicas[1], halo, Intent::Read));
    assert_eq!(alloc.repeats(replicas[0], &all, Intent::Update), None);
    assert!(alloc.only_outdates(replicas[0], &all));
    assert!(!alloc.only_outdates(replicas[1], &all));
    assert!(alloc.only_outdates(replicas[1], &halo));
    for (replica, rect) in [(replicas[0], all), (replicas[1], halo)] {
        check_outdated(&alloc, replica, &rect, Intent::Update);
        check_outdated(&alloc, replica, &rect, Intent::Overwrite);
    }
    // The host has the bytes, too: a write would close pages.
    alloc
        .step(&Event::CpuRead { span: halo.span() }, &mut Vec::new())
        .unwrap();
    assert!(!alloc.only_outdates(replicas[0], &all));
}

#[test]
fn a_result_on_write_tracked_pages_repeats_with_write_backs() {
    let (page, replica) = (16, ReplicaId(1));
    let mut alloc = Allocation::new(160, page, page, Interval::new(0, 160));
    let all = Rect::interval(0, 160);
    alloc.add_replica(replica, DeviceId(0), all);
    let operand = Rect::interval(5, 90);
    let mut step = |event: Event| alloc.step(&event, &mut Vec::new()).unwrap();
    step(Event::Enclose { rect: operand });
    for at in [0, 80] {
        let pages = Interval::new(at, at + page);
        step(Event::WriteTrack { pages, on: true });
    }
    step(Event::used(replica, operand, Intent::Update));
    // Before its end the call has left bytes that are not written back.
    for intent in [Intent::Update, Intent::Overwrite, Intent::Read] {
        assert!(!check(&alloc, replica, &operand, intent));
    }
    alloc
        .step(&Event::Settle { rect: operand }, &mut Vec::new())
        .unwrap();
    let edges = vec![Rect::interval(5, 16), Rect::interval(80, 90)];
    assert_eq!(
        alloc.repeats(replica, &operand, Intent::Update),
        Some(edges)
    );
    for intent in [Intent::Update, Intent::Overwrite, Intent::Read] {
        assert!(check(&alloc, replica, &operand, intent));
    }
    // The CPU has written beside the operand, on a write-tracked page.
    let pages = vec![Interval::new(0, page)];
    alloc
        .step(&Event::Dirty { pages }, &mut Vec::new())
        .unwrap();
    assert_eq!(alloc.repeats(replica, &operand, Intent::Update), None);
}
