//! Timers whose structures and counters lie on the same pages as a BLAS result, in the bytes around its matrix.

#![expect(
    unsafe_code,
    reason = "plays an unmodified program: timers, signals, raw memory"
)]

use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use libc::{c_int, c_void, siginfo_t};
use nix::sys::timerfd::{ClockId, TimerFd, TimerFlags};

use super::beside::{make_inaccessible, sometimes_check};
use crate::beside::What;
use crate::system::{self, Way, handle, timer};
use crate::world::{BESIDE, World};

/// What lies on the pages of the result: a count that signal handlers raise, and what the kernel reads (`when`) or writes
/// (`expirations`, `id`) when a timer is made, set and read.
#[repr(C)]
struct Data {
    ticks: AtomicU64,
    expirations: u64,
    when: libc::itimerspec,
    id: c_int,
}

/// What the handler of a timer gets: the count on the pages of the result, an element of the result to read, and the same
/// count in ordinary memory to compare with.
struct Watch {
    clock: *const Data,
    element: *const u8,
    ticks: AtomicU64,
}

extern "C" fn ticks(_: c_int, info: *mut siginfo_t, _: *mut c_void) {
    // SAFETY: the pointer that `run` gave to timer_create. `run` runs on this thread, and `watch` is alive in it until it
    // has deleted the timer.
    unsafe {
        let watch = (*info).si_value().sival_ptr.cast::<Watch>();
        (*watch).element.read_volatile();
        (*(*watch).clock).ticks.fetch_add(1, Ordering::AcqRel);
        (*watch).ticks.fetch_add(1, Ordering::AcqRel);
    }
}

/// The address of the data that the handler of SIGPROF counts in; zero if the timer of the process is not in use.
static CLOCK: AtomicUsize = AtomicUsize::new(0);
/// How often that handler has counted.
static COUNTED: AtomicU64 = AtomicU64::new(0);
/// Number of threads that run that handler now.
static INSIDE: AtomicU64 = AtomicU64::new(0);

extern "C" fn profiles(_: c_int) {
    INSIDE.fetch_add(1, Ordering::SeqCst);
    let clock = CLOCK.load(Ordering::SeqCst) as *const Data;
    if !clock.is_null() {
        // SAFETY: the thread that clears CLOCK then waits until INSIDE is zero before the bytes get another use.
        unsafe { (*clock).ticks.fetch_add(1, Ordering::AcqRel) };
        COUNTED.fetch_add(1, Ordering::AcqRel);
    }
    INSIDE.fetch_sub(1, Ordering::SeqCst);
}

/// The signal that timers of one thread send.
fn ticking() -> c_int {
    libc::SIGRTMIN() + 5
}

/// Installs the handlers of timers.
pub(super) fn prepare() {
    handle(libc::SIGPROF, profiles as *const () as usize, 0);
    handle(ticking(), ticks as *const () as usize, libc::SA_SIGINFO);
}

fn nanoseconds(n: i64) -> libc::itimerspec {
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: n,
    };
    libc::itimerspec {
        it_interval: time,
        it_value: time,
    }
}

/// A timer of a thread, a timer's descriptor, or the timer of the process.
pub(super) fn run(w: &mut World) {
    let (place, outside) = w.beside.place::<Data>(&mut w.rng, false);
    let way = Way::any(&mut w.rng, outside);
    let what = w.rng.below(3);
    w.note = format!("timer {what} {way:?} at {:p}", place.at());
    let clock = place.at();
    let when = place.addr() + offset_of!(Data, when);
    let id = place.addr() + offset_of!(Data, id);
    let must = |number, a: [usize; 4], wanted: isize| {
        let got = system::call(way, number, [a[0], a[1], a[2], a[3], 0]);
        assert_eq!(got, wanted, "system call {number} of a timer, {way:?}");
    };
    let set = |n| {
        // SAFETY: a field of the structure that was reserved beside the matrix.
        unsafe { (&raw mut (*clock).when).write_volatile(nanoseconds(n)) };
    };
    set(200_000);
    match what {
        0 => {
            let watch = Watch {
                clock,
                element: w.slots[BESIDE].addr(w.rng.below(w.beside.shape.rows)),
                ticks: AtomicU64::new(0),
            };
            // SAFETY: all zeros are a valid value.
            let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = ticking();
            event.sigev_value.sival_ptr = (&raw const watch).cast_mut().cast();
            // SAFETY: asks who this thread is.
            event.sigev_notify_thread_id = unsafe { libc::gettid() };
            let monotonic = usize::try_from(libc::CLOCK_MONOTONIC).unwrap();
            make_inaccessible(w, What::Timers);
            must(
                libc::SYS_timer_create,
                [monotonic, (&raw const event).addr(), id, 0],
                0,
            );
            // SAFETY: timer_create succeeded, so the kernel has filled the field.
            let timer = usize::try_from(unsafe { (&raw const (*clock).id).read_volatile() });
            let timer = timer.unwrap();
            make_inaccessible(w, What::Timers);
            must(libc::SYS_timer_settime, [timer, 0, when, 0], 0);
            let wanted = 1 + u64::try_from(w.rng.below(3)).unwrap();
            loop {
                make_inaccessible(w, What::Timers);
                if watch.ticks.load(Ordering::Acquire) >= wanted {
                    break;
                }
            }
            // A pending signal of the timer is handled before this system call returns, so both counts are final then.
            must(libc::SYS_timer_delete, [timer, 0, 0, 0], 0);
            // SAFETY: a field of the structure that was reserved beside the matrix.
            let counted = unsafe { (*clock).ticks.load(Ordering::Acquire) };
            assert_eq!(
                counted,
                watch.ticks.load(Ordering::Acquire),
                "what a timer's handler counted beside a result"
            );
        }
        1 => {
            let fd = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC).unwrap();
            let timer = usize::try_from(fd.as_fd().as_raw_fd()).unwrap();
            make_inaccessible(w, What::Timers);
            must(libc::SYS_timerfd_settime, [timer, 0, when, 0], 0);
            let word = place.addr() + offset_of!(Data, expirations);
            for _ in 0..1 + w.rng.below(2) {
                make_inaccessible(w, What::Timers);
                must(libc::SYS_read, [timer, word, 8, 0], 8);
                // SAFETY: read succeeded, so the kernel has filled the field.
                let seen = unsafe { (&raw const (*clock).expirations).read_volatile() };
                assert!((1..1 << 32).contains(&seen), "{seen} expirations");
            }
        }
        _ => process_timer(w, clock),
    }
    place.check();
    sometimes_check(w);
}

/// ITIMER_PROF, which counts the CPU time of the process; the kernel sends its signal to any thread.
fn process_timer(w: &mut World, clock: *const Data) {
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _turn = TURN.lock();
    COUNTED.store(0, Ordering::SeqCst);
    CLOCK.store(clock.addr(), Ordering::SeqCst);
    timer(libc::ITIMER_PROF, 1000);
    for _ in 0..3 {
        make_inaccessible(w, What::Timers);
    }
    timer(libc::ITIMER_PROF, 0);
    CLOCK.store(0, Ordering::SeqCst);
    while INSIDE.load(Ordering::SeqCst) != 0 {
        std::thread::yield_now();
    }
    // SAFETY: a field of the structure that was reserved beside the matrix.
    let counted = unsafe { (*clock).ticks.load(Ordering::SeqCst) };
    assert_eq!(
        counted,
        COUNTED.load(Ordering::SeqCst),
        "what the handler of the process's timer counted beside a result"
    );
}
