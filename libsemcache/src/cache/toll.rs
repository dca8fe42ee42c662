//! What it costs a program that devices use a block, beyond what was predicted: the calls' own time, and the faults of
//! the CPU that follow each.
//!
//! A prediction knows bytes and rates. It does not know that a program touches a little of each panel between two calls
//! (the panel factorisations of LAPACK), nor what it costs to close pages under the host BLAS's threads. Both are seen in
//! time: a use begins with a call on a device and ends with the next one. The excess of a use is per panel, so that it
//! tells something of smaller and larger operands of the same block, and it is believed when two uses in a row had it:
//! first calls load kernels and allocate memory.

/// The last uses of one kind: seconds per panel.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Track {
    last: f32,
    believed: f32,
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
pub(super) struct Toll {
    /// As an input, as an output.
    tracks: [Track; 2],
    now: Option<Use>,
}

impl Toll {
    pub(super) const NONE: Toll = Toll {
        tracks: [Track {
            last: 0.0,
            believed: 0.0,
        }; 2],
        now: None,
    };

    /// The CPU waited so long for a fault in the block.
    pub(super) fn fault(&mut self, seconds: f64) {
        if let Some(u) = &mut self.now {
            u.excess_s += seconds;
        }
    }

    /// A call on a device, known by its number, uses so many panels of the block; it may use others of them, too.
    pub(super) fn used(&mut self, call: u64, panels: usize, output: bool) {
        if let Some(u) = self.now.as_mut().filter(|u| u.call == call) {
            u.panels = u.panels.saturating_add(panels);
            u.output |= output;
            return;
        }
        self.end();
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

    fn end(&mut self) {
        if let Some(u) = self.now.take().filter(|u| u.panels > 0) {
            let track = &mut self.tracks[usize::from(u.output)];
            let excess = (u.excess_s.max(0.0) / u.panels as f64) as f32;
            track.believed = track.last.min(excess);
            track.last = excess;
        }
    }

    /// The seconds that a use of so many panels is to be expected to take beyond what is predicted.
    pub(super) fn expected_s(&self, panels: usize, output: bool) -> f64 {
        f64::from(self.tracks[usize::from(output)].believed) * panels as f64
    }

    /// Nothing new was learned for long: it is half as much, until the next use tells.
    pub(super) fn fade(&mut self) {
        for track in &mut self.tracks {
            track.believed *= 0.5;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-6
    }

    #[test]
    fn what_two_uses_in_a_row_took_too_long_is_expected_per_panel() {
        let mut toll = Toll::NONE;
        for call in 0..3 {
            assert!(close(toll.expected_s(10, true), 0.0));
            toll.used(call, 8, true);
            toll.used(call, 2, false);
            toll.took(call, -1e-4);
            (0..11).for_each(|_| toll.fault(1e-4));
        }
        toll.used(3, 10, true);
        assert!(close(toll.expected_s(10, true), 1e-3));
        assert!(close(toll.expected_s(5, true), 5e-4));
        assert!(close(toll.expected_s(10, false), 0.0));
        toll.fade();
        assert!(close(toll.expected_s(10, true), 5e-4));
        // The program stops touching it.
        toll.used(4, 10, true);
        assert!(close(toll.expected_s(10, true), 0.0));
    }

    #[test]
    fn one_long_use_is_not_believed() {
        let mut toll = Toll::NONE;
        for call in 0..10 {
            toll.used(call, 1, true);
            toll.took(call, if call == 3 { 1.0 } else { 0.0 });
            assert!(close(toll.expected_s(1, true), 0.0));
        }
    }

    #[test]
    fn inputs_and_outputs_are_told_apart() {
        let mut toll = Toll::NONE;
        for call in 0..10 {
            let output = call % 2 == 1;
            toll.used(call, 4, output);
            if output {
                toll.fault(4e-3);
            }
        }
        toll.used(10, 4, false);
        assert!(close(toll.expected_s(4, false), 0.0));
        assert!(close(toll.expected_s(4, true), 4e-3));
    }

    #[test]
    fn what_follows_an_unknown_call_tells_nothing() {
        let mut toll = Toll::NONE;
        for call in 0..10 {
            toll.used(call, 1, true);
            toll.unknown();
            toll.fault(1.0);
        }
        assert!(close(toll.expected_s(1, true), 0.0));
    }
}
