//! What test programs share: numbers, an observer, a process of their own, and the machine that they run on.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stdout,
    unreachable_pub,
    dead_code,
    reason = "each test program uses a part"
)]

pub mod alone;
pub mod recorder;
pub mod rng;

use semcache::base::config::{CudaSet, Memory};
use semcache::device::api::Backend;
use semcache::device::{cuda, sim};

/// Adds the numbers in the last line of what a child said.
pub fn add(totals: &mut [u64], said: &str) {
    let words = said.lines().last().unwrap_or("").split_whitespace();
    for (total, n) in totals
        .iter_mut()
        .zip(words.filter_map(|w| w.parse::<u64>().ok()))
    {
        *total += n;
    }
}

/// `SEMCACHE_TEST_DEVICES`.
pub fn devices() -> String {
    std::env::var("SEMCACHE_TEST_DEVICES").unwrap_or_default()
}

/// Whether the suites run on real devices.
pub fn real() -> bool {
    devices().starts_with("cuda")
}

/// Values of `SEMCACHE_DEVICES` and `SEMCACHE_MEMORY` to run under: these simulated machines, or the real one with
/// each of their memories.
pub fn machines(simulated: &[(usize, &'static str)]) -> Vec<(String, &'static str)> {
    let mut machines: Vec<_> = simulated
        .iter()
        .map(|&(n, memory)| {
            let name = if real() {
                devices()
            } else {
                format!("sim:{n}")
            };
            (name, memory)
        })
        .collect();
    machines.sort();
    machines.dedup();
    machines
}

/// Misbehaviours to run under: real devices have their own.
pub fn modes(simulated: &'static [&'static str]) -> &'static [&'static str] {
    if real() { &[""] } else { simulated }
}

/// The devices that `SEMCACHE_TEST_DEVICES` names: `cuda`, `cuda:LIST`, or nothing for two simulated ones.
pub fn machine() -> &'static dyn Backend {
    let name = devices();
    if !name.starts_with("cuda") {
        let config = sim::SimConfig {
            devices: 2,
            ..sim::SimConfig::default()
        };
        return Box::leak(Box::new(sim::SimMachine::new(config).unwrap()));
    }
    let set = match name.strip_prefix("cuda:") {
        None => CudaSet::All,
        Some(list) => CudaSet::List(list.split(',').map(|i| i.parse().unwrap()).collect()),
    };
    let hooks = cuda::Hooks {
        environment: |name| std::env::var(name).ok(),
        choose: <[usize]>::to_vec,
        secure: false,
    };
    struct Log;
    impl log::Log for Log {
        fn enabled(&self, _: &log::Metadata<'_>) -> bool {
            true
        }
        fn log(&self, record: &log::Record<'_>) {
            println!("{}", record.args());
        }
        fn flush(&self) {}
    }
    let _ = log::set_logger(&Log);
    log::set_max_level(log::LevelFilter::Debug);
    let began = std::time::Instant::now();
    let machine = Box::leak(Box::new(
        cuda::open(&set, Memory::Percent(50), &hooks).expect("CUDA devices"),
    ));
    println!("opened in {:?}", began.elapsed());
    let began = std::time::Instant::now();
    machine.bring_up().expect("contexts");
    println!("up in {:?}", began.elapsed());
    for i in 0..machine.devices().len() {
        let id = semcache::base::DeviceId(u8::try_from(i).unwrap());
        println!("{:?}", machine.describe(id));
    }
    machine
}
