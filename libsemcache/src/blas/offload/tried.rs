//! Predictions put to trials: [`crate::model::trial`] on the machine's clock.

use super::{Machine, Rates};
use crate::base::counters::COUNTERS;
use crate::model::decide::{self, Decision, Floor, Mode, Question, Reason};
use crate::model::trial::Place;

/// What is done about a prediction: the other thing, if earlier calls of this kind were clearly faster so, or to find
/// that out.
pub(super) fn tried(
    machine: &Machine,
    key: u64,
    predicted: Decision,
    question: &Question<'_>,
    rates: &Rates,
) -> Decision {
    let place = match predicted {
        Decision::Offload { .. } => Place::Devices,
        Decision::Host(Reason::PredictedSlower) => Place::Host,
        Decision::Host(_) => return predicted,
    };
    if !machine.tries() {
        return predicted;
    }
    let on_devices = || {
        let mode = Mode::Always;
        let question = Question { mode, ..*question };
        decide::decide(&question, rates, &Floor::default())
    };
    let predict = |place: Place| match place {
        Place::Host => decide::on_host(question, rates),
        Place::Devices => match on_devices() {
            Decision::Offload { predicted_s, .. } => predicted_s,
            Decision::Host(_) => f64::INFINITY,
        },
    };
    let calls = |place: Place, mark: u64| match place {
        Place::Host if mark == 0 => Some(1),
        Place::Host => {
            let made = mark - machine.memo.left(key)?.min(mark) + 1;
            u32::try_from(made).ok()
        }
        // Remembered calls are not looked at: whose they were is not known.
        Place::Devices => (COUNTERS.remembered.get() == mark).then_some(1),
    };
    let now = machine.now();
    let chosen = machine
        .learned()
        .trials
        .place(key, now, calls, place, predict);
    match chosen {
        _ if chosen == place => predicted,
        Place::Host => Decision::Host(Reason::PredictedSlower),
        Place::Devices => on_devices(),
    }
}
