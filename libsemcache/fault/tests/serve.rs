//! Faults on inaccessible pages, served by a service thread that makes the page accessible.
#![allow(
    clippy::disallowed_methods,
    reason = "a test program, not the library in a user's process"
)]
#![cfg(not(loom))]
#![expect(unsafe_code, reason = "signals, masks and stacks")]

mod kit;

use kit::{await_abandoned, close, closed, open, open_page, read, serve, write};
use nix::errno::Errno;
use nix::sys::mman::ProtFlags;
use nix::sys::signal::{SigSet, Signal, raise};
use semcache_fault::mailbox::Verdict;
use semcache_fault::page::Access;
use semcache_fault::{counters, handler, latency, mailbox, pages};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;
use testkit::apart;

#[test]
fn reads_and_writes_are_told_apart() {
    let out = apart(|| {
        serve(open_page);
        let (page, addr) = (pages::page_size(), closed(4));
        assert_eq!(read(addr + page), 1);
        assert_eq!(pages::get(addr + page), Some(Access::Read));
        write(addr + page, 7);
        assert_eq!(pages::get(addr + page), Some(Access::ReadWrite));
        write(addr + 2 * page + 8, 9);
        assert_eq!(pages::get(addr + 2 * page), Some(Access::ReadWrite));
        assert_eq!(pages::get(addr), Some(Access::None));
        assert_eq!(
            (
                read(addr + page),
                read(addr + 2 * page),
                read(addr + 2 * page + 8)
            ),
            (7, 2, 9)
        );
        assert_eq!(counters::SERVED_READS.get(), 1);
        assert_eq!(counters::SERVED_WRITES.get(), 2);
        assert_eq!(counters::CHAINED.get(), 0);
        assert!(
            latency::FAULTS.percentile(99.0).unwrap() >= latency::FAULTS.percentile(50.0).unwrap()
        );
        assert!(handler::in_front());
        // errno stays as the program set it, whatever happens in the handler.
        Errno::set_raw(77);
        read(addr);
        assert_eq!(Errno::last_raw(), 77);
    });
    assert!(out.status.success(), "{out:?}");
}

#[test]
fn eight_threads_on_their_own_pages() {
    let out = apart(|| {
        serve(open_page);
        let (page, addr) = (pages::page_size(), closed(8 * 50));
        std::thread::scope(|s| {
            for t in 0..8 {
                s.spawn(move || {
                    for i in 0..50 {
                        let n = t * 50 + i;
                        assert_eq!(read(addr + n * page), n);
                        write(addr + n * page, n + 1);
                        assert_eq!(read(addr + n * page), n + 1);
                    }
                });
            }
        });
        assert_eq!(counters::CHAINED.get(), 0);
        assert_eq!(counters::SERVED_WRITES.get(), 400);
    });
    assert!(out.status.success(), "{out:?}");
}

#[test]
fn eight_threads_on_the_same_pages_closed_again_and_again() {
    let out = apart(|| {
        serve(open_page);
        const ROUNDS: usize = 300;
        let (page, addr) = (pages::page_size(), closed(2));
        let barrier = Arc::new(Barrier::new(9));
        std::thread::scope(|s| {
            for t in 0..8 {
                let barrier = barrier.clone();
                s.spawn(move || {
                    for round in 0..ROUNDS {
                        barrier.wait();
                        assert_eq!(read(addr + page), 1 + round);
                        if t % 2 == 0 {
                            write(addr + 8 + 8 * t, round);
                        }
                        barrier.wait();
                    }
                });
            }
            for round in 0..ROUNDS {
                barrier.wait();
                barrier.wait();
                open(addr, 2 * page, Access::ReadWrite);
                for t in [0, 2, 4, 6] {
                    assert_eq!(read(addr + 8 + 8 * t), round);
                }
                write(addr + page, 2 + round);
                close(addr, 2 * page);
            }
        });
        assert_eq!(counters::CHAINED.get(), 0);
        assert!(counters::SERVED_READS.get() >= ROUNDS as u64);
    });
    assert!(out.status.success(), "{out:?}");
}

/// Pages are made inaccessible while threads use them: no fault is chained, no thread hangs, no store is lost.
#[test]
fn closing_under_writers() {
    let out = apart(|| {
        // A message to the service thread makes pages inaccessible, which serialises that with serving faults.
        const CLOSE: usize = 8;
        let (page, addr) = (pages::page_size(), closed(1));
        serve(move |at, write| {
            if at == CLOSE {
                close(addr, page);
                return Verdict::Retry;
            }
            open_page(at, write)
        });
        let done = AtomicBool::new(false);
        std::thread::scope(|s| {
            for t in 1..4 {
                let done = &done;
                s.spawn(move || {
                    let mut n = 0;
                    while !done.load(Ordering::Relaxed) {
                        n += 1;
                        write(addr + 8 * t, n);
                        assert_eq!(read(addr + 8 * t), n);
                    }
                });
            }
            for _ in 0..2000 {
                let _ = mailbox::wait(mailbox::post(CLOSE, false));
                std::thread::sleep(Duration::from_micros(20));
            }
            done.store(true, Ordering::Relaxed);
        });
        assert_eq!(counters::CHAINED.get(), 0);
        eprintln!(
            "{} served, {} retried",
            counters::SERVED_READS.get() + counters::SERVED_WRITES.get(),
            counters::RETRIED.get()
        );
    });
    assert!(out.status.success(), "{out:?}");
    eprint!("{}", String::from_utf8_lossy(&out.stderr));
}

#[test]
fn a_fault_with_every_signal_blocked_but_ours() {
    let out = apart(|| {
        serve(open_page);
        let addr = closed(1);
        std::thread::spawn(move || {
            let all = SigSet::all();
            // SAFETY: a set that libc has made.
            let stripped = unsafe { SigSet::from_sigset_t_unchecked(handler::strip(all.as_ref())) };
            for (signal, expected) in [
                (Signal::SIGSEGV, false),
                (Signal::SIGBUS, false),
                (Signal::SIGUSR1, true),
            ] {
                assert_eq!(stripped.contains(signal), expected);
                assert!(all.contains(signal));
            }
            stripped.thread_set_mask().unwrap();
            write(addr, 3);
            assert_eq!(read(addr), 3);
        })
        .join()
        .unwrap();
    });
    assert!(out.status.success(), "{out:?}");
}

#[test]
fn an_alternate_stack_of_8_kib_is_enough() {
    let out = apart(|| {
        serve(|addr, write| {
            // Long enough that the faulting thread sleeps in the futex.
            std::thread::sleep(Duration::from_millis(2));
            open_page(addr, write)
        });
        let addr = closed(1);
        std::thread::spawn(move || {
            const SIZE: usize = 8192;
            let page = pages::page_size();
            // A page below that must not be touched, and a pattern that shows how deep the handler went.
            let below = kit::mapped(SIZE.div_ceil(page) + 1);
            kit::protect(below, page, ProtFlags::PROT_NONE);
            let stack = (below + page) as *mut u8;
            // SAFETY: a stack of this test's own, which lives for ever.
            unsafe {
                stack.write_bytes(0xa5, SIZE);
                let alternate = libc::stack_t {
                    ss_sp: stack.cast(),
                    ss_flags: 0,
                    ss_size: SIZE,
                };
                assert_eq!(libc::sigaltstack(&alternate, std::ptr::null_mut()), 0);
            }
            assert_eq!(read(addr), 0);
            // SAFETY: this test's own memory; the handler has returned.
            let untouched = (0..SIZE)
                .take_while(|&i| unsafe { stack.add(i).read() } == 0xa5)
                .count();
            eprintln!("used {} of {SIZE} bytes", SIZE - untouched);
            assert!(untouched < SIZE, "the handler ran elsewhere");
            // The kernel's own frame takes up to 3.4 KiB with AVX-512.
            assert!(untouched >= 2048, "only {untouched} bytes left");
        })
        .join()
        .unwrap();
    });
    assert!(out.status.success(), "{out:?}");
    eprint!("{}", String::from_utf8_lossy(&out.stderr));
}

static TICKS: AtomicUsize = AtomicUsize::new(0);
static COUNTED: AtomicUsize = AtomicUsize::new(0);
static BARRIER: AtomicUsize = AtomicUsize::new(0);

/// The program's handler of an asynchronous signal: touches an inaccessible page.
extern "C" fn ticks(_: libc::c_int) {
    COUNTED.fetch_add(read(TICKS.load(Ordering::SeqCst)) + 1, Ordering::SeqCst);
}

/// The program's handler of its own faults: makes the page accessible, and a signal comes meanwhile.
extern "C" fn opens(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: a fault carries an address.
    unsafe {
        let page = pages::page_size();
        if (*info).si_addr().addr() != BARRIER.load(Ordering::SeqCst) {
            libc::abort();
        }
        let barrier = BARRIER.load(Ordering::SeqCst);
        kit::protect(barrier, page, ProtFlags::PROT_READ);
    }
    raise(Signal::SIGUSR1).expect("sends");
}

#[test]
fn handlers_on_a_small_alternate_stack_come_one_after_the_other() {
    let out = apart(|| {
        serve(open_page);
        // SAFETY: handlers as declared; an alternate stack that lives for ever.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = opens as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            let segv = libc::SIGSEGV;
            let none = std::ptr::null_mut();
            assert_eq!(handler::virtual_sigaction(segv, &action, none), Some(0));
            let ticks = ticks as *const () as usize;
            action.sa_flags = 0;
            action.sa_sigaction = handler::deferral::wrapped(libc::SIGUSR1, ticks, 0).unwrap();
            assert_eq!(libc::sigaction(libc::SIGUSR1, &action, none), 0);
            // Two frames fit, three do not.
            let frame = libc::getauxval(libc::AT_MINSIGSTKSZ) as usize;
            let size = (2 * frame + 3000).max(8192);
            let page = pages::page_size();
            let below = kit::mapped(size.div_ceil(page) + 1);
            kit::protect(below, page, ProtFlags::PROT_NONE);
            let alternate = libc::stack_t {
                ss_sp: (below + page) as *mut libc::c_void,
                ss_flags: 0,
                ss_size: size,
            };
            assert_eq!(libc::sigaltstack(&alternate, none.cast()), 0);
        }
        for round in 1..=20 {
            TICKS.store(closed(1), Ordering::SeqCst);
            let barrier = kit::mapped(1);
            BARRIER.store(barrier, Ordering::SeqCst);
            kit::protect(barrier, pages::page_size(), ProtFlags::PROT_NONE);
            assert_eq!(read(barrier), 0);
            assert_eq!(COUNTED.load(Ordering::SeqCst), round);
        }
    });
    assert!(out.status.success(), "{out:?}");
}

#[test]
fn a_page_released_a_moment_ago_is_retried() {
    // A gate in the wrong order, raising the page table before the protection, makes the window wide. The thread that
    // changes the protection may lose the CPU for longer than the retry budget lasts; then the fault is chained,
    // rightly.
    let passed = (0..30).any(|_| {
        apart(|| {
            serve(open_page);
            let (page, addr) = (pages::page_size(), closed(1));
            pages::set(addr, page, Some(Access::ReadWrite)).unwrap();
            let ready = Arc::new(Barrier::new(2));
            let at_start = ready.clone();
            let opener = std::thread::spawn(move || {
                at_start.wait();
                while counters::RETRIED.get() < 3 {
                    std::hint::spin_loop();
                }
                open(addr, page, Access::ReadWrite);
            });
            ready.wait();
            assert_eq!(read(addr), 0);
            opener.join().unwrap();
            assert!(counters::RETRIED.get() >= 3);
            assert_eq!(counters::CHAINED.get(), 0);
            assert_eq!(counters::SERVED_READS.get(), 0);
        })
        .status
        .success()
    });
    assert!(passed);
}

#[test]
fn a_mailbox_full_of_abandoned_tickets_still_serves() {
    let out = apart(|| {
        serve(open_page_or_nothing);
        let (page, addr) = (pages::page_size(), closed(64));
        for i in 0..3 * mailbox::SLOTS {
            let _ = mailbox::post(0, false);
            if i % 100 == 0 {
                let n = i / 100;
                assert_eq!(read(addr + n * page), n);
            }
        }
        assert!(mailbox::abandoned() >= mailbox::SLOTS as u64);
        // The idle service thread frees the slots left, so that later posts find free slots at once.
        await_abandoned(3 * mailbox::SLOTS as u64);
        assert_eq!(read(addr + 63 * page), 63);
    });
    assert!(out.status.success(), "{out:?}");
}

fn open_page_or_nothing(addr: usize, write: bool) -> Verdict {
    if addr == 0 {
        return Verdict::NotOurs;
    }
    open_page(addr, write)
}
