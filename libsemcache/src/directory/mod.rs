//! The coherence protocol, and the directory that keeps its state: which copy of each byte of an allocation is the
//! newest (host memory or device memory), and which copies and page protections must precede an access to it.
//!
//! One [`Allocation`] is the state of one block of host memory. [`Allocation::step`] takes an [`Event`] and appends the
//! [`Action`]s that make the event safe, in the order in which they must be executed. This module does no I/O, does not
//! wait and reads no clock: it decides, and the cache executes.
//!
//! # The parts of the state
//!
//! * **`stale`**: the bytes whose host copy is not the newest.
//! * **A replica**: device memory that can hold one rectangle of the allocation on one device. Its `rect` says which
//!   bytes it has room for and never changes; its `valid` says which of them it holds, all of them newest. A device may
//!   have several replicas of an allocation, and they may overlap.
//! * **`hulls`**: one interval for every resident operand, from its first byte to its last, gaps between its columns
//!   included. Hulls say which pages hold nothing but operands (R16).
//! * **A panel**: `panel` bytes counted from the allocation's start, clipped to the tracked part: the unit in which
//!   bytes are fetched for the CPU. A panel has no state of its own.
//! * **The tracked part**: the whole pages of this allocation on which page protection can trap the CPU's accesses.
//! * **Untrapped bytes**: bytes on which the CPU's accesses are not trapped: those outside the tracked part, all of an
//!   allocation that cannot be protected (a stack, say), those of panels that are *write-through* for a while, and
//!   those on pages that hulls do not cover.
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
//!                 DeviceRead: protect as Read, copy to the device
//!           C  ------------------------------------->  S
//!           ^  <-------------------------------------  |  ^
//!           |       CpuWrite, Dirty: invalidate,       |  |
//!           |       make accessible                    |  |  CpuRead, Home: write back,
//!           |                                          |  |  then Read
//!           |  CpuWrite, Flush: write back,            |  |
//!           |  invalidate, make accessible             v  |
//!           +---------------------------------------   G
//!              DeviceWrite (from C or S): make inaccessible, launch, invalidate the other replicas
//! ```
//!
//! # Rules
//!
//! * **R1** Every byte is in exactly one of C, S and G: a stale byte is valid in at least one replica.
//! * **R2** Order. A device read: set the accessible panels to `Read`, *then* copy. A device write: copy to the device
//!   the old bytes that the kernel reads, make the panels inaccessible, *then* launch (the cache launches where it
//!   reaches the first [`Action::Invalid`] or the end of the actions), *then* invalidate the other replicas. Host
//!   access: write back, *then* invalidate, *then* make accessible; write-backs have landed before a page is made
//!   accessible.
//! * **R3** One transition of an allocation at a time. The state says what holds once the actions have been executed; a
//!   thread that needs a copy which is still in flight waits in the cache for that copy.
//! * **R4** What a kernel is about to use is neither evicted nor invalidated: between the steps that acquire a kernel's
//!   operands and its launch, the cache steps only `DeviceRead`, `DeviceWrite` and `Evict` of replicas that the kernel
//!   does not use.
//! * **R5** A page's access is derived and never stored: a page that may be protected (R16) has the access `None` if it
//!   overlaps a stale byte, else `Read` if it overlaps a valid one, else `ReadWrite`. Pages in narrow gaps, and pages
//!   that are protected together with other pages of an operand in one panel (R16), have the access of those. With a
//!   gate that scans for dirty pages, `Read` means write-tracked, not `PROT_READ`.
//! * **R6** Before a panel is made readable, every stale byte in it is written back (state S); before it is made
//!   writable, what replicas hold of it is invalidated too (state C). Only that panel's bytes: replicas keep what they
//!   hold of other panels, so that their next use uploads a patch and not the whole matrix.
//! * **R7** Transfers are rectangles. A write-back writes exactly stale bytes: bytes in gaps between columns, and other
//!   bytes of the same page, may be data of the program that no device has, and are not written.
//! * **R8** A [`ReplicaId`] names one lifetime of device memory. An event for a replica that has been released is
//!   [`Illegal`], so no late event can change the state.
//! * **R9** Device memory is found before the step that uses it: no action allocates, and `Evict` is an event of its
//!   own, stepped before the events for the operand that needs the room.
//! * **R10** An illegal event changes nothing. If an action fails, the cache takes the step back (`Undo`: the sets that
//!   it changed, as they were), or stops using the device (`Lost`); there is no third outcome.
//! * **R11** A panel whose upload is in flight is *arriving*: until the copy has landed, the cache keeps the panel at
//!   `Read`, or uploads from a snapshot of the bytes, even if a later step would make the panel accessible.
//! * **R12** A panel that is made accessible for a fault is not made inaccessible again before the faulting thread has
//!   retried its access. The cache ensures that; if a panel goes back and forth, the cache makes it write-through.
//! * **R13** The dirty pages that a scan has collected are stepped ([`Event::Dirty`]) before any other event uses the
//!   bytes on them; they are invalidated in every replica of every view of the allocation. A byte that is stale stays
//!   so: its page was inaccessible when the device wrote it, so what the CPU wrote are its neighbours.
//! * **R14** Untrapped bytes of an operand are stale or valid no longer than until the end of the call that uses it,
//!   when [`Event::Settle`] writes them back and invalidates them. Panels become write-through, and stop being so, in
//!   state C. Bytes on accessible pages that are write-tracked ([`Event::WriteTrack`]) stay valid, not stale: a scan finds
//!   what the CPU writes there before their next use (R13).
//! * **R15** What a step costs is bounded, because the sets are. A set holds at most [`MAX_FRAGMENTS`] rectangles
//!   between calls, at most [`MAX_NEAR`] of them near the bytes that a kernel is about to use, and there none of
//!   another stride that would be cut run by run (`Rect::mixing`). Rectangles beyond these limits leave the set, the
//!   smallest first: stale bytes are written back, then replicas' copies are invalidated, which is always safe (S
//!   becomes C). This happens in `Tidy`, which the cache steps before it acquires a kernel's operands, in `CpuRead`,
//!   `CpuWrite`, `Dirty` and `Settle`, never while a kernel's operands are acquired (R4). A write-back takes stale
//!   rectangles of another stride that it would cut with it, whole. A call whose operands are mixed with each other in
//!   this sense runs on the host BLAS. If a scan finds more scattered dirty pages than a set may hold, whole panels are
//!   invalidated.
//! * **R16** A page may be protected only if hulls cover all of it: other data on an operand's first and last page
//!   belongs to the program. Bytes past the allocation's content are its allocator's padding and count as covered. The
//!   gap between two columns belongs to the matrix as long as a device holds some of the matrix or of that page; the
//!   bytes between the elements of a strided vector do not belong to the vector. Whole pages between two pages with
//!   stale bytes are made inaccessible as these are, and whole pages between two with valid bytes are protected as
//!   these are, if all of them may be protected and they are less than 1/[`MAX_GAPS`] of the tracked pages (*narrow*);
//!   wider gaps stay as they are, so fewer than [`MAX_GAPS`] gaps of a block stay accessible. When the CPU accesses an
//!   inaccessible page of a narrow gap of which no device holds a byte, the page leaves the hulls and becomes
//!   accessible; if a device holds some of the page, the stale bytes around it are written back, so that the page can
//!   be read. The pages of a large operand (more than a few panels, and no gap of it stays accessible) that lie in one
//!   panel are inaccessible if one of them overlaps a stale byte, and protected if one overlaps a valid byte, as long
//!   as a replica holds some of the operand. Tiles that a device gets one by one then cost one change of access for
//!   each panel, and the huge pages that panels are by default stay in one piece. When bytes of an operand are
//!   invalidated, they leave the hulls, and with them all whole pages of the same hull that are not protected together
//!   with others of their panel, of which no replica holds a byte, and which lie in the span of no rectangle that a
//!   replica holds. Bytes of an evicted replica stay in the hulls on a page of which another replica holds bytes, as
//!   where two tiles of a matrix meet. What devices hold on a page that is shared with other data of the program from
//!   then on is written back, and the page becomes accessible.
//!
//! * **R17** A *derived* replica stands for data that were computed from the bytes of its rectangle and are kept in another form (of a
//!   sparse matrix: that its indices are in range, row offsets counted anew, what a device has prepared). It protects pages, and
//!   becomes invalid, as a copy of the bytes does; but the bytes cannot be copied from it. It is valid only where the host has the
//!   newest bytes, lies on no device, and stays when replicas on devices are evicted.
//!
//! # Where bytes come from
//!
//! Only bytes that the destination lacks are copied: from a replica on the destination's device (no link is crossed), else
//! from a device whose link is faster than the one to the host, over the fastest such link ([`crate::base::Links`]), else
//! from the host. Of several replicas over equal links the one with the lowest id is taken. Stale bytes come over a slower
//! link, too; those that only devices without a link hold are written back before ([`Allocation::out_of_reach`]), and come from
//! the host. A source always holds the bytes as valid when the copy is appended, although they may still be on their way there (the
//! optimistic heuristic of XKBlas, section III-C), unless the cache says that they are not to be waited for
//! ([`Allocation::not_from`]).

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

/// What has happened to the bytes of an allocation, or is about to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A kernel is about to use `rect`, and none of its operands has been acquired yet: bytes that the sets could hold
    /// beside `rect` only in many pieces are written back and invalidated (R15). Only where [`Allocation::untidy`].
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
    /// A call is about to use this operand on devices, perhaps in pieces: the operand's hull covers the bytes between
    /// the pieces from now on.
    Enclose {
        /// The operand.
        rect: Rect,
    },
    /// The CPU is about to read in these bytes: stale ones are written back.
    CpuRead {
        /// A panel, or any interval.
        span: Interval,
    },
    /// The CPU is about to write in these bytes: stale ones are written back, and replicas' copies are invalidated.
    CpuWrite {
        /// A panel, or any interval.
        span: Interval,
    },
    /// A scan for dirty pages found that the CPU has written these pages since they were write-tracked.
    Dirty {
        /// The pages, in ascending order.
        pages: Vec<Interval>,
    },
    /// Write-back on request: the stale bytes of `rect` are copied to the host; replicas stay valid.
    WriteBack {
        /// The bytes.
        rect: Rect,
    },
    /// A call that used `rect` ends: the untrapped bytes of `rect` that are stale are written back, and all untrapped
    /// bytes of `rect` that are not write-tracked are invalidated in all replicas.
    Settle {
        /// The bytes.
        rect: Rect,
    },
    /// Dirty tracking of accessible pages starts or ends. While it is on, a scan finds what the CPU writes to these
    /// pages ([`Event::Dirty`]), so what replicas hold there stays valid although the pages are accessible. When it
    /// ends, replicas' copies are invalidated. Pages that may be protected are left alone.
    WriteTrack {
        /// Whole pages.
        pages: Interval,
        /// Whether the pages are write-tracked from now on.
        on: bool,
    },
    /// The CPU is about to derive data from all bytes of a derived replica's rectangle: stale bytes are written back, and all become
    /// valid in the replica (R17).
    Derive {
        /// The replica.
        replica: ReplicaId,
    },
    /// The device memory of the replica is needed for other data: stale bytes that only it holds are written back, and
    /// the replica is released.
    Evict {
        /// The replica.
        replica: ReplicaId,
    },
    /// All stale bytes are written back and all pages become accessible; replicas keep their memory and hold nothing.
    Flush,
    /// A device and all data in its memory are lost.
    Lost {
        /// The device.
        device: DeviceId,
    },
    /// The panels of `span` become write-through (never protected), or are protected again from their next use; either
    /// way their stale bytes are written back and replicas' copies invalidated (state C).
    WriteThrough {
        /// Any interval; rounded out to panels.
        span: Interval,
        /// Whether they become write-through.
        on: bool,
    },
}

impl Event {
    /// A device is about to use `rect` of a replica.
    #[must_use]
    pub fn used(replica: ReplicaId, rect: Rect, intent: Intent) -> Self {
        let keep = match intent {
            Intent::Read => return Self::DeviceRead { replica, rect },
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

/// The source or the destination of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Place {
    /// The host memory of the allocation.
    Host,
    /// A replica of the allocation.
    Replica(ReplicaId),
}

/// What the cache must do, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Set the access of whole pages of the tracked part.
    Protect {
        /// The pages.
        span: Interval,
        /// The CPU's access to the pages from now on.
        access: Access,
    },
    /// Copy bytes; source and destination have room for them, and `from` holds the newest.
    Copy {
        /// The source.
        from: Place,
        /// The destination.
        to: Place,
        /// The bytes.
        rect: Rect,
    },
    /// These bytes of the replica are no longer valid; the device memory that holds them may be overwritten.
    Invalid {
        /// The replica.
        replica: ReplicaId,
        /// The bytes.
        rect: Rect,
    },
    /// The replica has left the directory; its device memory can be released.
    Drop {
        /// The replica.
        replica: ReplicaId,
    },
    /// The newest copy of these bytes existed only on a lost device; host memory holds older values.
    LostData {
        /// The bytes.
        rect: Rect,
    },
}

/// An event that the state does not allow: a bug of the caller, by definition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Illegal {
    /// The directory has no such replica, or no longer.
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
