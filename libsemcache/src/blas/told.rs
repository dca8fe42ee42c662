//! What the process knows of its machine and expects of calls, for programs that ask (`semcache.h`).

use super::call::Call;
use super::offload_policy::Policy;
use super::predict::{Asking, Machine, predict};
use super::{Checked, check};
use crate::base::routine::Sizes;
use crate::base::{DeviceId, Dtype, Op, Routine, Value};
use crate::model::decide::Decision;

/// The rates of a device and of the host BLAS: bytes per second, seconds, and real floating point operations per second in single and
/// double precision.
#[derive(Clone, Copy, Default, Debug)]
pub struct Told {
    /// Copies from the host, to the host, and from another device.
    pub bytes_per_s: [f64; 3],
    /// What a copy from the host takes besides its bytes.
    pub latency_s: f64,
    /// Large products on the device.
    pub device_flops: [f64; 2],
    /// Large products by the host BLAS.
    pub host_flops: [f64; 2],
    /// The device's own memory.
    pub memory_bytes_per_s: f64,
    /// Bytes of memory that copies of matrices may take.
    pub memory: usize,
}

/// What is known of a device; `None` if there is no such device.
#[must_use]
pub fn of_device(policy: &Policy, device: DeviceId) -> Option<Told> {
    let memory = *policy.memory.get(device.index())?;
    let rates = policy.rates();
    let of = rates.of(device);
    let real = [Dtype::S, Dtype::D];
    Some(Told {
        bytes_per_s: [of.h2d, of.d2h, of.p2p].map(|link| link.bytes_per_s),
        latency_s: of.h2d.latency_s,
        device_flops: real.map(|dtype| of.gemm(dtype).peak_flops),
        host_flops: real.map(|dtype| rates.host.gemm_flops[dtype as usize]),
        memory_bytes_per_s: of.memory_bandwidth,
        memory,
    })
}

/// What is expected of a call.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct Expected {
    /// Devices that the call would run on; zero: the host BLAS runs it.
    pub devices: usize,
    /// Seconds on the host.
    pub host_s: f64,
    /// Seconds on devices; zero if they have no room for the call.
    pub devices_s: f64,
}

/// What is expected of a call with this name (`dgemm`) and these sizes m, n and k, those that the routine has, of matrices without gaps on
/// the host, or on the devices (`resident`). `None`: devices run no such call.
#[must_use]
pub fn of_call(policy: &Policy, name: &str, sizes: [i64; 3], resident: bool) -> Option<Expected> {
    let lower = name.to_ascii_lowercase();
    let all = || {
        Routine::ALL
            .iter()
            .flat_map(|r| Dtype::ALL.map(|d| (*r, d)))
    };
    let (routine, dtype) = all().find(|(r, d)| r.record().names[*d as usize] == lower)?;
    let wanted = routine.record().signature.sizes.len();
    let mut call = Call::new(routine, dtype, sizes.get(..wanted)?, &[]);
    let number = |re| Value { re, im: 0.0 };
    (call.alpha, call.beta) = (number(2.0), Value::ZERO);
    let [m, n, k] = call.sizes().map(|n| usize::try_from(n).unwrap_or(0));
    let shape = Sizes {
        m,
        n,
        k,
        op_a: Op::None,
        op_b: Op::None,
    };
    for (i, (slot, at)) in routine.operands().iter().zip(&mut call.at).enumerate() {
        let rows = slot.extent.stored(&shape).0.max(1);
        let ld = if slot.extent.is_vector() { 1 } else { rows };
        at.addr = (i + 1) << 54;
        at.ld = i64::try_from(ld).unwrap_or(1);
    }
    let Checked::Run(problem, _) = check(&call) else {
        return None;
    };
    let machine = Machine {
        rates: policy.rates(),
        links: policy.links.clone(),
        memory: policy.memory.clone(),
    };
    let asking = Asking {
        problem: &problem,
        on_devices: &[resident; 4],
        read_back: !resident,
        locked: false,
        tile: policy.tile,
    };
    let found = predict(&machine, &asking);
    let on = found.on_devices.as_ref().filter(|_| found.has_room());
    Some(Expected {
        devices: match &found.decision {
            Decision::Offload { devices, .. } if on.is_some() => devices.len(),
            _ => 0,
        },
        host_s: found.host_s,
        devices_s: on.map_or(0.0, |on| on.choice.seconds),
    })
}
