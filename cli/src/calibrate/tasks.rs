//! What is measured: one task for each operation and size.

use semcache::base::Dtype;

use super::machine::Machine;

/// The lengths of the pieces of which copies of matrices consist, in the order of `device.runs`.
pub(super) const RUNS: [usize; 5] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];

/// Products of matrices of at least this order are timed one by one, by an event before and an event behind each: they take 0.1 ms
/// and more, and recording the events some microseconds.
pub(super) const TIMED_ALONE: usize = 2048;

/// An operation. Those before [`Operation::Product`] are timed before the devices time all operations.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Operation {
    /// Page-locking while this number of devices are up.
    Pin,
    /// A small product, a small sum of vectors, and the latter as the host launches one after the other.
    Launch,
    Exec,
    Stream,
    /// A product of square matrices of an order below [`TIMED_ALONE`], under load: many in a row, without events between them.
    Row(Type),
    /// A product of square matrices, under load.
    Product(Way, Type),
    /// A product of a matrix and a vector of doubles that is as fast as memory.
    Memory,
    /// A copy while nothing else is copied.
    Copy(Way),
    /// A copy while the opposite direction is busy.
    Beside(Way),
    /// A copy of pieces while kernels run.
    Runs,
    /// Copies to, or from, this number of devices at once.
    Together(Way),
    /// On the host BLAS: a call with one element, sums of vectors and products of two vectors in its caches, and sums of vectors in
    /// main memory.
    HostCall,
    HostCached,
    HostReduction,
    HostMemory,
}

/// Between which memories a copy is; for products, where they are computed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Way {
    /// To the devices; on a device.
    In,
    /// To the host; on the host.
    Out,
    /// From device to device.
    Peer,
}

/// The place of an element type in [`Dtype::ALL`].
pub(super) type Type = u8;

/// The element type with this place.
pub(super) fn dtype(which: Type) -> Dtype {
    Dtype::ALL[usize::from(which) % Dtype::ALL.len()]
}

/// One measurement.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Task {
    pub(super) operation: Operation,
    /// Bytes, the order of a matrix, the elements of a vector, or a number of devices.
    pub(super) size: usize,
}

impl Task {
    /// What is measured, for people.
    pub(super) fn name(&self) -> String {
        let way = |way| match way {
            Way::In => "h2d",
            Way::Out => "d2h",
            Way::Peer => "p2p",
        };
        let (what, unit) = match self.operation {
            Operation::Pin => ("page-locking".to_owned(), "GPUs in use"),
            Operation::Product(Way::Out, t) => (format!("host {}gemm", dtype(t).letter()), "order"),
            Operation::Row(t) | Operation::Product(_, t) => {
                (format!("{}gemm", dtype(t).letter()), "order")
            }
            Operation::Memory => ("dgemv".to_owned(), "order"),
            Operation::Launch => ("small dgemm".to_owned(), "order"),
            Operation::Exec => ("small daxpy".to_owned(), "elements"),
            Operation::Stream => ("launches of daxpy".to_owned(), "elements"),
            Operation::Copy(w) => (way(w).to_owned(), "bytes"),
            Operation::Beside(w) => (format!("{} beside the opposite direction", way(w)), "bytes"),
            Operation::Runs => (
                "h2d of a matrix beside kernels".to_owned(),
                "bytes a column",
            ),
            Operation::Together(w) => (format!("{} of several GPUs", way(w)), "GPUs"),
            Operation::HostCall => ("host daxpy, one call".to_owned(), "elements"),
            Operation::HostCached => ("host daxpy in caches".to_owned(), "elements"),
            Operation::HostReduction => ("host ddot in caches".to_owned(), "elements"),
            Operation::HostMemory => ("host daxpy in main memory".to_owned(), "elements"),
        };
        format!("{what}, {unit}: {}", self.size)
    }

    /// The share of the time that the task gets, compared with others.
    pub(super) fn weight(&self) -> u64 {
        match self.operation {
            Operation::Product(Way::Out, _) => 4,
            Operation::Product(..) if self.size > 2048 => 4,
            Operation::Row(_)
            | Operation::Product(..)
            | Operation::Together(_)
            | Operation::HostMemory => 2,
            _ => 1,
        }
    }

    /// Whether the devices' own times of operations are needed.
    pub(super) fn is_watched(&self) -> bool {
        use Operation::{Beside, Copy, Memory, Product, Runs};
        matches!(
            self.operation,
            Copy(_) | Beside(_) | Runs | Memory | Product(Way::In, _)
        )
    }

    /// Whether the host BLAS is measured.
    pub(super) fn is_host(&self) -> bool {
        use Operation::{HostCached, HostCall, HostMemory, HostReduction, Product};
        matches!(
            self.operation,
            HostCall | HostCached | HostReduction | HostMemory | Product(Way::Out, _)
        )
    }
}

/// Sizes of what is measured on the host BLAS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct HostSizes {
    /// The order of the largest product.
    pub(super) order: usize,
    /// Elements of the longest vectors that fit into the caches, and of vectors that do not.
    pub(super) cached: usize,
    pub(super) large: usize,
}

/// The powers of a factor from one number to another.
fn powers(from: usize, to: usize, factor: usize) -> Vec<usize> {
    std::iter::successors(Some(from), |n| n.checked_mul(factor))
        .take_while(|n| *n <= to)
        .collect()
}

/// The numbers of devices for which totals are known, up to this one.
fn counts(devices: usize) -> Vec<usize> {
    powers(1, devices.min(8), 2)
}

/// All that is measured on this machine, in order.
pub(super) fn plan(machine: &Machine, host: Option<HostSizes>) -> Vec<Task> {
    let (devices, sizes) = (machine.devices().len(), machine.sizes);
    let mut all = Vec::new();
    let mut add = |operation, sizes: &[usize]| {
        all.extend(sizes.iter().map(|&size| Task { operation, size }));
    };
    add(Operation::Pin, &counts(devices));
    let alike = machine.is_alike();
    if alike {
        add(Operation::Launch, &[32]);
        add(Operation::Exec, &[1000]);
        add(Operation::Stream, &[1000]);
        let orders = powers(if sizes.order < 1024 { 32 } else { 256 }, sizes.order, 2);
        // Of the orders of `--quick`, a row takes too little time for the host's clock.
        let in_row = |order: &usize| (1024..).contains(&sizes.order) && *order < TIMED_ALONE;
        let (small, large): (Vec<usize>, Vec<usize>) = orders.into_iter().partition(in_row);
        // Singles before doubles: the operands are filled once for each.
        for which in [0, 2, 1, 3] {
            add(Operation::Row(which), &small);
        }
        for which in [0, 2, 1, 3] {
            add(Operation::Product(Way::In, which), &large);
        }
        add(Operation::Memory, &[sizes.order]);
    }
    for way in [Way::In, Way::Out] {
        add(Operation::Together(way), &counts(devices));
    }
    if alike {
        let ways = [Way::In, Way::Out, Way::Peer];
        let peers = if machine.has_peer() { 3 } else { 2 };
        for way in &ways[..peers] {
            add(Operation::Copy(*way), &powers(64 << 10, sizes.bytes, 4));
            add(Operation::Beside(*way), &[sizes.bytes]);
        }
        add(Operation::Runs, &RUNS);
    }
    if let Some(host) = host {
        add(Operation::HostCall, &[1]);
        add(
            Operation::HostCached,
            &powers(host.cached / 16, host.cached, 2),
        );
        add(Operation::HostReduction, &[host.cached]);
        add(Operation::HostMemory, &[host.large]);
        for which in [0, 2, 1, 3] {
            add(
                Operation::Product(Way::Out, which),
                &powers((host.order / 16).max(16), host.order, 2),
            );
        }
    }
    all
}
