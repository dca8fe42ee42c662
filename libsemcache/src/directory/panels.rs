//! Panels: what the CPU may do where, derived from the byte sets (R5), and the changes to it.

use crate::base::{Access, Interval, Rect, RectSet};

use super::{Action, Allocation};

impl Allocation {
    /// What the CPU may do with the panels that `span` overlaps: the strictest of them. Where nothing is
    /// tracked, everything.
    #[must_use]
    pub fn access(&self, span: Interval) -> Access {
        let panels = self.panels(span);
        panels
            .map(|panel| self.panel_access(panel))
            .min()
            .unwrap_or(Access::ReadWrite)
    }

    /// Appends the panels that `span` overlaps with what the CPU may do there, in ascending order,
    /// neighbours of the same access as one; the tracked part only.
    pub fn access_runs(&self, span: Interval, out: &mut Vec<(Interval, Access)>) {
        let from = out.len();
        for panel in self.panels(span) {
            let access = self.panel_access(panel);
            match out[from..].last_mut() {
                Some((run, same)) if *same == access && run.end == panel.start => {
                    run.end = panel.end
                }
                _ => out.push((panel, access)),
            }
        }
    }

    /// The panel that holds `offset`, clipped to the tracked part; outside of that, the untracked bytes of
    /// the panel's place that lie on the same side of the tracked part.
    #[must_use]
    pub fn panel_span(&self, offset: usize) -> Interval {
        let panel = self.panel_at(offset);
        let Interval { start, end } = self.tracked;
        if self.tracked.contains(offset) {
            panel.intersect(self.tracked)
        } else if self.tracked.is_empty() {
            panel.intersect(Interval::new(0, self.extent))
        } else if offset < start {
            panel.intersect(Interval::new(0, start))
        } else {
            panel.intersect(Interval::new(end, self.extent.max(end)))
        }
    }

    /// The panels that hold these bytes, as one interval ([`Allocation::panel_span`]).
    #[must_use]
    pub fn panels_around(&self, span: Interval) -> Interval {
        let first = self.panel_span(span.start);
        let last = self.panel_span(span.end.max(span.start + 1) - 1);
        Interval {
            start: first.start.min(span.start),
            end: last.end.max(span.end),
        }
    }

    /// The panels that `span` overlaps, clipped to the tracked part.
    pub(super) fn panels(&self, span: Interval) -> impl Iterator<Item = Interval> + use<> {
        let (tracked, panel) = (self.tracked, self.panel);
        let part = span.intersect(tracked);
        let first = part.start / panel;
        let last = if part.is_empty() {
            first
        } else {
            part.end.div_ceil(panel)
        };
        (first..last).map(move |i| {
            Interval::new(i * panel, (i + 1).saturating_mul(panel)).intersect(tracked)
        })
    }

    /// The panels that `span` overlaps as one interval, clipped to the tracked part.
    pub(super) fn round_out(&self, span: Interval) -> Interval {
        let part = span.intersect(self.tracked);
        if part.is_empty() {
            part
        } else {
            part.align_out(self.panel).intersect(self.tracked)
        }
    }

    /// What the CPU may do now in the panels that `span` overlaps: what [`Allocation::protect`] compares with.
    pub(super) fn observe(&self, span: Interval) -> Vec<(Interval, Access)> {
        let mut runs = Vec::new();
        self.access_runs(span, &mut runs);
        runs
    }

    /// Appends the changes of access since `before` was observed.
    pub(super) fn protect(&self, before: &[(Interval, Access)], actions: &mut Vec<Action>) {
        let from = actions.len();
        for (run, old) in before {
            for span in self.panels(*run) {
                let new = self.panel_access(span);
                if new != *old {
                    push_protect(span, new, from, actions);
                }
            }
        }
    }

    /// The block's size or its tracked part changed, between two calls. Offsets stay what they are.
    ///
    /// What lies past the new end is forgotten. Bytes that can no longer be trapped go home and are dropped
    /// first. Pages that are new to a panel get its access; pages past the new end are left alone.
    pub fn resize(&mut self, extent: usize, tracked: Interval, actions: &mut Vec<Action>) {
        let (old, new) = (self.tracked, tracked.align_in(self.page));
        let before = self.observe(old);
        self.forget(Interval::new(extent, usize::MAX), actions);
        let sides = [
            Interval::new(0, new.start),
            Interval::new(new.end, usize::MAX),
        ];
        for side in if new.is_empty() {
            [old, Interval::default()]
        } else {
            sides
        } {
            self.bring_home(&Rect::from(side.intersect(old)), actions);
            self.drop_valid(&Rect::from(side.intersect(old)), actions);
        }
        (self.extent, self.tracked) = (extent, new);
        // An eager panel's ends may have moved with the tracked part.
        let eager = core::mem::take(&mut self.eager);
        for run in eager.iter().flat_map(Rect::runs) {
            self.eager.insert(&Rect::from(self.round_out(run)));
        }
        self.protect_resized(old, &before, actions);
    }

    /// Appends the changes of access since `before`, when the tracked part was `old`.
    fn protect_resized(
        &self,
        old: Interval,
        before: &[(Interval, Access)],
        actions: &mut Vec<Action>,
    ) {
        let new = self.tracked;
        let (first, last) = match (old.is_empty(), new.is_empty()) {
            (true, true) => return,
            (false, true) => (old.start, old.end),
            (true, false) => (new.start, new.end),
            (false, false) => (old.start.min(new.start), old.end.max(new.end)),
        };
        let from = actions.len();
        let mut at = first;
        while at < last {
            // The piece from here on that has one old and one new access.
            let cuts = [
                old.start,
                old.end,
                new.start,
                new.end,
                self.panel_at(at).end,
                last,
            ];
            let end = cuts
                .into_iter()
                .filter(|cut| *cut > at)
                .min()
                .unwrap_or(last);
            let was = before
                .iter()
                .find(|(run, _)| run.contains(at))
                .map_or(Access::ReadWrite, |(_, was)| *was);
            let gone = !new.contains(at) && at >= self.extent;
            let now = self.access(Interval::new(at, at + 1));
            if !gone && now != was {
                push_protect(Interval::new(at, end), now, from, actions);
            }
            at = end;
        }
    }

    /// Takes `span` out of all sets: these bytes do not exist any more.
    fn forget(&mut self, span: Interval, actions: &mut Vec<Action>) {
        let rect = Rect::interval(span.start, span.end.min(crate::base::rect::MAX_OFFSET));
        self.stale.remove(&rect);
        self.drop_valid(&rect, actions);
    }

    fn panel_at(&self, offset: usize) -> Interval {
        let start = offset - offset % self.panel;
        Interval::new(start, start.saturating_add(self.panel))
    }

    /// R5.
    fn panel_access(&self, panel: Interval) -> Access {
        let rect = Rect::from(panel);
        let holds = |set: &RectSet| !set.is_empty() && set.overlaps(&rect);
        if holds(&self.eager) {
            Access::ReadWrite
        } else if holds(&self.stale) {
            Access::None
        } else if self
            .replicas
            .iter()
            .any(|(_, replica)| holds(&replica.valid))
        {
            Access::Read
        } else {
            Access::ReadWrite
        }
    }
}

/// Appends a protection, or extends the last one from position `from` on if it goes on there.
fn push_protect(span: Interval, access: Access, from: usize, actions: &mut Vec<Action>) {
    if let Some(Action::Protect {
        span: last,
        access: same,
    }) = actions[from..].last_mut()
        && *same == access
        && last.end == span.start
    {
        last.end = span.end;
        return;
    }
    actions.push(Action::Protect { span, access });
}
