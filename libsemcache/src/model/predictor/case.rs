//! What a predictor is asked, and what it answers.

use crate::base::{TileSize, Work};
use crate::model::exec::device_s;
use crate::model::rates::DeviceRates;
use crate::model::select::{Fetch, part};

/// A call on devices, as far as a prediction depends on it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Case<'a> {
    /// Routine, element type and sizes of the whole call.
    pub work: Work,
    /// Bytes that the call uses of each operand, in the order of the routine's operands.
    pub bytes: &'a [usize],
    /// How much of each operand has to be uploaded and written back, in multiples of these bytes.
    pub moved: &'a [Fetch],
    /// Tile size of level 3.
    pub tile: TileSize,
    /// Number of devices that the call uses, at least one.
    pub devices: usize,
    /// The rates of one device, of mean speed if they differ, while all of them transfer.
    pub rates: &'a DeviceRates,
    /// Seconds in which the runtime issues a task.
    pub task_s: f64,
}

/// What a predictor says of a case.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Answer {
    /// Seconds from the first copy to the end of the last kernel or write-back, without page-locking and without the
    /// runtime's own time for the call.
    pub seconds: f64,
    /// The number of pieces whose copies and kernels overlap: streams, sub-problems or tasks.
    pub pieces: usize,
}

/// A model that predicts the seconds of a call on devices.
pub trait Predictor {
    /// A short name for tables.
    fn name(&self) -> &'static str;

    /// The paper and the numbers of the equations.
    fn source(&self) -> &'static str;

    /// The prediction; `None` if the model does not apply to such a call.
    fn answer(&self, case: &Case<'_>) -> Option<Answer>;

    /// The seconds of the prediction.
    fn seconds(&self, case: &Case<'_>) -> Option<f64> {
        self.answer(case).map(|answer| answer.seconds)
    }
}

impl Case<'_> {
    /// The work of one device.
    #[must_use]
    pub fn part(&self) -> Work {
        part(&self.work, self.devices)
    }

    /// Seconds of all kernels of one device.
    #[must_use]
    pub fn kernels_s(&self) -> f64 {
        device_s(&self.part(), self.rates)
    }

    /// Bytes of each operand that one device uploads if no device passes on what it has: its part of the largest operand, and
    /// the whole of the others.
    pub fn uploads(&self) -> impl Iterator<Item = f64> {
        let largest = (0..self.bytes.len()).max_by_key(|&i| self.bytes[i]);
        let each = self.bytes.iter().zip(self.moved).enumerate();
        each.map(move |(i, (&bytes, fetch))| {
            let parts = if Some(i) == largest { self.devices } else { 1 };
            bytes as f64 * fetch.get / parts as f64
        })
    }

    /// Bytes of each operand that one device writes back: every device owns a part of the results.
    pub fn write_backs(&self) -> impl Iterator<Item = f64> {
        let each = self.bytes.iter().zip(self.moved);
        each.map(|(&bytes, fetch)| bytes as f64 * fetch.set / self.devices as f64)
    }
}
