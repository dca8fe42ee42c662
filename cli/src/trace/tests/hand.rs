//! Traces made by hand.

use semcache::base::DeviceId;
use semcache::trace::OpId;

use crate::trace::model::{Decision, Device, Did, Op, Side, Slice, Thread, Trace, What};

/// An operation's place: device 0 or 1, and its lane.
pub(crate) const IN: u8 = 0;
pub(crate) const OUT: u8 = 1;
pub(crate) const KERNEL: u8 = 2;

pub(crate) fn id(device: u8, lane: u8, seq: u64) -> OpId {
    OpId::new(DeviceId(device), lane, seq)
}

/// A trace of these devices and one thread, whose times are in microseconds.
pub(crate) struct Hand(pub(crate) Trace);

impl Hand {
    pub(crate) fn new(devices: u8) -> Hand {
        let mut trace = Trace::default();
        trace.program.push_str("prog");
        for id in 0..devices {
            trace.devices.push(Device {
                id,
                name: format!("sim{id}"),
                ..Device::default()
            });
        }
        trace.threads.push(Thread {
            tid: 7,
            name: "main".into(),
            ..Thread::default()
        });
        Hand(trace)
    }

    pub(crate) fn slice(mut self, cause: u64, name: &str, span: (u64, u64), did: Did) -> Hand {
        let name = self.0.names.add(name);
        self.0.threads[0].slices.push(Slice {
            from: span.0 * 1000,
            to: span.1 * 1000,
            cause,
            name,
            did,
        });
        self
    }

    /// A call on devices.
    pub(crate) fn call(self, id: u64, span: (u64, u64)) -> Hand {
        self.slice(id, "dgemm", span, Did::Call(Side::Devices, [8, 8, 8]))
    }

    /// The decision that sent a call to devices, with its predicted microseconds.
    pub(crate) fn decided(mut self, cause: u64, at: u64, us: (f64, f64)) -> Hand {
        self.0.threads[0].decisions.push(Decision {
            at: at * 1000,
            cause,
            host_us: 1e6,
            devices_us: us.0,
            beyond_us: us.1,
            probe: false,
        });
        self
    }

    /// An operation of call `cause` that was queued at a moment; `after` are those that it waits for.
    pub(crate) fn op(
        mut self,
        op: OpId,
        what: What,
        cause: u64,
        queued: u64,
        span: (u64, u64),
        after: &[OpId],
    ) -> Hand {
        let name = self.0.names.add(match what {
            What::Kernel => "dgemm",
            _ => "copy",
        });
        let mut waits = [OpId::default(); 3];
        waits[..after.len()].copy_from_slice(after);
        let device = &mut self.0.devices[usize::from(op.device())];
        device.lanes[usize::from(op.lane())].ops.push(Op {
            from: span.0 * 1000,
            to: span.1 * 1000,
            queued: queued * 1000,
            queueing: 1000,
            seq: op.seq(),
            amount: 1 << 20,
            cause,
            name,
            what,
            after: waits,
        });
        self
    }

    pub(crate) fn kernel(self, seq: u64, cause: u64, queued: u64, span: (u64, u64)) -> Hand {
        self.op(id(0, KERNEL, seq), What::Kernel, cause, queued, span, &[])
    }

    pub(crate) fn done(mut self) -> Trace {
        self.0.sort();
        self.0
    }
}
