//! A/B probes of predictions: [`crate::policy::ab_probe`] on the policy's clock.

use super::asked::Asked;
use super::offload_policy::Policy;
use crate::model::decide::{Decision, Mode, OperandState, Reason};
use crate::policy::ab_probe::{Expected, Where};

/// The final decision for a call, given the predicted one: the other side (host or devices) if earlier calls of the
/// same key were clearly faster there, or if this call is the A/B probe that measures the other side.
pub(super) fn probed(
    policy: &Policy,
    key: u64,
    predicted: Decision,
    asked: &Asked<'_>,
) -> Decision {
    let place = match predicted {
        Decision::Offload { .. } => Where::Devices,
        Decision::Host(Reason::PredictedSlower) => Where::Host,
        Decision::Host(_) => return predicted,
    };
    if !policy.probes() {
        return predicted;
    }
    let on_devices = || asked.answer(Mode::Always);
    let result_of_others = |o: &OperandState<'_>| o.stale > 0 && o.alone == 0;
    let predict = |place: Where| match place {
        Where::Host => Expected {
            seconds: asked.on_host(),
            measured: policy.host_s_is_sure(&asked.question.work),
            copies: asked.question.operands.iter().any(result_of_others),
        },
        Where::Devices => Expected {
            seconds: match on_devices() {
                Decision::Offload { predicted_s, .. } => predicted_s,
                Decision::Host(_) => f64::INFINITY,
            },
            measured: false,
            copies: false,
        },
    };
    let calls = |place: Where, mark: u64| {
        let more = match place {
            Where::Host if mark == 0 => 0,
            Where::Host => mark - policy.sites.known(key)?.left().min(mark),
            Where::Devices => policy.sites.known(key)?.replayed().checked_sub(mark)?,
        };
        u32::try_from(more + 1).ok()
    };
    let now = policy.now();
    let probed = policy
        .sites
        .with(key, |site| site.probe.place(now, calls, place, predict));
    match probed.unwrap_or(place) {
        chosen if chosen == place => predicted,
        Where::Host => Decision::Host(Reason::PredictedSlower),
        Where::Devices => on_devices(),
    }
}
