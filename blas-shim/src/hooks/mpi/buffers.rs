//! The memory of a call's buffers.

#![expect(unsafe_code, reason = "reads arrays that the program passes")]

use core::ffi::c_int;
use core::ops::Range;
use std::borrow::Cow;

use smallvec::{SmallVec, smallvec};

use super::datatype::Parts;
use super::library::Library;
use super::row::{Ends, Operand, Row, Shape, Who};
use super::site;
use crate::core::{Buffer, IoGuard, keep};

/// Few are kept without an allocation, which blocks signals.
type Runs = SmallVec<[Run; 1]>;
/// Buffers that are in use.
pub(super) type AllKept = SmallVec<[Kept; 2]>;

/// Elements of one datatype that follow each other.
#[derive(Clone, Copy, Debug)]
struct Run {
    at: isize,
    count: isize,
    datatype: usize,
}

/// The memory of one buffer.
#[derive(Clone, Debug)]
pub(super) struct Place {
    runs: Runs,
    written: bool,
}

/// A buffer that is in use, and what keeps it accessible.
#[derive(Debug)]
pub(super) struct Kept {
    hull: Buffer,
    _guard: IoGuard,
}

/// Gaps up to which a buffer is kept accessible as one. Beyond larger ones, up to this number of groups, the parts behind them are kept by
/// themselves: memory between them has nothing to do with the operation and can be protected, and its pages need not be looked at. A
/// datatype with absolute addresses may span all that the process has mapped.
const GAP: isize = 64 << 20;
const MOST_GROUPS: usize = 64;

/// A buffer from its first to its last byte.
fn buffer(bytes: &Range<isize>, written: bool) -> Buffer {
    Buffer {
        addr: bytes.start as usize,
        len: bytes.end.wrapping_sub(bytes.start) as usize,
        written,
    }
}

/// An array of integers among the arguments.
#[derive(Clone, Copy)]
struct Numbers {
    at: usize,
    wide: bool,
}

impl Numbers {
    fn get(self, i: usize) -> isize {
        // SAFETY: the program's argument, an array with an element for each process that the communicator says.
        unsafe {
            match self.wide {
                true => (self.at as *const i64).add(i).read_unaligned() as isize,
                false => (self.at as *const c_int).add(i).read_unaligned() as isize,
            }
        }
    }
}

/// The buffers of a call. Arguments that MPI will refuse have none.
pub(super) fn of<'a>(
    library: &'a Library,
    row: &'a Row,
    words: &'a [usize],
) -> impl Iterator<Item = Place> + 'a {
    let call = Call {
        library,
        row,
        words,
    };
    (row.buffers.iter()).filter_map(move |operand| call.place(operand))
}

struct Call<'a> {
    library: &'a Library,
    row: &'a Row,
    words: &'a [usize],
}

impl Call<'_> {
    fn word(&self, at: usize) -> usize {
        self.words.get(at).copied().unwrap_or(0)
    }

    fn number(&self, at: usize, wide: bool) -> isize {
        match wide {
            true => self.word(at) as isize,
            false => self.word(at) as c_int as isize,
        }
    }

    fn comm(&self) -> Option<usize> {
        let comm = self.library.of_word(self.word(self.row.comm?));
        self.library.is_comm(comm).then_some(comm)
    }

    /// The processes of the other side: all, or the remote group.
    fn processes(&self) -> Option<usize> {
        let (comm, functions) = (self.comm()?, &self.library.functions);
        let inter = self.library.number(functions.is_inter, comm)? != 0;
        let size = if inter {
            functions.remote_size
        } else {
            functions.comm_size
        };
        self.library.number(size, comm)
    }

    fn local_size(&self) -> Option<usize> {
        self.library
            .number(self.library.functions.comm_size, self.comm()?)
    }

    fn rank(&self) -> Option<usize> {
        self.library
            .number(self.library.functions.comm_rank, self.comm()?)
    }

    /// How many processes a buffer has parts for.
    fn ends(&self, ends: Ends) -> Option<usize> {
        let sources = match ends {
            Ends::Group => return self.processes(),
            Ends::Sources => true,
            Ends::Destinations => false,
        };
        let (comm, functions) = (self.comm()?, &self.library.functions);
        let constants = self.library.constants();
        let kind = c_int::try_from(self.library.number(functions.topology, comm)?).ok()?;
        if kind == constants.cart {
            return Some(2 * self.library.number(functions.dimensions, comm)?);
        }
        let (mut into, mut out, mut weighted) = (0, 0, 0);
        // SAFETY: a communicator of this topology, and where to store numbers.
        let status = unsafe {
            if kind == constants.graph {
                let rank = c_int::try_from(self.rank()?).ok()?;
                let status = (functions.neighbors)(comm, rank, &raw mut into);
                out = into;
                status
            } else if kind == constants.dist_graph {
                (functions.neighbors_of_each_kind)(
                    comm,
                    &raw mut into,
                    &raw mut out,
                    &raw mut weighted,
                )
            } else {
                return None;
            }
        };
        let count = if sources { into } else { out };
        usize::try_from(count).ok().filter(|_| status == 0)
    }

    /// Whether a buffer has a meaning at this process, and whether the process is the root.
    fn counts(&self, who: Who) -> Option<(bool, bool)> {
        if who == Who::All {
            return Some((true, false));
        }
        let comm = self.comm()?;
        let root = self.word(self.row.root?) as c_int;
        let constants = self.library.constants();
        let inter = self.library.number(self.library.functions.is_inter, comm)? != 0;
        let is_root = match inter {
            true => root == constants.root,
            false => usize::try_from(root).ok() == self.rank(),
        };
        let counts = match who {
            Who::All => true,
            Who::Root => is_root,
            Who::Leaf => !inter || root >= 0,
            Who::Both => !inter || root >= 0 || is_root,
        };
        Some((counts, is_root))
    }

    /// Whether one of the buffers is `MPI_IN_PLACE`.
    fn in_place(&self) -> bool {
        let is = |operand: &Operand| self.word(operand.at) == self.library.constants().in_place;
        self.row.buffers.iter().any(is)
    }

    fn place(&self, operand: &Operand) -> Option<Place> {
        let at = self.word(operand.at);
        if at == self.library.constants().in_place {
            return None;
        }
        let (_, is_root) = self.counts(operand.who).filter(|(counts, _)| *counts)?;
        let runs = self.runs(operand, at as isize)?;
        // The root of a broadcast only reads.
        let reads = operand.who == Who::Both && is_root;
        Some(Place {
            runs,
            written: operand.written && !reads,
        })
    }

    fn runs(&self, operand: &Operand, at: isize) -> Option<Runs> {
        let datatype = || self.library.of_word(self.word(operand.datatype));
        let one = |count: isize| {
            let datatype = datatype();
            smallvec![Run {
                at,
                count,
                datatype,
            }]
        };
        let count = || self.number(operand.count, operand.wide);
        let counts = Numbers {
            at: self.word(operand.count),
            wide: operand.wide,
        };
        let times = |ends: usize| count().saturating_mul(ends as isize);
        let sum = || -> Option<isize> {
            let all = 0..self.local_size()?;
            Some(all.map(|i| counts.get(i)).fold(0, isize::saturating_add))
        };
        Some(match operand.shape {
            Shape::One => one(count()),
            Shape::Single => one(1),
            Shape::Each => one(times(self.ends(operand.ends)?)),
            Shape::Block => one(times(self.local_size()?)),
            Shape::Sum => one(sum()?),
            Shape::Own if operand.scattered && self.in_place() => one(sum()?),
            Shape::Own if operand.scattered => one(counts.get(self.rank()?)),
            Shape::Own if self.in_place() => one(times(self.local_size()?)),
            Shape::Own => one(count()),
            Shape::Parts => {
                let parts = self.number(operand.parts, false);
                one(count().saturating_mul(parts))
            }
            Shape::Bytes => {
                // As many elements of no datatype.
                smallvec![Run {
                    at,
                    count: count(),
                    datatype: 0,
                }]
            }
            Shape::Vector | Shape::Types => {
                let displacements = Numbers {
                    at: self.word(operand.displacements),
                    wide: operand.far,
                };
                let types = operand.shape == Shape::Types;
                let extent = match types {
                    true => 1,
                    false => self.library.layout(datatype())?.extent,
                };
                let run = |i: usize| Run {
                    at: at.wrapping_add(displacements.get(i).wrapping_mul(extent)),
                    count: counts.get(i),
                    datatype: match types {
                        true => self.library.stored(self.word(operand.datatype), i),
                        false => datatype(),
                    },
                };
                let runs = (0..self.ends(operand.ends)?).map(run);
                runs.filter(|run| run.count > 0).collect()
            }
        })
    }
}

impl Run {
    fn hull(&self, library: &Library) -> Option<(Range<isize>, usize)> {
        if self.datatype == 0 {
            let bytes = self.at..self.at.wrapping_add(self.count);
            return (self.count > 0).then_some((bytes, self.count as usize));
        }
        let layout = library.layout(self.datatype)?;
        Some((layout.hull(self.at, self.count)?, layout.bytes(self.count)))
    }

    fn parts(&self, library: &Library, parts: &mut Parts<'_>) {
        match self.datatype {
            0 => (self.hull(library).into_iter()).for_each(|(bytes, _)| parts.add(bytes)),
            datatype => library.parts(datatype, self.at, self.count, parts),
        }
    }
}

/// The bytes of a buffer: from the first to the last one, and those that belong to it if they are few enough to be told.
#[derive(Clone, Debug)]
pub(super) struct Extent {
    hull: Buffer,
    /// Without the gaps.
    bytes: usize,
    parts: Vec<Range<isize>>,
}

impl Place {
    /// The buffer's hull, and how many bytes belong to it.
    fn hull(&self, library: &Library) -> Option<(Buffer, usize)> {
        let hulls = self.runs.iter().filter_map(|run| run.hull(library));
        let (hull, bytes) = hulls.reduce(|(all, sum), (one, size)| {
            let both = all.start.min(one.start)..all.end.max(one.end);
            (both, sum.saturating_add(size))
        })?;
        // An adapter's driver refuses memory that it could not write, also where it is to read.
        Some((buffer(&hull, self.written || library.has_adapters), bytes))
    }

    fn parts(&self, library: &Library) -> Vec<Range<isize>> {
        let mut found = Vec::new();
        let mut emit = |part| found.push(part);
        let mut parts = Parts::new(&mut emit);
        self.runs
            .iter()
            .for_each(|run| run.parts(library, &mut parts));
        parts.end();
        found
    }

    /// The buffer's bytes, which do not depend on handles that the program may free.
    pub(super) fn extent(&self, library: &Library) -> Option<Extent> {
        let (hull, bytes) = self.hull(library)?;
        let parts = self.parts(library);
        Some(Extent { hull, bytes, parts })
    }

    /// Makes the buffer accessible for this function of MPI, until what is returned is dropped.
    pub(super) fn keep(&self, library: &Library, by: &'static str, kept: &mut AllKept) {
        if let Some((hull, bytes)) = self.hull(library) {
            keep_parts(hull, bytes, &|| self.parts(library).into(), by, kept);
        }
    }
}

impl Extent {
    /// As [`Place::keep`].
    pub(super) fn keep(&self, by: &'static str, kept: &mut AllKept) {
        keep_parts(
            self.hull,
            self.bytes,
            &|| self.parts.as_slice().into(),
            by,
            kept,
        );
    }
}

/// Makes a buffer accessible, whose parts are asked for if they matter.
fn keep_parts<'a>(
    hull: Buffer,
    bytes: usize,
    parts: &dyn Fn() -> Cow<'a, [Range<isize>]>,
    by: &'static str,
    kept: &mut AllKept,
) {
    type Open<'a> = &'a mut dyn FnMut(Buffer);
    let each = |parts: &[Range<isize>], open: Open| {
        let parts = parts.iter();
        parts.for_each(|part| open(buffer(part, hull.written)));
    };
    let mut keep_hull = |hull, open_parts: &dyn Fn(Open)| {
        let guard = keep(hull, |open| site::counted(by, || open_parts(open)));
        kept.push(Kept {
            hull,
            _guard: guard,
        });
    };
    if hull.len / 4 > bytes.saturating_add(GAP.unsigned_abs() / 4) {
        let mut parts = parts().into_owned();
        for (bytes, group) in groups(&mut parts) {
            keep_hull(buffer(&bytes, hull.written), &|open| each(group, open));
        }
    } else {
        keep_hull(hull, &|open| each(&parts(), open));
    }
}

/// Sorts parts of memory into groups, each with its bytes from the first to the last one. They are cut at gaps of more than [`GAP`], the
/// largest ones if these are too many.
fn groups(parts: &mut [Range<isize>]) -> Vec<(Range<isize>, &[Range<isize>])> {
    parts.sort_unstable_by_key(|part| part.start);
    let parts = &*parts;
    let mut end = isize::MIN;
    let gap_before = |part: &Range<isize>| {
        let gap = part.start.saturating_sub(end);
        end = end.max(part.end);
        gap
    };
    let gaps: Vec<isize> = parts.iter().map(gap_before).collect();
    let mut large: Vec<isize> = gaps.iter().copied().filter(|gap| *gap > GAP).collect();
    large.sort_unstable_by(|a, b| b.cmp(a));
    // The first part has an infinite gap before it.
    let least = large.get(MOST_GROUPS).copied().unwrap_or(GAP);
    let begins = (0..parts.len()).filter(|&i| gaps[i] > least);
    let begins: Vec<usize> = begins.chain([parts.len()]).collect();
    let group = |cut: &[usize]| {
        let group = &parts[cut[0]..cut[1]];
        let end = group.iter().map(|part| part.end).max();
        (group[0].start..end.unwrap_or(group[0].end), group)
    };
    begins.windows(2).map(group).collect()
}

impl Kept {
    fn new(whole: Buffer, by: &'static str) -> Kept {
        Kept {
            hull: whole,
            _guard: keep(whole, |open| site::counted(by, || open(whole))),
        }
    }

    /// A buffer of this many bytes, which is written.
    pub(super) fn bytes(addr: usize, len: usize, by: &'static str) -> Kept {
        let whole = Buffer {
            addr,
            len,
            written: true,
        };
        Kept::new(whole, by)
    }

    /// Whether another buffer lies in this one, so that it is kept accessible with it.
    pub(super) fn covers(&self, other: &Kept) -> bool {
        let (own, other) = (self.hull, other.hull);
        own.addr <= other.addr
            && other.addr + other.len <= own.addr + own.len
            && own.written >= other.written
    }

    /// What an adapter may have written.
    pub(super) fn written(&self) -> Option<Buffer> {
        Some(self.hull).filter(|hull| hull.written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grouped(mut parts: Vec<Range<isize>>) -> Vec<(Range<isize>, usize)> {
        let groups = groups(&mut parts);
        let groups = groups.into_iter();
        groups.map(|(bytes, parts)| (bytes, parts.len())).collect()
    }

    #[test]
    fn parts_are_grouped_between_large_gaps() {
        let far = 1 << 46;
        let column = |i: isize| far + i * 50_000..far + i * 50_000 + 800;
        let mut parts: Vec<_> = (0..200).map(column).collect();
        // Beside the columns of a panel, a small array on the heap.
        parts.push(1000..1100);
        parts.push(900..1010);
        assert_eq!(
            grouped(parts),
            [(900..1100, 2), (far..far + 199 * 50_000 + 800, 200)]
        );
        assert_eq!(grouped(Vec::new()), []);
        // A part within a longer one, and a gap that is not too large.
        let parts = vec![0..3 * GAP, 5..10, 4 * GAP..4 * GAP + 1];
        assert_eq!(grouped(parts), [(0..4 * GAP + 1, 3)]);
    }

    #[test]
    fn of_too_many_gaps_the_largest_are_cut() {
        let most = MOST_GROUPS as isize;
        // Each gap is longer than the one before.
        let mut at = 0;
        let mut part = |i: isize| {
            at += GAP + 100 + i;
            at..at + 1
        };
        let groups = grouped((0..2 * most).map(&mut part).collect());
        assert_eq!(groups.len(), MOST_GROUPS);
        assert_eq!(groups[0].1, MOST_GROUPS + 1);
        assert!(groups[1..].iter().all(|(_, parts)| *parts == 1));
    }
}
