//! Sequential accesses: faults of the CPU that follow each other are served ever larger spans.

use crate::base::Interval;

/// The longest span, in bytes, that one fault waits for.
const READ_AHEAD_MAX: usize = 64 << 20;

/// The most bytes of write-back in flight ahead of a sequential reader.
const PREFETCH_MAX: usize = 512 << 20;

/// Read-ahead in multiples of the bytes read so far: if the reader stops early, at most that much was copied in vain.
const PREFETCH_SHARE: usize = 4;

/// Sequential accesses of one allocation that are followed at a time (threads that share a loop).
const RUNS: usize = 8;

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
pub(super) struct Wanted {
    /// Bytes that the fault waits for, and whose panels become accessible.
    pub(super) span: Interval,
    /// The end of the bytes that are to be in flight to the host; the end of `span` if the access is not sequential.
    pub(super) ahead: usize,
}

impl ReadAhead {
    /// Chooses what to serve for a fault in `panel`: the span doubles each time while faults follow each other.
    pub(super) fn follow(
        &mut self,
        panel: Interval,
        write: bool,
        extent: usize,
        unit: usize,
    ) -> Wanted {
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
    pub(super) fn served(&mut self, end: usize) {
        self.runs[self.last].next = end;
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
