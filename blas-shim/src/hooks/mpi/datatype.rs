//! Where the elements of a datatype are in memory.

#![expect(unsafe_code, reason = "calls functions of MPI")]

use core::ffi::c_int;
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::library::Library;

/// Parts of a datatype up to which each is made accessible by itself; of others, all from the first to the last byte is.
const MOST: usize = 1 << 16;

/// How many datatypes within datatypes are looked at.
const DEEPEST: usize = 16;

/// The extent of a datatype, and its bytes, with and without gaps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    pub(super) extent: isize,
    true_lower: isize,
    true_extent: isize,
    bytes: i64,
}

impl Layout {
    /// That of a datatype without gaps.
    fn dense(size: u8) -> Layout {
        Layout {
            extent: size.into(),
            true_lower: 0,
            true_extent: size.into(),
            bytes: size.into(),
        }
    }

    /// The bytes from the first to the last one of `count` elements at an address; none if there are none.
    pub(super) fn hull(&self, at: isize, count: isize) -> Option<Range<isize>> {
        if count <= 0 || self.true_extent <= 0 {
            return None;
        }
        let last = self.extent.wrapping_mul(count - 1);
        let first = at.wrapping_add(self.true_lower);
        let start = first.wrapping_add(last.min(0));
        let end = first
            .wrapping_add(last.max(0))
            .wrapping_add(self.true_extent);
        Some(start..end)
    }

    /// How many bytes `count` elements have, without gaps.
    pub(super) fn bytes(&self, count: isize) -> usize {
        usize::try_from(self.bytes)
            .unwrap_or(0)
            .saturating_mul(count.unsigned_abs())
    }
}

/// Predefined datatypes without gaps that calls have used. No program frees these, so their layouts need not be asked for again.
///
/// A word has a handle above its lowest byte, and in that the datatype's size; a datatype has one place, in which it may replace another.
struct Predefined([AtomicUsize; 64]);

static PREDEFINED: Predefined = Predefined([const { AtomicUsize::new(0) }; 64]);

impl Predefined {
    fn place(&self, datatype: usize) -> &AtomicUsize {
        let hash = datatype.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
        let [first, ..] = &self.0;
        self.0.get(hash).unwrap_or(first)
    }

    fn get(&self, datatype: usize) -> Option<Layout> {
        let word = self.place(datatype).load(Ordering::Relaxed);
        let size = word & 0xff;
        (size > 0 && word >> 8 == datatype).then(|| Layout::dense(size as u8))
    }

    fn put(&self, datatype: usize, size: u8) {
        if datatype << 8 >> 8 == datatype {
            let word = datatype << 8 | usize::from(size);
            self.place(datatype).store(word, Ordering::Relaxed);
        }
    }
}

/// What a datatype was made by.
struct Contents {
    combiner: c_int,
    integers: Vec<c_int>,
    addresses: Vec<isize>,
    /// Datatypes, which are the program's or were made for us.
    datatypes: Vec<usize>,
}

/// Parts of memory that are found, in order.
pub(super) struct Parts<'a> {
    emit: &'a mut dyn FnMut(Range<isize>),
    /// The last one, which the next may continue.
    last: Range<isize>,
    left: usize,
}

impl<'a> Parts<'a> {
    pub(super) fn new(emit: &'a mut dyn FnMut(Range<isize>)) -> Parts<'a> {
        Parts {
            emit,
            last: 0..0,
            left: MOST,
        }
    }

    pub(super) fn add(&mut self, part: Range<isize>) {
        if part.start <= self.last.end && self.last.start <= part.start {
            self.last.end = self.last.end.max(part.end);
            return;
        }
        self.end();
        self.last = part;
    }

    /// Emits the last part.
    pub(super) fn end(&mut self) {
        let last = core::mem::replace(&mut self.last, 0..0);
        if !last.is_empty() {
            (self.emit)(last);
        }
        self.left = self.left.saturating_sub(1);
    }
}

impl Library {
    pub(super) fn layout(&self, datatype: usize) -> Option<Layout> {
        if !self.is_datatype(datatype) {
            return None;
        }
        if let Some(layout) = PREDEFINED.get(datatype) {
            return Some(layout);
        }
        let (mut lower, mut extent, mut true_lower, mut true_extent, mut bytes) = (0, 0, 0, 0, 0);
        // SAFETY: a datatype, and where to store numbers.
        let status = unsafe {
            (self.functions.extent)(datatype, &raw mut lower, &raw mut extent)
                | (self.functions.true_extent)(datatype, &raw mut true_lower, &raw mut true_extent)
                | (self.functions.type_size)(datatype, &raw mut bytes)
        };
        let layout = Layout {
            extent,
            true_lower,
            true_extent,
            bytes,
        };
        if status != 0 {
            return None;
        }
        if let Ok(size) = u8::try_from(bytes)
            && layout == Layout::dense(size)
            && let Some([.., combiner]) = self.envelope(datatype)
            && combiner == self.constants().combiners.named
        {
            PREDEFINED.put(datatype, size);
        }
        Some(layout)
    }

    /// Finds the parts of memory of `count` elements at an address, without the gaps between them as far as is known.
    pub(super) fn parts(&self, datatype: usize, at: isize, count: isize, parts: &mut Parts<'_>) {
        self.parts_within(datatype, at, count, parts, 0);
    }

    fn parts_within(
        &self,
        datatype: usize,
        at: isize,
        count: isize,
        parts: &mut Parts<'_>,
        depth: usize,
    ) {
        let Some(layout) = self.layout(datatype) else {
            return;
        };
        let Some(hull) = layout.hull(at, count) else {
            return;
        };
        let dense = i64::try_from(layout.true_extent) == Ok(layout.bytes);
        if dense && (count == 1 || layout.extent == layout.true_extent) {
            return parts.add(hull);
        }
        if depth == DEEPEST || parts.left < count.unsigned_abs() {
            return parts.add(hull);
        }
        let contents = if dense { None } else { self.contents(datatype) };
        for i in 0..count {
            let at = at.wrapping_add(layout.extent.wrapping_mul(i));
            match &contents {
                Some(contents) => self.parts_of(contents, at, &layout, parts, depth + 1),
                None => layout
                    .hull(at, 1)
                    .into_iter()
                    .for_each(|hull| parts.add(hull)),
            }
        }
        if let Some(contents) = contents {
            self.forget(contents);
        }
    }

    /// The parts of one element.
    fn parts_of(
        &self,
        contents: &Contents,
        at: isize,
        layout: &Layout,
        parts: &mut Parts<'_>,
        depth: usize,
    ) {
        let known = &self.constants().combiners;
        let Contents {
            combiner,
            integers,
            addresses,
            datatypes,
        } = contents;
        let combiner = *combiner;
        let first = datatypes.first().copied().unwrap_or(0);
        let integer = |i: usize| integers.get(i).map_or(0, |n| *n as isize);
        let address = |i: usize| addresses.get(i).copied().unwrap_or(0);
        let extent = self.layout(first).map_or(0, |layout| layout.extent);
        let all = usize::try_from(integer(0)).unwrap_or(0);
        if all > parts.left {
            return (layout.hull(at, 1).into_iter()).for_each(|hull| parts.add(hull));
        }
        let mut blocks = |of: &dyn Fn(usize) -> (usize, isize, isize)| {
            for i in 0..all {
                let (datatype, length, by) = of(i);
                self.parts_within(datatype, at.wrapping_add(by), length, parts, depth);
            }
        };
        if combiner == known.dup || combiner == known.resized {
            self.parts_within(first, at, 1, parts, depth);
        } else if combiner == known.contiguous {
            self.parts_within(first, at, integer(0), parts, depth);
        } else if combiner == known.vector {
            blocks(&|i| (first, integer(1), i as isize * integer(2) * extent));
        } else if combiner == known.hvector {
            blocks(&|i| (first, integer(1), i as isize * address(0)));
        } else if combiner == known.indexed {
            blocks(&|i| (first, integer(1 + i), integer(1 + all + i) * extent));
        } else if combiner == known.hindexed {
            blocks(&|i| (first, integer(1 + i), address(i)));
        } else if combiner == known.indexed_block {
            blocks(&|i| (first, integer(1), integer(2 + i) * extent));
        } else if combiner == known.hindexed_block {
            blocks(&|i| (first, integer(1), address(i)));
        } else if combiner == known.structure {
            let datatype = |i: usize| datatypes.get(i).copied().unwrap_or(0);
            blocks(&|i| (datatype(i), integer(1 + i), address(i)));
        } else if combiner == known.subarray {
            let of = |group: usize| (0..all).map(move |i| integer(1 + group * all + i));
            let mut dimensions: Vec<_> = of(0).zip(of(1)).zip(of(2)).collect();
            // From the one whose elements follow each other.
            if integer(1 + 3 * all) == self.constants().order_c as isize {
                dimensions.reverse();
            }
            let dimensions: Vec<_> = dimensions
                .into_iter()
                .map(|((size, part), start)| [size, part, start])
                .collect();
            self.subarray(first, at, extent, &dimensions, parts, depth);
        } else {
            layout
                .hull(at, 1)
                .into_iter()
                .for_each(|hull| parts.add(hull));
        }
    }

    /// The parts of an array's part; of each dimension, size, part and start.
    fn subarray(
        &self,
        datatype: usize,
        at: isize,
        extent: isize,
        dimensions: &[[isize; 3]],
        parts: &mut Parts<'_>,
        depth: usize,
    ) {
        match dimensions {
            [] => {}
            [[_, part, start]] => {
                self.parts_within(
                    datatype,
                    at.wrapping_add(start * extent),
                    *part,
                    parts,
                    depth,
                );
            }
            [inner @ .., [_, part, start]] => {
                let stride = inner
                    .iter()
                    .fold(extent, |all, [size, ..]| all.wrapping_mul(*size));
                for i in *start..start + part {
                    let at = at.wrapping_add(i.wrapping_mul(stride));
                    self.subarray(datatype, at, extent, inner, parts, depth);
                }
            }
        }
    }

    /// What a datatype was made by; none if it was made by large counts, or by nothing.
    fn contents(&self, datatype: usize) -> Option<Contents> {
        let [integers, addresses, datatypes, combiner] = self.envelope(datatype)?;
        if combiner == self.constants().combiners.named {
            return None;
        }
        let many = |count: c_int| usize::try_from(count).unwrap_or(0);
        let mut contents = Contents {
            combiner,
            integers: vec![0; many(integers)],
            addresses: vec![0; many(addresses)],
            datatypes: Vec::new(),
        };
        let mut handles = vec![0_usize; many(datatypes)];
        // SAFETY: a datatype, and where to store as many numbers as it says.
        let status = unsafe {
            (self.functions.contents)(
                datatype,
                integers,
                addresses,
                datatypes,
                contents.integers.as_mut_ptr(),
                contents.addresses.as_mut_ptr(),
                handles.as_mut_ptr().cast(),
            )
        };
        let stored = |i| self.stored(handles.as_ptr() as usize, i);
        contents.datatypes = (0..handles.len()).map(stored).collect();
        (status == 0).then_some(contents)
    }

    /// How many integers, addresses and datatypes a datatype was made by, and how.
    fn envelope(&self, datatype: usize) -> Option<[c_int; 4]> {
        let mut found = [0; 4];
        let [integers, addresses, datatypes, combiner] = &mut found;
        let Some(large) = self.large_envelope else {
            // SAFETY: a datatype, and where to store numbers.
            let status = unsafe {
                (self.functions.envelope)(datatype, integers, addresses, datatypes, combiner)
            };
            return (status == 0).then_some(found);
        };
        let mut counts = [0_i64; 4];
        let [i, a, c, d] = &mut counts;
        // SAFETY: as above.
        let status = unsafe { large(datatype, i, a, c, d, combiner) };
        if status != 0 || *c > 0 {
            return None;
        }
        for (to, from) in [(integers, *i), (addresses, *a), (datatypes, *d)] {
            *to = c_int::try_from(from).ok()?;
        }
        Some(found)
    }

    /// Frees datatypes that were made for us.
    fn forget(&self, contents: Contents) {
        for mut datatype in contents.datatypes {
            let combiner = self.envelope(datatype).map(|[.., combiner]| combiner);
            let known = &self.constants().combiners;
            let is_made =
                |combiner: c_int| combiner != known.named && !known.f90.contains(&combiner);
            if combiner.is_some_and(is_made) {
                // SAFETY: a datatype that belongs to the caller of `PMPI_Type_get_contents`; MPICH stores 32 bits.
                unsafe { (self.functions.type_free)(&raw mut datatype) };
            }
        }
    }
}
