//! When results are written back ahead of the CPU's access.

use super::*;

const BIG: usize = 64 << 20;

fn rect(len: usize) -> Rect {
    Rect::interval(0, len)
}

/// One round of `writes` results of `len` bytes, then an access of the CPU to `looked` bytes; returns what was
/// decided for each result.
fn round(h: &mut Results, writes: u32, len: usize, looked: usize) -> Vec<Push> {
    let pushes = (0..writes).map(|_| h.push(&rect(len), true)).collect();
    h.touched(looked);
    pushes
}

#[test]
fn old_habits_are_forgotten_on_the_host() {
    let mut h = Results::NONE;
    for patience in [PATIENCE, 2 * PATIENCE] {
        h.push(&rect(BIG), true);
        h.touched(BIG);
        for _ in 1..patience {
            h.sent_to_host(true);
            assert!((h.read_back() - 1.0).abs() < 1e-9);
        }
        h.sent_to_host(true);
        assert!(h.read_back().abs() < 1e-9);
    }
}

#[test]
fn rounds_that_agree_become_a_habit() {
    use Push::{Awaited, No, Streamed};
    let mut h = Results::NONE;
    for _ in 0..2 {
        assert_eq!(round(&mut h, 2, BIG, BIG), [No, No]);
    }
    assert!(h.read_back().abs() < 1e-9, "not the first of a round");
    assert_eq!(round(&mut h, 2, BIG, BIG), [No, Streamed]);
    assert_eq!(h.push(&rect(BIG), true), No);
    assert!((h.read_back() - 1.0).abs() < 1e-9, "but the second");
    let mut h = Results::NONE;
    for _ in 0..2 {
        assert_eq!(round(&mut h, 1, 4096, 4096), [No]);
    }
    assert_eq!(round(&mut h, 1, 4096, 4096), [Awaited]);
    assert_eq!(round(&mut h, 1, BIG, BIG), [Streamed]);
}

#[test]
fn one_result_for_nothing_ends_it() {
    use Push::{No, Streamed};
    let mut h = Results::NONE;
    for _ in 0..5 {
        round(&mut h, 1, BIG, BIG);
    }
    assert_eq!(h.push(&rect(BIG), true), Streamed);
    for _ in 0..20 {
        assert_eq!(h.push(&rect(BIG), true), No);
    }
    // After a write-back that was not accessed, more rounds must agree.
    h.touched(BIG);
    let mut rounds = 0;
    while round(&mut h, 1, BIG, BIG) == [No] {
        rounds += 1;
    }
    assert_eq!(rounds, 4);
}

#[test]
fn another_number_of_results_is_another_habit() {
    use Push::{No, Streamed};
    let mut h = Results::NONE;
    for _ in 0..4 {
        round(&mut h, 3, BIG, BIG);
    }
    // Fewer results than usual in a round: the CPU's access shows it, and no write-back was in vain.
    assert_eq!(round(&mut h, 1, BIG, BIG), [No]);
    assert_eq!(round(&mut h, 1, BIG, BIG), [No]);
    assert_eq!(round(&mut h, 1, BIG, BIG), [Streamed]);
    // Rounds that never agree: no write-back.
    let mut h = Results::NONE;
    for i in 0..20 {
        let writes = 1 + i % 3;
        assert!(
            round(&mut h, writes, BIG, BIG).iter().all(|p| *p == No),
            "{i}"
        );
    }
    assert!(h.read_back() > 0.3 && h.read_back() < 0.7);
}

#[test]
fn a_look_at_a_corner_is_no_look() {
    let mut h = Results::NONE;
    for _ in 0..10 {
        assert_eq!(round(&mut h, 1, BIG, BIG / 16), [Push::No]);
    }
    // Elements far apart are not copied one by one.
    let strided = Rect::new(0, 8, 4096, 100);
    let mut h = Results::NONE;
    for _ in 0..10 {
        assert_eq!(h.push(&strided, true), Push::No);
        h.touched(BIG);
    }
}

#[test]
fn what_nobody_sees_is_looked_after() {
    let mut h = Results::NONE;
    for _ in 0..2 {
        round(&mut h, 1, 4096, 4096);
    }
    // Results that are readable when the call returns, and that the CPU never reads.
    let pushes: Vec<Push> = (0..2 * PROBE).map(|_| h.push(&rect(4096), true)).collect();
    let landed = pushes.iter().filter(|p| **p == Push::Awaited).count();
    assert_eq!(landed, PROBE as usize - 1);
    assert_eq!(pushes.iter().filter(|p| **p == Push::Streamed).count(), 1);
    assert_eq!(pushes.last(), Some(&Push::No));
}

#[test]
fn what_devices_read_again_stays_there() {
    let small = rect(4096);
    let mut h = Results::NONE;
    for _ in 0..FOR_CPU {
        assert!(!h.is_for_cpu(&small));
        round(&mut h, 1, 4096, 4096);
    }
    assert!(h.is_for_cpu(&small));
    // One that is too large is not waited for.
    assert!(!h.is_for_cpu(&rect(BIG)));
    h.read_by_device();
    for _ in 0..FOR_CPU {
        assert!(!h.is_for_cpu(&small));
        round(&mut h, 1, 4096, 4096);
    }
    assert!(
        !h.is_for_cpu(&small),
        "the first of these ended the use by a device"
    );
    round(&mut h, 1, 4096, 4096);
    assert!(h.is_for_cpu(&small));
}
