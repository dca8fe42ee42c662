//! Predicted and measured times of calls.

use super::hand::{Hand, IN, OUT, id};
use crate::trace::model::{Did, Side, Trace, What};
use crate::trace::page::page;
use crate::trace::predicted::{Errors, calls, list};

/// The number of each call, its predicted and its measured microseconds.
fn times(trace: &Trace) -> Vec<(u64, u64, u64)> {
    let calls = calls(trace);
    let times = calls
        .iter()
        .map(|c| (c.id, c.predicted / 1000, c.measured() / 1000));
    times.collect()
}

#[test]
fn a_call_lasts_from_its_first_to_its_last_operation() {
    let trace = Hand::new(2)
        .call(1, (0, 100))
        .decided(1, 5, (90.0, 10.0))
        .op(id(0, IN, 1), What::Upload, 1, 10, (20, 40), &[])
        .kernel(1, 1, 30, (40, 60))
        .op(id(1, OUT, 1), What::Download, 1, 50, (60, 120), &[])
        // What a fault of the CPU asks for is not the call's.
        .slice(2, "load fault", (130, 160), Did::Fault)
        .op(id(0, OUT, 1), What::Download, 2, 131, (132, 150), &[])
        .done();
    assert_eq!(times(&trace), [(1, 80, 100)]);
    assert_eq!(
        (calls(&trace)[0].devices, calls(&trace)[0].error()),
        (2, 80.0 / 100.0 - 1.0)
    );
    assert_eq!(
        list(&trace),
        "call\troutine\tm\tn\tk\tdevices\tpredicted_s\tmeasured_s\tplanned_s\n\
         1\tdgemm\t8\t8\t8\t2\t0.000080000\t0.000100000\t0.000015000\n"
    );
}

#[test]
fn page_locking_before_the_first_operation_counts() {
    let trace = Hand::new(1)
        .slice(0, "pin", (1, 2), Did::Pin(4096))
        .call(1, (10, 100))
        .decided(1, 11, (50.0, 0.0))
        .slice(0, "pin", (20, 30), Did::Pin(4096))
        .kernel(1, 1, 30, (40, 60))
        .slice(0, "pin", (150, 160), Did::Pin(4096))
        .done();
    assert_eq!(times(&trace), [(1, 50, 40)]);
}

#[test]
fn only_calls_that_a_decision_sent_to_devices_count() {
    let small = crate::trace::model::Name::default();
    let trace = Hand::new(1)
        .slice(1, "dgemm", (0, 10), Did::Call(Side::Host(small), [8, 8, 8]))
        .decided(1, 1, (5.0, 0.0))
        .slice(2, "dgemm", (20, 30), Did::Call(Side::Replayed, [8, 8, 8]))
        .kernel(1, 2, 21, (22, 28))
        // Without operations that have times nothing was measured.
        .call(3, (40, 50))
        .decided(3, 41, (5.0, 0.0))
        .done();
    assert_eq!(times(&trace), []);
    assert_eq!(Errors::of(&calls(&trace)), None);
    assert!(!page(&trace).contains("Predicted"));
    assert_eq!(list(&trace).lines().count(), 1);
}

#[test]
fn the_page_has_the_longest_calls_and_all_errors() {
    let mut hand = Hand::new(1);
    // Call i takes 100 us and is predicted to take 100 + i; but the last takes 200 us.
    for i in 1..=20_u64 {
        let (from, to) = (1000 * i, 1000 * i + if i == 20 { 200 } else { 100 });
        hand = hand
            .call(i, (from, from + 50))
            .decided(i, from, (100.0 + i as f64, 0.0))
            .kernel(i, i, from, (from, to));
    }
    let trace = hand.done();
    let errors = Errors::of(&calls(&trace)).expect("calls");
    // 1 to 19 % and 40 %: the tenth and the eighteenth of twenty.
    assert!((errors.median - 0.10).abs() < 1e-9, "{errors:?}");
    assert!((errors.nine_tenths - 0.18).abs() < 1e-9, "{errors:?}");
    let page = page(&trace);
    let told: Vec<&str> = page.lines().filter(|l| l.contains("8 x 8 x 8")).collect();
    assert_eq!(told.len(), 10, "{page}");
    assert_eq!(
        told[0].split_whitespace().collect::<Vec<_>>().join(" "),
        "call 20 (dgemm) 8 x 8 x 8 1 120 us 200 us -40.0 %"
    );
    assert!(
        page.contains(
            "  (of 20 calls: the median error is 10.0 %, nine tenths are at most 18.0 % off)\n"
        ),
        "{page}"
    );
}
