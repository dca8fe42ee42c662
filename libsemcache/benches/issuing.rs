//! Benchmark of the time in which the calling thread queues the tasks of a product, on a device whose kernels and copies take
//! no time.
//!
//! `cargo bench -p semcache --bench issuing [N TILE]` prints microseconds per task of products of order N (8192) in square
//! tiles (512): of calls on resident matrices, and of calls before which the CPU has changed all of them, so that they are uploaded
//! and their pages protected again, with no and with 500 operations of each lane in flight.
#![expect(unsafe_code, reason = "plays an unmodified program")]
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measuring program of its own"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "a measuring program of its own, not the library in a user's process"
)]

mod null;

use std::time::Instant;

use null::{Null, block};
use semcache::base::{Dtype, Routine, Value};
use semcache::blas::{Call, Outcome};
use semcache::host::heap;
use semcache::runtime::{self, Facts};

/// The CPU changes a matrix: one byte of each huge page.
fn write(at: usize, bytes: usize) {
    for offset in (0..bytes).step_by(1 << 21) {
        let byte = core::ptr::with_exposed_provenance_mut::<u8>(at + offset);
        // SAFETY: inside a block of the program; an access to an inaccessible page faults and is served.
        unsafe { byte.write_volatile(0) };
    }
}

/// Microseconds per task, medians: of calls on resident matrices, and on changed ones.
fn measure(n: usize, tile: usize) -> [f64; 2] {
    let [a, b, c] = [(); 3].map(|()| block(n * n, true));
    let (order, ld) = (i64::try_from(n).unwrap(), i64::try_from(n).unwrap());
    let tasks = n.div_ceil(tile).pow(3) as f64;
    [false, true].map(|changed| {
        let mut times: Vec<f64> = (1..=6)
            .map(|alpha| {
                let call = Call {
                    // No call equals an earlier one, so none is replayed.
                    alpha: Value {
                        re: f64::from(alpha),
                        im: 0.0,
                    },
                    beta: Value::ONE,
                    ..Call::new(
                        Routine::Gemm,
                        Dtype::D,
                        &[order; 3],
                        &[(a, ld), (b, ld), (c, ld)],
                    )
                };
                if changed {
                    [a, b, c].iter().for_each(|&at| write(at, n * n * 8));
                }
                let start = Instant::now();
                assert_ne!(runtime::call(&call, &Facts::default()), Outcome::Host);
                start.elapsed().as_secs_f64() * 1e6 / tasks
            })
            .collect();
        // The first call of all page-locks the matrices.
        times[1..].sort_by(f64::total_cmp);
        times[3]
    })
}

fn main() {
    let mut numbers = std::env::args().filter_map(|a| a.parse().ok());
    let (n, tile) = (
        numbers.next().unwrap_or(8192),
        numbers.next().unwrap_or(512),
    );
    let in_flight = numbers.next();
    let Some(in_flight) = in_flight else {
        // A process has one device, so each line is a process of its own.
        for in_flight in ["0", "500"] {
            let this = std::env::current_exe().unwrap();
            let args = [n.to_string(), tile.to_string(), in_flight.to_owned()];
            let status = std::process::Command::new(this).args(args).status();
            assert!(status.unwrap().success());
        }
        return;
    };
    for (name, value) in [
        ("SEMCACHE_OFFLOAD", "always".to_owned()),
        ("SEMCACHE_DEVICES", "sim:1".to_owned()),
        ("SEMCACHE_TILE", tile.to_string()),
    ] {
        // SAFETY: no other thread runs yet.
        unsafe { std::env::set_var(name, value) };
    }
    heap::configure(1 << 20);
    let device = Box::leak(Box::new(Null::new(1, in_flight as u64)));
    assert!(runtime::start::start_on(device).is_some());
    let [resident, changed] = measure(n, tile);
    println!(
        "{n} in tiles of {tile}, {in_flight:>3} in flight: {resident:.2} us per task, {changed:.2} us after a change"
    );
}
