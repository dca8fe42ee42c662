//! Times of kernels on the first device, each queued behind products that run long enough for the host to queue all of them.
//!
//! Large kernels are timed by the device. Small ones are timed by the host's clock, many in a row, from the end of the products to
//! the end of the last kernel, before the device times all operations: no events are recorded between them then, as in a program.

use std::time::Instant;

use semcache::base::Dtype;
use semcache::device::api::Ticket;

use super::copies::products;
use super::machine::{Copy, Machine};
use super::session::Sample;
use super::tasks::{Operation, TIMED_ALONE, Task, dtype};
use super::watched::{forget, seconds, span};

/// Seconds of products before each measured one: a GPU that computes for longer lowers its clock.
const LOAD_S: f64 = 0.02;
/// The same for sizes at which times have no meaning.
const QUICK_S: f64 = 0.001;
/// Copies in each direction beside the products, each of the largest size.
const COPIES: usize = 24;
/// Small kernels in a row. The host queues them in less time than the products before them take.
const SMALL: usize = 200;
/// Kernels that the host launches one after the other.
const LAUNCHES: usize = 1000;

/// The seconds of one of the products that keep a device busy.
pub(super) fn busy(machine: &Machine) -> Result<f64, String> {
    let one = || machine.wait(machine.product(Dtype::D, machine.sizes.order / 2)?);
    one()?;
    let begun = Instant::now();
    one()?;
    Ok(begun.elapsed().as_secs_f64())
}

/// The number of products of this order in a sample. Those of orders below [`TIMED_ALONE`] take a millisecond and more together, so
/// that the host's clock is exact enough.
fn count(machine: &Machine, order: usize) -> usize {
    match order {
        _ if machine.sizes.order < 1024 => 3,
        0..1024 => SMALL,
        1024..TIMED_ALONE => 50,
        TIMED_ALONE..4096 => 8,
        _ => 1,
    }
}

/// One sample of a kernel's time.
pub(super) fn sample(machine: &Machine, task: &Task, busy: f64) -> Result<Sample, String> {
    let n = task.size;
    match task.operation {
        Operation::Row(which) | Operation::Product(_, which) => {
            // Copies run beside products, and the device has the clock that it keeps under load: as in a call whose tiles
            // arrive and leave while others are computed.
            let quick = machine.sizes.order < 1024;
            let copies = if quick { 2 } else { COPIES };
            let mut last = Vec::new();
            for _ in 0..copies {
                let ways = [Copy::In(0), Copy::BackOut];
                last = ways
                    .iter()
                    .map(|way| machine.copy(*way, &[], machine.sizes.bytes))
                    .collect::<Result<_, _>>()?;
            }
            let lead = if quick { QUICK_S } else { LOAD_S };
            let one = || machine.product(dtype(which), n);
            let (lead, count) = ((lead, busy), count(machine, n));
            let found = match task.operation {
                Operation::Row(_) => in_a_row(machine, lead, count, &one)?,
                _ => timed(machine, lead, count, &one)?,
            };
            for ticket in last {
                machine.wait(ticket)?;
            }
            Ok(found)
        }
        Operation::Memory => timed(machine, (0.0, busy), 5, &|| machine.matrix_vector(2 * n, n)),
        Operation::Launch => in_a_row(machine, (0.0, busy), SMALL, &|| {
            machine.product(Dtype::D, n)
        }),
        Operation::Exec => in_a_row(machine, (0.0, busy), SMALL, &|| machine.sum(n)),
        _ => {
            let begun = Instant::now();
            let mut last = None;
            for _ in 0..LAUNCHES {
                last = Some(machine.sum(n)?);
            }
            if let Some(last) = last {
                machine.wait(last)?;
            }
            Ok(Sample::of(Some(
                begun.elapsed().as_secs_f64() / LAUNCHES as f64,
            )))
        }
    }
}

/// The mean of the device's times of `count` kernels behind products of at least `lead` seconds.
fn timed(
    machine: &Machine,
    (lead, busy): (f64, f64),
    count: usize,
    queue: &dyn Fn() -> Result<Ticket, String>,
) -> Result<Sample, String> {
    products(machine, lead, busy)?;
    let tickets: Vec<Ticket> = (0..count).map(|_| queue()).collect::<Result<_, _>>()?;
    let mut sum = Some(0.0);
    // The last one first: then the others are known to be complete without a wait for each.
    for ticket in tickets.into_iter().rev() {
        let found = span(machine.backend(), ticket)?;
        sum = sum.zip(found).map(|(sum, one)| sum + seconds(one));
    }
    forget();
    Ok(Sample::of(sum.map(|sum| sum / count as f64)))
}

/// The host's seconds of each of `count` kernels behind products of at least `lead` seconds.
fn in_a_row(
    machine: &Machine,
    (lead, busy): (f64, f64),
    count: usize,
    queue: &dyn Fn() -> Result<Ticket, String>,
) -> Result<Sample, String> {
    let before = products(machine, lead, busy)?;
    let mut last = None;
    for _ in 0..count {
        last = Some(queue()?);
    }
    if let Some(before) = before.last() {
        machine.wait(*before)?;
    }
    let begun = Instant::now();
    if let Some(last) = last {
        machine.wait(last)?;
    }
    Ok(Sample::of(Some(
        begun.elapsed().as_secs_f64() / count as f64,
    )))
}
