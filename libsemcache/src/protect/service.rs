//! The thread that answers faults.
//!
//! It takes faults from the handler's mailbox and gives them to the sink, the cache, one at a time. The
//! faulting thread may hold any lock of the process, the allocator's included: neither this loop nor
//! the sink may allocate from the process heap, log, or wait for the program.

use semcache_fault::mailbox::{self, Verdict};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use super::threads::{self, STACK};

/// How long the mailbox may be silent before the thread looks around; its sign of life.
const IDLE: Duration = Duration::from_millis(500);

/// What a sink did with a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Served {
    /// The page permits the access now; it is retried.
    Open,
    /// Not a page of ours; the program's own handler gets the fault.
    NotOurs,
}

/// Who deals with faults on closed pages: brings the bytes home, then opens the page.
pub trait FaultSink: Sync {
    /// Makes the access to `addr` possible. Called on the service thread. Several threads may fault on
    /// the same page, so a page that permits the access already is [`Served::Open`].
    fn fault(&self, addr: usize, write: bool) -> Served;
}

static RUNNING: AtomicBool = AtomicBool::new(false);

/// Starts the service thread, and one that takes its place should it end, and returns once it takes faults. To be called
/// before the first page is closed; the process has one.
///
/// # Errors
/// `AlreadyExists` if it runs already, else what creating a thread says.
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
        // If it cannot be had, a dead service is what it was: faults are chained.
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
        let served = catch_unwind(AssertUnwindSafe(|| sink.fault(fault.addr, fault.write)));
        let verdict = match served {
            Ok(Served::Open) => Verdict::Retry,
            Ok(Served::NotOurs) => Verdict::NotOurs,
            Err(payload) => {
                // Dropping it could panic again, outside of the net.
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
    reason = "a test program, not the library in somebody's process"
)]
mod tests {
    #![expect(unsafe_code, reason = "touches closed pages")]

    use super::*;
    use crate::base::Access;
    use crate::protect::{Gate, MprotectGate};
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    use semcache_fault::{handler, pages};
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Output};
    use std::sync::LazyLock;
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    static GATE: LazyLock<MprotectGate> = LazyLock::new(MprotectGate::new);
    static FAULTS: AtomicUsize = AtomicUsize::new(0);

    /// A fault here ends the thread that serves it, as long as there were so few.
    const DEADLY: usize = 24;
    static FATAL: AtomicUsize = AtomicUsize::new(1);

    /// Opens what is closed; a fault in the second half of the page is somebody else's, one in the last
    /// eighth a bug.
    struct Opener;

    impl FaultSink for Opener {
        fn fault(&self, addr: usize, write: bool) -> Served {
            FAULTS.fetch_add(1, Ordering::Relaxed);
            let page = pages::page_size();
            let within = addr % page;
            assert!(within < page / 8 * 7, "a bug of the sink");
            if within == DEADLY && FAULTS.load(Ordering::Relaxed) <= FATAL.load(Ordering::Relaxed) {
                // SAFETY: ends this thread only, as nothing else that can happen to it does.
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

    /// Handler, service thread and all are the process's: each test has one to itself.
    fn in_child(name: &str, body: impl FnOnce(usize)) -> Output {
        const CHILD: &str = "SEMCACHE_SERVICE_TEST_CHILD";
        let name = format!("{}::{name}", module_path!().split_once("::").unwrap().1);
        if std::env::var(CHILD).is_ok_and(|child| child == name) {
            let page = pages::page_size();
            let flags = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: a new mapping.
            let memory =
                unsafe { mmap_anonymous(std::ptr::null_mut(), 4 * page, flags, MapFlags::PRIVATE) };
            let memory = memory.unwrap() as usize;
            handler::install().unwrap();
            spawn(&Opener).unwrap();
            GATE.apply(memory, 4 * page, Access::None).unwrap();
            body(memory);
            // SAFETY: ends the child without the harness's words.
            unsafe { libc::_exit(0) };
        }
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &name, "--nocapture", "--test-threads=1"])
            .env(CHILD, name)
            .output()
            .unwrap()
    }

    fn touch(addr: usize) {
        // SAFETY: memory of this test; a closed page is opened by the sink or ends the child.
        unsafe { (addr as *mut u8).write_volatile(1) };
    }

    #[test]
    fn faults_reach_the_sink_and_the_thread_is_quiet() {
        let out = in_child("faults_reach_the_sink_and_the_thread_is_quiet", |memory| {
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
                // glibc's, for setuid in every thread.
                (33, false),
            ] {
                assert_eq!(blocked >> (signal - 1) & 1 == 1, expected, "{signal}");
            }
            // The thread that spawned it is as it was.
            // SAFETY: a local set.
            unsafe {
                let mut mask = std::mem::zeroed();
                libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut mask);
                assert_eq!(libc::sigismember(&mask, libc::SIGTERM), 0);
            }
        });
        assert!(out.status.success(), "{out:?}");
    }

    #[test]
    fn another_thread_goes_on_when_the_service_ends() {
        let out = in_child("another_thread_goes_on_when_the_service_ends", |memory| {
            let page = pages::page_size();
            // Others wait meanwhile.
            thread::scope(|scope| {
                scope.spawn(|| touch(memory + DEADLY));
                for k in 1..4 {
                    scope.spawn(move || {
                        thread::sleep(Duration::from_millis(20));
                        touch(memory + k * page);
                    });
                }
            });
            // Served twice: by the one that ended, and again.
            assert_eq!(FAULTS.load(Ordering::Relaxed), 5);
            assert_eq!(pages::get(memory), Some(Access::ReadWrite));
        });
        assert!(out.status.success(), "{out:?}");
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(said.contains("another one goes on"), "{said}");
    }

    #[test]
    fn a_fault_is_chained_when_both_have_ended() {
        let out = in_child("a_fault_is_chained_when_both_have_ended", |memory| {
            FATAL.store(2, Ordering::Relaxed);
            touch(memory + DEADLY);
        });
        assert_eq!(out.status.signal(), Some(libc::SIGSEGV), "{out:?}");
    }

    #[test]
    fn not_ours_is_chained() {
        let out = in_child("not_ours_is_chained", |memory| {
            touch(memory + pages::page_size() / 2);
        });
        assert_eq!(out.status.signal(), Some(libc::SIGSEGV), "{out:?}");
    }

    #[test]
    fn a_panic_of_the_sink_is_chained_and_the_service_lives() {
        let out = in_child(
            "a_panic_of_the_sink_is_chained_and_the_service_lives",
            |memory| {
                let page = pages::page_size();
                // Posted by hand: the verdict, without its consequence.
                let ticket = mailbox::post(memory + page - 1, false);
                assert_eq!(mailbox::wait(ticket), Verdict::NotOurs);
                touch(memory);
                assert_eq!(FAULTS.load(Ordering::Relaxed), 2);
            },
        );
        assert!(out.status.success(), "{out:?}");
    }
}
