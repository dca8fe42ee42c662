//! A matrix in one structure with other data of the program on the same pages: names, structures, words on which
//! threads sleep.

#![expect(unsafe_code, reason = "plays an unmodified program: raw memory")]

use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use num_complex::Complex64;
use testkit::Rng;
use testkit::oracle::Dense;

use crate::block::{Area, Block, page};
use crate::element::Type;
use crate::system;

/// Bytes of such a structure in static memory. Not whole pages: one thread's structure ends on the page on which
/// another's begins.
pub(crate) const ROOM: usize = (136 << 10) + 192;
/// Bytes before the matrix, and behind it.
const SIDE: usize = 640;
/// Bytes between two columns, if the matrix has gaps.
const GAP: usize = 384;
/// Columns of the left factor, rows of the right one.
pub(crate) const INNER: usize = 4;

/// Numbers of operations beside results, and how often pages of the result were inaccessible at that time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub(crate) enum What {
    Names,
    Structures,
    Children,
    Sleepers,
    Timers,
    Barriers,
    Missing,
    Discarded,
}

const NAMES: [&str; 8] = [
    "names",
    "structures",
    "children",
    "sleepers",
    "timers",
    "barriers",
    "missing",
    "discarded",
];
static DONE: [AtomicU64; NAMES.len()] = [const { AtomicU64::new(0) }; NAMES.len()];
static CLOSED: [AtomicU64; NAMES.len()] = [const { AtomicU64::new(0) }; NAMES.len()];

/// For each kind of data beside the matrix its name, the number of operations on it, and how often the result was
/// inaccessible then.
#[must_use]
pub fn met() -> Vec<(&'static str, u64, u64)> {
    let count = |all: &[AtomicU64], i: usize| all[i].load(Ordering::Relaxed);
    let each = NAMES.iter().enumerate();
    each.map(|(i, &name)| (name, count(&DONE, i), count(&CLOSED, i)))
        .collect()
}

/// Where the structure lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Memory {
    Static,
    Heap,
    Mapped,
}

/// The structure around a matrix.
pub(crate) struct Beside {
    memory: Memory,
    at: *mut u8,
    bytes: usize,
    /// Regions before the matrix, behind it, and between two columns of it.
    rooms: [(*mut u8, usize); 3],
    pub(crate) shape: Area,
    /// Factors of the products that are written to the matrix.
    pub(crate) left: (Vec<u8>, Dense),
    pub(crate) right: (Vec<u8>, Dense),
}

/// A value beside a matrix, as long as an operation uses it.
pub(crate) struct Place<T> {
    at: *mut T,
    room: (*mut u8, usize),
    /// The bytes around it.
    around: u8,
}

fn factor(ty: Type, rows: usize, cols: usize, rng: &mut Rng) -> (Vec<u8>, Dense) {
    let small = |n: usize| f64::from(u32::try_from(n).unwrap()) - 3.0;
    let value = |rng: &mut Rng| {
        let im = if ty.complex() {
            small(rng.below(7))
        } else {
            0.0
        };
        Complex64::new(small(rng.below(7)), im)
    };
    let values: Vec<_> = (0..rows * cols).map(|_| value(rng)).collect();
    let mut bytes = vec![0; rows * cols * ty.size() + 16];
    for (i, &v) in values.iter().enumerate() {
        ty.store(&mut bytes[i * ty.size()..], v);
    }
    (bytes, Dense::of(rows, cols, |i, j| values[j * rows + i]))
}

impl Beside {
    /// A structure of thread `t`, and the matrix in it; `fixed` is where it may lie in static memory.
    pub(crate) fn new(t: usize, ty: Type, fixed: *mut u8, rng: &mut Rng) -> (Beside, Block) {
        let memory = rng.of(&[Memory::Static, Memory::Heap, Memory::Mapped]);
        let (rows, cols) = (36 + rng.below(36), 36 + rng.below(36));
        let gap = if rng.one_in(3) { GAP / ty.size() } else { 0 };
        let ld = rows + gap;
        let len = ld * (cols - 1) + rows;
        let mut bytes = ROOM;
        let at = match memory {
            Memory::Static => fixed,
            Memory::Heap => {
                // Large blocks are owned by the library in every setting.
                bytes += rng.of(&[0, 0, 1 << 20]);
                // SAFETY: an allocation, checked below.
                unsafe { libc::malloc(bytes) }.cast()
            }
            Memory::Mapped => crate::block::map(bytes, false),
        };
        assert!(!at.is_null(), "no memory for {bytes} bytes");
        // Anywhere on a page, also at its beginning.
        let mut from = SIDE + 16 * rng.below(256);
        if rng.one_in(4) {
            from = (at.addr() + SIDE).next_multiple_of(page()) - at.addr();
        }
        let end = from + (len * ty.size()).next_multiple_of(16);
        assert!(end + SIDE <= bytes);
        let between = at.wrapping_add(from + (rows + ld * rng.below(cols - 1)) * ty.size());
        // Aligned for any structure.
        let shift = between.addr().next_multiple_of(16) - between.addr();
        let between = (
            between.wrapping_add(shift),
            (gap * ty.size()).saturating_sub(shift),
        );
        let mut block = Block::over(
            format!("{memory:?} matrix of {t} among others"),
            ty,
            len,
            at.wrapping_add(from),
            Block::shadow_of(len * ty.size()),
        );
        let shape = Area {
            off: 0,
            rows,
            cols,
            ld,
        };
        if gap > 0 {
            block.area = Some(shape);
        }
        for (from, n) in block.runs() {
            block.fill(from, n, rng);
        }
        let beside = Beside {
            memory,
            at,
            bytes,
            rooms: [
                (at.wrapping_add(from - SIDE), SIDE),
                (at.wrapping_add(end), SIDE),
                between,
            ],
            shape,
            left: factor(ty, rows, INNER, rng),
            right: factor(ty, INNER, cols, rng),
        };
        (beside, block)
    }

    /// Frees the memory.
    pub(crate) fn end(self) {
        // SAFETY: freed as it was allocated; no code uses it afterwards.
        unsafe {
            match self.memory {
                Memory::Static => {}
                Memory::Heap => libc::free(self.at.cast()),
                Memory::Mapped => assert_eq!(libc::munmap(self.at.cast(), self.bytes), 0),
            }
        }
    }

    /// A random place for a value in the structure around the matrix, and whether it lies outside of the matrix, where the
    /// kernel can access it in any system call. With `outside`, only such a place is chosen.
    pub(crate) fn place<T>(&self, rng: &mut Rng, outside: bool) -> (Place<T>, bool) {
        let size = size_of::<T>();
        loop {
            let which = rng.below(self.rooms.len());
            let (from, bytes) = self.rooms[which];
            if size > bytes || outside && which == 2 {
                continue;
            }
            let around = u8::try_from(1 + rng.below(250)).unwrap();
            let at = from.wrapping_add((rng.below(bytes - size + 1)) / 16 * 16);
            // SAFETY: inside the room; all values that are placed may be all zeros.
            unsafe {
                ptr::write_bytes(from, around, bytes);
                ptr::write_bytes(at, 0, size);
            }
            let place = Place {
                at: at.cast(),
                room: (from, bytes),
                around,
            };
            return (place, which < 2);
        }
    }

    /// The whole pages of the structure that hold bytes of the matrix; with `only`, those that hold nothing else.
    pub(crate) fn pages(&self, block: &Block, only: bool) -> std::ops::Range<usize> {
        let (at, end) = (block.at.addr(), block.at.addr() + block.len * block.unit());
        if only {
            return at.next_multiple_of(page())..end / page() * page();
        }
        let from = (at / page() * page()).max(self.at.addr().next_multiple_of(page()));
        from..end
            .next_multiple_of(page())
            .min((self.at.addr() + self.bytes) / page() * page())
    }

    /// Counts an operation beside the matrix, and whether a page of the matrix is inaccessible.
    pub(crate) fn count(&self, block: &Block, what: What) {
        DONE[what as usize].fetch_add(1, Ordering::Relaxed);
        let closed = self.pages(block, true).step_by(page()).any(|p| {
            let at = block.at.wrapping_add(p - block.at.addr());
            !system::readable(at)
        });
        CLOSED[what as usize].fetch_add(u64::from(closed), Ordering::Relaxed);
    }
}

impl<T> Place<T> {
    pub(crate) fn at(&self) -> *mut T {
        self.at
    }

    pub(crate) fn addr(&self) -> usize {
        self.at.addr()
    }

    /// The bytes of the value.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let from = self.at.cast::<u8>();
        // SAFETY: inside the room.
        let byte = |i| unsafe { from.wrapping_add(i).read_volatile() };
        (0..size_of::<T>()).map(byte).collect()
    }

    /// Checks that no code wrote around the value.
    pub(crate) fn check(&self) {
        let (from, bytes) = self.room;
        let own = self.addr() - from.addr()..self.addr() - from.addr() + size_of::<T>();
        for i in (0..bytes).filter(|i| !own.contains(i)) {
            // SAFETY: inside the room.
            let got = unsafe { from.add(i).read_volatile() };
            assert_eq!(
                got,
                self.around,
                "byte {i} of what stands beside the matrix, around {} at {}",
                size_of::<T>(),
                own.start
            );
        }
    }
}
