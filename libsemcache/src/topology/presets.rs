//! Preset machines: those of the literature, and those that this project was measured on. A figure that a paper prints
//! is used as printed; the rest is what such hardware reaches in practice, rounded: good for the shape of a curve, not
//! for its last digits.

use super::{Engine, Link, Machine, Topology, Uplink};

/// The names that [`preset`] knows.
pub const NAMES: [&str; 13] = [
    "dgx1", "everest", "makalu", "kepler", "tesla", "testbed1", "testbed2", "gtx680", "titan",
    "h100", "h200", "h200x4", "h200x8",
];

const GIB: usize = 1 << 30;

/// A machine by name; `NAME:N` is its first N devices.
#[must_use]
pub fn preset(name: &str) -> Option<Machine> {
    match name.split_once(':') {
        Some((name, count)) => {
            let (machine, count) = (whole(name)?, count.parse().ok()?);
            (1..=machine.engines.len())
                .contains(&count)
                .then(|| machine.first(count))
        }
        None => whole(name),
    }
}

fn whole(name: &str) -> Option<Machine> {
    Some(match name {
        "dgx1" => dgx1(),
        "everest" => everest(),
        "makalu" => makalu(),
        "kepler" => kepler(),
        "tesla" => tesla(),
        "testbed1" => testbed1(),
        "testbed2" => testbed2(),
        "gtx680" => gtx680(),
        "titan" => titan(),
        "h100" => h100(),
        "h200" => h200("h200", "NVIDIA H200", 1),
        "h200x4" => h200("h200x4", "4 NVIDIA H200 behind NVSwitch", 4),
        "h200x8" => h200("h200x8", "8 NVIDIA H200 behind NVSwitch", 8),
        _ => return None,
    })
}

fn machine(
    name: &'static str,
    title: &'static str,
    engines: Vec<Engine>,
    topology: Topology,
) -> Machine {
    Machine {
        name: name.into(),
        title: title.into(),
        engines,
        topology,
    }
}

/// A topology without peer links.
fn star(n: usize, to_device: Link, to_host: Link) -> Topology {
    let mut topology = Topology::uniform(n, to_device, to_device);
    topology.peers.fill(None);
    for device in 0..n {
        topology.set_host(device, to_device, to_host);
    }
    topology
}

fn connect(topology: &mut Topology, a: usize, b: usize, link: Link) {
    topology.set_peer(a, b, Some(link));
    topology.set_peer(b, a, Some(link));
}

/// Devices `2 i` and `2 i + 1` share a switch of `gbs` GB/s in each direction.
fn share_by_pairs(topology: &mut Topology, gbs: f64) {
    topology.uplinks = (0..topology.devices() / 2)
        .map(|i| Uplink {
            devices: vec![2 * i, 2 * i + 1],
            to_device_gbs: gbs,
            to_host_gbs: gbs,
        })
        .collect();
}

/// NVIDIA DGX-1: 8 Tesla V100-SXM2 32 GB in a hybrid cube mesh; pairs share a PCIe 3.0 x16 switch.
///
/// Peer rates: Gautier and Lima, PAW-ATM 2021, Fig. 2 (96.4, 48.4 and 17 GB/s in both directions together, so half of
/// that in each direction).
fn dgx1() -> Machine {
    const DOUBLE: [(usize, usize); 8] = [
        (0, 3),
        (0, 4),
        (1, 2),
        (1, 5),
        (2, 3),
        (4, 7),
        (5, 6),
        (6, 7),
    ];
    const SINGLE: [(usize, usize); 8] = [
        (0, 1),
        (0, 2),
        (1, 3),
        (2, 6),
        (3, 7),
        (4, 5),
        (4, 6),
        (5, 7),
    ];
    let host = Link {
        latency_ns: 9_000,
        gbs: 12.0,
        duplex_factor: 0.9,
    };
    let mut topology = Topology::uniform(8, host, Link::new(12_000, 8.6));
    for (a, b) in DOUBLE {
        connect(&mut topology, a, b, Link::new(9_000, 48.2));
    }
    for (a, b) in SINGLE {
        connect(&mut topology, a, b, Link::new(9_000, 24.2));
    }
    share_by_pairs(&mut topology, 12.4);
    let v100 = Engine {
        name: "Tesla V100-SXM2-32GB".into(),
        memory: 31 * GIB,
        memory_gbs: 820.0,
        gemm_gflops: [14_000.0, 7_000.0, 14_000.0, 7_000.0],
        launch_ns: 6_000,
    };
    machine("dgx1", "DGX-1, 8 Tesla V100", vec![v100; 8], topology)
}

fn k40() -> Engine {
    Engine {
        name: "Tesla K40c".into(),
        memory: 11 * GIB,
        memory_gbs: 220.0,
        gemm_gflops: [3_200.0, 1_250.0, 3_300.0, 1_280.0],
        launch_ns: 8_000,
    }
}

/// Everest of BLASX (Wang et al. 2016): 3 Tesla K40c; only the last two share a switch and reach each other.
///
/// Rates: Table IV (6.54 GB/s between host and GPU, 7.8 GB/s between GPUs).
fn everest() -> Machine {
    let host = Link {
        latency_ns: 10_000,
        gbs: 6.54,
        duplex_factor: 0.9,
    };
    let mut topology = star(3, host, host);
    connect(&mut topology, 1, 2, Link::new(10_000, 7.8));
    topology.uplinks = vec![Uplink {
        devices: vec![1, 2],
        to_device_gbs: 10.0,
        to_host_gbs: 10.0,
    }];
    machine("everest", "Everest, 3 Tesla K40c", vec![k40(); 3], topology)
}

/// Makalu of BLASX: 2 Tesla K40c and 2 Maxwell TITAN X, whose double precision is a seventh of the K40's. The paper
/// gives no rates of Makalu: Everest's are used, and pairs of equal devices are connected.
fn makalu() -> Machine {
    let host = Link {
        latency_ns: 10_000,
        gbs: 6.54,
        duplex_factor: 0.9,
    };
    let mut topology = star(4, host, host);
    connect(&mut topology, 0, 1, Link::new(10_000, 7.8));
    connect(&mut topology, 2, 3, Link::new(10_000, 7.8));
    share_by_pairs(&mut topology, 10.0);
    let titan_x = Engine {
        name: "GeForce GTX TITAN X".into(),
        memory: 12 * GIB,
        memory_gbs: 260.0,
        gemm_gflops: [5_800.0, 190.0, 5_900.0, 192.0],
        launch_ns: 7_000,
    };
    let engines = vec![k40(), k40(), titan_x.clone(), titan_x];
    machine(
        "makalu",
        "Makalu, 2 Tesla K40c and 2 TITAN X",
        engines,
        topology,
    )
}

/// The `kepler` machine of SemCache++ (Al-Saber and Kulkarni 2015): 2 Tesla K20 on PCIe 2.0 x16, without a peer
/// connection. The paper prints no rates: the figures are what PCIe 2.0 x16 and a K20 reach.
fn kepler() -> Machine {
    let host = |gbs| Link {
        latency_ns: 10_000,
        gbs,
        duplex_factor: 0.85,
    };
    let k20 = Engine {
        name: "Tesla K20".into(),
        memory: 4800 << 20,
        memory_gbs: 150.0,
        gemm_gflops: [2_600.0, 1_000.0, 2_700.0, 1_030.0],
        launch_ns: 8_000,
    };
    machine(
        "kepler",
        "Kepler, 2 Tesla K20",
        vec![k20; 2],
        star(2, host(6.0), host(6.2)),
    )
}

/// The `tesla` machine of SemCache++: 8 Tesla M2090 in an external chassis, whose connection to the host all share. The paper says
/// that it is much slower than that of `kepler` and prints no rates: the figures are what one PCIe 2.0 x16 cable, the chassis's
/// switches and an M2090 with error correction reach.
fn tesla() -> Machine {
    let host = Link {
        latency_ns: 15_000,
        gbs: 3.0,
        duplex_factor: 0.8,
    };
    let mut topology = Topology::uniform(8, host, Link::new(15_000, 5.0));
    topology.uplinks = vec![Uplink {
        devices: (0..8).collect(),
        to_device_gbs: 5.6,
        to_host_gbs: 5.6,
    }];
    let m2090 = Engine {
        name: "Tesla M2090".into(),
        memory: 5 * GIB,
        memory_gbs: 130.0,
        gemm_gflops: [800.0, 400.0, 820.0, 410.0],
        launch_ns: 10_000,
    };
    machine(
        "tesla",
        "8 Tesla M2090 in a chassis",
        vec![m2090; 8],
        topology,
    )
}

/// One device and its links to the host.
fn single(
    name: &'static str,
    title: &'static str,
    engine: Engine,
    (to_device, to_host): (Link, Link),
) -> Machine {
    machine(name, title, vec![engine], star(1, to_device, to_host))
}

/// A link whose copies take `slowdown` times as long while the other direction is busy.
fn slowed(latency_ns: u32, gbs: f64, slowdown: f64) -> Link {
    Link {
        latency_ns,
        gbs,
        duplex_factor: 1.0 / slowdown,
    }
}

/// Testbed I of CoCoPeLia (Anastasiadis et al. 2021, Tables II and III): a Tesla K40 on PCIe 2.0 x8.
fn testbed1() -> Machine {
    let links = (slowed(2_400, 3.15, 1.07), slowed(2_200, 3.29, 1.16));
    single("testbed1", "CoCoPeLia's testbed I, Tesla K40", k40(), links)
}

/// Testbed II of CoCoPeLia: a Tesla V100 on PCIe 3.0 x16, whose peak rates Table III prints.
fn testbed2() -> Machine {
    let v100 = Engine {
        name: "Tesla V100".into(),
        memory: 15 * GIB,
        memory_gbs: 800.0,
        gemm_gflops: [14_000.0, 7_000.0, 14_000.0, 7_000.0],
        launch_ns: 6_000,
    };
    let links = (slowed(2_500, 12.18, 1.27), slowed(2_500, 12.98, 1.41));
    single(
        "testbed2",
        "CoCoPeLia's testbed II, Tesla V100",
        v100,
        links,
    )
}

/// The GTX 680 of van Werkhoven et al. (2014): one copy engine, PCIe 2.0. The paper prints no rates of it.
fn gtx680() -> Machine {
    let gtx680 = Engine {
        name: "GeForce GTX 680".into(),
        memory: 1900 << 20,
        memory_gbs: 150.0,
        gemm_gflops: [1_500.0, 120.0, 1_550.0, 122.0],
        launch_ns: 8_000,
    };
    let link = slowed(10_000, 6.0, 2.0);
    single("gtx680", "GeForce GTX 680", gtx680, (link, link))
}

/// The GTX Titan of van Werkhoven et al.: one copy engine; the links' figures are those of Table I.
fn titan() -> Machine {
    let titan = Engine {
        name: "GeForce GTX Titan".into(),
        memory: 5900 << 20,
        memory_gbs: 230.0,
        gemm_gflops: [3_300.0, 1_200.0, 3_400.0, 1_230.0],
        launch_ns: 7_000,
    };
    let links = (slowed(9_420, 12.0, 2.0), slowed(9_020, 12.6, 2.0));
    single("titan", "GeForce GTX Titan", titan, links)
}

/// A host with one H100, as `semcache calibrate` measured it for this project.
fn h100() -> Machine {
    let h100 = Engine {
        name: "H100 80GB HBM3".into(),
        memory: 78 * GIB,
        memory_gbs: 3_071.0,
        gemm_gflops: [63_494.0, 68_210.0, 61_235.0, 64_274.0],
        launch_ns: 3_159,
    };
    let links = (slowed(4_039, 55.18, 1.242), slowed(2_998, 54.91, 1.082));
    single("h100", "NVIDIA H100", h100, links)
}

/// A host with `n` H200 behind NVSwitch, as measured for this project: page-locked copies 55.4 GB/s in each direction
/// and 101.7 GB/s in both together; all eight devices together 163 GB/s in and 85 GB/s out; 396 GB/s between any two.
fn h200(name: &'static str, title: &'static str, n: usize) -> Machine {
    let host = Link {
        latency_ns: 7_000,
        gbs: 55.4,
        duplex_factor: 0.92,
    };
    let mut topology = Topology::uniform(n, host, Link::new(9_000, 396.0));
    if n > 1 {
        topology.uplinks = vec![Uplink {
            devices: (0..n).collect(),
            to_device_gbs: 163.0,
            to_host_gbs: 85.0,
        }];
    }
    let h200 = Engine {
        name: "H200".into(),
        memory: 139 * GIB,
        memory_gbs: 4_516.0,
        gemm_gflops: [50_000.0, 60_000.0, 50_000.0, 60_000.0],
        launch_ns: 4_600,
    };
    machine(name, title, vec![h200; n], topology)
}
