//! The fault service: the thread that handles page faults on protected pages.
//!
//! The service thread takes faults from the handler's mailbox and gives them to the sink (the cache), one at a time.
//! The faulting thread may hold any lock of the process, the allocator's included: neither this loop nor the sink may
//! allocate from the process heap, log, or wait for a thread of the program.

pub use semcache_fault::mailbox::Fault;
use semcache_fault::mailbox::{self, Verdict};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use crate::process::threads::{self, STACK};

/// How long the thread waits for a fault before it renews its sign of life in the mailbox.
const IDLE: Duration = Duration::from_millis(500);

/// The answer of a sink to a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Served {
    /// The page permits the access now; the faulting thread retries it.
    Open,
    /// The page is not tracked; the program's own handler gets the fault.
    NotOurs,
}

/// Handles faults on inaccessible pages: writes back the newest bytes, then makes the page accessible.
pub trait FaultSink: Sync {
    /// Makes the access of a thread possible. Called on the service thread. Several threads may fault on
    /// the same page, so a page that permits the access already is [`Served::Open`].
    fn fault(&self, fault: &Fault) -> Served;
}

static RUNNING: AtomicBool = AtomicBool::new(false);

/// Starts the service thread and a stand-by thread that continues if the service thread ends; returns once faults are
/// taken. Must be called before the first page is made inaccessible; a process has one service thread.
///
/// # Errors
/// `AlreadyExists` if the service thread runs already, else the error of creating it.
pub fn spawn(sink: &'static dyn FaultSink) -> io::Result<()> {
    if RUNNING.swap(true, Ordering::AcqRel) {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let (ready, started) = mpsc::sync_channel(1);
    let thread = threads::spawn("semcache-fault", STACK, move || {
        mailbox::attach();
        let _ = ready.send(());
        drop(ready);
        serve(sink)
    });
    if thread.is_ok() {
        // Without a stand-by thread, faults after the end of the service thread go to the program's handler.
        let _ = threads::spawn("semcache-stand", STACK, move || {
            mailbox::stand_by();
            serve(sink)
        });
    }
    match thread {
        Ok(_) => started.recv().map_err(io::Error::other),
        Err(error) => {
            RUNNING.store(false, Ordering::Release);
            Err(error)
        }
    }
}

fn serve(sink: &dyn FaultSink) -> ! {
    loop {
        let Some(fault) = mailbox::take(IDLE) else {
            continue;
        };
        let serve = || sink.fault(&fault);
        let served = catch_unwind(AssertUnwindSafe(serve));
        let verdict = match served {
            Ok(Served::Open) => Verdict::Retry,
            Ok(Served::NotOurs) => Verdict::NotOurs,
            Err(payload) => {
                // Dropping the payload could panic again, outside of `catch_unwind`.
                std::mem::forget(payload);
                Verdict::NotOurs
            }
        };
        mailbox::complete(fault, verdict);
    }
}

#[cfg(test)]
#[allow(
    clippy::disallowed_methods,
    reason = "a test program, not the library in a user's process"
)]
mod tests {
    #![expect(unsafe_code, reason = "touches closed pages")]

    use super::*;
    use crate::base::Access;
    use crate::protect::{Gate, MprotectGate};
    use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous};
    use nix::sys::signal::{SigSet, Signal};
    use semcache_fault::{handler, pages};
    use std::os::unix::process::ExitStatusExt;
    use std::sync::LazyLock;
    use std::sync::atomic::AtomicUsize;
    use std::thread;
    use testkit::apart;

    static GATE: LazyLock<MprotectGate> = LazyLock::new(MprotectGate::new);
    static FAULTS: AtomicUsize = AtomicUsize::new(0);

    /// A fault at this offset of a page ends the thread that serves it, as long as at most `FATAL` faults have come.
    const DEADLY: usize = 24;
    static FATAL: AtomicUsize = AtomicUsize::new(1);

    /// Makes inaccessible pages accessible; a fault in the second half of a page is taken for the program's, one in the
    /// last eighth panics.
    struct Opener;

    impl FaultSink for Opener {
        fn fault(&self, &Fault { addr, write, .. }: &Fault) -> Served {
            FAULTS.fetch_add(1, Ordering::Relaxed);
            let page = pages::page_size();
            let within = addr % page;
            assert!(within < page / 8 * 7, "a bug of the sink");
            if within == DEADLY && FAULTS.load(Ordering::Relaxed) <= FATAL.load(Ordering::Relaxed) {
                // SAFETY: ends the service thread only, which holds no lock here.
                unsafe { libc::syscall(libc::SYS_exit, 0) };
            }
            if within >= page / 2 {
                return Served::NotOurs;
            }
            let access = if write {
                Access::ReadWrite
            } else {
                Access::Read
            };
            GATE.apply(addr - within, page, access).unwrap();
            Served::Open
        }
    }

    /// Four inaccessible pages, whose faults the service serves. Signal handler and service thread are process-wide: each
    /// test has a process of its own.
    fn served() -> usize {
        let len = 4 * pages::page_size();
        // SAFETY: a new mapping.
        let memory = unsafe {
            mmap_anonymous(
                None,
                len.try_into().unwrap(),
                ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
                MapFlags::MAP_PRIVATE,
            )
        };
        let memory = memory.unwrap().as_ptr().expose_provenance();
        handler::install().unwrap();
        spawn(&Opener).unwrap();
        GATE.apply(memory, len, Access::None).unwrap();
        memory
    }

    fn touch(addr: usize) {
        // SAFETY: memory of this test; the sink makes an inaccessible page accessible, or the fault ends the child.
        unsafe { (addr as *mut u8).write_volatile(1) };
    }

    #[test]
    fn faults_reach_the_sink_and_the_thread_is_quiet() {
        let out = apart(|| {
            let memory = served();
            let page = pages::page_size();
            assert!(spawn(&Opener).is_err());
            touch(memory + page);
            // SAFETY: as in `touch`.
            assert_eq!(unsafe { (memory as *const u8).read_volatile() }, 0);
            assert_eq!(FAULTS.load(Ordering::Relaxed), 2);
            assert_eq!(pages::get(memory), Some(Access::Read));
            assert_eq!(pages::get(memory + page), Some(Access::ReadWrite));
            let quiet = std::fs::read_dir("/proc/self/task")
                .unwrap()
                .map(|t| std::fs::read_to_string(t.unwrap().path().join("status")).unwrap())
                .find(|status| status.starts_with("Name:\tsemcache-fault\n"))
                .unwrap();
            let blocked = quiet
                .lines()
                .find_map(|l| l.strip_prefix("SigBlk:\t"))
                .unwrap();
            let blocked = u64::from_str_radix(blocked, 16).unwrap();
            for (signal, expected) in [
                (libc::SIGINT, true),
                (libc::SIGPROF, true),
                (libc::SIGTERM, true),
                (libc::SIGSEGV, false),
                (libc::SIGBUS, false),
                (libc::SIGABRT, false),
                // Signal 33 is glibc's, for `setuid` in every thread.
                (33, false),
            ] {
                assert_eq!(blocked >> (signal - 1) & 1 == 1, expected, "{signal}");
            }
            // The signal mask of the thread that spawned the service is unchanged.
            assert!(!SigSet::thread_get_mask().unwrap().contains(Signal::SIGTERM));
        });
        assert!(out.status.success(), "{out:?}");
    }

    #[test]
    fn another_thread_goes_on_when_the_service_ends() {
        let out = apart(|| {
            let memory = served();
            let page = pages::page_size();
            // Three more threads wait for their faults to be served meanwhile.
            thread::scope(|scope| {
                scope.spawn(|| touch(memory + DEADLY));
                for k in 1..4 {
                    scope.spawn(move || {
                        // Behind the deadly one, on a busy machine, too.
                        while FAULTS.load(Ordering::Relaxed) == 0 {
                            thread::sleep(Duration::from_millis(1));
                        }
                        touch(memory + k * page);
                    });
                }
            });
            // The fault at `DEADLY` is served twice: by the thread that it ended, and by the stand-by thread.
            assert_eq!(FAULTS.load(Ordering::Relaxed), 5);
            assert_eq!(pages::get(memory), Some(Access::ReadWrite));
        });
        assert!(out.status.success(), "{out:?}");
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(said.contains("another one goes on"), "{said}");
    }

    #[test]
    fn a_fault_is_chained_when_both_have_ended() {
        let out = apart(|| {
            let memory = served();
            FATAL.store(2, Ordering::Relaxed);
            touch(memory + DEADLY);
        });
        assert_eq!(out.status.signal(), Some(libc::SIGSEGV), "{out:?}");
    }

    #[test]
    fn not_ours_is_chained() {
        let out = apart(|| {
            let memory = served();
            touch(memory + pages::page_size() / 2);
        });
        assert_eq!(out.status.signal(), Some(libc::SIGSEGV), "{out:?}");
    }

    #[test]
    fn a_panic_of_the_sink_is_chained_and_the_service_lives() {
        let out = apart(|| {
            let memory = served();
            let page = pages::page_size();
            // Posted without an access, so that the verdict is tested and the program's handler is not called.
            let ticket = mailbox::post(memory + page - 1, false, mailbox::Code::default());
            assert_eq!(mailbox::wait(ticket), Verdict::NotOurs);
            touch(memory);
            assert_eq!(FAULTS.load(Ordering::Relaxed), 2);
        });
        assert!(out.status.success(), "{out:?}");
    }
}
