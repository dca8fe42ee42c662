//! The coherence protocol: who holds the newest bytes of an allocation, and what must happen before
//! somebody reads or writes them.
//!
//! One [`Allocation`] is the state of one host memory block. [`Allocation::step`] takes an [`Event`] and
//! appends the [`Action`]s that make it safe, in the order in which they must be executed. Nothing here
//! does I/O, waits, or knows the time: the cache executes, and this module decides.
//!
//! # The parts of the state
//!
//! * **`stale`**: the bytes whose host copy is not the newest.
//! * **A replica**: device memory that can hold one rectangle of the allocation on one device. Its `rect`
//!   says which bytes it has room for and never changes; its `valid` says which of them it holds, all of
//!   them newest. A device may have several replicas of an allocation, and they may overlap.
//! * **`hulls`**: from the first byte to the last of every operand that is resident: its bytes, and the gaps between
//!   its columns. They say which pages hold nothing but operands (R16).
//! * **A panel**: `panel` bytes counted from the allocation's start, clipped to the tracked part: the unit
//!   in which bytes are fetched for the CPU. It has no state of its own.
//! * **The tracked part**: whole pages of this allocation, where an access of the CPU can be trapped. **Open
//!   territory** is the rest: the edges outside of it, all of an allocation that cannot be trapped (a stack, say),
//!   panels that are *eager* for a while, and pages that hulls do not cover.
//!
//! # The states of a byte
//!
//! The states are those of SemCache++ (3.2.2); they are read off the two sets, not stored:
//!
//! | state | `stale` | valid in | newest copy |
//! |---|---|---|---|
//! | **C** | no | no replica | host only |
//! | **S** | no | one or more | host and these replicas |
//! | **G** | yes | one or more | these replicas only |
//!
//! ```text
//!                 DeviceRead: limit to Read, copy up
//!           C  ------------------------------------->  S
//!           ^  <-------------------------------------  |  ^
//!           |       CpuWrite, Dirty: drop, open        |  |
//!           |                                          |  |  CpuRead, Home: copy home,
//!           |  CpuWrite, Flush: copy home, drop, open  |  |  then Read
//!           |                                          v  |
//!           +---------------------------------------   G
//!              DeviceWrite (from C or S): close, launch, drop the other replicas
//! ```
//!
//! # Rules
//!
//! * **R1** Every byte is in exactly one of C, S and G: a stale byte is valid in at least one replica.
//! * **R2** Order. A device read: limit the open panels to `Read`, *then* copy. A device write: copy what
//!   the kernel reads of the old bytes, close the panels, *then* launch (the cache does, where the first
//!   [`Action::Invalid`] or the end is reached), *then* invalidate the other replicas. Host access: copy
//!   home, *then* invalidate, *then* open; copies home land before an opening is executed.
//! * **R3** One transition of an allocation at a time. The state says what holds once the actions have
//!   been executed; whoever needs a copy that is still in flight waits for that copy, in the cache.
//! * **R4** What a kernel is about to use is neither evicted nor invalidated: between the steps that
//!   acquire a kernel's operands and its launch, the cache steps only `DeviceRead`, `DeviceWrite` and
//!   `Evict` of replicas that the kernel does not use.
//! * **R5** A page's access is derived and never stored: of the pages that may be limited (R16) `None` if it overlaps a
//!   stale byte, else `Read` if it overlaps a valid one, else `ReadWrite`; in narrow gaps, and with others of its operand in
//!   its panel (R16), as if it did. With a scanning gate, `Read` means armed, not `PROT_READ`.
//! * **R6** Opening a panel for reading brings home every stale byte in it first (they become S); opening it
//!   for writing also drops what replicas hold of it (they become C). Only that panel's bytes: what
//!   replicas hold of other panels stays, so that their next use sends up a patch, not the matrix.
//! * **R7** Transfers are rectangles. A write-back writes exactly stale bytes: gaps between columns and the
//!   other bytes of a page belong to somebody else.
//! * **R8** A [`ReplicaId`] names one lifetime of device memory. An event for a replica that is gone is
//!   [`Illegal`], so nothing late can change the state.
//! * **R9** Device memory is found before the step that uses it: no action allocates, and `Evict` is an event
//!   of its own, stepped before the ones for the operand that needs the room.
//! * **R10** An illegal event changes nothing. If an action fails, the cache takes the step back (`Undo`: the sets
//!   that it changed, as they were), or gives up the device (`Lost`); there is no third outcome.
//! * **R11** A panel whose upload is in flight is *arriving*: the cache keeps it at `Read`, or snapshots the
//!   bytes, until the copy has landed, even if a later step would open it.
//! * **R12** A panel opened for a fault is not closed again before the access was retried. The cache sees to
//!   that; if a panel goes back and forth, it makes it eager.
//! * **R13** A scan's dirty pages are stepped ([`Event::Dirty`]) before any other event uses what the scan
//!   consumed; they reach every replica of every view of the allocation. A byte that is stale stays so: it
//!   was closed when the device wrote it, so the CPU wrote its neighbours.
//! * **R14** In open territory nothing is trapped, so no byte of an operand is stale or valid there longer than its call:
//!   [`Event::Settle`] ends that. Panels become eager, and stop being so, in state C. Bytes on open pages that are
//!   watched ([`Event::Watch`]) stay valid, not stale: what the CPU writes there is learned before their next use (R13).
//! * **R15** What a step costs is bounded, because the sets are. A set holds at most [`MAX_FRAGMENTS`] rectangles between
//!   calls, at most [`MAX_NEAR`] of them where a kernel is about to use something, and there none of another stride that
//!   would be cut run by run (`Rect::mixing`). Beyond, fragments go, the smallest first: stale bytes go home, then
//!   validity is dropped, which is always safe (S becomes C). This happens in `Tidy`, which the cache steps before it
//!   acquires a kernel's operands, in `CpuRead`, `CpuWrite`, `Dirty` and `Settle`, never under a kernel's operands (R4).
//!   What is asked home takes stale fragments of another stride with it, whole. Operands of one kernel that are mixed with
//!   each other are the host's. A scan that finds more scattered pages than a set may hold is taken by panels.
//! * **R16** A page may be limited only if hulls cover all of it: what stands beside an operand on its first and
//!   last page is the program's. Bytes past the allocation's content are its allocator's padding and count as
//!   covered. The gap between two columns belongs to the matrix, as long as something of it or of its page is
//!   resident; what lies between the elements of a strided vector does not. Whole pages between two pages with
//!   stale bytes are closed as these are, and whole pages between two with valid bytes are limited as these are, if
//!   all of them may be limited and they are less than 1/[`MAX_GAPS`] of the tracked pages (*narrow*); wider gaps
//!   stay as they are, so fewer than [`MAX_GAPS`] gaps of a block stay open. When the CPU accesses a closed page of
//!   a narrow gap of which no device holds a byte, the page leaves the hulls and opens; if a device holds some of
//!   it, the stale bytes around it are copied home, so that the page can be read. The pages of a large operand
//!   (more than a few panels, and no gap of it stays open) that lie in one panel are closed if one of them overlaps
//!   a stale byte, and limited if one overlaps a valid byte, as long as a replica holds some of the operand. Tiles
//!   that a device gets one by one then cost one change of access for each panel, and the huge pages that panels
//!   are by default stay in one piece. Giving bytes up takes them out of the hulls, and with them all whole pages
//!   of the same hull that are not limited with others of their panel, hold nothing and lie in the span of no
//!   rectangle that a replica holds; what devices hold on a page that is shared from then on goes home, and it
//!   opens.
//!
//! # Where bytes come from
//!
//! Only bytes that the destination lacks are copied. Stale bytes come from a replica on the destination's
//! device, else from the one with the lowest id. Bytes that the host also has come from a replica on the
//! destination's device (no link is crossed), then, if the event says so, from other devices, else from
//! the host. A source always holds the bytes as valid when the copy is appended.

mod access;
mod checkpoint;
mod hulls;
mod large;
mod panels;
mod ready;
mod sources;
mod state;
mod step;
#[cfg(test)]
mod tests;
mod trim;

use core::fmt;

use crate::base::{Access, DeviceId, Intent, Interval, Rect, ReplicaId};

pub use state::{Allocation, MAX_FRAGMENTS, MAX_GAPS, Replica, Undo};
pub use trim::{MAX_NEAR, separable};

/// What happened, or is about to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A kernel is about to use `rect`, and none of its operands was acquired yet: what the sets could hold beside it only
    /// in many pieces is given up (R15). Only where [`Allocation::untidy`].
    Tidy {
        /// The bytes.
        rect: Rect,
    },
    /// A device is about to read `rect` out of a replica.
    DeviceRead {
        /// The replica.
        replica: ReplicaId,
        /// The bytes, all within the replica's rectangle.
        rect: Rect,
        /// Whether other devices serve bytes that the host has too.
        peer_first: bool,
    },
    /// A device is about to write all of `rect` in a replica.
    DeviceWrite {
        /// The replica.
        replica: ReplicaId,
        /// The bytes, all within the replica's rectangle.
        rect: Rect,
        /// Whether the kernel reads the old bytes as well (`beta` is not zero).
        keep: bool,
    },
    /// A call is about to use this operand on devices, perhaps in pieces: what lies between the pieces is nobody else's.
    Enclose {
        /// The operand.
        rect: Rect,
    },
    /// The CPU is about to read in these bytes.
    CpuRead {
        /// A panel, or any interval.
        span: Interval,
    },
    /// The CPU is about to write in these bytes.
    CpuWrite {
        /// A panel, or any interval.
        span: Interval,
    },
    /// A scan found these bytes written by the CPU since they were armed.
    Dirty {
        /// The pages, in ascending order.
        pages: Vec<Interval>,
    },
    /// The newest bytes are wanted on the host as well; replicas stay valid.
    Home {
        /// The bytes.
        rect: Rect,
    },
    /// A call that used `rect` ends: nothing may stay stale in its open territory, nor valid where that is not watched.
    Settle {
        /// The bytes.
        rect: Rect,
    },
    /// What the CPU writes to these pages is learned afterwards from now on ([`Event::Dirty`]), so that what replicas hold
    /// there stays valid although the CPU is not kept out; or no longer, and it is dropped. Pages that can be limited are
    /// left alone.
    Watch {
        /// Whole pages.
        pages: Interval,
        /// Whether they are watched.
        on: bool,
    },
    /// The replica's memory is wanted for something else.
    Evict {
        /// The replica.
        replica: ReplicaId,
    },
    /// Everything goes home and opens; replicas keep their memory and hold nothing.
    Flush,
    /// A device and all that it held is gone.
    Lost {
        /// The device.
        device: DeviceId,
    },
    /// The panels of `span` become eager (always open), or are tracked again; they are left in state C.
    Eager {
        /// Any interval; rounded out to panels.
        span: Interval,
        /// Whether they become eager.
        on: bool,
    },
}

impl Event {
    /// A device is about to use `rect` of a replica, and nothing says where missing bytes are to come from.
    #[must_use]
    pub fn used(replica: ReplicaId, rect: Rect, intent: Intent) -> Self {
        let keep = match intent {
            Intent::Read => {
                return Self::DeviceRead {
                    replica,
                    rect,
                    peer_first: false,
                };
            }
            Intent::Update => true,
            Intent::Overwrite => false,
        };
        Self::DeviceWrite {
            replica,
            rect,
            keep,
        }
    }
}

/// One end of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Place {
    /// The allocation itself.
    Host,
    /// A replica of it.
    Replica(ReplicaId),
}

/// What must be done, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Limit or open whole pages of the tracked part.
    Protect {
        /// The pages.
        span: Interval,
        /// What the CPU may do from now on.
        access: Access,
    },
    /// Copy bytes; both places have room for them, and `from` holds the newest.
    Copy {
        /// The source.
        from: Place,
        /// The destination.
        to: Place,
        /// The bytes.
        rect: Rect,
    },
    /// These bytes of the replica are no longer valid; they may be overwritten by anything.
    Invalid {
        /// The replica.
        replica: ReplicaId,
        /// The bytes.
        rect: Rect,
    },
    /// The replica is gone from the directory; its device memory can be released.
    Drop {
        /// The replica.
        replica: ReplicaId,
    },
    /// The newest copy of these bytes existed only on a lost device; the host holds older ones.
    LostData {
        /// The bytes.
        rect: Rect,
    },
}

/// An event that the state does not allow: a bug of the caller, by definition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Illegal {
    /// No such replica, or no longer.
    UnknownReplica(ReplicaId),
    /// The bytes are not all within the replica's rectangle and the allocation.
    Outside {
        /// The replica.
        replica: ReplicaId,
        /// The bytes asked for.
        rect: Rect,
    },
}

impl fmt::Display for Illegal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownReplica(id) => write!(f, "replica {} is not in the directory", id.0),
            Self::Outside { replica, rect } => {
                let Rect {
                    start,
                    width,
                    stride,
                    count,
                } = rect;
                let id = replica.0;
                write!(
                    f,
                    "{count} runs of {width} bytes from {start}, {stride} apart, are outside replica {id}"
                )
            }
        }
    }
}

impl core::error::Error for Illegal {}
