//! QR with column pivoting (geqp3), a column at a time: G. Quintana-Orti, X. Sun, C. H. Bischof, "A BLAS-3 version of the QR factorization
//! with column pivoting", SIAM J. Sci. Comput. 19 (1998), as LAPACK's laqps has it: updates of all but the current column and row wait until
//! a panel of columns is done. cuSOLVER has no such routine. Kernels of the BLAS compute on the device; the host chooses the columns and makes
//! the scalars of the reflectors, for which the next diagonal element, the norm below it and a row come home for each column.

use super::blas::{diagonal_of, diagonal_row, elements, values, vector};
use super::compute::{Ended, Solution, finite};
use super::pivoting::{Norms, Reflector, WIDTH, least, reflector};
use super::queue::{Queueing, Refused};
use super::system::adjoint;
use super::triangle::block;
use crate::base::{Intent, Op, Rect, Routine, Value};
use crate::cache::task::Use;
use crate::device::api::{Kernel, Operand};
use crate::hints::view::View;
use crate::sparse::arrays::Own;

/// Where the norm is in an answer; the diagonal element is at its beginning.
const NORM: usize = 16;
const HEAD: usize = 32;

/// What is on the device.
struct Factored {
    /// The copy of A. Below a column that is done it has the column's reflector, whose first element, 1, is on the diagonal.
    a: Use,
    /// F of the panel: `A - V F^H` is the matrix with the panel's reflectors applied, V being these.
    f: Use,
    /// Products of a reflector with the earlier ones of its panel.
    products: Use,
    /// A one.
    one: Use,
    /// Where answers are: norms of columns, a diagonal element and the norm below it, and a row.
    norms: usize,
    head: usize,
    row: usize,
}

impl Queueing<'_> {
    /// Factors A.
    pub(super) fn pivoted(&mut self, a: &Use) -> Result<Ended, Refused> {
        let (view, dtype) = (self.system.a, self.system.dtype);
        let View { rows, cols, .. } = view;
        let steps = rows.min(cols);
        let factored = self.begun(a)?;
        let all: Vec<usize> = (0..cols).collect();
        let computed = self.norms(&factored, 0, &all)?;
        if !finite(&computed) {
            return Ok(Ended::Info);
        }
        // LAPACK scales a column this small before it makes the reflector. Pivoting would come to it last, and leave the call to the host
        // after all has been computed.
        if steps == cols
            && computed
                .iter()
                .any(|norm| *norm > 0.0 && *norm < least(dtype))
        {
            return Ok(Ended::Info);
        }
        let mut norms = Norms::of(computed, dtype);
        let mut order: Vec<i64> = (1..).take(cols).collect();
        let (mut tau, mut diagonal) = (Vec::new(), Vec::new());
        let mut done = 0;
        while done < steps {
            let (first, mut inaccurate) = (done, Vec::new());
            while done < steps.min(first + WIDTH) && inaccurate.is_empty() {
                let largest = norms.largest(done);
                if norms.norm(largest) == 0.0 {
                    // All columns that are left are zero, and their reflectors identities, as in LAPACK.
                    tau.resize(steps, Value::ZERO);
                    diagonal.resize(steps, Value::ZERO);
                    done = steps;
                    break;
                }
                if largest != done {
                    order.swap(done, largest);
                    norms.exchange(done, largest);
                    self.exchange(&factored, (first, done), largest)?;
                }
                let (alpha, norm) = self.column(&factored, (first, done))?;
                let made = reflector(alpha, norm, dtype);
                let Some(made) = made.filter(|made| finite(&made.parts())) else {
                    return Ok(Ended::Info);
                };
                self.reflected(&factored, (first, done), &made)?;
                tau.push(made.tau);
                diagonal.push(Value {
                    re: made.beta,
                    im: 0.0,
                });
                done += 1;
                if done < cols {
                    let row = self.row(&factored, (first, done))?;
                    if !finite(&row) {
                        return Ok(Ended::Info);
                    }
                    inaccurate = norms.without_row(done, &row);
                }
            }
            if done < rows && done < cols {
                self.updated(&factored, (first, done))?;
                let computed = self.norms(&factored, done, &inaccurate)?;
                if !finite(&computed) {
                    return Ok(Ended::Info);
                }
                norms.computed(&inaccurate, &computed);
            }
        }
        let row = diagonal_row(view);
        let own = Own::new(self.cache, elements(dtype, &diagonal).into());
        let from = vector(&own, &row, Intent::Read);
        self.own(own);
        self.queue_copy(row, &[from, diagonal_of(&factored.a, row.cols)])?;
        let results = [self.made(view, &factored.a, a)];
        let home = self.store(&results)?;
        Ok(Ended::Solved(Solution {
            pivots: order,
            tau: elements(dtype, &tau),
            home,
            ..Solution::default()
        }))
    }

    fn begun(&mut self, a: &Use) -> Result<Factored, Refused> {
        let (view, dtype) = (self.system.a, self.system.dtype);
        let matrix = |rows, cols| View {
            rows,
            cols,
            ld: rows,
            ..view
        };
        let copy = self.copied(view, a)?;
        let f = self.zeros(matrix(view.cols, WIDTH))?;
        let products = self.zeros(matrix(WIDTH, 1))?;
        let one = Own::new(self.cache, elements(dtype, &[Value::ONE]).into());
        let of_one = one.part(
            Rect::interval(0, view.element),
            (view.element, 1),
            Intent::Read,
        );
        self.own(one);
        let mut answer = |bytes| {
            let own = Own::zeroed(self.cache, bytes).ok_or(Refused::NoRoom)?;
            Ok::<_, Refused>(self.own(own))
        };
        Ok(Factored {
            a: copy,
            f,
            products,
            one: of_one,
            norms: answer(view.cols * dtype.real().size())?,
            head: answer(HEAD)?,
            row: answer(view.cols * view.element)?,
        })
    }

    /// The norms of these columns below the first `done` rows.
    fn norms(&self, of: &Factored, done: usize, columns: &[usize]) -> Result<Vec<f64>, Refused> {
        if columns.is_empty() {
            return Ok(Vec::new());
        }
        let rows = self.system.a.rows - done;
        for (i, col) in columns.iter().enumerate() {
            let at = i * self.system.dtype.real().size();
            let column = column(&of.a, (done, *col), rows, Intent::Read);
            self.reduce(Routine::Nrm2, (column, rows), (of.norms, at))?;
        }
        Ok(self.reals(self.answer(of.norms)?, columns.len()))
    }

    /// The first real numbers of an answer.
    fn reals(&self, answer: &[u8], count: usize) -> Vec<f64> {
        let all = values(self.system.dtype.real(), answer);
        all.take(count).map(|value| value.re).collect()
    }

    fn kernel(&self, routine: Routine, (m, n, k): (usize, usize, usize)) -> Kernel {
        Kernel {
            m,
            n,
            k,
            ..Kernel::of(routine, self.system.dtype, [Operand::default(); 3])
        }
    }

    /// Queues the exchange of a column with the next one, in a panel that begins at `first`.
    fn exchange(
        &self,
        of: &Factored,
        (first, done): (usize, usize),
        other: usize,
    ) -> Result<(), Refused> {
        let rows = self.system.a.rows;
        let columns = [done, other].map(|col| column(&of.a, (0, col), rows, Intent::Update));
        self.run(self.kernel(Routine::Swap, (rows, 1, 1)), &columns)?;
        let width = done - first;
        if width > 0 {
            let rows = [done, other].map(|row| block(&of.f, (row, 0), (1, width), Intent::Update));
            self.run(self.kernel(Routine::Swap, (width, 1, 1)), &rows)?;
        }
        Ok(())
    }

    /// Applies the panel's reflectors to the next column. Returns its diagonal element, and its norm below that.
    fn column(
        &self,
        of: &Factored,
        (first, done): (usize, usize),
    ) -> Result<(Value, f64), Refused> {
        let (width, rows) = (done - first, self.system.a.rows - done);
        if width > 0 {
            let uses = [
                block(&of.a, (done, first), (rows, width), Intent::Read),
                block(&of.f, (done, 0), (1, width), Intent::Read),
                block(&of.a, (done, done), (rows, 1), Intent::Update),
            ];
            self.run(self.subtracted((rows, 1, width)), &uses)?;
        }
        if rows > 1 {
            let below = column(&of.a, (done + 1, done), rows - 1, Intent::Read);
            self.reduce(Routine::Nrm2, (below, rows - 1), (of.head, NORM))?;
        }
        let element = self.system.a.element;
        let head = self.answer_operand(of.head, Intent::Overwrite)?;
        let uses = [
            block(&of.a, (done, done), (1, 1), Intent::Read),
            interval(&head, element, 1),
        ];
        self.queue_copy(self.system.a.block((0, 0), (1, 1)), &uses)?;
        let answer = self.answer(of.head)?;
        let alpha = values(self.system.dtype, &answer[..element]).next();
        let norm = match rows {
            1 => 0.0,
            _ => self.reals(&answer[NORM..], 1)[0],
        };
        Ok((alpha.unwrap_or_default(), norm))
    }

    /// `C - A B^H`.
    fn subtracted(&self, size: (usize, usize, usize)) -> Kernel {
        Kernel {
            op_b: adjoint(self.system.dtype),
            alpha: Value { re: -1.0, im: 0.0 },
            beta: Value::ONE,
            ..self.kernel(Routine::Gemm, size)
        }
    }

    /// Queues the reflector of a column, its column of F, and the row in which the column has its diagonal element.
    fn reflected(
        &self,
        of: &Factored,
        (first, done): (usize, usize),
        made: &Reflector,
    ) -> Result<(), Refused> {
        let View { rows, cols, .. } = self.system.a;
        let (width, rows, right) = (done - first, rows - done, cols - done - 1);
        if rows > 1 && made.tau != Value::ZERO {
            let below = column(&of.a, (done + 1, done), rows - 1, Intent::Update);
            let scaled = Kernel {
                alpha: made.scale,
                ..self.kernel(Routine::Scal, (rows - 1, 1, 1))
            };
            self.run(scaled, &[below])?;
        }
        let diagonal = block(&of.a, (done, done), (1, 1), Intent::Update);
        let single = self.system.a.block((0, 0), (1, 1));
        self.queue_copy(single, &[of.one.clone(), diagonal])?;
        if right == 0 {
            return Ok(());
        }
        let times = |(m, n): (usize, usize), op_a: Op, alpha: Value, beta: Value| Kernel {
            op_a,
            alpha,
            beta,
            ..self.kernel(Routine::Gemv, (m, n, 1))
        };
        let (turned, zero) = (adjoint(self.system.dtype), Value::ZERO);
        let reflector = column(&of.a, (done, done), rows, Intent::Read);
        let f = |access| column(&of.f, (done + 1, width), right, access);
        let uses = [
            block(&of.a, (done, done + 1), (rows, right), Intent::Read),
            reflector.clone(),
            f(Intent::Overwrite),
        ];
        self.run(times((rows, right), turned, made.tau, zero), &uses)?;
        if width > 0 {
            let Value { re, im } = made.tau;
            let uses = [
                block(&of.a, (done, first), (rows, width), Intent::Read),
                reflector,
                column(&of.products, (0, 0), width, Intent::Overwrite),
            ];
            let minus = Value { re: -re, im: -im };
            self.run(times((rows, width), turned, minus, zero), &uses)?;
            let uses = [
                block(&of.f, (done + 1, 0), (right, width), Intent::Read),
                column(&of.products, (0, 0), width, Intent::Read),
                f(Intent::Update),
            ];
            let one = Value::ONE;
            self.run(times((right, width), Op::None, one, one), &uses)?;
        }
        let uses = [
            block(&of.a, (done, first), (1, width + 1), Intent::Read),
            block(&of.f, (done + 1, 0), (right, width + 1), Intent::Read),
            block(&of.a, (done, done + 1), (1, right), Intent::Update),
        ];
        self.run(self.subtracted((1, right, width + 1)), &uses)
    }

    /// The sizes of the elements right of the last diagonal element that is done.
    fn row(&self, of: &Factored, (_, done): (usize, usize)) -> Result<Vec<f64>, Refused> {
        let View { cols, element, .. } = self.system.a;
        let right = cols - done;
        let row = self.answer_operand(of.row, Intent::Overwrite)?;
        let uses = [
            block(&of.a, (done - 1, done), (1, right), Intent::Read),
            interval(&row, element, right),
        ];
        self.queue_copy(self.system.a.block((0, 0), (1, right)), &uses)?;
        let all = values(self.system.dtype, self.answer(of.row)?).take(right);
        Ok(match self.system.dtype.is_complex() {
            true => all.map(|x| x.re.hypot(x.im)).collect(),
            false => all.map(|x| x.re.abs()).collect(),
        })
    }

    /// Queues the panel's update of the rows and columns that are left.
    fn updated(&self, of: &Factored, (first, done): (usize, usize)) -> Result<(), Refused> {
        let View { rows, cols, .. } = self.system.a;
        let (width, rows, right) = (done - first, rows - done, cols - done);
        let uses = [
            block(&of.a, (done, first), (rows, width), Intent::Read),
            block(&of.f, (done, 0), (right, width), Intent::Read),
            block(&of.a, (done, done), (rows, right), Intent::Update),
        ];
        self.run(self.subtracted((rows, right, width)), &uses)
    }
}

/// Some rows of a column as a vector.
fn column(of: &Use, at: (usize, usize), rows: usize, access: Intent) -> Use {
    Use {
        step: 1,
        ..block(of, at, (rows, 1), access)
    }
}

/// The first elements of an answer as a row.
fn interval(of: &Use, element: usize, count: usize) -> Use {
    Use {
        view: Rect::interval(0, count * element),
        size: element,
        step: 1,
        ..of.clone()
    }
}
