//! Tests of the page, on traces and reports made by hand.

pub(super) mod check;
mod hostile;
mod large;
mod sums;
mod whole;

use semcache::runtime::report::Report;
use semcache::trace::OpId;

use super::given::{Given, Traced};
use crate::trace::model::{Did, Side, Trace, What};
use crate::trace::tests::hand::{Hand, IN, KERNEL, OUT, id};

/// The lane of copies from other devices.
const PEERS: u8 = 3;

/// Two devices and a thread, with a call on devices from 0 to 40 us, a wait in it, one decided for the host BLAS, and a fault.
fn trace() -> Trace {
    let mut hand = Hand::new(2);
    let small = hand.0.names.add("small");
    let first: [OpId; 2] = [id(0, IN, 1), id(1, PEERS, 1)];
    let mut trace = hand
        .call(1, (0, 40))
        .decided(1, 4, (100.0, 0.0))
        .slice(1, "wait", (10, 20), Did::Wait(first[0]))
        .slice(2, "ddot", (50, 52), Did::Call(Side::Host(small), [9, 1, 1]))
        .slice(3, "load fault", (80, 90), Did::Faulted)
        .op(first[0], What::Upload, 1, 5, (8, 20), &[])
        .op(first[1], What::Peer(0), 1, 6, (20, 30), &[])
        .op(id(0, OUT, 1), What::Download, 3, 80, (82, 90), &[])
        .op(id(0, KERNEL, 1), What::Kernel, 1, 7, (22, 60), &first[..1])
        .op(id(1, KERNEL, 1), What::Kernel, 1, 8, (30, 70), &first[1..])
        .done();
    trace.devices[0].evictions = vec![(25_000, 1 << 19)];
    trace.devices[0].memory = vec![(8_000, 1 << 20), (25_000, 1 << 19), (90_000, 0)];
    trace.summary = vec![("host.daxpy.small".to_owned(), 7)];
    trace.to = 100_000;
    trace
}

fn report() -> Report {
    Report::parse(
        r#"{"version":3,"processes":[{"pid":5,"rank":2,"command":"./prog 7","processes":1,"seconds":1.25,"ended":true}],
        "devices":[{"name":"sim0","kind":"sim","memory":1000000,"calls":3,"tasks":12,"h2d":1048576,
            "left_out":{"slower":5},"virtual_time":{"kernels_ns":2000}}],
        "calls":{"dgemm":{"offloaded":3,"host":5,"why_host":{"small":4,"a_reason_of_later":1}},
            "ddot":{"offloaded":0,"host":1,"why_host":{"aliased":1}}},
        "bytes":{"h2d":1048576,"d2h":24,"p2p":8,"saved":99000000},"faults":{"read":1,"write":2,"p50_us":1.5},
        "sampled":{"h2d_bytes":5000,"h2d_ns":1000,"kernels":3,"kernel_ns":9},"degraded":["no_gate","of_later"]}"#,
    )
    .expect("a report")
}

fn given(report: Option<Report>, traces: impl IntoIterator<Item = Trace>) -> Given {
    let traced = |trace| Traced {
        file: "t.pftrace".to_owned(),
        trace,
    };
    Given {
        reports: report.iter().map(|_| "r.json".to_owned()).collect(),
        report,
        traces: traces.into_iter().map(traced).collect(),
    }
}
