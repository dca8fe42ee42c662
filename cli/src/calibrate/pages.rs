//! Host memory for copies and page-locking.

use memmap2::{Advice, MmapMut};

/// The size of a huge page.
const HUGE: usize = 2 << 20;

/// Host memory that has been used, in huge pages if the system gives them.
#[derive(Debug)]
pub(super) struct Host {
    map: MmapMut,
    start: usize,
    bytes: usize,
}

impl Host {
    pub(super) fn new(bytes: usize) -> Result<Host, String> {
        let failed = |e: std::io::Error| format!("no host memory of {bytes} bytes: {e}");
        let map = MmapMut::map_anon(bytes + HUGE).map_err(failed)?;
        // A kernel without huge pages refuses the advice, and small pages do as well.
        let _ = map.advise(Advice::HugePage);
        let start = map.as_ptr().align_offset(HUGE);
        let mut host = Host { map, start, bytes };
        host.fill(false);
        Ok(host)
    }

    /// The address of its first byte.
    pub(super) fn address(&self) -> usize {
        self.map.as_ptr().expose_provenance() + self.start
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Fills the memory with integers as numbers of a precision: the rate of products depends on the bits that change.
    pub(super) fn fill(&mut self, single: bool) {
        let bytes = &mut self.map[self.start..self.start + self.bytes];
        if single {
            let numbers = bytes.chunks_exact_mut(4).enumerate();
            numbers.for_each(|(i, at)| at.copy_from_slice(&f32::from(integer(i)).to_ne_bytes()));
        } else {
            let numbers = bytes.chunks_exact_mut(8).enumerate();
            numbers.for_each(|(i, at)| at.copy_from_slice(&f64::from(integer(i)).to_ne_bytes()));
        }
    }
}

/// A small integer that looks random.
pub(super) fn integer(i: usize) -> i8 {
    let mixed = (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    i8::try_from(mixed % 17).unwrap_or(0) - 8
}
