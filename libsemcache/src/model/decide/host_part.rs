//! Whether the host computes a part of a call beside the devices.

use super::offload::{LANDED, Offload, Uploads};
use super::{Question, WORTH_MORE_DEVICES, counted};
use crate::base::{DeviceSet, Work};
use crate::model::exec::{device_s, host_s};
use crate::model::rates::Rates;
use crate::model::select::Fetch;

/// A host that would get a smaller share of a call is left out of it at once.
const LEAST_SHARE: f64 = 0.05;

/// The host's share of the work if devices and host each get as much as their rates tell, on operands that they hold. `None`
/// if it is so small that the call could hardly end sooner.
#[must_use]
pub fn share(work: &Work, devices: &DeviceSet, machine: &Rates) -> Option<f64> {
    let host = 1.0 / host_s(work, &machine.host);
    let each = devices.ids().map(|id| 1.0 / device_s(work, machine.of(id)));
    let share = host / (host + each.sum::<f64>());
    (share >= LEAST_SHARE).then_some(share)
}

/// Whether a call may wait for its results, so that the host could not compute beside the devices: as for small ones that the
/// CPU is likely to read.
#[must_use]
pub fn may_wait(q: &Question<'_>) -> bool {
    q.operands.iter().any(|o| o.written && o.bytes <= LANDED)
}

/// Whether a call that ends after `with_s` seconds if the host has a part, and after `without_s` otherwise, is divided.
#[must_use]
pub fn pays(with_s: f64, without_s: f64) -> bool {
    with_s < without_s * WORTH_MORE_DEVICES
}

/// How much of each operand moves, in multiples of what the call uses of it.
#[must_use]
pub fn moved(q: &Question<'_>, machine: &Rates, devices: &DeviceSet) -> Vec<Fetch> {
    let operands = counted(q);
    let q = Question {
        operands: &operands,
        ..*q
    };
    Offload::new(&q, machine, *devices).moved_of_each(Uploads::Whole)
}
