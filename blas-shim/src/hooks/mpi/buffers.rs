//! The memory of a call's buffers.

#![expect(unsafe_code, reason = "reads arrays that the program passes")]

use core::ffi::c_int;
use core::ops::Range;

use super::datatype::Parts;
use super::library::Library;
use super::row::{Ends, Operand, Row, Shape, Who};
use crate::core::{Buffer, IoGuard, keep};

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
    runs: Vec<Run>,
    written: bool,
}

/// A buffer that is in use, and what keeps it accessible.
#[derive(Debug)]
pub(super) struct Kept {
    written: Option<Buffer>,
    _guard: IoGuard,
}

/// Gaps up to which a buffer is one place. Others have a place for each part, so that memory between them, which has nothing to do
/// with the operation, can be protected.
const GAP: usize = 64 << 20;

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
pub(super) fn of(library: &Library, row: &Row, words: &[usize]) -> Vec<Place> {
    let call = Call {
        library,
        row,
        words,
    };
    let places = row.buffers.iter().filter_map(|operand| call.place(operand));
    places.collect()
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

    /// Whether a buffer has a meaning at this process.
    fn counts(&self, who: Who) -> Option<bool> {
        if who == Who::All {
            return Some(true);
        }
        let comm = self.comm()?;
        let root = self.word(self.row.root?) as c_int;
        let constants = self.library.constants();
        let inter = self.library.number(self.library.functions.is_inter, comm)? != 0;
        let is_root = match inter {
            true => root == constants.root,
            false => usize::try_from(root).ok() == self.rank(),
        };
        Some(match who {
            Who::All => true,
            Who::Root => is_root,
            Who::Leaf => !inter || root >= 0,
            Who::Both => !inter || root >= 0 || is_root,
        })
    }

    /// Whether one of the buffers is `MPI_IN_PLACE`.
    fn in_place(&self) -> bool {
        let is = |operand: &Operand| self.word(operand.at) == self.library.constants().in_place;
        self.row.buffers.iter().any(is)
    }

    fn place(&self, operand: &Operand) -> Option<Place> {
        let at = self.word(operand.at);
        if at == self.library.constants().in_place || !self.counts(operand.who)? {
            return None;
        }
        let runs = self.runs(operand, at as isize)?;
        Some(Place {
            runs,
            written: operand.written,
        })
    }

    fn runs(&self, operand: &Operand, at: isize) -> Option<Vec<Run>> {
        let datatype = || self.library.of_word(self.word(operand.datatype));
        let one = |count: isize| {
            let datatype = datatype();
            vec![Run {
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
                vec![Run {
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

impl Place {
    /// Makes the buffer accessible until what is returned is dropped.
    pub(super) fn keep(&self, library: &Library, kept: &mut Vec<Kept>) {
        let hulls = self.runs.iter().filter_map(|run| run.hull(library));
        let (mut whole, mut bytes) = (None::<Range<isize>>, 0_usize);
        for (hull, size) in hulls {
            bytes = bytes.saturating_add(size);
            whole = Some(match whole {
                Some(whole) => whole.start.min(hull.start)..whole.end.max(hull.end),
                None => hull,
            });
        }
        let Some(whole) = whole else {
            return;
        };
        let hull = buffer(&whole, self.written);
        let each = |emit: &mut dyn FnMut(Range<isize>)| {
            let mut parts = Parts::new(emit);
            self.runs
                .iter()
                .for_each(|run| run.parts(library, &mut parts));
            parts.end();
        };
        let mut add = |buffer: Buffer, guard| {
            kept.push(Kept {
                written: Some(buffer).filter(|buffer| buffer.written),
                _guard: guard,
            });
        };
        if hull.len / 4 <= bytes.saturating_add(GAP / 4) {
            let parts =
                |open: &mut dyn FnMut(Buffer)| each(&mut |part| open(buffer(&part, self.written)));
            return add(hull, keep(hull, parts));
        }
        each(&mut |part| {
            let part = buffer(&part, self.written);
            add(part, keep(part, |open| open(part)));
        });
    }
}

impl Kept {
    /// A buffer of this many bytes, which is written.
    pub(super) fn bytes(addr: usize, len: usize) -> Kept {
        let whole = Buffer {
            addr,
            len,
            written: true,
        };
        Kept {
            written: Some(whole),
            _guard: keep(whole, |open| open(whole)),
        }
    }

    /// What the buffer is, if MPI writes it.
    pub(super) fn written(&self) -> Option<Buffer> {
        self.written
    }
}
