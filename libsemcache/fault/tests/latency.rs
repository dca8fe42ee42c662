//! What page faults take, by thread.

use semcache_fault::latency::{FAULTS, of_this_thread, record};

#[test]
fn each_thread_has_its_own_sum() {
    let own = |more: u64| {
        let before = of_this_thread();
        record(more);
        of_this_thread() - before
    };
    std::thread::scope(|threads| {
        let all: [_; 16] = core::array::from_fn(|i| threads.spawn(move || own(i as u64 + 1)));
        for (i, thread) in all.into_iter().enumerate() {
            assert_eq!(thread.join().expect("no panic"), i as u64 + 1);
        }
    });
    assert_eq!(own(1000), 1000);
    assert_eq!(FAULTS.sum(), 1000 + 16 * 17 / 2);
}
