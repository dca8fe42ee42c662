//! Copies and kernels in CUDA streams: the models of van Werkhoven, Maassen, Seinstra and Bal (Performance models for CPU-GPU
//! data transfers, CCGrid 2014), section VI, Eq. 1 to 6.
//!
//! A call is cut into as many equal parts as there are streams, and each stream uploads its part, runs a kernel, and writes its
//! part of the result back. What of these overlaps depends on the device: how many copy engines it has, and whether a launch
//! that depends on a stream waits for the kernels of all streams (implicit synchronisation). Transfers follow the paper's
//! variant of LogGP (section V): `n` streams that move `B` bytes take `L + o + B G + g (n - 1)`. Of these, `L + o` is a link's
//! latency and `G` the reciprocal of its rate. The gap `g` between copies of two streams is no figure of
//! [`LinkRate`]: it is taken as the share of the latency that the paper's Table I has.
//!
//! The paper has one equation where kernels take longest, and another where transfers do; the longer of the two holds, as
//! each is a lower bound. Where no byte moves in a direction, there is no latency either. Table II, the slower rates of both
//! directions at once, is left out: CoCoPeLia's Eq. 3 has its successor.

use super::case::{Answer, Case, Predictor};
use crate::model::rates::LinkRate;

/// The gap as a share of the latency `L + o`, host to device and device to host (Table I, PCIe 3.0).
const GAP: [f64; 2] = [0.002503 / 0.009420, 0.002674 / 0.009023];
/// The most streams that are considered: as many as section V measures.
const MOST_STREAMS: usize = 256;

/// All transfers of a call in one direction.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Transfers {
    /// `L + o`: seconds before the first byte.
    pub latency_s: f64,
    /// `B G`: seconds of all bytes.
    pub bytes_s: f64,
    /// `g`: seconds that each further stream adds.
    pub gap_s: f64,
}

impl Transfers {
    /// The transfers of these bytes over a link, with a gap of this share of its latency.
    #[must_use]
    pub fn new(bytes: f64, link: &LinkRate, gap: f64) -> Transfers {
        if bytes <= 0.0 {
            return Transfers::default();
        }
        Transfers {
            latency_s: link.latency_s,
            bytes_s: bytes / link.bytes_per_s,
            gap_s: link.latency_s * gap,
        }
    }

    /// `L + o + B G + g (n - 1)`: the transfers of all `n` streams, one after the other.
    #[must_use]
    pub fn all(&self, streams: f64) -> f64 {
        self.latency_s + self.bytes_s + self.gap_s * (streams - 1.0)
    }

    /// `L + o + B G / n`: the transfer of one of `n` streams.
    #[must_use]
    pub fn one(&self, streams: f64) -> f64 {
        self.latency_s + self.bytes_s / streams
    }
}

/// A call in the notation of the paper.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Streams {
    /// Host to device.
    pub hd: Transfers,
    /// Device to host.
    pub dh: Transfers,
    /// `t_E`: seconds of the kernels of all streams.
    pub kernels_s: f64,
}

impl Streams {
    /// The share of one device of a case.
    #[must_use]
    pub fn of(case: &Case<'_>) -> Streams {
        let rates = case.rates;
        Streams {
            hd: Transfers::new(case.uploads().sum(), &rates.h2d, GAP[0]),
            dh: Transfers::new(case.write_backs().sum(), &rates.d2h, GAP[1]),
            kernels_s: case.kernels_s(),
        }
    }

    /// Explicit copies before and behind the kernel, with the transfers of section V: nothing overlaps.
    #[must_use]
    pub fn explicit(&self) -> f64 {
        self.hd.all(1.0) + self.kernels_s + self.dh.all(1.0)
    }

    /// Eq. 1: one copy engine and implicit synchronisation, kernels take longest.
    #[must_use]
    pub fn eq_1(&self, n: f64) -> f64 {
        self.hd.one(n) + self.kernels_s + self.dh.all(n)
    }

    /// Eq. 2: one copy engine and implicit synchronisation, transfers take longest.
    #[must_use]
    pub fn eq_2(&self, n: f64) -> f64 {
        self.hd.all(n) + self.kernels_s / n + self.dh.all(n)
    }

    /// Eq. 3: one copy engine, kernels take longest.
    #[must_use]
    pub fn eq_3(&self, n: f64) -> f64 {
        self.hd.one(n) + self.kernels_s + self.dh.one(n)
    }

    /// Eq. 4: one copy engine, transfers take longest: those to the host begin behind those to the device.
    #[must_use]
    pub fn eq_4(&self, n: f64) -> f64 {
        let kernel_s = self.kernels_s / n;
        (self.hd.all(n) + self.dh.all(n))
            .max(self.hd.all(n) + kernel_s + self.dh.one(n))
            .max(self.hd.one(n) + kernel_s + self.dh.all(n))
    }

    /// Eq. 5: two copy engines: the longest of uploads, kernels and write-backs, and what one stream adds of the others.
    #[must_use]
    pub fn eq_5(&self, n: f64) -> f64 {
        let kernel_s = self.kernels_s / n;
        (self.hd.all(n) + kernel_s + self.dh.one(n))
            .max(self.hd.one(n) + self.kernels_s + self.dh.one(n))
            .max(self.hd.one(n) + kernel_s + self.dh.all(n))
    }

    /// Eq. 6: kernels that read and write host memory that is mapped into the device's memory. Everything overlaps.
    #[must_use]
    pub fn eq_6(&self) -> f64 {
        let latency_s = self.hd.latency_s + self.dh.latency_s;
        latency_s + self.hd.bytes_s.max(self.kernels_s).max(self.dh.bytes_s)
    }
}

/// What of copies and kernels overlaps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overlap {
    /// Nothing: copies to the device, one kernel, copies to the host.
    Explicit,
    /// Streams on a device with one copy engine and implicit synchronisation (Fermi, GTX 680).
    ImplicitSync,
    /// Streams on a device with one copy engine (GTX Titan).
    OneEngine,
    /// Streams on a device with two copy engines (Tesla K20 and later ones).
    TwoEngines,
    /// No copies: kernels use host memory. For levels 1 and 2, which use each element once: a kernel of level 3 would move an
    /// element at each use.
    Mapped,
}

impl Predictor for Overlap {
    fn name(&self) -> &'static str {
        match self {
            Overlap::Explicit => "explicit copies",
            Overlap::ImplicitSync => "streams, 1 engine, implicit sync",
            Overlap::OneEngine => "streams, 1 copy engine",
            Overlap::TwoEngines => "streams, 2 copy engines",
            Overlap::Mapped => "mapped memory",
        }
    }

    fn source(&self) -> &'static str {
        match self {
            Overlap::Explicit => "van Werkhoven et al., CCGrid 2014, III-A (zero overlap), V",
            Overlap::ImplicitSync => "van Werkhoven et al., CCGrid 2014, Eq. 1, 2",
            Overlap::OneEngine => "van Werkhoven et al., CCGrid 2014, Eq. 3, 4",
            Overlap::TwoEngines => "van Werkhoven et al., CCGrid 2014, Eq. 5",
            Overlap::Mapped => "van Werkhoven et al., CCGrid 2014, Eq. 6",
        }
    }

    /// With the number of streams, up to 256, that makes the time shortest.
    fn answer(&self, case: &Case<'_>) -> Option<Answer> {
        let call = Streams::of(case);
        let with = |n: f64| match self {
            Overlap::Explicit => call.explicit(),
            Overlap::ImplicitSync => call.eq_1(n).max(call.eq_2(n)),
            Overlap::OneEngine => call.eq_3(n).max(call.eq_4(n)),
            Overlap::TwoEngines => call.eq_5(n),
            Overlap::Mapped => call.eq_6(),
        };
        let most = match self {
            Overlap::Mapped if case.work.is_level3() => return None,
            Overlap::Explicit | Overlap::Mapped => 1,
            _ => MOST_STREAMS,
        };
        let all = (1..=most).map(|n| Answer {
            seconds: with(n as f64),
            pieces: n,
        });
        // Of equal times that with the fewest streams.
        all.min_by(|x, y| x.seconds.total_cmp(&y.seconds))
    }
}
