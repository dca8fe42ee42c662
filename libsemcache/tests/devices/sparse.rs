//! Products of sparse matrices against a loop over their entries. All numbers are small integers, so that the results are exact.

use semcache::base::sparse::{CsrKernel, Index};
use semcache::base::{Dtype, Op, Value};
use semcache::device::api::{Backend, Lane, Operand, Shape, Ticket};
use testkit::Rng;

use super::{D0, Pages, region};

pub(super) type Number = (f64, f64);

pub(super) fn times(a: Number, b: Number) -> Number {
    (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0)
}

pub(super) fn plus(a: Number, b: Number) -> Number {
    (a.0 + b.0, a.1 + b.1)
}

pub(super) fn number(rng: &mut Rng, dtype: Dtype) -> Number {
    let one = |rng: &mut Rng| rng.below(7) as f64 - 3.0;
    let re = one(rng);
    (re, if dtype.is_complex() { one(rng) } else { 0.0 })
}

pub(super) fn encode(dtype: Dtype, all: &[Number]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for &(re, im) in all {
        let parts = if dtype.is_complex() {
            vec![re, im]
        } else {
            vec![re]
        };
        for part in parts {
            match dtype {
                Dtype::S | Dtype::C => bytes.extend((part as f32).to_ne_bytes()),
                Dtype::D | Dtype::Z => bytes.extend(part.to_ne_bytes()),
            }
        }
    }
    bytes
}

pub(super) fn decode(dtype: Dtype, bytes: &[u8]) -> Vec<Number> {
    let single = matches!(dtype, Dtype::S | Dtype::C);
    let part = |at: &[u8]| match single {
        true => f64::from(f32::from_ne_bytes(at.try_into().unwrap())),
        false => f64::from_ne_bytes(at.try_into().unwrap()),
    };
    let parts: Vec<f64> = bytes.chunks(if single { 4 } else { 8 }).map(part).collect();
    match dtype.is_complex() {
        true => parts.chunks(2).map(|c| (c[0], c[1])).collect(),
        false => parts.into_iter().map(|re| (re, 0.0)).collect(),
    }
}

/// A matrix as a list of entries, and as compressed rows.
struct Matrix {
    rows: usize,
    cols: usize,
    entries: Vec<(usize, usize, Number)>,
    offsets: Vec<usize>,
}

impl Matrix {
    /// Rows with 0 to 8 entries, one if there is one column, whose columns come in any order and more than once.
    fn new(rng: &mut Rng, (rows, cols): (usize, usize), dtype: Dtype) -> Matrix {
        let mut entries = Vec::new();
        let mut offsets = vec![0];
        for row in 0..rows {
            for _ in 0..rng.below(9).min(cols) {
                entries.push((row, rng.below(cols), number(rng, dtype)));
            }
            offsets.push(entries.len());
        }
        Matrix {
            rows,
            cols,
            entries,
            offsets,
        }
    }

    /// The first and the end of the columns with entries.
    fn columns(&self) -> (usize, usize) {
        let columns = self.entries.iter().map(|e| e.1);
        let end = columns.clone().max().map_or(0, |last| last + 1);
        (columns.min().unwrap_or(0), end)
    }

    fn integers(of: impl Iterator<Item = usize>, index: Index, first: u8) -> Vec<u8> {
        let all = of.map(|i| i as i64 + i64::from(first));
        match index {
            Index::I32 => all.flat_map(|i| (i as i32).to_ne_bytes()).collect(),
            Index::I64 => all.flat_map(i64::to_ne_bytes).collect(),
        }
    }
}

/// Device memory, and what was put there.
pub(super) struct Device<'a> {
    pub(super) backend: &'a dyn Backend,
    pub(super) memory: u64,
    pub(super) used: u64,
}

impl Device<'_> {
    pub(super) fn put(&mut self, bytes: &[u8]) -> (u64, Ticket) {
        let at = self.memory + self.used;
        self.used += bytes.len().next_multiple_of(256) as u64 + 256;
        let host = Pages::new(bytes.len().max(1).next_multiple_of(4096));
        host.bytes()[..bytes.len()].copy_from_slice(bytes);
        let shape = Shape {
            width: bytes.len(),
            count: 1,
        };
        // SAFETY: memory of this test.
        let sent = unsafe {
            self.backend
                .upload(D0, &[], &[], region(host.addr(), 0), region(at, 0), shape)
        };
        let sent = sent.unwrap();
        self.backend.wait(sent).unwrap();
        (at, sent)
    }

    pub(super) fn get(&self, at: u64, bytes: usize, after: Ticket) -> Vec<u8> {
        let host = Pages::new(bytes.max(1).next_multiple_of(4096));
        let shape = Shape {
            width: bytes,
            count: 1,
        };
        // SAFETY: memory of this test.
        let home = unsafe {
            self.backend
                .download(D0, &[after], region(at, 0), region(host.addr(), 0), shape)
        };
        self.backend.wait(home.unwrap()).unwrap();
        host.bytes()[..bytes].to_vec()
    }
}

/// All types of elements and integers, operations, and numbers of vectors.
pub(super) fn all(b: &dyn Backend) {
    assert!(b.multiplies_sparse(D0));
    let mut rng = Rng::new(11);
    let memory = b.alloc(D0, 8 << 20).unwrap();
    let mut pattern = 0;
    for dtype in Dtype::ALL {
        for index in [Index::I32, Index::I64] {
            for first in [0, 1] {
                for size in [(1, 1), (40, 70), (200, 33), (513, 513)] {
                    let a = Matrix::new(&mut rng, size, dtype);
                    let mut device = Device {
                        backend: b,
                        memory,
                        used: 0,
                    };
                    let values: Vec<Number> = a.entries.iter().map(|e| e.2).collect();
                    let offsets = Matrix::integers(a.offsets.iter().copied(), index, first);
                    let columns = Matrix::integers(a.entries.iter().map(|e| e.1), index, first);
                    let csr = CsrKernel {
                        dtype,
                        index,
                        first,
                        op: Op::None,
                        rows: a.rows,
                        cols: a.cols,
                        nnz: values.len(),
                        vectors: 1,
                        alpha: Value::ONE,
                        beta: Value::ZERO,
                        offsets: device.put(&offsets).0,
                        columns: device.put(&columns).0,
                        values: device.put(&encode(dtype, &values)).0,
                        touched: (0, 0),
                        x: Operand::default(),
                        y: Operand::default(),
                        scratch: 0,
                        pattern: 0,
                    };
                    let used = device.used;
                    for op in [Op::None, Op::Trans, Op::ConjTrans] {
                        for vectors in [1, 3] {
                            device.used = used;
                            pattern += 1;
                            let csr = CsrKernel {
                                op,
                                vectors,
                                pattern,
                                ..csr
                            };
                            product(&mut device, &mut rng, &a, csr);
                        }
                    }
                }
            }
        }
    }
    // SAFETY: all operations are complete.
    unsafe { b.free(D0, memory) };
}

/// One product, twice: the second time the device knows the pattern.
fn product(device: &mut Device<'_>, rng: &mut Rng, a: &Matrix, csr: CsrKernel) {
    let dtype = csr.dtype;
    let (from, to) = csr.lengths();
    let touched = match csr.op {
        Op::None => a.columns(),
        Op::Trans | Op::ConjTrans => (0, from),
    };
    let csr = CsrKernel { touched, ..csr };
    let dense = |rng: &mut Rng, n: usize| -> Vec<Number> {
        (0..(n + 2) * csr.vectors)
            .map(|_| number(rng, dtype))
            .collect()
    };
    let (x, y) = (dense(rng, from), dense(rng, to));
    // As the runtime asks: before it knows where the operands lie.
    let somewhere = |n: usize| Operand::matrix(4096, n + 2);
    let asked = CsrKernel {
        offsets: 4096,
        columns: 4096,
        values: 4096,
        x: somewhere(from),
        y: somewhere(to),
        ..csr
    };
    let scratch = device.backend.csr_scratch(D0, &asked).unwrap();
    let (alpha, beta) = (
        number(rng, dtype),
        rng.of(&[(0.0, 0.0), (1.0, 0.0), (-2.0, 0.0)]),
    );
    // A Y that is not read is NaN.
    let start: Vec<Number> = match beta == (0.0, 0.0) {
        true => y.iter().map(|_| (f64::NAN, 0.0)).collect(),
        false => y.clone(),
    };
    let value = |(re, im): Number| Value { re, im };
    let kernel = CsrKernel {
        alpha: value(alpha),
        beta: value(beta),
        x: Operand::matrix(device.put(&encode(dtype, &x[touched.0..])).0, from + 2),
        y: Operand::matrix(device.put(&encode(dtype, &start)).0, to + 2),
        scratch: device.put(&vec![0; scratch]).0,
        ..csr
    };
    let mut wanted = start;
    for v in 0..csr.vectors {
        let (x, wanted) = (&x[v * (from + 2)..], &mut wanted[v * (to + 2)..]);
        for y in &mut wanted[..to] {
            *y = if beta == (0.0, 0.0) {
                beta
            } else {
                times(beta, *y)
            };
        }
        for &(row, column, entry) in &a.entries {
            let (i, j, entry) = match csr.op {
                Op::None => (row, column, entry),
                Op::Trans => (column, row, entry),
                Op::ConjTrans => (column, row, (entry.0, -entry.1)),
            };
            wanted[i] = plus(wanted[i], times(alpha, times(entry, x[j])));
        }
    }
    let bytes = encode(dtype, &wanted).len();
    for again in [false, true] {
        // SAFETY: memory of this test, of the extents that the kernel says.
        let queued = unsafe { device.backend.multiply_csr(D0, &[], &kernel) }.unwrap();
        assert_eq!(queued.lane, Lane::Compute);
        if !again {
            let found = decode(dtype, &device.get(kernel.y.addr, bytes, queued));
            let same = |(a, b): (&Number, &Number)| a == b || a.0.is_nan() && b.0.is_nan();
            let wrong = found.iter().zip(&wanted).position(|pair| !same(pair));
            assert_eq!(wrong, None, "{kernel:?}: {found:?}, not {wanted:?}");
        }
        device.backend.wait(queued).unwrap();
    }
}
