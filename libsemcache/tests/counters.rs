//! The counters are the process's, so these tests have a process of their own and run one at a time.
#![allow(
    clippy::disallowed_methods,
    reason = "a test program, not the library in somebody's process"
)]

use std::sync::{Mutex, PoisonError};

use semcache::base::counters::{
    COUNTERS, Degraded, MAX_ROUTINES, WhyHost, degrade, host, offloaded, reset, snapshot,
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
                    COUNTERS.h2d.add(8);
                }
            });
        }
    });
    host(MAX_ROUTINES, WhyHost::Small);
    offloaded(usize::MAX);
    COUNTERS.per_call.add(10);
    let s = snapshot(&["a", "b", "c", "dgemm"]);
    assert_eq!(s.calls.len(), 2);
    assert_eq!(s.calls[0].name, "dgemm");
    assert_eq!(s.calls[0].offloaded, 4000);
    assert_eq!(s.calls[0].why_host, [(WhyHost::Small, 4000)]);
    assert_eq!(s.calls[1].name, format!("routine{}", MAX_ROUTINES - 1));
    assert_eq!(s.calls[1].host(), 4000);
    assert_eq!((s.h2d, s.saved()), (32000, 10 - 32000));
    assert!(degrade(Degraded::MapLimit));
    assert!(!degrade(Degraded::MapLimit));
    assert_eq!(snapshot::<&str>(&[]).degraded, [Degraded::MapLimit]);
    reset();
    assert!(snapshot::<&str>(&[]).is_empty());
}

#[test]
fn one_name_is_one_entry() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    reset();
    offloaded(0);
    host(1, WhyHost::Never);
    host(1, WhyHost::Small);
    host(0, WhyHost::Never);
    let s = snapshot(&["ddot", "ddot"]);
    assert_eq!(s.calls.len(), 1);
    assert_eq!(s.calls[0].offloaded, 1);
    assert_eq!(
        s.calls[0].why_host,
        [(WhyHost::Small, 1), (WhyHost::Never, 2)]
    );
    reset();
}
