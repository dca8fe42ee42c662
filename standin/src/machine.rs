//! The simulated machine whose devices the stand-in presents as GPUs.

use std::sync::OnceLock;

use semcache::base::DeviceId;
use semcache::device::api::{Backend, DeviceError};
use semcache::device::sim::{SimConfig, SimMachine};

use crate::end::end_with_process;
use crate::files;
use crate::misuse::complain;
use crate::names::{Outcome, Status};
use crate::settings::settings;
use crate::stream::Tickets;
use crate::times;

static MACHINE: OnceLock<Option<SimMachine>> = OnceLock::new();

/// Starts the simulated machine.
pub(crate) fn start() -> Outcome {
    let settings = settings();
    if let Some(wrong) = &settings.wrong {
        complain(format_args!("{wrong}"));
        return Err(Status::Unknown);
    }
    if settings.devices == 0 {
        return Err(Status::NoDevice);
    }
    let machine = MACHINE.get_or_init(|| {
        let config = SimConfig {
            devices: settings.devices,
            memory: settings.memory,
            late: settings.late,
            poison: settings.poison,
            seed: settings.seed,
            ..SimConfig::default()
        };
        end_with_process();
        files::open();
        times::start();
        SimMachine::new(config)
            .inspect_err(|error| complain(format_args!("{error}")))
            .ok()
    });
    machine.as_ref().map(drop).ok_or(Status::Unknown)
}

/// The simulated machine, once `cuInit` has started it.
pub(crate) fn machine() -> Outcome<&'static SimMachine> {
    MACHINE
        .get()
        .and_then(Option::as_ref)
        .ok_or(Status::NotInitialized)
}

/// A device by its ordinal.
pub(crate) fn device(ordinal: i32) -> Outcome<DeviceId> {
    let n = machine()?.devices().len();
    u8::try_from(ordinal)
        .ok()
        .filter(|d| usize::from(*d) < n)
        .map(DeviceId)
        .ok_or(Status::InvalidDevice)
}

/// Whether the operations of all tickets are complete.
pub(crate) fn done(tickets: &Tickets) -> Outcome<bool> {
    let machine = machine()?;
    for ticket in tickets.as_slice() {
        if !machine.done(*ticket).map_err(status)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Waits until the operations of all tickets are complete.
pub(crate) fn wait(tickets: &Tickets) -> Outcome {
    let machine = machine()?;
    for ticket in tickets.as_slice() {
        machine.wait(*ticket).map_err(status)?;
    }
    Ok(())
}

/// The CUDA status for an error of the simulated machine.
pub(crate) fn status(error: DeviceError) -> Status {
    match error {
        DeviceError::OutOfMemory { .. } => Status::OutOfMemory,
        DeviceError::Refused { code: 1, .. } => Status::InvalidValue,
        DeviceError::Refused { code: 700, .. } => Status::IllegalAddress,
        DeviceError::Refused { .. } => Status::Unknown,
        // Pageable memory was packed by this library before, so a copy cannot find it unreadable.
        DeviceError::Unreadable { .. } | DeviceError::Lost { .. } => Status::LaunchFailed,
    }
}
