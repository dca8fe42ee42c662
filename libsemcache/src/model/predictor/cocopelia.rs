//! The models of CoCoPeLia as predictors.

use super::case::{Answer, Case, Predictor};
use super::pipeline::{Pipeline, Stream};
use crate::model::select::{Fetch, Product, places};

/// The models of CoCoPeLia (Anastasiadis et al., ISPASS 2021, section III-B), each of which adds to the one before it. Eq. 3,
/// the slowdown of transfers in both directions at once, is a term of Eq. 4. Of level 3 a task is a product of tiles. Of levels
/// 1 and 2 the runtime launches one kernel on each device, so `k` is 1 and Eq. 2, 4 and 5 agree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Equation {
    /// Eq. 1: every task moves a tile of every operand in both directions.
    Baseline,
    /// Eq. 2: only what is not where it is needed moves.
    DataLocation,
    /// Eq. 4: and both directions slow each other down.
    Bidirectional,
    /// Eq. 5: and each tile is uploaded once.
    Reuse,
}

impl Equation {
    /// The equation's value for a problem after tiling.
    #[must_use]
    pub fn of(self, pipeline: &Pipeline<'_>) -> f64 {
        match self {
            Equation::Baseline => pipeline.baseline(),
            Equation::DataLocation => pipeline.data_location(),
            Equation::Bidirectional => pipeline.bidirectional(),
            Equation::Reuse => pipeline.reuse(),
        }
    }
}

impl Predictor for Equation {
    fn name(&self) -> &'static str {
        match self {
            Equation::Baseline => "CoCoPeLia baseline",
            Equation::DataLocation => "CoCoPeLia data location",
            Equation::Bidirectional => "CoCoPeLia bidirectional",
            Equation::Reuse => "CoCoPeLia data reuse",
        }
    }

    fn source(&self) -> &'static str {
        match self {
            Equation::Baseline => "Anastasiadis et al., ISPASS 2021, Eq. 1",
            Equation::DataLocation => "Anastasiadis et al., ISPASS 2021, Eq. 2",
            Equation::Bidirectional => "Anastasiadis et al., ISPASS 2021, Eq. 3, 4",
            Equation::Reuse => "Anastasiadis et al., ISPASS 2021, Eq. 5",
        }
    }

    fn answer(&self, case: &Case<'_>) -> Option<Answer> {
        let everything = vec![Fetch::ALL; case.bytes.len()];
        let case = &match self {
            Equation::Baseline => Case {
                moved: &everything,
                ..*case
            },
            _ => *case,
        };
        let operands = case.bytes.iter().zip(case.moved);
        let moved: Vec<_> = operands
            .map(|(&bytes, fetch)| (bytes as f64 * fetch.get, bytes as f64 * fetch.set))
            .collect();
        let Some(places) = places(&case.work, &moved) else {
            return Some(self.one_kernel(case));
        };
        let fetch = Product::fetch(&case.work, places.map(|place| place.copied()));
        let product = Product::new(&case.work, fetch, case.devices, case.rates, case.task_s);
        let tile = case.tile.longest();
        Some(Answer {
            seconds: product.seconds_by(&|pipeline| self.of(pipeline), tile),
            pieces: product.tasks(tile),
        })
    }
}

impl Equation {
    /// A routine of level 1 or 2: one kernel on each device.
    fn one_kernel(self, case: &Case<'_>) -> Answer {
        let stream = |(sent, back)| Stream {
            get: sent > 0.0,
            set: back > 0.0,
            tiles: 1.0,
            h2d_s: case.rates.h2d.time(sent),
            d2h_s: case.rates.d2h.time(back),
        };
        let streams: Vec<Stream> = case.uploads().zip(case.write_backs()).map(stream).collect();
        let pipeline = Pipeline {
            streams: &streams,
            gpu_s: case.kernels_s(),
            k: 1.0,
            slow_h2d: case.rates.h2d.bid_slowdown,
            slow_d2h: case.rates.d2h.bid_slowdown,
        };
        Answer {
            seconds: self.of(&pipeline),
            pieces: 1,
        }
    }
}
