//! Timers whose words lie on the pages of a result.

#![expect(
    unsafe_code,
    reason = "plays an unmodified program: timers, signals, raw memory"
)]

use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use libc::{c_int, c_void, siginfo_t};
use nix::sys::timerfd::{ClockId, TimerFd, TimerFlags};

use super::beside::{closes, glance};
use crate::beside::What;
use crate::system::{self, Way, handle, timer};
use crate::world::{BESIDE, World};

/// The words that a timer's handler writes.
#[repr(C)]
struct Clock {
    ticks: AtomicU64,
    expirations: u64,
    when: libc::itimerspec,
    id: c_int,
}

/// A count beside a matrix, and the same count elsewhere.
struct Watch {
    clock: *const Clock,
    element: *const u8,
    ticks: AtomicU64,
}

extern "C" fn ticks(_: c_int, info: *mut siginfo_t, _: *mut c_void) {
    // SAFETY: what the timer was made with, by this thread, which lets it live until the timer has gone.
    unsafe {
        let watch = (*info).si_value().sival_ptr.cast::<Watch>();
        (*watch).element.read_volatile();
        (*(*watch).clock).ticks.fetch_add(1, Ordering::AcqRel);
        (*watch).ticks.fetch_add(1, Ordering::AcqRel);
    }
}

/// The count of the process's timer, how often it ticked, and how many threads are in its handler.
static CLOCK: AtomicUsize = AtomicUsize::new(0);
static COUNTED: AtomicU64 = AtomicU64::new(0);
static INSIDE: AtomicU64 = AtomicU64::new(0);

extern "C" fn profiles(_: c_int) {
    INSIDE.fetch_add(1, Ordering::SeqCst);
    let clock = CLOCK.load(Ordering::SeqCst) as *const Clock;
    if !clock.is_null() {
        // SAFETY: the thread that removes the count waits for handlers.
        unsafe { (*clock).ticks.fetch_add(1, Ordering::AcqRel) };
        COUNTED.fetch_add(1, Ordering::AcqRel);
    }
    INSIDE.fetch_sub(1, Ordering::SeqCst);
}

/// The signal of timers that tick for one thread.
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

/// A timer, all of whose words lie beside a result.
pub(super) fn run(w: &mut World) {
    let (place, outside) = w.beside.place::<Clock>(&mut w.rng, false);
    let way = Way::any(&mut w.rng, outside);
    let what = w.rng.below(3);
    w.note = format!("timer {what} {way:?} at {:p}", place.at());
    let clock = place.at();
    let when = place.addr() + offset_of!(Clock, when);
    let id = place.addr() + offset_of!(Clock, id);
    let must = |number, a: [usize; 4], wanted: isize| {
        let got = system::call(way, number, [a[0], a[1], a[2], a[3], 0]);
        assert_eq!(got, wanted, "system call {number} of a timer, {way:?}");
    };
    let set = |n| {
        // SAFETY: a field of the place.
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
            closes(w, What::Timers);
            must(
                libc::SYS_timer_create,
                [monotonic, (&raw const event).addr(), id, 0],
                0,
            );
            // SAFETY: just filled.
            let timer = usize::try_from(unsafe { (&raw const (*clock).id).read_volatile() });
            let timer = timer.unwrap();
            closes(w, What::Timers);
            must(libc::SYS_timer_settime, [timer, 0, when, 0], 0);
            let wanted = 1 + u64::try_from(w.rng.below(3)).unwrap();
            loop {
                closes(w, What::Timers);
                if watch.ticks.load(Ordering::Acquire) >= wanted {
                    break;
                }
            }
            // A pending signal is handled before the call returns.
            must(libc::SYS_timer_delete, [timer, 0, 0, 0], 0);
            // SAFETY: a field of the place.
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
            closes(w, What::Timers);
            must(libc::SYS_timerfd_settime, [timer, 0, when, 0], 0);
            let word = place.addr() + offset_of!(Clock, expirations);
            for _ in 0..1 + w.rng.below(2) {
                closes(w, What::Timers);
                must(libc::SYS_read, [timer, word, 8, 0], 8);
                // SAFETY: just filled.
                let seen = unsafe { (&raw const (*clock).expirations).read_volatile() };
                assert!((1..1 << 32).contains(&seen), "{seen} expirations");
            }
        }
        _ => process(w, clock),
    }
    place.check();
    glance(w);
}

/// The timer of the process's time, whose signals any thread gets.
fn process(w: &mut World, clock: *const Clock) {
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _turn = TURN.lock();
    COUNTED.store(0, Ordering::SeqCst);
    CLOCK.store(clock.addr(), Ordering::SeqCst);
    timer(libc::ITIMER_PROF, 1000);
    for _ in 0..3 {
        closes(w, What::Timers);
    }
    timer(libc::ITIMER_PROF, 0);
    CLOCK.store(0, Ordering::SeqCst);
    while INSIDE.load(Ordering::SeqCst) != 0 {
        std::thread::yield_now();
    }
    // SAFETY: a field of the place.
    let counted = unsafe { (*clock).ticks.load(Ordering::SeqCst) };
    assert_eq!(
        counted,
        COUNTED.load(Ordering::SeqCst),
        "what the handler of the process's timer counted beside a result"
    );
}
