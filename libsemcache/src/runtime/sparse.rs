//! The entry point of `semcache.h` for sparse matrices. The shim decodes the arguments.

use super::hints::{bring_up, enter};
use super::init;
use super::mode::{Mode, mode};
use super::start;
use crate::base::DeviceId;
use crate::base::config::{Devices, Offload};
use crate::base::counters::COUNTERS;
use crate::hints::Status;
use crate::sparse::link::{self, Link};
use crate::sparse::product::Product;

/// Products of matrices with fewer bytes are computed on the host, unless all that can be is to run on devices: reading them from main memory
/// takes about as long as launching a kernel and copying a result.
const WORTH_A_DEVICE: usize = 1 << 20;
/// How often a product sends its matrix again, because it changed before it was checked.
const TRIES: usize = 2;

/// `Y := alpha op(A) X + beta Y`. Where devices compute it, their parts of Y stay on devices until the CPU touches them.
///
/// # Errors
/// [`Status::Invalid`]: see [`Product::check`], [`Product::on_host`]; nothing was computed. [`Status::Lost`], [`Status::Failed`]: results
/// could not be copied to pages that cannot be protected.
pub fn multiply(product: &Product) -> Result<(), Status> {
    let nnz = product.check()?;
    let rows = 0..product.csr.rows;
    if product.y.rows == 0 || product.y.cols == 0 {
        return Ok(());
    }
    let left = match pays(product, nnz) {
        true => on_devices(product, nnz)?,
        false => vec![rows],
    };
    match left.is_empty() {
        true => COUNTERS.sparse.add(1),
        false => COUNTERS.sparse_host.add(1),
    }
    let mut left = left.iter();
    left.try_for_each(|rows| product.on_host(rows, nnz))
}

/// Whether devices are to compute it. They come up in the background meanwhile, if they have not yet.
fn pays(product: &Product, nnz: usize) -> bool {
    if matches!(mode(), Mode::Forked | Mode::Ended | Mode::Off)
        || nnz == 0
        || product.alpha.is_zero()
    {
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
            large && mode() == Mode::On
        }
    }
}

/// The rows that are left for the host.
fn on_devices(product: &Product, nnz: usize) -> Result<Vec<std::ops::Range<usize>>, Status> {
    let rows = 0..product.csr.rows;
    let whole = || vec![rows.clone()];
    let known = link::take(&product.csr, product.divides());
    let Some(mut link) = linked(product, nnz, known)? else {
        return Ok(whole());
    };
    let left = match enter() {
        Ok(Some(entered)) => product.queue(entered.cache, &mut link),
        _ => return Ok(whole()),
    };
    if let Some(surplus) = link::keep(link)
        && let Ok(Some(entered)) = enter()
    {
        surplus.end(entered.cache);
    }
    left
}

/// The matrix with what is derived from it; `None` if it cannot be on devices.
fn linked(product: &Product, nnz: usize, known: Option<Link>) -> Result<Option<Link>, Status> {
    if let Some(known) = known
        && let Ok(Some(entered)) = enter()
    {
        if product.is_same(entered.cache, &known, nnz) {
            return Ok(Some(known));
        }
        known.end(entered.cache);
    }
    for _ in 0..TRIES {
        let Ok(Some(entered)) = enter() else {
            return Ok(None);
        };
        let cache = entered.cache;
        let devices = cache.backend().usable();
        let able = (0..devices).all(|d| cache.backend().multiplies_sparse(DeviceId::at(d)));
        if devices == 0 || !able || !cache.whole() {
            return Ok(None);
        }
        drop(entered);
        // The arrays are read with no lock held and no signal blocked.
        let shares = product.shares(nnz, devices)?;
        let sent = match enter() {
            Ok(Some(entered)) => product.send(entered.cache, &shares),
            _ => return Ok(None),
        };
        let Ok(pattern) = sent else {
            return Ok(None);
        };
        COUNTERS.sparse_links.add(1);
        let link = product.link(cache, (shares, nnz), pattern)?;
        if link.pattern.holds() {
            return Ok(Some(link));
        }
        if let Ok(Some(entered)) = enter() {
            link.end(entered.cache);
        }
    }
    Ok(None)
}
