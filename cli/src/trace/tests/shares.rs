//! Sums over lanes, threads and the whole trace.

use super::hand::{Hand, IN, id};
use crate::trace::model::{Did, Slice, Thread, What};
use crate::trace::page::{first_line, page};
use crate::trace::shares::{lanes, span, threads, totals};

#[test]
fn lanes_are_busy_while_an_operation_runs() {
    let trace = Hand::new(1)
        .op(id(0, IN, 1), What::Upload, 1, 0, (0, 10), &[])
        .op(id(0, IN, 2), What::Upload, 1, 0, (5, 20), &[])
        .op(id(0, IN, 3), What::Peer(1), 1, 0, (30, 40), &[])
        .kernel(1, 1, 0, (40, 60))
        .done();
    assert_eq!(span(&trace), Some((0, 60_000)));
    let shares = lanes(&trace);
    let of = |lane: usize| {
        (
            shares[lane].operations,
            shares[lane].busy,
            shares[lane].bytes,
        )
    };
    assert_eq!(of(0), (3, 30_000, Some(3 << 20)));
    assert_eq!(of(1), (0, 0, None));
    assert_eq!(of(2), (1, 20_000, None));
    let page = page(&trace);
    assert!(page.contains("50.0 %") && page.contains("104.9"), "{page}");
}

#[test]
fn a_wait_counts_where_it_lies_in_a_call() {
    let op = id(0, IN, 1);
    let trace = Hand::new(1)
        .call(1, (0, 10))
        .slice(1, "wait", (4, 7), Did::Wait(op))
        .slice(2, "load fault", (20, 30), Did::Fault)
        .slice(2, "wait", (21, 29), Did::Wait(op))
        .done();
    let share = &threads(&trace)[0];
    assert_eq!(
        (share.calls, share.in_calls, share.waiting),
        (1, 10_000, 3_000)
    );
    assert_eq!((share.faults, share.in_faults), (1, 10_000));
}

#[test]
fn the_first_line_says_what_is_missing() {
    let mut trace = Hand::new(1)
        .call(1, (0, 1000))
        .op(id(0, IN, 1), What::Upload, 1, 0, (0, 10), &[])
        .done();
    assert_eq!(
        first_line(&trace, &totals(&trace)),
        "1.00 ms of prog; 1 call: 1 on devices, 0 replayed there, 0 on the host BLAS; \
         1 MiB up, 0 B down, 0 B between devices; 0 faults"
    );
    trace.summary = [
        ("host.dgemm.small", 41),
        ("dropped.upload", 2),
        ("dropped_bytes.upload", 4096),
        ("dropped.ran", 0),
    ]
    .map(|(name, n)| (name.to_owned(), n))
    .into();
    trace.devices[0].lanes[0].untimed = vec![(What::Upload, 1 << 20), (What::Peer(1), 4096)];
    trace.devices[0].lanes[2].untimed = vec![(What::Kernel, 7)];
    trace.unfinished = 4;
    trace.cut_off = true;
    let line = first_line(&trace, &totals(&trace));
    assert!(
        line.contains("2 MiB up, 0 B down, 4 KiB between devices"),
        "{line}"
    );
    let shares = lanes(&trace);
    let of = |lane: usize| {
        (
            shares[lane].operations,
            shares[lane].untimed,
            shares[lane].bytes,
        )
    };
    assert_eq!(of(0), (1, 2, Some((2 << 20) + 4096)));
    assert_eq!(shares[0].copied, (1 << 20, 10_000));
    assert_eq!(of(2), (0, 1, None));
    assert!(line.contains("42 calls: 1 on devices, 0 replayed there, 41 on the host BLAS"));
    assert!(
        line.ends_with(
            "0 faults; dropped for want of room: 2 upload (4 KiB); 3 operations without times; 4 unfinished; \
             cut off: the file ends before its summary"
        ),
        "{line}"
    );
}

#[test]
fn of_many_threads_the_busiest_have_lines() {
    let mut hand = Hand::new(1).call(1, (0, 1000));
    let first = hand.0.threads[0].slices[0];
    for us in 1..=30 {
        let call = Slice {
            to: u64::from(us) * 1000,
            ..first
        };
        hand.0.threads.push(Thread {
            tid: 100 + us,
            slices: vec![call],
            ..Thread::default()
        });
    }
    let page = page(&hand.done());
    // The first thread and those from 112 on.
    for (tid, told) in [
        (7, true),
        (130, true),
        (112, true),
        (111, false),
        (101, false),
    ] {
        assert_eq!(page.contains(&format!("  {tid} ")), told, "{tid} in {page}");
    }
    assert!(
        page.contains("  and 11 more threads with 11 calls, 66.0 us in calls"),
        "{page}"
    );
}
