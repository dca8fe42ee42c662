//! The kernels of gemm, gemv, ger and of vectors, on a device and in an image of its memory on the host.

use semcache::base::Routine::{
    Asum, Axpby, Axpy, Copy, Dot, Dotc, Geadd, Gemm, Gemv, Ger, Gerc, Iamax, Nrm2, Scal, Swap,
};
use semcache::base::{Dtype, Op, Value};
use semcache::device::api::{Backend, Kernel, Operand, Shape};
use semcache::device::arith;
use testkit::Rng;

use super::{D0, region};

/// A kernel whose addresses count from `base`.
pub(crate) fn on(kernel: &Kernel, base: u64) -> Kernel {
    Kernel {
        at: kernel.at.map(|o| Operand::vector(base + o.addr, o.step)),
        out: base + kernel.out,
        ..*kernel
    }
}

/// A device block and its image in host memory, on which the arithmetic of the simulated devices runs.
pub(crate) struct Image<'a> {
    b: &'a dyn Backend,
    dev: u64,
    pub(crate) host: Vec<u128>,
}

const IMAGE: usize = 1 << 20;

impl<'a> Image<'a> {
    pub(crate) fn new(b: &'a dyn Backend) -> Self {
        Image::of(b, IMAGE)
    }
    /// Both of this number of bytes.
    pub(crate) fn of(b: &'a dyn Backend, bytes: usize) -> Self {
        Image {
            b,
            dev: b.alloc(D0, bytes).unwrap(),
            host: vec![0; bytes / 16],
        }
    }
    fn bytes(&self) -> usize {
        self.host.len() * 16
    }
    pub(crate) fn fill(&mut self, dtype: Dtype, rng: &mut Rng) {
        let single = matches!(dtype, Dtype::S | Dtype::C);
        let pairs = self.bytes() / 8;
        let bytes = self.host.as_mut_ptr().cast::<u8>();
        for i in 0..pairs {
            let v = (rng.draw() % 7) as f64 - 3.0;
            // SAFETY: within the image, aligned.
            unsafe {
                if single {
                    bytes.cast::<f32>().add(2 * i).write(v as f32);
                    bytes.cast::<f32>().add(2 * i + 1).write(-v as f32);
                } else {
                    bytes.cast::<f64>().add(i).write(v);
                }
            }
        }
    }
    pub(crate) fn addr(&self) -> u64 {
        self.host.as_ptr().expose_provenance() as u64
    }
    /// Runs a kernel, whose addresses count from the image, on both; the images must be equal, up to rounding where
    /// `near`.
    pub(crate) fn check(&mut self, what: &str, near: bool, single: bool, kernel: &Kernel) {
        let bytes = self.bytes();
        let whole = Shape {
            width: bytes,
            count: 1,
        };
        let got = vec![0_u128; bytes / 16];
        let back = region(got.as_ptr().expose_provenance() as u64, bytes);
        // SAFETY: images of equal extent; the kernels stay within them.
        unsafe {
            let here = region(self.addr(), bytes);
            let there = region(self.dev, bytes);
            let up = self.b.upload(D0, &[], &[], here, there, whole).unwrap();
            self.b.wait(up).unwrap();
            let run = self.b.launch(D0, &[up], &on(kernel, self.dev)).unwrap();
            let down = self.b.download(D0, &[run], there, back, whole).unwrap();
            self.b.wait(down).unwrap();
            arith::run(&on(kernel, self.addr()));
        }
        let (want, got) = (self.floats(&self.host, single), self.floats(&got, single));
        let close = |a: f64, b: f64| {
            a == b || (a.is_nan() && b.is_nan()) || (near && (a - b).abs() <= 1e-5 * a.abs())
        };
        for (i, (w, g)) in want.iter().zip(&got).enumerate() {
            assert!(close(*w, *g), "{what}: element {i} is {g}, not {w}");
        }
    }
    fn floats(&self, image: &[u128], single: bool) -> Vec<f64> {
        let at = image.as_ptr();
        // SAFETY: any bytes are numbers.
        unsafe {
            if single {
                let s = std::slice::from_raw_parts(at.cast::<f32>(), image.len() * 4);
                s.iter().map(|&v| f64::from(v)).collect()
            } else {
                std::slice::from_raw_parts(at.cast::<f64>(), image.len() * 2).to_vec()
            }
        }
    }
}

impl Drop for Image<'_> {
    fn drop(&mut self) {
        // SAFETY: nothing is in flight.
        unsafe { self.b.free(D0, self.dev) };
    }
}

pub(crate) const X: u64 = 0;
pub(crate) const Y: u64 = 256 << 10;
pub(crate) const C: u64 = 512 << 10;
pub(crate) const OUT: u64 = 1000 << 10;

pub(crate) fn all(b: &dyn Backend) {
    let mut image = Image::new(b);
    let mut rng = Rng::new(11);
    for dtype in Dtype::ALL {
        let single = matches!(dtype, Dtype::S | Dtype::C);
        let scalar = |rng: &mut Rng| Value {
            re: (rng.draw() % 5) as f64 - 2.0,
            im: if dtype.is_complex() {
                (rng.draw() % 5) as f64 - 2.0
            } else {
                0.0
            },
        };
        for round in 0..60 {
            let size = |rng: &mut Rng, most: usize| 1 + rng.draw() as usize % most;
            let (m, n, k) = (size(&mut rng, 70), size(&mut rng, 70), size(&mut rng, 70));
            let ops = [Op::None, Op::Trans, Op::ConjTrans];
            let (op_a, op_b) = (ops[round % 3], ops[round / 3 % 3]);
            let (alpha, beta) = (scalar(&mut rng), scalar(&mut rng));
            let pad = round % 4;
            let rows = |op, r: usize, c: usize| if op == Op::None { r } else { c };
            let a = Operand::matrix(X, rows(op_a, m, k) + pad);
            let b = Operand::matrix(Y, rows(op_b, k, n) + pad);
            let c = Operand::matrix(C, m + pad);
            image.fill(dtype, &mut rng);
            let gemm = Kernel {
                op_a,
                op_b,
                m,
                n,
                k,
                alpha,
                beta,
                ..Kernel::of(Gemm, dtype, [a, b, c])
            };
            image.check("gemm", false, single, &gemm);
            let inc = |i: usize| [1, 2, -1, -3][i % 4];
            let x = Operand::vector(X, inc(round));
            let y = Operand::vector(Y, inc(round / 4));
            image.fill(dtype, &mut rng);
            let gemv = Kernel {
                op_a,
                m,
                n,
                alpha,
                beta,
                ..Kernel::of(Gemv, dtype, [c, x, y])
            };
            image.check("gemv", false, single, &gemv);
            image.fill(dtype, &mut rng);
            let conj = round % 2 == 0;
            let ger = Kernel {
                m,
                n,
                alpha,
                ..Kernel::of(if conj { Gerc } else { Ger }, dtype, [x, y, c])
            };
            image.check("ger", false, single, &ger);
            let ahead = Operand::vector(X, 1 + (round % 3) as isize);
            let n = size(&mut rng, 2000);
            let of = |routine, at: [Operand; 2]| Kernel {
                m: n,
                alpha,
                out: OUT,
                ..Kernel::of(routine, dtype, at)
            };
            image.fill(dtype, &mut rng);
            image.check("axpy", false, single, &of(Axpy, [x, y]));
            image.check("copy", false, single, &of(Copy, [x, y]));
            image.fill(dtype, &mut rng);
            image.check("swap", false, single, &of(Swap, [x, y]));
            image.check("scal", false, single, &of(Scal, [ahead, y]));
            image.fill(dtype, &mut rng);
            let dot = of(if conj { Dotc } else { Dot }, [x, y]);
            image.check("dot", false, single, &dot);
            image.check("nrm2", true, single, &of(Nrm2, [ahead, y]));
            image.check("asum", false, single, &of(Asum, [ahead, y]));
            image.check("iamax", false, single, &of(Iamax, [ahead, y]));
        }
    }
}

/// With a zero scalar the operand is not read; otherwise NaN and Inf come through as in the reference BLAS.
pub(crate) fn special_values(b: &dyn Backend) {
    let mut image = Image::new(b);
    let mut rng = Rng::new(5);
    let one = Value { re: 1.0, im: 0.0 };
    let zero = Value { re: 0.0, im: 0.0 };
    let two = Value { re: 2.0, im: 0.0 };
    for dtype in Dtype::ALL {
        let single = matches!(dtype, Dtype::S | Dtype::C);
        let (m, n, k) = (17, 13, 9);
        let vec = |addr| Operand::vector(addr, 1);
        let (a, b, c) = (
            Operand::matrix(X, m),
            Operand::matrix(Y, k),
            Operand::matrix(C, m),
        );
        let of = |routine, (m, n, k), at| Kernel {
            m,
            n,
            k,
            ..Kernel::of(routine, dtype, at)
        };
        let kernels = [
            of(Gemm, (m, n, k), [a, b, c]),
            of(Gemv, (m, n, 1), [a, vec(Y), vec(C)]),
            of(Ger, (m, n, 1), [vec(X), vec(Y), c]),
            of(Axpy, (100, 1, 1), [vec(X), vec(C), c]),
            of(Geadd, (m, n, 1), [a, c, c]),
            of(Axpby, (100, 1, 1), [vec(X), vec(C), c]),
        ];
        // Operands that a zero scalar leaves unread are NaN.
        for (alpha, beta) in [(zero, two), (one, zero), (zero, zero), (zero, one)] {
            for kernel in kernels {
                let Kernel { routine, .. } = kernel;
                image.fill(dtype, &mut rng);
                let nan = |image: &mut Image<'_>, from: u64, to: u64| {
                    let bytes = image.host.as_mut_ptr().cast::<u8>();
                    for at in (from..to).step_by(4) {
                        // SAFETY: within the image; all ones is a NaN of either width.
                        unsafe { bytes.add(at as usize).cast::<u32>().write(u32::MAX) };
                    }
                };
                if alpha.is_zero() {
                    nan(&mut image, X, C);
                }
                if beta.is_zero() && matches!(routine, Gemm | Gemv | Geadd | Axpby) {
                    nan(&mut image, C, OUT);
                }
                let what = format!("{routine:?} {dtype:?} alpha {alpha:?} beta {beta:?}");
                image.check(
                    &what,
                    false,
                    single,
                    &Kernel {
                        alpha,
                        beta,
                        ..kernel
                    },
                );
            }
        }
        // Overflow is scaled away.
        image.fill(dtype, &mut rng);
        let huge = if single { 1e30 } else { 1e300 };
        let bytes = image.host.as_mut_ptr().cast::<u8>();
        for i in 0..64 {
            // SAFETY: within the image.
            unsafe {
                if single {
                    bytes.cast::<f32>().add(i).write(huge as f32);
                } else {
                    bytes.cast::<f64>().add(i).write(huge);
                }
            }
        }
        let nrm2 = Kernel {
            m: 32,
            out: OUT,
            ..Kernel::of(Nrm2, dtype, [vec(X)])
        };
        image.check("nrm2 of huge numbers", true, single, &nrm2);
    }
}
