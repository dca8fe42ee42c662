//! Start, end and times of a simulated machine; poison; cells.

use super::*;
use crate::base::Link;

#[test]
fn poison_shows() {
    let m = machine(SimConfig {
        poison: true,
        ..small(1)
    });
    let d = m.alloc(D0, 64).expect("alloc");
    let mut x = vec![0.0f64; 8];
    m.wait(download(&m, D0, &[], d, addr(&mut x), 64).expect("download"))
        .expect("wait");
    assert!(x.iter().all(|v| v.is_nan()));
    x.fill(1.0);
    let up = upload(&m, D0, &[], addr(&mut x), d, 64).expect("upload");
    let shape = Shape { width: 8, count: 4 };
    // SAFETY: no other operation uses the block.
    let p = unsafe { m.poison(D0, &[up], Region { addr: d, pitch: 16 }, shape) }.expect("ticket");
    assert_eq!(p.lane, Lane::Compute);
    m.wait(download(&m, D0, &[p], d, addr(&mut x), 64).expect("download"))
        .expect("wait");
    for (i, v) in x.iter().enumerate() {
        assert_eq!(v.is_nan(), i % 2 == 0, "{i}");
    }
    let plain = machine(small(1));
    let d = plain.alloc(D0, 64).expect("alloc");
    // SAFETY: no other operation uses the block.
    let none = unsafe {
        plain.poison(
            D0,
            &[],
            Region { addr: d, pitch: 64 },
            Shape {
                width: 64,
                count: 1,
            },
        )
    };
    assert_eq!(none, None);
}

#[test]
fn a_slow_link_takes_its_time() {
    let m = machine(SimConfig {
        link_gbs: Some(0.01),
        ..small(1)
    });
    let d = m.alloc(D0, 400_000).expect("alloc");
    let mut x = vec![1u8; 400_000];
    let start = Instant::now();
    m.wait(upload(&m, D0, &[], addr(&mut x), d, 400_000).expect("upload"))
        .expect("wait");
    assert!(
        start.elapsed() >= Duration::from_millis(40),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn shutdown_releases_and_does_not_wait() {
    let m = machine(late(1));
    let d = m.alloc(D0, 8).expect("alloc");
    let k = scal(&m, D0, &[], 1, 1.0, d).expect("launch");
    m.shutdown();
    assert!(m.wait(k).is_err());
    assert!(scal(&m, D0, &[], 1, 1.0, d).is_err());
    m.shutdown();
}

static STARTED: AtomicUsize = AtomicUsize::new(0);

#[test]
fn threads_start_late_and_tell() {
    let on_thread_start: fn() = || {
        assert_eq!(std::thread::current().name(), Some("semcache-sim"));
        STARTED.fetch_add(1, Ordering::SeqCst);
    };
    let m = machine(SimConfig {
        on_thread_start: Some(on_thread_start),
        // A seeded machine leaves all operations to its threads; otherwise the waiting thread executes small ones.
        seed: 1,
        ..small(4)
    });
    let d = m.alloc(D0, 8).expect("alloc");
    assert_eq!(STARTED.load(Ordering::SeqCst), 0);
    m.wait(scal(&m, D0, &[], 1, 1.0, d).expect("launch"))
        .expect("wait");
    m.wait(scal(&m, D0, &[], 1, 1.0, d).expect("launch"))
        .expect("wait");
    // Only the four threads of the device that was used; those that have run so far.
    let started = STARTED.load(Ordering::SeqCst);
    assert!((1..=4).contains(&started), "{started}");
}

#[test]
fn presets_make_machines() {
    let config = SimConfig::preset("dgx1").expect("dgx1");
    assert_eq!(config.devices, 8);
    let m = machine(config);
    assert!(m.devices()[3].name.contains("V100"));
    // Two NVLinks, then one; PCIe is slower than from the host.
    let (double, single, slower) = (Link::Faster(0), Link::Faster(1), Link::Slower);
    assert_eq!(
        m.devices()[0].links,
        [
            Link::None,
            single,
            single,
            double,
            double,
            slower,
            slower,
            slower
        ]
    );
    let everest = machine(SimConfig::preset("everest").expect("everest"));
    assert_eq!(everest.devices()[0].links, [Link::None; 3]);
    assert_eq!(
        everest.devices()[2].links,
        [Link::None, Link::Faster(0), Link::None]
    );
    assert_eq!(everest.topology().map(Topology::devices), Some(3));
    assert!(SimConfig::preset("dgx").is_none());
}

/// The descriptor of the host's memory has a high number, out of the program's way, and is not inherited.
#[test]
fn descriptors_are_high_and_close_on_exec() {
    let _m = machine(SimConfig {
        poison: true,
        ..small(1)
    });
    let mut seen = 0;
    for entry in std::fs::read_dir("/proc/self/fd").expect("proc").flatten() {
        let Ok(target) = std::fs::read_link(entry.path()) else {
            continue;
        };
        let target = target.to_string_lossy().into_owned();
        if target.ends_with("/mem") || target.contains("semcache-poison") {
            let number: i32 = entry.file_name().to_string_lossy().parse().expect("number");
            let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}"));
            // The machine of another test may have closed the descriptor by now.
            let Ok(info) = info else { continue };
            let flags = info
                .lines()
                .find_map(|l| l.strip_prefix("flags:"))
                .expect("flags");
            assert_eq!(
                i64::from_str_radix(flags.trim(), 8).expect("octal") & 0o2_000_000,
                0o2_000_000
            );
            seen += i32::from(number >= 900);
        }
    }
    assert!(seen >= 2);
}

#[test]
fn a_cell_has_its_value_after_the_wait_and_not_before() {
    let config = SimConfig {
        poison: true,
        ..late(2)
    };
    let m = machine(config);
    let cell = m.cell(D1, 3).expect("a cell");
    assert!(cell.host.is_multiple_of(16));
    assert_ne!(Some(cell), m.cell(D0, 3));
    assert_eq!((m.cell(D1, 64), m.cell(D2, 0)), (None, None));
    let mut data = [3.0_f64, 4.0];
    let x = m.alloc(D1, 16).expect("memory");
    let up = upload(&m, D1, &[], addr(&mut data), x, 16).expect("queued");
    let asum = |out: u64| {
        let sum = Kernel {
            m: 2,
            out,
            ..Kernel::of(Routine::Asum, Dtype::D, [Operand::vector(x, 1)])
        };
        // SAFETY: the addresses were allocated above, or the launch is refused.
        unsafe { m.launch(D1, &[up], &sum) }
    };
    let value: *const f64 = core::ptr::with_exposed_provenance(cell.host);
    for _ in 0..2 {
        let t = asum(cell.device).expect("queued");
        // SAFETY: a cell; late mode executes nothing before a thread waits for it.
        assert!(unsafe { value.read_volatile() }.is_nan());
        m.wait(t).expect("done");
        // SAFETY: the kernel is done.
        assert_eq!(unsafe { value.read_volatile() }, 7.0);
    }
    let other = m.cell(D0, 3).expect("a cell").device;
    let last = m.cell(D1, 63).expect("a cell").device;
    for wrong in [other, cell.device + 12, last + 16] {
        let refused = DeviceError::Refused {
            device: D1,
            what: "launch",
            code: BAD_ADDRESS,
        };
        assert_eq!(asum(wrong), Err(refused));
    }
}
