//! Oracle: BLAS by its definition, on dense matrices of complex numbers in plain loops.

use num_complex::Complex64;

/// A matrix by columns, without gaps between them.
#[derive(Clone, Debug)]
pub struct Dense {
    /// Elements of a column.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// The elements, column by column.
    pub v: Vec<Complex64>,
}

impl Dense {
    /// The matrix with these elements, by row and column.
    pub fn of(rows: usize, cols: usize, at: impl Fn(usize, usize) -> Complex64) -> Dense {
        let mut v = Vec::with_capacity(rows * cols);
        for j in 0..cols {
            for i in 0..rows {
                v.push(at(i, j));
            }
        }
        Dense { rows, cols, v }
    }

    /// The element in a row and a column.
    #[must_use]
    pub fn at(&self, i: usize, j: usize) -> Complex64 {
        self.v[j * self.rows + i]
    }

    /// The same element, to be changed.
    pub fn at_mut(&mut self, i: usize, j: usize) -> &mut Complex64 {
        &mut self.v[j * self.rows + i]
    }

    /// The matrix, its transpose or its conjugate transpose: `N`, `T`, `C`.
    #[must_use]
    pub fn op(&self, op: u8) -> Dense {
        match op {
            b'N' => self.clone(),
            b'T' => Dense::of(self.cols, self.rows, |i, j| self.at(j, i)),
            _ => Dense::of(self.cols, self.rows, |i, j| self.at(j, i).conj()),
        }
    }

    /// The symmetric (Hermitian) matrix of which one triangle is stored.
    #[must_use]
    pub fn mirrored(&self, uplo: u8, hermitian: bool) -> Dense {
        Dense::of(self.rows, self.rows, |i, j| {
            let stored = (uplo == b'U') == (i <= j) || i == j;
            let value = if stored { self.at(i, j) } else { self.at(j, i) };
            match hermitian {
                true if i == j => Complex64::new(value.re, 0.0),
                true if !stored => value.conj(),
                _ => value,
            }
        })
    }

    /// The triangle, with zeros around it.
    #[must_use]
    pub fn triangle(&self, uplo: u8, diag: u8) -> Dense {
        Dense::of(self.rows, self.rows, |i, j| {
            if i == j {
                if diag == b'U' {
                    Complex64::new(1.0, 0.0)
                } else {
                    self.at(i, i)
                }
            } else if (uplo == b'U') == (i < j) {
                self.at(i, j)
            } else {
                Complex64::ZERO
            }
        })
    }

    /// The product of this matrix and another.
    ///
    /// # Panics
    /// If this has not as many columns as the other has rows.
    #[must_use]
    pub fn times(&self, other: &Dense) -> Dense {
        assert_eq!(self.cols, other.rows);
        let mut out = Dense::of(self.rows, other.cols, |_, _| Complex64::ZERO);
        let real = self.v.iter().chain(&other.v).all(|v| v.im == 0.0);
        for j in 0..other.cols {
            let to = &mut out.v[j * self.rows..][..self.rows];
            for k in 0..self.cols {
                let by = other.at(k, j);
                let from = &self.v[k * self.rows..][..self.rows];
                if by == Complex64::ZERO {
                } else if real {
                    to.iter_mut()
                        .zip(from)
                        .for_each(|(t, f)| t.re += f.re * by.re);
                } else {
                    to.iter_mut().zip(from).for_each(|(t, f)| *t += f * by);
                }
            }
        }
        out
    }

    /// `alpha` this `+ beta other`.
    #[must_use]
    pub fn plus(&self, alpha: Complex64, beta: Complex64, other: &Dense) -> Dense {
        Dense::of(self.rows, self.cols, |i, j| {
            alpha * self.at(i, j) + beta * other.at(i, j)
        })
    }

    /// `alpha a a' + beta` this (syrk, syr); with a second operand `alpha a b' + alpha b a' + beta` this (syr2k, syr2).
    /// In Hermitian updates transposes are conjugated, and the second alpha.
    #[must_use]
    pub fn updated(
        &self,
        a: &Dense,
        b: Option<&Dense>,
        hermitian: bool,
        (alpha, beta): (Complex64, Complex64),
    ) -> Dense {
        let op = if hermitian { b'C' } else { b'T' };
        let new = a.times(&b.unwrap_or(a).op(op)).plus(alpha, beta, self);
        let Some(b) = b else { return new };
        let alpha = if hermitian { alpha.conj() } else { alpha };
        b.times(&a.op(op)).plus(alpha, Complex64::ONE, &new)
    }

    /// The matrix X with `T X = self`, where T is triangular with diagonal elements of magnitude one.
    #[must_use]
    pub fn solved(&self, t: &Dense, lower: bool) -> Dense {
        let n = self.rows;
        let mut x = self.clone();
        for j in 0..self.cols {
            for step in 0..n {
                let i = if lower { step } else { n - 1 - step };
                let mut sum = x.at(i, j);
                let others = if lower { 0..i } else { i + 1..n };
                for k in others {
                    let f = t.at(i, k);
                    if f != Complex64::ZERO {
                        sum -= f * x.at(k, j);
                    }
                }
                // The inverse of a number of magnitude one.
                *x.at_mut(i, j) = sum * t.at(i, i).conj();
            }
        }
        x
    }
}
