//! Factorizations of dense matrices and solutions by them, of matrices that are made of their factors. L has few elements, of
//! size 1/2 below a unit diagonal, U few ones above a diagonal of powers of two: every pivot is the only largest candidate, no step
//! rounds, and the condition is good. Elements that a step must neither read nor write, between columns and in the other triangle
//! of a Cholesky factor, are NaN. Factors by QR are square roots, and round: their product is compared with the matrix.

use semcache::base::dense::{DenseKernel, Step};
use semcache::base::{Dtype, Op, Side, Uplo};
use semcache::device::api::{Backend, Lane, Operand, Ticket};
use testkit::{Rng, devices};

use super::D0;
use super::level3::{OPS, UPLOS};
use super::sparse::{Device, Number, decode, encode, number, plus, times};

const ORDERS: [usize; 4] = [1, 7, 64, 257];
const SIDES: [usize; 2] = [1, 5];
/// Elements of A, and of B, between columns.
const BETWEEN: usize = 3;
const MEMORY: usize = 64 << 20;

const ZERO: Number = (0.0, 0.0);
const ONE: Number = (1.0, 0.0);
const NAN: Number = (f64::NAN, f64::NAN);

fn conj((re, im): Number) -> Number {
    (re, -im)
}

/// A matrix by columns, without elements between them.
#[derive(Clone)]
struct Matrix {
    rows: usize,
    cols: usize,
    all: Vec<Number>,
}

impl Matrix {
    fn new(rows: usize, cols: usize, mut of: impl FnMut(usize, usize) -> Number) -> Matrix {
        let mut all = Vec::new();
        for j in 0..cols {
            all.extend((0..rows).map(|i| of(i, j)));
        }
        Matrix { rows, cols, all }
    }

    fn at(&self, i: usize, j: usize) -> Number {
        self.all[j * self.rows + i]
    }

    /// `self * other`
    fn times(&self, other: &Matrix) -> Matrix {
        let mut product = Matrix::new(self.rows, other.cols, |_, _| ZERO);
        for j in 0..other.cols {
            for t in 0..self.cols {
                let factor = other.at(t, j);
                if factor == ZERO {
                    continue;
                }
                let column = &mut product.all[j * self.rows..][..self.rows];
                for (i, sum) in column.iter_mut().enumerate() {
                    *sum = plus(*sum, times(self.at(i, t), factor));
                }
            }
        }
        product
    }

    fn under(&self, op: Op) -> Matrix {
        match op {
            Op::None => self.clone(),
            Op::Trans => Matrix::new(self.cols, self.rows, |i, j| self.at(j, i)),
            Op::ConjTrans => Matrix::new(self.cols, self.rows, |i, j| conj(self.at(j, i))),
        }
    }

    /// The leading dimension in device memory.
    fn ld(&self) -> usize {
        self.rows + BETWEEN
    }

    /// All elements in device memory.
    fn spread(&self) -> Vec<Number> {
        let columns = self.all.chunks(self.rows);
        columns
            .flat_map(|column| column.iter().copied().chain([NAN; BETWEEN]))
            .collect()
    }
}

/// A matrix and its LU factorization.
struct Factored {
    a: Matrix,
    /// L below the diagonal and U above it, as a factorization leaves them.
    lu: Matrix,
    pivots: Vec<usize>,
}

struct Bench<'a> {
    device: Device<'a>,
    rng: Rng,
    dtype: Dtype,
    loaded: Vec<Step>,
}

pub(super) fn all(b: &dyn Backend) {
    assert!(b.solves(D0));
    let memory = b.alloc(D0, MEMORY).unwrap();
    for dtype in Dtype::ALL {
        let mut bench = Bench {
            device: Device {
                backend: b,
                memory,
                used: 0,
            },
            rng: Rng::new(19),
            dtype,
            loaded: Vec::new(),
        };
        for order in ORDERS {
            bench.square(order);
            bench.rectangular(order + order / 2 + 1, order);
            bench.rectangular(order, order + order / 2 + 1);
            bench.singular(order);
            bench.reflectors(order + order / 2 + 1, order);
            bench.reflectors(order, order + order / 2 + 1);
            for uplo in UPLOS {
                bench.cholesky(order, uplo);
                bench.indefinite(order, uplo);
                bench.symmetric(order, uplo);
            }
        }
    }
    // SAFETY: all operations are complete.
    unsafe { b.free(D0, memory) };
}

impl<'a> Bench<'a> {
    /// A number of this size; of complex ones, some are imaginary.
    fn unit(&mut self, size: f64) -> Number {
        match self.dtype.is_complex() && self.rng.one_in(2) {
            true => (0.0, size),
            false => (size, 0.0),
        }
    }

    /// For an element that is not on the diagonal: of a large matrix, most are 0.
    fn sparse(&mut self, order: usize, size: f64) -> Number {
        if self.rng.below(order) >= 3 {
            return ZERO;
        }
        let sign = self.rng.of(&[-size, size]);
        self.unit(sign)
    }

    fn factored(&mut self, m: usize, n: usize) -> Factored {
        let (least, most) = (m.min(n), m.max(n));
        let l = Matrix::new(m, least, |i, j| match i.cmp(&j) {
            std::cmp::Ordering::Less => ZERO,
            std::cmp::Ordering::Equal => ONE,
            std::cmp::Ordering::Greater => self.sparse(most, 0.5),
        });
        let u = Matrix::new(least, n, |i, j| match i.cmp(&j) {
            std::cmp::Ordering::Less => self.sparse(most, 1.0),
            std::cmp::Ordering::Equal => {
                let size = self.rng.of(&[2.0, 4.0, -2.0]);
                self.unit(size)
            }
            std::cmp::Ordering::Greater => ZERO,
        });
        let product = l.times(&u);
        // Which row of the product each row of A is.
        let mut rows: Vec<usize> = (0..m).collect();
        for i in 0..m {
            rows.swap(i, i + self.rng.below(m - i));
        }
        let a = Matrix::new(m, n, |i, j| product.at(rows[i], j));
        // In each step the row is found that the product has there.
        let mut pivots = Vec::new();
        for j in 0..least {
            let pivot = rows.iter().position(|row| *row == j).unwrap();
            rows.swap(j, pivot);
            pivots.push(pivot + 1);
        }
        let lu = Matrix::new(m, n, |i, j| match i <= j {
            true => u.at(i, j),
            false => l.at(rows[i], j),
        });
        Factored { a, lu, pivots }
    }

    /// A lower triangular matrix with a real, positive diagonal.
    fn root(&mut self, order: usize) -> Matrix {
        Matrix::new(order, order, |i, j| match i.cmp(&j) {
            std::cmp::Ordering::Less => ZERO,
            std::cmp::Ordering::Equal => (self.rng.of(&[2.0, 4.0]), 0.0),
            std::cmp::Ordering::Greater => self.sparse(order, 1.0),
        })
    }

    fn put(&mut self, bytes: &[u8]) -> (u64, Ticket) {
        let put = self.device.put(bytes);
        assert!(self.device.used <= MEMORY as u64);
        put
    }

    fn put_matrix(&mut self, matrix: &Matrix) -> Operand {
        let (at, _) = self.put(&encode(self.dtype, &matrix.spread()));
        Operand::matrix(at, matrix.ld())
    }

    /// A kernel on this matrix, which is put into memory of the device.
    fn kernel(&mut self, step: Step, a: &Matrix) -> DenseKernel {
        self.device.used = 0;
        DenseKernel {
            step,
            dtype: self.dtype,
            uplo: Uplo::Lower,
            op: Op::None,
            side: Side::Left,
            m: a.rows,
            n: a.cols,
            sides: 0,
            a: self.put_matrix(a),
            b: Operand::default(),
            pivots: 0,
            tau: 0,
            info: 0,
            scratch: 0,
            scratch_bytes: 0,
        }
    }

    /// Queues a kernel with scratch memory and a place for INFO, which is returned with its ticket.
    fn queue(&mut self, kernel: DenseKernel, after: &[Ticket]) -> (u64, Ticket) {
        let backend = self.device.backend;
        if !self.loaded.contains(&kernel.step) {
            let nowhere = |of: Operand| Operand { addr: 0, ..of };
            let kind = DenseKernel {
                a: nowhere(kernel.a),
                b: nowhere(kernel.b),
                pivots: 0,
                tau: 0,
                ..kernel
            };
            backend.load_solver(D0, &kind).unwrap();
            self.loaded.push(kernel.step);
        }
        let scratch_bytes = backend.dense_scratch(D0, &kernel).unwrap();
        let kernel = DenseKernel {
            info: self.put(&[0xff; DenseKernel::INFO]).0,
            scratch: match scratch_bytes {
                0 => 0,
                _ => self.put(&vec![0; scratch_bytes]).0,
            },
            scratch_bytes,
            ..kernel
        };
        // SAFETY: memory of this test, of the extents that the kernel says; pivots are those of a factorization.
        let queued = unsafe { backend.solve(D0, after, &kernel) }.unwrap();
        assert_eq!(queued.lane, Lane::Compute);
        (kernel.info, queued)
    }

    fn info(&self, (at, queued): (u64, Ticket)) -> usize {
        let bytes = self.device.get(at, DenseKernel::INFO, queued);
        let info = i32::from_ne_bytes(bytes.try_into().unwrap());
        usize::try_from(info).unwrap()
    }

    /// Compares a matrix in device memory: exactly, or within the rounding of real devices.
    fn check(&self, what: &str, at: Operand, wanted: &Matrix, after: Ticket) {
        let relative = if devices::real() {
            self.rounding()
        } else {
            0.0
        };
        self.check_within(relative, what, at, wanted, after);
    }

    fn rounding(&self) -> f64 {
        match self.dtype {
            Dtype::S | Dtype::C => 1e-5,
            Dtype::D | Dtype::Z => 1e-12,
        }
    }

    fn check_within(&self, relative: f64, what: &str, at: Operand, wanted: &Matrix, after: Ticket) {
        let wanted_all = wanted.spread();
        let bytes = encode(self.dtype, &wanted_all).len();
        let found = decode(self.dtype, &self.device.get(at.addr, bytes, after));
        let size = |z: Number| z.0.abs().max(z.1.abs());
        let largest = wanted.all.iter().map(|z| size(*z)).fold(0.0, f64::max);
        // A NaN is near another one only.
        let near = |a: Number, b: Number| {
            let limit = relative * largest;
            let close = (a.0 - b.0).abs() <= limit && (a.1 - b.1).abs() <= limit;
            close || a.0.is_nan() && b.0.is_nan()
        };
        let wrong = found
            .iter()
            .zip(&wanted_all)
            .position(|(a, b)| !near(*a, *b));
        if let Some(at) = wrong {
            let (i, j) = (at % wanted.ld(), at / wanted.ld());
            panic!(
                "{what} {:?} {}x{}: element ({i}, {j}) is {:?}, not {:?}",
                self.dtype, wanted.rows, wanted.cols, found[at], wanted_all[at]
            );
        }
    }

    /// Queues a factorization by LU, with a place for its pivots, and returns the kernel with its INFO and ticket.
    fn lu(&mut self, a: &Matrix) -> (DenseKernel, (u64, Ticket)) {
        let mut kernel = self.kernel(Step::Lu, a);
        let bytes = a.rows.min(a.cols) * DenseKernel::PIVOT;
        kernel.pivots = self.put(&vec![0xff; bytes]).0;
        let queued = self.queue(kernel, &[]);
        (kernel, queued)
    }

    fn check_lu(&self, kernel: &DenseKernel, queued: (u64, Ticket), wanted: &Factored) {
        let (size, n) = (DenseKernel::PIVOT, wanted.pivots.len());
        assert_eq!(self.info(queued), 0);
        let bytes = self.device.get(kernel.pivots, n * size, queued.1);
        let pivots: Vec<usize> = bytes
            .chunks(size)
            .map(|pivot| i64::from_ne_bytes(pivot.try_into().unwrap()) as usize)
            .collect();
        assert_eq!(pivots, wanted.pivots, "{kernel:?}");
        self.check("LU", kernel.a, &wanted.lu, queued.1);
    }

    /// Queues a solution behind a factorization, and compares it.
    fn solved(&mut self, what: &str, kernel: DenseKernel, a: &Matrix, factored: Ticket) {
        for sides in SIDES {
            let x = Matrix::new(a.rows, sides, |_, _| number(&mut self.rng, self.dtype));
            let b = a.under(kernel.op).times(&x);
            let kernel = DenseKernel {
                sides,
                b: self.put_matrix(&b),
                ..kernel
            };
            let (info, queued) = self.queue(kernel, &[factored]);
            self.check(&format!("{what} {:?}", kernel.op), kernel.b, &x, queued);
            assert_eq!(self.info((info, queued)), 0);
        }
    }

    fn square(&mut self, order: usize) {
        let wanted = self.factored(order, order);
        let (kernel, queued) = self.lu(&wanted.a);
        for op in OPS {
            let kernel = DenseKernel {
                step: Step::LuSolve,
                op,
                ..kernel
            };
            self.solved("LU solution", kernel, &wanted.a, queued.1);
        }
        // The solutions have not changed the factors either.
        self.check_lu(&kernel, queued, &wanted);
    }

    fn rectangular(&mut self, m: usize, n: usize) {
        let wanted = self.factored(m, n);
        let (kernel, queued) = self.lu(&wanted.a);
        self.check_lu(&kernel, queued, &wanted);
        self.exchanged(kernel, &wanted.pivots, queued.1);
    }

    /// Exchanges rows of another matrix by the pivots.
    fn exchanged(&mut self, kernel: DenseKernel, pivots: &[usize], factored: Ticket) {
        for sides in SIDES {
            let b = Matrix::new(kernel.m, sides, |_, _| number(&mut self.rng, self.dtype));
            let mut rows: Vec<usize> = (0..kernel.m).collect();
            for (i, pivot) in pivots.iter().enumerate() {
                rows.swap(i, pivot - 1);
            }
            let wanted = Matrix::new(kernel.m, sides, |i, j| b.at(rows[i], j));
            let kernel = DenseKernel {
                step: Step::Exchange,
                sides,
                b: self.put_matrix(&b),
                ..kernel
            };
            let (_, queued) = self.queue(kernel, &[factored]);
            self.check("exchange", kernel.b, &wanted, queued);
        }
    }

    /// One column is zero, so that nothing but zeros comes to be there.
    fn singular(&mut self, order: usize) {
        let (a, zero) = (self.factored(order, order).a, order / 2);
        let a = Matrix::new(
            order,
            order,
            |i, j| if j == zero { ZERO } else { a.at(i, j) },
        );
        let (_, queued) = self.lu(&a);
        assert_eq!(self.info(queued), zero + 1, "{:?} {order}", self.dtype);
    }

    /// A = Q R: Q R is A, and Q^H A is R, from both sides.
    fn reflectors(&mut self, m: usize, n: usize) {
        let (least, rounding) = (m.min(n), 8.0 * self.rounding());
        let a = self.factored(m, n).a;
        let mut kernel = self.kernel(Step::Qr, &a);
        let unset = vec![0xff; least * self.dtype.size()];
        kernel.tau = self.put(&unset).0;
        let (info, factored) = self.queue(kernel, &[]);
        assert_eq!(self.info((info, factored)), 0);
        let bytes = encode(self.dtype, &a.spread()).len();
        let factor = self.device.get(kernel.a.addr, bytes, factored);
        let factor = decode(self.dtype, &factor);
        let r = Matrix::new(m, n, |i, j| match i <= j {
            true => factor[j * kernel.a.ld() + i],
            false => ZERO,
        });
        for i in 0..least {
            // LAPACK's sign: a diagonal that is real, and of the opposite sign to what was there.
            assert_eq!(r.at(i, i).1, 0.0, "{:?} {m}x{n}", self.dtype);
        }
        let turned = match self.dtype.is_complex() {
            true => Op::ConjTrans,
            false => Op::Trans,
        };
        let products = [
            (Side::Left, Op::None, r.clone(), a.clone()),
            (Side::Left, turned, a.clone(), r.clone()),
            (
                Side::Right,
                turned,
                r.under(Op::ConjTrans),
                a.under(Op::ConjTrans),
            ),
            (
                Side::Right,
                Op::None,
                a.under(Op::ConjTrans),
                r.under(Op::ConjTrans),
            ),
        ];
        for (side, op, b, wanted) in products {
            let kernel = DenseKernel {
                step: Step::ApplyQ,
                side,
                op,
                n: least,
                sides: n,
                b: self.put_matrix(&b),
                ..kernel
            };
            let (info, queued) = self.queue(kernel, &[factored]);
            let what = format!("Q {side:?} {op:?}");
            self.check_within(rounding, &what, kernel.b, &wanted, queued);
            assert_eq!(self.info((info, queued)), 0);
        }
    }

    /// One triangle of a matrix with both.
    fn triangle(of: &Matrix, uplo: Uplo) -> Matrix {
        Matrix::new(of.rows, of.cols, |i, j| {
            let inside = if uplo == Uplo::Lower { i >= j } else { i <= j };
            if inside { of.at(i, j) } else { NAN }
        })
    }

    fn cholesky(&mut self, order: usize, uplo: Uplo) {
        let lower = self.root(order);
        let upper = lower.under(Op::ConjTrans);
        let a = lower.times(&upper);
        let kernel = DenseKernel {
            uplo,
            ..self.kernel(Step::Cholesky, &Bench::triangle(&a, uplo))
        };
        let queued = self.queue(kernel, &[]);
        let solve = DenseKernel {
            step: Step::CholeskySolve,
            ..kernel
        };
        self.solved("Cholesky solution", solve, &a, queued.1);
        assert_eq!(self.info(queued), 0);
        let factor = if uplo == Uplo::Lower { lower } else { upper };
        let wanted = Bench::triangle(&factor, uplo);
        self.check("Cholesky", kernel.a, &wanted, queued.1);
    }

    /// On the diagonal, one element is 1 less than the squares of its row of L before it.
    fn indefinite(&mut self, order: usize, uplo: Uplo) {
        let (lower, wrong) = (self.root(order), order / 2);
        let (root, _) = lower.at(wrong, wrong);
        let mut a = lower.times(&lower.under(Op::ConjTrans));
        a.all[wrong * order + wrong].0 -= root * root + 1.0;
        let kernel = DenseKernel {
            uplo,
            ..self.kernel(Step::Cholesky, &Bench::triangle(&a, uplo))
        };
        let queued = self.queue(kernel, &[]);
        assert_eq!(self.info(queued), wrong + 1, "{:?} {order}", self.dtype);
    }

    /// `A = L D L^T`, D with elements 8 and, in the first half, some blocks of order two with a zero diagonal. The second row of each block
    /// is exchanged with one of the last rows at first, so that a pivot is there. An upper triangle is a lower one in reverse.
    fn symmetric(&mut self, order: usize, uplo: Uplo) {
        let pairs = (1..order / 2).step_by(4).filter(|k| k + 1 < order / 2);
        let pairs: Vec<(usize, usize)> =
            pairs.enumerate().map(|(m, k)| (k, order - 1 - m)).collect();
        let paired = |i: usize, j: usize| pairs.iter().any(|(k, _)| (i, j) == (k + 1, *k));
        let in_pair = |i: usize| pairs.iter().any(|(k, _)| i == *k || i == k + 1);
        let l = Matrix::new(order, order, |i, j| match i.cmp(&j) {
            std::cmp::Ordering::Equal => ONE,
            std::cmp::Ordering::Greater if !paired(i, j) => self.sparse(order, 0.25),
            _ => ZERO,
        });
        let d = Matrix::new(order, order, |i, j| match i == j && !in_pair(i) {
            true => (8.0, 0.0),
            false if paired(i, j) || paired(j, i) => (8.0, 0.0),
            false => ZERO,
        });
        let product = l.times(&d).times(&l.under(Op::Trans));
        let place = |i: usize| match uplo {
            Uplo::Lower => i,
            Uplo::Upper => order - 1 - i,
        };
        // Which row of the product is where after the exchanges of the columns up to this one.
        let rows = |column: Option<usize>| {
            let mut rows: Vec<usize> = (0..order).collect();
            let open = pairs.iter().filter(|(k, _)| column.is_none_or(|j| j < *k));
            open.for_each(|(k, with)| rows.swap(k + 1, *with));
            rows
        };
        let first = rows(None);
        let a = Matrix::new(order, order, |i, j| {
            product.at(first[place(i)], first[place(j)])
        });
        let wanted = Matrix::new(order, order, |i, j| {
            let (i, j) = (place(i), place(j));
            match i == j || paired(i, j) {
                true => d.at(i, j),
                false if i > j => l.at(rows(Some(j))[i], j),
                false => ZERO,
            }
        });
        let mut pivots: Vec<i32> = (0..order).map(|i| i as i32 + 1).collect();
        for (k, with) in &pairs {
            for column in [*k, k + 1] {
                pivots[place(column)] = -(place(*with) as i32 + 1);
            }
        }
        let mut kernel = DenseKernel {
            uplo,
            ..self.kernel(Step::Symmetric, &Bench::triangle(&a, uplo))
        };
        kernel.pivots = self.put(&vec![0xff; order * Step::Symmetric.pivot()]).0;
        let queued = self.queue(kernel, &[]);
        assert_eq!(self.info(queued), 0);
        let bytes = self.device.get(kernel.pivots, 4 * order, queued.1);
        let found = bytes.chunks(4);
        let found: Vec<i32> = found
            .map(|pivot| i32::from_ne_bytes(pivot.try_into().unwrap()))
            .collect();
        assert_eq!(found, pivots, "{kernel:?}");
        let wanted = Bench::triangle(&wanted, uplo);
        self.check("symmetric", kernel.a, &wanted, queued.1);
        let wide = pivots
            .iter()
            .flat_map(|pivot| i64::from(*pivot).to_ne_bytes());
        let solve = DenseKernel {
            step: Step::SymmetricSolve,
            pivots: self.put(&wide.collect::<Vec<_>>()).0,
            ..kernel
        };
        self.solved("symmetric solution", solve, &a, queued.1);
        // A row and a column of zeros.
        let zero = order / 2;
        let singular = Matrix::new(order, order, |i, j| match i == zero || j == zero {
            true => ZERO,
            false => a.at(i, j),
        });
        let mut kernel = DenseKernel {
            uplo,
            ..self.kernel(Step::Symmetric, &singular)
        };
        kernel.pivots = self.put(&vec![0xff; order * Step::Symmetric.pivot()]).0;
        let queued = self.queue(kernel, &[]);
        let bytes = encode(self.dtype, &singular.spread()).len();
        let factor = decode(self.dtype, &self.device.get(kernel.a.addr, bytes, queued.1));
        let mut diagonal = (0..order).map(|i| factor[i * kernel.a.ld() + i]);
        let told = self.info(queued) > 0 || devices::real() && diagonal.any(|x| x == ZERO);
        assert!(told, "{:?} {order}", self.dtype);
    }
}
