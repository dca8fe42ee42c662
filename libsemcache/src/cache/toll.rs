//! What it costs a program that devices use a block, beyond what was predicted: the calls' own time, and the faults of
//! the CPU that follow each.
//!
//! A prediction knows bytes and rates. It does not know that a program touches a little of each panel between two calls
//! (the panel factorisations of LAPACK), nor what it costs to close pages under the host BLAS's threads. Both are seen in
//! time: a use begins with a call on a device and ends with the next one. The excess of a use is per panel, so that it
//! tells something of smaller and larger operands of the same block. The median of three uses is believed: first calls load
//! kernels and allocate memory. It is believed for so long that trying again costs little of the time.

use std::time::{Duration, Instant};

/// A use of a known excess is tried again after so many times the excess: half a percent of the time goes into that.
const BELIEVED_FOR: f64 = 200.0;

/// The last uses of one kind: seconds per panel, the latest first.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Track {
    last: [f32; 3],
    until: Option<Instant>,
}

impl Track {
    const NONE: Track = Track {
        last: [0.0; 3],
        until: None,
    };

    fn median(&self) -> f32 {
        let mut sorted = self.last;
        sorted.sort_by(f32::total_cmp);
        sorted[1]
    }
}

/// A use that has not ended.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Use {
    call: u64,
    panels: usize,
    output: bool,
    excess_s: f64,
}

/// The uses of one block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Toll {
    /// As an input, as an output.
    tracks: [Track; 2],
    now: Option<Use>,
}

impl Toll {
    pub(super) const NONE: Toll = Toll {
        tracks: [Track::NONE; 2],
        now: None,
    };

    /// What is to be expected of a block like this one.
    pub(super) fn of_another(self) -> Toll {
        Toll { now: None, ..self }
    }

    /// The CPU waited so long for a fault in the block.
    pub(super) fn fault(&mut self, seconds: f64) {
        if let Some(u) = &mut self.now {
            u.excess_s += seconds;
        }
    }

    /// A call on a device, known by its number, uses so many panels of the block; it may use others of them, too.
    pub(super) fn used(&mut self, call: u64, panels: usize, output: bool, now: Instant) {
        if let Some(u) = self.now.as_mut().filter(|u| u.call == call) {
            u.panels = u.panels.saturating_add(panels);
            u.output |= output;
            return;
        }
        self.end(now);
        self.now = Some(Use {
            call,
            panels,
            output,
            excess_s: 0.0,
        });
    }

    /// That call took the program so much longer than predicted, because of this block; less than zero: shorter.
    pub(super) fn took(&mut self, call: u64, excess_s: f64) {
        if let Some(u) = self.now.as_mut().filter(|u| u.call == call) {
            u.excess_s += excess_s;
        }
    }

    /// The use ends without telling anything: a call follows of which nothing was predicted.
    pub(super) fn unknown(&mut self) {
        self.now = None;
    }

    fn end(&mut self, now: Instant) {
        if let Some(u) = self.now.take().filter(|u| u.panels > 0) {
            let track = &mut self.tracks[usize::from(u.output)];
            let excess_s = u.excess_s.max(0.0);
            let each = (excess_s / u.panels as f64) as f32;
            track.last = [each, track.last[0], track.last[1]];
            let long = Duration::try_from_secs_f64(excess_s * BELIEVED_FOR).unwrap_or_default();
            track.until = now.checked_add(long);
        }
    }

    /// The seconds that a use of so many panels is to be expected to take beyond what is predicted.
    pub(super) fn expected_s(&self, panels: usize, output: bool, now: Instant) -> f64 {
        let track = &self.tracks[usize::from(output)];
        if track.until.is_none_or(|until| now >= until) {
            return 0.0;
        }
        f64::from(track.median()) * panels as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-6
    }

    #[test]
    fn what_uses_took_too_long_is_expected_per_panel() {
        let (mut toll, now) = (Toll::NONE, Instant::now());
        for call in 0..3 {
            assert!(call == 2 || close(toll.expected_s(10, true, now), 0.0));
            toll.used(call, 8, true, now);
            toll.used(call, 2, false, now);
            toll.took(call, -1e-4);
            (0..11).for_each(|_| toll.fault(1e-4));
        }
        toll.used(3, 10, true, now);
        assert!(close(toll.expected_s(10, true, now), 1e-3));
        assert!(close(toll.expected_s(5, true, now), 5e-4));
        assert!(close(toll.expected_s(10, false, now), 0.0));
        assert!(close(toll.of_another().expected_s(10, true, now), 1e-3));
        // The program stops touching it.
        toll.used(4, 10, true, now);
        toll.used(5, 10, true, now);
        assert!(close(toll.expected_s(10, true, now), 0.0));
    }

    #[test]
    fn it_is_tried_again_and_believed_at_once() {
        let (mut toll, now) = (Toll::NONE, Instant::now());
        for call in 0..3 {
            toll.used(call, 1, true, now);
            toll.took(call, 1e-3);
        }
        let soon = now + Duration::from_millis(190);
        let late = now + Duration::from_millis(210);
        assert!(close(toll.expected_s(1, true, soon), 1e-3));
        assert!(close(toll.expected_s(1, true, late), 0.0));
        toll.used(3, 1, true, late);
        assert!(close(toll.expected_s(1, true, late), 1e-3));
    }

    #[test]
    fn one_long_use_is_not_believed() {
        let (mut toll, now) = (Toll::NONE, Instant::now());
        for call in 0..10 {
            toll.used(call, 1, true, now);
            toll.took(call, if call == 3 { 1.0 } else { 0.0 });
            assert!(close(toll.expected_s(1, true, now), 0.0));
        }
    }

    #[test]
    fn inputs_and_outputs_are_told_apart() {
        let (mut toll, now) = (Toll::NONE, Instant::now());
        for call in 0..10 {
            let output = call % 2 == 1;
            toll.used(call, 4, output, now);
            if output {
                toll.fault(4e-3);
            }
        }
        toll.used(10, 4, false, now);
        assert!(close(toll.expected_s(4, false, now), 0.0));
        assert!(close(toll.expected_s(4, true, now), 4e-3));
    }

    #[test]
    fn what_follows_an_unknown_call_tells_nothing() {
        let (mut toll, now) = (Toll::NONE, Instant::now());
        for call in 0..10 {
            toll.used(call, 1, true, now);
            toll.unknown();
            toll.fault(1.0);
        }
        assert!(close(toll.expected_s(1, true, now), 0.0));
    }
}
