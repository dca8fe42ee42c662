//! What a process learns from its earlier calls and uses for its later ones: each such heuristic can be left out
//! (`SEMCACHE_WITHOUT`), to measure what it is worth. No result depends on any of them.

macro_rules! heuristics {
    ($($id:ident = $name:literal, $doc:literal;)*) => {
        /// A heuristic that can be left out.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Heuristic {
            $(#[doc = $doc] $id,)*
        }

        impl Heuristic {
            /// All of them, each with its name in `SEMCACHE_WITHOUT` and what it does.
            pub const ALL: &[(Heuristic, &'static str, &'static str)] = &[
                $((Heuristic::$id, $name, $doc),)*
            ];
        }
    };
}

heuristics! {
    Corrections = "corrections",
        "Rates of kernels, links, page-locking and the host BLAS follow measured times.";
    HostTimes = "host-times",
        "The first calls of a kind on the host BLAS are timed.";
    AbProbes = "ab-probes",
        "Some calls of a kind run on the other side, host or devices, to compare the measured times.";
    KernelLoads = "kernel-loads",
        "Calls stay on the host while the code of the kernels that would compute them is loaded.";
    SpareCores = "spare-cores",
        "While background threads bring devices up or load code, the host BLAS leaves them a core each.";
    HostDecisions = "host-decisions",
        "A call that a decision left to the host BLAS runs there again without a decision.";
    Replay = "replay",
        "A call like an earlier one on unchanged operands is launched without a decision or a plan.";
    ReadBack = "read-back",
        "How much of its results the CPU reads is expected to be as before.";
    Streamed = "streamed",
        "Results that the CPU is expected to read are written back while the rest of the call computes.";
    Mapped = "mapped",
        "A small result that only the CPU reads is written to mapped host memory by its kernel.";
    WriteThrough = "write-through",
        "Small inputs that the CPU rewrites before every call are uploaded by each call and not protected.";
    WriteTracking = "write-tracking",
        "Blocks of which the CPU rewrites a small part between calls are write-tracked.";
    PredictionError = "prediction-error",
        "What earlier uses of a block took beyond the prediction is expected again.";
    Amortisation = "amortisation",
        "An upload that a single call does not pay for is made for the calls that are expected to follow.";
    Samples = "samples",
        "A few words of an input that no device holds tell whether the CPU rewrites it between calls.";
    Copies = "copies",
        "Copies of vectors whose elements are whole pages apart are made by several threads.";
    Alike = "alike",
        "A new block is expected to be used as the last block of its length.";
}

/// The heuristics that are left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Without(u32);

impl Without {
    /// The set with one more heuristic left out.
    #[must_use]
    pub const fn and(self, heuristic: Heuristic) -> Without {
        Without(self.0 | 1 << heuristic as u32)
    }

    /// Whether a heuristic is used.
    #[must_use]
    pub const fn uses(self, heuristic: Heuristic) -> bool {
        self.0 & 1 << heuristic as u32 == 0
    }

    /// The set by the names of its heuristics, separated by commas; `None` if one of them is unknown.
    #[must_use]
    pub fn parse(names: &str) -> Option<Without> {
        let named = |name: &str| Heuristic::ALL.iter().find(|(_, known, _)| *known == name);
        let mut names = names.split(',').map(str::trim).filter(|n| !n.is_empty());
        names.try_fold(Without::default(), |set, name| {
            Some(set.and(named(name)?.0))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_named_ones_are_left_out() {
        assert!(
            Heuristic::ALL
                .iter()
                .all(|(h, _, _)| Without::default().uses(*h))
        );
        for (heuristic, name, _) in Heuristic::ALL {
            let without = Without::parse(name).expect("a known name");
            let left: Vec<_> = Heuristic::ALL
                .iter()
                .filter(|(h, _, _)| !without.uses(*h))
                .collect();
            assert!(left.len() == 1 && left[0].0 == *heuristic);
        }
        let two = Without::parse(" replay,, samples ").expect("known names");
        assert!(
            !two.uses(Heuristic::Replay)
                && !two.uses(Heuristic::Samples)
                && two.uses(Heuristic::Alike)
        );
        assert_eq!(Without::parse("none"), None);
    }
}
