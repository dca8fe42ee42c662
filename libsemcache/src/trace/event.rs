//! What a trace records: each event is a small copyable value with its times, in nanoseconds of the host's monotonic
//! clock.

use crate::base::DeviceId;
use crate::base::counters::WhyHost;

/// A queued operation of a device: the device, its stream (lane), and the position in the stream, from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct OpId(u64);

const SEQ_BITS: u32 = 56;
const LANE_BITS: u32 = 2;

impl OpId {
    /// Operation `seq` of a stream. Stream 0 has uploads, 1 downloads, 2 kernels, 3 copies from peers.
    #[must_use]
    pub fn new(device: DeviceId, lane: u8, seq: u64) -> OpId {
        let stream = u64::from(device.0) << LANE_BITS | u64::from(lane);
        OpId(stream << SEQ_BITS | seq & ((1 << SEQ_BITS) - 1))
    }

    /// The device.
    #[must_use]
    pub fn device(self) -> u8 {
        (self.0 >> (SEQ_BITS + LANE_BITS)) as u8
    }

    /// The stream of the device.
    #[must_use]
    pub fn lane(self) -> u8 {
        (self.0 >> SEQ_BITS) as u8 & ((1 << LANE_BITS) - 1)
    }

    /// The position in the stream; 0 if this names no operation.
    #[must_use]
    pub fn seq(self) -> u64 {
        self.0 & ((1 << SEQ_BITS) - 1)
    }
}

/// Where a BLAS call ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// On devices, after a decision.
    Devices,
    /// On devices, as a replay of an earlier call.
    Replayed,
    /// On the host BLAS, and why.
    Host(WhyHost),
}

/// What an operation of a device does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// Copies from host memory to the device.
    Upload,
    /// Copies from the device to host memory.
    Download,
    /// Copies from another device.
    Peer(DeviceId),
    /// Copies within the device.
    Within,
    /// Runs a kernel of this BLAS routine.
    Kernel(&'static str),
}

/// One event.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Event {
    /// The events that follow in this ring are of another thread.
    Thread {
        /// The thread's id in the kernel.
        tid: u32,
        /// Its name, ended by a zero byte if it is shorter.
        name: [u8; 16],
    },
    /// A BLAS call.
    Call {
        /// Number of the call. Calls and faults have one count, which the child of a fork continues.
        id: u64,
        /// When it began and ended; for a call on the host BLAS, when the host BLAS got it.
        span: (u64, u64),
        /// The routine's plain name (`dgemm`).
        name: &'static str,
        /// Its sizes m, n and k.
        sizes: [u32; 3],
        /// Where it ran.
        side: Side,
    },
    /// A decision where a call runs.
    Decision {
        /// When.
        at: u64,
        /// The call.
        cause: u64,
        /// The predicted seconds on the host, and on devices.
        seconds: (f32, f32),
        /// Of the seconds on devices those that stand for earlier predictions that were wrong: by how much longer than
        /// predicted earlier calls on these blocks took, with the page faults of the CPU behind them.
        beyond: f32,
        /// Whether the devices were chosen.
        devices: bool,
        /// Whether this is an A/B probe: the side was chosen to measure it.
        probe: bool,
    },
    /// An operation was queued on a device's stream.
    Queued {
        /// When.
        at: u64,
        /// For how many nanoseconds before that the thread was in the machine's function: the driver, and where a copy passes through
        /// staging memory its packing.
        took: u32,
        /// The operation.
        op: OpId,
        /// The call or fault that needed it; 0 if none did.
        cause: u64,
        /// What it does.
        what: What,
        /// Bytes of a copy, multiply-adds or elements of a kernel.
        amount: u64,
        /// Up to three operations that it waits for.
        after: [OpId; 3],
    },
    /// A device executed an operation.
    Ran {
        /// The operation.
        op: OpId,
        /// When it began and ended, by the device's clock converted to the host's.
        span: (u64, u64),
    },
    /// A thread waited for an operation.
    Wait {
        /// When the wait began and ended.
        span: (u64, u64),
        /// The operation.
        op: OpId,
        /// The call or fault for which the thread waited.
        cause: u64,
    },
    /// The host computed a part of a call that ran on devices: one that was divided off for it, or what devices refused.
    HostPart {
        /// When it began and ended.
        span: (u64, u64),
        /// The call.
        cause: u64,
    },
    /// A page fault on protected memory was served.
    Fault {
        /// Number of the fault, from the same count as the calls.
        id: u64,
        /// When serving it began and ended.
        span: (u64, u64),
        /// The address that was accessed.
        addr: u64,
        /// Whether the access was a store.
        write: bool,
        /// The thread that accessed it and waited, by its id in the kernel.
        tid: u32,
    },
    /// A replica's device memory was taken for another one.
    Evict {
        /// When.
        at: u64,
        /// The device.
        device: DeviceId,
        /// Bytes of device memory.
        bytes: u64,
        /// The call that needed the memory.
        cause: u64,
    },
    /// Bytes of device memory in use: replicas, and the scratch memory of kernels. Recorded as it changes.
    Memory {
        /// When.
        at: u64,
        /// The device.
        device: DeviceId,
        /// Bytes in use from now on.
        bytes: u64,
    },
    /// Host memory was page-locked.
    Pin {
        /// When it began and ended.
        span: (u64, u64),
        /// Bytes.
        bytes: u64,
        /// Whether the driver did it.
        done: bool,
    },
    /// The page lock of host memory was ended.
    Unpin {
        /// When it began and ended.
        span: (u64, u64),
        /// Bytes.
        bytes: u64,
    },
    /// A range of the program's (`semcache.h`).
    Range {
        /// When it began and ended.
        span: (u64, u64),
        /// Its name.
        name: &'static str,
    },
    /// The program named a matrix (`semcache.h`).
    Named {
        /// When.
        at: u64,
        /// The name.
        name: &'static str,
        /// The address of the first byte.
        addr: u64,
        /// Bytes from the first to the last.
        bytes: u64,
    },
    /// A step of bringing the devices up.
    Start {
        /// When it began and ended.
        span: (u64, u64),
        /// What was done.
        step: &'static str,
    },
}

/// The kinds of events by which dropped ones are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Kind {
    /// A call that ran on devices.
    Offloaded,
    /// A call that ran on the host BLAS.
    Host,
    /// An upload.
    Upload,
    /// A download.
    Download,
    /// A copy between devices.
    Peer,
    /// A copy within a device.
    Within,
    /// A kernel.
    Kernel,
    /// The times of an operation.
    Ran,
    /// A fault of a load.
    FaultRead,
    /// A fault of a store.
    FaultWrite,
    /// Any other event.
    Other,
}

impl Kind {
    /// Every kind, in the order of the summary.
    pub const ALL: [(Kind, &'static str); 11] = [
        (Kind::Offloaded, "offloaded"),
        (Kind::Host, "host"),
        (Kind::Upload, "upload"),
        (Kind::Download, "download"),
        (Kind::Peer, "peer"),
        (Kind::Within, "within"),
        (Kind::Kernel, "kernel"),
        (Kind::Ran, "ran"),
        (Kind::FaultRead, "fault_read"),
        (Kind::FaultWrite, "fault_write"),
        (Kind::Other, "other"),
    ];
}

impl Event {
    /// The kind, and the bytes that it moves.
    #[must_use]
    pub fn kind(&self) -> (Kind, u64) {
        match *self {
            Event::Call { side, .. } => match side {
                Side::Devices | Side::Replayed => (Kind::Offloaded, 0),
                Side::Host(_) => (Kind::Host, 0),
            },
            Event::Queued { what, amount, .. } => match what {
                What::Upload => (Kind::Upload, amount),
                What::Download => (Kind::Download, amount),
                What::Peer(_) => (Kind::Peer, amount),
                What::Within => (Kind::Within, amount),
                What::Kernel(_) => (Kind::Kernel, 0),
            },
            Event::Ran { .. } => (Kind::Ran, 0),
            Event::Fault { write: false, .. } => (Kind::FaultRead, 0),
            Event::Fault { write: true, .. } => (Kind::FaultWrite, 0),
            Event::Thread { .. }
            | Event::Decision { .. }
            | Event::Wait { .. }
            | Event::HostPart { .. }
            | Event::Evict { .. }
            | Event::Memory { .. }
            | Event::Pin { .. }
            | Event::Unpin { .. }
            | Event::Range { .. }
            | Event::Named { .. }
            | Event::Start { .. } => (Kind::Other, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_one_word() {
        for (device, lane, seq) in [(0, 0, 1), (63, 2, 1 << 55), (5, 1, 77), (63, 3, 1)] {
            let op = OpId::new(DeviceId(device), lane, seq);
            assert_eq!((op.device(), op.lane(), op.seq()), (device, lane, seq));
        }
        assert_eq!(OpId::default().seq(), 0);
    }

    #[test]
    fn kinds_are_in_the_order_of_their_numbers() {
        for (i, (kind, _)) in Kind::ALL.iter().enumerate() {
            assert_eq!(*kind as usize, i);
        }
    }
}
