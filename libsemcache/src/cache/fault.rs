//! Page faults: the CPU touched an inaccessible or read-only panel. Serving the fault writes the panel's bytes back,
//! makes the panel accessible, and follows the pattern of accesses for read-ahead.

use log::error;
use semcache_fault::broken;

use super::ahead::Wanted;
use super::fault_site::{self, AtSite};
use super::push::pieces;
use super::{Cache, CacheError, Entry, State};
use crate::base::counters::{COUNTERS, PAGE};
use crate::base::{Interval, Rect};
use crate::directory::Event;
use crate::process::spent::{self, Spent};
use crate::process::waited::Stopwatch;
use crate::protect::service::{Fault, FaultSink, Served};
use crate::protect::{closed, permits};
use crate::trace::{self, Within};
use crate::transfer::Deps;

/// False-sharing faults on a panel after which the panel becomes write-through for a while.
const PINGPONG_FAULTS: u32 = 8;

/// Number of device calls for which a panel with false sharing is write-through the first time; doubles each time.
const PINGPONG_CALLS: u64 = 64;

impl FaultSink for Cache {
    fn fault(&self, fault: &Fault) -> Served {
        let &Fault {
            addr, write, tid, ..
        } = fault;
        let traced = trace::on().then(|| (Within::new(), trace::now()));
        let Some(mut guard) = self.lock_for_fault(addr, write) else {
            return Served::Open;
        };
        let state = &mut *guard;
        let Some(id) = state.find(addr) else {
            // The block's entry was removed after the access faulted. Its pages were made accessible before that, so
            // the access is retried.
            return Served::Open;
        };
        let at_site = AtSite::enter(fault);
        let before = spent::begin();
        let served = self.serve(state, id, addr, write);
        let waits = spent::take(&before);
        let (kernels, times) = (waits[Spent::Kernels as usize], &PAGE.times);
        times.fault_kernels.add(kernels);
        times.fault_transfers.add(waits[Spent::Transfers as usize]);
        if let Some(e) = state.entries.get(&id) {
            at_site.served(e.block.start, write, kernels);
        }
        if let Some((within, begun)) = traced {
            trace::record(trace::Event::Fault {
                id: within.id(),
                span: (begun, trace::now()),
                addr: addr as u64,
                write,
                tid,
            });
        }
        match served {
            Ok(()) => Served::Open,
            Err(
                e @ (CacheError::DataLost
                | CacheError::Device(crate::device::api::DeviceError::Lost { .. })),
            ) => {
                drop(guard);
                super::lost::end_process(addr, &e)
            }
            Err(e) => {
                error!("cannot serve a fault at {addr:#x}: {e:?}");
                Served::NotOurs
            }
        }
    }
}

impl Cache {
    fn serve(
        &self,
        state: &mut State,
        id: crate::base::AllocId,
        addr: usize,
        write: bool,
    ) -> Result<(), CacheError> {
        let watch = Stopwatch::start();
        let calls = state.calls;
        let State {
            entries,
            pools,
            forgive_at,
            ..
        } = state;
        let e = entries.get_mut(&id).ok_or(CacheError::Gone)?;
        let offset = addr - e.block.start;
        if write {
            COUNTERS.faults.write.add(1);
        } else {
            COUNTERS.faults.read.add(1);
        }
        if permits(addr, write) {
            // Another thread's fault on the same panel has been served meanwhile.
            return Ok(());
        }
        let panel = e.dir.panel_span(offset);
        if e.false_sharing(offset, write) {
            COUNTERS.faults.false_sharing.add(1);
            fault_site::shared(e.block.start);
            if !broken!("break-progress") && e.note_pingpong(panel, self.panel, calls) {
                // After a failure the panel is not write-through, which is right, only slower; the error shows below.
                if self
                    .step(
                        e,
                        pools,
                        &Event::WriteThrough {
                            span: panel,
                            on: true,
                        },
                        None,
                    )
                    .is_err()
                {
                    e.pingpong.remove(&(panel.start / self.panel));
                }
                *forgive_at = e.next_forgiven().min(*forgive_at);
            }
        }
        let mut wanted = e.ahead.follow(panel, write, e.block.len, self.panel);
        if wanted.span.end > panel.end {
            // The span is extended to whole panels.
            let last = e.dir.panel_span(wanted.span.end - 1);
            wanted.span.end = wanted.span.end.max(last.end);
            wanted.ahead = wanted.ahead.max(wanted.span.end);
        }
        // A panel with lost bytes never becomes accessible, not even for its other bytes: then the CPU could read the
        // lost ones.
        if e.lost.overlaps(&Rect::from(panel)) {
            return Err(CacheError::DataLost);
        }
        if e.lost.overlaps(&Rect::from(wanted.span)) {
            wanted = Wanted {
                span: panel,
                ahead: panel.end,
            };
        }
        let sequential = wanted.ahead > wanted.span.end;
        if sequential {
            // Queued before anything is waited for, so that the link does not idle.
            self.prefetch(e, pools, Interval::new(wanted.span.start, wanted.ahead));
        }
        // If scans find the CPU's writes to this block, a write fault is served like a read: the panel becomes
        // write-tracked, and replicas keep the bytes that the CPU does not write.
        let scanned = write && e.scans.on();
        let whole = !write && (sequential || state.uses.pushed(id));
        let write = write && !scanned;
        self.give_to_cpu(state, id, wanted.span, panel, write)?;
        let e = state.entries.get_mut(&id).ok_or(CacheError::Gone)?;
        let mut opened = wanted.span;
        if whole {
            opened = self.open_landed(e, opened);
        }
        e.ahead.served(opened.end);
        state.note_cpu(id, opened.len(), write);
        let (_, own_s) = watch.seconds();
        state.note_fault(id, own_s);
        Ok(())
    }

    /// Makes the inaccessible panels next to `span` accessible whose bytes have been written back already, so that a
    /// CPU that reads on does not fault. Returns the interval that is accessible now.
    fn open_landed(&self, e: &mut Entry, span: Interval) -> Interval {
        e.host.ops.prune(self.backend);
        let newest = e.newest_around(span);
        let mut open = span;
        while open.start > newest.start {
            let panel = e.dir.panel_span(open.start - 1);
            if panel.start < newest.start || !closed(e.host.base + panel.start) {
                break;
            }
            open.start = panel.start;
        }
        while open.end < newest.end {
            let panel = e.dir.panel_span(open.end);
            if panel.end > newest.end || !closed(e.host.base + panel.start) {
                break;
            }
            open.end = panel.end;
        }
        for more in [
            Interval::new(open.start, span.start),
            Interval::new(span.end, open.end),
        ] {
            // After a failure the panels stay inaccessible until the CPU touches them.
            if !more.is_empty() && self.apply_derived(e, more).is_err() {
                return span;
            }
        }
        open
    }

    /// Ends the write-through time of panels for which it is over, so that they may be protected again.
    pub(crate) fn forgive_pingpong(
        &self,
        e: &mut Entry,
        pools: &mut [crate::transfer::Pool],
        calls: u64,
    ) {
        let due: Vec<usize> = e
            .pingpong
            .iter()
            .filter(|(_, p)| p.until != 0 && calls >= p.until)
            .map(|(&i, _)| i)
            .collect();
        for i in due {
            let span = e.dir.panel_span(i * self.panel);
            // After a failure the panel stays write-through, which is right, only slower.
            if self.end_write_through_of(e, pools, span).is_ok()
                && let Some(p) = e.pingpong.get_mut(&i)
            {
                p.until = 0;
            }
        }
    }

    /// Ends the write-through time of panels. Another thread's call may be using them right now: at its end that call
    /// would not find them write-through any more, and would wait for nothing. So this waits for all operations in
    /// flight over them.
    pub(crate) fn end_write_through_of(
        &self,
        e: &mut Entry,
        pools: &mut [crate::transfer::Pool],
        span: Interval,
    ) -> Result<(), CacheError> {
        let event = Event::WriteThrough { span, on: false };
        let before = self.step_back(e, pools, &event, None)?;
        let mut deps = Deps::default();
        e.host.ops.deps(&Rect::from(span), true, &mut deps);
        if let Err(err) = deps.wait(self.backend) {
            if let Some(before) = before {
                self.restore(e, before);
            }
            return Err(err.into());
        }
        Ok(())
    }

    /// Queues the write-back of the stale bytes of `span`, piece by piece; the panels stay inaccessible until the CPU
    /// touches them.
    fn prefetch(&self, e: &mut Entry, pools: &mut [crate::transfer::Pool], span: Interval) {
        for piece in pieces(&Rect::from(span)) {
            if e.dir.stale().overlaps(&piece) && self.queue_write_back(e, pools, &piece).is_err() {
                // The bytes are copied to the host when the CPU touches them, and an error shows there.
                COUNTERS.fallbacks.add(1);
                return;
            }
        }
    }
}

impl Entry {
    /// The interval around `span` (whose newest bytes are on the host) in which the host has all newest bytes and no
    /// operation in flight writes.
    fn newest_around(&self, span: Interval) -> Interval {
        let mut newest = Interval::new(0, self.block.len.max(self.dir.tracked().end));
        let away = self.dir.stale().iter().chain(&self.lost);
        for held in away.chain(self.host.ops.writes()).map(Rect::span) {
            // Strided bytes whose first and last byte lie on both sides of `span` limit the interval on both sides.
            if held.start < span.start {
                newest.start = newest.start.max(held.end.min(span.start));
            }
            if held.end > span.end {
                newest.end = newest.end.min(held.start.max(span.end));
            }
        }
        newest
    }

    /// Whether the byte that faulted is not among the bytes for which its panel is inaccessible or read-only (false
    /// sharing).
    fn false_sharing(&self, offset: usize, write: bool) -> bool {
        let byte = Rect::interval(offset, offset + 1);
        let panel = self.dir.panel_span(offset);
        // A panel without stale bytes is still inaccessible if its bytes were written back ahead of the access.
        if !write
            && !self
                .dir
                .stale()
                .overlaps(&Rect::interval(panel.start, panel.end))
        {
            return false;
        }
        if self.dir.stale().overlaps(&byte) {
            return false;
        }
        !write || !self.dir.replicas().any(|(_, r)| r.valid.overlaps(&byte))
    }

    /// The count of device calls at which the write-through time of the first panel ends.
    pub(crate) fn next_forgiven(&self) -> u64 {
        let due = self.pingpong.values().map(|p| p.until);
        due.filter(|&until| until != 0).min().unwrap_or(u64::MAX)
    }

    /// Counts a false-sharing fault; returns whether the panel is to be write-through for a while.
    fn note_pingpong(&mut self, panel: Interval, unit: usize, calls: u64) -> bool {
        let p = self.pingpong.entry(panel.start / unit.max(1)).or_default();
        p.faults += 1;
        if p.faults >= PINGPONG_FAULTS && p.until == 0 {
            p.until = calls + (PINGPONG_CALLS << p.rounds.min(10));
            p.rounds += 1;
            p.faults = 0;
            return true;
        }
        false
    }
}
