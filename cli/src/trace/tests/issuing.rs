//! The time in which a call's tasks are queued.

use super::hand::{Hand, IN, OUT, id};
use crate::trace::issuing::{Issued, calls};
use crate::trace::model::{Did, What};
use crate::trace::page::page;

#[test]
fn the_rest_of_a_call_is_the_runtimes_own() {
    // Each operation takes the machine 1 us to queue.
    let trace = Hand::new(1)
        .call(1, (0, 100))
        .slice(0, "pin", (10, 20), Did::Pin(4096))
        .op(id(0, IN, 1), What::Upload, 1, 22, (23, 40), &[])
        .kernel(1, 1, 30, (40, 60))
        .slice(1, "wait", (31, 71), Did::Wait(id(0, IN, 1)))
        .kernel(2, 1, 72, (73, 80))
        .kernel(3, 1, 90, (91, 130))
        // A fault of the CPU, and what an earlier trace of this call number queued outside of it.
        .slice(2, "load fault", (110, 140), Did::Fault)
        .op(id(0, OUT, 1), What::Download, 2, 131, (132, 139), &[])
        .op(id(0, OUT, 2), What::Download, 1, 150, (151, 152), &[])
        .done();
    let expected = Issued {
        id: 1,
        sizes: [8; 3],
        kernels: 3,
        copies: 1,
        in_flight: 1,
        machine: 4000,
        own: (100 - 10 - 40 - 4) * 1000,
    };
    assert_eq!(calls(&trace, 3), [expected]);
    assert_eq!(calls(&trace, 4), []);
    // The page tells of calls with many kernels only.
    assert!(!page(&trace).contains("Queueing"));
}

#[test]
fn the_page_has_the_calls_with_most_kernels() {
    let mut hand = Hand::new(1).call(1, (0, 384));
    for i in 1..=64 {
        hand = hand.kernel(i, 1, 5 * i, (1000 + i, 1001 + i));
    }
    let page = page(&hand.done());
    let told: Vec<&str> = page.lines().filter(|l| l.contains("8 x 8 x 8")).collect();
    assert_eq!(told.len(), 1, "{page}");
    assert_eq!(
        told[0].split_whitespace().collect::<Vec<_>>().join(" "),
        "call 1 (dgemm) 8 x 8 x 8 64 0 64 5.00 us 1.00 us"
    );
}
