//! The host's part of a call that goes to devices: whether there is one, and which columns of the output it has.
//!
//! The calling thread computes it by the host BLAS once all tasks of the devices are queued, as it computes what devices
//! refuse ([`super::finish::Rest`]). Devices compute their part as a call of its own. The host gets a part only if no input,
//! and no byte of that part, would have to be written back first.

use super::asked::Asked;
use super::checks::Item;
use super::finish::Rest;
use super::offload_policy::Policy;
use super::tiling::{Planned, exceeds};
use crate::base::config::HostShare;
use crate::base::{AllocId, DeviceSet, Rect, TileSize};
use crate::cache::{Cache, CacheError};
use crate::host::Block;
use crate::model::decide::{self, Mode, Planner};
use crate::model::exec;
use crate::plan::host_part::{columns, divides_columns};
use crate::plan::{Access, HostPart, Part, host_part};
use crate::sched::memory::work;

/// The host's part of a call, and by how many seconds the call is predicted to end sooner with it.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    pub(super) part: HostPart,
    pub(super) gain_s: f64,
}

/// Chooses the host's part of a single call on these devices with this tile, which is predicted to take `predicted_s` without the
/// host. `has_routine`: whether the host BLAS has the routine.
pub(super) fn choose(
    cache: &Cache,
    policy: &Policy,
    asked: &Asked<'_>,
    item: &Item,
    (devices, tile): (&DeviceSet, TileSize),
    predicted_s: f64,
    has_routine: bool,
) -> Option<Chosen> {
    let (problem, q, rates) = (&item.problem, &asked.question, asked.rates);
    if policy.host_share == HostShare::Off || !divides_columns(problem) {
        return None;
    }
    let auto = policy.host_share == HostShare::Auto;
    let (share, page) = match policy.host_share {
        HostShare::Percent(percent) => (f64::from(percent) / 100.0, 1),
        // With a fixed tile the bits of a result do not depend on what the host could do meanwhile.
        _ if q.mode != Mode::Auto || q.tile.is_some() || !has_routine => return None,
        _ => (
            decide::host_part::share(&q.work, devices, rates, predicted_s, asked.plain_s())?,
            semcache_fault::pages::page_size(),
        ),
    };
    let output = problem.operands.len() - 1;
    // The results that a call waits for are there before the host begins.
    let stays = || {
        let place = &item.places[output];
        let keeps = |b: Block| cache.keeps(b.id, &place.counted_from(b.start));
        place.start.is_multiple_of(page)
            && item.blocks[output].is_some_and(keeps)
            && !decide::host_part::may_wait(q)
    };
    if auto && (!stays() || exceeds(policy.memory_of(devices), problem)) {
        return None;
    }
    let inputs = || (0..=output).filter(|&i| problem.access(i) == Access::Read);
    if inputs().any(|i| q.operands[i].stale > 0) {
        return None;
    }
    let columns = columns(problem, share, page)?;
    let part = host_part(problem, columns)?;
    if written(item, &part).any(|(id, rect)| cache.residency(id, &rect).stale > 0) {
        return None;
    }
    let devices_end = |part: &HostPart| of_devices(item, part).places[output].end();
    if auto && !devices_end(&part).is_multiple_of(page) {
        return None;
    }
    if !auto {
        return Some(Chosen { part, gain_s: 0.0 });
    }
    let moved = decide::host_part::moved(q, rates, devices);
    let seconds = |planned: Planned<'_>| Some(planned.choice(devices, Some(tile), &moved)?.seconds);
    let without_s = seconds(Planned::new(policy, rates, problem, devices))?;
    // How many times as long as by its rates the host takes for the whole call.
    let slowness = asked.plain_s() / exec::host_s(&q.work, &rates.host);
    let host_task_s = |task| {
        let work = work(problem, task);
        let predicted_s = || slowness * exec::host_s(&work, &rates.host);
        let measured_s = policy.host_s(&work, &rates.host);
        measured_s.unwrap_or_else(predicted_s)
    };
    let of_host_s = part.tasks.iter().map(host_task_s).sum();
    let on_devices = Planned::new(policy, rates, &part.devices, devices);
    let with_s = seconds(on_devices.beside_host(columns, of_host_s))?;
    let gain_s = without_s - with_s;
    decide::host_part::pays(with_s, without_s).then_some(Chosen { part, gain_s })
}

/// What the host writes, in blocks that the cache knows.
fn written<'a>(item: &'a Item, part: &'a HostPart) -> impl Iterator<Item = (AllocId, Rect)> + 'a {
    let parts = part.tasks.iter().flat_map(|task| &task.parts);
    let written = parts.filter(|p| p.access != Access::Read);
    written.filter_map(|p| {
        let block = item.blocks[p.operand]?;
        let rect = item.problem.bytes(p, item.places[p.operand].start);
        Some((block.id, rect.counted_from(block.start)))
    })
}

/// Makes the pages that the host writes accessible, before the devices' tasks are queued: afterwards that would wait for
/// results on the same panel.
///
/// # Errors
/// Bytes of these panels are lost, or a copy failed for good.
pub(super) fn open(cache: &Cache, item: &Item, part: &HostPart) -> Result<(), CacheError> {
    written(item, part).try_for_each(|(id, rect)| cache.open(id, &rect, true))
}

/// The devices' part of a call.
pub(super) fn of_devices(item: &Item, part: &HostPart) -> Item {
    let place = |(operand, &(row, col)): (usize, &(usize, usize))| {
        let shape = &part.devices.operands[operand];
        let part = Part {
            operand,
            row,
            col,
            rows: shape.rows,
            cols: shape.cols,
            access: item.problem.access(operand),
        };
        item.problem.bytes(&part, item.places[operand].start)
    };
    Item {
        problem: Box::new(part.devices.clone()),
        places: part.begins.iter().enumerate().map(place).collect(),
        blocks: item.blocks.clone(),
        divided: true,
        ..*item
    }
}

/// The host's part, to be computed.
pub(super) fn of_host(item: &Item, part: &HostPart) -> Rest {
    Rest::of_host(&item.problem, &item.places, &part.tasks)
}
