//! Operands of small integers in the layouts of BLAS, and as the dense matrices of which the right results are computed.

use num_complex::Complex64;
use semcache::base::Dtype;
use testkit::oracle::Dense;

/// The number in the gaps between elements of an operand, and in parts of an operand that a call must neither read nor
/// write.
const ELSEWHERE: Complex64 = Complex64::new(77.0, 0.0);

/// A generator of pseudo-random numbers, which are the same in each run.
#[derive(Debug)]
pub(super) struct Draw(u64);

impl Draw {
    pub(super) fn new() -> Draw {
        Draw(0x9E37_79B9_7F4A_7C15)
    }

    /// An integer below `n`.
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) % n
    }

    pub(super) fn one_of<T: Copy>(&mut self, these: &[T]) -> T {
        these[self.below(these.len() as u64) as usize]
    }

    #[expect(clippy::cast_precision_loss, reason = "a small integer")]
    pub(super) fn real(&mut self) -> f64 {
        self.below(7) as f64 - 3.0
    }

    pub(super) fn value(&mut self, dtype: Dtype) -> Complex64 {
        let im = if dtype.is_complex() { self.real() } else { 0.0 };
        Complex64::new(self.real(), im)
    }

    /// A number of magnitude one.
    fn unit(&mut self, dtype: Dtype) -> Complex64 {
        let real = [Complex64::ONE, -Complex64::ONE];
        let complex = [Complex64::ONE, -Complex64::ONE, Complex64::I, -Complex64::I];
        if dtype.is_complex() {
            self.one_of(&complex)
        } else {
            self.one_of(&real)
        }
    }

    pub(super) fn vector(&mut self, dtype: Dtype, n: usize, inc: i64) -> Vector {
        let stride = inc.unsigned_abs() as usize;
        let mut vector = Vector {
            n,
            inc,
            v: vec![ELSEWHERE; 1 + n.saturating_sub(1) * stride],
        };
        for i in 0..n {
            *vector.at_mut(i) = self.value(dtype);
        }
        vector
    }

    /// A matrix in this layout. With `units` the numbers on its diagonal have magnitude one, so that solving a system
    /// with the matrix gives integers. The diagonal of a Hermitian matrix is real.
    pub(super) fn matrix(
        &mut self,
        dtype: Dtype,
        rows: usize,
        cols: usize,
        layout: Layout,
        shape: Shape,
        units: bool,
    ) -> Matrix {
        let mut matrix = Matrix {
            rows,
            cols,
            layout,
            shape,
            v: vec![ELSEWHERE; layout.elements(rows, cols)],
        };
        for j in 0..cols {
            for i in 0..rows {
                let value = match (i == j, shape) {
                    (true, Shape::Hermitian(_)) => self.real().into(),
                    (true, _) if units => self.unit(dtype),
                    _ => self.value(dtype),
                };
                if let Some(at) = matrix.index(i, j) {
                    matrix.v[at] = value;
                }
            }
        }
        matrix
    }
}

/// A vector in memory, with its increment and the gaps between its elements.
#[derive(Clone, Debug)]
pub(super) struct Vector {
    pub(super) n: usize,
    pub(super) inc: i64,
    pub(super) v: Vec<Complex64>,
}

impl Vector {
    fn index(&self, i: usize) -> usize {
        let at = if self.inc < 0 { self.n - 1 - i } else { i };
        at * self.inc.unsigned_abs() as usize
    }

    pub(super) fn at(&self, i: usize) -> Complex64 {
        self.v[self.index(i)]
    }

    pub(super) fn at_mut(&mut self, i: usize) -> &mut Complex64 {
        let at = self.index(i);
        &mut self.v[at]
    }

    /// The elements in order, as a matrix of one column.
    pub(super) fn dense(&self) -> Dense {
        Dense::of(self.n, 1, |i, _| self.at(i))
    }

    /// The same vector with other elements.
    pub(super) fn holding(&self, column: &Dense) -> Vector {
        let mut new = self.clone();
        for i in 0..self.n {
            *new.at_mut(i) = column.at(i, 0);
        }
        new
    }
}

/// How the elements of a matrix are laid out in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Layout {
    Full {
        ld: usize,
    },
    /// A band matrix with this many diagonals below and above the main one.
    Band {
        below: usize,
        above: usize,
        ld: usize,
    },
    Packed,
}

impl Layout {
    fn elements(self, rows: usize, cols: usize) -> usize {
        match self {
            Layout::Full { ld } | Layout::Band { ld, .. } => ld * cols.max(1),
            Layout::Packed => (rows * (rows + 1) / 2).max(1),
        }
    }
}

/// Which elements of a matrix are stored, and which values the other elements have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shape {
    General,
    /// One triangle, `U` or `L`, of a symmetric matrix.
    Symmetric(u8),
    Hermitian(u8),
    /// A triangle, `U` or `L`; if `true`, the elements on its diagonal count as one and are not read.
    Triangular(u8, bool),
}

impl Shape {
    /// A symmetric or Hermitian matrix of which this triangle is stored.
    pub(super) fn triangle(uplo: u8, hermitian: bool) -> Shape {
        if hermitian {
            Shape::Hermitian(uplo)
        } else {
            Shape::Symmetric(uplo)
        }
    }
}

/// A matrix in memory, in its layout.
#[derive(Clone, Debug)]
pub(super) struct Matrix {
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) layout: Layout,
    pub(super) shape: Shape,
    pub(super) v: Vec<Complex64>,
}

impl Matrix {
    /// The position of an element in memory, if it is stored.
    fn index(&self, i: usize, j: usize) -> Option<usize> {
        let stored = match self.shape {
            Shape::General => true,
            Shape::Triangular(_, true) if i == j => false,
            Shape::Symmetric(uplo) | Shape::Hermitian(uplo) | Shape::Triangular(uplo, _) => {
                if uplo == b'U' { i <= j } else { i >= j }
            }
        };
        if !stored {
            return None;
        }
        match self.layout {
            Layout::Full { ld } => Some(i + j * ld),
            Layout::Band { below, above, ld } => {
                (i <= j + below && j <= i + above).then(|| above + i - j + j * ld)
            }
            Layout::Packed if i <= j && self.upper() => Some(i + j * (j + 1) / 2),
            Layout::Packed => Some(i + j * (2 * self.rows - j - 1) / 2),
        }
    }

    fn upper(&self) -> bool {
        match self.shape {
            Shape::General => false,
            Shape::Symmetric(uplo) | Shape::Hermitian(uplo) | Shape::Triangular(uplo, _) => {
                uplo == b'U'
            }
        }
    }

    /// All elements, also those that are not stored.
    pub(super) fn dense(&self) -> Dense {
        let stored = |i, j| self.index(i, j).map(|at| self.v[at]);
        Dense::of(self.rows, self.cols, |i, j| {
            let other = || stored(j, i).unwrap_or_default();
            match (stored(i, j), self.shape) {
                (Some(value), _) => value,
                (None, Shape::Symmetric(_)) => other(),
                (None, Shape::Hermitian(_)) => other().conj(),
                (None, Shape::Triangular(_, true)) if i == j => Complex64::ONE,
                (None, _) => Complex64::ZERO,
            }
        })
    }

    /// The same matrix with other elements in place of its stored ones.
    pub(super) fn holding(&self, elements: &Dense) -> Matrix {
        let mut new = self.clone();
        for j in 0..self.cols {
            for i in 0..self.rows {
                if let Some(at) = self.index(i, j) {
                    new.v[at] = elements.at(i, j);
                }
            }
        }
        new
    }
}
