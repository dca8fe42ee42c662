//! The numbers behind the charts.

use super::{report, trace};
use crate::html::links::{End, Moved, links};
use crate::html::moved::sums;
use crate::html::residency::in_use;
use crate::html::tests::given;
use crate::html::text::{count, percent, printable};
use crate::html::time::{Share, device_shares, thread_shares};
use crate::trace::model::What;

const MIB: u64 = 1 << 20;

/// The parts that are not empty, in microseconds.
fn told(shares: Vec<Share>) -> Vec<(&'static str, u64)> {
    let shares = shares.into_iter().filter(|(.., ns)| *ns > 0);
    shares.map(|(_, what, ns)| (what, ns / 1000)).collect()
}

#[test]
fn the_time_of_a_device_adds_up() {
    let trace = trace();
    // From 8 to 90 us.
    let shares = device_shares(&trace, &trace.devices[0], 82_000);
    assert_eq!(shares.iter().map(|(.., ns)| ns).sum::<u64>(), 82_000);
    assert_eq!(
        told(shares),
        [
            ("kernels", 38),
            ("waited for uploads", 12),
            ("began the next kernel", 2),
            ("before its first operation, or after its last kernel", 30),
        ]
    );
}

#[test]
fn the_time_of_a_thread_adds_up() {
    let trace = trace();
    let shares = thread_shares(&trace.threads[0], &trace);
    assert_eq!(
        told(shares),
        [
            ("deciding where calls run", 4 + 2),
            ("planning and queueing", 6 + 20),
            ("waiting for devices", 10),
            ("waiting at page faults", 10),
            ("host BLAS, or the program after it", 28 + 10),
            ("program, in no call", 10),
        ]
    );
}

#[test]
fn what_was_moved_is_the_sum_up_to_each_moment() {
    let mut trace = trace();
    trace.devices[0].lanes[0].untimed.push((What::Upload, 77));
    let sums = sums(&trace, &trace.devices[0], 10);
    let zeros = |n: usize| vec![0; n];
    let then = |n: usize, value: u64| [zeros(n), vec![value; 11 - n]].concat();
    assert_eq!(sums.uploaded, then(2, MIB));
    assert_eq!(sums.from_peers, zeros(11));
    assert_eq!(sums.written_back, then(9, MIB));
    assert_eq!(sums.evicted, then(3, MIB / 2));
    assert_eq!(sums.untimed, 77);
}

#[test]
fn memory_in_use_is_the_most_since_the_moment_before() {
    let mut trace = trace();
    let (whole, half) = (MIB, MIB / 2);
    let expected = [[0].as_slice(), &[whole; 3], &[half; 6], &[0]].concat();
    assert_eq!(in_use(&trace, &trace.devices[0], 10), expected);
    // What is over within a moment is seen, and what came before the trace and after it.
    trace.devices[0].memory = vec![(31_000, 5), (32_000, 9), (33_000, 2), (u64::MAX, 7)];
    let expected = [[0; 4].as_slice(), &[9], &[2; 5], &[7]].concat();
    assert_eq!(in_use(&trace, &trace.devices[0], 10), expected);
    trace.devices[0].memory.clear();
    assert_eq!(in_use(&trace, &trace.devices[0], 10), [0; 11]);
}

#[test]
fn links_have_both_directions() {
    let mut trace = trace();
    trace.devices[1].lanes[0].untimed.push((What::Upload, 9));
    let moved = |bytes, timed, busy| Moved {
        copies: 1,
        bytes,
        timed,
        busy,
    };
    let all: Vec<_> = links(&trace).into_iter().collect();
    assert_eq!(
        all,
        [
            ((End::Host, End::Device(0)), moved(MIB, MIB, 12_000)),
            ((End::Host, End::Device(1)), moved(9, 0, 0)),
            ((End::Device(0), End::Host), moved(MIB, MIB, 8_000)),
            ((End::Device(0), End::Device(1)), moved(MIB, MIB, 10_000)),
        ]
    );
}

#[test]
fn calls_are_those_of_the_report_or_of_the_traces() {
    let calls = given(None, [trace(), trace()]).calls();
    assert_eq!((calls["dgemm"].offloaded, calls["ddot"].host), (2, 2));
    assert_eq!(calls["daxpy"].why_host["small"], 14);
    assert_eq!(given(Some(report()), [trace()]).calls(), report().sum.calls);
}

#[test]
fn numbers_for_people() {
    assert_eq!([0, 999, 1000].map(count), ["0", "999", "1\u{202f}000"]);
    assert_eq!(
        count(u64::MAX),
        "18 446 744 073 709 551 615".replace(' ', "\u{202f}")
    );
    assert_eq!(
        [0.0, 0.0001, 0.05, 0.5].map(percent),
        ["0.0 %", "< 0.1 %", "5.0 %", "50 %"]
    );
    assert_eq!(
        printable("a\x1b[1m\n\u{9b}\u{202e}é"),
        "a␛[1m␊\u{fffd}\u{fffd}é"
    );
}
