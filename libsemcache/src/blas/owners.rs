//! Calls of level 1 on vectors of which several devices hold a part: each computes with its own (owner computes).

use core::iter::once;

use super::checks::Item;
use crate::base::Rect;
use crate::cache::Cache;
use crate::model::rates::DeviceRates;
use crate::plan::{self, Access, Owned};

/// The devices that compute a call of level 1 in parts: those that hold the parts of one of its vectors, if copying the parts to one
/// device would take longer than a kernel on each of these devices, and no fewer bytes. Other vectors move to where the parts are: a
/// vector that is added to one in parts is in parts from then on. If every vector that is read is on one device, a vector that is
/// overwritten stays in its parts: the calls behind are likely to use them where the calls before did, and what is copied there of the
/// others stays there, too. `apart`: of each operand the bytes that are on devices, but not on the one that has most of them.
pub(super) fn of_call(
    cache: &Cache,
    item: &Item,
    apart: &[usize],
    rates: &DeviceRates,
) -> Vec<Owned> {
    let p = &item.problem;
    if !plan::divides(p) {
        return Vec::new();
    }
    let read = || (0..p.operands.len()).filter(|&i| p.fetches(i));
    let in_parts = |reads: bool| {
        let each = (0..p.operands.len()).filter(move |&i| p.fetches(i) == reads);
        each.filter(|&i| apart[i] > 0)
    };
    let of_inputs: usize = in_parts(true).map(|i| apart[i]).sum();
    // Of a vector that is only overwritten no byte is copied now.
    let (reads, gathered) = match of_inputs {
        0 => (false, in_parts(false).map(|i| apart[i]).sum()),
        inputs => (true, inputs),
    };
    if gathered == 0 {
        return Vec::new();
    }
    let size = p.dtype.size();
    let place = |i: usize| {
        let block = item.blocks[i]?;
        Some((block.id, item.places[i].counted_from(block.start).span()))
    };
    let owners = |i: usize| -> Vec<Owned> {
        let Some((id, place)) = place(i) else {
            return Vec::new();
        };
        let owned = |(end, device)| Owned {
            end: (end - place.start) / size,
            device,
        };
        cache.owners(id, place).into_iter().map(owned).collect()
    };
    // Bytes of a part of a vector that other devices hold.
    let elsewhere = |i: usize, (from, part): (usize, &Owned)| {
        let Some((id, place)) = place(i) else {
            return 0;
        };
        let (from, end) = (place.start + from * size, place.start + part.end * size);
        let found = cache.residency(id, &Rect::interval(from, end.min(place.end)));
        let here = found.resident.get(part.device.index()).copied();
        found.union.saturating_sub(here.unwrap_or(0))
    };
    let moved = |parts: &[Owned]| -> usize {
        let starts = once(0).chain(parts.iter().map(|part| part.end));
        let of_part = |part| read().map(|i| elsewhere(i, part)).sum::<usize>();
        starts.zip(parts).map(of_part).sum()
    };
    // Of equal ones the one that leaves a written vector where it is.
    let all = in_parts(reads).map(|i| (owners(i), p.access(i) == Access::Read));
    let best = all
        .filter(|(parts, _)| !parts.is_empty())
        .map(|(parts, only_read)| (moved(&parts), only_read, parts))
        .min_by_key(|(moved, only_read, _)| (*moved, *only_read));
    let Some((moved, _, parts)) = best else {
        return Vec::new();
    };
    let kernels_s = parts.len() as f64 * (rates.launch_s + rates.p2p.latency_s);
    // A little more, since parts of vectors that sparse products read overlap.
    match moved <= gathered + gathered / 8 && rates.p2p.time(gathered as f64) > kernels_s {
        true => parts,
        false => Vec::new(),
    }
}
