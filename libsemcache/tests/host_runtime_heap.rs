//! A process whose Rust allocations all come from the runtime's heap, as in the preloaded library.
#![allow(
    clippy::disallowed_methods,
    reason = "a test program, not the library in a user's process"
)]

use std::collections::BTreeMap;

use semcache::host::{self, RuntimeHeap};

#[global_allocator]
static HEAP: RuntimeHeap = RuntimeHeap;

#[test]
fn collections_of_all_sizes_on_many_threads() {
    std::thread::scope(|s| {
        for t in 0..6usize {
            s.spawn(move || {
                let mut kept = BTreeMap::new();
                for i in 0..2000usize {
                    let len = (i * 7919 + t) % if i % 50 == 0 { 3 << 20 } else { 3000 };
                    let mut v = vec![t as u8; len / 2];
                    v.resize(len, t as u8 + 1);
                    assert!(v[..len / 2].iter().all(|b| *b == t as u8));
                    if let Some(old) = kept.insert(i % 37, v) {
                        assert!(old.iter().all(|b| *b == t as u8 || *b == t as u8 + 1));
                    }
                }
            });
        }
    });
}

#[test]
fn aligned_and_zeroed() {
    #[repr(align(4096))]
    struct Page([u8; 4096]);
    let pages: Vec<_> = (0..50).map(|i| Box::new(Page([i; 4096]))).collect();
    for (i, p) in pages.iter().enumerate() {
        assert!((&raw const **p).addr().is_multiple_of(4096));
        assert_eq!(usize::from(p.0[4095]), i);
    }
    for len in [1, 100, 5000, 1 << 20] {
        drop(vec![0xffu8; len]);
        assert!(vec![0u8; len].iter().all(|b| *b == 0));
    }
}

#[test]
fn the_forking_thread_may_allocate() {
    host::before_fork();
    let v = vec![1u8; 100_000];
    host::after_fork_parent();
    assert_eq!(v.len(), 100_000);
}
