//! Benchmark of the directory (the coherence protocol's sets of stale and valid bytes): processor time per task,
//! without devices.
//!
//! `cargo bench -p semcache --bench directory [TASKS]` prints, per pattern of views, the mean and the worst time of a
//! task in microseconds (the mean of the worst hundred tasks in a row, and the worst single task), and the largest
//! number of rectangles that the sets of the block held. A task is the directory's part of a BLAS call: its operands'
//! events, and the CPU's reads and writes that follow before the next call.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measuring program of its own"
)]

use std::hint::black_box;
use std::time::Duration;

use nix::time::ClockId;
use semcache::base::{DeviceId, Interval, Rect, ReplicaId};
use semcache::directory::{Action, Allocation, Event, separable};

const PAGE: usize = 4096;
const PANEL: usize = 2 << 20;
const MIB: usize = 1 << 20;

/// Processor time of this thread: on a busy machine wall-clock time would include other processes.
fn cpu_time() -> Duration {
    ClockId::CLOCK_THREAD_CPUTIME_ID.now().unwrap().into()
}

/// A fixed sequence of pseudo-random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % n.max(1)
    }

    fn within(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }
}

/// A block of host memory, the replicas of its views, and the times of its tasks.
struct Bench {
    dir: Allocation,
    next: u64,
    /// Replicas in the order of their last use; if there are `most` of them, the first is evicted before a new one is
    /// made.
    replicas: Vec<ReplicaId>,
    most: usize,
    actions: Vec<Action>,
    copies: usize,
    fragments: usize,
    /// The number of kernels with operands whose elements are interleaved in memory; as in the cache, such calls run on
    /// the host BLAS.
    refused: usize,
    /// Processor time at the beginning of the task.
    began: Duration,
    times: Vec<Duration>,
}

impl Bench {
    /// A block with one replica, which mirrors all of it.
    fn mirrored(extent: usize) -> Self {
        let mut bench = Self::with_replicas(extent, 1);
        bench.add(Rect::interval(0, extent));
        bench
    }

    /// A block in which each new view gets a replica of its own; beyond `most` of them the least recently used one is evicted.
    fn with_replicas(extent: usize, most: usize) -> Self {
        Self {
            dir: Allocation::new(extent, PANEL, PAGE, Interval::new(0, extent)),
            next: 0,
            replicas: Vec::new(),
            most,
            actions: Vec::new(),
            copies: 0,
            fragments: 0,
            refused: 0,
            began: cpu_time(),
            times: Vec::new(),
        }
    }

    fn add(&mut self, rect: Rect) -> ReplicaId {
        if self.replicas.len() == self.most {
            let replica = self.replicas.remove(0);
            self.step(&Event::Evict { replica });
        }
        self.next += 1;
        let id = ReplicaId(self.next);
        self.dir.add_replica(id, DeviceId(0), rect);
        self.replicas.push(id);
        id
    }

    /// The replica that holds a view; if none does, a new one is made.
    fn place(&mut self, rect: &Rect) -> ReplicaId {
        let covers = |id: &ReplicaId| self.dir.replica(*id).is_some_and(|r| r.rect.contains(rect));
        if let Some(at) = self.replicas.iter().position(covers) {
            let id = self.replicas.remove(at);
            self.replicas.push(id);
            return id;
        }
        self.add(*rect)
    }

    fn step(&mut self, event: &Event) {
        self.actions.clear();
        if !self.dir.ready(event) {
            let undo = self.dir.step(event, &mut self.actions).unwrap();
            black_box(&undo);
        }
        let copies = |a: &&Action| matches!(a, Action::Copy { .. });
        self.copies += self.actions.iter().filter(copies).count();
    }

    /// The events of a kernel that reads some views and writes one; the caller ends the task.
    fn kernel(&mut self, reads: &[Rect], write: &Rect) {
        let all: Vec<Rect> = reads.iter().chain([write]).copied().collect();
        let mixed = |(i, a): (usize, &Rect)| all[..i].iter().any(|b| !separable(a, b));
        if all.iter().enumerate().any(mixed) {
            self.refused += 1;
            reads.iter().for_each(|rect| self.cpu(rect, false));
            self.cpu(write, true);
            return;
        }
        let mut events = Vec::new();
        for &rect in reads {
            let replica = self.place(&rect);
            events.push((rect, Event::DeviceRead { replica, rect }));
        }
        let replica = self.place(write);
        events.push((
            *write,
            Event::DeviceWrite {
                replica,
                rect: *write,
                keep: true,
            },
        ));
        for (rect, _) in &events {
            self.step(&Event::Enclose { rect: *rect });
        }
        for (rect, event) in &events {
            if !self.dir.ready(event) && self.dir.untidy(rect) {
                self.step(&Event::Tidy { rect: *rect });
            }
        }
        events.iter().for_each(|(_, event)| self.step(event));
        self.step(&Event::Settle { rect: *write });
    }

    fn cpu(&mut self, rect: &Rect, write: bool) {
        let span = self.dir.panels_around(rect.span());
        self.step(&if write {
            Event::CpuWrite { span }
        } else {
            Event::CpuRead { span }
        });
    }

    fn task(&mut self, reads: &[Rect], write: &Rect) {
        self.kernel(reads, write);
        self.done();
    }

    fn done(&mut self) {
        self.times.push(cpu_time() - self.began);
        let sets = self.dir.replicas().map(|(_, r)| r.valid.len());
        self.fragments = sets.fold(self.fragments.max(self.dir.stale().len()), usize::max);
        self.began = cpu_time();
    }

    fn print(&self, name: &str) {
        let us = |t: Duration| t.as_secs_f64() * 1e6;
        let mean = |t: &[Duration]| us(t.iter().sum::<Duration>()) / t.len().max(1) as f64;
        let hundred = self
            .times
            .windows(100.min(self.times.len().max(1)))
            .map(mean)
            .fold(0.0, f64::max);
        let worst = self.times.iter().max().map_or(0.0, |t| us(*t));
        println!(
            "| {name} | {:.1} | {hundred:.1} | {worst:.0} | {} | {} | {} |",
            mean(&self.times),
            self.fragments,
            self.copies / self.times.len().max(1),
            self.refused,
        );
    }
}

/// A matrix of `m` x `n` doubles.
fn view(start: usize, m: usize, n: usize, ld: usize) -> Rect {
    Rect::new(start * 8, m * 8, ld * 8, n)
}

/// A matrix with a random leading dimension, at a random place of an arena of `doubles` elements.
fn front(random: &mut Random, doubles: usize) -> Rect {
    let ld = random.within(50, 2000);
    let (m, n) = (random.within(8, ld), random.within(8, 400));
    view(random.below(doubles - ld * (n + 1)), m, n, ld)
}

/// Three parts of one random matrix, side by side: two inputs, and the output to which their product is added.
fn parts(random: &mut Random, doubles: usize) -> [Rect; 3] {
    let ld = random.within(50, 2000);
    let n = random.within(16, 400);
    let (k, rows) = (n / 2, random.within(8, ld / 2));
    let start = random.below(doubles - ld * (n + 1));
    [
        view(start, rows, k, ld),
        view(start + rows, ld / 2, k, ld),
        view(start + k * ld, rows, n - k, ld),
    ]
}

fn fronts(mut bench: Bench, tasks: usize, assemble: bool) -> Bench {
    let (doubles, mut random) = (bench.dir.extent() / 8, Random(1));
    for _ in 0..tasks {
        let [a, b, c] = parts(&mut random, doubles);
        if assemble {
            bench.cpu(&c, true);
        }
        bench.kernel(&[a, b], &c);
        if random.below(4) == 0 {
            bench.cpu(&Rect::interval(c.start, c.start + 8), false);
        }
        bench.done();
    }
    bench
}

/// Inputs and output at random places, each with a leading dimension of its own; after some tasks the CPU reads the
/// result.
fn unrelated(mut bench: Bench, tasks: usize) -> Bench {
    let (doubles, mut random) = (bench.dir.extent() / 8, Random(2));
    for _ in 0..tasks {
        let [a, b, c] = [(); 3].map(|()| front(&mut random, doubles));
        bench.kernel(&[a, b], &c);
        if random.below(4) == 0 {
            bench.cpu(&c, false);
        }
        bench.done();
    }
    bench
}

/// Many submatrices of one matrix.
fn submatrices(mut bench: Bench, tasks: usize, n: usize) -> Bench {
    let mut random = Random(3);
    for _ in 0..tasks {
        let [a, b, c] = [(); 3].map(|()| {
            let (rows, cols) = (random.within(1, n / 4), random.within(1, n / 4));
            let (row, col) = (random.below(n - rows), random.below(n - cols));
            view(row + col * n, rows, cols, n)
        });
        bench.task(&[a, b], &c);
    }
    bench
}

/// Blocked LU: the CPU factors a column panel, devices update the matrix to the right of it and below.
fn lu(mut bench: Bench, tasks: usize, n: usize, block: usize) -> Bench {
    let mut left = tasks;
    while left > 0 {
        for at in (0..n - block).step_by(block) {
            let rest = n - at - block;
            let panel = view(at + at * n, n - at, block, n);
            bench.cpu(&panel, true);
            let (square, right) = (
                view(at + at * n, block, block, n),
                view(at + (at + block) * n, block, rest, n),
            );
            bench.task(&[square], &right);
            let below = view(at + block + at * n, rest, block, n);
            for col in (at + block..n).step_by(4 * block) {
                let cols = (4 * block).min(n - col);
                let c = view(at + block + col * n, rest, cols, n);
                bench.task(&[below, view(at + col * n, block, cols, n)], &c);
                left = left.saturating_sub(1);
            }
        }
    }
    bench
}

/// Matrices of one leading dimension and, in every second task, of another leading dimension, in the same memory.
fn transposed(mut bench: Bench, tasks: usize, m: usize, n: usize) -> Bench {
    let mut random = Random(4);
    for task in 0..tasks {
        let (m, n) = if task % 2 == 0 { (m, n) } else { (n, m) };
        let [a, b, c] = [(); 3].map(|()| {
            let (rows, cols) = (random.within(1, m / 2), random.within(1, n / 2));
            view(
                random.below(m - rows) + random.below(n - cols) * m,
                rows,
                cols,
                m,
            )
        });
        bench.task(&[a, b], &c);
    }
    bench
}

/// Every second row of a column-major matrix as vectors, and sometimes a column or the diagonal.
fn vectors(mut bench: Bench, tasks: usize, n: usize) -> Bench {
    let mut random = Random(5);
    for _ in 0..tasks {
        let row = |i: usize| Rect::new(i * 8, 8, n * 8, n);
        let (x, y) = (row(2 * random.below(n / 2)), row(2 * random.below(n / 2)));
        bench.kernel(&[x], &y);
        match random.below(16) {
            0 => bench.kernel(
                &[Rect::new(0, 8, (n + 1) * 8, n)],
                &view(random.below(n) * n, n, 1, n),
            ),
            1 => bench.kernel(&[view(random.below(n) * n, n, 1, n)], &y),
            2 => bench.cpu(&Rect::interval(y.start, y.start + 8), false),
            _ => {}
        }
        bench.done();
    }
    bench
}

/// The lower triangle of a matrix of order `n` as square tiles in a memory for 20 of them: a kernel writes each tile (of
/// one on the diagonal only the triangle, in strips), then it is written back; the CPU reads each result once.
fn triangle(mut bench: Bench, tasks: usize, n: usize, tile: usize) -> Bench {
    let whole = Rect::new(64, n * 8, n * 8, n);
    let at = |row: usize, rows: usize, col: usize, cols: usize| {
        Rect::new(64 + (row + col * n) * 8, rows * 8, n * 8, cols)
    };
    let mut left = tasks;
    while left > 0 {
        bench.step(&Event::Enclose { rect: whole });
        for col in (0..n).step_by(tile) {
            for row in (col..n).step_by(tile) {
                let all = at(row, tile, col, tile);
                let replica = bench.place(&all);
                let strip = if row == col { tile / 16 } else { tile };
                for c in (0..tile).step_by(strip) {
                    let from = if row == col { c } else { 0 };
                    let rect = at(row + from, tile - from, col + c, strip);
                    bench.step(&Event::DeviceWrite {
                        replica,
                        rect,
                        keep: row == col,
                    });
                }
                bench.step(&Event::WriteBack { rect: all });
                bench.done();
                left = left.saturating_sub(1);
            }
        }
        bench.step(&Event::Settle { rect: whole });
        for col in (0..n).step_by(16) {
            bench.cpu(&at(col, n - col, col, 16), false);
        }
        bench.began = cpu_time();
    }
    bench
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let tasks = arguments
        .iter()
        .filter_map(|a| a.parse().ok())
        .next()
        .unwrap_or(2000);
    let only = arguments
        .iter()
        .find(|a| a.parse::<usize>().is_err() && !a.starts_with('-'));
    println!(
        "| pattern | mean us | worst 100 us | worst us | fragments | copies per task | refused |"
    );
    println!("|---|---|---|---|---|---|---|");
    let arena = 64 * MIB;
    let mirror = || Bench::mirrored(arena);
    let many = || Bench::with_replicas(arena, 64);
    let tiny = || Bench::with_replicas(arena, 6);
    let patterns: [(&str, &dyn Fn() -> Bench); 15] = [
        ("fronts, one mirror", &|| fronts(mirror(), tasks, false)),
        ("fronts, assembled by the CPU, one mirror", &|| {
            fronts(mirror(), tasks, true)
        }),
        ("fronts, 64 replicas", &|| fronts(many(), tasks, false)),
        ("fronts, assembled by the CPU, 64 replicas", &|| {
            fronts(many(), tasks, true)
        }),
        ("fronts, evictions", &|| fronts(tiny(), tasks, false)),
        ("fronts, assembled by the CPU, evictions", &|| {
            fronts(tiny(), tasks, true)
        }),
        ("unrelated views, one mirror", &|| {
            unrelated(mirror(), tasks)
        }),
        ("unrelated views, 64 replicas", &|| unrelated(many(), tasks)),
        ("unrelated views, evictions", &|| unrelated(tiny(), tasks)),
        ("submatrices of one matrix", &|| {
            submatrices(mirror(), tasks, 2500)
        }),
        ("submatrices of one matrix, evictions", &|| {
            submatrices(tiny(), tasks, 2500)
        }),
        ("blocked LU", &|| lu(mirror(), tasks, 2800, 64)),
        ("two shapes of one matrix", &|| {
            transposed(mirror(), tasks, 2000, 3000)
        }),
        ("a triangle by tiles, evictions", &|| {
            let n = 16384;
            triangle(
                Bench::with_replicas(n * n * 8 + 64, 20),
                tasks / 10,
                n,
                2048,
            )
        }),
        ("rows of a matrix", &|| vectors(mirror(), tasks, 1500)),
    ];
    for (name, run) in patterns {
        if only.is_none_or(|only| name.contains(only.as_str())) {
            run().print(name);
        }
    }
}
