//! The directory's state of one allocation (stale bytes, replicas, hulls), and its invariants.

use crate::base::{Access, DeviceId, Interval, Links, Rect, RectSet, ReplicaId, Spans};

use super::Illegal;

/// A gap of whole pages between two columns of a resident matrix stays open for the CPU only if it has at least 1/`MAX_GAPS` of the
/// tracked pages of its block, so that fewer than `MAX_GAPS` gaps stay open in a block. Each gap that stays open between closed
/// columns costs two mappings, of which Linux gives a process 65,530.
pub const MAX_GAPS: usize = 1024;

/// The most rectangles in any set of an allocation between calls.
pub const MAX_FRAGMENTS: usize = 128;

/// Coherence state of one allocation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Allocation {
    /// Bytes of the allocation.
    pub(super) extent: usize,
    /// Up to here the bytes are the program's; from here to `extent` they are padding of the malloc that serves the
    /// block.
    pub(super) content: usize,
    /// Bytes of a panel, a multiple of `page`.
    pub(super) panel: usize,
    /// Bytes of a page.
    pub(super) page: usize,
    /// Whole pages on which page protection can trap the CPU's accesses.
    pub(super) tracked: Interval,
    /// Panels of the tracked part that are write-through at present: not protected.
    pub(super) write_through: RectSet,
    /// Bytes whose host copy is not the newest.
    pub(super) stale: RectSet,
    /// How devices read each other's memory.
    pub(super) links: Links,
    /// Replicas from which no bytes are copied that the host has, too ([`Allocation::not_from`]).
    pub(super) not_from: Vec<ReplicaId>,
    /// By ascending id.
    pub(super) replicas: Vec<(ReplicaId, Replica)>,
    /// From the first to the last byte of every resident operand, gaps between its columns included (R16).
    pub(super) hulls: Spans,
    /// Operands of several panels, whose pages in one panel are protected together (R16).
    pub(super) large: Vec<Large>,
    /// Pages that stay accessible although replicas hold bytes of them, because they are write-tracked: a scan finds
    /// what the CPU has written there (R14).
    pub(super) tracked_edges: Spans,
    /// The most rectangles in a set between calls (R15).
    pub(super) limit: usize,
    /// A gap of at least 1/`most_gaps` of the tracked pages stays accessible (R16): [`MAX_GAPS`], except in tests.
    pub(super) most_gaps: usize,
    /// Takes back the event that is being stepped; `None` between steps.
    pub(super) undo: Option<Undo>,
}

/// Device memory that can hold one rectangle of the allocation, or data that are derived from the bytes of one (R17).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replica {
    /// The device in whose memory the replica lies; none if it is derived.
    pub device: Option<DeviceId>,
    /// The bytes that the replica has room for.
    pub rect: Rect,
    /// The bytes that the replica holds, all newest.
    pub valid: RectSet,
}

/// An operand of several panels without gaps that stay open, of which replicas hold something, or which a call under
/// way has announced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Large {
    pub(super) rect: Rect,
    /// A replica has held something of it.
    pub(super) used: bool,
}

/// What takes one event back: each set that the event changed, as it was before, and the replicas that it removed. Nothing
/// is copied that the event left alone.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Undo {
    pub(super) stale: Option<RectSet>,
    pub(super) write_through: Option<RectSet>,
    pub(super) hulls: Option<Spans>,
    pub(super) large: Option<Vec<Large>>,
    pub(super) tracked_edges: Option<Spans>,
    /// What replicas held.
    pub(super) valid: Vec<(ReplicaId, RectSet)>,
    /// Replicas that are gone, as they were when they went.
    pub(super) gone: Vec<(ReplicaId, Replica)>,
}

impl Allocation {
    /// An allocation of `extent` bytes of which no device holds a copy.
    ///
    /// `panel` is rounded up to a multiple of `page`. `tracked` is the part on which the CPU's accesses can be trapped,
    /// rounded in to whole pages; it may reach past `extent` to the end of the last page, and it may be empty.
    #[must_use]
    pub fn new(extent: usize, panel: usize, page: usize, tracked: Interval) -> Self {
        let page = page.max(1);
        let panel = panel
            .max(page)
            .checked_next_multiple_of(page)
            .unwrap_or(page);
        let tracked = tracked.align_in(page);
        let (write_through, stale) = (RectSet::new(), RectSet::new());
        Self {
            extent,
            content: extent,
            panel,
            page,
            tracked,
            write_through,
            stale,
            links: Links::default(),
            not_from: Vec::new(),
            replicas: Vec::new(),
            hulls: Spans::new(),
            large: Vec::new(),
            tracked_edges: Spans::new(),
            limit: MAX_FRAGMENTS,
            most_gaps: MAX_GAPS,
            undo: None,
        }
    }

    /// The same allocation, of which the program has asked for the first `content` bytes only. The rest is padding of
    /// its allocator, which the program neither reads nor writes.
    #[must_use]
    pub fn with_content(mut self, content: usize) -> Self {
        self.content = content.min(self.extent);
        self
    }

    /// The same allocation on a machine with these links.
    #[must_use]
    pub fn with_links(mut self, links: Links) -> Self {
        self.links = links;
        self
    }

    /// From now on other devices get no bytes from these replicas that the host has, too: those that the replicas hold as valid
    /// are still on their way there, and are not to be waited for.
    pub fn not_from(&mut self, replicas: Vec<ReplicaId>) {
        self.not_from = replicas;
    }

    /// Adds a replica that holds nothing yet. Ids are never reused: if `id` is known already, nothing changes.
    pub fn add_replica(&mut self, id: ReplicaId, device: DeviceId, rect: Rect) {
        self.add(id, Some(device), rect);
    }

    /// Adds a derived replica of these bytes ([`super::Event::Derive`] follows). Ids are never reused.
    pub fn add_derived(&mut self, id: ReplicaId, rect: Rect) {
        self.add(id, None, rect);
    }

    fn add(&mut self, id: ReplicaId, device: Option<DeviceId>, rect: Rect) {
        if let Err(at) = self.replicas.binary_search_by_key(&id, |(known, _)| *known) {
            self.replicas.insert(
                at,
                (
                    id,
                    Replica {
                        device,
                        rect,
                        valid: RectSet::new(),
                    },
                ),
            );
        }
    }

    /// The allocation's replicas, by ascending id.
    pub fn replicas(&self) -> impl ExactSizeIterator<Item = (ReplicaId, &Replica)> {
        self.replicas.iter().map(|(id, replica)| (*id, replica))
    }

    /// One replica.
    #[must_use]
    pub fn replica(&self, id: ReplicaId) -> Option<&Replica> {
        self.find(id).ok().map(|at| &self.replicas[at].1)
    }

    /// Whether a replica holds some of these bytes.
    #[must_use]
    pub fn held(&self, rect: &Rect) -> bool {
        let mut replicas = self.replicas.iter();
        replicas.any(|(_, replica)| replica.valid.overlaps(rect))
    }

    /// The bytes whose host copy is not the newest.
    #[must_use]
    pub fn stale(&self) -> &RectSet {
        &self.stale
    }

    /// Bytes of the allocation.
    #[must_use]
    pub fn extent(&self) -> usize {
        self.extent
    }

    /// The part on which the CPU's accesses can be trapped.
    #[must_use]
    pub fn tracked(&self) -> Interval {
        self.tracked
    }

    /// The pages that are write-tracked, and so stay accessible although replicas hold bytes of them
    /// ([`super::Event::WriteTrack`]).
    #[must_use]
    pub fn tracked_edges(&self) -> &Spans {
        &self.tracked_edges
    }

    /// The panels that are write-through at present.
    #[must_use]
    pub fn write_through(&self) -> &RectSet {
        &self.write_through
    }

    /// Checks all invariants.
    ///
    /// # Errors
    ///
    /// A description of the first invariant that is broken.
    pub fn check(&self) -> Result<(), String> {
        let Self {
            extent,
            content,
            panel,
            page,
            tracked,
            ..
        } = *self;
        if !panel.is_multiple_of(page) || tracked.align_in(page) != tracked {
            return Err(format!(
                "panel {panel} and tracked {tracked:?} are not whole pages of {page}"
            ));
        }
        if content > extent {
            return Err(format!("{content} bytes of content in {extent}"));
        }
        self.stale.check().map_err(|e| format!("stale: {e}"))?;
        self.write_through
            .check()
            .map_err(|e| format!("write-through: {e}"))?;
        if self.stale.span().end > extent {
            return Err(format!("stale reaches past {extent}"));
        }
        for span in self.write_through.iter().flat_map(Rect::runs) {
            let ends = [span.start, span.end];
            let whole = ends
                .iter()
                .all(|at| at % panel == 0 || *at == tracked.start || *at == tracked.end);
            if !tracked.encloses(span) || !whole {
                return Err(format!("write-through {span:?} is not made of panels"));
            }
        }
        for run in self.tracked_edges.iter() {
            if !tracked.encloses(*run) || run.align_in(page) != *run {
                return Err(format!(
                    "write-tracked {run:?} is not made of tracked pages"
                ));
            }
            if self.access(*run) != Access::ReadWrite {
                return Err(format!(
                    "write-tracked {run:?} is inaccessible or read-only"
                ));
            }
        }
        let mut uncovered: Vec<Rect> = self.stale.iter().copied().collect();
        for (at, (id, replica)) in self.replicas.iter().enumerate() {
            if at > 0 && self.replicas[at - 1].0 >= *id {
                return Err(format!("replica {} is out of order", id.0));
            }
            replica
                .valid
                .check()
                .map_err(|e| format!("replica {}: {e}", id.0))?;
            if let Some(rect) = replica
                .valid
                .iter()
                .find(|rect| !replica.rect.contains(rect))
            {
                return Err(format!("replica {} has no room for {rect:?}", id.0));
            }
            if replica.valid.span().end > extent {
                return Err(format!("replica {} is valid past {extent}", id.0));
            }
            if replica.device.is_none() {
                if let Some(rect) = replica.valid.iter().find(|rect| self.stale.overlaps(rect)) {
                    return Err(format!("replica {} is derived from stale {rect:?}", id.0));
                }
                continue;
            }
            uncovered = uncovered
                .iter()
                .flat_map(|rect| replica.valid.missing(rect))
                .collect();
        }
        if let Some(rect) = uncovered.first() {
            return Err(format!("{rect:?} is stale and valid nowhere"));
        }
        Ok(())
    }

    /// The position of a replica.
    pub(super) fn find(&self, id: ReplicaId) -> Result<usize, Illegal> {
        let at = self.replicas.binary_search_by_key(&id, |(known, _)| *known);
        at.map_err(|_| Illegal::UnknownReplica(id))
    }

    /// The position of a replica that has room for `rect`, on a device.
    pub(super) fn find_room(&self, id: ReplicaId, rect: &Rect) -> Result<usize, Illegal> {
        let at = self.find(id)?;
        let replica = &self.replicas[at].1;
        let inside = rect.end() <= self.extent && replica.rect.contains(rect);
        if inside && replica.device.is_some() {
            Ok(at)
        } else {
            Err(Illegal::Outside {
                replica: id,
                rect: *rect,
            })
        }
    }
}
