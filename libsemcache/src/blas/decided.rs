//! What a decision was and what it came from, in the trace and in the log.

use log::debug;

use super::asked::Asked;
use crate::model::decide::{Decision, Mode};
use crate::trace;

/// Records a decision in the trace, with the predicted times of both sides; that of the devices is zero if no device can
/// run the call.
pub(super) fn record(asked: &Asked<'_>, decision: &Decision, probe: bool) {
    let (devices, device_s) = match decision {
        Decision::Offload { predicted_s, .. } => (true, *predicted_s),
        Decision::Host(_) => match asked.answer(Mode::Always) {
            Decision::Offload { predicted_s, .. } => (false, predicted_s),
            Decision::Host(_) => (false, 0.0),
        },
    };
    trace::record(trace::Event::Decision {
        at: trace::now(),
        cause: trace::cause(),
        seconds: (asked.on_host() as f32, device_s as f32),
        beyond: asked
            .question
            .operands
            .iter()
            .map(|o| o.beyond_s as f32)
            .sum(),
        devices,
        probe,
    });
}

/// Logs a decision, why it is not the predicted one, and the numbers that it came from.
pub(super) fn tell(asked: &Asked<'_>, decision: &Decision, instead: &str) {
    let work = asked.question.work;
    let operands: Vec<String> = asked
        .question
        .operands
        .iter()
        .map(|o| {
            format!(
                "{} KiB ({} resident, {} stale, {} to pin, seen {}, alone {}, read back {:.2}, looked {:.2}, beyond {:.1} us)",
                o.bytes >> 10,
                o.resident >> 10,
                o.stale >> 10,
                o.unpinned >> 10,
                o.seen,
                o.alone,
                o.read_back,
                o.looked,
                o.beyond_s * 1e6
            )
        })
        .collect();
    let verdict = match decision {
        Decision::Offload {
            devices,
            predicted_s,
            ..
        } => {
            let ids: Vec<String> = devices.ids().map(|id| id.0.to_string()).collect();
            format!("devices {}, {:.1} us", ids.join(" "), predicted_s * 1e6)
        }
        Decision::Host(reason) => format!("host: {}", reason.key()),
    };
    debug!(
        "{} {} x {} x {}: {verdict}{instead}; host {:.1} us; {}",
        work.routine.name(work.dtype),
        work.m,
        work.n,
        work.k,
        asked.on_host() * 1e6,
        operands.join(", ")
    );
}
