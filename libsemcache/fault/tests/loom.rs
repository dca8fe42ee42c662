//! Models of the mailbox, of the page byte and of the buffers of system calls, exhaustively scheduled. `mailbox` says
//! how to run them.
#![allow(
    clippy::disallowed_methods,
    reason = "a test program, not the library in a user's process"
)]
#![cfg(loom)]

use loom::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;
use semcache_fault::held::Held;
use semcache_fault::mailbox::{Code, Mailbox, Ticket, Verdict};
use semcache_fault::page::{Access, Decision, PageByte, decide};
use std::time::Duration;

const FOREVER: Duration = Duration::MAX;

fn model(f: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(f);
}

/// Takes and completes `n` faults; odd addresses are untracked.
fn serve(mailbox: &Mailbox, n: usize) {
    for _ in 0..n {
        let fault = mailbox.take(FOREVER).expect("the model has no time-outs");
        assert_eq!(fault.write, fault.addr >= 20);
        assert_eq!(fault.tid as usize, fault.addr + 1);
        let verdict = if fault.addr % 2 == 1 {
            Verdict::NotOurs
        } else {
            Verdict::Retry
        };
        mailbox.complete(fault, verdict);
    }
}

fn post(mailbox: &Mailbox, addr: usize) -> Ticket {
    mailbox.post(addr, addr >= 20, addr as u32 + 1, Code::default())
}

fn expected(addr: usize) -> Verdict {
    if addr % 2 == 1 {
        Verdict::NotOurs
    } else {
        Verdict::Retry
    }
}

/// A lost wake-up of either side would be a deadlock.
#[test]
fn two_posters_and_the_service() {
    model(|| {
        let mailbox = Arc::new(Mailbox::new());
        let service = thread::spawn({
            let mailbox = mailbox.clone();
            move || serve(&mailbox, 2)
        });
        let poster = thread::spawn({
            let mailbox = mailbox.clone();
            move || assert_eq!(mailbox.wait(post(&mailbox, 11)), expected(11))
        });
        assert_eq!(mailbox.wait(post(&mailbox, 20)), expected(20));
        poster.join().unwrap();
        service.join().unwrap();
        assert_eq!(mailbox.abandoned(), 0);
    });
}

/// The same thread faults again and again: each time it gets its own verdict.
#[test]
fn one_poster_many_times() {
    model(|| {
        let mailbox = Arc::new(Mailbox::new());
        let service = thread::spawn({
            let mailbox = mailbox.clone();
            move || serve(&mailbox, 3)
        });
        for addr in [10, 21, 12] {
            assert_eq!(mailbox.wait(post(&mailbox, addr)), expected(addr));
        }
        service.join().unwrap();
    });
}

/// With two slots, two abandoned tickets force reuse. The late owner of a reused slot retries and never sees the
/// verdict on another thread's fault.
#[test]
fn abandoned_tickets_are_reused() {
    model(|| {
        let mailbox = Arc::new(Mailbox::new());
        let service = thread::spawn({
            let mailbox = mailbox.clone();
            move || serve(&mailbox, 3)
        });
        let late = post(&mailbox, 10);
        let _ = post(&mailbox, 11);
        assert_eq!(mailbox.wait(post(&mailbox, 13)), Verdict::NotOurs);
        assert_eq!(mailbox.wait(late), Verdict::Retry);
        assert_eq!(mailbox.abandoned(), 1);
        service.join().unwrap();
    });
}

/// An owner still waits, spinning or asleep, while its slot is completed and reused.
#[test]
fn a_slot_is_reused_under_its_waiting_owner() {
    model(|| {
        let mailbox = Arc::new(Mailbox::new());
        let owner = post(&mailbox, 10);
        let waiting = thread::spawn({
            let mailbox = mailbox.clone();
            move || assert_eq!(mailbox.wait(owner), Verdict::Retry)
        });
        for addr in [11, 13, 15] {
            serve(&mailbox, 1);
            let _ = post(&mailbox, addr);
        }
        serve(&mailbox, 1);
        waiting.join().unwrap();
    });
}

/// A page's protection in the hardware, beside its byte in the page table.
struct Page {
    hardware: AtomicU8,
    known: PageByte,
}

impl Page {
    fn new(access: Access) -> Page {
        let page = Page {
            hardware: AtomicU8::new(access as u8),
            known: PageByte::new(),
        };
        page.known.set(Some(access));
        page
    }

    /// The gate's order: the byte is lowered before the protection and raised after it.
    fn apply(&self, access: Access) {
        self.known.lower(access);
        // Read-modify-writes on both sides, which the model orders totally.
        self.hardware.swap(access as u8, Ordering::AcqRel);
        self.known.set(Some(access));
    }

    /// The gate's `restrict`: lowers the byte only if no system call needs more access.
    fn restrict(&self, held: &Held, access: Access) -> bool {
        let before = self.known.get();
        self.known.lower(access);
        if held.forbids(PAGE, 4096, access) {
            self.known.set(before);
            return false;
        }
        self.hardware.swap(access as u8, Ordering::AcqRel);
        self.known.set(Some(access));
        true
    }

    /// The kernel's access to a buffer on the page: as the hardware permits at this moment, or EFAULT.
    fn used_by_kernel(&self, write: bool) {
        let hardware = self.hardware.fetch_add(0, Ordering::AcqRel);
        assert!(hardware >= 2 + u8::from(write), "EFAULT");
    }

    /// One access, with faults and handler, until it succeeds. Returns (posts, retries).
    fn access(&self, mailbox: &Mailbox, write: bool) -> (usize, usize) {
        let (mut posts, mut retries) = (0, 0);
        // Reads the newest protection: a processor walks the page table itself after a shootdown.
        while self.hardware.fetch_add(0, Ordering::AcqRel) < 2 + u8::from(write) {
            match decide(self.known.get(), write) {
                Decision::NotOurs => {
                    panic!("a fault on a tracked page is always the runtime's to serve")
                }
                Decision::Retry => {
                    retries += 1;
                    assert!(retries <= 1, "an open byte implies open hardware");
                }
                Decision::Post => {
                    posts += 1;
                    assert!(posts <= 1, "the service opened the page");
                    let ticket = mailbox.post(4096, write, 1, Code::default());
                    assert_eq!(mailbox.wait(ticket), Verdict::Retry);
                }
            }
        }
        (posts, retries)
    }
}

/// Two threads fault on the same page. No fault is chained, and a retry never meets an inaccessible page: a byte that
/// permits the access implies that the hardware permits it.
#[test]
fn a_page_just_opened_is_retried() {
    model(|| {
        let mailbox = Arc::new(Mailbox::new());
        let page = Arc::new(Page::new(Access::None));
        let posts = Arc::new(AtomicUsize::new(0));
        let other = thread::spawn({
            let (mailbox, page, posts) = (mailbox.clone(), page.clone(), posts.clone());
            move || {
                let (posted, retried) = page.access(&mailbox, false);
                assert!(posted <= 1 && retried <= 1, "{posted} {retried}");
                // This thread will not post its fault, and the service thread counts on two posts.
                if posted == 0 {
                    let _ = mailbox.wait(mailbox.post(4096, false, 1, Code::default()));
                }
                posts.fetch_add(posted, Ordering::Relaxed);
            }
        });
        let service = thread::spawn({
            let (mailbox, page) = (mailbox.clone(), page.clone());
            move || {
                for _ in 0..2 {
                    let fault = mailbox.take(FOREVER).expect("no time-outs");
                    if !page.known.get().is_some_and(|a| a.permits(fault.write)) {
                        page.apply(Access::ReadWrite);
                    }
                    mailbox.complete(fault, Verdict::Retry);
                }
            }
        });
        let (posted, retried) = page.access(&mailbox, true);
        assert!(posted <= 1 && retried <= 1, "{posted} {retried}");
        if posted == 0 {
            let _ = mailbox.wait(mailbox.post(4096, true, 1, Code::default()));
        }
        other.join().unwrap();
        service.join().unwrap();
        assert!(posts.load(Ordering::Relaxed) + posted >= 1);
    });
}

/// The page is made inaccessible and accessible again while a thread reads it: the read succeeds, by retries or by one
/// post for each time that the page was inaccessible.
#[test]
fn a_page_closed_again_is_posted_again() {
    model(|| {
        let mailbox = Arc::new(Mailbox::new());
        let page = Arc::new(Page::new(Access::Read));
        let reader = thread::spawn({
            let (mailbox, page) = (mailbox.clone(), page.clone());
            move || {
                let (posted, retried) = page.access(&mailbox, false);
                assert!(posted <= 1 && retried <= 1, "{posted} {retried}");
                if posted == 0 {
                    let _ = mailbox.wait(mailbox.post(4096, false, 1, Code::default()));
                }
            }
        });
        page.apply(Access::None);
        let fault = mailbox.take(FOREVER).expect("no time-outs");
        page.apply(Access::ReadWrite);
        mailbox.complete(fault, Verdict::Retry);
        reader.join().unwrap();
    });
}

/// The address of [`Page`].
const PAGE: usize = 4096;

/// One system call on a buffer of the page, as the runtime does it: `open` makes the page accessible if the page table
/// does not permit the call.
fn system_call(held: &Held, page: &Page, write: bool, open: impl FnOnce()) {
    let place = held.enter(PAGE, 8, write);
    if !page.known.get().is_some_and(|a| a.permits(write)) {
        open();
    }
    page.used_by_kernel(write);
    page.used_by_kernel(write);
    held.leave(&place);
}

/// Evicts under the cache's lock: restricts the page.
fn evict(held: &Held, page: &Page, lock: &Mutex<()>) -> bool {
    let _cache = lock.lock().unwrap();
    page.restrict(held, Access::None)
}

/// A page is made inaccessible while system calls begin on it, one of them without a slot of its own, and while the
/// service thread makes the page accessible for a thread of the program that touches it: no system call ever meets an
/// inaccessible page, and the touch succeeds.
#[test]
fn a_page_in_use_by_a_system_call_is_not_closed() {
    model(|| {
        let held = Arc::new(Held::default());
        let page = Arc::new(Page::new(Access::ReadWrite));
        let cache = Arc::new(Mutex::new(()));
        let calls = [false, true].map(|write| {
            let (held, page, cache) = (held.clone(), page.clone(), cache.clone());
            thread::spawn(move || {
                system_call(&held, &page, write, || {
                    let _cache = cache.lock().unwrap();
                    page.apply(Access::ReadWrite);
                });
            })
        });
        let _ = evict(&held, &page, &cache);
        for call in calls {
            call.join().unwrap();
        }
        assert!(evict(&held, &page, &cache), "nobody uses it any more");
    });
}

/// The same with a fault: the page is made accessible by the touching thread's fault or by the system call, whichever
/// comes first.
#[test]
fn a_system_call_and_a_fault_on_a_page_that_is_closed() {
    model(|| {
        let held = Arc::new(Held::default());
        let page = Arc::new(Page::new(Access::ReadWrite));
        let cache = Arc::new(Mutex::new(()));
        let mailbox = Arc::new(Mailbox::new());
        let call = thread::spawn({
            let (held, page, cache) = (held.clone(), page.clone(), cache.clone());
            move || {
                system_call(&held, &page, true, || {
                    let _cache = cache.lock().unwrap();
                    page.apply(Access::ReadWrite);
                });
            }
        });
        let reader = thread::spawn({
            let (page, mailbox) = (page.clone(), mailbox.clone());
            move || {
                let (posted, _) = page.access(&mailbox, false);
                // The service thread counts on one post.
                if posted == 0 {
                    let _ = mailbox.wait(mailbox.post(PAGE, false, 1, Code::default()));
                }
            }
        });
        let _ = evict(&held, &page, &cache);
        let fault = mailbox.take(FOREVER).expect("no time-outs");
        {
            let _cache = cache.lock().unwrap();
            // A thread that is about to write gets the page for reading and writing.
            if !page.known.get().is_some_and(|a| a.permits(fault.write))
                && !page.restrict(&held, Access::Read)
            {
                page.apply(Access::ReadWrite);
            }
        }
        mailbox.complete(fault, Verdict::Retry);
        call.join().unwrap();
        reader.join().unwrap();
    });
}
