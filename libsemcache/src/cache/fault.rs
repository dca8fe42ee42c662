//! The CPU touched a closed or read-only panel: bring its bytes home, open it, remember the pattern.

use log::error;

use super::{Cache, CacheError, Entry, State};
use crate::base::counters::COUNTERS;
use crate::base::{Interval, Rect};
use crate::directory::Event;
use crate::protect::service::{FaultSink, Served};
use crate::transfer::Deps;

/// The longest span that one fault brings home.
const READ_AHEAD_MAX: usize = 64 << 20;

/// False-sharing faults on a panel after which it is not closed for a while.
const PINGPONG_FAULTS: u32 = 8;

/// For how many device calls, at first; doubles each time.
const PINGPONG_CALLS: u64 = 64;

/// Sequential access: where the last span ended and how long the next one is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReadAhead {
    next: usize,
    len: usize,
    write: bool,
}

impl ReadAhead {
    /// The span to serve for a fault in `panel`: doubles while faults follow each other.
    fn span(&mut self, panel: Interval, write: bool, extent: usize, unit: usize) -> Interval {
        let sequential = panel.start == self.next && self.len > 0 && write == self.write;
        self.len = if sequential {
            (self.len * 2).clamp(unit, READ_AHEAD_MAX.max(unit))
        } else {
            unit
        };
        self.write = write;
        let end = panel
            .end
            .max(panel.start.saturating_add(self.len).min(extent));
        self.next = end;
        Interval {
            start: panel.start,
            end,
        }
    }
}

/// A panel that CPU and devices fight over although they touch different bytes of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PingPong {
    faults: u32,
    /// Eager until this many calls have run on devices; 0 = not eager.
    until: u64,
    rounds: u32,
}

impl FaultSink for Cache {
    fn fault(&self, addr: usize, write: bool) -> Served {
        let mut guard = self.lock();
        let state = &mut *guard;
        let Some(id) = state.find(addr) else {
            // Tracked a moment ago: whoever forgot the block opened it first, so the access is retried.
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
        let calls = state.calls;
        state.note_cpu(id, write);
        let State {
            entries,
            pools,
            forgive_at,
            ..
        } = state;
        let e = entries.get_mut(&id).ok_or(CacheError::Gone)?;
        let offset = addr - e.block.start;
        if write {
            COUNTERS.fault_writes.add(1);
        } else {
            COUNTERS.fault_reads.add(1);
        }
        let panel = e.dir.panel_span(offset);
        if e.false_sharing(offset, write) {
            COUNTERS.false_sharing.add(1);
            if e.note_pingpong(panel, self.panel, calls) {
                // On a failure the panel is not eager, which is right, only slower; what failed shows below.
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
        let extent = e.block.len;
        let mut span = e.ahead.span(panel, write, extent, self.panel);
        // Whole panels.
        span.end = span.end.min(extent);
        // A panel with lost bytes is never opened, not even for its other bytes: nothing would stop the CPU
        // from reading the lost ones then.
        if e.lost.overlaps(&Rect::from(panel)) {
            return Err(CacheError::DataLost);
        }
        if e.lost.overlaps(&Rect::from(span)) {
            span = panel;
        }
        self.give_to_cpu(state, id, span, panel, write)?;
        let e = state.entries.get_mut(&id).ok_or(CacheError::Gone)?;
        if !write && span.end > panel.end {
            self.prefetch(e, &mut state.pools, span);
        }
        Ok(())
    }

    /// Lets panels that were eager long enough be closed again.
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
            // On a failure the panel stays eager, which is right, only slower.
            if self.track_again(e, pools, span).is_ok()
                && let Some(p) = e.pingpong.get_mut(&i)
            {
                p.until = 0;
            }
        }
    }

    /// Ends the eager time of panels. Another thread's call may be using them right now: it would find no open
    /// territory at its end and wait for nothing, so what is in flight over them is waited for here.
    pub(crate) fn track_again(
        &self,
        e: &mut Entry,
        pools: &mut [crate::transfer::Pool],
        span: Interval,
    ) -> Result<(), CacheError> {
        let before = e.dir.clone();
        self.step(e, pools, &Event::Eager { span, on: false }, None)?;
        let mut deps = Deps::default();
        e.host.ops.deps(&Rect::from(span), true, &mut deps);
        if let Err(err) = deps.wait(self.backend) {
            *e.dir = before;
            return Err(err.into());
        }
        Ok(())
    }

    /// While the CPU reads one span, the next one is on its way; its panels stay closed until they are
    /// touched.
    fn prefetch(&self, e: &mut Entry, pools: &mut [crate::transfer::Pool], span: Interval) {
        let next = Interval {
            start: span.end,
            end: e.block.len.min(span.end.saturating_add(span.len())),
        };
        if next.start < next.end
            && self
                .send_home(e, pools, &Rect::interval(next.start, next.end))
                .is_err()
        {
            // It comes home when it is touched, or fails there with its consequences.
            COUNTERS.fallbacks.add(1);
        }
    }
}

impl Entry {
    /// Whether the byte that faulted has nothing to do with what made its panel closed or read-only.
    fn false_sharing(&self, offset: usize, write: bool) -> bool {
        let byte = Rect::interval(offset, offset + 1);
        let panel = self.dir.panel_span(offset);
        // A panel without stale bytes is still closed if they went home ahead of the access.
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

    /// At how many calls the first of its eager panels is due to be tracked again.
    pub(crate) fn next_forgiven(&self) -> u64 {
        let due = self.pingpong.values().map(|p| p.until);
        due.filter(|&until| until != 0).min().unwrap_or(u64::MAX)
    }

    /// Counts a false-sharing fault; whether the panel is to stay open for a while.
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
