//! A question to the model about calls that the program makes as one.

use crate::model::decide::{self, Decision, Floor, Mode, Question, Reason};
use crate::model::exec;
use crate::model::rates::Rates;

/// A question to the model, with the rates that answer it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) question: Question<'a>,
    pub(super) rates: &'a Rates,
    /// Seconds that the calls after the first one cost in addition.
    pub(super) more_s: f64,
}

impl Asked<'_> {
    /// The decision by prediction, under the given mode.
    pub(super) fn answer(&self, mode: Mode) -> Decision {
        let question = Question {
            mode,
            ..self.question
        };
        match decide::decide(&question, self.rates, &Floor::default()) {
            Decision::Offload {
                devices,
                tile,
                predicted_s,
                host_s,
            } if self.more_s > 0.0 => {
                // An upload that later calls are expected to pay for (upload amortisation) may make this call slower
                // than the host.
                let now_s = predicted_s.min(host_s * 0.96) + self.more_s;
                if mode == Mode::Auto && now_s >= host_s {
                    return Decision::Host(Reason::PredictedSlower);
                }
                Decision::Offload {
                    devices,
                    tile,
                    predicted_s: predicted_s + self.more_s,
                    host_s,
                }
            }
            decision => decision,
        }
    }

    /// Seconds on the host with all operands there, measured or predicted.
    pub(super) fn plain_s(&self) -> f64 {
        let predicted = || exec::host_s(&self.question.work, &self.rates.host);
        self.question.host_s.unwrap_or_else(predicted)
    }

    /// Predicted seconds on the host, the write-back of operands included.
    pub(super) fn on_host(&self) -> f64 {
        decide::on_host(&self.question, self.rates)
    }
}
