//! The directory's code on the path of every offloaded call does not allocate. In a process of its own, since it counts
//! every allocation.
#![allow(
    clippy::disallowed_methods,
    reason = "a test program, not the library in a user's process"
)]
#![expect(unsafe_code, reason = "a global allocator is unsafe to implement")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use semcache::base::{DeviceId, Interval, Rect, ReplicaId};
use semcache::directory::{Allocation, Event};

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's duties are those of the system allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: `at` came from the system allocator with this layout.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static GLOBAL: Counting = Counting;

#[test]
fn a_resident_call_allocates_nothing() {
    const MIB: usize = 1 << 20;
    let mut alloc = Allocation::new(64 * MIB, 2 * MIB, 4096, Interval::new(0, 64 * MIB));
    let (one, two) = (ReplicaId(1), ReplicaId(2));
    let view = Rect::new(64, 4000, 8192, 4000);
    alloc.add_replica(one, DeviceId(0), Rect::interval(0, 64 * MIB));
    alloc.add_replica(two, DeviceId(1), view);
    let corner = Rect::new(64, 100, 8192, 100);
    let output = Rect::new(4096, 4000, 8192, 4000);
    let events = [
        // The whole block, so that no page is shared with other bytes.
        Event::DeviceRead {
            replica: one,
            rect: Rect::interval(0, 64 * MIB),
        },
        Event::DeviceRead {
            replica: one,
            rect: view,
        },
        Event::DeviceRead {
            replica: two,
            rect: view,
        },
        Event::DeviceRead {
            replica: one,
            rect: corner,
        },
        Event::DeviceWrite {
            replica: one,
            rect: output,
            keep: true,
        },
        Event::DeviceWrite {
            replica: one,
            rect: output,
            keep: false,
        },
        Event::Settle { rect: view },
        Event::Settle { rect: output },
    ];
    let mut actions = Vec::new();
    for event in &events {
        alloc.step(event, &mut actions).unwrap();
    }
    assert!(!actions.is_empty());
    let mut actions = Vec::new();
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    for event in &events {
        alloc.step(event, &mut actions).unwrap();
        assert!(actions.is_empty(), "{event:?}: {actions:?}");
    }
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed), before);
}
