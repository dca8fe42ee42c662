//! Tests of start-up in the background, with simulated devices that come up slowly. Start-up happens once per process,
//! so each test has a process of its own.
#![expect(
    unsafe_code,
    reason = "forwards the device contract, forks as a program does"
)]
#![allow(
    clippy::disallowed_methods,
    clippy::exit,
    reason = "a test program, not the library in a user's process"
)]

use super::*;
use crate::base::counters::COUNTERS;
use crate::base::{DeviceId, Dtype, Op, Routine, Value};
use crate::blas::{Call, Outcome};
use crate::device::api::{Caps, DeviceError, Kernel, Region, Shape, Ticket};
use crate::device::sim::{SimConfig, SimMachine};
use crate::runtime::{self, Facts};
use std::process::Output;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc;
use std::thread;

const STEP: Duration = Duration::from_millis(100);

/// How many devices were ready and not used.
static DISCARDED: AtomicUsize = AtomicUsize::new(0);

/// Simulated devices that come up slowly; the one numbered `broken` fails.
#[derive(Debug)]
struct Slow {
    sim: SimMachine,
    up: AtomicUsize,
    broken: usize,
}

impl Slow {
    fn open(devices: usize, broken: usize) -> Option<&'static dyn Rising> {
        thread::sleep(STEP);
        let cfg = SimConfig {
            devices,
            memory: 64 << 20,
            on_thread_start: Some(crate::process::threads::enter),
            ..SimConfig::default()
        };
        Some(Box::leak(Box::new(Slow {
            sim: SimMachine::new(cfg).unwrap(),
            up: AtomicUsize::new(0),
            broken,
        })))
    }
}

impl Rising for Slow {
    fn backend(&'static self) -> &'static dyn Backend {
        self
    }
    fn make(&self, device: usize) -> Result<(), String> {
        eprintln!("bringing up");
        // Devices with higher numbers are ready earlier.
        let later = self.sim.devices().len() - device;
        thread::sleep(if device == 0 {
            STEP
        } else {
            STEP * later as u32
        });
        if device == self.broken {
            return Err("out of order".into());
        }
        Ok(())
    }
    fn admit(&self, device: usize) {
        assert_eq!(self.up.swap(device + 1, Ordering::AcqRel), device);
    }
    fn discard(&self, device: usize) {
        assert!(device > self.broken);
        DISCARDED.fetch_add(1, Ordering::Relaxed);
    }
    fn staged(&self) -> bool {
        false
    }
}

impl Backend for Slow {
    fn devices(&self) -> &[Caps] {
        self.sim.devices()
    }
    fn usable(&self) -> usize {
        self.up.load(Ordering::Acquire)
    }
    fn alloc(&self, d: DeviceId, bytes: usize) -> Result<u64, DeviceError> {
        assert!(d.index() < self.usable(), "used before it is up");
        self.sim.alloc(d, bytes)
    }
    unsafe fn free(&self, d: DeviceId, addr: u64) {
        // SAFETY: the caller's promises, here and below.
        unsafe { self.sim.free(d, addr) }
    }
    unsafe fn upload(
        &self,
        d: DeviceId,
        after: &[Ticket],
        host: &[Ticket],
        src: Region,
        dst: Region,
        shape: Shape,
    ) -> Result<Ticket, DeviceError> {
        // SAFETY: as above.
        unsafe { self.sim.upload(d, after, host, src, dst, shape) }
    }
    unsafe fn download(
        &self,
        d: DeviceId,
        after: &[Ticket],
        src: Region,
        dst: Region,
        shape: Shape,
    ) -> Result<Ticket, DeviceError> {
        // SAFETY: as above.
        unsafe { self.sim.download(d, after, src, dst, shape) }
    }
    unsafe fn copy_peer(
        &self,
        from: DeviceId,
        to: DeviceId,
        after: &[Ticket],
        src: Region,
        dst: Region,
        shape: Shape,
    ) -> Result<Ticket, DeviceError> {
        // SAFETY: as above.
        unsafe { self.sim.copy_peer(from, to, after, src, dst, shape) }
    }
    unsafe fn launch(
        &self,
        d: DeviceId,
        after: &[Ticket],
        kernel: &Kernel,
    ) -> Result<Ticket, DeviceError> {
        // SAFETY: as above.
        unsafe { self.sim.launch(d, after, kernel) }
    }
    fn done(&self, ticket: Ticket) -> Result<bool, DeviceError> {
        self.sim.done(ticket)
    }
    fn wait(&self, ticket: Ticket) -> Result<(), DeviceError> {
        self.sim.wait(ticket)
    }
}

/// `C := A A`, all elements of A being one; what became of it, and C.
fn product() -> (Outcome, Vec<f64>) {
    const N: usize = 48;
    let a = vec![1.0_f64; N * N];
    let mut c = vec![0.0_f64; N * N];
    let call = gemm(N as i64, a.as_ptr().addr(), c.as_mut_ptr().addr());
    (runtime::call(&call, &Facts::default()), c)
}

fn gemm(n: i64, a: usize, c: usize) -> Call {
    Call {
        op_a: Op::None,
        op_b: Op::None,
        beta: Value::ZERO,
        ..Call::new(
            Routine::Gemm,
            Dtype::D,
            &[n, n, n],
            &[(a, n), (a, n), (c, n)],
        )
    }
}

fn begin_with(open: impl FnOnce() -> Option<&'static dyn Rising> + Send + 'static) {
    assert_eq!(PHASES.claim(), Claim::Mine);
    super::super::fork::register();
    super::super::exit::register();
    in_background(init::config(), open);
}

fn usable() -> usize {
    get()
        .and_then(|r| r.cache)
        .map_or(0, |c| c.backend().usable())
}

fn why(reason: &str) -> u64 {
    let calls = crate::base::counters::PAGE
        .calls
        .calls(&crate::blas::names::all());
    calls.values().filter_map(|c| c.why_host.get(reason)).sum()
}

fn computed(found: (Outcome, Vec<f64>)) {
    assert!(matches!(found.0, Outcome::Done(_)), "{:?}", found.0);
    assert!(found.1.iter().all(|&x| x == 48.0));
}

/// Runs a test's body in a process of its own, with GPUs for devices. The process must succeed.
fn started<F: FnOnce()>(variables: &[(&str, &str)], body: F) -> Output {
    let variables = [&[("SEMCACHE_DEVICES", "cuda")], variables].concat();
    let output = testkit::apart_under(&variables, body);
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{out}\n{err}");
    output
}

/// The library's lines on stderr.
fn said(output: &Output) -> String {
    let err = String::from_utf8_lossy(&output.stderr);
    let said: Vec<_> = err.lines().filter(|l| l.starts_with("semcache")).collect();
    said.join("\n")
}

const ALWAYS: (&str, &str) = ("SEMCACHE_OFFLOAD", "always");

#[test]
fn calls_run_on_the_host_meanwhile() {
    started(&[], || {
        let (called, wait) = mpsc::channel();
        begin_with(move || {
            wait.recv().unwrap();
            Slow::open(3, 9)
        });
        assert_eq!(product().0, Outcome::Host);
        assert_eq!((why("starting"), usable()), (1, 0));
        called.send(()).unwrap();
        assert!(PHASES.wait(Phase::Settled, Some(Instant::now() + 600 * STEP)));
        // The first call on devices finds all of them.
        assert_eq!(usable(), 3);
        assert_eq!(runtime::mode(), Mode::On);
    });
}

#[test]
fn always_waits_for_all() {
    started(&[ALWAYS], || {
        begin_with(|| Slow::open(3, 9));
        computed(product());
        assert_eq!((usable(), why("starting")), (3, 0));
    });
}

#[test]
fn several_threads_wait() {
    started(&[ALWAYS], || {
        begin_with(|| Slow::open(2, 9));
        thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| computed(product()));
            }
        });
    });
}

#[test]
fn some_that_do_not_come_up_are_said_once() {
    let output = started(&[ALWAYS], || {
        begin_with(|| Slow::open(3, 1));
        computed(product());
        assert_eq!((usable(), PHASES.get()), (1, Phase::Settled));
        assert_eq!(DISCARDED.load(Ordering::Relaxed), 1);
    });
    assert_eq!(said(&output), "semcache: out of order; using 1 of 3 GPUs");
}

#[test]
fn that_none_comes_up_is_said_once() {
    let output = started(&[ALWAYS], || {
        begin_with(|| Slow::open(2, 0));
        assert_eq!(product().0, Outcome::Host);
        assert_eq!(runtime::mode(), Mode::Off);
        assert_eq!(why("no_device"), 1);
    });
    assert_eq!(
        said(&output),
        "semcache: out of order; computing on the host"
    );
}

#[test]
fn without_a_machine_nothing_is_said() {
    let output = started(&[ALWAYS], || {
        begin_with(|| None);
        assert_eq!(product().0, Outcome::Host);
        assert_eq!((why("no_device"), runtime::mode()), (1, Mode::Off));
    });
    assert_eq!(said(&output), "");
}

#[test]
fn a_panic_of_start_up_is_said() {
    let output = started(&[ALWAYS], || {
        begin_with(|| panic!("as a driver's wrapper might"));
        assert_eq!(product().0, Outcome::Host);
        assert_eq!(runtime::mode(), Mode::Off);
    });
    assert!(said(&output).contains("computing on the host"));
}

/// Holds on any machine: none has 64 GPUs.
#[test]
fn that_named_gpus_are_missed_is_said_once() {
    let output = started(&[ALWAYS, ("SEMCACHE_DEVICES", "cuda:63")], || {
        assert_eq!(product().0, Outcome::Host);
        assert_eq!((runtime::mode(), why("no_device")), (Mode::Off, 1));
    });
    let said = said(&output);
    assert!(
        said.lines().count() == 1 && said.ends_with("; computing on the host"),
        "{said}"
    );
}

#[test]
fn start_up_is_not_entered_twice() {
    started(&[ALWAYS], || {
        begin_with(|| {
            assert_eq!(product().0, Outcome::Host);
            assert_eq!(why("starting"), 1);
            Slow::open(1, 9)
        });
        computed(product());
    });
}

#[test]
fn a_fork_finds_nothing_locked() {
    let start = Instant::now();
    started(&[ALWAYS], || {
        begin_with(|| Slow::open(2, 9));
        let child = || {
            // SAFETY: the child calls what a program's child would call, and ends.
            let child = unsafe {
                testkit::forked(|| {
                    assert_eq!(runtime::mode(), Mode::Forked);
                    assert_eq!(product().0, Outcome::Host);
                    // By way of the exit handlers.
                    std::process::exit(7);
                })
            };
            assert_eq!(child.wait().code(), Some(7));
        };
        // While the machine is opened, and in every state until all devices are up.
        while PHASES.get() < Phase::Settled {
            child();
            thread::sleep(Duration::from_millis(5));
        }
        computed(product());
        child();
        assert_eq!((COUNTERS.fallbacks.get(), usable()), (0, 2));
    });
    let took = start.elapsed();
    assert!(took < Duration::from_secs(60), "{took:?}");
}

#[test]
fn the_end_waits_for_the_driver_but_not_for_all_devices() {
    let output = started(&[], || {
        begin_with(|| {
            while !ending::ending() {
                thread::sleep(Duration::from_micros(500));
            }
            let machine = Slow::open(24, 99);
            eprintln!("opened");
            machine
        });
        std::process::exit(0);
    });
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.contains("opened"), "{err}");
    assert!(!err.contains("bringing up"), "{err}");
}

#[test]
fn small_programs_start_nothing() {
    started(&[("SEMCACHE_DEVICES", "auto")], || {
        let (cfg, small) = (init::config(), gemm(64, 1 << 20, 1 << 30));
        for _ in 0..50 {
            assert_eq!(for_call(&small, false).err(), Some(WhyHost::Small));
        }
        assert_eq!(PHASES.get(), Phase::Cold);
        let large = gemm(16_384, 1 << 20, 1 << 40);
        assert_eq!(weigh(cfg, &large), Ok(()));
        assert!(weigh(cfg, &gemm(-1, 1 << 20, 1 << 30)).is_err());
        // A call of a minute waits for a device, one of a moment does not, nor for ever.
        assert_eq!(patience(cfg, &small), Duration::ZERO);
        let huge = patience(cfg, &gemm(20_000, 1 << 20, 1 << 40));
        assert!(
            huge > expected(cfg) && huge < Duration::from_secs(3600),
            "{huge:?}"
        );
    });
}
