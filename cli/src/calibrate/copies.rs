//! Times of copies between the host and devices, and from device to device.

use std::time::Instant;

use semcache::base::Dtype;
use semcache::device::api::Ticket;

use super::machine::{Copy, Machine};
use super::session::Sample;
use super::tasks::Way;
use super::watched::{forget, seconds, span};

/// Copies in the opposite direction while one is measured, each of the largest size.
const OPPOSITE: usize = 8;
/// Bytes of the copy before the one that is measured.
const BEFORE: usize = 16 << 20;
/// Copies of each device that are measured together.
const TOGETHER: usize = 4;
/// The distance between columns of the matrix of which tiles are copied.
const PITCH: usize = 128 << 10;
/// The least rate of copies that kernels beside them are made to outlast, in bytes per second.
const SLOWEST: f64 = 10e9;

fn copy_of(way: Way) -> Copy {
    match way {
        Way::In => Copy::In(0),
        Way::Out => Copy::Out(0),
        Way::Peer => Copy::Peer,
    }
}

/// The copy that keeps the opposite direction busy, in memory of its own.
fn opposite(way: Way) -> Copy {
    match way {
        Way::In => Copy::BackOut,
        Way::Out => Copy::BackIn,
        Way::Peer => Copy::BackPeer,
    }
}

/// A copy while nothing else is copied. One before it keeps the stream busy while the host queues the one that is measured.
pub(super) fn alone(machine: &Machine, way: Way, bytes: usize) -> Result<Sample, String> {
    let which = copy_of(way);
    machine.copy(which, &[], machine.sizes.bytes.min(BEFORE))?;
    let ticket = machine.copy(which, &[], bytes)?;
    let found = span(machine.backend(), ticket)?;
    forget();
    Ok(Sample::of(found.map(seconds)))
}

/// A copy that begins when the opposite direction is busy.
pub(super) fn beside(machine: &Machine, way: Way, bytes: usize) -> Result<Sample, String> {
    let others: Vec<Ticket> = (0..OPPOSITE)
        .map(|_| machine.copy(opposite(way), &[], machine.sizes.bytes))
        .collect::<Result<_, _>>()?;
    let ticket = machine.copy(copy_of(way), &others[..1], bytes)?;
    covered(machine, ticket, &others)
}

/// The time of an operation, and whether the last of the others was not complete when it ended.
fn covered(machine: &Machine, ticket: Ticket, others: &[Ticket]) -> Result<Sample, String> {
    let backend = machine.backend();
    let found = span(backend, ticket)?;
    let last = match others.last() {
        Some(last) => span(backend, *last)?,
        None => None,
    };
    forget();
    Ok(Sample {
        seconds: found.map(seconds),
        covered: found.zip(last).is_none_or(|(one, last)| one.1 <= last.1),
    })
}

/// A copy of columns of this many bytes of a matrix while kernels run, each of which takes `busy` seconds.
pub(super) fn runs(machine: &Machine, run: usize, busy: f64) -> Result<Sample, String> {
    let columns = (machine.sizes.bytes / PITCH).max(1);
    let lead = (run * columns) as f64 / SLOWEST;
    let kernels = products(machine, lead, busy)?;
    let ticket = machine.copy_runs(Copy::In(0), &kernels[..1], (run, columns, PITCH))?;
    covered(machine, ticket, &kernels)
}

/// Queues products of doubles that take at least this long together, if each takes `busy` seconds; at least two.
pub(super) fn products(machine: &Machine, lead: f64, busy: f64) -> Result<Vec<Ticket>, String> {
    /// Enough for any lead, also where a clock that is coarse makes one product seem to take no time.
    const MOST: usize = 400;
    let one = || machine.product(Dtype::D, machine.sizes.order / 2);
    let mut all = vec![one()?];
    while all.len() < 2 || (all.len() < MOST && (all.len() - 1) as f64 * busy <= lead) {
        all.push(one()?);
    }
    Ok(all)
}

/// The first devices at once, by the host's clock.
pub(super) fn together(machine: &Machine, way: Way, devices: usize) -> Result<Sample, String> {
    let begun = Instant::now();
    let mut last = Vec::new();
    for round in 0..TOGETHER {
        for i in 0..devices {
            let which = match way {
                Way::Out => Copy::Out(i),
                Way::In | Way::Peer => Copy::In(i),
            };
            let ticket = machine.copy(which, &[], machine.sizes.bytes)?;
            if round == TOGETHER - 1 {
                last.push(ticket);
            }
        }
    }
    for ticket in last {
        machine.wait(ticket)?;
    }
    Ok(Sample::of(Some(begun.elapsed().as_secs_f64())))
}

/// The bytes that [`together`] copies.
pub(super) fn bytes_together(machine: &Machine, devices: usize) -> usize {
    TOGETHER * devices * machine.sizes.bytes
}

/// The bytes that [`runs`] copies.
pub(super) fn bytes_of_runs(machine: &Machine, run: usize) -> usize {
    run * (machine.sizes.bytes / PITCH).max(1)
}
