//! Whether the host computes a part of a call beside the devices.

use super::offload::{LANDED, Offload, Uploads};
use super::{Question, WORTH_MORE_DEVICES, counted};
use crate::base::{DeviceSet, Work};
use crate::model::exec::device_s;
use crate::model::rates::Rates;
use crate::model::select::Fetch;

/// A host that would get a smaller share of a call is left out of it at once.
const LEAST_SHARE: f64 = 0.05;
/// So it is if the call is predicted to take less than this number of seconds on devices. Its threads would have to be woken, and they
/// then keep the cores busy for some time: a dtrsm of order 512 from the host took 0.9 to 1.0 ms on an H100 with a host's part, and
/// 0.63 to 0.66 ms without.
const LEAST_S: f64 = 1e-3;

/// The host's share of the work if devices and host each get as much as their rates tell, on operands that they hold. `None`
/// if it is so small that the call could hardly end sooner. The devices are predicted to take `predicted_s` for the call without the
/// host; the host BLAS is measured or predicted to take `host_s` for all of it.
#[must_use]
pub fn share(
    work: &Work,
    devices: &DeviceSet,
    machine: &Rates,
    predicted_s: f64,
    host_s: f64,
) -> Option<f64> {
    if predicted_s < LEAST_S {
        return None;
    }
    let host = 1.0 / host_s;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Dtype;
    use crate::model::{HostRates, exec};

    #[test]
    fn short_calls_and_slow_hosts_are_not_divided() {
        let machine = Rates::generic(HostRates::of_cores(16));
        let work = Work::gemm(Dtype::D, 4096, 4096, 4096);
        let on = DeviceSet::equal(1);
        let share = |predicted_s, host_s| share(&work, &on, &machine, predicted_s, host_s);
        let host_s = exec::host_s(&work, &machine.host);
        let by_rates = share(0.02, host_s).expect("a host that is worth it");
        assert_eq!(share(LEAST_S / 2.0, host_s), None);
        let of_faster = share(0.02, host_s / 2.0).expect("more than by the rates");
        assert!(of_faster > by_rates && of_faster < 2.0 * by_rates);
        assert_eq!(share(0.02, 1000.0 * host_s), None);
    }
}
