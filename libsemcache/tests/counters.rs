//! Counters belong to the process, so these tests run in a process of their own, one at a time.
#![allow(
    clippy::disallowed_methods,
    reason = "a test program, not the library in a user's process"
)]

use std::sync::{Mutex, PoisonError};

use semcache::base::counters::{
    COUNTERS, Degraded, Kind, MAX_ROUTINES, PAGE, SPARSE, Values, WhyHost, degrade, host, offloaded,
};
use semcache::runtime::counted::forget as reset;
use semcache_fault::latency::FAULTS;

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
    let all = PAGE.calls.calls(&["a", "b", "c", "dgemm"], &PAGE.sites);
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
    assert!(
        PAGE.calls.calls::<&str>(&[], &PAGE.sites).is_empty() && PAGE.degraded.all().is_empty()
    );
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
    let all = PAGE.calls.calls(&["ddot", "ddot"], &PAGE.sites);
    assert_eq!(all.len(), 1);
    assert_eq!(all["ddot"].offloaded, 1);
    let why = [("never", 2), ("small", 1)].map(|(why, n)| (why.to_owned(), n));
    assert_eq!(all["ddot"].why_host, why.into());
    reset();
}

#[test]
fn reset_forgets_everything() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    reset();
    PAGE.quick.set(true);
    PAGE.identity.pid.set(7);
    PAGE.identity.command.set(b"a program");
    PAGE.devices[63].name.set(b"a device");
    PAGE.devices[63].h2d.add(1);
    PAGE.sites.tell(3, 7, 0x1000);
    let found = PAGE.sites.find(5, Kind::Load, 1, 2, &String::new);
    PAGE.matrices.find(0x10_0000).expect("room").calls.add(2);
    PAGE.objects
        .tell([(0x1000, 0x2000, 0, &b"/a"[..])].into_iter());
    PAGE.times.row(SPARSE).host.add(3);
    PAGE.times.row(2).small.took(7);
    PAGE.times.fault_kernels.add(1);
    let own = PAGE.calls.take().expect("room");
    own.count(3, Some(3), WhyHost::Small);
    assert_eq!(PAGE.calls.small_at(3), 1);
    FAULTS.record(5);
    assert!(found.is_some() && PAGE.sites.all().count() == 2);
    reset();
    assert!(!PAGE.quick.is_on() && PAGE.identity.pid.get() == 0);
    assert_eq!(PAGE.identity.command.get(), "");
    let device = &PAGE.devices[63];
    assert_eq!((device.name.get(), device.h2d.get()), (String::new(), 0));
    assert_eq!(
        (PAGE.sites.all().count(), PAGE.matrices.all().count()),
        (0, 0)
    );
    assert_eq!(PAGE.objects.find(0x1000), None);
    let rows = PAGE.times.rows();
    assert!(
        rows.iter()
            .all(|row| row.host.get() == 0 && !row.small.is_open())
    );
    assert_eq!(PAGE.times.fault_kernels.get(), 0);
    let again = PAGE.calls.take().expect("room");
    assert!(std::ptr::eq(own, again), "the first ones are free again");
    assert_eq!(PAGE.calls.small_at(3), 0);
    assert_eq!((FAULTS.percentile(50.0), FAULTS.sum()), (None, 0));
}
