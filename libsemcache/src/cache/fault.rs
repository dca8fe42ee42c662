//! Page faults: the CPU touched an inaccessible or read-only panel. Serving the fault writes the panel's bytes back,
//! makes the panel accessible, and follows the pattern of accesses for read-ahead.

use log::error;
use semcache_fault::broken;

use super::push::pieces;
use super::{Cache, CacheError, Entry, State};
use crate::base::counters::COUNTERS;
use crate::base::waited::Stopwatch;
use crate::base::{Interval, Rect};
use crate::directory::Event;
use crate::protect::service::{FaultSink, Served};
use crate::protect::{closed, permits};
use crate::transfer::Deps;

/// The longest span, in bytes, that one fault waits for.
const READ_AHEAD_MAX: usize = 64 << 20;

/// The most bytes of write-back in flight ahead of a sequential reader.
const PREFETCH_MAX: usize = 512 << 20;

/// Read-ahead in multiples of the bytes read so far: if the reader stops early, at most that much was copied in vain.
const PREFETCH_SHARE: usize = 4;

/// Sequential accesses of one allocation that are followed at a time (threads that share a loop).
const RUNS: usize = 8;

/// False-sharing faults on a panel after which the panel becomes write-through for a while.
const PINGPONG_FAULTS: u32 = 8;

/// Number of device calls for which a panel with false sharing is write-through the first time; doubles each time.
const PINGPONG_CALLS: u64 = 64;

/// One sequential access: where it began, where its last span ended, and how long that span was.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    start: usize,
    next: usize,
    len: usize,
    write: bool,
}

/// The sequential accesses of an allocation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReadAhead {
    runs: [Run; RUNS],
    /// The run whose fault was served last, and the run that is replaced next.
    last: usize,
    oldest: usize,
}

/// What is to be served for a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Wanted {
    /// Bytes that the fault waits for, and whose panels become accessible.
    span: Interval,
    /// The end of the bytes that are to be in flight to the host; the end of `span` if the access is not sequential.
    ahead: usize,
}

impl ReadAhead {
    /// Chooses what to serve for a fault in `panel`: the span doubles each time while faults follow each other.
    fn follow(&mut self, panel: Interval, write: bool, extent: usize, unit: usize) -> Wanted {
        let goes_on = |r: &Run| r.len > 0 && r.next == panel.start && r.write == write;
        let Some(i) = self.runs.iter().position(goes_on) else {
            self.last = self.oldest;
            self.oldest = (self.oldest + 1) % RUNS;
            self.runs[self.last] = Run {
                start: panel.start,
                next: panel.end,
                len: unit,
                write,
            };
            return Wanted {
                span: panel,
                ahead: panel.end,
            };
        };
        self.last = i;
        let run = &mut self.runs[i];
        run.len = (run.len * 2).clamp(unit, READ_AHEAD_MAX.max(unit));
        let end = panel
            .end
            .max(panel.start.saturating_add(run.len).min(extent));
        let read = end - run.start.min(end);
        let ahead = read.saturating_mul(PREFETCH_SHARE).min(PREFETCH_MAX);
        Wanted {
            span: Interval::new(panel.start, end),
            ahead: end.saturating_add(ahead).min(extent).max(end),
        }
    }

    /// The run whose fault was served last has been served up to `end`.
    fn served(&mut self, end: usize) {
        self.runs[self.last].next = end;
    }
}

/// A panel with false sharing: CPU and devices take turns at different bytes of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PingPong {
    faults: u32,
    /// The panel is write-through until devices have run this many calls; 0: it is not.
    until: u64,
    rounds: u32,
}

impl FaultSink for Cache {
    fn fault(&self, addr: usize, write: bool) -> Served {
        let mut guard = self.lock();
        let state = &mut *guard;
        let Some(id) = state.find(addr) else {
            // The block's entry was removed after the access faulted. Its pages were made accessible before that, so
            // the access is retried.
            return Served::Open;
        };
        match self.serve(state, id, addr, write) {
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
            if !broken!("break-progress") && e.note_pingpong(panel, self.panel, calls) {
                // After a failure the panel is not write-through, which is right, only slower; the error shows below.
                if self
                    .step(
                        e,
                        pools,
                        &Event::Eager {
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
        let whole = !write && (sequential || state.pushed(id));
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
        let home = e.home_around(span);
        let mut open = span;
        while open.start > home.start {
            let panel = e.dir.panel_span(open.start - 1);
            if panel.start < home.start || !closed(e.host.base + panel.start) {
                break;
            }
            open.start = panel.start;
        }
        while open.end < home.end {
            let panel = e.dir.panel_span(open.end);
            if panel.end > home.end || !closed(e.host.base + panel.start) {
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
            if self.track_again(e, pools, span).is_ok()
                && let Some(p) = e.pingpong.get_mut(&i)
            {
                p.until = 0;
            }
        }
    }

    /// Ends the write-through time of panels. Another thread's call may be using them right now: at its end that call
    /// would not find them write-through any more, and would wait for nothing. So this waits for all operations in
    /// flight over them.
    pub(crate) fn track_again(
        &self,
        e: &mut Entry,
        pools: &mut [crate::transfer::Pool],
        span: Interval,
    ) -> Result<(), CacheError> {
        let event = Event::Eager { span, on: false };
        let before = self.step_back(e, pools, &event, None)?;
        let mut deps = Deps::default();
        e.host.ops.deps(&Rect::from(span), true, &mut deps);
        if let Err(err) = deps.wait(self.backend) {
            if let Some(before) = before {
                e.dir.restore(before);
            }
            return Err(err.into());
        }
        Ok(())
    }

    /// Queues the write-back of the stale bytes of `span`, piece by piece; the panels stay inaccessible until the CPU
    /// touches them.
    fn prefetch(&self, e: &mut Entry, pools: &mut [crate::transfer::Pool], span: Interval) {
        for piece in pieces(&Rect::from(span)) {
            if e.dir.stale().overlaps(&piece) && self.send_home(e, pools, &piece).is_err() {
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
    fn home_around(&self, span: Interval) -> Interval {
        let mut home = Interval::new(0, self.block.len.max(self.dir.tracked().end));
        let away = self.dir.stale().iter().chain(&self.lost);
        for held in away.chain(self.host.ops.writes()).map(Rect::span) {
            // Strided bytes whose first and last byte lie on both sides of `span` limit the interval on both sides.
            if held.start < span.start {
                home.start = home.start.max(held.end.min(span.start));
            }
            if held.end > span.end {
                home.end = home.end.min(held.start.max(span.end));
            }
        }
        home
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

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: usize = 2 << 20;

    fn panel(i: usize) -> Interval {
        Interval::new(i * UNIT, (i + 1) * UNIT)
    }

    #[test]
    fn a_sequential_reader_has_the_rest_under_way_soon() {
        let extent = 2 << 30;
        let (mut ahead, mut at, mut faults) = (ReadAhead::default(), 0, 0);
        let mut under_way = Vec::new();
        while at < extent {
            let w = ahead.follow(panel(at / UNIT), false, extent, UNIT);
            assert!(w.span.start == at && w.span.len() <= READ_AHEAD_MAX);
            assert!(w.ahead >= w.span.end && w.ahead <= extent);
            // If the reader stops here, little was copied in vain.
            assert!(w.ahead - w.span.end <= PREFETCH_SHARE * w.span.end);
            under_way.push(w.ahead);
            at = w.span.end;
            ahead.served(at);
            faults += 1;
        }
        assert!(under_way[5] >= 512 << 20, "{under_way:?}");
        // Counted without copies that complete ahead of the reader; with them, each fault makes more than its span
        // accessible.
        assert!(faults <= 40, "{faults}");
    }

    #[test]
    fn threads_that_share_a_loop_are_followed_each() {
        let mut ahead = ReadAhead::default();
        let extent = 4096 * UNIT;
        let mut at: Vec<usize> = (0..RUNS).map(|t| t * 500).collect();
        for round in 0..5 {
            for p in &mut at {
                let w = ahead.follow(panel(*p), false, extent, UNIT);
                assert_eq!(w.span.len(), UNIT << round);
                ahead.served(w.span.end);
                *p = w.span.end / UNIT;
            }
        }
    }

    #[test]
    fn random_accesses_are_served_panel_by_panel() {
        let mut ahead = ReadAhead::default();
        for i in 0..1000 {
            let p = panel((i * 617 + 3) % 1021);
            let w = ahead.follow(p, false, 1021 * UNIT, UNIT);
            assert_eq!((w.span, w.ahead), (p, p.end));
        }
        // A read that follows a write is not the same sequential access.
        let w = ahead.follow(panel(5), true, 1021 * UNIT, UNIT);
        ahead.served(w.span.end);
        assert_eq!(
            ahead.follow(panel(6), false, 1021 * UNIT, UNIT).span,
            panel(6)
        );
    }
}
