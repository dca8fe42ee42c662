//! A model machine that executes the directory's actions literally, beside the sequential memory that the program
//! expects.
//!
//! The host and every replica are byte arrays; a copy copies, an invalidation writes garbage, a change of access
//! changes a table of pages. `seq` is the sequential memory: the value of each byte for any reader. The world also
//! keeps its own account, byte by byte, of which memory holds the newest value (`good`), and compares it with the
//! directory's after each step; it checks the order of R2 while it executes, and R16 from the list of all operands that
//! devices have used.

use std::collections::{BTreeMap, BTreeSet};

use super::repeats;
use crate::base::{Access, DeviceId, Intent, Interval, Link, Rect, RectSet, ReplicaId};
use crate::directory::{Action, Allocation, Event, Place};

/// The bytes of one memory, and which of them are the newest by the world's own account.
#[derive(Debug)]
pub(super) struct Memory {
    bytes: Vec<u8>,
    good: Vec<bool>,
}

#[derive(Debug)]
pub(super) struct DeviceBlock {
    /// None if the block stands for derived data.
    pub(super) device: Option<DeviceId>,
    pub(super) rect: Rect,
    memory: Memory,
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) alloc: Allocation,
    pub(super) extent: usize,
    /// From here to the extent lies padding, which only devices read or write.
    pub(super) content: usize,
    pub(super) page: usize,
    /// Whether a scan, instead of a trap, finds writes to pages of access `Read`.
    scanning: bool,
    dirty: BTreeSet<usize>,
    host: Memory,
    pages: Vec<Access>,
    pub(super) blocks: BTreeMap<ReplicaId, DeviceBlock>,
    seq: Vec<u8>,
    /// The rectangles that the current call has used.
    call: Vec<Rect>,
    /// Which bytes lie, or lay, between the columns of a resident matrix, or in an evicted replica, and have not left the
    /// hulls since: by a write of the CPU to their page, or because no device holds anything of the page or around it.
    gaps: Vec<bool>,
    /// Every matrix that a device has used.
    matrices: Vec<Rect>,
    /// How many pages were found in narrow gaps so far: inaccessible ones, and protected ones.
    pub(super) narrow: [usize; 2],
    /// How many pages were found that are protected, or inaccessible, only because other pages of their operand in
    /// their panel are.
    pub(super) beside: usize,
    random: u64,
    next_replica: u64,
}

impl World {
    pub(super) fn new(alloc: Allocation, content: usize, page: usize, scanning: bool) -> Self {
        let extent = alloc.extent();
        let bytes: Vec<u8> = (0..extent)
            .map(|at| u8::try_from(at % 251).unwrap())
            .collect();
        Self {
            extent,
            content,
            page,
            scanning,
            dirty: BTreeSet::new(),
            host: Memory {
                bytes: bytes.clone(),
                good: vec![true; extent],
            },
            pages: vec![Access::ReadWrite; extent.div_ceil(page) + 1],
            blocks: BTreeMap::new(),
            seq: bytes,
            call: Vec::new(),
            gaps: vec![false; extent],
            matrices: Vec::new(),
            narrow: [0; 2],
            beside: 0,
            random: 1,
            next_replica: 0,
            alloc,
        }
    }

    pub(super) fn byte(&mut self) -> u8 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.random.to_be_bytes()[1]
    }

    /// Adds a replica on a device, or a derived one.
    pub(super) fn add_block(&mut self, device: Option<DeviceId>, rect: Rect) {
        let id = ReplicaId(self.next_replica);
        self.next_replica += 1;
        let bytes = (0..self.extent).map(|_| self.byte()).collect();
        let memory = Memory {
            bytes,
            good: vec![false; self.extent],
        };
        self.blocks.insert(
            id,
            DeviceBlock {
                device,
                rect,
                memory,
            },
        );
        match device {
            Some(device) => self.alloc.add_replica(id, device, rect),
            None => self.alloc.add_derived(id, rect),
        }
    }

    /// The CPU computes something from all bytes of a derived replica.
    pub(super) fn derive(&mut self, replica: ReplicaId) {
        let rect = self.blocks[&replica].rect;
        self.note_use(rect);
        self.event(&Event::Derive { replica });
    }

    /// Bytes that only devices without a link hold are written back before a device reads them.
    fn reach(&mut self, replica: ReplicaId, rect: &Rect) {
        for rect in self.alloc.out_of_reach(replica, rect) {
            self.event(&Event::WriteBack { rect });
        }
        assert_eq!(self.alloc.out_of_reach(replica, rect), []);
    }

    pub(super) fn device_read(&mut self, replica: ReplicaId, rect: Rect) {
        self.reach(replica, &rect);
        self.note_use(rect);
        self.event(&Event::DeviceRead { replica, rect });
        let memory = &self.blocks[&replica].memory;
        for at in offsets(&rect) {
            assert!(memory.good[at], "{at} is not there");
            assert_eq!(
                memory.bytes[at], self.seq[at],
                "device reads an old byte at {at}"
            );
        }
    }

    /// Steps what the cache steps before it acquires a kernel's operands.
    pub(super) fn tidy(&mut self, rect: Rect, all: bool) {
        let untidy = self.alloc.untidy(&rect);
        if untidy || all {
            self.event(&Event::Tidy { rect });
            assert!(!self.alloc.untidy(&rect), "{rect:?} is still in the way");
        }
    }

    /// Announces an operand of a call, of which the call may use parts only.
    pub(super) fn enclose(&mut self, rect: Rect) {
        if rect.is_interval() || rect.width > 16 {
            let span = rect.span();
            self.gaps[span.start..span.end].fill(true);
            self.matrices.push(span.into());
        }
        self.call.push(rect);
        self.event(&Event::Enclose { rect });
    }

    /// Starts or ends dirty tracking of the pages on which an operand's bytes are untrapped.
    pub(super) fn write_track(&mut self, rect: Rect, on: bool) {
        for open in self.alloc.untrapped(&rect) {
            let pages = open.span().align_out(self.page);
            self.event(&Event::WriteTrack { pages, on });
        }
    }

    /// Whether the byte is on an accessible page that is write-tracked.
    fn write_tracked(&self, at: usize) -> bool {
        self.alloc
            .tracked_edges()
            .contains(Interval::new(at, at + 1))
    }

    pub(super) fn device_write(&mut self, replica: ReplicaId, rect: Rect, keep: bool) {
        if keep {
            self.reach(replica, &rect);
        }
        self.note_use(rect);
        self.event(&Event::DeviceWrite {
            replica,
            rect,
            keep,
        });
        for (id, block) in &self.blocks {
            let alone = *id == replica || !offsets(&rect).any(|at| block.memory.good[at]);
            assert!(alone, "{id:?} survives a write to {replica:?}");
        }
    }

    fn note_use(&mut self, rect: Rect) {
        self.call.push(rect);
        if rect.width > 16 && !self.matrices.contains(&rect) {
            self.matrices.push(rect);
        }
        if rect.width > 16 {
            for line in 1..rect.count {
                let gap = rect.run(line - 1).end..rect.run(line).start;
                self.gaps[gap].fill(true);
            }
        }
    }

    pub(super) fn evict(&mut self, replica: ReplicaId) {
        for (at, good) in self.blocks[&replica].memory.good.iter().enumerate() {
            self.gaps[at] |= good;
        }
        self.event(&Event::Evict { replica });
    }

    /// Clears `gaps` where the CPU has written, and where no device holds anything of the page or around it.
    fn forget_gaps(&mut self, event: Option<&Event>) {
        let written = match event {
            Some(Event::CpuWrite { span }) => *span,
            _ => Interval::default(),
        };
        for at in 0..self.extent {
            let page = at - at % self.page;
            let bytes = page..(page + self.page).min(self.extent);
            let held = |at: usize| self.blocks.values().any(|block| block.memory.good[at]);
            let used = self.call.iter().any(|rect| rect.span().contains(at));
            let empty = || !used && !bytes.clone().any(held) && !self.in_a_gap(at);
            if written.contains(at) || (self.gaps[at] && empty()) {
                self.gaps[at] = false;
            }
        }
    }

    /// Ends the call if the CPU's access at `at` is to an untrapped byte of its operands, which the program touches
    /// only after the call. Other untrapped bytes may be touched at any time.
    fn before_touching(&mut self, at: usize) {
        let operand = |rect: &Rect| rect.contains_offset(at);
        if !self.trapped(at) && self.call.iter().any(operand) {
            self.end_call();
        }
    }

    /// The CPU reads every byte of `span`, and must see the sequential memory.
    pub(super) fn cpu_read(&mut self, span: Interval) {
        for at in span.start..span.end {
            self.before_touching(at);
            if self.pages[at / self.page] == Access::None {
                self.fault(&Event::CpuRead {
                    span: self.alloc.panel_span(at),
                });
                assert!(
                    self.pages[at / self.page] >= Access::Read,
                    "the retry would fault for ever"
                );
            }
            assert_eq!(
                self.host.bytes[at], self.seq[at],
                "the CPU reads an old byte at {at}"
            );
        }
    }

    /// The CPU writes every byte of `span`.
    pub(super) fn cpu_write(&mut self, span: Interval) {
        for at in span.start..span.end {
            let page = at / self.page;
            self.before_touching(at);
            let access = self.pages[page];
            let noticed = match access {
                Access::Read => self.scanning,
                Access::ReadWrite => self.write_tracked(at),
                Access::None => false,
            };
            if noticed {
                self.dirty.insert(page);
            } else if self.pages[page] != Access::ReadWrite {
                self.fault(&Event::CpuWrite {
                    span: self.alloc.panel_span(at),
                });
                assert_eq!(
                    self.pages[page],
                    Access::ReadWrite,
                    "the retry would fault for ever"
                );
            }
            let byte = self.byte();
            (self.host.bytes[at], self.seq[at]) = (byte, byte);
        }
    }

    /// Ends the call: from here on the CPU may access untrapped bytes of its operands.
    pub(super) fn end_call(&mut self) {
        let call = self.call.clone();
        // Operands that are not settled yet remain announced, also while pages are scanned before the step that settles them.
        while !self.call.is_empty() {
            self.scan();
            let rect = self.call.remove(0);
            let open = self.alloc.not_write_tracked(self.alloc.untrapped(&rect));
            let mut landed = RectSet::new();
            for stale in self.alloc.stale().common(&rect) {
                landed.insert(&stale);
            }
            open.iter().for_each(|part| landed.remove(part));
            self.event(&Event::Settle { rect });
            // A scan finds the written-back bytes on write-tracked pages dirty, and perhaps their neighbours.
            let came: Vec<Interval> = landed.iter().flat_map(Rect::runs).collect();
            for run in came {
                let pages = self.alloc.tracked_edges().within(run.align_out(self.page));
                let pages: Vec<Interval> = pages.collect();
                let mut found = RectSet::new();
                for page in pages {
                    found.insert(&page.into());
                }
                landed.iter().for_each(|rect| found.remove(rect));
                let mut pages: Vec<Interval> = found.iter().flat_map(Rect::runs).collect();
                pages.sort();
                if !pages.is_empty() {
                    self.event(&Event::Dirty { pages });
                }
            }
        }
        for (rect, replica) in call
            .iter()
            .flat_map(|rect| self.blocks.iter().map(move |block| (rect, block)))
            .filter(|(_, (_, block))| block.device.is_some())
            .map(|(rect, (id, _))| (rect, id))
        {
            for intent in [Intent::Read, Intent::Update, Intent::Overwrite] {
                repeats::check(&self.alloc, *replica, rect, intent);
                repeats::check_outdated(&self.alloc, *replica, rect, intent);
            }
        }
        for at in (0..self.extent).filter(|at| !self.trapped(*at)) {
            assert!(
                self.host.good[at],
                "{at} cannot be trapped and is stale after the call"
            );
            let held = self.blocks.values().any(|block| block.memory.good[at]);
            assert!(
                !held || self.write_tracked(at),
                "{at} cannot be trapped and is valid after the call"
            );
        }
    }

    /// Steps an event, after the dirty pages that a scan has found.
    pub(super) fn event(&mut self, event: &Event) {
        self.scan();
        self.fault(event);
    }

    /// Steps a flush, after which all bytes must be the newest in host memory, on accessible pages.
    pub(super) fn flush(&mut self) {
        self.end_call();
        self.event(&Event::Flush);
        assert_eq!(self.host.bytes, self.seq);
        assert!(self.pages.iter().all(|page| *page == Access::ReadWrite));
        assert!(
            self.blocks
                .values()
                .all(|block| !block.memory.good.contains(&true))
        );
    }

    pub(super) fn resize(&mut self, extent: usize, content: usize, tracked: Interval) {
        self.end_call();
        self.scan();
        let mut actions = Vec::new();
        self.alloc.resize(extent, content, tracked, &mut actions);
        let grown = extent.max(self.extent);
        self.host.bytes.resize(grown, 7);
        self.seq.resize(grown, 7);
        self.host.good.resize(grown, true);
        self.pages
            .resize(grown.div_ceil(self.page) + 1, Access::ReadWrite);
        for block in self.blocks.values_mut() {
            block.memory.bytes.resize(grown, 0);
            block.memory.good.resize(grown, false);
        }
        self.execute(&actions, None);
        // No one reads the padding's bytes, so any value of them is right.
        for at in content.min(extent)..grown {
            (self.host.good[at], self.seq[at]) = (true, self.host.bytes[at]);
        }
        self.host.bytes.truncate(extent);
        self.seq.truncate(extent);
        self.host.good.truncate(extent);
        self.pages.truncate(extent.div_ceil(self.page));
        self.pages.push(Access::ReadWrite);
        for block in self.blocks.values_mut() {
            block.memory.bytes.truncate(extent);
            block.memory.good.truncate(extent);
        }
        self.gaps.resize(extent, false);
        (self.extent, self.content) = (extent, content.min(extent));
        self.forget_gaps(None);
        self.compare();
    }

    fn scan(&mut self) {
        let page = self.page;
        let pages = core::mem::take(&mut self.dirty).into_iter();
        let pages: Vec<_> = pages
            .map(|at| Interval::new(at * page, (at + 1) * page))
            .collect();
        if !pages.is_empty() {
            self.fault(&Event::Dirty { pages });
        }
    }

    fn fault(&mut self, event: &Event) {
        let mut actions = Vec::new();
        let (before, ready) = (self.alloc.clone(), self.alloc.ready(event));
        let untidy = matches!(event, Event::Tidy { rect } if self.alloc.untidy(rect));
        let undo = self.alloc.step(event, &mut actions).unwrap();
        if matches!(event, Event::Tidy { .. }) && !untidy {
            assert!(
                actions.is_empty() && self.alloc == before,
                "{event:?} was tidy"
            );
        }
        if ready {
            assert!(
                actions.is_empty() && self.alloc == before,
                "{event:?} was not ready"
            );
        }
        let mut undone = self.alloc.clone();
        undone.restore(undo);
        assert!(undone == before, "{event:?} is not undone");
        let kernel = match event {
            Event::DeviceWrite {
                replica,
                rect,
                keep,
            } => Some((*replica, *rect, *keep)),
            _ => None,
        };
        self.execute(&actions, kernel);
        if let Event::Derive { replica } = event {
            let memory = &mut self.blocks.get_mut(replica).unwrap().memory;
            for at in offsets(&self.alloc.replica(*replica).unwrap().rect) {
                assert!(self.host.good[at], "{at} is derived from an old byte");
                (memory.good[at], memory.bytes[at]) = (true, self.host.bytes[at]);
            }
        }
        self.forget_gaps(Some(event));
        self.compare();
    }

    fn execute(&mut self, actions: &[Action], kernel: Option<(ReplicaId, Rect, bool)>) {
        let launch = actions
            .iter()
            .position(|action| matches!(action, Action::Invalid { .. }));
        for (i, action) in actions.iter().enumerate() {
            if launch == Some(i) {
                self.launch(kernel);
            }
            match action {
                Action::Protect { span, access } => self.protect(*span, *access),
                Action::Copy { from, to, rect } => {
                    if let (Place::Replica(from), Place::Replica(to)) = (from, to) {
                        let (from, to) = (self.blocks[from].device, self.blocks[to].device);
                        let (from, to) = (from.unwrap(), to.unwrap());
                        let linked = from == to || self.alloc.links.of(to, from) != Link::None;
                        assert!(linked, "{to:?} has no link to {from:?}");
                    }
                    self.copy(*from, *to, rect);
                }
                Action::Invalid { replica, rect } => {
                    for at in offsets(rect) {
                        let garbage = self.byte();
                        let memory = &mut self.blocks.get_mut(replica).unwrap().memory;
                        assert!(
                            core::mem::replace(&mut memory.good[at], false),
                            "{at} was not valid"
                        );
                        memory.bytes[at] = garbage;
                    }
                }
                Action::Drop { replica } => assert!(self.blocks.remove(replica).is_some()),
                Action::LostData { rect } => self.lose(rect),
            }
        }
        if launch.is_none() {
            self.launch(kernel);
        }
    }

    fn launch(&mut self, kernel: Option<(ReplicaId, Rect, bool)>) {
        let Some((replica, rect, keep)) = kernel else {
            return;
        };
        for at in offsets(&rect) {
            assert!(
                !self.trapped(at) || self.pages[at / self.page] == Access::None,
                "{at} is open at the launch"
            );
            let byte = self.byte();
            let memory = &mut self.blocks.get_mut(&replica).unwrap().memory;
            assert!(
                !keep || memory.bytes[at] == self.seq[at],
                "the kernel reads an old byte at {at}"
            );
            (memory.bytes[at], memory.good[at]) = (byte, true);
            (self.seq[at], self.host.good[at]) = (byte, false);
        }
    }

    fn protect(&mut self, span: Interval, access: Access) {
        assert!(
            !span.is_empty() && span.align_out(self.page) == span,
            "{span:?} is not pages"
        );
        assert!(
            self.alloc.tracked().encloses(span) || access == Access::ReadWrite,
            "{span:?} is not tracked"
        );
        for page in &mut self.pages[span.start / self.page..span.end / self.page] {
            assert_ne!(
                core::mem::replace(page, access),
                access,
                "{span:?} had that access"
            );
        }
    }

    fn copy(&mut self, from: Place, to: Place, rect: &Rect) {
        assert!(!rect.is_empty() && from != to);
        for at in offsets(rect) {
            let page = self.pages[at / self.page];
            let source = match from {
                Place::Host => {
                    assert!(
                        !self.trapped(at) || page <= Access::Read,
                        "{at} is copied up while the CPU may write it"
                    );
                    &self.host
                }
                Place::Replica(id) => {
                    let block = &self.blocks[&id];
                    assert!(block.device.is_some() && block.rect.contains_offset(at));
                    &block.memory
                }
            };
            assert!(
                source.good[at],
                "{at} is copied from where it is not newest"
            );
            assert_eq!(
                source.bytes[at], self.seq[at],
                "an old byte is copied at {at}"
            );
            let byte = source.bytes[at];
            let target = match to {
                Place::Host => {
                    assert!(
                        !self.trapped(at) || page == Access::None,
                        "{at} is written back while the CPU can see it"
                    );
                    &mut self.host
                }
                Place::Replica(id) => {
                    let block = self.blocks.get_mut(&id).unwrap();
                    assert!(block.device.is_some() && block.rect.contains_offset(at));
                    &mut block.memory
                }
            };
            assert!(
                !core::mem::replace(&mut target.good[at], true),
                "{at} is copied to where it is newest"
            );
            target.bytes[at] = byte;
        }
    }

    /// Bytes were lost with a device: the program continues with the older bytes of the host.
    fn lose(&mut self, rect: &Rect) {
        for at in offsets(rect) {
            assert!(!self.host.good[at], "{at} is not lost, the host has it");
            let elsewhere = self
                .blocks
                .iter()
                .any(|(id, block)| self.alloc.replica(*id).is_some() && block.memory.good[at]);
            assert!(!elsewhere, "{at} is not lost, another device has it");
            (self.host.good[at], self.seq[at]) = (true, self.host.bytes[at]);
        }
    }

    /// Whether page protection can trap the CPU's accesses to that byte.
    pub(super) fn trapped(&self, at: usize) -> bool {
        let byte = Rect::interval(at, at + 1);
        self.alloc.untrapped(&byte).is_empty()
    }

    /// Compares the directory's account with the world's, and the bytes with the sequential memory.
    fn compare(&mut self) {
        self.alloc.check().unwrap();
        assert_eq!(
            flags(self.alloc.stale(), self.extent),
            not(&self.host.good),
            "stale"
        );
        assert_eq!(self.alloc.replicas().len(), self.blocks.len());
        for (id, replica) in self.alloc.replicas() {
            let block = &self.blocks[&id];
            assert_eq!((replica.device, replica.rect), (block.device, block.rect));
            assert_eq!(
                flags(&replica.valid, self.extent),
                block.memory.good,
                "valid in {id:?}"
            );
            for at in (0..self.extent).filter(|at| block.memory.good[*at]) {
                let pending = self.dirty.contains(&(at / self.page));
                assert!(
                    pending || block.memory.bytes[at] == self.seq[at],
                    "{id:?} holds an old byte at {at}"
                );
            }
        }
        for at in (0..self.extent).filter(|at| self.host.good[*at]) {
            assert_eq!(
                self.host.bytes[at], self.seq[at],
                "the host holds an old byte at {at}"
            );
        }
        self.compare_pages();
    }

    /// Compares the access of all pages with R5 and R16, by the world's own account.
    fn compare_pages(&mut self) {
        let held = |at: usize| self.blocks.values().any(|block| block.memory.good[at]);
        let bytes = |i: usize| i * self.page..((i + 1) * self.page).min(self.extent);
        let closable: Vec<bool> = (0..self.pages.len())
            .map(|i| bytes(i).next().is_some_and(|at| self.trapped(at)))
            .collect();
        let inaccessible = self.protected(&closable, |i| bytes(i).any(|at| !self.host.good[at]));
        let protected = self.protected(&closable, |i| bytes(i).any(held));
        for (i, access) in self.pages.iter().enumerate() {
            let page = Interval::new(i * self.page, (i + 1) * self.page);
            let expected = match (inaccessible[i], protected[i]) {
                (Page::Open, Page::Open) => Access::ReadWrite,
                (Page::Open, _) => Access::Read,
                _ => Access::None,
            };
            assert_eq!(*access, expected, "{page:?}");
            if *access == Access::ReadWrite {
                continue;
            }
            assert!(self.alloc.tracked().encloses(page), "{page:?}");
            assert!(
                !self.alloc.write_through().overlaps(&page.into()),
                "{page:?} is write-through"
            );
            for at in bytes(i).filter(|at| *at < self.content) {
                let covered = held(at) || self.gaps[at] || self.in_a_gap(at);
                assert!(
                    covered,
                    "{page:?} is {access:?}, and {at} stands beside the operands"
                );
            }
        }
        let narrow = |page: &&Page| **page == Page::InGap;
        self.narrow[0] += inaccessible.iter().filter(narrow).count();
        self.narrow[1] += protected.iter().filter(narrow).count();
        let beside = |page: &&Page| **page == Page::Beside;
        self.beside += inaccessible.iter().chain(&protected).filter(beside).count();
    }

    /// Which pages hold bytes for which `with` is true, which lie in narrow gaps between such pages, and which belong
    /// to the same operand in the same panel.
    fn protected(&self, closable: &[bool], with: impl Fn(usize) -> bool) -> Vec<Page> {
        let narrow = self.alloc.tracked().len() / self.page / self.alloc.most_gaps.max(1);
        let holds = |i: &usize| closable[*i] && with(*i);
        let holders: Vec<usize> = (0..closable.len()).filter(holds).collect();
        let mut pages = vec![Page::Open; closable.len()];
        for i in &holders {
            pages[*i] = Page::Holds;
        }
        for pair in holders.windows(2) {
            let gap = pair[0] + 1..pair[1];
            if gap.len() < narrow && gap.clone().all(|i| closable[i]) {
                pages[gap].fill(Page::InGap);
            }
        }
        let each = self.alloc.panel / self.page;
        for &i in &holders {
            let panel = i / each * each..(i / each + 1) * each;
            let beside = |j: &usize| closable.get(*j) == Some(&true) && self.together(i, *j);
            for j in panel.filter(beside) {
                if pages[j] == Page::Open {
                    pages[j] = Page::Beside;
                }
            }
        }
        pages
    }

    /// Whether two pages, and all bytes between them, can be protected and belong to one large operand.
    fn together(&self, one: usize, other: usize) -> bool {
        let (first, last) = (one.min(other), one.max(other));
        let all = first * self.page..((last + 1) * self.page).min(self.content);
        let padding = last * self.page >= self.content;
        let pages = Interval::new(all.start, all.end);
        let large = self.alloc.large_spans().any(|span| span.encloses(pages));
        !padding && large && all.clone().all(|at| self.trapped(at))
    }
}

/// Why a page is protected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Page {
    Open,
    Holds,
    InGap,
    Beside,
}

impl World {
    /// Whether the byte lies between the columns of a matrix of which a device holds some bytes.
    fn in_a_gap(&self, at: usize) -> bool {
        let held = |at: usize| {
            let good = |block: &DeviceBlock| block.memory.good.get(at) == Some(&true);
            self.blocks.values().any(good)
        };
        let around = |rect: &&Rect| rect.span().contains(at);
        let mut matrices = self.matrices.iter().filter(around);
        matrices.any(|rect| offsets(rect).any(held))
    }
}

fn offsets(rect: &Rect) -> impl Iterator<Item = usize> + use<> {
    rect.runs().flat_map(|run| run.start..run.end)
}

fn flags(set: &RectSet, extent: usize) -> Vec<bool> {
    let mut flags = vec![false; extent];
    for rect in set {
        offsets(rect).for_each(|at| flags[at] = true);
    }
    flags
}

fn not(flags: &[bool]) -> Vec<bool> {
    flags.iter().map(|flag| !flag).collect()
}
