//! Random traces of device and CPU accesses, against a sequential memory.

use core::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::world::World;
use crate::base::{DeviceId, Interval, Link, Links, Rect, ReplicaId};
use crate::directory::{Allocation, Event, MAX_GAPS};

/// The allocation on which a trace is played.
#[derive(Clone, Debug)]
struct Setting {
    extent: usize,
    page: usize,
    panel_pages: usize,
    tracked: (usize, usize),
    devices: u8,
    /// Leading dimensions in elements; `element` is the element's bytes.
    leading: [usize; 2],
    element: usize,
    /// Bytes at the end of the block that are the allocator's padding.
    padding: usize,
    scanning: bool,
    /// The most rectangles of a set; small, so that traces reach it.
    limit: usize,
    /// The most gaps that stay accessible; small, so that some gaps are narrower.
    most_gaps: usize,
}

/// One move of a trace: its kind, and numbers by which its operands are chosen.
#[derive(Clone, Copy, Debug)]
struct Move {
    kind: u8,
    n: [u16; 5],
}

fn setting() -> impl Strategy<Value = Setting> {
    let pages = prop_oneof![Just(16usize), Just(8), Just(32)];
    let element = prop_oneof![Just(1usize), Just(4), Just(8), Just(16), Just(24)];
    // In the second shape most gaps between columns hold whole pages.
    let shape = prop_oneof![
        (
            1..360usize,
            pages,
            1..4usize,
            [2..12usize, 2..40usize],
            element
        ),
        (
            240..360usize,
            Just(8usize),
            1..4usize,
            [6..14usize, 3..8usize],
            prop_oneof![Just(8usize), Just(24)]
        ),
    ];
    let gaps = prop_oneof![6 => 0..7usize, 1 => 7..20usize, 2 => Just(MAX_GAPS)];
    (
        shape,
        (0..3u8, 0..3usize, 0..3usize),
        1..4u8,
        (any::<bool>(), 2..9usize, 0..40usize, gaps),
    )
        .prop_map(
            |(
                (extent, page, panel_pages, leading, element),
                (edges, head, tail),
                devices,
                (scanning, limit, padding, most_gaps),
            )| {
                let pages = extent.div_ceil(page);
                let tracked = match edges {
                    0 => (0, pages),
                    1 => (head.min(pages), pages.saturating_sub(tail)),
                    _ => (head.min(pages), (head + 2).min(pages)),
                };
                Setting {
                    extent,
                    page,
                    panel_pages,
                    tracked,
                    devices,
                    leading,
                    element,
                    padding,
                    scanning,
                    limit,
                    most_gaps,
                }
            },
        )
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    prop::collection::vec(
        (any::<u8>(), any::<[u16; 5]>()).prop_map(|(kind, n)| Move { kind, n }),
        60,
    )
}

/// A rectangle within `room`: all of it, or a part that is itself a view of `room`.
fn within(room: Rect, setting: &Setting, n: [u16; 4]) -> Rect {
    let [a, b, c, d] = n.map(usize::from);
    if a % 4 == 0 || room.is_empty() {
        return room;
    }
    if room.count > 1 && a % 4 != 1 {
        let (line, byte) = (b % room.count, c % room.width);
        let lines = 1 + d % (room.count - line);
        let bytes = 1 + (a / 4) % (room.width - byte);
        return Rect::new(
            room.start + line * room.stride + byte,
            bytes,
            room.stride,
            lines,
        );
    }
    let run = room.run(b % room.count);
    let element = setting.element.min(run.len());
    let start = run.start + (c % run.len()) / element * element;
    let left = run.end - start;
    if a % 4 == 2 || left < element {
        return Rect::interval(start, start + 1 + d % left);
    }
    let stride = setting.leading[a / 4 % 2] * element;
    let width = (element * (1 + b % setting.leading[a / 4 % 2])).min(left);
    Rect::new(start, width, stride, 1 + d % ((left - width) / stride + 1))
}

/// Links between the devices of a trace, of every kind.
fn links(setting: &Setting, moves: &[Move]) -> Links {
    let mut random = moves.iter().flat_map(|m| m.n).cycle();
    let devices = 0..setting.devices;
    Links::new(devices.clone().map(|_| {
        let kinds = [Link::Faster(0), Link::Faster(1), Link::Slower, Link::None];
        let link = |_| kinds[usize::from(random.next().unwrap_or(0)) % kinds.len()];
        devices.clone().map(link).collect()
    }))
}

/// Returns how many pages the trace has met that are inaccessible, and that are protected, because they lie in narrow
/// gaps; and how many are either only because of other pages in their panel.
fn play(setting: &Setting, moves: &[Move]) -> ([usize; 2], usize) {
    let &Setting {
        extent,
        page,
        panel_pages,
        tracked,
        ..
    } = setting;
    let tracked = Interval::new(tracked.0 * page, tracked.1 * page);
    let mut alloc = Allocation::new(extent, panel_pages * page, page, tracked);
    alloc.limit = setting.limit;
    alloc.most_gaps = setting.most_gaps;
    let content = extent.saturating_sub(setting.padding).max(1);
    let alloc = alloc
        .with_content(content)
        .with_links(links(setting, moves));
    let mut world = World::new(alloc, content, page, setting.scanning);
    for step in moves {
        let [a, b, c, d, e] = step.n;
        // Bytes are on their way to some replicas, which others do not wait for.
        let ids = world.alloc.replicas.iter().map(|(id, _)| *id);
        let some = ids.filter(|id| (id.0 + u64::from(a)) % 3 == 0).collect();
        world.alloc.not_from(some);
        let n = [b, c, d, e];
        let (x, y) = (
            usize::from(a) % world.content,
            usize::from(b) % world.content,
        );
        let span = Interval::new(x.min(y), x.max(y) + 1);
        let near = Interval::new(x, (x + 1 + usize::from(b) % 24).min(world.content));
        let all = Rect::interval(0, world.content);
        let id = world
            .blocks
            .keys()
            .nth(usize::from(a) % world.blocks.len().max(1))
            .copied();
        let device = DeviceId(u8::try_from(a % u16::from(setting.devices)).unwrap());
        let rect = id.map_or(all, |id: ReplicaId| {
            let parts = world.blocks[&id].rect.intersect(&all);
            within(parts.first().copied().unwrap_or(Rect::EMPTY), setting, n)
        });
        match (step.kind, id) {
            (0..20, _) | (20..150, None) => {
                if world.blocks.len() < 5 {
                    let derived = d % 4 == 0;
                    let rect = within(all, setting, n);
                    match derived {
                        true => world.add_block(None, rect.span().into()),
                        false => world.add_block(Some(device), rect),
                    }
                }
            }
            (20..23, Some(_)) => world.write_track(rect, d % 3 != 0),
            (23..26, Some(_)) => {
                world.enclose(rect);
                if d % 3 == 0 {
                    world.write_track(rect, true);
                }
            }
            (26..115, Some(id)) if world.blocks[&id].device.is_none() => {
                let room = world.blocks[&id].rect;
                if room.end() <= world.content {
                    world.derive(id);
                }
            }
            (26..70, Some(id)) => {
                if c % 3 == 0 {
                    world.write_track(rect, true);
                }
                world.tidy(rect, d % 4 != 0);
                world.device_read(id, rect);
            }
            (70..115, Some(id)) => {
                if c % 3 == 0 {
                    world.write_track(rect, true);
                }
                world.tidy(rect, d % 4 != 0);
                world.device_write(id, rect, e % 2 == 0);
            }
            (115..140, Some(_)) => world.end_call(),
            (140..150, Some(replica)) => world.evict(replica),
            (150..175, _) => world.cpu_read(near),
            (175..200, _) => world.cpu_write(near),
            (200..206, _) => world.event(&Event::CpuRead { span }),
            (206..210, _) => world.event(&Event::CpuWrite { span }),
            (210..218, _) => {
                let pages = span.align_out(page);
                let pages = (pages.start..pages.end)
                    .step_by(2 * page)
                    .map(|at| Interval::new(at, at + page));
                world.event(&Event::Dirty {
                    pages: pages.collect(),
                });
            }
            (218..228, _) => world.event(&Event::WriteBack {
                rect: within(all, setting, n),
            }),
            (228..236, _) => {
                world.end_call();
                world.event(&Event::WriteThrough {
                    span: near,
                    on: e % 3 != 0,
                });
            }
            (236..240, _) => world.event(&Event::Lost { device }),
            (240..244, _) => world.flush(),
            (244..248, _) => {
                let extent = 1 + usize::from(c) % 360;
                let pages = if e % 2 == 0 {
                    extent.div_ceil(page)
                } else {
                    extent / page
                };
                world.resize(
                    extent,
                    extent - (setting.padding / 2).min(extent - 1),
                    Interval::new(usize::from(d % 2) * page, pages * page),
                );
            }
            (248..=255, _) => world.event(&Event::CpuRead {
                span: Interval::new(0, world.extent),
            }),
        }
    }
    world.flush();
    (world.narrow, world.beside)
}

#[test]
fn every_reader_sees_the_sequential_memory() {
    let config = ProptestConfig {
        cases: 4_000,
        failure_persistence: None,
        ..Default::default()
    };
    // Pages in narrow gaps that the traces meet: with a small limit of accessible gaps, and with the real one.
    let met = [const { Cell::new([0; 2]) }; 2];
    let pages_beside = Cell::new(0);
    let traces = (setting(), moves());
    let played = TestRunner::new(config).run(&traces, |(setting, moves)| {
        let (narrow, beside) = play(&setting, &moves);
        pages_beside.set(pages_beside.get() + beside);
        let met = &met[usize::from(setting.most_gaps == MAX_GAPS)];
        met.set([met.get()[0] + narrow[0], met.get()[1] + narrow[1]]);
        Ok(())
    });
    if let Err(failed) = played {
        panic!("{failed}");
    }
    let [few, many] = met.map(Cell::into_inner);
    assert!(few.iter().all(|pages| *pages > 1_000), "{few:?}");
    assert_eq!(many, [0; 2], "so small a block has fewer gaps");
    let beside = pages_beside.into_inner();
    assert!(
        beside > 1_000,
        "{beside} pages beside others of their operand"
    );
}

/// A trace that the random ones found: pages of a forgotten large matrix lie between the elements of a vector that a device
/// still holds, in one panel with these elements, and must become accessible.
#[test]
fn pages_between_a_vectors_elements_leave_with_the_matrix_around_them() {
    let setting = Setting {
        extent: 262,
        page: 8,
        panel_pages: 2,
        tracked: (0, 2),
        devices: 1,
        leading: [11, 3],
        element: 8,
        padding: 16,
        scanning: true,
        limit: 2,
        most_gaps: 0,
    };
    let moves = [
        (244, [0, 0, 43167, 1, 0]),
        (0, [0, 0, 0, 0, 0]),
        (26, [0, 309, 0, 0, 3]),
        (115, [0, 0, 0, 0, 0]),
        (26, [0, 1, 2, 0, 1]),
        (175, [23760, 8, 0, 0, 0]),
    ];
    play(&setting, &moves.map(|(kind, n)| Move { kind, n }));
}

/// An announced operand that the call does not use lies in the narrow gap between two that devices hold, and so is read-only. The CPU
/// writes there before the call ends: the page becomes accessible when the operand is settled.
#[test]
fn a_written_gap_stays_protected_until_its_operand_is_settled() {
    let setting = Setting {
        extent: 271,
        page: 8,
        panel_pages: 1,
        tracked: (0, 34),
        devices: 1,
        leading: [6, 5],
        element: 24,
        padding: 10,
        scanning: true,
        limit: 2,
        most_gaps: 0,
    };
    let moves = [
        (0, [0, 31185, 0, 5103, 0]),
        (20, [0; 5]),
        (20, [0; 5]),
        (0, [0, 5, 0, 59508, 6122]),
        (244, [0, 0, 34763, 0, 0]),
        (20, [0; 5]),
        (20, [0; 5]),
        (20, [0; 5]),
        (20, [34031, 0, 0, 967, 0]),
        (26, [4748, 0, 0, 0, 0]),
        (20, [13188, 0, 0, 0, 0]),
        (0, [0, 15271, 31929, 22113, 0]),
        (0, [0, 7999, 1148, 17958, 0]),
        (70, [12539, 20029, 48541, 24672, 0]),
        (115, [0; 5]),
        (23, [23674, 15239, 686, 25392, 0]),
        (175, [3081, 0, 0, 0, 0]),
        (115, [0; 5]),
    ];
    play(&setting, &moves.map(|(kind, n)| Move { kind, n }));
}

/// A call that repeats leaves the sets below their limits (R15): the end of this one would write back a rectangle.
#[test]
fn a_call_whose_end_trims_a_set_does_not_repeat() {
    let setting = Setting {
        extent: 328,
        page: 8,
        panel_pages: 2,
        tracked: (0, 41),
        devices: 1,
        leading: [6, 3],
        element: 8,
        padding: 21,
        scanning: false,
        limit: 2,
        most_gaps: 0,
    };
    let step = |kind, n| Move { kind, n };
    let mut moves = vec![
        step(0, [0, 46285, 13136, 61109, 44111]),
        step(20, [0; 5]),
        step(20, [0; 5]),
        step(20, [0; 5]),
        step(20, [0; 5]),
        step(20, [0; 5]),
        step(228, [56341, 0, 0, 0, 1300]),
        step(20, [0; 5]),
        step(20, [0; 5]),
        step(20, [0; 5]),
        step(0, [0; 5]),
        step(20, [0; 5]),
        step(20, [0; 5]),
        step(140, [44311, 0, 0, 0, 0]),
        step(26, [0, 21616, 5892, 0, 0]),
        step(20, [0, 0, 0, 2503, 0]),
        step(20, [0, 0, 0, 11038, 0]),
        step(20, [0, 0, 0, 28384, 0]),
        step(20, [0, 0, 0, 19693, 0]),
        step(20, [0, 0, 0, 154, 0]),
        step(20, [0, 0, 0, 1951, 0]),
        step(20, [0, 2693, 0, 14413, 0]),
        step(0, [0; 5]),
        step(20, [38125, 81, 6558, 79, 0]),
        step(20, [0, 0, 0, 10798, 0]),
        step(20, [0, 0, 0, 18259, 0]),
        step(20, [0, 41, 0, 1, 0]),
        step(20, [0, 0, 0, 1273, 0]),
        step(115, [0; 5]),
        step(70, [11810, 27739, 59127, 31800, 307]),
        step(150, [2592, 31952, 0, 0, 0]),
        step(70, [15008, 43955, 47096, 51336, 3066]),
        step(115, [0; 5]),
    ];
    moves.resize(60, step(0, [0; 5]));
    play(&setting, &moves);
}
