//! Rules of the coherence protocol that random traces do not pin down: preferences among sources, limits, refusals.

use crate::base::{Access, DeviceId, Interval, Link, Links, Rect, ReplicaId};
use crate::directory::{
    Action, Allocation, Event, Illegal, MAX_FRAGMENTS, MAX_GAPS, MAX_NEAR, Place, separable,
};

const KIB: usize = 1024;

fn alloc(extent: usize) -> Allocation {
    Allocation::new(extent, 8 * KIB, 4 * KIB, Interval::new(0, extent))
}

fn step(alloc: &mut Allocation, event: &Event) -> Vec<Action> {
    let mut actions = Vec::new();
    alloc.step(event, &mut actions).unwrap();
    alloc.check().unwrap();
    actions
}

fn read(id: u64, rect: Rect) -> Event {
    Event::DeviceRead {
        replica: ReplicaId(id),
        rect,
    }
}

fn write(id: u64, rect: Rect) -> Event {
    Event::DeviceWrite {
        replica: ReplicaId(id),
        rect,
        keep: false,
    }
}

fn copy(from: u64, to: u64, rect: Rect) -> Action {
    Action::Copy {
        from: Place::Replica(ReplicaId(from)),
        to: Place::Replica(ReplicaId(to)),
        rect,
    }
}

/// Five replicas of the same bytes, the last two on one device.
fn five(links: &Links) -> (Allocation, Rect) {
    let all = Rect::interval(0, 8 * KIB);
    let mut a = alloc(8 * KIB).with_links(links.clone());
    for (id, device) in [(1, 1), (2, 0), (3, 2), (4, 3), (5, 3)] {
        a.add_replica(ReplicaId(id), DeviceId(device), all);
    }
    (a, all)
}

fn upload(to: u64, rect: Rect) -> Action {
    Action::Copy {
        from: Place::Host,
        to: Place::Replica(ReplicaId(to)),
        rect,
    }
}

fn protect(rect: Rect, access: Access) -> Action {
    let span = rect.span();
    Action::Protect { span, access }
}

#[test]
fn sources_are_the_nearest() {
    use Link::{Faster, Slower};
    // Device 3 reads device 2 fastest, then 0 and 1, each faster than the host; device 0 reads others no faster than the host.
    let none = vec![Link::None; 4];
    let links = Links::new([
        vec![Slower; 4],
        none.clone(),
        none,
        vec![Faster(1), Faster(1), Faster(0), Link::None],
    ]);
    let (mut a, all) = five(&links);
    let first = vec![protect(all, Access::Read), upload(2, all)];
    assert_eq!(step(&mut a, &read(2, all)), first);
    assert_eq!(step(&mut a, &read(1, all)), vec![upload(1, all)]);
    // Over equal links, the lowest id; the same device before all links.
    assert_eq!(step(&mut a, &read(4, all)), vec![copy(1, 4, all)]);
    assert_eq!(step(&mut a, &read(5, all)), vec![copy(4, 5, all)]);
    // Other parts come over other links.
    let (mut a, all) = five(&links);
    let (half, rest) = (Rect::interval(0, 4 * KIB), Rect::interval(4 * KIB, 8 * KIB));
    step(&mut a, &read(1, all));
    step(&mut a, &read(3, half));
    assert_eq!(
        step(&mut a, &read(4, all)),
        vec![copy(3, 4, half), copy(1, 4, rest)]
    );
    // Stale bytes come from the same device, else over any link.
    let (mut a, all) = five(&links);
    step(&mut a, &write(1, all));
    assert_eq!(step(&mut a, &read(2, all)), vec![copy(1, 2, all)]);
    // A replica to which bytes are still on their way is left out, if the host has them.
    let (mut a, all) = five(&links);
    step(&mut a, &read(1, all));
    a.not_from(vec![ReplicaId(1)]);
    assert_eq!(step(&mut a, &read(4, all)), vec![upload(4, all)]);
    step(&mut a, &write(1, all));
    assert_eq!(step(&mut a, &read(4, all)), vec![copy(1, 4, all)]);
}

/// As on a machine of which two devices are behind different root ports.
#[test]
fn bytes_of_a_device_without_a_link_pass_through_the_host() {
    let all = Rect::interval(0, 8 * KIB);
    let (left, right) = (Rect::interval(0, 4 * KIB), Rect::interval(4 * KIB, 8 * KIB));
    let mut a = alloc(8 * KIB).with_links(Links::new(vec![vec![Link::None; 2]; 2]));
    a.add_replica(ReplicaId(1), DeviceId(0), all);
    a.add_replica(ReplicaId(2), DeviceId(1), all);
    step(&mut a, &write(1, all));
    step(&mut a, &write(2, right));
    // The other half is newest on the reading device.
    assert_eq!(a.out_of_reach(ReplicaId(2), &all), vec![left]);
    let home = Action::Copy {
        from: Place::Replica(ReplicaId(1)),
        to: Place::Host,
        rect: left,
    };
    assert_eq!(
        step(&mut a, &Event::WriteBack { rect: left }),
        vec![home, protect(left, Access::Read)]
    );
    assert_eq!(a.out_of_reach(ReplicaId(2), &all), []);
    assert_eq!(step(&mut a, &read(2, all)), vec![upload(2, left)]);
    // What the host has is within reach, and what a device with a link has.
    let mut a = alloc(8 * KIB);
    a.add_replica(ReplicaId(1), DeviceId(0), all);
    a.add_replica(ReplicaId(2), DeviceId(1), all);
    step(&mut a, &write(1, all));
    assert_eq!(a.out_of_reach(ReplicaId(2), &all), []);
}

#[test]
fn a_refused_event_changes_nothing() {
    let mut a = alloc(64 * KIB);
    a.add_replica(ReplicaId(1), DeviceId(0), Rect::new(0, 256, 512, 128));
    a.add_replica(ReplicaId(2), DeviceId(0), Rect::interval(0, 128 * KIB));
    step(&mut a, &write(1, Rect::new(0, 256, 512, 9)));
    let before = a.clone();
    let outside = |id, rect| Illegal::Outside {
        replica: ReplicaId(id),
        rect,
    };
    let gap = Rect::interval(0, 512);
    let beyond = Rect::interval(64 * KIB - 8, 64 * KIB + 8);
    let cases = [
        (read(1, gap), outside(1, gap)),
        (write(1, gap), outside(1, gap)),
        (read(2, beyond), outside(2, beyond)),
        (write(9, gap), Illegal::UnknownReplica(ReplicaId(9))),
        (
            Event::Evict {
                replica: ReplicaId(9),
            },
            Illegal::UnknownReplica(ReplicaId(9)),
        ),
    ];
    let mut actions = Vec::new();
    for (event, why) in cases {
        assert_eq!(a.step(&event, &mut actions), Err(why));
        assert_eq!((&a, actions.len()), (&before, 0));
        assert!(why.to_string().contains("replica"), "{why}");
    }
}

#[test]
fn nothing_happens_to_what_is_not_there() {
    let mut a = alloc(64 * KIB);
    a.add_replica(ReplicaId(1), DeviceId(0), Rect::interval(0, 64 * KIB));
    let rect = Rect::interval(0, 64 * KIB);
    for event in [
        read(1, Rect::EMPTY),
        write(1, Rect::EMPTY),
        Event::CpuRead { span: rect.span() },
        Event::CpuWrite { span: rect.span() },
        Event::Dirty { pages: vec![] },
        Event::Dirty {
            pages: vec![rect.span()],
        },
        Event::WriteBack { rect },
        Event::Settle { rect },
        Event::Flush,
        Event::Lost {
            device: DeviceId(7),
        },
        Event::WriteThrough {
            span: rect.span(),
            on: false,
        },
        Event::WriteThrough {
            span: Interval::default(),
            on: true,
        },
    ] {
        assert_eq!(step(&mut a, &event), vec![], "{event:?}");
    }
}

#[test]
fn a_known_replica_is_not_added_again() {
    let mut a = alloc(8 * KIB);
    a.add_replica(ReplicaId(1), DeviceId(0), Rect::interval(0, 64));
    step(&mut a, &write(1, Rect::interval(0, 64)));
    let before = a.clone();
    a.add_replica(ReplicaId(1), DeviceId(1), Rect::interval(0, 8));
    assert_eq!(a, before);
}

#[test]
fn fragments_are_limited_and_stale_ones_are_written_back() {
    // Pieces that cannot be merged: their distances grow, and they have two sizes.
    let pieces: Vec<Rect> = (0..600)
        .map(|i| Rect::interval(i * i + 20 * i, i * i + 20 * i + 8 + 8 * (i % 2)))
        .collect();
    let extent = 512 * KIB;
    let mut a = alloc(extent);
    a.add_replica(ReplicaId(1), DeviceId(0), Rect::interval(0, extent));
    for piece in &pieces {
        step(&mut a, &write(1, *piece));
    }
    assert!(
        a.stale().len() > MAX_FRAGMENTS,
        "a call's own bytes are not given up: {}",
        a.stale().len()
    );
    let all = Rect::interval(0, extent);
    let actions = step(&mut a, &Event::Settle { rect: all });
    assert!(a.stale().len() <= MAX_FRAGMENTS / 2);
    assert!(a.replica(ReplicaId(1)).unwrap().valid.len() <= MAX_FRAGMENTS / 2);
    let written_back: usize = actions
        .iter()
        .map(|action| match action {
            Action::Copy {
                to: Place::Host,
                rect,
                ..
            } => rect.bytes(),
            _ => 0,
        })
        .sum();
    let total: usize = pieces.iter().map(Rect::bytes).sum();
    assert_eq!(written_back + a.stale().bytes(), total);
    assert!(
        a.stale().iter().all(|rect| rect.bytes() == 16),
        "the small ones went"
    );
    assert_eq!(step(&mut a, &Event::Settle { rect: all }), vec![]);
}

/// Matrices of ever other leading dimensions at ever other places, as a multifrontal solver has them in its arena:
/// whatever matrices the sets held before, they stay small, and no step cuts a rectangle into hundreds of pieces.
#[test]
fn a_matrix_of_another_leading_dimension_gives_up_what_it_would_cut_to_pieces() {
    let extent = 4 << 20;
    let mut a = alloc(extent);
    a.add_replica(ReplicaId(1), DeviceId(0), Rect::interval(0, extent));
    let mut state = 1_u64;
    let mut below = |n: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(state >> 33).unwrap() % n
    };
    for _ in 0..300 {
        let ld = 50 + below(450);
        let (rows, columns) = (8 + below(ld - 8), 8 + below(200));
        let start = below(extent / 8 - ld * columns);
        let view = Rect::new(start * 8, rows * 8, ld * 8, columns);
        let event = write(1, view);
        let mut actions = 0;
        if a.untidy(&view) {
            actions += step(&mut a, &Event::Tidy { rect: view }).len();
        }
        actions += step(&mut a, &event).len();
        let valid = &a.replica(ReplicaId(1)).unwrap().valid;
        for set in [a.stale(), valid] {
            assert!(set.contains(&view));
            assert!(set.len() <= MAX_FRAGMENTS + 4 * MAX_NEAR, "{}", set.len());
            let others = set.near(&view).filter(|have| !view.contains(have));
            assert!(others.clone().all(|have| separable(have, &view)));
        }
        assert!(actions <= 16 * MAX_NEAR, "{actions}");
    }
}

#[test]
fn what_is_read_of_mixed_matrices_is_written_back_whole() {
    let extent = 64 * KIB;
    let mut a = alloc(extent);
    a.add_replica(ReplicaId(1), DeviceId(0), Rect::interval(0, extent));
    let (one, other) = (Rect::new(0, 64, 512, 100), Rect::new(96, 32, 600, 50));
    step(&mut a, &write(1, one));
    let written_back = step(&mut a, &Event::WriteBack { rect: other });
    let copies = written_back
        .iter()
        .filter(|a| matches!(a, Action::Copy { .. }));
    assert_eq!(copies.count(), 1, "{written_back:?}");
    assert!(a.stale().is_empty());
}

#[test]
fn panels_are_clipped() {
    let a = Allocation::new(
        20 * KIB + 5,
        8 * KIB,
        4 * KIB,
        Interval::new(4 * KIB, 20 * KIB),
    );
    let span = |start, end| Interval::new(start * KIB, end * KIB);
    assert_eq!(a.panel_span(4 * KIB), span(4, 8));
    assert_eq!(a.panel_span(8 * KIB), span(8, 16));
    assert_eq!(a.panel_span(20 * KIB - 1), span(16, 20));
    assert_eq!(a.panel_span(0), span(0, 4));
    assert_eq!(
        a.panel_span(20 * KIB + 4),
        Interval::new(20 * KIB, 20 * KIB + 5)
    );
    let b = Allocation::new(5 * KIB, 3 * KIB, 4 * KIB, Interval::new(1, 5 * KIB));
    assert_eq!(
        b.tracked(),
        Interval::new(4 * KIB, 4 * KIB),
        "only whole pages"
    );
    assert_eq!(
        b.panel_span(4 * KIB),
        span(4, 5),
        "a panel is a multiple of a page"
    );
    assert_eq!(b.access(span(0, 5)), Access::ReadWrite);
    assert_eq!(
        b.untrapped(&Rect::interval(0, KIB)),
        vec![Rect::interval(0, KIB)]
    );
}

#[test]
fn a_block_that_grows_or_shrinks_keeps_what_it_can() {
    let mut a = alloc(16 * KIB);
    a.add_replica(ReplicaId(1), DeviceId(0), Rect::interval(0, 16 * KIB));
    step(&mut a, &write(1, Rect::interval(0, 12 * KIB)));
    let protect = |start: usize, end: usize, access| Action::Protect {
        span: Interval::new(start * KIB, end * KIB),
        access,
    };
    // The block shrinks from four pages and a half to three: the last panel loses its second page.
    let mut actions = Vec::new();
    a.resize(11 * KIB, 11 * KIB, Interval::new(0, 12 * KIB), &mut actions);
    a.check().unwrap();
    let cut = Action::Invalid {
        replica: ReplicaId(1),
        rect: Rect::interval(11 * KIB, 12 * KIB),
    };
    assert_eq!(actions, vec![cut]);
    // The block grows: bytes that were padding on the last page belong to the program now, so the page becomes
    // accessible.
    actions.clear();
    a.resize(64 * KIB, 64 * KIB, Interval::new(0, 64 * KIB), &mut actions);
    let written_back = Rect::interval(8 * KIB, 11 * KIB);
    let expected = vec![
        Action::Copy {
            from: Place::Replica(ReplicaId(1)),
            to: Place::Host,
            rect: written_back,
        },
        Action::Invalid {
            replica: ReplicaId(1),
            rect: written_back,
        },
        protect(8, 12, Access::ReadWrite),
    ];
    assert_eq!(actions, expected);
    // The first page can no longer be trapped: its stale bytes are written back.
    actions.clear();
    a.resize(
        64 * KIB,
        64 * KIB,
        Interval::new(4 * KIB, 64 * KIB),
        &mut actions,
    );
    let written_back = Rect::interval(0, 4 * KIB);
    let expected = vec![
        Action::Copy {
            from: Place::Replica(ReplicaId(1)),
            to: Place::Host,
            rect: written_back,
        },
        Action::Invalid {
            replica: ReplicaId(1),
            rect: written_back,
        },
        protect(0, 4, Access::ReadWrite),
    ];
    assert_eq!(actions, expected);
    // No page can be trapped any more.
    actions.clear();
    a.resize(64 * KIB, 64 * KIB, Interval::default(), &mut actions);
    assert_eq!(actions.last(), Some(&protect(4, 8, Access::ReadWrite)));
    assert!(a.stale().is_empty() && a.replica(ReplicaId(1)).unwrap().valid.is_empty());
}

#[test]
fn scattered_pages_are_taken_by_panels_and_a_row_of_them_exactly() {
    const PAGE: usize = 4096;
    let extent = 40_000 * PAGE;
    let mut a = Allocation::new(extent, 16 * PAGE, PAGE, Interval::new(0, extent));
    let all = Rect::interval(0, extent);
    a.add_replica(ReplicaId(1), DeviceId(0), all);
    step(&mut a, &read(1, all));
    let page = |at: usize| Interval::new(at * PAGE, (at + 1) * PAGE);
    let valid = |a: &Allocation| a.replica(ReplicaId(1)).unwrap().valid.clone();
    // One row of a matrix is dirty: a page of each column.
    let row: Vec<_> = (0..8000).map(|column| page(5 * column + 2)).collect();
    step(&mut a, &Event::Dirty { pages: row });
    assert_eq!(valid(&a).bytes(), extent - 8000 * PAGE);
    assert!(valid(&a).len() <= 3, "{:?}", valid(&a));
    step(&mut a, &read(1, all));
    assert_eq!(valid(&a).iter().copied().collect::<Vec<_>>(), vec![all]);
    // The same number of dirty pages without a pattern: too many panels of 16 pages have one, as well.
    let mut at = 0;
    let mut scattered = Vec::new();
    for i in 0.. {
        at += 1 + (i * i) % 7 + i % 3;
        if at >= 40_000 {
            break;
        }
        scattered.push(page(at));
    }
    let first = scattered[0].start;
    step(&mut a, &Event::Dirty { pages: scattered });
    assert!(valid(&a).bytes() <= first + 16 * PAGE);
}

/// The access of each of the first `N` pages.
fn accesses<const N: usize>(a: &Allocation) -> [Access; N] {
    const PAGE: usize = 4096;
    core::array::from_fn(|i| a.access(Interval::new(i * PAGE, (i + 1) * PAGE)))
}

#[test]
fn pages_between_columns_stay_open_where_they_are_no_small_part_of_the_block() {
    const PAGE: usize = 4096;
    let (open, shut) = (Access::ReadWrite, Access::None);
    // Columns of one page, with two whole pages and two halves of pages between them.
    let matrix = |n| Rect::new(PAGE / 2, PAGE, 4 * PAGE, n);
    for (pages, gap) in [
        (3 * MAX_GAPS - 1, [open, open]),
        (3 * MAX_GAPS, [shut, shut]),
    ] {
        let extent = pages * PAGE;
        let mut a = Allocation::new(extent, 16 * PAGE, PAGE, Interval::new(0, extent));
        a.add_replica(ReplicaId(1), DeviceId(0), Rect::interval(0, extent));
        let columns = pages / 4;
        assert_eq!(a.narrow(&matrix(columns)), gap[0] == shut);
        let closed = step(&mut a, &write(1, matrix(columns)));
        let runs = if gap[0] == shut { 1 } else { columns };
        assert_eq!(closed.len(), runs);
        // The first page stays accessible, since half of it lies before the matrix. Pages with parts of a column are
        // inaccessible.
        let expected = [open, shut, gap[0], gap[1], shut, shut, gap[0], gap[1], shut];
        assert_eq!(accesses(&a), expected);
    }
}

#[test]
fn the_cpu_gets_at_pages_in_narrow_gaps() {
    const PAGE: usize = 4096;
    let (open, shown, shut) = (Access::ReadWrite, Access::Read, Access::None);
    let page = |i: usize| Interval::new(i * PAGE, (i + 1) * PAGE);
    let pages = 3 * MAX_GAPS;
    let extent = pages * PAGE;
    let mut a = Allocation::new(extent, PAGE, PAGE, Interval::new(0, extent));
    a.add_replica(ReplicaId(1), DeviceId(0), Rect::interval(0, extent));
    let matrix = Rect::new(0, PAGE, 3 * PAGE, 100);
    step(&mut a, &write(1, matrix));
    assert_eq!(accesses(&a), [shut; 9]);
    // The gap leaves the hulls and becomes accessible, and no byte is copied.
    let opened = |from, to| Action::Protect {
        span: Interval::new(from * PAGE, to * PAGE),
        access: open,
    };
    let read_one = Event::CpuRead { span: page(1) };
    assert_eq!(step(&mut a, &read_one), vec![opened(1, 3)]);
    let write_one = Event::CpuWrite { span: page(5) };
    assert_eq!(step(&mut a, &write_one), vec![opened(4, 6)]);
    let expected = [shut, open, open, shut, open, open, shut, shut, shut];
    assert_eq!(accesses(&a), expected);
    // The next use of the matrix makes the gap inaccessible again.
    let closed: Vec<Action> = step(&mut a, &Event::Enclose { rect: matrix });
    assert_eq!(closed.len(), 2);
    assert_eq!(accesses(&a), [shut; 9]);
    // If devices may keep what they hold on a page of the gap, the columns around it are written back instead.
    step(&mut a, &read(1, Rect::from(page(7))));
    let written_back = step(&mut a, &Event::CpuRead { span: page(7) });
    let copies = written_back
        .iter()
        .filter(|a| matches!(a, Action::Copy { .. }));
    assert_eq!(copies.count(), 1, "{written_back:?}");
    assert_eq!(a.stale().bytes(), 98 * PAGE);
    let accesses: [Access; 13] = accesses(&a);
    assert_eq!(accesses[..4], [shut; 4]);
    assert_eq!(accesses[4..12], [shown; 8]);
    assert_eq!(accesses[12], shut);
}

#[test]
fn the_pages_of_an_operand_in_a_panel_are_protected_together() {
    const PAGE: usize = 4096;
    const PANEL: usize = 16 * PAGE;
    let (open, shown, shut) = (Access::ReadWrite, Access::Read, Access::None);
    let extent = 16 * PANEL;
    let mut a = Allocation::new(extent, PANEL, PAGE, Interval::new(0, extent));
    a.add_replica(ReplicaId(1), DeviceId(0), Rect::interval(0, extent));
    // From the middle of a page to the middle of a page, over six panels.
    let operand = Rect::interval(2 * PAGE + 100, 84 * PAGE + 100);
    assert_eq!(step(&mut a, &Event::Enclose { rect: operand }), vec![]);
    let pages = |from, to, access| Action::Protect {
        span: Interval::new(from * PAGE, to * PAGE),
        access,
    };
    let tile = |from, to| Rect::interval(from * PAGE, to * PAGE);
    let first = step(&mut a, &read(1, tile(4, 5)));
    assert_eq!(first[0], pages(3, 16, shown));
    // Reading another tile of the operand in that panel changes no access.
    let second = step(&mut a, &read(1, tile(6, 8)));
    assert_eq!(second.len(), 1, "{second:?}");
    assert_eq!(
        step(&mut a, &write(1, tile(8, 9))),
        vec![pages(3, 16, shut)]
    );
    let third = step(&mut a, &write(1, tile(15, 17)));
    assert_eq!(third, vec![pages(16, 32, shut)]);
    assert_eq!(
        step(&mut a, &read(1, tile(83, 84)))[0],
        pages(80, 84, shown)
    );
    // The CPU's write makes the panel accessible, and no page of the operand in that panel is protected any more.
    let span = Interval::new(0, PANEL);
    let written = step(&mut a, &Event::CpuWrite { span });
    assert_eq!(written.last(), Some(&pages(3, 16, open)));
    step(&mut a, &read(1, tile(15, 16)));
    let around: [Access; 20] = accesses(&a);
    assert_eq!(around[..15], [open; 15]);
    assert_eq!(around[15..], [shown, shut, shut, shut, shut]);
    // If the gaps of a matrix stay accessible, only the columns' own pages are protected.
    let matrix = Rect::new(8 * PANEL, PAGE, 3 * PAGE, 40);
    step(&mut a, &Event::Enclose { rect: matrix });
    step(&mut a, &write(1, matrix));
    let columns: [Access; 8 * 16 + 8] = accesses(&a);
    let expected = [shut, open, open, shut, open, open, shut, open];
    assert_eq!(columns[8 * 16..], expected);
}

#[test]
fn data_derived_from_bytes_protect_them_when_devices_hold_them_no_longer() {
    let rect = Rect::interval(0, 16 * KIB);
    let mut a = alloc(16 * KIB);
    a.add_replica(ReplicaId(1), DeviceId(0), rect);
    step(&mut a, &write(1, rect));
    a.add_derived(ReplicaId(2), rect);
    let replica = ReplicaId(2);
    let derived = step(&mut a, &Event::Derive { replica });
    // The CPU reads the newest bytes.
    let (from, to) = (Place::Replica(ReplicaId(1)), Place::Host);
    assert_eq!(derived[0], Action::Copy { from, to, rect });
    let replica = ReplicaId(1);
    assert_eq!(step(&mut a, &Event::Evict { replica }).len(), 1);
    assert_eq!(accesses(&a), [Access::Read; 4]);
    // Devices get the bytes from the host, and cannot use the replica.
    a.add_replica(ReplicaId(3), DeviceId(0), rect);
    assert_eq!(step(&mut a, &read(3, rect)), vec![upload(3, rect)]);
    let refused = a.step(&read(2, rect), &mut Vec::new());
    assert!(matches!(refused, Err(Illegal::Outside { .. })));
    assert!(a.on_devices(&rect));
    // The loss of all devices leaves it as it is; the first write of the CPU or of a device ends it.
    let device = DeviceId(0);
    step(&mut a, &Event::Lost { device });
    assert_eq!(accesses(&a), [Access::Read; 4]);
    assert!(!a.on_devices(&rect));
    a.add_replica(ReplicaId(4), DeviceId(1), rect);
    let ends = Action::Invalid {
        replica: ReplicaId(2),
        rect,
    };
    assert!(step(&mut a.clone(), &write(4, rect)).contains(&ends));
    let span = Interval::new(0, 8 * KIB);
    let written = step(&mut a, &Event::CpuWrite { span });
    assert!(
        matches!(written[0], Action::Invalid { replica: ReplicaId(2), rect } if rect == span.into())
    );
}

#[test]
fn a_tile_that_is_evicted_leaves_the_one_beside_it_where_it_is() {
    // Two tiles of four columns of 16 KiB; in each column they meet within a page.
    let (upper, lower) = (
        Rect::new(0, 6 * KIB, 16 * KIB, 4),
        Rect::new(6 * KIB, 10 * KIB, 16 * KIB, 4),
    );
    let mut a = alloc(64 * KIB);
    let matrix = Rect::interval(0, 64 * KIB);
    step(&mut a, &Event::Enclose { rect: matrix });
    for (id, tile) in [(1, upper), (2, lower)] {
        a.add_replica(ReplicaId(id), DeviceId(0), tile);
        step(&mut a, &write(id, tile));
    }
    let [first, second] = [2, 1].map(|id| {
        let replica = ReplicaId(id);
        step(&mut a, &Event::Evict { replica })
    });
    for (actions, id) in [(first, 2), (second, 1)] {
        let home: Vec<&Action> = actions
            .iter()
            .filter(|action| matches!(action, Action::Copy { .. } | Action::Invalid { .. }))
            .collect();
        let of = Place::Replica(ReplicaId(id));
        assert!(
            matches!(home[..], [Action::Copy { from, .. }] if *from == of),
            "{home:?}"
        );
    }
    assert_eq!(accesses(&a), [Access::ReadWrite; 16]);
}
