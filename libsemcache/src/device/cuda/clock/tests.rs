//! The clock on a made-up device, whose clock has another origin and another rate than the host's.

use std::cell::Cell;

use super::*;

/// A device of which the host's clock, in nanoseconds, is known exactly. An event is its time by the device's clock, in
/// nanoseconds.
struct Made {
    host: Cell<u64>,
    /// Nanoseconds that the device's clock gains per second.
    gain: i64,
    /// The time that the host waits for a mark; the event lies at its beginning, its middle or its end in turn.
    wait: u64,
    marks: u64,
    returned: Vec<i64>,
    works: bool,
}

impl Made {
    fn new(gain: i64) -> Made {
        Made {
            host: Cell::new(5_000_000_000_000),
            gain,
            wait: 8_000,
            marks: 0,
            returned: Vec::new(),
            works: true,
        }
    }

    /// The device's clock at a time of the host's.
    fn device(&self, host: u64) -> i64 {
        let host = i64::try_from(host).unwrap();
        77_000 + host + host / 1_000_000 * self.gain / 1000
    }

    fn milliseconds(from: i64, to: i64) -> f32 {
        ((to - from) as f64 / 1e6) as f32
    }
}

impl Device for Made {
    type Event = i64;

    fn mark(&mut self) -> Option<Marked<i64>> {
        self.marks += 1;
        // No two events have the same time.
        let before = self.host.get() + 100;
        // The widths differ, and the last one is not the smallest.
        let width = self.wait + self.marks % 3 * 1000;
        self.host.set(before + width);
        self.works.then(|| Marked {
            event: self.device(before + width * (self.marks % 3) / 2),
            before,
            after: before + width,
        })
    }

    fn unmark(&mut self, event: i64) {
        self.returned.push(event);
    }

    fn elapsed(&self, from: i64, to: i64) -> Option<f32> {
        Some(Made::milliseconds(from, to))
    }

    fn now(&self) -> u64 {
        self.host.get()
    }
}

/// The span that the clock tells of an operation that runs from now on for `length`.
fn told(clock: &mut Clock<Made>, length: u64) -> ((u64, u64), (u64, u64)) {
    let reference = clock.reference().unwrap();
    let host = clock.device.host.get();
    let (start, end) = (
        clock.device.device(host),
        clock.device.device(host + length),
    );
    clock.device.host.set(host + length);
    let elapsed = |from, to| Some(Made::milliseconds(from, to));
    let span = reference.span(elapsed, start, end).unwrap();
    ((host, host + length), span)
}

#[test]
fn milliseconds_become_nanoseconds() {
    assert_eq!(nanoseconds(1.5), Some(1_500_000));
    assert_eq!(nanoseconds(-0.001), Some(-1000));
    assert_eq!(nanoseconds(f32::NAN), None);
    assert_eq!(nanoseconds(f32::INFINITY), None);
}

#[test]
fn operations_are_told_by_the_hosts_clock_across_many_references() {
    // 50 millionths: the worst that clocks of computers differ by.
    for gain in [0, 50_000, -50_000] {
        let mut clock = Clock::new(Made::new(gain));
        let mut before: Option<(u64, u64)> = None;
        for step in 0..400_u64 {
            let (true_span, span) = told(&mut clock, 2_000_000 + step);
            // Half the wait for a mark, and the drift of a second.
            let error = true_span.0.abs_diff(span.0);
            assert!(error < 70_000, "gain {gain}, step {step}: {error} ns");
            assert!((span.1 - span.0).abs_diff(2_000_000 + step) < 200);
            if let Some(before) = before {
                // The true distance is 50 ms; a new reference moves times by the drift of a second at most.
                let moved = (span.0 - before.1).abs_diff(50_000_000);
                assert!(
                    moved < 100_000,
                    "gain {gain}, step {step}: moved by {moved} ns"
                );
            }
            before = Some(span);
            clock.device.host.set(clock.device.host.get() + 50_000_000);
        }
        let seconds = 400 * 52 / 1000;
        let searches = clock.device.marks / TRIES as u64;
        assert!(
            (seconds * 9 / 10..=seconds + 1).contains(&searches),
            "{searches}"
        );
    }
}

#[test]
fn clocks_of_the_same_rate_stay_where_the_first_reference_put_them() {
    let mut clock = Clock::new(Made::new(0));
    let (true_span, span) = told(&mut clock, 1000);
    let first = span.0.cast_signed() - true_span.0.cast_signed();
    for _ in 0..50 {
        clock
            .device
            .host
            .set(clock.device.host.get() + 1_100_000_000);
        let (true_span, span) = told(&mut clock, 1000);
        let offset = span.0.cast_signed() - true_span.0.cast_signed();
        // Chained over 50 references, each rounded to 24 bits of a millisecond number.
        assert!((offset - first).abs() < 4000, "{offset} {first}");
    }
}

#[test]
fn the_closest_readings_win_and_the_time_agrees_with_them() {
    let marked = Marked {
        event: (),
        before: 1000,
        after: 1100,
    };
    assert_eq!(marked.time(None), (1050, 50));
    assert_eq!(marked.time(Some(1020)), (1020, 80));
    assert_eq!(marked.time(Some(900)), (1000, 100));
    assert_eq!(marked.time(Some(5000)), (1100, 100));
    let mut clock = Clock::new(Made::new(0));
    let reference = clock.reference().unwrap();
    // Of five marks, the third has the smallest width; the events of the others are given back.
    assert_eq!(clock.device.marks, TRIES as u64);
    assert_eq!(clock.device.returned.len(), TRIES - 1);
    assert!(!clock.device.returned.contains(&reference.event));
}

#[test]
fn a_reference_is_kept_while_an_operation_needs_it() {
    let mut clock = Clock::new(Made::new(0));
    let held = clock.reference().unwrap();
    for _ in 0..3 {
        clock
            .device
            .host
            .set(clock.device.host.get() + 2 * LONGEST_NS);
        let newer = clock.reference().unwrap();
        assert_ne!(newer.event, held.event);
        assert!(!clock.device.returned.contains(&held.event));
    }
    let event = held.event;
    drop(held);
    clock
        .device
        .host
        .set(clock.device.host.get() + 2 * LONGEST_NS);
    let _ = clock.reference().unwrap();
    assert!(clock.device.returned.contains(&event));
    assert!(clock.former.len() <= 1);
}

#[test]
fn without_a_reference_nothing_is_timed_and_the_search_is_not_repeated_at_once() {
    let mut clock = Clock::new(Made::new(0));
    clock.device.works = false;
    assert!(clock.reference().is_none());
    assert!(clock.reference().is_none());
    assert_eq!(clock.device.marks, 1);
    clock.device.works = true;
    clock
        .device
        .host
        .set(clock.device.host.get() + 2 * LONGEST_NS);
    assert!(clock.reference().is_some());
}
