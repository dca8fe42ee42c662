//! Sweep of every routine of levels 2 and 3, rotations and sums of vectors, under all flags, four types, sizes around a
//! tile, one to three devices: against the same call as one kernel on the host. Data are whole numbers (and powers of
//! two where a triangular matrix is inverted), so results are exact; whole blocks are compared, including the padding
//! between columns, the triangle that is not stored and the bytes before and after an operand.
//!
//! One process per configuration. `SWEEP=full` takes all sizes instead of a sample.
#![expect(
    unsafe_code,
    reason = "plays an unmodified program: raw memory, raw addresses"
)]
#![expect(
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test program of its own"
)]
#![allow(clippy::disallowed_methods, reason = "reads its own variables")]

#[path = "sweep/half.rs"]
mod half;
#[path = "sweep/matrices.rs"]
mod matrices;
#[path = "sweep/operand.rs"]
mod operand;

use operand::{Kind, Operand};
use semcache::base::counters::COUNTERS;
use semcache::base::{Diag, Dtype, Form, Op, Routine, Side, Uplo, Value};
use semcache::blas::batch::{Batch, Batched};
use semcache::blas::{Call, Outcome, local};
use semcache::host::{adopt, heap};
use semcache::runtime::{self, Facts};
use testkit::runner::{self, Case};
use testkit::{Rng, devices};

const TILE: usize = 16;

const SIDES: [Side; 2] = [Side::Left, Side::Right];
const UPLOS: [Uplo; 2] = [Uplo::Lower, Uplo::Upper];
const OPS: [Op; 3] = [Op::None, Op::Trans, Op::ConjTrans];
const DIAGS: [Diag; 2] = [Diag::NonUnit, Diag::Unit];

/// Builds a call from the addresses of its operands.
type Make = Box<dyn Fn(&[usize]) -> Call>;

/// The sweep of one configuration.
struct Sweep {
    rng: Rng,
    calls: u64,
    host: u64,
    full: bool,
    names: std::collections::BTreeMap<(Routine, u8), u64>,
}

impl Sweep {
    /// Makes a call and compares; `make` builds the call from the operands' addresses.
    fn case(
        &mut self,
        routine: Routine,
        dtype: Dtype,
        operands: &mut [Operand],
        what: &str,
        make: &dyn Fn(&[usize]) -> Call,
    ) {
        let ours: Vec<usize> = operands.iter().map(|o| o.at + o.offset).collect();
        let theirs: Vec<usize> = operands.iter().map(Operand::shadow_at).collect();
        // Twice: the replicas that the first call leaves on devices are the second call's input.
        for _ in 0..2 {
            self.calls += 1;
            let got = match runtime::call(&make(&ours), &Facts::default()) {
                Outcome::Host => {
                    self.host += 1;
                    local::compute(None, &make(&ours))
                }
                done => {
                    *self.names.entry((routine, dtype as u8)).or_default() += 1;
                    done
                }
            };
            assert_eq!(got, local::compute(None, &make(&theirs)), "{what}");
        }
        for (i, o) in operands.iter().enumerate() {
            o.check(dtype, &format!("{what}, operand {i}"));
        }
    }

    fn scalars(&mut self) -> (Value, Value) {
        let two = Value { re: 2.0, im: -1.0 };
        match self.rng.below(4) {
            0 => (Value::ONE, Value::ZERO),
            1 => (two, Value::ONE),
            2 => (Value { re: -1.0, im: 0.0 }, two),
            _ => (two, Value::ZERO),
        }
    }

    fn gap(&mut self) -> usize {
        self.rng.below(3)
    }

    /// Rows, columns, depth.
    fn sizes(&mut self) -> Vec<(usize, usize, usize)> {
        const ALL: [(usize, usize, usize); 9] = [
            (1, 1, 1),
            (TILE - 1, TILE, TILE + 1),
            (TILE, TILE + 1, TILE - 1),
            (TILE, TILE, TILE),
            (2 * TILE + 1, 3 * TILE, TILE),
            (37, 53, 29),
            (3, 70, 20),
            (70, 3, 20),
            (5, 6, 90),
        ];
        if self.full {
            return ALL.to_vec();
        }
        let first = self.rng.below(4);
        vec![ALL[first], ALL[4 + self.rng.below(5)]]
    }

    fn all(&mut self) {
        for dtype in Dtype::ALL {
            for op_a in OPS {
                for op_b in OPS {
                    self.gemm(dtype, op_a, op_b);
                    for uplo in UPLOS {
                        self.gemmt(dtype, uplo, op_a, op_b);
                    }
                }
                self.gemv(dtype, op_a);
            }
            self.half(dtype);
            self.matrices(dtype);
            self.batch(dtype);
            self.ger(dtype, Routine::Ger);
            if dtype.is_complex() {
                self.ger(dtype, Routine::Gerc);
            }
            for uplo in UPLOS {
                for hermitian in [false, true] {
                    if hermitian && !dtype.is_complex() {
                        continue;
                    }
                    for side in SIDES {
                        self.symm(dtype, hermitian, side, uplo);
                    }
                    let turned = if hermitian { Op::ConjTrans } else { Op::Trans };
                    for op in [Op::None, turned] {
                        self.syrk(dtype, hermitian, uplo, op);
                        self.syr2k(dtype, hermitian, uplo, op);
                    }
                }
                for side in SIDES {
                    for op in OPS {
                        for diag in DIAGS {
                            let form = Form { side, uplo, diag };
                            self.triangular(Routine::Trmm, dtype, form, op);
                            self.triangular(Routine::Trsm, dtype, form, op);
                        }
                    }
                }
            }
        }
    }

    fn gemm(&mut self, dtype: Dtype, op_a: Op, op_b: Op) {
        for (m, n, k) in self.sizes() {
            let (alpha, beta) = self.scalars();
            let stored = |op, r, c| if op == Op::None { (r, c) } else { (c, r) };
            let ((ra, ca), (rb, cb)) = (stored(op_a, m, k), stored(op_b, k, n));
            let (la, lb, lc) = (ra + self.gap(), rb + self.gap(), m + self.gap());
            let r = &mut self.rng;
            let mut operands = [
                Operand::new(r, dtype, ra, ca, la, Kind::General),
                Operand::new(r, dtype, rb, cb, lb, Kind::General),
                Operand::new(r, dtype, m, n, lc, Kind::Result),
            ];
            let what = format!("{dtype:?} gemm {op_a:?} {op_b:?} {m} {n} {k} {alpha:?} {beta:?}");
            self.case(Routine::Gemm, dtype, &mut operands, &what, &|at| Call {
                op_a,
                op_b,
                alpha,
                beta,
                ..Call::new(
                    Routine::Gemm,
                    dtype,
                    &[int(m), int(n), int(k)],
                    &[(at[0], int(la)), (at[1], int(lb)), (at[2], int(lc))],
                )
            });
        }
    }

    /// Products of all transpositions and sizes in one batch, two of them with the same input.
    fn batch(&mut self, dtype: Dtype) {
        let mut operands = Vec::new();
        let mut make: Vec<Make> = Vec::new();
        for (i, op_a) in OPS.into_iter().enumerate() {
            for op_b in OPS {
                for (m, n, k) in self.sizes() {
                    let (alpha, beta) = self.scalars();
                    let stored = |op, r, c| if op == Op::None { (r, c) } else { (c, r) };
                    let ((ra, ca), (rb, cb)) = (stored(op_a, m, k), stored(op_b, k, n));
                    let (la, lb, lc) = (ra + self.gap(), rb + self.gap(), m + self.gap());
                    let r = &mut self.rng;
                    let first = operands.len();
                    operands.push(Operand::new(r, dtype, ra, ca, la, Kind::General));
                    operands.push(Operand::new(r, dtype, rb, cb, lb, Kind::General));
                    operands.push(Operand::new(r, dtype, m, n, lc, Kind::Result));
                    operands.push(Operand::new(r, dtype, m, n, lc, Kind::Result));
                    for result in [2, 3].into_iter().take(1 + i) {
                        make.push(Box::new(move |at: &[usize]| Call {
                            op_a,
                            op_b,
                            alpha,
                            beta,
                            ..Call::new(
                                Routine::Gemm,
                                dtype,
                                &[int(m), int(n), int(k)],
                                &[
                                    (at[first], int(la)),
                                    (at[first + 1], int(lb)),
                                    (at[first + result], int(lc)),
                                ],
                            )
                        }));
                    }
                }
            }
        }
        let batch = |at: &[usize]| {
            let mut batch = Batch::with_room(dtype, make.len()).unwrap();
            batch.calls.extend(make.iter().map(|call| call(at)));
            batch
        };
        let ours: Vec<usize> = operands.iter().map(|o| o.at + o.offset).collect();
        let theirs: Vec<usize> = operands.iter().map(Operand::shadow_at).collect();
        for _ in 0..2 {
            self.calls += 1;
            let mut doubtful = batch(&ours);
            doubtful.doubtful = true;
            assert_eq!(runtime::batch(&doubtful, &Facts::default()), Batched::Host);
            let from = match runtime::batch(&batch(&ours), &Facts::default()) {
                Batched::Host => Some(0),
                Batched::From(first) => Some(first),
                Batched::Done => None,
            };
            match from {
                Some(first) => {
                    self.host += 1;
                    assert!(runtime::batch_here(&batch(&ours), first));
                }
                None => {
                    *self
                        .names
                        .entry((Routine::GemmBatch, dtype as u8))
                        .or_default() += 1
                }
            }
            assert!(runtime::batch_here(&batch(&theirs), 0));
        }
        for (i, o) in operands.iter().enumerate() {
            o.check(dtype, &format!("{dtype:?} batch, operand {i}"));
        }
    }

    fn gemmt(&mut self, dtype: Dtype, uplo: Uplo, op_a: Op, op_b: Op) {
        for (_, n, k) in self.sizes() {
            let (alpha, beta) = self.scalars();
            let stored = |op, r, c| if op == Op::None { (r, c) } else { (c, r) };
            let ((ra, ca), (rb, cb)) = (stored(op_a, n, k), stored(op_b, k, n));
            let (la, lb, lc) = (ra + self.gap(), rb + self.gap(), n + self.gap());
            let r = &mut self.rng;
            let mut operands = [
                Operand::new(r, dtype, ra, ca, la, Kind::General),
                Operand::new(r, dtype, rb, cb, lb, Kind::General),
                Operand::new(r, dtype, n, n, lc, Kind::Symmetric(uplo, false)),
            ];
            let what =
                format!("{dtype:?} gemmt {uplo:?} {op_a:?} {op_b:?} {n} {k} {alpha:?} {beta:?}");
            self.case(Routine::Gemmt, dtype, &mut operands, &what, &|at| Call {
                form: Form {
                    uplo,
                    ..Form::default()
                },
                op_a,
                op_b,
                alpha,
                beta,
                ..Call::new(
                    Routine::Gemmt,
                    dtype,
                    &[int(n), int(k)],
                    &[(at[0], int(la)), (at[1], int(lb)), (at[2], int(lc))],
                )
            });
        }
    }

    fn gemv(&mut self, dtype: Dtype, op: Op) {
        for (m, n, _) in self.sizes() {
            let (alpha, beta) = self.scalars();
            let la = m + self.gap();
            let (incx, incy) = (self.gap() + 1, self.gap() + 1);
            let (lx, ly) = if op == Op::None { (n, m) } else { (m, n) };
            let r = &mut self.rng;
            let mut operands = [
                Operand::new(r, dtype, m, n, la, Kind::General),
                Operand::new(r, dtype, 1, lx, incx, Kind::General),
                Operand::new(r, dtype, 1, ly, incy, Kind::Result),
            ];
            let back = r.below(2) == 0;
            let what = format!("{dtype:?} gemv {op:?} {m} {n} {incx} {incy} {back}");
            self.case(Routine::Gemv, dtype, &mut operands, &what, &|at| Call {
                op_a: op,
                alpha,
                beta,
                ..Call::new(
                    Routine::Gemv,
                    dtype,
                    &[int(m), int(n)],
                    &[
                        (at[0], int(la)),
                        (at[1], if back { -int(incx) } else { int(incx) }),
                        (at[2], int(incy)),
                    ],
                )
            });
        }
    }

    fn ger(&mut self, dtype: Dtype, routine: Routine) {
        for (m, n, _) in self.sizes() {
            let (alpha, _) = self.scalars();
            let la = m + self.gap();
            let (incx, incy) = (self.gap() + 1, self.gap() + 1);
            let r = &mut self.rng;
            let mut operands = [
                Operand::new(r, dtype, 1, m, incx, Kind::General),
                Operand::new(r, dtype, 1, n, incy, Kind::General),
                Operand::new(r, dtype, m, n, la, Kind::Result),
            ];
            let what = format!("{dtype:?} {routine:?} {m} {n} {incx} {incy}");
            self.case(routine, dtype, &mut operands, &what, &|at| Call {
                alpha,
                ..Call::new(
                    routine,
                    dtype,
                    &[int(m), int(n)],
                    &[(at[0], int(incx)), (at[1], -int(incy)), (at[2], int(la))],
                )
            });
        }
    }

    fn symm(&mut self, dtype: Dtype, hermitian: bool, side: Side, uplo: Uplo) {
        for (m, n, _) in self.sizes() {
            let (alpha, beta) = self.scalars();
            let order = if side == Side::Left { m } else { n };
            let (la, lb, lc) = (order + self.gap(), m + self.gap(), m + self.gap());
            let r = &mut self.rng;
            let mut operands = [
                Operand::new(r, dtype, order, order, la, Kind::Symmetric(uplo, hermitian)),
                Operand::new(r, dtype, m, n, lb, Kind::General),
                Operand::new(r, dtype, m, n, lc, Kind::Result),
            ];
            let routine = if hermitian {
                Routine::Hemm
            } else {
                Routine::Symm
            };
            let form = Form {
                side,
                uplo,
                diag: Diag::NonUnit,
            };
            let what =
                format!("{dtype:?} {routine:?} {side:?} {uplo:?} {m} {n} {alpha:?} {beta:?}");
            self.case(routine, dtype, &mut operands, &what, &|at| Call {
                form,
                alpha,
                beta,
                ..Call::new(
                    routine,
                    dtype,
                    &[int(m), int(n)],
                    &[(at[0], int(la)), (at[1], int(lb)), (at[2], int(lc))],
                )
            });
        }
    }

    fn syrk(&mut self, dtype: Dtype, hermitian: bool, uplo: Uplo, op: Op) {
        for (_, n, k) in self.sizes() {
            let (mut alpha, mut beta) = self.scalars();
            if hermitian {
                (alpha.im, beta.im) = (0.0, 0.0);
            }
            let (rows, cols) = if op == Op::None { (n, k) } else { (k, n) };
            let (la, lc) = (rows + self.gap(), n + self.gap());
            let r = &mut self.rng;
            let mut operands = [
                Operand::new(r, dtype, rows, cols, la, Kind::General),
                Operand::new(r, dtype, n, n, lc, Kind::Result),
            ];
            let routine = if hermitian {
                Routine::Herk
            } else {
                Routine::Syrk
            };
            let what = format!("{dtype:?} {routine:?} {uplo:?} {op:?} {n} {k} {alpha:?} {beta:?}");
            self.case(routine, dtype, &mut operands, &what, &|at| Call {
                form: Form {
                    uplo,
                    ..Form::default()
                },
                op_a: op,
                alpha,
                beta,
                ..Call::new(
                    routine,
                    dtype,
                    &[int(n), int(k)],
                    &[(at[0], int(la)), (at[1], int(lc))],
                )
            });
        }
    }

    fn syr2k(&mut self, dtype: Dtype, hermitian: bool, uplo: Uplo, op: Op) {
        for (_, n, k) in self.sizes() {
            let (alpha, mut beta) = self.scalars();
            if hermitian {
                beta.im = 0.0;
            }
            let (rows, cols) = if op == Op::None { (n, k) } else { (k, n) };
            let (la, lb, lc) = (rows + self.gap(), rows + self.gap(), n + self.gap());
            let r = &mut self.rng;
            let mut operands = [
                Operand::new(r, dtype, rows, cols, la, Kind::General),
                Operand::new(r, dtype, rows, cols, lb, Kind::General),
                Operand::new(r, dtype, n, n, lc, Kind::Result),
            ];
            let routine = if hermitian {
                Routine::Her2k
            } else {
                Routine::Syr2k
            };
            let what = format!("{dtype:?} {routine:?} {uplo:?} {op:?} {n} {k} {alpha:?} {beta:?}");
            self.case(routine, dtype, &mut operands, &what, &|at| Call {
                form: Form {
                    uplo,
                    ..Form::default()
                },
                op_a: op,
                alpha,
                beta,
                ..Call::new(
                    routine,
                    dtype,
                    &[int(n), int(k)],
                    &[(at[0], int(la)), (at[1], int(lb)), (at[2], int(lc))],
                )
            });
        }
    }

    fn triangular(&mut self, routine: Routine, dtype: Dtype, form: Form, op: Op) {
        for (m, n, _) in self.sizes() {
            let (alpha, _) = self.scalars();
            let order = if form.side == Side::Left { m } else { n };
            let (la, lb) = (order + self.gap(), m + self.gap());
            let r = &mut self.rng;
            let mut operands = [
                Operand::new(
                    r,
                    dtype,
                    order,
                    order,
                    la,
                    Kind::Triangular(form.uplo, form.diag),
                ),
                Operand::new(r, dtype, m, n, lb, Kind::Result),
            ];
            let what = format!("{dtype:?} {routine:?} {form:?} {op:?} {m} {n} {alpha:?}");
            self.case(routine, dtype, &mut operands, &what, &|at| Call {
                form,
                op_a: op,
                alpha,
                ..Call::new(
                    routine,
                    dtype,
                    &[int(m), int(n)],
                    &[(at[0], int(la)), (at[1], int(lb))],
                )
            });
        }
    }
}

fn int(n: usize) -> i64 {
    i64::try_from(n).unwrap()
}

/// `divided`: the host computes a part of each call whose columns can be divided.
fn child(seed: u64, divided: bool) {
    heap::configure(4096);
    adopt::configure(4096);
    let mut sweep = Sweep {
        rng: Rng::new(seed),
        calls: 0,
        host: 0,
        full: std::env::var("SWEEP").is_ok_and(|s| s == "full"),
        names: std::collections::BTreeMap::new(),
    };
    sweep.all();
    let routines: std::collections::BTreeSet<_> = sweep.names.keys().map(|k| k.0).collect();
    println!(
        "{} calls, {} of them on the host; {} routines, {} with their types; {} closes, {} faults, {} evictions",
        sweep.calls,
        sweep.host,
        routines.len(),
        sweep.names.len(),
        COUNTERS.cache.closes.get(),
        COUNTERS.faults.read.get(),
        COUNTERS.cache.evictions.get()
    );
    // Some are for complex types only, rotm for real ones.
    assert_eq!(
        (routines.len(), sweep.names.len()),
        (28, 96),
        "{:?}",
        sweep.names
    );
    assert!(COUNTERS.cache.closes.get() > 0 && COUNTERS.faults.read.get() > 0);
    let parts = COUNTERS.host_parts.get();
    assert!(if divided { parts > 500 } else { parts == 0 }, "{parts}");
}

fn main() {
    let real = devices::named();
    // Devices, mode, memory, and the part of the host.
    type Configuration<'a> = (&'a str, &'a str, &'a str, &'a str);
    let configurations: &[Configuration<'_>] = if devices::real() {
        &[
            (&real, "", "512MiB", "auto"),
            (&real, "", "64KiB", "auto"),
            (&real, "", "512MiB", "30%"),
        ]
    } else {
        &[
            ("sim:1", "late", "64MiB", "auto"),
            ("sim:2", "late,poison,seed=2", "64MiB", "auto"),
            ("sim:3", "poison,seed=3", "64MiB", "auto"),
            ("sim:2", "late,poison,seed=4", "48KiB", "auto"),
            ("sim:2", "late,poison,seed=5", "64MiB", "30%"),
            ("sim:1", "late,poison,seed=6", "48KiB", "60%"),
        ]
    };
    let cases = (1..).zip(configurations);
    let case = |(seed, &(devices, mode, memory, share)): (u64, &Configuration<'_>)| {
        let name = format!("{devices} '{mode}' {memory} {share}");
        let divided = share != "auto";
        Case::new(name, move || child(seed, divided))
            .set("SEMCACHE_DEVICES", devices)
            .set("SEMCACHE_SIM", mode)
            .set("SEMCACHE_MEMORY", memory)
            .set("SEMCACHE_HOST_SHARE", share)
            .set("SEMCACHE_PANEL", "4KiB")
            .set("SEMCACHE_OFFLOAD", "always")
            .set("SEMCACHE_TILE", TILE.to_string())
    };
    runner::main(cases.map(case).collect(), |_| ());
}
