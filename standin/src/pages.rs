//! The pages of registered (page-locked) memory, as copy engines see them. An engine keeps using the pages that were
//! pinned, also when the process replaces them in its page table: from then on the engine and the CPU access different
//! bytes. Simulated engines use addresses, so the stand-in recognises replaced pages by pages that are missing from the
//! page table; the engines then get a copy of the bytes that were registered. Of large registrations no copy is made:
//! there the misuse is reported, and the engines read nonsense.

#![expect(unsafe_code, reason = "copies memory that is being registered")]

use rustix::fs::{Mode, OFlags, open};
use rustix::io::pread;
use rustix::param::page_size;
use semcache::device::api::{Region, Shape};

use crate::cpu;
use crate::misuse::complain;

/// Registrations up to this size are copied. The runtime's self-test replaces pages of such a registration.
const COPIED: usize = 1 << 20;

/// The byte that engines read where pages are replaced and no copy exists.
const NONSENSE: u8 = 0x5C;

/// Bits of an entry of `/proc/self/pagemap`: the page is present, or in swap space.
const THERE: u64 = 1 << 63 | 1 << 62;

/// The bytes of a registration that copy engines see.
#[derive(Default, Debug)]
pub(crate) struct Pages {
    copy: Vec<u8>,
    parted: bool,
}

impl Pages {
    /// Copies the bytes of a range that is being registered and is readable.
    pub(crate) fn pin(start: usize, len: usize) -> Self {
        let mut copy = Vec::new();
        if len <= COPIED {
            copy.resize(len, 0);
            let addr = start as u64;
            let shape = Shape {
                width: len,
                count: 1,
            };
            // SAFETY: populated a moment ago; the copy has the range's length.
            unsafe { cpu::gather(Region { addr, pitch: len }, shape, copy.as_mut_ptr()) };
        }
        Pages {
            copy,
            parted: false,
        }
    }

    /// The address at which the engines find the bytes `from..to` of the registration at `start`: in the registration
    /// itself, unless its pages were replaced.
    pub(crate) fn found_at(&mut self, start: usize, len: usize, from: usize, to: usize) -> usize {
        if !self.parted && missing(from, to) {
            self.parted = true;
            if self.copy.is_empty() {
                complain(format_args!(
                    "registered pages at {from:#x} were replaced, and the device is to use them"
                ));
                self.copy = vec![NONSENSE; len];
            }
        }
        if self.parted {
            self.copy.as_mut_ptr().expose_provenance() + (from - start)
        } else {
            from
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if self.parted {
            // Queued copies may still read this memory, so it is never freed. It happens once per self-test.
            core::mem::forget(core::mem::take(&mut self.copy));
        }
    }
}

/// Whether a page of the range is neither in memory nor in swap space, as can happen only if the pinned page was
/// replaced.
fn missing(from: usize, to: usize) -> bool {
    let page = page_size();
    let Ok(map) = open(
        "/proc/self/pagemap",
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    ) else {
        return false;
    };
    let mut entries = [0u8; 4096];
    let (mut at, end) = (from / page * 8, to.div_ceil(page) * 8);
    while at < end {
        let room = entries.len().min(end - at);
        let Ok(n) = pread(&map, &mut entries[..room], at as u64) else {
            return false;
        };
        let there = |entry: &[u8; 8]| u64::from_ne_bytes(*entry) & THERE != 0;
        let (whole, _) = entries[..n].as_chunks::<8>();
        if !whole.iter().all(there) {
            return true;
        }
        if n < 8 {
            return false;
        }
        at += n / 8 * 8;
    }
    false
}
