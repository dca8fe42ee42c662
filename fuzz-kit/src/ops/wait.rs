//! Threads that sleep on words beside a result, and timers whose handlers write there.

#![expect(
    unsafe_code,
    reason = "plays an unmodified program: pthread's objects in raw memory, signals"
)]

use std::cell::Cell;
use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use libc::{c_int, c_void, siginfo_t};

use super::beside::{closes, glance, product};
use crate::beside::What;
use crate::system::{self, Way};
use crate::world::{BESIDE, World};

/// What a thread sleeps on.
#[repr(C)]
struct Bed {
    mutex: libc::pthread_mutex_t,
    condition: libc::pthread_cond_t,
    semaphore: libc::sem_t,
    woken: AtomicU32,
    handled: AtomicU32,
}

thread_local! {
    /// What the thread's signal handler counts in.
    static BED: Cell<*const Bed> = const { Cell::new(ptr::null()) };
}

extern "C" fn turns_over(_: c_int) {
    let bed = BED.get();
    if !bed.is_null() {
        // SAFETY: the thread's bed, which outlives it.
        unsafe { (*bed).handled.fetch_add(1, Ordering::AcqRel) };
    }
}

/// How a thread sleeps.
#[derive(Clone, Copy, Debug)]
enum Sleep {
    Condition,
    Semaphore,
    Futex(Way),
}

/// Sleeps until it is woken; what went wrong.
fn sleeps(bed: &Bed, how: Sleep) -> isize {
    let (mutex, condition) = (
        (&raw const bed.mutex).cast_mut(),
        (&raw const bed.condition).cast_mut(),
    );
    // SAFETY: objects that are shared as pthread wants them.
    unsafe {
        match how {
            Sleep::Condition => {
                let mut error = libc::pthread_mutex_lock(mutex);
                while error == 0 && bed.woken.load(Ordering::Acquire) == 0 {
                    error = libc::pthread_cond_wait(condition, mutex);
                }
                libc::pthread_mutex_unlock(mutex);
                isize::try_from(error).unwrap_or(-1)
            }
            Sleep::Semaphore => {
                while libc::sem_wait((&raw const bed.semaphore).cast_mut()) != 0 {
                    if *libc::__errno_location() != libc::EINTR {
                        return -1;
                    }
                }
                0
            }
            Sleep::Futex(way) => {
                let wait =
                    usize::try_from(libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG).unwrap_or(0);
                while bed.woken.load(Ordering::Acquire) == 0 {
                    let word = bed.woken.as_ptr().addr();
                    let got = system::call(way, libc::SYS_futex, [word, wait, 0, 0, 0]);
                    let again =
                        [libc::EAGAIN, libc::EINTR].map(|e| -isize::try_from(e).unwrap_or(0));
                    if got != 0 && !again.contains(&got) {
                        return got;
                    }
                }
                0
            }
        }
    }
}

fn wake(bed: &Bed, how: Sleep) {
    let (mutex, condition) = (
        (&raw const bed.mutex).cast_mut(),
        (&raw const bed.condition).cast_mut(),
    );
    // SAFETY: as above.
    unsafe {
        match how {
            Sleep::Condition => {
                assert_eq!(libc::pthread_mutex_lock(mutex), 0);
                bed.woken.store(1, Ordering::Release);
                assert_eq!(libc::pthread_cond_signal(condition), 0);
                assert_eq!(libc::pthread_mutex_unlock(mutex), 0);
            }
            Sleep::Semaphore => {
                assert_eq!(libc::sem_post((&raw const bed.semaphore).cast_mut()), 0);
            }
            Sleep::Futex(way) => {
                bed.woken.store(1, Ordering::Release);
                let word = bed.woken.as_ptr().addr();
                let wake = usize::try_from(libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG).unwrap();
                let got = system::call(way, libc::SYS_futex, [word, wake, 1, 0, 0]);
                assert!((0..=1).contains(&got), "futex: {got}");
            }
        }
    }
}

/// Whether a thread of this process sleeps in the kernel on a word of the bed.
fn asleep(thread: i32, bed: &Bed) -> bool {
    let Ok(line) = std::fs::read_to_string(format!("/proc/self/task/{thread}/syscall")) else {
        return false;
    };
    let mut words = line.split_whitespace();
    let number = words.next().and_then(|n| n.parse().ok());
    let word = words
        .next()
        .and_then(|a| usize::from_str_radix(a.trim_start_matches("0x"), 16).ok());
    let from = ptr::from_ref(bed).addr();
    number == Some(libc::SYS_futex)
        && word.is_some_and(|a| (from..from + size_of::<Bed>()).contains(&a))
}

/// A thread sleeps beside a result while that is computed anew and signals come.
pub(super) fn sleepers(w: &mut World) {
    // Outside of the matrix: nobody brings home what the C library's own futexes lie on.
    let (place, _) = w.beside.place::<Bed>(&mut w.rng, true);
    let how = match w.rng.below(4) {
        0 | 1 => Sleep::Condition,
        2 => Sleep::Semaphore,
        _ => Sleep::Futex(Way::any(&mut w.rng, true)),
    };
    w.note = format!("a thread that sleeps ({how:?}) at {:p}", place.at());
    // SAFETY: all zeros are objects as pthread initialises them; the thread has ended before the place is another's.
    let bed: &'static Bed = unsafe { &*place.at() };
    let semaphore = (&raw const bed.semaphore).cast_mut();
    // SAFETY: a semaphore of this process, that nobody uses yet.
    let failed = unsafe { libc::sem_init(semaphore, 0, 0) };
    assert_eq!(failed, 0);
    // Its number, and what signals are sent to.
    let thread = std::sync::Arc::new((AtomicI32::new(0), AtomicUsize::new(0)));
    let its = thread.clone();
    let sleeper = std::thread::spawn(move || {
        BED.set(bed);
        // SAFETY: asks who this thread is.
        unsafe {
            its.1.store(
                usize::try_from(libc::pthread_self()).unwrap(),
                Ordering::Release,
            );
            its.0.store(libc::gettid(), Ordering::Release);
        }
        sleeps(bed, how)
    });
    let until_asleep = || {
        while !asleep(thread.0.load(Ordering::Acquire), bed) && !sleeper.is_finished() {
            std::thread::yield_now();
        }
    };
    until_asleep();
    for round in 1..=1 + w.rng.below(2) {
        closes(w, What::Sleepers);
        let to = thread.1.load(Ordering::Acquire) as libc::pthread_t;
        // SAFETY: a thread that is waited for below.
        unsafe { libc::pthread_kill(to, libc::SIGUSR2) };
        let round = u32::try_from(round).unwrap();
        while bed.handled.load(Ordering::Acquire) < round && !sleeper.is_finished() {
            std::thread::yield_now();
        }
        until_asleep();
    }
    if w.rng.one_in(2) {
        product(w);
    }
    assert!(!sleeper.is_finished(), "a thread woke up too early");
    wake(bed, how);
    assert_eq!(
        sleeper.join().unwrap(),
        0,
        "how a thread slept beside a result"
    );
    place.check();
    glance(w);
}

/// What a timer's handler writes.
#[repr(C)]
struct Clock {
    ticks: AtomicU64,
    expirations: u64,
    when: libc::itimerspec,
    id: c_int,
}

/// A clock beside a matrix, and the same count elsewhere.
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

/// What the timer of the whole process counts in, how often it did, and who is in its handler.
static CLOCK: AtomicUsize = AtomicUsize::new(0);
static COUNTED: AtomicU64 = AtomicU64::new(0);
static INSIDE: AtomicU64 = AtomicU64::new(0);

extern "C" fn profiles(_: c_int) {
    INSIDE.fetch_add(1, Ordering::SeqCst);
    let clock = CLOCK.load(Ordering::SeqCst) as *const Clock;
    if !clock.is_null() {
        // SAFETY: who takes it away waits for handlers.
        unsafe { (*clock).ticks.fetch_add(1, Ordering::AcqRel) };
        COUNTED.fetch_add(1, Ordering::AcqRel);
    }
    INSIDE.fetch_sub(1, Ordering::SeqCst);
}

/// The signal of timers that tick for one thread.
fn ticking() -> c_int {
    libc::SIGRTMIN() + 5
}

/// Installs the handlers.
pub(super) fn prepare() {
    for (signal, handler, flags) in [
        (libc::SIGUSR2, turns_over as *const () as usize, 0),
        (libc::SIGPROF, profiles as *const () as usize, 0),
        (ticking(), ticks as *const () as usize, libc::SA_SIGINFO),
    ] {
        // SAFETY: handlers as declared.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler;
            action.sa_flags = flags | libc::SA_RESTART;
            assert_eq!(libc::sigaction(signal, &action, ptr::null_mut()), 0);
        }
    }
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

/// A timer, all of which lies beside a result.
pub(super) fn timers(w: &mut World) {
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
            // SAFETY: all zeros are a value of it.
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
            // What is pending comes before the call returns.
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
            // SAFETY: a new descriptor.
            let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC) };
            let timer = usize::try_from(fd).unwrap();
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
            // SAFETY: ours.
            unsafe { libc::close(fd) };
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
    let set = |microseconds| {
        let every = libc::timeval {
            tv_sec: 0,
            tv_usec: microseconds,
        };
        let value = libc::itimerval {
            it_interval: every,
            it_value: every,
        };
        // SAFETY: a timer whose signal has a handler.
        let failed = unsafe { libc::setitimer(libc::ITIMER_PROF, &value, ptr::null_mut()) };
        assert_eq!(failed, 0);
    };
    COUNTED.store(0, Ordering::SeqCst);
    CLOCK.store(clock.addr(), Ordering::SeqCst);
    set(1000);
    for _ in 0..3 {
        closes(w, What::Timers);
    }
    set(0);
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
