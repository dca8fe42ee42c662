//! The tile sizes of matrix products, and their prediction by Eq. 5 of CoCoPeLia (IV-B): for batches, for calls of one
//! task, and where the timeline would take too long.

use super::exec::{chain_s, device_s};
use super::predictor::pipeline::{Pipeline, Stream};
use super::rates::{DeviceRates, LinkRate};
use crate::base::Side;
use crate::base::{TileSize, Work};

/// Into how many pieces the longest dimension is cut by the tile sizes that are considered.
const PIECES: [usize; 12] = [1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 64];
/// The smallest tile that is considered, unless the problem is smaller.
const LEAST_TILE: usize = 256;

/// The tile sizes that are considered for a problem with this longest dimension, largest first.
pub fn tiles(longest: usize) -> impl Iterator<Item = usize> {
    let tile = move |pieces| match longest.div_ceil(pieces) {
        all if pieces == 1 => all,
        even => even.next_multiple_of(64),
    };
    let mut last = usize::MAX;
    PIECES.into_iter().map(tile).filter(move |&tile| {
        let new = tile < last && (tile >= LEAST_TILE || last == usize::MAX);
        last = last.min(tile);
        new
    })
}

/// How much of an operand has to move, in multiples of its bytes.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Fetch {
    /// To the devices, before use: 1 if no byte is resident, more if the operand is sent several times.
    pub get: f64,
    /// Written back to the host, after the call.
    pub set: f64,
}

impl Fetch {
    /// All of it is sent once, and written back once.
    pub const ALL: Fetch = Fetch { get: 1.0, set: 1.0 };
}

/// A tile size and the predicted time with it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Choice {
    /// Tile size.
    pub tile: TileSize,
    /// Seconds, without the runtime's own time for the call.
    pub seconds: f64,
}

/// `C := alpha op(A) op(B) + beta C`, or another level-3 routine of this form, with an equal share for each device.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Product<'a> {
    /// The share of one device.
    part: Work,
    /// How much of A, B and C has to move. The multiples are those of whole matrices of `m x k`, `k x n` and `m x n`;
    /// an operand that the routine does not have moves nothing.
    fetch: [Fetch; 3],
    /// The links by which A, B and C are uploaded.
    links: [LinkRate; 3],
    devices: f64,
    rates: &'a DeviceRates,
    task_s: f64,
}

impl<'a> Product<'a> {
    /// How much of A, B and C has to move, in multiples of whole matrices, if these bytes of them are uploaded and written back.
    /// An operand that the routine does not have moves nothing.
    #[must_use]
    pub fn fetch(work: &Work, moved: [Option<(f64, f64)>; 3]) -> [Fetch; 3] {
        let (m, n, k) = (work.m as f64, work.n as f64, work.k as f64);
        let elements = [m * k, k * n, m * n];
        let size = work.dtype.size() as f64;
        std::array::from_fn(|i| {
            let whole = (elements[i] * size).max(1.0);
            moved[i].map_or(Fetch::default(), |(sent, back)| Fetch {
                get: sent / whole,
                set: back / whole,
            })
        })
    }

    /// The product on `devices` devices, at least one, with the given rates while all of them transfer; each task takes
    /// `task_s` to issue. The operand that every device needs is uploaded from the host once and copied from device to
    /// device.
    #[must_use]
    pub fn new(
        work: &Work,
        fetch: [Fetch; 3],
        devices: usize,
        rates: &'a DeviceRates,
        task_s: f64,
    ) -> Product<'a> {
        let passed_on = rates.h2d.blend(1.0 / devices as f64, &rates.p2p);
        let mut links = [rates.h2d; 3];
        links[usize::from(!by_columns(work))] = passed_on;
        Product {
            part: part(work, devices),
            fetch,
            links,
            devices: devices as f64,
            rates,
            task_s,
        }
    }

    /// The best tile size on devices of `memory` bytes each.
    #[must_use]
    pub fn select(&self, memory: usize) -> Choice {
        let part = &self.part;
        let longest = part.m.max(part.n).max(part.k).max(1);
        // Device memory holds three tiles of each operand: one in use, one arriving, one leaving.
        let most = ((memory as f64 / 9.0 / part.dtype.size() as f64).sqrt()) as usize;
        let choice = |tile| Choice {
            tile: TileSize::square(tile),
            seconds: self.seconds(tile),
        };
        let fitting = tiles(longest).filter(|&tile| tile <= most).map(choice);
        let least = fitting.min_by(|x, y| x.seconds.total_cmp(&y.seconds));
        least.unwrap_or_else(|| choice(LEAST_TILE.min(longest)))
    }

    /// Predicted seconds with tiles of this size: Eq. 5 for the share of one device, as all devices work at the same
    /// time.
    #[must_use]
    pub fn seconds(&self, tile: usize) -> f64 {
        self.seconds_by(&|pipeline| pipeline.reuse(), tile)
    }

    /// Tasks of one device with tiles of this size.
    #[must_use]
    pub fn tasks(&self, tile: usize) -> usize {
        let Work { m, n, k, .. } = self.part;
        TileSize::square(tile.max(1)).products(m, n, k)
    }

    /// Predicted seconds with tiles of this size by another equation.
    pub(super) fn seconds_by(&self, equation: &dyn Fn(&Pipeline<'_>) -> f64, tile: usize) -> f64 {
        let (part, rates, tile) = (&self.part, self.rates, tile.max(1));
        let cut = |len: usize| (len as f64 / tile as f64).max(1.0);
        let edge = |len: usize| len.min(tile) as f64;
        let size = part.dtype.size() as f64;
        let stream = |operand: usize, rows: usize, cols: usize| {
            let (fetch, h2d) = (&self.fetch[operand], &self.links[operand]);
            let bytes = edge(rows) * edge(cols) * size;
            let missing = cut(rows) * cut(cols) * fetch.get.max(0.0);
            Stream {
                get: missing > 0.0,
                set: fetch.set > 0.0,
                tiles: missing,
                h2d_s: h2d.time(bytes * missing.min(1.0)),
                d2h_s: rates.d2h.time(bytes) * fetch.set.clamp(0.0, 1.0),
            }
        };
        let streams = [
            stream(0, part.m, part.k),
            stream(1, part.k, part.n),
            stream(2, part.m, part.n),
        ];
        let one = Work {
            m: part.m.min(tile),
            n: part.n.min(tile),
            k: part.k.min(tile),
            ..*part
        };
        let pipeline = Pipeline {
            streams: &streams,
            // Of the tasks along the inner dimension one is the routine's own kernel, the others are products.
            gpu_s: device_s(&one, rates) - chain_s(&one) * (1.0 - 1.0 / cut(part.k)),
            k: cut(part.m) * cut(part.n) * cut(part.k),
            slow_h2d: rates.h2d.bid_slowdown,
            slow_d2h: rates.d2h.bid_slowdown,
        };
        // One thread issues the tasks of all devices.
        let tasks = pipeline.k * self.devices * self.task_s;
        // The write-back takes at least the result's bytes over the link, however well the rest overlaps.
        let write_back = rates
            .d2h
            .time(part.m as f64 * part.n as f64 * size * self.fetch[2].set.clamp(0.0, 1.0));
        equation(&pipeline).max(write_back).max(tasks)
    }
}

/// The work of one of `devices` devices: for level 3 an equal part of the output's columns or rows, for level 2 of the matrix's
/// columns; a vector is not divided.
#[must_use]
pub fn part(work: &Work, devices: usize) -> Work {
    let mut part = *work;
    match work.routine.level() {
        1 => {}
        3 if !by_columns(work) => part.m = work.m.div_ceil(devices),
        _ => part.n = work.n.div_ceil(devices),
    }
    part
}

/// The operands of a level-3 routine in the roles of A, B and C in `C := A B + C`. An operand that is both input and
/// output has the role of C alone, since it is fetched once.
pub fn places<'a, T>(work: &Work, operands: &'a [T]) -> Option<[Option<&'a T>; 3]> {
    let right = work.side == Side::Right;
    match operands {
        _ if !work.is_level3() => None,
        [a, b, c] if right => Some([Some(b), Some(a), Some(c)]),
        [a, b, c] => Some([Some(a), Some(b), Some(c)]),
        [a, c] if right => Some([None, Some(a), Some(c)]),
        [a, c] => Some([Some(a), None, Some(c)]),
        _ => None,
    }
}

/// Whether a plan gives each device columns of the output (else rows).
fn by_columns(work: &Work) -> bool {
    if work.routine.triangle().is_some() {
        work.side == Side::Left
    } else {
        work.m / 8 < work.n
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{DeviceId, DeviceSet, Dtype};
    use crate::model::{HostRates, Rates};

    const COLD: [Fetch; 3] = [
        Fetch { get: 1.0, set: 0.0 },
        Fetch { get: 1.0, set: 0.0 },
        Fetch { get: 0.0, set: 1.0 },
    ];
    const RESIDENT: [Fetch; 3] = [Fetch { get: 0.0, set: 0.0 }; 3];
    const MEMORY: usize = 140 << 30;

    fn h200() -> Rates {
        Rates::h200(HostRates::of_cores(128))
    }

    fn select(work: &Work, fetch: &[Fetch; 3], devices: usize, memory: usize) -> Choice {
        let machine = h200();
        let rates = machine.among(&DeviceSet::equal(devices));
        Product::new(work, *fetch, devices, &rates, machine.task_s).select(memory)
    }

    #[test]
    fn sane_on_the_h200() {
        let cold = |n, devices| {
            let work = Work::gemm(Dtype::D, n, n, n);
            select(&work, &COLD, devices, MEMORY)
        };
        let large = cold(16384, 1);
        assert!((2048..8192).contains(&large.tile.n), "{large:?}");
        // By hand, for T = 4096: 30 tiles of 2.43 ms, 34 kernels of 2.23 ms, 3 more tiles.
        let (work, machine) = (Work::gemm(Dtype::D, 16384, 16384, 16384), h200());
        let of_4096 =
            Product::new(&work, COLD, 1, machine.of(DeviceId(0)), machine.task_s).seconds(4096);
        assert!((of_4096 / 0.156 - 1.0).abs() < 0.02, "{of_4096}");
        assert!(large.seconds <= of_4096);
        assert!(cold(4096, 1).tile.n < 4096);
        assert!(cold(16384, 4).seconds < large.seconds);
        assert!(cold(1000, 1).tile.n <= 1024);
    }

    #[test]
    fn resident_problems_are_not_cut_for_nothing() {
        let work = Work::gemm(Dtype::D, 8192, 8192, 8192);
        let choice = select(&work, &RESIDENT, 1, MEMORY);
        assert_eq!(choice.tile.n, 8192);
        assert_eq!(choice.seconds, device_s(&work, h200().of(DeviceId(0))));
    }

    #[test]
    fn memory_limits_the_tile() {
        let work = Work::gemm(Dtype::D, 16384, 16384, 16384);
        for memory in [1 << 20, 9 * 8 * 1024 * 1024, 9 * 8 * 2048 * 2048] {
            let tile = select(&work, &RESIDENT, 1, memory).tile.n;
            assert!(tile == 256 || 9 * 8 * tile * tile <= memory);
        }
        assert_eq!(
            select(&work, &RESIDENT, 1, 9 * 8 * 2048 * 2048).tile.n,
            2048
        );
    }

    #[test]
    fn tiles_cut_evenly() {
        let all = |n| tiles(n).collect::<Vec<_>>();
        assert_eq!(
            all(16384),
            [
                16384, 8192, 5504, 4096, 3328, 2752, 2048, 1408, 1024, 704, 512, 256
            ]
        );
        assert_eq!(
            (all(1), all(100), all(300)),
            (vec![1], vec![100], vec![300])
        );
        assert_eq!(all(1000), [1000, 512, 384, 256]);
    }

    #[test]
    fn less_to_move_is_never_slower() {
        let work = Work::gemm(Dtype::S, 6000, 5000, 7000);
        for devices in [1, 2, 8] {
            let mut last = 0.0;
            for get in [0.0, 0.1, 0.5, 0.9, 1.0] {
                let fetch = [
                    Fetch { get, set: 0.0 },
                    Fetch { get, set: 0.0 },
                    Fetch { get, set: get },
                ];
                let t = select(&work, &fetch, devices, MEMORY).seconds;
                assert!(t >= last && t.is_finite());
                last = t;
            }
        }
    }

    #[test]
    fn larger_problems_take_longer() {
        let mut last = 0.0;
        for n in [1, 10, 100, 300, 1000, 3000, 10_000, 30_000] {
            let work = Work::gemm(Dtype::D, n, n, n);
            let t = select(&work, &COLD, 1, MEMORY).seconds;
            assert!(t > last);
            last = t;
        }
    }
}
