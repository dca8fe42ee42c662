//! Prediction of the time of a tiled, pipelined offload: the models of CoCoPeLia, section III-B.
//!
//! A problem is cut into `k` sub-problems. Each fetches tiles (h2d), runs a kernel, and writes tiles back (d2h); the
//! three overlap with those of the neighbouring sub-problems. The pipeline idea and Eq. 1 are van Werkhoven's; Eq. 2
//! adds where the data is, Eq. 3 and 4 links that slow down when both directions are in use, Eq. 5 tiles that are
//! fetched once and used often.
//!
//! Two deviations from the paper. First, `k_in`, the number of sub-problems that wait for an input, is printed as
//! `sum(get_i * tiles_i - 1)`, which subtracts one for each operand that is on the device already; meant, and used
//! here, is `sum(get_i * (tiles_i - 1))`: the first tile of each fetched operand is in `t_in`. Second, tiles of
//! different operands may differ in size (vectors, edges, partly resident operands), so each operand has its own tile
//! time; with equal ones the formulas are those of the paper.

/// One operand of a pipeline.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Stream {
    /// Whether the operand must be fetched (`get_i`).
    pub get: bool,
    /// Whether the operand is written back (`set_i`).
    pub set: bool,
    /// Tiles to fetch (`tiles_i`); for a partly resident operand the missing ones.
    pub tiles: f64,
    /// Seconds to fetch one tile (`t_h2d`).
    pub h2d_s: f64,
    /// Seconds to write one tile back (`t_d2h`).
    pub d2h_s: f64,
}

/// A problem after tiling, in the notation of the paper's table I.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pipeline<'a> {
    /// The operands.
    pub streams: &'a [Stream],
    /// Seconds of the kernel of one sub-problem (`t_GPU`).
    pub gpu_s: f64,
    /// Number of sub-problems (`k`), at least 1.
    pub k: f64,
    /// Slowdown of h2d while d2h is busy (`sl_h2d_bid`).
    pub slow_h2d: f64,
    /// Slowdown of d2h while h2d is busy (`sl_d2h_bid`).
    pub slow_d2h: f64,
}

impl Pipeline<'_> {
    /// Eq. 1: every sub-problem fetches every operand and writes it back.
    #[must_use]
    pub fn baseline(&self) -> f64 {
        let h2d: f64 = self.streams.iter().map(|s| s.h2d_s).sum();
        let d2h: f64 = self.streams.iter().map(|s| s.d2h_s).sum();
        self.gpu_s.max(h2d).max(d2h) * (self.k - 1.0) + h2d + self.gpu_s + d2h
    }

    /// `t_in`: one tile of each operand that must be fetched.
    #[must_use]
    pub fn t_in(&self) -> f64 {
        self.streams.iter().filter(|s| s.get).map(|s| s.h2d_s).sum()
    }

    /// `t_out`: one tile of each operand that is written back.
    #[must_use]
    pub fn t_out(&self) -> f64 {
        self.streams.iter().filter(|s| s.set).map(|s| s.d2h_s).sum()
    }

    /// Eq. 2: only tiles that are not on the device are fetched, only tiles that the host needs are written back.
    #[must_use]
    pub fn data_location(&self) -> f64 {
        let (t_in, t_out) = (self.t_in(), self.t_out());
        self.gpu_s.max(t_in).max(t_out) * (self.k - 1.0) + t_in + self.gpu_s + t_out
    }

    /// Eq. 3: the transfers of one step, both directions at once. While both are busy each is slower by its factor; the
    /// rest of the longer one then runs at full speed.
    #[must_use]
    pub fn overlap(&self) -> f64 {
        let t_in = self.slow_h2d * self.t_in();
        let t_out = self.slow_d2h * self.t_out();
        if t_in >= t_out {
            t_out + (t_in - t_out) / self.slow_h2d
        } else {
            t_in + (t_out - t_in) / self.slow_d2h
        }
    }

    /// Eq. 4: Eq. 2 with both directions slowing each other down. For routines without reuse (levels 1
    /// and 2).
    #[must_use]
    pub fn bidirectional(&self) -> f64 {
        self.gpu_s.max(self.overlap()) * (self.k - 1.0) + self.t_in() + self.gpu_s + self.t_out()
    }

    /// `k_in`: number of sub-problems, after the first, that wait for a tile.
    #[must_use]
    pub fn k_in(&self) -> f64 {
        self.waiting().map(|(_, tiles)| tiles).sum()
    }

    /// Eq. 5: each tile is fetched once. For level 3.
    ///
    /// A flat problem may have more tiles to fetch than kernels to run (`k_in > k`), which the paper's formula does not
    /// cover: then the time of all kernels is spread evenly over the tiles that are waited for.
    #[must_use]
    pub fn reuse(&self) -> f64 {
        let k_in = self.k_in();
        let pipelined = if k_in <= self.k {
            self.waiting()
                .map(|(s, tiles)| s.h2d_s.max(self.gpu_s) * tiles)
                .sum::<f64>()
                + self.gpu_s * (self.k - k_in)
        } else {
            let kernels_s = self.gpu_s * self.k / k_in;
            self.waiting()
                .map(|(s, tiles)| s.h2d_s.max(kernels_s) * tiles)
                .sum()
        };
        pipelined + self.t_in() + self.t_out()
    }

    /// The operands that are fetched, each with the number of its tiles after the first.
    fn waiting(&self) -> impl Iterator<Item = (&Stream, f64)> {
        self.streams
            .iter()
            .filter(|s| s.get)
            .map(|s| (s, (s.tiles - 1.0).max(0.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(get: bool, set: bool, tiles: f64) -> Stream {
        Stream {
            get,
            set,
            tiles,
            h2d_s: 3.0,
            d2h_s: 2.0,
        }
    }

    fn pipe(streams: &[Stream], gpu_s: f64, k: f64) -> Pipeline<'_> {
        Pipeline {
            streams,
            gpu_s,
            k,
            slow_h2d: 1.5,
            slow_d2h: 2.0,
        }
    }

    #[test]
    fn by_hand() {
        // gemm with beta = 0 in 4 x 4 x 4 tiles.
        let s = [
            stream(true, false, 16.0),
            stream(true, false, 16.0),
            stream(false, true, 16.0),
        ];
        let p = pipe(&s, 5.0, 64.0);
        // Eq. 1: 3 operands of 3 s in and 2 s out; max(5, 9, 6) = 9.
        assert_eq!(p.baseline(), 9.0 * 63.0 + 9.0 + 5.0 + 6.0);
        assert_eq!((p.t_in(), p.t_out()), (6.0, 2.0));
        // Eq. 2: max(5, 6, 2) = 6.
        assert_eq!(p.data_location(), 6.0 * 63.0 + 6.0 + 5.0 + 2.0);
        // Eq. 3: 9 in, 4 out when slowed down; 4 + (9 - 4) / 1.5.
        let over = 4.0 + 5.0 / 1.5;
        assert_eq!(p.overlap(), over);
        assert_eq!(p.bidirectional(), over * 63.0 + 6.0 + 5.0 + 2.0);
        // Eq. 5: 15 + 15 tiles after the first ones.
        assert_eq!(p.k_in(), 30.0);
        assert_eq!(p.reuse(), 5.0 * 30.0 + 5.0 * 34.0 + 6.0 + 2.0);
        // Arithmetic no longer hides the transfers: max(3, 1).
        let fast = pipe(&s, 1.0, 64.0);
        assert_eq!(fast.reuse(), 3.0 * 30.0 + 34.0 + 6.0 + 2.0);
    }

    #[test]
    fn the_other_branch_of_eq_3() {
        let s = [stream(false, true, 1.0), stream(true, true, 1.0)];
        let p = pipe(&s, 1.0, 2.0);
        // In 3, out 4; slowed down 4.5 and 8: 4.5 + 3.5 / 2.
        assert_eq!(p.overlap(), 6.25);
        // A transfer in one direction alone is not slowed down.
        let s = [stream(true, false, 1.0)];
        assert_eq!(pipe(&s, 1.0, 2.0).overlap(), 3.0);
    }

    #[test]
    fn resident_operands_cost_nothing() {
        let resident = [stream(false, false, 16.0); 3];
        let p = pipe(&resident, 5.0, 64.0);
        // As printed in the paper, k_in would be -3.
        assert_eq!(p.k_in(), 0.0);
        assert_eq!(p.reuse(), 5.0 * 64.0);
        assert_eq!(p.data_location(), p.reuse());
    }

    #[test]
    fn flat_problems_are_no_cheaper_than_their_transfers() {
        let s = [stream(true, false, 10.0), stream(true, true, 10.0)];
        let p = pipe(&s, 1.0, 10.0);
        assert_eq!(p.k_in(), 18.0);
        assert_eq!(p.reuse(), 54.0 + 6.0 + 2.0);
    }

    #[test]
    fn fetching_less_is_never_slower() {
        let mut last = 0.0;
        for tiles in [0.0, 0.5, 1.0, 3.0, 16.0, 60.0] {
            let s = [
                stream(tiles > 0.0, false, tiles),
                stream(true, false, 4.0),
                stream(false, true, 4.0),
            ];
            let t = pipe(&s, 1.0, 64.0).reuse();
            assert!(t >= last);
            last = t;
        }
    }
}
