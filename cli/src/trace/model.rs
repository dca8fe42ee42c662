//! What a trace says, as plain values: the program's threads with their slices of time, and the devices with the
//! operations of their lanes. Times are nanoseconds of one clock.

use std::collections::HashMap;

use semcache::base::DeviceId;
use semcache::trace::{LANES, OpId};

/// The lane of a device on which kernels run.
pub(crate) const KERNELS: usize = 2;

/// The lane of a device on which copies from other devices, and within the device, arrive.
pub(crate) const PEERS: usize = 3;

/// A name, as its place in [`Trace::names`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(crate) struct Name(u32);

/// Every name that occurs in a trace, once.
#[derive(Debug, Default)]
pub(crate) struct Names {
    texts: Vec<String>,
    places: HashMap<String, Name>,
}

impl Names {
    /// The place of this name, which is added if it is new.
    pub(crate) fn add(&mut self, text: &str) -> Name {
        if let Some(&name) = self.places.get(text) {
            return name;
        }
        let name = Name(u32::try_from(self.texts.len()).unwrap_or(u32::MAX));
        self.texts.push(text.to_owned());
        self.places.insert(text.to_owned(), name);
        name
    }

    /// The text of a name.
    pub(crate) fn text(&self, name: Name) -> &str {
        self.texts.get(name.0 as usize).map_or("?", String::as_str)
    }
}

/// What an operation of a device does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    /// Copies from host memory to the device.
    Upload,
    /// Copies from the device to host memory.
    Download,
    /// Copies from the device of this number.
    Peer(u8),
    /// Copies within the device.
    Within,
    /// Runs a kernel of the BLAS routine that the operation is named after.
    Kernel,
}

/// An operation of a device.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Op {
    /// When the device began and ended it.
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// When the host queued it; 0 if the trace does not say.
    pub(crate) queued: u64,
    /// For how long before that the thread was in the machine's function that queues it: the driver, and the packing of a copy that
    /// passes through staging memory.
    pub(crate) queueing: u64,
    /// Its position in its lane, from 1.
    pub(crate) seq: u64,
    /// The bytes of a copy; the multiply-adds or elements of a kernel.
    pub(crate) amount: u64,
    /// The call or fault that needed it; 0 if none did.
    pub(crate) cause: u64,
    pub(crate) name: Name,
    pub(crate) what: What,
    /// The operations of other lanes that it waits for; those with position 0 are none.
    pub(crate) after: [OpId; 3],
}

/// A lane of a device: operations that run one after the other.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    /// The operations whose times are known, in the order of their beginnings.
    pub(crate) ops: Vec<Op>,
    /// What the operations do that were queued and whose times are not in the trace, and the bytes of copies.
    pub(crate) untimed: Vec<(What, u64)>,
    /// Places in `ops`, in the order of the positions in the lane.
    by_seq: Vec<u32>,
}

impl Lane {
    /// The place in `ops` of the operation with this position in the lane.
    pub(crate) fn place(&self, seq: u64) -> Option<usize> {
        let seq_of = |place: &u32| self.ops.get(*place as usize).map_or(0, |op| op.seq);
        let found = self.by_seq.binary_search_by_key(&seq, seq_of).ok()?;
        self.by_seq.get(found).map(|place| *place as usize)
    }

    fn sort(&mut self) {
        self.ops.sort_by_key(|op| (op.from, op.seq));
        self.by_seq = (0..).take(self.ops.len()).collect();
        let ops = &self.ops;
        self.by_seq.sort_by_key(|place| ops[*place as usize].seq);
    }
}

/// A device.
#[derive(Debug, Default)]
pub(crate) struct Device {
    /// The number that the runtime gave it.
    pub(crate) id: u8,
    pub(crate) name: String,
    /// In the order of [`semcache::trace::LANES`].
    pub(crate) lanes: [Lane; LANES.len()],
    /// When device memory was taken from one replica for another, and how many bytes, in the order of time.
    pub(crate) evictions: Vec<(u64, u64)>,
    /// When the bytes of device memory in use changed, and how many they are from then on, in the order of time. Earlier versions
    /// of the library did not say.
    pub(crate) memory: Vec<(u64, u64)>,
}

impl Device {
    /// The lanes that tables and charts have, with their names: that of copies from peers only if there were any.
    pub(crate) fn shown(&self) -> impl Iterator<Item = (&Lane, &'static str)> {
        let empty = |lane: &Lane| lane.ops.is_empty() && lane.untimed.is_empty();
        let all = self.lanes.iter().zip(LANES).enumerate();
        let shown = all.filter(move |(i, (lane, _))| *i != PEERS || !empty(lane));
        shown.map(|(_, lane)| lane)
    }
}

/// Where a BLAS call ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    /// On devices, after a decision.
    Devices,
    /// On devices, as an earlier call did.
    Replayed,
    /// On the host BLAS, for this reason.
    Host(Name),
}

/// What a thread did in a slice of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Did {
    /// A BLAS call of these sizes m, n and k. If it ran on the host BLAS, the slice covers the decision only.
    Call(Side, [u32; 3]),
    /// Waited for an operation.
    Wait(OpId),
    /// Served a page fault.
    Fault,
    /// Waited until another thread had served its page fault.
    Faulted,
    /// Page-locked this many bytes.
    Pin(u64),
    /// Ended the page lock of this many bytes.
    Unpin(u64),
    /// A step of bringing the devices up.
    Start,
    /// Something that this version of the command does not know.
    Other,
}

/// A slice of a thread's time. A slice may lie inside others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slice {
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// The call or fault: of a call or fault its own number, else the one that it belongs to; 0 if none.
    pub(crate) cause: u64,
    pub(crate) name: Name,
    pub(crate) did: Did,
}

/// The decision where a call runs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Decision {
    pub(crate) at: u64,
    pub(crate) cause: u64,
    /// The predicted microseconds on the host, and on devices.
    pub(crate) host_us: f64,
    pub(crate) devices_us: f64,
    /// Of `devices_us` what stands for earlier predictions that were wrong, and not for this call.
    pub(crate) beyond_us: f64,
    /// Whether the side was chosen in order to measure it.
    pub(crate) probe: bool,
}

/// A thread of the program.
#[derive(Debug, Default)]
pub(crate) struct Thread {
    pub(crate) tid: u32,
    pub(crate) name: String,
    /// In the order of their beginnings, an outer slice before those inside it.
    pub(crate) slices: Vec<Slice>,
    /// In the order of the calls' numbers.
    pub(crate) decisions: Vec<Decision>,
}

/// A trace.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    pub(crate) program: String,
    /// Whether it is a predicted timeline of one call, whose beginning is the moment 0.
    pub(crate) predicted: bool,
    pub(crate) names: Names,
    pub(crate) threads: Vec<Thread>,
    /// In the order of their numbers.
    pub(crate) devices: Vec<Device>,
    /// The named numbers of the summary at the end of the file.
    pub(crate) summary: Vec<(String, u64)>,
    /// Whether the file ends inside a packet, or without its summary.
    pub(crate) cut_off: bool,
    /// The number of packets that could not be read.
    pub(crate) damaged: u64,
    /// The number of slices of threads without an end.
    pub(crate) unfinished: u64,
    /// The first and the last moment.
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// The number of each call and fault, with the places of its thread and its slice, in the order of the numbers.
    causes: Vec<(u64, u32, u32)>,
}

impl Trace {
    /// Brings everything into the order that the fields promise.
    pub(crate) fn sort(&mut self) {
        self.devices.sort_by_key(|device| device.id);
        let lanes = |device: &mut Device| device.lanes.iter_mut().for_each(Lane::sort);
        self.devices.iter_mut().for_each(lanes);
        for device in &mut self.devices {
            device.evictions.sort_unstable();
            // Changes at one moment stay in the order of the file.
            device.memory.sort_by_key(|(at, _)| *at);
        }
        let mut causes = Vec::new();
        for (thread, t) in (0..).zip(&mut self.threads) {
            t.slices.sort_by_key(|s| (s.from, u64::MAX - s.to));
            t.decisions.sort_by_key(|d| d.cause);
            for (slice, s) in (0..).zip(&t.slices) {
                if s.cause != 0 && matches!(s.did, Did::Call(..) | Did::Fault) {
                    causes.push((s.cause, thread, slice));
                }
            }
        }
        causes.sort_unstable();
        self.causes = causes;
        let ops = self
            .devices
            .iter()
            .flat_map(|d| &d.lanes)
            .flat_map(|l| &l.ops);
        let slices = self.threads.iter().flat_map(|t| &t.slices);
        let spans = || {
            let ops = ops.clone().map(|op| (op.from, op.to));
            ops.chain(slices.clone().map(|s| (s.from, s.to)))
        };
        self.from = spans().map(|s| s.0).min().unwrap_or(0);
        self.to = spans().map(|s| s.1).max().unwrap_or(0);
    }

    /// The device with this number.
    pub(crate) fn device(&self, id: u8) -> Option<&Device> {
        let place = self.devices.binary_search_by_key(&id, |d| d.id).ok()?;
        self.devices.get(place)
    }

    /// An operation, if its times are in the trace.
    pub(crate) fn op(&self, id: OpId) -> Option<&Op> {
        let lane = self.device(id.device())?.lanes.get(id.lane() as usize)?;
        lane.place(id.seq()).map(|place| &lane.ops[place])
    }

    /// The operation that is queued before this one in its lane.
    pub(crate) fn before(&self, id: OpId) -> Option<OpId> {
        let earlier = id.seq().checked_sub(1).filter(|seq| *seq > 0)?;
        Some(OpId::new(DeviceId(id.device()), id.lane(), earlier))
    }

    /// The place of the thread that made a call or had a fault, and the slice of the call or fault.
    pub(crate) fn cause(&self, id: u64) -> Option<(usize, &Slice)> {
        let place = self.causes.binary_search_by_key(&id, |c| c.0).ok()?;
        let (_, thread, slice) = *self.causes.get(place)?;
        let slices = &self.threads.get(thread as usize)?.slices;
        Some((thread as usize, slices.get(slice as usize)?))
    }

    /// All operations with the numbers of their devices and lanes.
    pub(crate) fn ops(&self) -> impl Iterator<Item = (u8, usize, &Op)> {
        self.devices.iter().flat_map(|d| {
            let lanes = (0..).zip(&d.lanes);
            lanes.flat_map(move |(lane, l)| l.ops.iter().map(move |op| (d.id, lane, op)))
        })
    }
}
