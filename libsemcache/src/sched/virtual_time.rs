//! When the operations of a simulated machine run on the machine that it models: the clock of [`crate::device::clocked`], by the
//! clocks that the timeline of a call advances (`model::clocks`) and the same seconds of kernels (`model::exec`).

use crate::base::DeviceId;
use crate::base::timed::Operation;
use crate::device::clocked::Clock;
use crate::model::clocks::{Clocks, DeviceLinks};
use crate::model::exec::device_s;
use crate::model::rates::{DeviceRates, Rates};
use crate::plan::Pace;

/// See the module.
#[derive(Debug)]
pub struct VirtualTime {
    clocks: Clocks,
    rates: Vec<DeviceRates>,
}

impl VirtualTime {
    /// The clock of `devices` devices of a machine with these rates, at time zero.
    #[must_use]
    pub fn new(rates: &Rates, devices: usize) -> VirtualTime {
        let ids = || (0..devices).map(DeviceId::at);
        let links = ids().map(|id| DeviceLinks::new(rates.of(id), rates.ports.of(id)));
        VirtualTime {
            clocks: Clocks::new(links.collect(), rates.ports.each().to_vec()),
            rates: ids().map(|id| *rates.of(id)).collect(),
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

    fn queue(&mut self, device: DeviceId, operation: Operation, ready: f64) -> f64 {
        let d = device.index();
        let Some(rates) = self.rates.get(d).copied() else {
            return ready;
        };
        let clocks = &mut self.clocks;
        let now = clocks.now();
        clocks.queue_at(now, d);
        let cost = |run: usize, bytes: usize| bytes as f64 / rates.runs.of(run);
        match operation {
            Operation::Upload(copy) => {
                let bytes = copy.bytes as f64;
                let copying = clocks.uploading(d, ready, bytes, cost(copy.run, copy.bytes));
                clocks.upload(d, copying);
                copying.span.end
            }
            Operation::Download(copy) => {
                let bytes = copy.bytes as f64;
                let span = clocks.write_back(d, ready, bytes, cost(copy.run, copy.bytes));
                span.end
            }
            Operation::Peer(bytes) => {
                let span = clocks.copying(d, ready, bytes as f64);
                clocks.copy(d, span);
                span.end
            }
            // As in the timeline, the thread has queued a task once it has queued its kernel.
            Operation::Kernel(work) => {
                let queued = now + Pace::USUAL.issue_s;
                clocks.queue_at(queued, d);
                clocks
                    .kernel(d, ready.max(queued), device_s(&work, &rates))
                    .end
            }
            Operation::Within => ready.max(now),
        }
    }
}
