//! Benchmark of the runtime's own time in an iteration that the matrix outweighs: the CPU writes x, dgemv runs on all devices, on which
//! the matrix is resident, and the CPU reads y. Kernels and copies take no time.
//!
//! `cargo bench -p semcache --bench iteration [N DEVICES]` prints microseconds per call for a matrix of order N (32768; its memory is
//! reserved, not touched) on one and on four devices: of the call, and of the CPU's accesses to x and y.
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

/// The CPU writes one element of each page of a vector.
fn write(at: usize, elements: usize, value: f64) {
    for i in (0..elements).step_by(512) {
        let element = core::ptr::with_exposed_provenance_mut::<f64>(at + 8 * i);
        // SAFETY: inside a block of the program; an access to an inaccessible page faults and is served.
        unsafe { element.write_volatile(value) };
    }
}

/// The CPU reads one element of each page of a vector.
fn read(at: usize, elements: usize) {
    for i in (0..elements).step_by(512) {
        let element = core::ptr::with_exposed_provenance::<f64>(at + 8 * i);
        // SAFETY: as above.
        let _ = unsafe { element.read_volatile() };
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let numbers: Vec<usize> = std::env::args().filter_map(|a| a.parse().ok()).collect();
    let n = numbers.first().copied().unwrap_or(32768);
    let Some(&devices) = numbers.get(1) else {
        // The devices of a process are chosen once, so each line is a process of its own.
        for devices in ["1", "4"] {
            let this = std::env::current_exe().unwrap();
            let status = std::process::Command::new(this)
                .args([&n.to_string(), devices])
                .status();
            assert!(status.unwrap().success());
        }
        return;
    };
    for (name, value) in [
        ("SEMCACHE_OFFLOAD", "always".to_owned()),
        ("SEMCACHE_DEVICES", format!("sim:{devices}")),
        // As on machines with several GPUs and many cores.
        ("SEMCACHE_PIN", "again".to_owned()),
    ] {
        // SAFETY: no other thread runs yet.
        unsafe { std::env::set_var(name, value) };
    }
    heap::configure(1 << 20);
    let backend = Box::leak(Box::new(Null::new(devices, 0)));
    assert!(runtime::start::start_on(backend).is_some());
    let (a, x, y) = (block(n * n, false), block(n, true), block(n, true));
    let (order, ld) = (i64::try_from(n).unwrap(), i64::try_from(n).unwrap());
    let (mut calls, mut looks) = (Vec::new(), Vec::new());
    for step in 0..1000_u32 {
        let start = Instant::now();
        write(x, n, f64::from(step));
        let written = start.elapsed();
        let call = Call {
            beta: Value::ZERO,
            ..Call::new(
                Routine::Gemv,
                Dtype::D,
                &[order; 2],
                &[(a, ld), (x, 1), (y, 1)],
            )
        };
        let start = Instant::now();
        assert_ne!(runtime::call(&call, &Facts::default()), Outcome::Host);
        calls.push(start.elapsed().as_secs_f64() * 1e6);
        let start = Instant::now();
        read(y, n);
        looks.push((written + start.elapsed()).as_secs_f64() * 1e6);
    }
    println!(
        "{n} on {devices} device{}: {:.1} us per call, {:.1} us in the CPU's accesses",
        if devices == 1 { "" } else { "s" },
        median(calls.split_off(100)),
        median(looks.split_off(100)),
    );
}
