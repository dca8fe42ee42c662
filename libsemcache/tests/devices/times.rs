//! Times of operations: with every operation timed, each ticket has exactly one time, within the time in which the host
//! saw it queued and complete, and the operations of a stream do not overlap.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use semcache::base::counters::COUNTERS;
use semcache::base::{DeviceId, Dtype, Routine, Value};
use semcache::device::api::{Backend, Kernel, Operand, Shape, Ticket};
use semcache::device::measured;
use semcache::trace::{self, OpId};

use crate::{D0, Pages, region};

static SEEN: Mutex<Vec<(OpId, (u64, u64))>> = Mutex::new(Vec::new());

/// Tickets, each with the host's time before it was queued.
struct Queued(Vec<(Ticket, u64)>);

impl Queued {
    fn add<E: std::fmt::Debug>(&mut self, queue: impl FnOnce() -> Result<Ticket, E>) -> Ticket {
        let before = trace::now();
        let ticket = queue().unwrap();
        self.0.push((ticket, before));
        ticket
    }

    /// Waits for all tickets, the last one first: then the others are known to be complete without a wait for each.
    fn settle(self, b: &dyn Backend) {
        for (ticket, _) in self.0.iter().rev() {
            b.wait(*ticket).unwrap();
            assert!(b.done(*ticket).unwrap());
        }
        let now = trace::now();
        let seen = std::mem::take(&mut *SEEN.lock().unwrap());
        let mut spans = BTreeMap::new();
        for (op, span) in seen {
            assert!(span.0 <= span.1, "{op:?} {span:?}");
            assert!(spans.insert(op, span).is_none(), "{op:?} twice");
        }
        assert_eq!(spans.len(), self.0.len());
        for (ticket, before) in self.0 {
            let op = OpId::new(ticket.device, ticket.lane as u8, ticket.seq);
            let span = spans
                .get(&op)
                .unwrap_or_else(|| panic!("{ticket:?} has no time"));
            assert!(before <= span.0 && span.1 <= now, "{before} {span:?} {now}");
        }
        let both = spans.iter().zip(spans.iter().skip(1));
        for ((a, x), (b, y)) in both {
            let same = (a.device(), a.lane()) == (b.device(), b.lane());
            assert!(!same || x.1 <= y.0, "{a:?} {x:?}, {b:?} {y:?}");
        }
    }
}

/// Waits until operations of a device have times: where other processes use the GPU too, its clock is found only when they leave it
/// alone for a moment, which is tried once a second.
fn until_timed(b: &dyn Backend, device: DeviceId, memory: u64) {
    let one = Kernel {
        m: 1,
        alpha: Value { re: 1.0, im: 0.0 },
        ..Kernel::of(Routine::Scal, Dtype::D, [Operand::vector(memory, 1)])
    };
    let began = Instant::now();
    while SEEN.lock().unwrap().is_empty() {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "{device:?} has no clock"
        );
        // SAFETY: the block holds the element.
        b.wait(unsafe { b.launch(device, &[], &one) }.unwrap())
            .unwrap();
        thread::sleep(Duration::from_millis(20));
    }
    SEEN.lock().unwrap().clear();
}

pub(crate) fn all(b: &dyn Backend) {
    const LEN: usize = 40 << 20;
    measured::watch(|op, span| SEEN.lock().unwrap().push((op, span)));
    let (host, pinned) = (Pages::new(LEN), Pages::new(LEN));
    host.bytes().fill(1);
    b.pin(pinned.at.expose_provenance(), LEN).unwrap();
    let dev = b.alloc(D0, LEN).unwrap();
    until_timed(b, D0, dev);
    // Copies that are staged in one piece or several, copies in place, and copies within the device.
    let mut queued = Queued(Vec::new());
    for memory in [&host, &pinned] {
        for (width, count, pitch) in [
            (64, 1, 64),
            (LEN, 1, LEN),
            (8, 1000, 4096),
            (9 << 20, 3, 10 << 20),
        ] {
            let shape = Shape { width, count };
            let (h, d) = (region(memory.addr(), pitch), region(dev, width));
            // SAFETY: all regions lie within the blocks.
            unsafe {
                let up = queued.add(|| b.upload(D0, &[], &[], h, d, shape));
                let down = queued.add(|| b.download(D0, &[up], d, h, shape));
                let half = Shape {
                    width: 1 << 20,
                    count: 1,
                };
                let (from, to) = (region(dev, 1 << 20), region(dev + (1 << 20), 1 << 20));
                queued.add(|| b.copy_peer(D0, D0, &[down], from, to, half));
            }
        }
    }
    queued.settle(b);
    // Between devices.
    for i in 1..b.devices().len() {
        let to = DeviceId(u8::try_from(i).unwrap());
        let there = b.alloc(to, LEN).unwrap();
        until_timed(b, to, there);
        let mut queued = Queued(Vec::new());
        for (width, count) in [(LEN, 1), (1000, 100)] {
            let shape = Shape { width, count };
            // SAFETY: as above.
            queued.add(|| unsafe {
                b.copy_peer(D0, to, &[], region(dev, 2000), region(there, 3000), shape)
            });
        }
        queued.settle(b);
        // SAFETY: nothing is in flight.
        unsafe { b.free(to, there) };
    }
    // Kernels, most of which have no event of their own otherwise, more than the driver is asked about at a time; they
    // take longer than a reference of the clock is used.
    let x = Operand::vector(dev, 1);
    let scal = |m| Kernel {
        m,
        alpha: Value { re: 1.0, im: 0.0 },
        ..Kernel::of(Routine::Scal, Dtype::D, [x])
    };
    let before = COUNTERS.sampled.kernels.get();
    let mut queued = Queued(Vec::new());
    for i in 0..3000 {
        let n = if i % 300 == 0 { LEN / 8 } else { i };
        // SAFETY: the block holds that number of elements.
        queued.add(|| unsafe { b.launch(D0, &[], &scal(n)) });
    }
    queued.settle(b);
    let counted = COUNTERS.sampled.kernels.get() - before;
    // 3000 operations are 11 times 256 and 184 more.
    assert!((11..=12).contains(&counted), "{counted}");
    assert!(COUNTERS.sampled.kernel_ns.get() > 0);
    b.unpin(pinned.at.expose_provenance(), LEN);
    // SAFETY: nothing is in flight.
    unsafe { b.free(D0, dev) };
}
