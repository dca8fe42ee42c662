//! What gaps are attributed to.

use super::hand::{Hand, IN, KERNEL, OUT, id};
use crate::trace::gaps::{Cause, chain, gaps, idle, parts};
use crate::trace::host::{Kind, host};
use crate::trace::model::{Did, Side, Trace, What};
use crate::trace::page::{gap_text, page};
use crate::trace::threads::{Doing, doings};

/// The causes of the only gap of device 0, with their beginnings and ends in microseconds.
fn causes(trace: &Trace) -> Vec<(Cause, u64, u64)> {
    let all = gaps(&trace.devices[0]);
    assert_eq!(all.len(), 1, "{all:?}");
    let parts = parts(trace, &all[0]);
    parts
        .iter()
        .map(|p| (p.cause, p.from / 1000, p.to / 1000))
        .collect()
}

fn text(trace: &Trace) -> String {
    gap_text(trace, &gaps(&trace.devices[0])[0])
}

#[test]
fn a_kernel_that_is_queued_late_waited_for_the_host() {
    let trace = Hand::new(1)
        .call(1, (0, 20))
        .call(2, (60, 100))
        .kernel(1, 1, 5, (10, 30))
        .kernel(2, 2, 80, (81, 90))
        .done();
    assert_eq!(
        causes(&trace),
        [(Cause::Host, 30, 80), (Cause::Launch, 80, 81)]
    );
    let did = doings(&trace.threads[0], 30_000, 80_000);
    assert_eq!(did[0], (Doing::Program, 30_000));
    assert!(matches!(did[1], (Doing::Call(2, _), 20_000)), "{did:?}");
    assert_eq!(
        text(&trace),
        "  from 0.000030 s, 51.0 us, device 0: ended by kernel dgemm (call 2), queued at 0.000080 s\n     \
           50.0 us  host: 30.0 us no call: the program computed; 20.0 us in call 2 (dgemm)\n     \
           1.00 us  launch: all that it waited for had completed, and the device had not begun it\n"
    );
}

#[test]
fn what_the_host_did_is_the_innermost_slice() {
    let mut hand = Hand::new(1);
    let small = hand.0.names.add("small");
    let trace = hand
        .kernel(1, 1, 1, (2, 10))
        .slice(3, "dger", (8, 12), Did::Call(Side::Host(small), [1, 1, 0]))
        .slice(4, "load fault", (20, 30), Did::Fault)
        .slice(4, "wait", (22, 29), Did::Wait(id(0, KERNEL, 1)))
        .call(5, (40, 80))
        .slice(0, "pin", (45, 75), Did::Pin(128 << 20))
        .kernel(2, 5, 78, (78, 90))
        .done();
    assert_eq!(causes(&trace), [(Cause::Host, 10, 78)]);
    let text = text(&trace);
    for part in [
        "30.0 us page-locked 128 MiB in call 5 (dgemm)",
        "18.0 us the host BLAS ran dger (small), or the program computed",
        "8.00 us in call 5 (dgemm)",
        "7.00 us waited in load fault 4 for kernel dgemm on device 0 (call 1)",
        "5.00 us in 2 more",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn a_kernel_waits_for_the_copy_that_completes_last() {
    for (what, cause) in [
        (What::Upload, Cause::Upload),
        (What::Peer(1), Cause::Peer),
        (What::Within, Cause::Within),
    ] {
        let after = [id(0, IN, 1), id(0, IN, 2)];
        let trace = Hand::new(1)
            .call(1, (0, 20))
            .kernel(1, 1, 0, (0, 10))
            .op(after[0], What::Download, 1, 1, (2, 20), &[])
            .op(after[1], what, 1, 2, (20, 50), &[])
            .op(id(0, KERNEL, 2), What::Kernel, 1, 15, (52, 60), &after)
            .done();
        assert_eq!(
            causes(&trace),
            [
                (Cause::Host, 10, 15),
                (cause, 15, 50),
                (Cause::Launch, 50, 52)
            ]
        );
    }
}

#[test]
fn downloads_and_kernels_of_other_devices_are_waited_for() {
    for (op, what, cause) in [
        (id(0, OUT, 1), What::Download, Cause::Download),
        (id(1, KERNEL, 1), What::Kernel, Cause::Kernel),
    ] {
        let trace = Hand::new(2)
            .kernel(1, 1, 0, (0, 10))
            .op(op, what, 1, 2, (5, 40), &[])
            .op(id(0, KERNEL, 2), What::Kernel, 1, 4, (40, 60), &[op])
            .done();
        assert_eq!(causes(&trace), [(cause, 10, 40)]);
    }
}

#[test]
fn an_operation_that_is_not_in_the_trace_is_named() {
    let trace = Hand::new(1)
        .kernel(1, 1, 0, (0, 10))
        .op(
            id(0, KERNEL, 2),
            What::Kernel,
            1,
            4,
            (40, 60),
            &[id(0, IN, 9)],
        )
        .done();
    assert_eq!(causes(&trace), [(Cause::Unknown, 10, 40)]);
    assert!(text(&trace).contains("operation 9 of copies in, device 0, whose times"));
}

#[test]
fn the_chain_is_followed_three_steps() {
    let mut hand = Hand::new(1).kernel(1, 1, 0, (0, 10));
    for seq in 1..=6 {
        hand = hand.op(
            id(0, IN, seq),
            What::Upload,
            seq,
            1,
            (seq * 10, seq * 10 + 10),
            &[],
        );
    }
    let last = id(0, IN, 6);
    let trace = hand
        .op(id(0, KERNEL, 2), What::Kernel, 9, 2, (70, 80), &[last])
        .done();
    let links = chain(&trace, last, 10_000);
    assert_eq!(links, [6, 5, 4, 3].map(|seq| id(0, IN, seq)));
    // Upload 4 ended when the time in question began.
    assert_eq!(chain(&trace, last, 50_000).len(), 2);
    let text = text(&trace);
    assert!(
        text.contains(
            "upload of 1 MiB (call 6), itself queued at 0.000001 s, which ran from 0.000060 s to 0.000070 s; \
             before, that waited for upload of 1 MiB (call 5)"
        ),
        "{text}"
    );
}

#[test]
fn operations_that_wait_for_each_other_end_the_chain() {
    let (a, b) = (id(0, IN, 5), id(0, OUT, 5));
    let trace = Hand::new(1)
        .op(a, What::Upload, 1, 0, (10, 30), &[b])
        .op(b, What::Download, 1, 0, (10, 30), &[a])
        .done();
    assert_eq!(chain(&trace, a, 0), [a]);
}

#[test]
fn the_first_gap_is_from_the_first_operation_to_the_first_kernel() {
    let up = id(0, IN, 1);
    let trace = Hand::new(1)
        .op(up, What::Upload, 1, 0, (5, 25), &[])
        .op(id(0, KERNEL, 1), What::Kernel, 1, 1, (25, 30), &[up])
        .done();
    assert_eq!(causes(&trace), [(Cause::Upload, 5, 25)]);
}

#[test]
fn overlapping_kernels_leave_no_gap() {
    let trace = Hand::new(1)
        .kernel(1, 1, 0, (0, 50))
        .kernel(2, 1, 0, (10, 20))
        .kernel(3, 1, 0, (50, 60))
        .done();
    assert!(gaps(&trace.devices[0]).is_empty());
}

#[test]
fn without_kernels_there_are_no_gaps() {
    let trace = Hand::new(1)
        .op(id(0, IN, 1), What::Upload, 0, 0, (0, 9), &[])
        .done();
    assert!(gaps(&trace.devices[0]).is_empty());
    assert!(!page(&trace).contains("without a kernel"));
}

#[test]
fn idle_time_is_the_sum_of_the_parts() {
    let trace = Hand::new(1)
        .call(1, (0, 9))
        .kernel(1, 1, 0, (0, 10))
        .kernel(2, 1, 30, (35, 40))
        .kernel(3, 1, 20, (41, 50))
        .done();
    let gaps = gaps(&trace.devices[0]);
    let sums = idle(&trace, &gaps);
    assert_eq!(sums[Cause::Host as usize], 20_000);
    assert_eq!(sums[Cause::Launch as usize], 6_000);
    assert_eq!(sums.iter().sum::<u64>(), 26_000);
}

#[test]
fn the_hosts_time_is_told_by_what_its_thread_did() {
    let mut hand = Hand::new(2);
    let small = hand.0.names.add("small");
    let trace = hand
        .kernel(1, 1, 0, (0, 10))
        .slice(3, "dger", (14, 16), Did::Call(Side::Host(small), [1, 1, 0]))
        .call(5, (40, 200))
        .slice(0, "pin", (45, 75), Did::Pin(128 << 20))
        .kernel(2, 5, 78, (79, 90))
        .slice(5, "wait", (95, 105), Did::Wait(id(0, KERNEL, 2)))
        .kernel(3, 5, 100, (102, 110))
        // Queued before the gap: no time of the host's.
        .kernel(4, 5, 80, (111, 112))
        // The gap of the other device lies in the same time of the same thread.
        .op(id(1, KERNEL, 1), What::Kernel, 5, 0, (5, 10), &[])
        .op(id(1, KERNEL, 2), What::Kernel, 5, 60, (60, 70), &[])
        .done();
    let of = |device: usize| {
        let sums = host(&trace, &gaps(&trace.devices[device]));
        let told = Kind::ALL
            .into_iter()
            .map(|kind| (kind, sums[kind as usize] / 1000));
        told.filter(|(_, us)| *us > 0).collect::<Vec<_>>()
    };
    assert_eq!(
        of(0),
        [
            (Kind::Program, 4),
            (Kind::HostBlas, 24),
            (Kind::Call, 2 + 5 + 3 + 5),
            (Kind::Wait, 5),
            (Kind::PageLock, 30),
        ]
    );
    assert_eq!(
        of(1),
        [
            (Kind::Program, 4),
            (Kind::HostBlas, 24),
            (Kind::Call, 2 + 5),
            (Kind::PageLock, 15),
        ]
    );
    let idle: u64 = idle(&trace, &gaps(&trace.devices[0]))[Cause::Host as usize];
    assert_eq!(idle, (4 + 24 + 15 + 5 + 30) * 1000);
    let page = page(&trace);
    assert!(page.contains("Of it the host's time"), "{page}");
    assert!(
        page.contains("host BLAS or program  in calls  waiting"),
        "{page}"
    );
}
