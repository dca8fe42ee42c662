//! Products of sparse matrices, asked for by `semcache.h` or by a function of a library of the host. The shim decodes the arguments.

use std::time::{Duration, Instant};

use semcache_fault::arithmetic::Usual;

use super::counted;
use super::hints::{bring_up, enter};
use super::init;
use super::mode::{Mode, mode};
use super::secluded::is_secluded;
use super::start;
use super::started::get;
use super::timed::{Ran, Timed};
use crate::base::config::{Devices, Offload};
use crate::base::counters::{COUNTERS, SPARSE};
use crate::base::heuristics::Heuristic;
use crate::base::{DeviceId, Op, Rect};
use crate::blas::plain::{self, Plain};
use crate::blas::{deliver, told};
use crate::cache::{Cache, Residency};
use crate::device::api::undelivered;
use crate::hints::Status;
use crate::hints::request::Target;
use crate::hints::view::View;
use crate::process::signals_blocked::SignalsBlocked;
use crate::process::spent::{Spending, Spent};
use crate::sparse::csr::Csr;
use crate::sparse::link::{self, Link};
use crate::sparse::parts::Able;
use crate::sparse::product::Product;
use crate::sparse::queue::Left;
use crate::sparse::worth::{self, Moved, Speeds};

/// Bytes of a matrix for which devices are brought up: reading smaller ones takes less time than a product on a device.
const WORTH_A_DEVICE: usize = 1 << 20;
/// How often a product checks its matrix again, because it changed before that was done.
const TRIES: usize = 2;

/// `Y := alpha op(A) X + beta Y`. Where devices compute it, their parts of Y stay on devices until the CPU touches them.
///
/// # Errors
/// [`Status::Invalid`]: see [`Product::check`], [`Product::on_host`]; nothing was computed. [`Status::Lost`], [`Status::Failed`]: results
/// could not be copied to pages that cannot be protected, or a device failed while it wrote Y.
pub fn multiply(product: &Product) -> Result<(), Status> {
    counted::join();
    let timed = Timed::begin(SPARSE);
    let done = multiplied(product);
    timed.end(Ran::Devices, None);
    done
}

fn multiplied(product: &Product) -> Result<(), Status> {
    if let Some(done) = repeated(product) {
        return done;
    }
    let nnz = product.check()?;
    if is_empty(product) {
        return Ok(());
    }
    deliver::part_with(vectors(product), false);
    // Devices round to nearest, and raise no signals.
    let usual = Usual::new();
    let left = match usual.devices_have_it() && pays(product, nnz) {
        true => on_devices(product, nnz)?,
        false => Left::whole(product),
    };
    drop(usual);
    deliver::deliver_to(vectors(product));
    let begun = Instant::now();
    finish(product, nnz, &left)?;
    if is_whole(product, &left) && is_timed(product, nnz) {
        host_took(product, nnz, begun.elapsed());
    }
    Ok(())
}

/// A product that repeats an earlier one, on devices that hold all that it needs; `None` if it has to take the ordinary path.
fn repeated(product: &Product) -> Option<Result<(), Status>> {
    let usual = Usual::new();
    let config = init::config();
    let uses = config.offload != Offload::Never && config.without.uses(Heuristic::Replay);
    if !uses || mode() != Mode::On || !usual.devices_have_it() || !undelivered::none() {
        return None;
    }
    let mut link = link::take_again(product)?;
    let nnz = link.nnz;
    let left = match enter() {
        Ok(Some(entered)) if entered.cache.backend().usable() == link.devices => {
            product.queue_again(entered.cache, &mut link)
        }
        _ => None,
    };
    keep(link);
    drop(usual);
    Some(left?.and_then(|left| {
        COUNTERS.cache.replayed.add(1);
        deliver::deliver_to(vectors(product));
        finish(product, nnz, &left).map_err(has_changed)
    }))
}

/// What becomes of a product that the host finishes. The matrix has changed meanwhile, and so has Y.
fn has_changed(status: Status) -> Status {
    match status {
        Status::Invalid => Status::Failed,
        other => other,
    }
}

/// The places of X and Y.
fn vectors(product: &Product) -> impl Iterator<Item = Rect> {
    let both = [product.x, product.y].into_iter();
    both.filter_map(|view| view.place().ok()?)
}

fn is_empty(product: &Product) -> bool {
    product.y.rows == 0 || product.y.cols == 0
}

fn is_whole(product: &Product, left: &Left) -> bool {
    matches!(&left.rows[..], [rows] if *rows == (0..product.csr.rows))
}

/// Counts a product, and computes on the host what devices have left of it.
fn finish(product: &Product, nnz: usize, left: &Left) -> Result<(), Status> {
    match left.rows.is_empty() && left.sums.is_empty() {
        true => {
            COUNTERS.sparse.add(1);
            // What the host would take is not measured.
            plain::set(Plain::UNKNOWN);
            let old = match product.beta.is_zero() {
                true => 0,
                false => product.y.rows * product.y.cols * product.y.element,
            };
            COUNTERS
                .bytes
                .per_call
                .add((bytes(product, nnz) + old) as u64);
        }
        false => COUNTERS.sparse_host.add(1),
    }
    let _in_host = Spending::on(Spent::Host);
    // After a sandbox was entered, and in the child of a fork, no threads are made.
    let alone = is_secluded() || mode() == Mode::Forked;
    let mut of_rows = left.rows.iter();
    of_rows.try_for_each(|rows| product.on_host(rows, nnz, alone))?;
    for sum in &left.sums {
        product.add_on_host(&sum.rows, &sum.bytes);
    }
    Ok(())
}

/// Bytes of A, X and Y.
fn bytes(product: &Product, nnz: usize) -> usize {
    product.kernel(&(0..product.csr.rows), nnz).bytes()
}

/// Whether the time that the host takes for a product says how fast it is.
fn is_timed(product: &Product, nnz: usize) -> bool {
    let reads = product.op == Op::None && !product.alpha.is_zero();
    reads && product.bytes(nnz) >= WORTH_A_DEVICE && mode() == Mode::On
}

/// The host has computed a product of a matrix with this number of entries in this time.
pub fn host_took(product: &Product, nnz: usize, time: Duration) {
    // A handler of the program may multiply, too.
    let _blocked = SignalsBlocked::new();
    worth::took(&product.csr, bytes(product, nnz), time);
}

/// What became of a product that a library of the host can compute as well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tried {
    /// It is complete, or devices compute it.
    Done,
    /// Nothing has changed: the library is to compute it. If the matrix has this number of entries, its time is wanted ([`host_took`]).
    Host(Option<usize>),
}

/// Whether no device computes products of a matrix, since they take less time than a product on a device. Not under
/// `SEMCACHE_OFFLOAD=always`.
#[must_use]
pub fn is_small(csr: &Csr) -> bool {
    let element = csr.index.size() + csr.dtype.size();
    init::has_floor() && csr.nnz().unwrap_or(0) < WORTH_A_DEVICE / element
}

/// Counts a product that a library of the host computes.
pub fn passed_on() {
    counted::join();
    COUNTERS.sparse_passed.add(1);
}

/// As [`multiply`], but leaves to a library of the host what devices do not begin, and what is not valid here. `SEMCACHE_DISABLE` may have
/// the function's `name`.
///
/// # Errors
/// [`Status::Lost`], [`Status::Failed`]: as [`multiply`].
pub fn attempt(product: &Product, name: &str) -> Result<Tried, Status> {
    counted::join();
    let timed = Timed::begin(SPARSE);
    let tried = attempted(product, name);
    timed.end(Ran::Devices, None);
    tried
}

fn attempted(product: &Product, name: &str) -> Result<Tried, Status> {
    if init::config().is_disabled(name) {
        return Ok(Tried::Host(None));
    }
    if let Some(done) = repeated(product) {
        return done.map(|()| Tried::Done);
    }
    let usual = Usual::new();
    if !usual.devices_have_it() || no_devices() {
        return Ok(Tried::Host(None));
    }
    let Some(nnz) = product.check().ok().filter(|_| !is_empty(product)) else {
        return Ok(Tried::Host(None));
    };
    if !pays(product, nnz) {
        let timed = init::config().offload == Offload::Auto && is_timed(product, nnz);
        return Ok(Tried::Host(timed.then_some(nnz)));
    }
    deliver::part_with(vectors(product), false);
    // Without a link nothing was queued, whatever the reason.
    let Ok(Some(link)) = linked(product, nnz, link::take(&product.csr)) else {
        return Ok(Tried::Host(None));
    };
    let left = queued(product, link)?;
    if is_whole(product, &left) {
        return Ok(Tried::Host(None));
    }
    drop(usual);
    // The program's handlers may get the faults of this, and leave by a jump.
    deliver::deliver_to(vectors(product));
    let done = finish(product, nnz, &left).map_err(has_changed);
    done.map(|()| Tried::Done)
}

/// Whether the process uses no devices, and will not.
fn no_devices() -> bool {
    matches!(mode(), Mode::Forked | Mode::Ended | Mode::Off)
}

/// Whether devices are to compute it. They come up in the background meanwhile, if they have not yet.
fn pays(product: &Product, nnz: usize) -> bool {
    if no_devices() || nnz == 0 || product.alpha.is_zero() {
        return false;
    }
    let config = init::config();
    match config.offload {
        _ if config.devices == Devices::None => false,
        Offload::Never => false,
        Offload::Always => bring_up().is_ok(),
        Offload::Auto => {
            let large = product.bytes(nnz) >= WORTH_A_DEVICE;
            if large && mode() == Mode::Cold {
                start::begin_now();
            }
            large && mode() == Mode::On && sooner(product, nnz).unwrap_or(false)
        }
    }
}

/// Whether devices compute it sooner than the host; none if there are none.
fn sooner(product: &Product, nnz: usize) -> Option<bool> {
    let entered = enter().ok()??;
    let (cache, able) = (entered.cache, able()?);
    let rates: Vec<f64> = able.iter().map(|(able, _)| able.rate).collect();
    let count = worth::devices(product.bytes(nnz), &rates);
    let speeds = speeds(&able[..count])?;
    let found = |view: &View| -> Residency {
        let target = Target::of(cache, view).ok().flatten();
        target.map_or_else(Residency::default, |target| target.residency(cache))
    };
    let bytes = |view: &View| view.rows * view.cols * view.element;
    let (x, y) = (found(&product.x), found(&product.y));
    let matrix = product.bytes(nnz);
    let of_matrix = match link::has(&product.csr) {
        true => {
            let values = product.csr.values_of(&(0..nnz));
            bytes(&values).saturating_sub(found(&values).union)
        }
        false => matrix,
    };
    let of_y = if product.beta.is_zero() {
        0
    } else {
        bytes(&product.y).saturating_sub(y.union)
    };
    let moved = Moved {
        matrix,
        vectors: bytes(&product.x) + bytes(&product.y),
        lacking: of_matrix + bytes(&product.x).saturating_sub(x.union) + of_y,
        stale: x.stale + y.stale,
    };
    Some(worth::pays(&product.csr, &moved, &speeds))
}

/// The devices in use, by what is known of their memory.
fn able() -> Option<Vec<(Able, told::Told)>> {
    let runtime = get()?;
    let cache = runtime.cache?;
    let of = |d: usize| {
        let told = told::of_device(&runtime.policy, DeviceId::at(d))?;
        let able = Able {
            rate: told.memory_bytes_per_s.max(1.0),
            room: cache.room(DeviceId::at(d)),
        };
        Some((able, told))
    };
    let able: Option<Vec<_>> = (0..cache.backend().usable()).map(of).collect();
    able.filter(|able| !able.is_empty())
}

fn speeds(able: &[(Able, told::Told)]) -> Option<Speeds> {
    let sum = |of: fn(&told::Told) -> f64| able.iter().map(|(_, told)| of(told)).sum::<f64>();
    let speeds = Speeds {
        devices: sum(|told| told.memory_bytes_per_s),
        to_devices: sum(|told| told.bytes_per_s[0]),
        home: sum(|told| told.bytes_per_s[1]),
    };
    let known = [speeds.devices, speeds.to_devices, speeds.home];
    known.iter().all(|rate| *rate > 0.0).then_some(speeds)
}

/// What is left for the host.
fn on_devices(product: &Product, nnz: usize) -> Result<Left, Status> {
    match linked(product, nnz, link::take(&product.csr))? {
        Some(link) => queued(product, link),
        None => Ok(Left::whole(product)),
    }
}

/// Queues a product of a linked matrix. Returns what is left for the host.
fn queued(product: &Product, mut link: Link) -> Result<Left, Status> {
    let left = match enter() {
        Ok(Some(entered)) => product.queue(entered.cache, &mut link),
        _ => Ok(Left::whole(product)),
    };
    keep(link);
    left
}

/// Keeps a link for the next product of its matrix, if it may; ends those that are not kept.
fn keep(link: Link) {
    let ends = match link.pattern.holds_once() {
        true => vec![link],
        false => link::keep(link),
    };
    if !ends.is_empty()
        && let Ok(Some(entered)) = enter()
    {
        ends.into_iter().for_each(|link| link.end(entered.cache));
    }
}

/// The matrix with what is derived from it; `None` if it cannot be on devices.
fn linked(product: &Product, nnz: usize, known: Option<Link>) -> Result<Option<Link>, Status> {
    let Ok(Some(entered)) = enter() else {
        return Ok(None);
    };
    let cache = entered.cache;
    let usable = cache.backend().usable();
    if let Some(known) = known {
        let same = known.nnz == nnz && known.devices == usable;
        if same && known.is_same(cache) {
            return Ok(Some(known));
        }
        known.end(cache);
    }
    let able = chosen(product, nnz);
    if able.is_empty() || !able_to_multiply(cache, able.len()) {
        return Ok(None);
    }
    drop(entered);
    for _ in 0..TRIES {
        COUNTERS.sparse_links.add(1);
        let Ok(Some(entered)) = enter() else {
            return Ok(None);
        };
        let Ok(watched) = product.watch(cache, nnz, &able) else {
            return Ok(None);
        };
        drop(entered);
        // The arrays are read with no lock held and no signal blocked.
        let derived = product.derive(watched, nnz, &able);
        let Ok(Some(entered)) = enter() else {
            return Ok(None);
        };
        match derived {
            Ok(derived) => {
                let link = derived.link(entered.cache, (product.csr, nnz), usable);
                if link.is_same(entered.cache) {
                    worth::sent(&product.csr);
                    return Ok(Some(link));
                }
                link.end(entered.cache);
            }
            Err((status, pattern)) => {
                // What changed meanwhile may have been invalid only then.
                let same = pattern.holds(entered.cache);
                pattern.end(entered.cache);
                if same {
                    return Err(status);
                }
            }
        }
    }
    Ok(None)
}

/// The devices that are to have rows of the matrix.
fn chosen(product: &Product, nnz: usize) -> Vec<Able> {
    let all = able().into_iter().flatten().map(|(able, _)| able);
    let mut able: Vec<Able> = all.collect();
    if init::config().offload == Offload::Auto {
        let rates: Vec<f64> = able.iter().map(|able| able.rate).collect();
        able.truncate(worth::devices(product.bytes(nnz), &rates));
    }
    able
}

fn able_to_multiply(cache: &Cache, count: usize) -> bool {
    let mut devices = (0..count).map(DeviceId::at);
    cache.whole() && devices.all(|d| cache.backend().multiplies_sparse(d))
}
