//! Children and signals.

#![expect(unsafe_code, reason = "plays an unmodified program: fork, sigaction")]

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use libc::{c_int, c_void, siginfo_t};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, raise, sigaction};

use crate::block::{Block, page};
use crate::call::call;
use crate::fortran;
use crate::system::timer;
use crate::world::World;

/// A matrix of `SIDE` columns, each of `SIDE` elements and one more number before the next. Its elements are `VALUE`,
/// whether the host or a device computed them last: the handler of SIGUSR1 reads them. The numbers between columns
/// belong to the timer, whose handler counts there. Behind the matrix are `SIDE` times `VALUE` and `SIDE` ones.
static WATCHED: AtomicUsize = AtomicUsize::new(0);
const SIDE: usize = 64;
const LD: usize = SIDE + 1;
const VALUE: f64 = 6.0;
/// How often the handler ran, and how often it read a wrong value.
static HANDLED: AtomicUsize = AtomicUsize::new(0);
static WRONG: AtomicUsize = AtomicUsize::new(0);
/// How often the timer's handler counted.
static TICKS: AtomicU64 = AtomicU64::new(0);
/// A page without access that the program's own handler makes accessible.
static CLOSED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn looks(_: c_int) {
    let at = WATCHED.load(Ordering::Acquire) as *const f64;
    let turn = HANDLED.fetch_add(1, Ordering::Relaxed);
    for k in 0..8 {
        let (i, j) = ((turn * 5 + k) % SIDE, (turn + k * 11) % SIDE);
        // SAFETY: inside the watched block, which lives as long as the process.
        let seen = unsafe { at.add(j * LD + i).read_volatile() };
        if seen != VALUE {
            WRONG.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The number between two columns in which a tick of the timer counts.
fn counter(tick: u64) -> &'static AtomicU64 {
    let at = WATCHED.load(Ordering::Acquire) as *const AtomicU64;
    let column = usize::try_from(tick % SIDE as u64).unwrap_or(0);
    // SAFETY: inside the watched block, which lives as long as the process; no other code uses these bytes.
    unsafe { &*at.add(column * LD + SIDE) }
}

/// The handler of a signal that comes at any time.
extern "C" fn counts(_: c_int) {
    counter(TICKS.fetch_add(1, Ordering::AcqRel)).fetch_add(1, Ordering::AcqRel);
}

/// Signals at any time, until the guard is dropped; then the numbers that their handler wrote are compared.
pub(crate) struct Ticking(());

impl Ticking {
    pub(crate) fn start() -> Ticking {
        timer(libc::ITIMER_REAL, 700);
        Ticking(())
    }
}

impl Drop for Ticking {
    fn drop(&mut self) {
        timer(libc::ITIMER_REAL, 0);
        if std::thread::panicking() {
            return;
        }
        let ticks = TICKS.load(Ordering::Acquire);
        let counted: u64 = (0..SIDE as u64)
            .map(|c| counter(c).load(Ordering::Acquire))
            .sum();
        assert_eq!(
            counted, ticks,
            "what a handler wrote between the columns of a result"
        );
    }
}

extern "C" fn opens(signal: c_int, info: *mut siginfo_t, _: *mut c_void) {
    // SAFETY: the arguments of the kernel, or of a caller in its place.
    let at = unsafe { (*info).si_addr() }.addr();
    if super::guard::opens(at) {
        return;
    }
    let closed = CLOSED.load(Ordering::Acquire);
    if closed == 0 || at / page() != closed / page() {
        // SAFETY: not the program's page: the default action comes when the access is retried.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        return;
    }
    // SAFETY: a page of the program.
    unsafe {
        libc::mprotect(
            closed as *mut c_void,
            page(),
            libc::PROT_READ | libc::PROT_WRITE,
        )
    };
}

/// Installs the program's handlers.
pub(super) fn prepare() {
    // SAFETY: blocks that are never freed; handlers as declared.
    unsafe {
        let elements = LD * SIDE;
        let watched = libc::malloc((elements + 2 * SIDE) * 8).cast::<f64>();
        for i in 0..elements + 2 * SIDE {
            let between = i < elements && i % LD == SIDE;
            let one = i >= elements + SIDE;
            watched.add(i).write(if between {
                0.0
            } else if one {
                1.0
            } else {
                VALUE
            });
        }
        WATCHED.store(watched.addr(), Ordering::Release);
        for (signal, handler, flags) in [
            (
                Signal::SIGUSR1,
                SigHandler::Handler(looks),
                SaFlags::SA_RESTART,
            ),
            (
                Signal::SIGALRM,
                SigHandler::Handler(counts),
                SaFlags::SA_RESTART,
            ),
            (
                Signal::SIGSEGV,
                SigHandler::SigAction(opens),
                SaFlags::empty(),
            ),
        ] {
            sigaction(signal, &SigAction::new(handler, flags, SigSet::all())).unwrap();
        }
        let closed = crate::block::map(page(), false);
        CLOSED.store(closed.addr(), Ordering::Release);
    }
}

/// One thread at a time works on the watched matrix.
static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());

pub(super) fn signal(w: &mut World) {
    let _turn = TURN.lock();
    let at = WATCHED.load(Ordering::Acquire) as *const f64;
    w.note = "signals".into();
    if w.rng.one_in(3) {
        // A fault of the program itself, while results are on devices.
        let closed = CLOSED.load(Ordering::Acquire) as *mut u8;
        // SAFETY: a page of the program, whose handler makes it accessible.
        unsafe {
            assert_eq!(libc::mprotect(closed.cast(), page(), libc::PROT_NONE), 0);
            closed.add(w.rng.below(page())).write_volatile(1);
        }
        return;
    }
    let seen = HANDLED.load(Ordering::Relaxed);
    let count = 1 + w.rng.below(3);
    for _ in 0..count {
        // Computes the same numbers anew: all of them as a product of the sixes and ones behind the matrix, or one
        // column as a copy.
        let (again, ones) = (
            at.wrapping_add(LD * SIDE),
            at.wrapping_add(LD * SIDE + SIDE),
        );
        if w.rng.one_in(3) {
            let column = at.wrapping_add(w.rng.below(SIDE) * LD);
            call!(fortran::COPY[1]; SIDE, again, 1, column, 1);
        } else {
            let (alpha, beta) = (1.0f64, 0.0f64);
            call!(fortran::GEMM[1]; b'N', b'N', SIDE, SIDE, 1, &raw const alpha, again, SIDE, ones, 1, &raw const beta, at, LD);
        }
        raise(Signal::SIGUSR1).unwrap();
    }
    assert!(
        HANDLED.load(Ordering::Relaxed) >= seen + count,
        "a signal was not handled"
    );
    assert_eq!(
        WRONG.load(Ordering::Relaxed),
        0,
        "a handler saw other numbers"
    );
}

/// A child sees the same values as its parent; the parent does not see the child's writes.
pub(super) fn fork(w: &mut World) {
    w.note = "fork".into();
    // SAFETY: the child continues alone, with the C library only.
    let child = unsafe {
        testkit::forked(|| {
            timer(libc::ITIMER_REAL, 0);
            child_of(w);
        })
    };
    if w.rng.one_in(2) {
        // While the child reads.
        let slot = w.own();
        let (from, n) = w.slots[slot].span(&mut w.rng);
        if !w.slots[slot].shared() {
            w.slots[slot].fill(from, n, &mut w.rng);
        }
    }
    let status = child.wait();
    assert!(status.success(), "the child of a fork: {status}");
    let slot = w.own();
    w.slots[slot].check_all("the parent's, after its child wrote");
}

fn child_of(w: &mut World) {
    for slot in 0..w.slots.len() {
        w.slots[slot].check_all("the child's copy");
    }
    for slot in 0..w.slots.len() {
        if !w.slots[slot].shared() {
            let (from, n) = w.slots[slot].span(&mut w.rng);
            w.slots[slot].fill(from, n, &mut w.rng);
        }
    }
    // The parent would see writes to shared memory.
    if w.slots.iter().any(Block::shared) {
        return;
    }
    for _ in 0..3 {
        super::level1::run(w);
    }
    super::sparse::run(w);
    super::solvers::run(w);
    for slot in 0..w.slots.len() {
        w.slots[slot].check_all("the child's results");
    }
}
