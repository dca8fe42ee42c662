//! When the operations of a simulated machine run on the machine that it models: the clock of [`crate::device::clocked`], by the
//! clocks that the timeline of a call advances (`model::clocks`) and the same seconds of kernels (`model::exec`).

use crate::base::timed::Operation;
use crate::base::{DeviceId, Links};
use crate::device::clocked::Clock;
use crate::model::clocks::{Clocks, DeviceLinks, Span};
use crate::model::exec::device_s;
use crate::model::rates::{DeviceRates, Rates};
use crate::plan::Pace;

/// See the module.
#[derive(Debug)]
pub struct VirtualTime {
    clocks: Clocks,
    links: Links,
    rates: Vec<DeviceRates>,
    /// A device of which kernels take longer than its rates say, by a factor.
    slow: Option<(usize, f64)>,
}

impl VirtualTime {
    /// The clock of `devices` devices of a machine with these rates and links between devices, at time zero. Kernels of the device
    /// `slow`, if there is one, take longer than its rates say, by a factor.
    #[must_use]
    pub fn new(
        rates: &Rates,
        between: Links,
        devices: usize,
        slow: Option<(usize, f64)>,
    ) -> VirtualTime {
        let ids = || (0..devices).map(DeviceId::at);
        let links = ids().map(|id| DeviceLinks::new(rates.of(id), rates.ports.of(id)));
        VirtualTime {
            clocks: Clocks::new(links.collect(), rates.ports.each().to_vec()),
            links: between,
            rates: ids().map(|id| *rates.of(id)).collect(),
            slow,
        }
    }
}

impl Clock for VirtualTime {
    fn now(&self) -> f64 {
        self.clocks.now()
    }

    fn wait_until(&mut self, at: f64) {
        self.clocks.wait_until(at);
    }

    fn queue(&mut self, device: DeviceId, operation: Operation, ready: f64) -> (f64, f64) {
        let d = device.index();
        let clocks = &mut self.clocks;
        let now = clocks.now();
        let Some(rates) = self.rates.get(d) else {
            return (ready, ready);
        };
        clocks.queue_at(now, d);
        let cost = |run: usize, bytes: usize| bytes as f64 / rates.runs.of(run);
        // As in the timeline, the thread has queued a task once it has queued its kernel.
        let mut compute = |seconds: f64| {
            let queued = now + Pace::USUAL.issue_s;
            clocks.queue_at(queued, d);
            let slow = self.slow.filter(|(slow, _)| *slow == d);
            let factor = slow.map_or(1.0, |(_, factor)| factor);
            clocks.kernel(d, ready.max(queued), seconds * factor)
        };
        let Span { start, end } = match operation {
            Operation::Upload(copy) => {
                let bytes = copy.bytes as f64;
                let copying = clocks.uploading(d, ready, bytes, cost(copy.run, copy.bytes));
                clocks.upload(d, copying);
                copying.span
            }
            Operation::Download(copy) => {
                let bytes = copy.bytes as f64;
                clocks.write_back(d, ready, bytes, cost(copy.run, copy.bytes))
            }
            Operation::Peer(from, bytes) => {
                let over = (from.index(), self.links.of(device, from));
                let crossing = clocks.copying(d, over, ready, bytes as f64);
                clocks.copy(d, crossing);
                crossing.span
            }
            Operation::Kernel(work) => compute(device_s(&work, rates)),
            Operation::Sparse(bytes) => compute(bytes as f64 / rates.memory_bandwidth),
            Operation::Dense(work) => compute(work.seconds(rates.gemm(work.dtype).peak_flops)),
            Operation::Within => {
                let at = ready.max(now);
                Span { start: at, end: at }
            }
        };
        (start, end)
    }
}
