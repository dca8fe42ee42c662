//! The entry points of `semcache.h`: what a program asks for outside of BLAS calls. The shim decodes the arguments.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::counted;
use super::mode::{Mode, mode};
use super::phase::{PHASES, Phase};
use super::requests;
use super::start;
use super::started::get;
use super::underway::Underway;
use crate::base::DeviceId;
use crate::base::config::{Devices, Offload};
use crate::base::counters::{COUNTERS, PAGE};
use crate::base::distribution::Distribution;
use crate::blas::names::all as routines;
use crate::blas::section;
use crate::blas::told::{self, Expected, Told};
use crate::cache::{Cache, Residency, names};
use crate::hints::Status;
use crate::hints::event::{Events, Progress};
use crate::hints::jobs::{self, Queued};
use crate::hints::request::Target;
use crate::hints::view::View;
use crate::host;
use crate::process::driver_scope::in_driver_scope;
use crate::process::signals_blocked::SignalsBlocked;
use crate::trace::ranges;

/// How long the first request of a process waits for devices that come up.
const PATIENCE: Duration = Duration::from_secs(30);

static EVENTS: Mutex<Option<Events>> = Mutex::new(None);

/// The number of an event; zero names none.
pub type Number = u64;

/// The calling thread may use the cache. Signals are blocked: a handler of the program that touched an inaccessible page while this
/// thread holds the cache's lock would wait for ever.
pub(super) struct Entered {
    pub(super) cache: &'static Cache,
    _underway: Underway,
    _blocked: SignalsBlocked,
}

/// `None`: no device is in use, so all bytes are on the host.
pub(super) fn enter() -> Result<Option<Entered>, Status> {
    match mode() {
        Mode::Forked | Mode::Ended => return Err(Status::NoDevice),
        Mode::Cold | Mode::Off => return Ok(None),
        Mode::On => {}
    }
    if in_driver_scope() || host::interrupted() {
        return Err(Status::Busy);
    }
    counted::join();
    host::runs_here();
    let blocked = SignalsBlocked::new();
    let cache = get().and_then(|runtime| runtime.cache);
    let entered = cache.zip(Underway::begin());
    Ok(entered.map(|(cache, underway)| Entered {
        cache,
        _underway: underway,
        _blocked: blocked,
    }))
}

fn device(cache: &Cache, number: i32) -> Result<Option<DeviceId>, Status> {
    if number == ALL {
        return Ok(None);
    }
    let index = usize::try_from(number).map_err(|_| Status::Invalid)?;
    let known = index < cache.backend().usable();
    known
        .then(|| Some(DeviceId::at(index)))
        .ok_or(Status::Invalid)
}

/// The number of a device that names all of them.
pub const ALL: i32 = -1;

fn events() -> MutexGuard<'static, Option<Events>> {
    EVENTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Brings devices up if none was yet, and waits for them.
pub(super) fn bring_up() -> Result<(), Status> {
    if mode() == Mode::Cold {
        let config = super::init::config();
        if config.offload == Offload::Never || config.devices == Devices::None {
            return Err(Status::NoDevice);
        }
        if in_driver_scope() || host::interrupted() {
            return Err(Status::Busy);
        }
        start::begin_now();
        PHASES.wait(Phase::Settled, Some(Instant::now() + PATIENCE));
    }
    Ok(())
}

/// Sends a matrix to a device, or its columns to all devices in equal shares ([`ALL`]). With `asynchronous` returns the number of an
/// event, else when the bytes have arrived.
///
/// # Errors
/// See [`Status`].
pub fn prefetch(view: &View, to: i32, asynchronous: bool) -> Result<Number, Status> {
    on_device(view, asynchronous, |cache, target| {
        let to = device(cache, to)?;
        let wanted = !asynchronous || !target.is_on(cache, to);
        Ok(wanted.then_some(move |target: &Target, cache: &Cache| target.prefetch(cache, to)))
    })
}

/// A request that sends bytes of a matrix: `request` checks its arguments and makes it, once devices are up; `None` if there is nothing to
/// do.
fn on_device<R>(
    view: &View,
    asynchronous: bool,
    request: impl FnOnce(&Cache, &Target) -> Result<Option<R>, Status>,
) -> Result<Number, Status>
where
    R: FnOnce(&Target, &Cache) -> Queued + Send + 'static,
{
    view.place()?;
    bring_up()?;
    let entered = enter()?.ok_or(Status::NoDevice)?;
    let cache = entered.cache;
    let Some(target) = Target::of(cache, view)? else {
        return Ok(0);
    };
    let Some(request) = request(cache, &target)? else {
        return Ok(0);
    };
    if !asynchronous {
        let queued = Progress::issued_at_once(request(&target, cache)?);
        return finish(cache, queued, false);
    }
    let work = move || {
        let _underway = Underway::begin().ok_or(Status::NoDevice)?;
        request(&target, cache)
    };
    Ok(event_of(jobs::add(requests::queue(), work)?))
}

/// A new event.
fn event_of(progress: Arc<Progress>) -> Number {
    events().get_or_insert_default().add(progress)
}

/// Queues the write-back of a matrix's newest bytes; devices keep their copies. With `asynchronous` returns the number of an event,
/// else when the bytes have arrived.
///
/// # Errors
/// See [`Status`].
pub fn coherent(view: &View, asynchronous: bool) -> Result<Number, Status> {
    let queued = on_target(view, |target, cache| {
        let queued = Progress::issued_at_once(target.write_home(cache)?);
        finish(cache, queued, asynchronous)
    })?;
    Ok(queued.unwrap_or(0))
}

/// The CPU is about to read a matrix, or to change it (`write`): its newest bytes are written back, its pages become accessible, and
/// before a change devices drop their copies. One wait instead of a page fault for each panel.
///
/// # Errors
/// See [`Status`].
pub fn to_cpu(view: &View, write: bool) -> Result<(), Status> {
    on_target(view, |target, cache| target.open(cache, write)).map(|_| ())
}

/// Frees the memory of a device, or of all ([`ALL`]), that holds bytes of a matrix.
///
/// # Errors
/// See [`Status`].
pub fn evict(view: &View, from: i32) -> Result<(), Status> {
    on_target(view, |target, cache| {
        target.evict(cache, device(cache, from)?)
    })
    .map(|_| ())
}

/// Where the bytes of a matrix are; all on the host if no device is in use.
///
/// # Errors
/// See [`Status`].
pub fn residency(view: &View) -> Result<Residency, Status> {
    let found = on_target(view, |target, cache| Ok(target.residency(cache)))?;
    Ok(found.unwrap_or_else(|| Residency {
        resident: vec![0; devices()],
        ..Residency::default()
    }))
}

/// `None` if no device is in use, or the matrix is empty.
fn on_target<T>(
    view: &View,
    ask: impl FnOnce(&Target, &Cache) -> Result<T, Status>,
) -> Result<Option<T>, Status> {
    view.place()?;
    let Some(entered) = enter()? else {
        return Ok(None);
    };
    let target = Target::of(entered.cache, view)?;
    target.map(|target| ask(&target, entered.cache)).transpose()
}

/// Waits for an event, or says whether it is complete ([`Status::Pending`] if not). An event that is complete stays so.
///
/// # Errors
/// What became of the request.
pub fn event(number: Number, waits: bool) -> Result<(), Status> {
    if number == 0 {
        return Ok(());
    }
    let entered = enter()?;
    let _blocked = SignalsBlocked::new();
    let progress = events().as_ref().ok_or(Status::Invalid)?.get(number)?;
    let Some(progress) = progress else {
        return Ok(());
    };
    let status = match &entered {
        Some(entered) if waits => progress.wait(entered.cache.backend()),
        Some(entered) => progress.test(entered.cache.backend()),
        // Devices are used no more, and all results are on the host.
        None => progress.ended(),
    };
    // A failure is told as often as the program asks.
    if status == Status::Ok
        && let Some(events) = events().as_mut()
    {
        events.forget(number);
    }
    match status {
        Status::Ok => Ok(()),
        failed => Err(failed),
    }
}

/// Begins an asynchronous section of the calling thread, or (`begin` is false) ends it: with `asynchronous` returns the number of an event
/// that is complete when the section's calls are, else when they are.
///
/// # Errors
/// [`Status::Invalid`]: the thread is in no section.
pub fn section(begin: bool, asynchronous: bool) -> Result<Number, Status> {
    // The child of a fork takes no lock: another thread may have held it.
    let entered = enter()?;
    let _blocked = SignalsBlocked::new();
    if begin {
        section::begin();
        return Ok(0);
    }
    let results = section::end().map_err(|_| Status::Invalid)?;
    let Some(entered) = entered.filter(|_| !results.is_empty()) else {
        return Ok(0);
    };
    let cache = entered.cache;
    let computed = Progress::issued_at_once(cache.computed(&results));
    let number = finish(cache, computed, asynchronous)?;
    if !asynchronous {
        cache.open_arrived(&results);
    }
    Ok(number)
}

/// An event of a request, or waits for it.
fn finish(cache: &Cache, progress: Arc<Progress>, asynchronous: bool) -> Result<Number, Status> {
    if asynchronous {
        return Ok(event_of(progress));
    }
    match progress.wait(cache.backend()) {
        Status::Ok => Ok(0),
        failed => Err(failed),
    }
}

/// Orders which device computes which block of a matrix, and sends each block there; `None` ends the order. Of the number of devices
/// `of` makes the distribution. With `asynchronous` returns the number of an event, else when the bytes have arrived.
///
/// # Errors
/// See [`Status`].
pub fn distribute(
    view: &View,
    of: impl FnOnce(usize) -> Result<Option<Distribution>, Status>,
    asynchronous: bool,
) -> Result<Number, Status> {
    if view.place()?.is_none() {
        return Ok(0);
    }
    bring_up()?;
    let devices = enter()?.ok_or(Status::NoDevice)?.cache.backend().usable();
    // Code of the program may run here: no signal is blocked.
    let of = of(devices)?.map(Arc::new);
    on_device(view, asynchronous, |cache, target| {
        // The order holds from now on; what takes long is to send the blocks.
        target.order(cache, of.clone())?;
        Ok(of.map(|of| move |target: &Target, cache: &Cache| target.send_blocks(cache, &of)))
    })
}

/// Sends a matrix to a device, or its columns to all ([`ALL`]), whose copies are evicted last from then on; or (`pinned` is false) no
/// longer. With `asynchronous` returns the number of an event, else when the bytes have arrived.
///
/// # Errors
/// See [`Status`].
pub fn pin(view: &View, to: i32, pinned: bool, asynchronous: bool) -> Result<Number, Status> {
    if !pinned {
        return on_target(view, |target, cache| target.keep(cache, None, false)).map(|_| 0);
    }
    on_device(view, asynchronous, |cache, target| {
        let to = device(cache, to)?;
        target.keep(cache, to, true)?;
        Ok(Some(move |target: &Target, cache: &Cache| {
            target.prefetch(cache, to)
        }))
    })
}

/// A matrix in the memory of a device, for kernels of the program.
#[derive(Clone, Copy, Default, Debug)]
pub struct OnDevice {
    /// The device.
    pub device: usize,
    /// The device's address of the first element.
    pub address: u64,
    /// Elements between two columns.
    pub ld: i64,
    /// What [`release`] takes; zero if the matrix is empty.
    pub hold: Number,
    /// The driver's handle of the context in which the address is valid; zero if the CPU can use it.
    pub context: usize,
}

/// Brings a matrix to a device, for a kernel of the program that reads it, or changes it (`write`). The device memory stays in use until
/// [`release`].
///
/// # Errors
/// See [`Status`].
pub fn to_gpu(view: &View, on: i32, write: bool) -> Result<OnDevice, Status> {
    view.place()?;
    bring_up()?;
    let entered = enter()?.ok_or(Status::NoDevice)?;
    let cache = entered.cache;
    let on = device(cache, on)?.ok_or(Status::Invalid)?;
    let mut found = OnDevice {
        device: on.index(),
        context: cache.backend().context(on),
        ..OnDevice::default()
    };
    if let Some(target) = Target::of(cache, view)? {
        let held = target.hold(cache, on, write)?;
        found.hold = held.number;
        found.address = held.at.addr;
        found.ld = i64::try_from(held.at.step).unwrap_or(i64::MAX);
    }
    Ok(found)
}

/// The kernels of the program that used a matrix on a device are complete.
///
/// # Errors
/// [`Status::Invalid`]: nothing is held by this number. See [`Status`].
pub fn release(hold: Number) -> Result<(), Status> {
    if hold == 0 {
        return Ok(());
    }
    let Some(entered) = enter()? else {
        return Ok(());
    };
    let cache = entered.cache;
    let released = cache.release_held(hold).ok_or(Status::Invalid)??;
    let arrived = cache.arrive(&released.pending);
    if let Some(id) = released.transient {
        cache.finish_transient(id);
    }
    Ok(arrived?)
}

/// Names a matrix in messages and traces; `None` takes the name away.
///
/// # Errors
/// See [`Status`].
pub fn name(view: &View, name: Option<&str>) -> Result<(), Status> {
    if mode() == Mode::Forked {
        return Err(Status::NoDevice);
    }
    if let Some(place) = view.place()? {
        let _blocked = SignalsBlocked::new();
        names::set(place.start, place.end(), name);
        if let Some(name) = name {
            ranges::named(place.start, place.span().len(), name);
        }
    }
    Ok(())
}

/// Begins a range of the calling thread in the trace, or ends it (`None`).
///
/// # Errors
/// [`Status::Invalid`]: no range has begun.
pub fn range(name: Option<&str>) -> Result<(), Status> {
    if mode() == Mode::Forked {
        return Err(Status::NoDevice);
    }
    let _blocked = SignalsBlocked::new();
    match name {
        Some(name) => ranges::begin(name),
        None if ranges::end() => {}
        None => return Err(Status::Invalid),
    }
    Ok(())
}

/// What is known of a device.
///
/// # Errors
/// [`Status::NoDevice`], [`Status::Invalid`].
pub fn rates(device: i32) -> Result<Told, Status> {
    let index = usize::try_from(device).map_err(|_| Status::Invalid)?;
    bring_up()?;
    let _entered = enter()?.ok_or(Status::NoDevice)?;
    let known = get().filter(|_| index < devices());
    let told = known.and_then(|runtime| told::of_device(&runtime.policy, DeviceId::at(index)));
    told.ok_or(Status::Invalid)
}

/// What is expected of a call of this name and sizes.
///
/// # Errors
/// [`Status::NoDevice`]; [`Status::Invalid`]: devices run no such call.
pub fn predict(name: &str, sizes: [i64; 3], resident: bool) -> Result<Expected, Status> {
    bring_up()?;
    let _entered = enter()?.ok_or(Status::NoDevice)?;
    let runtime = get().ok_or(Status::NoDevice)?;
    told::of_call(&runtime.policy, name, sizes, resident).ok_or(Status::Invalid)
}

/// What the process did so far.
#[derive(Clone, Copy, Default, Debug)]
pub struct Statistics {
    /// BLAS calls that devices ran.
    pub offloaded: u64,
    /// Bytes copied to devices from the host, to the host, and from device to device.
    pub bytes: [u64; 3],
    /// Page faults of the CPU on pages that were kept from it.
    pub faults: u64,
}

/// What the process did so far.
#[must_use]
pub fn statistics() -> Statistics {
    let (bytes, faults) = (&COUNTERS.bytes, &COUNTERS.faults);
    let all = PAGE.calls.calls(&routines(), &PAGE.sites);
    Statistics {
        offloaded: all.values().map(|of| of.offloaded).sum(),
        bytes: [bytes.h2d.get(), bytes.d2h.get(), bytes.p2p.get()],
        faults: faults.read.get() + faults.write.get(),
    }
}

/// The number of devices in use.
#[must_use]
pub fn devices() -> usize {
    let cache = get().and_then(|runtime| runtime.cache);
    let on = cache.filter(|_| mode() == Mode::On);
    on.map_or(0, |cache| cache.backend().usable())
}
