//! Counters by matrix: by the block of host memory that operands of calls lie in.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::table::Counter;
use super::text::Text;

const MATRICES: usize = 512;

/// What was done with the operands in a block of host memory.
#[derive(Debug)]
pub struct Matrix {
    /// The block's address; 0: free.
    start: AtomicU64,
    /// The block's bytes.
    pub bytes: Counter,
    /// Rows of the first operand that was used there.
    pub rows: Counter,
    /// Its columns.
    pub cols: Counter,
    /// The site of its first call, by index, plus 1.
    pub site: Counter,
    /// The name that the program gave it (`semcache.h`).
    pub name: Text<4>,
    /// Calls on devices with an operand there.
    pub calls: Counter,
    /// Bytes copied to devices.
    pub h2d: Counter,
    /// Bytes copied to the host.
    pub d2h: Counter,
    /// Of them bytes of results on pages that hold other data, too, or cannot be protected: copied before a call returns.
    pub edges: Counter,
    /// Faults of loads.
    pub loads: Counter,
    /// Faults of stores.
    pub stores: Counter,
    /// Those on bytes that no device holds, in a panel with bytes that one does.
    pub false_sharing: Counter,
    /// Nanoseconds of serving its faults, but for waiting for kernels.
    pub ns: Counter,
    /// Calls of drivers of LAPACK on the host with it.
    pub solver_calls: Counter,
    /// Nanoseconds of them.
    pub solver_ns: Counter,
    /// The site of the last load that faulted, by index, plus 1.
    pub load_site: Counter,
    /// The site of the last store that faulted, by index, plus 1.
    pub store_site: Counter,
}

impl Matrix {
    /// The first call that uses a matrix says what it is: the bytes of its block, its rows and columns, and the call's site. Returns
    /// whether this call is the first.
    pub fn tell(&self, bytes: usize, (rows, cols): (usize, usize), site: Option<usize>) -> bool {
        let first = self.bytes.get() == 0;
        if first {
            self.bytes.set(bytes as u64);
            self.rows.set(rows as u64);
            self.cols.set(cols as u64);
            self.site.set(site.map_or(0, |index| index as u64 + 1));
        }
        first
    }

    const fn new() -> Matrix {
        Matrix {
            start: AtomicU64::new(0),
            bytes: Counter::new(),
            rows: Counter::new(),
            cols: Counter::new(),
            site: Counter::new(),
            name: Text::new(),
            calls: Counter::new(),
            h2d: Counter::new(),
            d2h: Counter::new(),
            edges: Counter::new(),
            loads: Counter::new(),
            stores: Counter::new(),
            false_sharing: Counter::new(),
            ns: Counter::new(),
            solver_calls: Counter::new(),
            solver_ns: Counter::new(),
            load_site: Counter::new(),
            store_site: Counter::new(),
        }
    }
}

/// The matrices of a process.
#[derive(Debug)]
pub struct MatrixTable {
    matrices: [Matrix; MATRICES],
    /// Matrices that found no room.
    pub left_out: Counter,
}

impl MatrixTable {
    pub(super) const fn new() -> MatrixTable {
        MatrixTable {
            matrices: [const { Matrix::new() }; MATRICES],
            left_out: Counter::new(),
        }
    }

    /// The matrix in the block at an address; a new one if there is room. A block that is freed and another one at its address
    /// are one matrix.
    pub fn find(&self, start: usize) -> Option<&Matrix> {
        let start = start as u64;
        for matrix in self.probed(start) {
            match matrix.start.compare_exchange(0, start, Relaxed, Relaxed) {
                Ok(_) => return Some(matrix),
                Err(there) if there == start => return Some(matrix),
                Err(_) => {}
            }
        }
        self.left_out.add(1);
        None
    }

    /// The matrix in the block at an address, if calls have used it.
    #[must_use]
    pub fn known(&self, start: usize) -> Option<&Matrix> {
        let start = start as u64;
        let mut probed = self.probed(start);
        probed.find(|matrix| matrix.start.load(Relaxed) == start)
    }

    /// Where a matrix may be.
    fn probed(&self, start: u64) -> impl Iterator<Item = &Matrix> {
        const PROBES: usize = 16;
        let first = (start.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize;
        (first..first + PROBES).map(|at| &self.matrices[at % MATRICES])
    }

    /// All matrices, each with the address of its block.
    pub fn all(&self) -> impl Iterator<Item = (u64, &Matrix)> {
        let all = self.matrices.iter().map(|m| (m.start.load(Relaxed), m));
        all.filter(|(start, _)| *start != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrices_are_found_again_until_the_table_is_full() {
        let table = Box::new(MatrixTable::new());
        table.find(0x10_0000).expect("room").calls.add(2);
        table.find(0x10_0000).expect("room").calls.add(1);
        let all: Vec<(u64, u64)> = table.all().map(|(at, m)| (at, m.calls.get())).collect();
        assert_eq!(all, [(0x10_0000, 3)]);
        assert!(table.known(0x10_0000).is_some() && table.known(0x20_0000).is_none());
        let found = (1..2000).filter(|i| table.find(i << 20).is_some()).count() as u64;
        assert!((400..=512).contains(&found) && table.left_out.get() == 1999 - found);
    }
}
