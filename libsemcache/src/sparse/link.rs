//! What is derived from the row offsets and column indices of a sparse matrix, and which matrices have it.

use std::sync::{Mutex, PoisonError};

use rustc_hash::FxHashMap;

use super::again::Again;
use super::arrays::Own;
use super::csr::Csr;
use super::cut::Share;
use super::pattern::Pattern;
use super::product::Product;
use crate::base::{DeviceId, Op};
use crate::cache::Cache;
use crate::process::signals_blocked::SignalsBlocked;

/// Scratch memory of one kind of product, and the number by which the device knows what it prepared there.
#[derive(Debug)]
pub struct Scratch {
    /// The memory; none if the device needs none.
    pub memory: Option<Own>,
    /// See `CsrKernel::pattern`.
    pub pattern: u64,
}

/// Rows of a matrix that one kernel computes with.
#[derive(Debug)]
pub struct Part {
    /// The device.
    pub device: DeviceId,
    /// The rows.
    pub share: Share,
    /// The first and the end of the columns with entries in these rows.
    pub touched: (usize, usize),
    /// Row offsets counted from the share's first entry; none if devices use the program's own ones.
    pub offsets: Option<Own>,
    /// Column indices; none if devices use the program's own ones.
    pub columns: Option<Own>,
    /// By operation and number of vectors.
    pub scratch: FxHashMap<(Op, usize), Scratch>,
}

/// A matrix with what is derived from it.
#[derive(Debug)]
pub struct Link {
    /// The matrix.
    pub csr: Csr,
    /// Entries.
    pub nnz: usize,
    /// How many devices there were, which need not all have a part.
    pub devices: usize,
    /// The parts: one for each device, or several where its memory is too small for its rows.
    pub parts: Vec<Part>,
    /// Whether the next product begins with the last part: where devices hold only some, they still hold the last ones of the product
    /// before.
    pub backwards: bool,
    /// What each device's rows add to a transposed product, by number of vectors.
    pub sums: FxHashMap<usize, Vec<(DeviceId, Own)>>,
    /// Ends when row offsets or column indices change.
    pub pattern: Pattern,
    /// The tasks of the last product.
    pub again: Option<Again>,
}

impl Link {
    /// Bytes of the library's own memory in it.
    fn bytes(&self) -> usize {
        let of_part = |part: &Part| -> usize {
            let scratch = part.scratch.values().filter_map(|s| s.memory.as_ref());
            let all = part.offsets.iter().chain(&part.columns).chain(scratch);
            all.map(Own::extent).sum()
        };
        let sums = self.sums.values().flatten();
        let sums: usize = sums.map(|(_, own)| own.extent()).sum();
        sums + self.parts.iter().map(of_part).sum::<usize>()
    }

    /// Whether a device has no room for its rows, and gets some of them at each product.
    #[must_use]
    pub fn is_resent(&self) -> bool {
        let mut pairs = self.parts.windows(2);
        pairs.any(|pair| pair[0].device == pair[1].device)
    }

    /// Whether row offsets and column indices are what they were.
    #[must_use]
    pub fn is_same(&self, cache: &Cache) -> bool {
        self.pattern.holds(cache)
    }

    /// Ends the entries of the cache, and frees their memory, which a link that is dropped keeps for good. No product of the matrix is
    /// being queued.
    pub fn end(self, cache: &Cache) {
        self.pattern.end(cache);
        for part in self.parts {
            let scratch = part.scratch.into_values().filter_map(|s| s.memory);
            let all = part.offsets.into_iter().chain(part.columns);
            all.chain(scratch).for_each(|own| own.end(cache));
        }
        let sums = self.sums.into_values().flatten();
        sums.for_each(|(_, own)| own.end(cache));
    }
}

/// The most matrices that are linked at a time.
const MOST: usize = 64;
/// The most bytes of the library's own in all links but the last one. Of a matrix in small arrays nobody learns that the program has freed
/// it.
const MOST_BYTES: usize = 256 << 20;

static LINKS: Mutex<Vec<Link>> = Mutex::new(Vec::new());

/// No handler of the program runs meanwhile: it may multiply, too, or leave by a jump.
fn with_links<T>(run: impl FnOnce(&mut Vec<Link>) -> T) -> T {
    let _blocked = SignalsBlocked::new();
    run(&mut LINKS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Takes the link of a matrix; while a thread has it, others find none.
#[must_use]
pub fn take(csr: &Csr) -> Option<Link> {
    with_links(|links| {
        let at = links.iter().position(|l| l.csr == *csr)?;
        Some(links.remove(at))
    })
}

/// Takes the link of a product's matrix if it has the tasks of a product of this kind.
#[must_use]
pub fn take_again(product: &Product) -> Option<Link> {
    let serves = |l: &Link| {
        l.csr == product.csr && l.again.as_ref().is_some_and(|again| again.serves(product))
    };
    with_links(|links| {
        let at = links.iter().position(serves)?;
        Some(links.remove(at))
    })
}

/// Whether the matrix is linked, and no watched byte has changed since.
#[must_use]
pub fn has(csr: &Csr) -> bool {
    let same = |l: &Link| l.csr == *csr && l.pattern.is_watched();
    with_links(|links| links.iter().any(same))
}

/// Keeps a link, as the one that was used last. Returns those that have to end: of matrices that have changed or gone, of the same
/// matrix by another thread, and the oldest ones if they are too many or too large.
#[must_use]
pub fn keep(link: Link) -> Vec<Link> {
    with_links(|links| {
        let over = |l: &mut Link| !l.pattern.is_watched() || l.csr == link.csr;
        let mut ended: Vec<Link> = links.extract_if(.., over).collect();
        let mut bytes: usize = links.iter().map(Link::bytes).sum();
        while !links.is_empty() && (links.len() >= MOST || bytes > MOST_BYTES) {
            let oldest = links.remove(0);
            bytes -= oldest.bytes();
            ended.push(oldest);
        }
        links.push(link);
        ended
    })
}
