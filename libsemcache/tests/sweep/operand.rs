//! Operands: blocks of the program, including the bytes around them, and the values that they must hold.

use semcache::base::{Diag, Dtype, Scalar, Uplo, Value};
use semcache::host::heap;
use semcache::with_dtype;
use testkit::Rng;

const NAN: Value = Value {
    re: f64::NAN,
    im: f64::NAN,
};
/// The value of gaps, and of the bytes around an operand.
const GAP: Value = Value {
    re: -77.0,
    im: 55.0,
};

/// How the elements of an operand are chosen.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    General,
    /// Of a symmetric matrix: the other triangle is NaN; of a Hermitian one the imaginary parts of the diagonal are
    /// NaN, too.
    Symmetric(Uplo, bool),
    /// Of the result of a rank-k update: any number everywhere.
    Result,
    /// Of a triangular matrix that can be inverted exactly: powers of two on the diagonal, and off the diagonal only
    /// elements that lead from even to odd, so that the square of that part is zero. The rest, and a unit diagonal, is
    /// NaN.
    Triangular(Uplo, Diag),
}

fn value(rng: &mut Rng) -> Value {
    Value {
        re: rng.below(7) as f64 - 3.0,
        im: rng.below(5) as f64 - 2.0,
    }
}

/// An operand: a block of the program, and a copy of its bytes elsewhere.
pub(crate) struct Operand {
    pub(crate) at: usize,
    shadow: Vec<[f64; 2]>,
    pub(crate) offset: usize,
    bytes: usize,
}

impl Operand {
    pub(crate) fn new(
        rng: &mut Rng,
        dtype: Dtype,
        rows: usize,
        cols: usize,
        ld: usize,
        kind: Kind,
    ) -> Self {
        let size = dtype.size();
        // The operand begins in the middle of a page, so that its first and last panels hold other bytes, too.
        let (before, after) = (rng.below(600) + 1, 300);
        let elements = before + ld * cols.max(1) + after;
        let bytes = elements * size;
        let at = heap::malloc(bytes.max(8192)).expose_provenance();
        assert_ne!(at, 0);
        let mut o = Operand {
            at,
            shadow: vec![[0.0; 2]; bytes.div_ceil(16)],
            offset: before * size,
            bytes,
        };
        for i in 0..elements {
            let inside = i.checked_sub(before).map(|e| (e % ld, e / ld));
            let value = match inside {
                Some((row, col)) if row < rows && col < cols => element(rng, kind, row, col),
                _ => GAP,
            };
            o.put(dtype, i, value);
        }
        o
    }

    fn put(&mut self, dtype: Dtype, i: usize, value: Value) {
        let shadow = self.shadow.as_mut_ptr();
        with_dtype!(dtype, T => {
            let value = T::from_value(value);
            // SAFETY: element `i` of two blocks of at least `bytes` bytes.
            unsafe {
                std::ptr::with_exposed_provenance_mut::<T>(self.at).add(i).write(value);
                shadow.cast::<T>().add(i).write(value);
            }
        });
    }

    pub(crate) fn shadow_at(&self) -> usize {
        self.shadow.as_ptr().expose_provenance() + self.offset
    }

    /// Compares all bytes, except that a zero may have either sign: sums of tiles begin differently.
    pub(crate) fn check(&self, dtype: Dtype, what: &str) {
        let wrong = match dtype {
            Dtype::S | Dtype::C => {
                self.differs::<f32>(|got, want| got == want || got.to_bits() == want.to_bits())
            }
            Dtype::D | Dtype::Z => {
                self.differs::<f64>(|got, want| got == want || got.to_bits() == want.to_bits())
            }
        };
        if let Some(i) = wrong {
            eprintln!(
                "{what}: real number {i} of the block (the operand begins at byte {})",
                self.offset
            );
            std::process::exit(1);
        }
    }

    fn differs<R: Copy + std::fmt::Debug>(&self, same: impl Fn(R, R) -> bool) -> Option<usize> {
        (0..self.bytes / size_of::<R>()).find(|&i| {
            // SAFETY: inside both blocks, of any bits; an access to an inaccessible page faults and is served.
            let (got, want) = unsafe {
                (
                    std::ptr::with_exposed_provenance::<R>(self.at)
                        .add(i)
                        .read(),
                    self.shadow.as_ptr().cast::<R>().add(i).read(),
                )
            };
            let differs = !same(got, want);
            if differs {
                eprintln!("{got:?} instead of {want:?}");
            }
            differs
        })
    }
}

impl Drop for Operand {
    fn drop(&mut self) {
        // SAFETY: from this heap, not used afterwards.
        unsafe { heap::free(std::ptr::with_exposed_provenance_mut(self.at)) };
    }
}

fn element(rng: &mut Rng, kind: Kind, row: usize, col: usize) -> Value {
    let value = value(rng);
    let stored = |uplo| row == col || (uplo == Uplo::Lower) == (row > col);
    match kind {
        Kind::General | Kind::Result => value,
        Kind::Symmetric(uplo, _) if !stored(uplo) => NAN,
        Kind::Symmetric(_, true) if row == col => Value {
            re: value.re,
            im: f64::NAN,
        },
        Kind::Symmetric(..) => value,
        Kind::Triangular(uplo, diag) => match (row == col, diag) {
            (true, Diag::Unit) => NAN,
            (true, Diag::NonUnit) => Value {
                re: [1.0, -1.0, 2.0, 0.5][(row + 3) % 4],
                im: 0.0,
            },
            _ if !stored(uplo) => NAN,
            _ if !row.is_multiple_of(2) && col.is_multiple_of(2) => value,
            _ => Value::ZERO,
        },
    }
}
