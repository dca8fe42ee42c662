//! Several threads of one program make BLAS calls: each has blocks of its own, and all of them work on disjoint
//! elements of shared blocks (columns, row bands and single elements in turn), so that every panel of the shared blocks
//! is contended. No thread takes a lock: disjoint bytes need none. Each thread knows what its elements must be.
//!
//! As in `coherence`, each configuration runs in a process of its own. A process that does not end is a failure too.
#![expect(
    unsafe_code,
    reason = "plays an unmodified program: raw memory, raw addresses, fork"
)]
#![expect(
    clippy::print_stderr,
    clippy::exit,
    clippy::unwrap_used,
    reason = "a test program of its own"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "maps memory and starts threads as a program does"
)]

#[path = "threads/region.rs"]
mod region;

use std::time::Duration;

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::uio::{pread, pwrite};
use region::{Owner, Region, die, share, unmap_a_page};
use semcache::base::counters::COUNTERS;
use semcache::base::dtype::Dtype;
use semcache::base::{Op, Routine, Value};
use semcache::blas::{Call, Checked, Outcome, alias, args};
use semcache::host::{adopt, heap};
use semcache::runtime::{self, Facts};
use testkit::Rng;
use testkit::devices::{machines, modes};
use testkit::runner::{self, Case};

/// A matrix or vector in a region.
#[derive(Clone, Copy)]
struct View {
    region: usize,
    row: usize,
    col: usize,
    rows: usize,
    cols: usize,
}

struct Thread {
    name: usize,
    rng: Rng,
    regions: Vec<Region>,
    offloaded: usize,
    forks: bool,
    /// The state of the random generator before the last call.
    recent: Option<Rng>,
}

fn int(x: usize) -> i64 {
    i64::try_from(x).unwrap()
}

impl Thread {
    fn scalar(&mut self) -> Value {
        Value {
            re: self.rng.scalar(),
            im: 0.0,
        }
    }

    fn pick(&mut self, written: bool) -> usize {
        loop {
            let i = self.rng.below(self.regions.len());
            if !written || self.regions[i].writable() {
                return i;
            }
        }
    }

    fn matrix(&mut self, rows: usize, cols: usize, written: bool) -> Option<View> {
        let region = self.pick(written);
        let r = &self.regions[region];
        if rows > r.rows || cols > r.cols {
            return None;
        }
        let (row, col) = (
            self.rng.below(r.rows - rows + 1),
            self.rng.below(r.cols - cols + 1),
        );
        Some(View {
            region,
            row,
            col,
            rows,
            cols,
        })
    }

    /// A piece of a column or of a row of a region, forwards or backwards: the view, and the increments in
    /// real memory and in the shadow.
    fn vector(&mut self, n: usize, written: bool) -> Option<(View, i64, i64)> {
        let along = self.rng.below(2) == 0;
        let sign = if self.rng.below(4) == 0 { -1 } else { 1 };
        let v = if along {
            self.matrix(1, n, written)?
        } else {
            self.matrix(n, 1, written)?
        };
        let r = &self.regions[v.region];
        Some(if along {
            (v, int(r.ld) * sign, int(r.rows) * sign)
        } else {
            (v, sign, sign)
        })
    }

    fn bound(&self, v: View) -> f64 {
        self.regions[v.region].bound
    }

    /// A random call, the same call on the shadows, the regions written, and their new bound.
    fn make(&mut self) -> Option<(Call, Call, Vec<usize>, f64)> {
        let size = |rng: &mut Rng| [1, 2, 5, 7, 16, 33, 48][rng.below(7)];
        let op = |rng: &mut Rng| [Op::None, Op::Trans, Op::ConjTrans][rng.below(3)];
        let dtype = Dtype::D;
        match self.rng.below(9) {
            0..=2 => {
                let (m, n, k) = (
                    size(&mut self.rng),
                    size(&mut self.rng),
                    size(&mut self.rng),
                );
                let (op_a, op_b) = (op(&mut self.rng), op(&mut self.rng));
                let (ra, ca) = if op_a == Op::None { (m, k) } else { (k, m) };
                let (rb, cb) = if op_b == Op::None { (k, n) } else { (n, k) };
                let (a, b, c) = (
                    self.matrix(ra, ca, false)?,
                    self.matrix(rb, cb, false)?,
                    self.matrix(m, n, true)?,
                );
                let (alpha, beta) = (self.scalar(), self.scalar());
                let call = |twin: bool| {
                    let (pa, lda) = self.place(a, twin);
                    let (pb, ldb) = self.place(b, twin);
                    let (pc, ldc) = self.place(c, twin);
                    Call {
                        op_a,
                        op_b,
                        alpha,
                        beta,
                        ..Call::new(
                            Routine::Gemm,
                            dtype,
                            &[int(m), int(n), int(k)],
                            &[(pa, lda), (pb, ldb), (pc, ldc)],
                        )
                    }
                };
                let bound = 2.0 * k as f64 * self.bound(a) * self.bound(b) + 2.0 * self.bound(c);
                Some((call(false), call(true), vec![c.region], bound))
            }
            3 | 4 => {
                let (m, n) = (size(&mut self.rng), size(&mut self.rng));
                let op = op(&mut self.rng);
                let (nx, ny) = if op == Op::None { (n, m) } else { (m, n) };
                let (a, x, y) = (
                    self.matrix(m, n, false)?,
                    self.vector(nx, false)?,
                    self.vector(ny, true)?,
                );
                let (alpha, beta) = (self.scalar(), self.scalar());
                let call = |twin: bool| {
                    let (pa, lda) = self.place(a, twin);
                    let (px, incx) = self.step(x, twin);
                    let (py, incy) = self.step(y, twin);
                    Call {
                        op_a: op,
                        alpha,
                        beta,
                        ..Call::new(
                            Routine::Gemv,
                            dtype,
                            &[int(m), int(n)],
                            &[(pa, lda), (px, incx), (py, incy)],
                        )
                    }
                };
                let bound =
                    2.0 * m.max(n) as f64 * self.bound(a) * self.bound(x.0) + 2.0 * self.bound(y.0);
                Some((call(false), call(true), vec![y.0.region], bound))
            }
            5 => {
                let (m, n) = (size(&mut self.rng), size(&mut self.rng));
                let (a, x, y) = (
                    self.matrix(m, n, true)?,
                    self.vector(m, false)?,
                    self.vector(n, false)?,
                );
                let alpha = self.scalar();
                let call = |twin: bool| {
                    let (pa, lda) = self.place(a, twin);
                    let (px, incx) = self.step(x, twin);
                    let (py, incy) = self.step(y, twin);
                    Call {
                        alpha,
                        ..Call::new(
                            Routine::Ger,
                            dtype,
                            &[int(m), int(n)],
                            &[(px, incx), (py, incy), (pa, lda)],
                        )
                    }
                };
                let bound = 2.0 * self.bound(x.0) * self.bound(y.0) + self.bound(a);
                Some((call(false), call(true), vec![a.region], bound))
            }
            6 => {
                let n = size(&mut self.rng);
                let routine = [Routine::Scal, Routine::Asum, Routine::Iamax][self.rng.below(3)];
                let x = self.vector(n, routine == Routine::Scal)?;
                let alpha = self.scalar();
                let call = |twin: bool| {
                    let (px, incx) = self.step(x, twin);
                    Call {
                        alpha,
                        ..Call::new(routine, dtype, &[int(n)], &[(px, incx.abs())])
                    }
                };
                let outputs = if routine == Routine::Scal {
                    vec![x.0.region]
                } else {
                    vec![]
                };
                Some((call(false), call(true), outputs, 2.0 * self.bound(x.0)))
            }
            _ => {
                let n = size(&mut self.rng);
                let routine =
                    [Routine::Axpy, Routine::Copy, Routine::Swap, Routine::Dot][self.rng.below(4)];
                let x = self.vector(n, routine == Routine::Swap)?;
                let y = self.vector(n, routine != Routine::Dot)?;
                let alpha = self.scalar();
                let call = |twin: bool| {
                    let (px, incx) = self.step(x, twin);
                    let (py, incy) = self.step(y, twin);
                    Call {
                        alpha,
                        ..Call::new(routine, dtype, &[int(n)], &[(px, incx), (py, incy)])
                    }
                };
                let outputs = match routine {
                    Routine::Swap => vec![x.0.region, y.0.region],
                    Routine::Dot => vec![],
                    _ => vec![y.0.region],
                };
                Some((
                    call(false),
                    call(true),
                    outputs,
                    2.0 * self.bound(x.0) + self.bound(y.0),
                ))
            }
        }
    }

    fn place(&self, v: View, twin: bool) -> (usize, i64) {
        let r = &self.regions[v.region];
        debug_assert!(v.row + v.rows <= r.rows && v.col + v.cols <= r.cols);
        if twin {
            (r.twin(v.row, v.col), int(r.rows))
        } else {
            (r.at(v.row, v.col), int(r.ld))
        }
    }

    fn step(&self, (v, real, shadow): (View, i64, i64), twin: bool) -> (usize, i64) {
        (self.place(v, twin).0, if twin { shadow } else { real })
    }

    fn call(&mut self, step: usize) {
        // Programs repeat calls: two calls of three repeat the one before.
        let again = self.rng.below(3) > 0;
        let made = match self.recent.clone().filter(|_| again) {
            Some(state) => {
                let now = std::mem::replace(&mut self.rng, state);
                let made = self.make();
                self.rng = now;
                made
            }
            None => (0..8).find_map(|_| {
                self.recent = Some(self.rng.clone());
                self.make()
            }),
        };
        let Some((call, twin, outputs, bound)) = made else {
            return;
        };
        if bound > 1e14 {
            // Values that grew too large would no longer be exact integers.
            for i in 0..self.regions.len() {
                if self.regions[i].writable() && self.regions[i].bound > 100.0 {
                    self.regions[i].rewrite(&mut self.rng);
                }
            }
            return;
        }
        // Overlapping operands have no defined result.
        match args::check(&call) {
            Checked::Run(p, places) if !alias::conflicts(&p, &places) => {}
            _ => return,
        }
        let want = host(&twin);
        let got = match runtime::call(&call, &Facts::default()) {
            Outcome::Host => host(&call),
            done => {
                self.offloaded += 1;
                done
            }
        };
        if got != want {
            die(&format!(
                "thread {} step {step}: {got:?}, not {want:?}: {call:?}",
                self.name
            ));
        }
        for o in outputs {
            self.regions[o].bound = self.regions[o].bound.max(bound);
            if self.rng.below(4) == 0 {
                self.regions[o].check(
                    0..self.regions[o].cols,
                    &format!("thread {} step {step}, after {call:?}", self.name),
                );
            }
        }
    }

    /// One step of the program.
    fn act(&mut self, step: usize) {
        let i = self.rng.below(self.regions.len());
        let what = format!("thread {} step {step}", self.name);
        let cols = self.regions[i].cols;
        let from = self.rng.below(cols);
        let to = from + 1 + self.rng.below((cols - from).min(20));
        match self.rng.below(40) {
            0..=21 => self.call(step),
            22..=27 => self.regions[i].check(from..to, &what),
            28..=31 if self.regions[i].writable() => {
                let (rows, some) = (self.regions[i].rows, 1 + self.rng.below(3));
                for col in from..to {
                    for row in (0..rows).step_by(some) {
                        let v = self.rng.element();
                        self.regions[i].put(row, col, v);
                    }
                }
            }
            32 | 33 if self.regions[i].owner == Owner::Block => {
                // SAFETY: from `heap::malloc`, not used again.
                unsafe { heap::free(self.regions[i].base as *mut _) };
                self.regions[i] = Region::block(&mut self.rng);
            }
            34 | 35 if self.regions[i].owner == Owner::Block => {
                let r = &mut self.regions[i];
                let cols = 1 + self.rng.below(80);
                // SAFETY: from `heap::malloc`; the old address is not used again.
                r.base =
                    unsafe { heap::realloc(r.base as *mut _, (r.ld * cols * 8).max(4096)) }.addr();
                let old = r.cols;
                r.cols = cols;
                r.shadow.resize(r.rows * cols, 0.0);
                for col in old..cols {
                    for row in 0..r.rows {
                        let v = self.rng.element();
                        r.put(row, col, v);
                    }
                }
            }
            36 => self.system_calls(i, from),
            37 if self.rng.below(3) == 0 => unmap_a_page(),
            38 if self.forks && self.rng.below(4) == 0 => self.fork(&what),
            _ => self.regions[i].check(0..cols, &what),
        }
    }

    /// A system call reads a column, and writes it.
    fn system_calls(&mut self, i: usize, col: usize) {
        let r = &mut self.regions[i];
        let (addr, len) = (r.at(0, col), r.rows * 8);
        let file = memfd_create("column", MFdFlags::MFD_CLOEXEC).unwrap();
        {
            let _open = runtime::io::open_for_io(addr, len, false);
            // SAFETY: this thread's elements.
            let bytes = unsafe { std::slice::from_raw_parts(addr as *const u8, len) };
            assert_eq!(
                nix::unistd::write(&file, bytes),
                Ok(len),
                "a write from a column"
            );
        }
        let mut copy = vec![0_u8; len];
        assert_eq!(pread(&file, copy.as_mut_slice(), 0), Ok(len));
        for (row, v) in copy.chunks_exact(8).enumerate() {
            let v = f64::from_ne_bytes(v.try_into().unwrap());
            let want = r.shadow[col * r.rows + row];
            #[expect(clippy::float_cmp, reason = "small integers")]
            if v != want {
                die(&format!(
                    "thread {}: the kernel read {v}, not {want}",
                    self.name
                ));
            }
        }
        if !r.writable() {
            return;
        }
        for row in 0..r.rows {
            let v = self.rng.element();
            r.shadow[col * r.rows + row] = v;
            copy[row * 8..row * 8 + 8].copy_from_slice(&v.to_ne_bytes());
        }
        assert_eq!(pwrite(&file, &copy, 0), Ok(len));
        let _open = runtime::io::open_for_io(addr, len, true);
        // SAFETY: this thread's elements.
        let bytes = unsafe { std::slice::from_raw_parts_mut(addr as *mut u8, len) };
        assert_eq!(pread(&file, bytes, 0), Ok(len), "a read into a column");
    }

    /// A child of this process sees what this thread wrote.
    fn fork(&mut self, what: &str) {
        // SAFETY: the child only reads memory and leaves by `_exit`.
        let child = unsafe {
            testkit::forked(|| {
                for r in &mut self.regions {
                    if let Some(wrong) = r.wrong(0..r.cols) {
                        die(&format!("{what}, in a forked child: {wrong}"));
                    }
                    if r.writable() {
                        r.put(0, 0, 5.0);
                    }
                }
            })
        };
        let status = child.wait();
        if !status.success() {
            die(&format!("{what}: forked child: {status}"));
        }
    }
}

/// The host BLAS of this test: the same arithmetic on the program's addresses.
fn host(call: &Call) -> Outcome {
    semcache::blas::local::compute(None, call)
}

fn child(seed: u64, steps: usize, threads: usize) {
    heap::configure(4096);
    adopt::configure(4096);
    let mut rng = Rng::new(seed);
    let shared: Vec<Vec<Region>> = (0..4).map(|kind| share(&mut rng, kind, threads)).collect();
    let forks = std::env::var_os("THREADS_FORK").is_some();
    // The first call makes the shared blocks known to the cache: memory that no device has used yet may be made
    // inaccessible for the first time while the kernel fills it, which no test can expect to work.
    for block in &shared {
        let x = block[threads].base;
        let call = Call::new(Routine::Asum, Dtype::D, &[1], &[(x, 1)]);
        let _ = runtime::call(&call, &Facts::default());
    }
    let mut all: Vec<Thread> = (0..threads)
        .map(|name| {
            let mut rng = Rng::new(seed * 100 + name as u64 + 1);
            let mut regions: Vec<Region> = shared
                .iter()
                .flat_map(|s| [s[name].clone(), s[threads].clone()])
                .collect();
            regions.extend((0..3).map(|_| Region::block(&mut rng)));
            Thread {
                name,
                rng,
                regions,
                offloaded: 0,
                forks,
                recent: None,
            }
        })
        .collect();
    std::thread::scope(|scope| {
        for t in &mut all {
            scope.spawn(move || {
                let mut vec = vec![0.0_f64; 30 * 25];
                let mut own = Region::new(Owner::Transient, vec.as_mut_ptr().addr(), 20, 25, 30);
                own.rewrite(&mut t.rng);
                t.regions.push(own);
                for step in 0..steps {
                    t.act(step);
                }
                t.regions
                    .iter()
                    .for_each(|r| r.check(0..r.cols, &format!("thread {}, at its end", t.name)));
                t.regions.pop();
            });
        }
    });
    for t in &all {
        t.regions
            .iter()
            .for_each(|r| r.check(0..r.cols, &format!("thread {}, at the end", t.name)));
    }
    let c = &COUNTERS;
    let offloaded: usize = all.iter().map(|t| t.offloaded).sum();
    eprintln!(
        "offloaded {offloaded} closes {} faults {} false sharing {} evictions {} fallbacks {} replayed {}",
        c.cache.closes.get(),
        c.faults.read.get() + c.faults.write.get(),
        c.faults.false_sharing.get(),
        c.cache.evictions.get(),
        c.fallbacks.get(),
        c.cache.replayed.get()
    );
    if offloaded == 0 {
        std::process::exit(3);
    }
}

fn configurations() -> Vec<Case> {
    let number = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |number| number.parse().unwrap())
    };
    let (seeds, steps, first) = (
        number("COHERENCE_SEEDS", 3),
        number("THREADS_STEPS", 400),
        number("THREADS_FIRST", 1),
    );
    let machines = machines(&[(1, "64MiB"), (2, "64MiB"), (3, "256KiB"), (1, "160KiB")]);
    let mut cases = Vec::new();
    for seed in first..first + seeds {
        let threads = 4 + seed as usize % 5;
        for (devices, memory) in &machines {
            for &mode in modes(&["", "late", "late,poison", "poison,seed"]) {
                let mode = mode.replace("seed", &format!("seed={seed}"));
                for (panel, gate) in [("4KiB", "auto"), ("16KiB", "mixed"), ("4KiB", "eager")] {
                    let name = format!(
                        "seed {seed} {devices} memory {memory} mode '{mode}' panel {panel} gate {gate} threads {threads}"
                    );
                    let case = Case::new(name, move || child(seed, steps as usize, threads))
                        .within(Duration::from_secs(120))
                        .set("SEMCACHE_DEVICES", devices)
                        .set("SEMCACHE_MEMORY", *memory)
                        .set("SEMCACHE_SIM", &mode)
                        .set("SEMCACHE_PANEL", panel)
                        .set("SEMCACHE_GATE", gate)
                        .set("SEMCACHE_TILE", ["16", "64", "auto"][seed as usize % 3])
                        .set("SEMCACHE_OFFLOAD", "always");
                    cases.push(match seed % 2 {
                        1 => case.set("THREADS_FORK", "1"),
                        _ => case,
                    });
                }
            }
        }
    }
    cases
}

fn main() {
    runner::main(configurations(), |ended| {
        let totals = runner::totals(ended.iter().map(|e| &e.1));
        eprintln!(
            "offloaded, closes, faults, false sharing, evictions, fallbacks, replayed: {totals:?}"
        );
        assert!(
            totals[..5].iter().all(|&n| n > 0) && totals[6] > 0,
            "a run without sharing or evictions proves nothing"
        );
    });
}
