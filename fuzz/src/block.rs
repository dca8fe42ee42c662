//! A block of the program: real memory, and the shadow with the values that it must hold.

#![expect(unsafe_code, reason = "plays an unmodified program: raw memory")]

use std::num::NonZeroUsize;
use std::ptr;

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, mmap_anonymous};
use nix::unistd::ftruncate;
use num_complex::Complex64;
use testkit::Rng;

use crate::element::Type;

/// Where a block's memory comes from, and so how it is freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// malloc, calloc or realloc.
    Heap,
    /// A mapping of this number of bytes: of a memory file if it is shared, else private and anonymous.
    Mapped {
        /// Whole pages.
        bytes: usize,
        /// Whether the parent sees a child's writes.
        shared: bool,
    },
    /// Memory that the block does not own: neither freed nor resized.
    Lent,
}

/// A rectangle: a part of each of several columns.
#[derive(Clone, Copy, Debug)]
pub struct Area {
    /// First element.
    pub off: usize,
    /// Elements of each column.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// Elements from column to column.
    pub ld: usize,
}

/// A block of elements.
#[derive(Debug)]
pub struct Block {
    /// The name in messages about differences.
    pub name: String,
    /// The program's memory.
    pub at: *mut u8,
    shadow: *mut u8,
    /// Elements.
    pub len: usize,
    /// Their type.
    pub ty: Type,
    /// No part of an element has a larger magnitude; infinite if some may be no integers.
    pub bound: f64,
    /// Where the memory comes from.
    pub origin: Origin,
    /// The elements that may be touched, if not all.
    pub area: Option<Area>,
}

// SAFETY: blocks of one thread, or under a lock, or of disjoint areas.
unsafe impl Send for Block {}

/// Like C's, for sizes in bytes.
pub fn map(bytes: usize, shared: bool) -> *mut u8 {
    let (length, prot) = (
        NonZeroUsize::new(bytes).unwrap(),
        ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
    );
    // SAFETY: a new mapping.
    let at = unsafe {
        if shared {
            let file = memfd_create(c"operand", MFdFlags::MFD_CLOEXEC).unwrap();
            ftruncate(&file, i64::try_from(bytes).unwrap()).unwrap();
            mmap(None, length, prot, MapFlags::MAP_SHARED, &file, 0)
        } else {
            mmap_anonymous(None, length, prot, MapFlags::MAP_PRIVATE)
        }
    };
    at.unwrap_or_else(|error| panic!("mmap of {bytes} bytes: {error}"))
        .as_ptr()
        .cast()
}

/// The size of a page.
#[must_use]
pub fn page() -> usize {
    // SAFETY: asks for a constant.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap()
}

/// A small number.
pub(crate) fn small(rng: &mut Rng, ty: Type) -> Complex64 {
    if ty.whole() {
        // A column of nearly every matrix.
        return rng.of(&[1.0, 2.0, 3.0]).into();
    }
    let bits = rng.draw();
    let part =
        |b: u64| [-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 0.0][usize::try_from(b & 7).unwrap()];
    Complex64::new(part(bits), if ty.complex() { part(bits >> 3) } else { 0.0 })
}

impl Block {
    /// A new block with all elements set, from one of the ways in which programs get memory.
    pub fn new(name: String, ty: Type, len: usize, rng: &mut Rng) -> Block {
        let bytes = len * ty.size();
        let mut zero = false;
        let mut origin = Origin::Heap;
        // SAFETY: allocations, checked below.
        let at: *mut u8 = unsafe {
            match rng.below(10) {
                0 | 1 => {
                    zero = true;
                    libc::calloc(len, ty.size()).cast()
                }
                2 => {
                    let mut at = ptr::null_mut();
                    assert_eq!(libc::posix_memalign(&mut at, 64, bytes), 0);
                    at.cast()
                }
                3 => libc::aligned_alloc(4096, bytes.next_multiple_of(4096)).cast(),
                way @ (4 | 5) if way == 4 || rng.one_in(2) => {
                    zero = true;
                    let (bytes, shared) = (bytes.next_multiple_of(page()), way == 5);
                    origin = Origin::Mapped { bytes, shared };
                    map(bytes, shared)
                }
                _ => libc::malloc(bytes).cast(),
            }
        };
        assert!(!at.is_null(), "no memory for {bytes} bytes");
        let mut block = Block::over(name, ty, len, at, Self::shadow_of(bytes));
        block.origin = origin;
        if zero {
            block.check(0, len, "new memory is zero");
            if rng.one_in(3) {
                return block;
            }
        }
        block.fill(0, len, rng);
        block
    }

    /// A shadow of zeros.
    pub fn shadow_of(bytes: usize) -> *mut u8 {
        Box::leak(vec![0u64; bytes.div_ceil(8)].into_boxed_slice())
            .as_mut_ptr()
            .cast()
    }

    /// A block over existing memory and an existing shadow.
    pub fn over(name: String, ty: Type, len: usize, at: *mut u8, shadow: *mut u8) -> Block {
        Block {
            name,
            at,
            shadow,
            len,
            ty,
            bound: 3.0,
            origin: Origin::Lent,
            area: None,
        }
    }

    /// A block over the same memory and shadow, of which only `area` is touched.
    pub fn part(&self, name: String, area: Area) -> Block {
        let mut part = Block::over(name, self.ty, self.len, self.at, self.shadow);
        part.bound = self.bound;
        part.area = Some(area);
        part
    }

    /// Frees memory and shadow.
    pub fn end(self) {
        // SAFETY: from the allocation that `origin` names.
        unsafe {
            match self.origin {
                Origin::Heap => libc::free(self.at.cast()),
                Origin::Mapped { bytes, .. } => {
                    assert_eq!(libc::munmap(self.at.cast(), bytes), 0);
                }
                Origin::Lent => return,
            }
            self.free_shadow();
        }
    }

    /// # Safety
    /// The shadow is not used again, and no other block has it.
    unsafe fn free_shadow(&self) {
        let words = (self.len * self.ty.size()).div_ceil(8);
        let shadow = ptr::slice_from_raw_parts_mut(self.shadow.cast::<u64>(), words);
        // SAFETY: from `shadow_of` for as many bytes.
        drop(unsafe { Box::from_raw(shadow) });
    }

    /// Moves the shadow to memory of another size; new elements are zeros.
    pub fn resized(&mut self, at: *mut u8, len: usize) {
        let (before, after) = (self.len * self.ty.size(), len * self.ty.size());
        let shadow = Self::shadow_of(after);
        // SAFETY: both shadows are at least that long.
        unsafe {
            ptr::copy_nonoverlapping(self.shadow, shadow, before.min(after));
            self.free_shadow();
        }
        self.shadow = shadow;
        self.at = at;
        self.len = len;
    }

    /// Whether the parent sees a child's writes to the block.
    #[must_use]
    pub fn shared(&self) -> bool {
        matches!(self.origin, Origin::Mapped { shared: true, .. })
    }

    /// Bytes of an element.
    #[must_use]
    pub fn unit(&self) -> usize {
        self.ty.size()
    }

    /// The address of an element.
    #[must_use]
    pub fn addr(&self, i: usize) -> *mut u8 {
        assert!(i <= self.len);
        self.at.wrapping_add(i * self.unit())
    }

    /// The shadow's bytes of some elements.
    #[must_use]
    pub fn shadow(&self, from: usize, n: usize) -> &[u8] {
        assert!(from + n <= self.len);
        // SAFETY: inside the shadow; only the thread that owns the elements changes them.
        unsafe { std::slice::from_raw_parts(self.shadow.add(from * self.unit()), n * self.unit()) }
    }

    /// The same, to change them.
    pub fn shadow_mut(&mut self, from: usize, n: usize) -> &mut [u8] {
        assert!(from + n <= self.len);
        // SAFETY: as above.
        unsafe {
            std::slice::from_raw_parts_mut(self.shadow.add(from * self.unit()), n * self.unit())
        }
    }

    /// The value that an element must have.
    #[must_use]
    pub fn get(&self, i: usize) -> Complex64 {
        self.ty.load(self.shadow(i, 1))
    }

    /// Changes the value that an element must have.
    pub fn set(&mut self, i: usize, value: Complex64) {
        let ty = self.ty;
        ty.store(self.shadow_mut(i, 1), value);
    }

    /// The value that an element has: a load by the CPU.
    #[must_use]
    pub fn peek(&self, i: usize) -> Complex64 {
        assert!(i < self.len);
        let at = self.addr(i);
        let d = |k: usize| {
            // SAFETY: inside the block; an access to an inaccessible page faults and is served.
            unsafe { at.cast::<f64>().add(k).read_volatile() }
        };
        let s = |k: usize| {
            // SAFETY: as above.
            f64::from(unsafe { at.cast::<f32>().add(k).read_volatile() })
        };
        match self.ty {
            Type::S => Complex64::new(s(0), 0.0),
            Type::D => Complex64::new(d(0), 0.0),
            Type::C => Complex64::new(s(0), s(1)),
            Type::Z => Complex64::new(d(0), d(1)),
            // SAFETY: as above.
            Type::I => f64::from(unsafe { at.cast::<i32>().read_volatile() }).into(),
            // SAFETY: as above.
            Type::L => (unsafe { at.cast::<i64>().read_volatile() } as f64).into(),
        }
    }

    /// Stores an element by the CPU, in memory and shadow.
    #[expect(clippy::cast_possible_truncation, reason = "small integers")]
    pub fn poke(&mut self, i: usize, value: Complex64) {
        self.set(i, value);
        let at = self.addr(i);
        let both = [value.re, value.im];
        for (k, &part) in both
            .iter()
            .enumerate()
            .take(1 + usize::from(self.ty.complex()))
        {
            // SAFETY: inside the block.
            unsafe {
                match self.ty {
                    Type::S | Type::C => at.cast::<f32>().add(k).write_volatile(part as f32),
                    Type::D | Type::Z => at.cast::<f64>().add(k).write_volatile(part),
                    Type::I => at.cast::<i32>().write_volatile(part as i32),
                    Type::L => at.cast::<i64>().write_volatile(part as i64),
                }
            }
        }
    }

    /// Stores small numbers by the CPU.
    pub fn fill(&mut self, from: usize, n: usize, rng: &mut Rng) {
        for i in from..from + n {
            let value = small(rng, self.ty);
            self.poke(i, value);
        }
        self.bound = self.bound.max(3.0);
    }

    /// Compares elements.
    ///
    /// # Panics
    /// If one is not what it must be.
    pub fn check(&self, from: usize, n: usize, what: &str) {
        for i in from..from + n {
            let (got, wanted) = (self.peek(i), self.get(i));
            if got != wanted {
                let again = self.peek(i);
                let wrong = (from..from + n)
                    .filter(|&i| self.peek(i) != self.get(i))
                    .count();
                panic!(
                    "{what}: element {i} of {} ({} x {:?} at {:p}, {:?}) is {got}, not {wanted}; at the second look \
                     {again}; {wrong} of the {n} elements from {from} are wrong",
                    self.name, self.len, self.ty, self.at, self.origin
                );
            }
        }
    }

    /// Runs of elements that may be touched.
    #[must_use]
    pub fn runs(&self) -> Vec<(usize, usize)> {
        match self.area {
            None => vec![(0, self.len)],
            Some(a) => (0..a.cols).map(|c| (a.off + c * a.ld, a.rows)).collect(),
        }
    }

    /// Some elements in a row that may be touched.
    pub fn span(&self, rng: &mut Rng) -> (usize, usize) {
        let runs = self.runs();
        let (from, n) = runs[rng.below(runs.len())];
        let len = match rng.below(3) {
            0 => n,
            1 => 1 + rng.below(n),
            _ => 1 + rng.below(n.min(70)),
        };
        (from + rng.below(n - len + 1), len)
    }

    /// Compares everything.
    ///
    /// # Panics
    /// If an element is not what it must be.
    pub fn check_all(&self, what: &str) {
        for (from, n) in self.runs() {
            self.check(from, n, what);
        }
    }

    /// Makes all elements small integers again, by the CPU, which reads every element meanwhile.
    pub fn reduce(&mut self) {
        self.check_all("before the CPU makes it smaller");
        for (from, n) in self.runs() {
            for i in from..from + n {
                let v = self.get(i);
                self.poke(i, Complex64::new(v.re.trunc() % 5.0, v.im.trunc() % 5.0));
            }
        }
        self.bound = 4.0;
    }
}
