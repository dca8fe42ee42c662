//! Calls of LAPACK's solvers that devices compute ([`Solver::runs_on_devices`]). The shim decodes the arguments, and makes
//! the program's LAPACK compute what is left to the host.

#![expect(unsafe_code, reason = "reads and writes the program's pivots")]

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use semcache_fault::arithmetic::Usual;

use super::at_site::AtSite;
use super::hints::{enter, to_cpu};
use super::timed::{self, Timed};
use super::{Facts, begin, retire, start, usable};
use crate::base::config::Offload;
use crate::base::counters::{self, COUNTERS, PAGE, WhyHost};
use crate::base::dense::{DenseKernel, Step};
use crate::base::ids::MAX_DEVICES;
use crate::base::{DeviceId, Dtype, Routine, Solver};
use crate::blas::offload_policy::Policy;
use crate::blas::plain::{self, Plain};
use crate::blas::{Call, deliver, names, told};
use crate::cache::{Cache, Residency};
use crate::device::api::Backend;
use crate::hints::request::Target;
use crate::hints::view::View;
use crate::host;
use crate::process::spent::{Spending, Spent};
use crate::solver::compute::{Ended, Solution};
use crate::solver::queue::Refused;
use crate::solver::symmetric;
use crate::solver::system::{Condition, Pivots, System};
use crate::solver::tiled::tiling::Tiling;
use crate::solver::worth::{self, Known};
use crate::trace::Side;

/// Computes a call on a device if the prediction says that this is faster: then INFO is 0, and pivots are stored. Counted here.
///
/// # Errors
/// Nothing has changed, and the program's LAPACK is to compute the call, for this reason.
pub fn solve(system: &System, facts: &Facts<'_>) -> Result<(), WhyHost> {
    let index = names::index_of_solver(system.solver, system.dtype);
    let timed = Timed::since(facts.begun, index, facts.site);
    // Devices round to nearest, and raise no signals.
    let usual = Usual::new();
    let at_site = AtSite::enter(facts.site);
    deliver::part_with(system.places(), false);
    let sizes = [system.a.rows, system.a.cols, system.sides()];
    let sizes = sizes.map(|n| i64::try_from(n).unwrap_or(i64::MAX));
    let traced = begin(sizes, system.solver.name(system.dtype));
    let solved = match usual.devices_have_it() {
        true => attempted(system),
        false => Err(WhyHost::Environment),
    };
    drop(usual);
    // From here on the program's own handlers get the faults.
    deliver::deliver_to(system.places());
    match &solved {
        Ok(_) if system.is_factorization() => {
            // Programs look at a factor that they asked for: LAPACK's gecon reads each column several times, by small calls. It comes
            // home at once, and stays on the device as well. Without success, as any result.
            let usual = Usual::new();
            let _ = to_cpu(&system.a, false);
            drop(usual);
            deliver::deliver_to(system.places());
        }
        // Perhaps the program has made some of its memory inaccessible: its LAPACK is to get the fault.
        Err(WhyHost::Refused) => deliver::part_with(system.places(), true),
        _ => {}
    }
    let on_host = solved.as_ref().err().copied();
    match on_host {
        None => counters::offloaded(index),
        Some(why) => counters::host(index, why),
    }
    at_site.ran(on_host);
    if let Some(traced) = traced {
        traced.end(on_host.map_or(Side::Devices, Side::Host));
    }
    if let Ok(Solution {
        pivots,
        tau,
        condition,
        home,
    }) = &solved
    {
        if let (Some(found), Some(Condition { addr, .. })) = (condition, system.condition) {
            store_real(*found, system.dtype, addr);
        }
        if let Some(to) = system.pivots.filter(|_| !pivots.is_empty()) {
            store(pivots, to);
        }
        if let Some((to, _)) = system.tau {
            store_bytes(tau, to);
        }
        for (view, bytes) in home {
            store_matrix(view, bytes);
        }
    }
    let place = match on_host {
        None => timed::Ran::Devices,
        Some(_) => timed::Ran::Left,
    };
    timed.end(place, facts.left);
    solved.map(|_| ())
}

/// What the CPU has to write of the results.
fn attempted(system: &System) -> Result<Solution, WhyHost> {
    let config = usable(system.solver.name(system.dtype))?;
    if !system.is_plain() {
        return Err(WhyHost::Aliased);
    }
    retire::secluded()?;
    let runtime = start::for_call(&product_alike(system), false)?;
    // Read with no lock held: the page may be inaccessible.
    let given = match (system.factors(), system.pivots, system.beside().next()) {
        (_, Some(columns), _) if system.solver == Solver::Geqp3 => {
            // Columns that the program puts first, before any is chosen.
            let put_first = |i| pivot(columns, i) != 0;
            match (0..system.pivot_count()).any(put_first) {
                true => return Err(WhyHost::Unsupported),
                false => Vec::new(),
            }
        }
        // getri never reads the last one, which exchanges no rows.
        (None, Some(pivots), _) if system.solver == Solver::Getri => {
            let count = system.pivot_count();
            let mut given = load(pivots, count - 1, count)?;
            given.extend((count as i64).to_ne_bytes());
            given
        }
        (None, Some(pivots), _) if system.solver == Solver::Sytrs => {
            let each = 0..system.pivot_count();
            let all: Vec<i64> = each.map(|i| pivot(pivots, i)).collect();
            match symmetric::are_pivots(system.uplo, &all) {
                true => symmetric::bytes_of(&all),
                false => return Err(WhyHost::BadArgument),
            }
        }
        (None, Some(pivots), _) => load(pivots, system.pivot_count(), system.a.rows)?,
        (None, None, Some((addr, bytes))) => load_bytes(addr, bytes),
        _ => Vec::new(),
    };
    touch(system);
    let always = config.offload == Offload::Always;
    // Signals stay blocked, also while cuSOLVER is loaded: a handler of the program that waited for a device, or left by a jump, would
    // find the driver's locks taken, or leave them so.
    let entered = enter().ok().flatten().ok_or(WhyHost::NoDevice)?;
    let (way, kernels) = chosen(system, entered.cache, &runtime.policy, always)?;
    let mut scratch = 0;
    for device in way.devices() {
        scratch = prepared(&kernels, entered.cache.backend(), *device)?;
    }
    let ended = match &way {
        Way::Whole([device]) => {
            let needed = worth::bytes(system) + system.copies() + scratch;
            if needed > entered.cache.room(*device) {
                return Err(WhyHost::OutOfMemory);
            }
            system.solve(entered.cache, *device, &given)
        }
        Way::Tiled(tiling) => system.solve_tiled(entered.cache, tiling),
    };
    match ended {
        Ok(Ended::Solved(found)) => {
            if matches!(way, Way::Tiled(_)) {
                COUNTERS.tiled.add(1);
            }
            // A condition number is read off the factor.
            let ways = if system.condition.is_some() { 1 } else { 2 };
            let bytes = ways * worth::bytes(system) as u64;
            COUNTERS.bytes.per_call.add(bytes);
            Ok(found)
        }
        // What LAPACK leaves then, the host's LAPACK is to leave.
        Ok(Ended::Info) => Err(WhyHost::Unsupported),
        Err(Refused::NoRoom) => Err(WhyHost::OutOfMemory),
        Err(Refused::Other) => Err(WhyHost::Refused),
    }
}

/// A product of as much work, as which the call counts where devices are not up yet. Only its sizes and the alignment of its operands
/// matter.
fn product_alike(system: &System) -> Call {
    let order = i64::try_from(system.a.rows.min(system.a.cols)).unwrap_or(i64::MAX);
    let matrix = (system.a.addr, order);
    let sizes = [order, order, (order / 3).max(1)];
    Call::new(Routine::Gemm, system.dtype, &sizes, &[matrix; 3])
}

/// Where a call is computed.
enum Way {
    /// By one device, which has room for the matrices and their copies.
    Whole([DeviceId; 1]),
    /// By tiles.
    Tiled(Tiling),
}

impl Way {
    fn devices(&self) -> &[DeviceId] {
        match self {
            Way::Whole(device) => device,
            Way::Tiled(tiling) => &tiling.devices,
        }
    }

    /// The kernels of solvers that each device may run.
    fn kernels(&self, system: &System) -> Vec<DenseKernel> {
        match (self, system.factors()) {
            (Way::Tiled(tiling), factors) => {
                let exchanges = (factors == Some(Step::Lu)).then_some(Step::Exchange);
                let steps = factors.into_iter().chain(exchanges);
                let (m, n) = tiling.panel(0);
                let of_panel = |step| DenseKernel {
                    m,
                    n,
                    ..system.kernel(step)
                };
                steps.map(of_panel).collect()
            }
            (Way::Whole(_), _) => system.steps().map(|step| system.kernel(step)).collect(),
        }
    }
}

/// Where it is to be computed, and by which kernels of solvers: on the device that holds most of the matrices, or by tiles, on the devices
/// that hold most of them, if that one has no room or is slower.
fn chosen(
    system: &System,
    cache: &'static Cache,
    policy: &Policy,
    always: bool,
) -> Result<(Way, Vec<DenseKernel>), WhyHost> {
    let all = residencies(system, cache);
    let held = |d: &usize| {
        let of = all.iter().map(|r| r.resident.get(*d).copied().unwrap_or(0));
        of.sum::<usize>()
    };
    // The first one of those that hold as much.
    let mut devices: Vec<usize> = (0..cache.backend().usable()).collect();
    devices.sort_by_key(|d| core::cmp::Reverse(held(d)));
    let best = *devices.first().ok_or(WhyHost::NoDevice)?;
    let device = DeviceId::at(best);
    if !cache.whole() || !cache.backend().solves(device) {
        return Err(WhyHost::NoDevice);
    }
    let whole = worth::bytes(system) + system.copies() <= cache.room(device);
    let devices = devices.into_iter().map(DeviceId::at);
    let able = devices.filter(|device| cache.backend().solves(*device));
    let rooms: Vec<(DeviceId, usize)> = able.map(|d| (d, cache.room(d))).collect();
    // On one device only if it has no room.
    let counts = 1 + usize::from(whole)..=rooms.len();
    let mut tilings: Vec<Tiling> = counts
        .map(|count| &rooms[..count])
        .filter_map(|rooms| Tiling::of(system, rooms).filter(|_| has_places(system, rooms)))
        .collect();
    if !whole && tilings.is_empty() {
        return Err(WhyHost::OutOfMemory);
    }
    let told = told::of_device(policy, device).ok_or(WhyHost::NoDevice)?;
    let precision = usize::from(!matches!(system.dtype, Dtype::S | Dtype::C));
    let flops_per_s = [told.device_flops[precision], told.host_flops[precision]];
    // What the host takes is known by the time that it took for earlier calls.
    let nominal = Plain::new(worth::host_s(system, flops_per_s[1]), false, 1);
    plain::set(nominal);
    if always {
        let way = tilings.pop().map_or(Way::Whole([device]), Way::Tiled);
        let kernels = way.kernels(system);
        return Ok((way, kernels));
    }
    let row = PAGE
        .times
        .row(names::index_of_solver(system.solver, system.dtype));
    let (measured, predicted) = (row.host_measured.get(), row.host_predicted.get());
    let [to_device, home, peers] = told.bytes_per_s;
    let known = Known {
        flops_per_s,
        bytes_per_s: [to_device, home, told.memory_bytes_per_s, peers],
        lacking: worth::bytes(system).saturating_sub(held(&best)),
        stale: all.iter().map(|r| r.stale).sum(),
        host_error: match predicted {
            0 => 1.0,
            _ => measured as f64 / predicted as f64,
        },
    };
    let [one_s, host_s] = worth::seconds(system, &known);
    let one_s = if whole { one_s } else { f64::INFINITY };
    let timed = tilings.into_iter().map(|tiling| {
        let tiled_s = worth::tiled_s(system, &tiling, &known);
        (tiled_s, tiling)
    });
    let tiled = timed
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(tiled_s, _)| worth::prefers_tiles(*tiled_s, one_s));
    let (devices_s, way) = match tiled {
        Some((tiled_s, tiling)) => (tiled_s, Way::Tiled(tiling)),
        None => (one_s, Way::Whole([device])),
    };
    let gain_s = worth::gain_s([devices_s, host_s]).ok_or(WhyHost::PredictedSlower)?;
    let kernels = way.kernels(system);
    let mut awaited = false;
    for device in way.devices() {
        awaited |= policy.solver_awaited(cache.backend(), &kernels, *device, gain_s);
    }
    match awaited {
        true => Err(WhyHost::Loading),
        false => Ok((way, kernels)),
    }
}

/// Whether there is memory for all tiles. Devices keep the program's matrix, its tiles, and the result in the matrix's place; of what they
/// have no room for the tiles go to the host, whose kernel would end a process that has no memory for them.
fn has_places(system: &System, rooms: &[(DeviceId, usize)]) -> bool {
    let tiles = worth::bytes(system);
    let room = rooms.iter().map(|(_, room)| *room).sum::<usize>();
    room >= tiles.saturating_mul(3) || tiles <= host::available() / 10 * 9
}

/// Where the matrices are.
fn residencies(system: &System, cache: &Cache) -> Vec<Residency> {
    let found = |view: &View| {
        let target = Target::of(cache, view).ok().flatten();
        target.map_or_else(Residency::default, |target| target.residency(cache))
    };
    system.matrices().map(|view| found(&view)).collect()
}

/// Which steps and element types each device has loaded.
static LOADED: [AtomicU64; MAX_DEVICES] = [const { AtomicU64::new(0) }; MAX_DEVICES];

/// Loads what these kernels need, unless that was done. Returns how much scratch memory they take.
fn prepared(
    kernels: &[DenseKernel],
    backend: &'static dyn Backend,
    device: DeviceId,
) -> Result<usize, WhyHost> {
    let mut scratch = 0;
    let loaded = LOADED.get(device.index()).ok_or(WhyHost::NoDevice)?;
    for kernel in kernels {
        let bit = 1u64 << (kernel.step as u32 * 4 + kernel.dtype as u32);
        if loaded.load(Relaxed) & bit == 0 {
            let _starting = Spending::on(Spent::Starting);
            let made = backend.load_solver(device, kernel);
            made.map_err(|_| WhyHost::Refused)?;
            loaded.fetch_or(bit, Relaxed);
        }
        let asked = backend.dense_scratch(device, kernel);
        scratch += asked.map_err(|_| WhyHost::Refused)?;
    }
    Ok(scratch)
}

/// Reads the first and the last byte of both matrices, as `touch` says.
fn touch(system: &System) {
    super::touch(
        system
            .places()
            .flat_map(|place| [place.start, place.end() - 1]),
    );
}

/// The program's pivots, as 64-bit integers.
fn load(pivots: Pivots, count: usize, rows: usize) -> Result<Vec<u8>, WhyHost> {
    let last = i64::try_from(rows).unwrap_or(i64::MAX);
    let at = |i: usize| Some(pivot(pivots, i)).filter(|pivot| (1..=last).contains(pivot));
    let mut all = Vec::with_capacity(count * DenseKernel::PIVOT);
    for i in 0..count {
        all.extend(at(i).ok_or(WhyHost::BadArgument)?.to_ne_bytes());
    }
    Ok(all)
}

/// One of the program's pivots.
fn pivot(pivots: Pivots, i: usize) -> i64 {
    let addr = pivots.addr + i * pivots.size();
    // SAFETY: the program passes the address of an array of integers of this width, of which the call reads this one.
    unsafe {
        match pivots.wide {
            true => (addr as *const i64).read_unaligned(),
            false => i64::from((addr as *const i32).read_unaligned()),
        }
    }
}

/// The program's scalar factors of reflectors.
fn load_bytes(addr: usize, bytes: usize) -> Vec<u8> {
    let mut all = vec![0; bytes];
    // SAFETY: the program passes the address of an array of as many bytes.
    unsafe { core::ptr::copy_nonoverlapping(addr as *const u8, all.as_mut_ptr(), bytes) };
    all
}

/// Writes them.
fn store_bytes(found: &[u8], to: usize) {
    // SAFETY: the program passes the address of an array of as many bytes, which the call writes.
    unsafe { core::ptr::copy_nonoverlapping(found.as_ptr(), to as *mut u8, found.len()) };
}

/// Writes the program's pivots.
fn store(found: &[i64], pivots: Pivots) {
    for (i, pivot) in found.iter().enumerate() {
        let addr = pivots.addr + i * pivots.size();
        // SAFETY: the program passes the address of an array of as many integers of this width.
        unsafe {
            match pivots.wide {
                true => (addr as *mut i64).write_unaligned(*pivot),
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "a row of a matrix whose order had 32 bits"
                )]
                false => (addr as *mut i32).write_unaligned(*pivot as i32),
            }
        }
    }
}

/// Writes a real number of the program.
fn store_real(found: f64, dtype: Dtype, addr: usize) {
    // SAFETY: the program passes the address of a real number of this precision, which the call writes.
    unsafe {
        match dtype.real() {
            #[expect(clippy::cast_possible_truncation, reason = "as the program's numbers")]
            Dtype::S => (addr as *mut f32).write_unaligned(found as f32),
            _ => (addr as *mut f64).write_unaligned(found),
        }
    }
}

/// Writes a matrix of the program; the bytes have no gaps between columns.
fn store_matrix(view: &View, bytes: &[u8]) {
    let (column, step) = (view.rows * view.element, view.ld * view.element);
    for (j, from) in bytes.chunks_exact(column).enumerate() {
        // SAFETY: the program passes a matrix of this size, which the call overwrites, and the bytes lie elsewhere.
        unsafe {
            let to = (view.addr as *mut u8).add(j * step);
            core::ptr::copy_nonoverlapping(from.as_ptr(), to, column);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blas::args::{Checked, check};

    #[test]
    fn the_product_of_as_much_work_is_a_legal_call() {
        for order in [1, 2, 3, 4096] {
            let system = System::potrf(order);
            assert!(matches!(check(&product_alike(&system)), Checked::Run(..)));
        }
    }
}
