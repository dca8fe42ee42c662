//! Everything that is told of a call.

use semcache::blas::predict::Prediction;

use super::call::Call;
use super::machine::Described;
use super::options::Options;
use crate::trace::Drawn;

/// The call, the machine, and the prediction.
#[derive(Debug)]
pub(super) struct Told<'a> {
    pub(super) call: &'a Call,
    pub(super) machine: &'a Described,
    pub(super) options: &'a Options,
    pub(super) prediction: &'a Prediction,
}

impl Told<'_> {
    /// The chart of the timeline, if the devices have room for the call.
    pub(super) fn drawn(&self) -> Option<Drawn> {
        let on = self.prediction.on_devices.as_ref()?;
        let timed = on.timed.as_ref()?;
        let devices = on.devices.ids().map(|id| {
            let name = self.machine.names.get(id.index());
            (id, name.map_or("", String::as_str))
        });
        Some(Drawn::new(
            &self.call.title(),
            &devices.collect::<Vec<_>>(),
            &timed.operations,
            |task| {
                let kernel = &timed.plan.tasks[task].kernel;
                kernel.routine.record().names[kernel.dtype as usize]
            },
        ))
    }
}
