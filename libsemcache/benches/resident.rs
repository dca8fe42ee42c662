//! Benchmark of the runtime's own time in a BLAS call on resident operands, on a device whose kernels and copies take
//! no time.
//!
//! `cargo bench -p semcache --bench resident [CALLS] [WORDS]` prints nanoseconds per call, for replayed calls and for
//! calls that are planned anew; WORDS: only the lines that contain all of these words.
#![expect(
    unsafe_code,
    reason = "implements the raw device contract; plays an unmodified program"
)]
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measuring program of its own"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "a measuring program of its own, not the library in a user's process"
)]

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use semcache::base::{DeviceId, Dtype, Routine, Value};
use semcache::blas::{Call, Outcome};
use semcache::device::api::{
    Backend, CELL_BYTES, Caps, Cell, DeviceError, Kernel, Lane, Region, Shape, Ticket,
};
use semcache::host::heap;
use semcache::runtime::{self, Facts};

/// A device backend whose operations do nothing and are complete at once.
#[derive(Debug)]
struct Null {
    caps: Vec<Caps>,
    next: [AtomicU64; 3],
    memory: AtomicU64,
    cells: Box<[[u128; 1]]>,
}

impl Null {
    fn new() -> Self {
        Null {
            caps: vec![Caps {
                name: "null".to_owned(),
                kind: "sim",
                memory: 4 << 30,
                peers: Vec::new(),
            }],
            next: [const { AtomicU64::new(0) }; 3],
            memory: AtomicU64::new(1 << 40),
            cells: vec![[0]; 64].into(),
        }
    }

    fn ticket(&self, device: DeviceId, lane: Lane) -> Ticket {
        let seq = self.next[lane as usize].fetch_add(1, Relaxed) + 1;
        Ticket { device, lane, seq }
    }
}

impl Backend for Null {
    fn devices(&self) -> &[Caps] {
        &self.caps
    }

    fn cell(&self, _: DeviceId, index: usize) -> Option<Cell> {
        let at = self.cells.get(index)?.as_ptr().expose_provenance();
        assert!(at.is_multiple_of(CELL_BYTES));
        Some(Cell {
            device: at as u64,
            host: at,
        })
    }

    fn alloc(&self, _: DeviceId, bytes: usize) -> Result<u64, DeviceError> {
        let bytes = bytes.next_multiple_of(4096) as u64;
        Ok(self.memory.fetch_add(bytes, Relaxed))
    }

    unsafe fn free(&self, _: DeviceId, _: u64) {}

    unsafe fn upload(
        &self,
        device: DeviceId,
        _: &[Ticket],
        _: &[Ticket],
        _: Region,
        _: Region,
        _: Shape,
    ) -> Result<Ticket, DeviceError> {
        Ok(self.ticket(device, Lane::In))
    }

    unsafe fn download(
        &self,
        device: DeviceId,
        _: &[Ticket],
        _: Region,
        _: Region,
        _: Shape,
    ) -> Result<Ticket, DeviceError> {
        Ok(self.ticket(device, Lane::Out))
    }

    unsafe fn copy_peer(
        &self,
        _: DeviceId,
        to: DeviceId,
        _: &[Ticket],
        _: Region,
        _: Region,
        _: Shape,
    ) -> Result<Ticket, DeviceError> {
        Ok(self.ticket(to, Lane::In))
    }

    unsafe fn launch(
        &self,
        device: DeviceId,
        _: &[Ticket],
        kernel: &Kernel,
    ) -> Result<Ticket, DeviceError> {
        std::hint::black_box(kernel);
        Ok(self.ticket(device, Lane::Compute))
    }

    fn done(&self, _: Ticket) -> Result<bool, DeviceError> {
        Ok(true)
    }

    fn wait(&self, _: Ticket) -> Result<(), DeviceError> {
        Ok(())
    }
}

const N: usize = 1 << 17;

/// A block of the program's memory, written once by the CPU.
fn block(elements: usize) -> usize {
    let at = heap::malloc(elements * 8).cast::<f64>();
    assert!(!at.is_null());
    // SAFETY: a fresh block of that size.
    unsafe { at.write_bytes(0, elements) };
    at.expose_provenance()
}

fn int(n: usize) -> i64 {
    i64::try_from(n).unwrap()
}

/// Prints nanoseconds per call, the best of a few rounds; `vary` turns each call into one that no earlier call equals.
fn measure(what: &str, calls: usize, round: &[Call], vary: &dyn Fn(&Call, usize) -> Call) {
    let mut words = std::env::args().skip(1).filter(|a| !a.starts_with('-'));
    if words.any(|w| w.parse::<usize>().is_err() && !what.contains(&w)) {
        return;
    }
    let issue = |c: &Call| {
        assert_ne!(runtime::call(c, &Facts::default()), Outcome::Host, "{c:?}");
    };
    let mut best = f64::INFINITY;
    for _ in 0..7 {
        for c in round.iter().chain(round).chain(round) {
            issue(c);
        }
        let start = Instant::now();
        for i in 0..calls {
            issue(&vary(&round[i % round.len()], i));
        }
        best = best.min(start.elapsed().as_secs_f64() / calls as f64 * 1e9);
    }
    println!("{what:<44} {best:>8.0} ns per call");
}

/// One element fewer in each call, so that no call can be replayed.
fn shorter(c: &Call, i: usize) -> Call {
    let less = int(i % 1000);
    let less = if c.routine.level() == 1 {
        less
    } else {
        less % 256
    };
    Call {
        m: c.m - less,
        ..*c
    }
}

fn main() {
    let calls: usize = std::env::args()
        .find_map(|a| a.parse().ok())
        .unwrap_or(100_000);
    for (name, value) in [
        ("SEMCACHE_OFFLOAD", "always"),
        ("SEMCACHE_DEVICES", "sim:1"),
    ] {
        if std::env::var_os(name).is_none() {
            // SAFETY: no other thread runs yet.
            unsafe { std::env::set_var(name, value) };
        }
    }
    heap::configure(1 << 20);
    assert!(runtime::start::start_on(Box::leak(Box::new(Null::new()))).is_some());
    let (x, y, z) = (block(N), block(N), block(N));
    let a = block(512 * 512);
    let half = Value { re: 0.5, im: 0.0 };
    let dtype = Dtype::D;
    let vectors = |routine, operands: &[(usize, i64)]| Call {
        alpha: half,
        ..Call::new(routine, dtype, &[int(N)], operands)
    };
    let axpy = vectors(Routine::Axpy, &[(x, 1), (y, 1)]);
    let dot = vectors(Routine::Dot, &[(x, 1), (y, 1)]);
    let nrm2 = vectors(Routine::Nrm2, &[(x, 1)]);
    let gemv = Call {
        alpha: half,
        beta: half,
        ..Call::new(
            Routine::Gemv,
            dtype,
            &[512, 512],
            &[(a, 512), (x, 1), (z, 1)],
        )
    };
    let same = |c: &Call, _: usize| *c;
    let chain = [axpy, dot, gemv];
    let each = [
        ("daxpy", axpy),
        ("ddot", dot),
        ("dnrm2", nrm2),
        ("dgemv", gemv),
    ];
    for (name, c) in &each {
        measure(
            &format!("{name}, the same again"),
            calls,
            std::slice::from_ref(c),
            &same,
        );
    }
    measure("daxpy, ddot, dgemv in turn", calls, &chain, &same);
    for (name, c) in &each {
        measure(
            &format!("{name}, another each time"),
            calls,
            std::slice::from_ref(c),
            &shorter,
        );
    }
}
