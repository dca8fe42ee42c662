//! Counters belong to the process, so these tests run in a process of their own, one at a time.
#![allow(
    clippy::disallowed_methods,
    reason = "a test program, not the library in a user's process"
)]

use std::sync::{Mutex, PoisonError};

use semcache::base::counters::{
    COUNTERS, Degraded, MAX_ROUTINES, PAGE, Values, WhyHost, degrade, host, offloaded, reset,
};

static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn threads_lose_nothing_and_reset_forgets() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    reset();
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                for _ in 0..1000 {
                    host(3, WhyHost::Small);
                    host(MAX_ROUTINES - 1, WhyHost::Empty);
                    offloaded(3);
                    COUNTERS.bytes.h2d.add(8);
                }
            });
        }
    });
    host(MAX_ROUTINES, WhyHost::Small);
    offloaded(usize::MAX);
    COUNTERS.bytes.per_call.add(10);
    let all = PAGE.calls.calls(&["a", "b", "c", "dgemm"]);
    assert_eq!(all.len(), 2);
    assert_eq!(all["dgemm"].offloaded, 4000);
    assert_eq!(all["dgemm"].why_host, [("small".to_owned(), 4000)].into());
    assert_eq!(all[&format!("routine{}", MAX_ROUTINES - 1)].host, 4000);
    let bytes = COUNTERS.values().bytes;
    assert_eq!((bytes.h2d, bytes.per_call), (32000, 10));
    assert!(degrade(Degraded::MapLimit));
    assert!(!degrade(Degraded::MapLimit));
    assert_eq!(PAGE.degraded.all(), [Degraded::MapLimit]);
    reset();
    assert!(PAGE.calls.calls::<&str>(&[]).is_empty() && PAGE.degraded.all().is_empty());
    assert_eq!(COUNTERS.values(), Values::default());
}

#[test]
fn one_name_is_one_entry() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    reset();
    offloaded(0);
    host(1, WhyHost::Never);
    host(1, WhyHost::Small);
    host(0, WhyHost::Never);
    let all = PAGE.calls.calls(&["ddot", "ddot"]);
    assert_eq!(all.len(), 1);
    assert_eq!(all["ddot"].offloaded, 1);
    let why = [("never", 2), ("small", 1)].map(|(why, n)| (why.to_owned(), n));
    assert_eq!(all["ddot"].why_host, why.into());
    reset();
}
