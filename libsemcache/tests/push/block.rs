//! Memory of the program, and calls on it.

use semcache::blas::{Call, Outcome};
use semcache::host::heap;
use semcache::runtime::{self, Facts};

/// Memory of the program: doubles, and the values that they must have.
pub(crate) struct Block {
    pub(crate) at: *mut f64,
    pub(crate) want: Vec<f64>,
}

impl Block {
    pub(crate) fn new(n: usize, seed: usize) -> Self {
        let at = heap::malloc(n * 8).cast::<f64>();
        assert!(!at.is_null());
        let mut b = Block {
            at,
            want: vec![0.0; n],
        };
        b.fill(seed);
        b
    }
    pub(crate) fn fill(&mut self, seed: usize) {
        for i in 0..self.want.len() {
            self.set(i, ((i * 7 + seed * 13 + i / 11) % 5) as f64 - 2.0);
        }
    }
    pub(crate) fn set(&mut self, i: usize, v: f64) {
        // SAFETY: inside the block; an access to an inaccessible page faults and is served.
        unsafe { self.at.add(i).write_volatile(v) };
        self.want[i] = v;
    }
    pub(crate) fn get(&self, i: usize) -> f64 {
        // SAFETY: as in `set`.
        unsafe { self.at.add(i).read_volatile() }
    }
    /// Reads all elements from front to back.
    pub(crate) fn check(&self, what: &str) {
        for (i, want) in self.want.iter().enumerate() {
            let got = self.get(i);
            assert!(got == *want, "{what}: element {i} is {got}, not {want}");
        }
    }
    pub(crate) fn addr(&self) -> usize {
        self.at.addr()
    }
}

pub(crate) fn run(call: &Call) {
    assert!(
        !matches!(runtime::call(call, &Facts::default()), Outcome::Host),
        "{call:?} was not offloaded"
    );
}
