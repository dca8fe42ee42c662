//! Classifies addresses: device memory, pinned (page-locked) host memory, or pageable host memory.

use std::collections::BTreeMap;

use semcache::base::DeviceId;
use semcache::device::api::{Region, Shape};

use crate::names::{Outcome, Status};
use crate::pages::Pages;

/// A block of device memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    pub(crate) len: usize,
    pub(crate) context: usize,
    pub(crate) device: DeviceId,
}

/// A range of pinned host memory.
#[derive(Debug)]
pub(crate) struct Pinned {
    pub(crate) len: usize,
    /// Pinned by `cuMemHostRegister`; otherwise allocated by `cuMemHostAlloc`.
    pub(crate) registered: bool,
    pub(crate) pages: Pages,
}

/// The kind of memory that a region lies in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Device(DeviceId),
    Pinned {
        registered: bool,
    },
    /// Host memory that is not pinned.
    Pageable,
}

/// All memory that the program has allocated or registered by CUDA functions.
#[derive(Default, Debug)]
pub(crate) struct Memory {
    pub(crate) blocks: BTreeMap<usize, Block>,
    pub(crate) pinned: BTreeMap<usize, Pinned>,
}

/// The number of bytes from the first to the last of a region.
pub(crate) fn extent(region: Region, shape: Shape) -> usize {
    if shape.width == 0 || shape.count == 0 {
        return 0;
    }
    (shape.count - 1)
        .saturating_mul(region.pitch)
        .saturating_add(shape.width)
}

impl Memory {
    /// The kind of memory that the region lies in. A region that lies partly in a block or a pinned range and partly
    /// outside is refused.
    pub(crate) fn place(&self, region: Region, shape: Shape) -> Outcome<Place> {
        let start = region.addr as usize;
        let end = start
            .checked_add(extent(region, shape))
            .ok_or(Status::InvalidValue)?;
        let inside = |at: usize, len: usize| at <= start && end <= at + len;
        if let Some((at, block)) = meets(&self.blocks, start, end, |b| b.len) {
            return if inside(at, block.len) {
                Ok(Place::Device(block.device))
            } else {
                Err(Status::InvalidValue)
            };
        }
        match meets(&self.pinned, start, end, |p| p.len) {
            Some((at, pinned)) if inside(at, pinned.len) => Ok(Place::Pinned {
                registered: pinned.registered,
            }),
            Some(_) => Err(Status::InvalidValue),
            None => Ok(Place::Pageable),
        }
    }

    /// The start of the pinned range that the address lies in.
    pub(crate) fn pinned_at(&self, addr: usize) -> Option<usize> {
        meets(&self.pinned, addr, addr + 1, |p| p.len).map(|(at, _)| at)
    }

    /// The addresses from which copy engines read a region of pinned memory.
    pub(crate) fn engine_view(&mut self, region: Region, shape: Shape) -> Region {
        let start = region.addr as usize;
        let Some(at) = self.pinned_at(start) else {
            return region;
        };
        let Some(pinned) = self.pinned.get_mut(&at).filter(|p| p.registered) else {
            return region;
        };
        let end = start + extent(region, shape);
        let addr = pinned.pages.found_at(at, pinned.len, start, end) as u64;
        Region { addr, ..region }
    }

    /// Whether a range shares bytes with memory that is pinned already.
    pub(crate) fn meets_pinned(&self, start: usize, end: usize) -> bool {
        meets(&self.pinned, start, end, |p| p.len).is_some()
    }

    /// Whether a range shares bytes with memory of a device.
    pub(crate) fn meets_block(&self, start: usize, end: usize, device: DeviceId) -> bool {
        let blocks = self.blocks.range(..end).rev();
        let mut of_device = blocks.filter(|(_, block)| block.device == device);
        of_device.any(|(at, block)| at + block.len > start)
    }

    /// Bytes in use on a device, each block padded as the device pads it.
    pub(crate) fn used(&self, device: DeviceId) -> usize {
        self.blocks
            .values()
            .filter(|b| b.device == device)
            .map(|b| b.len.next_multiple_of(256))
            .sum()
    }
}

/// One of the disjoint ranges that shares a byte with `start..end`; if several do, the last of them.
fn meets<T>(
    ranges: &BTreeMap<usize, T>,
    start: usize,
    end: usize,
    len: impl Fn(&T) -> usize,
) -> Option<(usize, &T)> {
    let (at, range) = ranges.range(..end.max(start + 1)).next_back()?;
    (at + len(range) > start).then_some((*at, range))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(addr: u64, pitch: usize) -> Region {
        Region { addr, pitch }
    }

    #[test]
    fn a_region_lies_in_one_range_or_is_refused() {
        let mut m = Memory::default();
        for (at, registered) in [(1000, true), (2000, false)] {
            let len = 1000;
            let pages = Pages::default();
            m.pinned.insert(
                at,
                Pinned {
                    len,
                    registered,
                    pages,
                },
            );
        }
        let block = Block {
            len: 100,
            context: 1,
            device: DeviceId(1),
        };
        m.blocks.insert(5000, block);
        let flat = |addr, width| m.place(region(addr, width), Shape { width, count: 1 });
        assert_eq!(flat(1000, 1000), Ok(Place::Pinned { registered: true }));
        assert_eq!(flat(2999, 1), Ok(Place::Pinned { registered: false }));
        assert_eq!(flat(1500, 501), Err(Status::InvalidValue));
        assert_eq!(flat(999, 2), Err(Status::InvalidValue));
        assert_eq!(flat(999, 1), Ok(Place::Pageable));
        assert_eq!(flat(3000, 10), Ok(Place::Pageable));
        assert_eq!(flat(5000, 100), Ok(Place::Device(DeviceId(1))));
        assert_eq!(flat(5001, 100), Err(Status::InvalidValue));
        let shape = Shape { width: 8, count: 4 };
        assert!(m.place(region(5000, 30), shape).is_ok());
        assert!(m.place(region(5000, 31), shape).is_err());
        assert!(m.meets_pinned(0, 1001) && !m.meets_pinned(3000, 9000));
        assert_eq!(m.used(DeviceId(1)), 256);
        let meets = |start, end| m.meets_block(start, end, DeviceId(1));
        assert!(meets(5099, 5100) && meets(0, 5001) && !meets(5100, 5200) && !meets(0, 5000));
        assert!(!m.meets_block(0, 9999, DeviceId(0)));
    }
}
