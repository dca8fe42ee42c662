//! Threads that sleep on words (futexes, condition variables, semaphores) on the pages of a result.

#![expect(
    unsafe_code,
    reason = "plays an unmodified program: pthread's objects in raw memory, signals"
)]

use std::cell::Cell;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering};

use libc::c_int;

use super::beside::{make_inaccessible, product, sometimes_check};
use crate::beside::What;
use crate::system::{self, Way, handle};
use crate::world::World;

/// The objects that a thread sleeps on.
#[repr(C)]
struct Bed {
    mutex: libc::pthread_mutex_t,
    condition: libc::pthread_cond_t,
    semaphore: libc::sem_t,
    woken: AtomicU32,
    handled: AtomicU32,
}

thread_local! {
    /// The word in which the thread's signal handler counts.
    static TURNS: Cell<*const AtomicU32> = const { Cell::new(ptr::null()) };
}

extern "C" fn turns_over(_: c_int) {
    let turns = TURNS.get();
    if !turns.is_null() {
        // SAFETY: the thread's word, which outlives it.
        unsafe { (*turns).fetch_add(1, Ordering::AcqRel) };
    }
}

/// Installs the handler of sleepers.
pub(super) fn prepare() {
    handle(libc::SIGUSR2, turns_over as *const () as usize, 0);
}

/// How a thread sleeps.
#[derive(Clone, Copy, Debug)]
enum Sleep {
    Condition,
    Semaphore,
    Futex(Way),
}

impl Bed {
    /// The mutex and the condition, as pthread's functions take them.
    fn objects(&self) -> (*mut libc::pthread_mutex_t, *mut libc::pthread_cond_t) {
        let mutex = (&raw const self.mutex).cast_mut();
        (mutex, (&raw const self.condition).cast_mut())
    }
}

/// Sleeps until it is woken; returns what went wrong.
fn sleeps(bed: &Bed, how: Sleep) -> isize {
    let (mutex, condition) = bed.objects();
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
    let (mutex, condition) = bed.objects();
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

/// A thread sleeps beside a result while the result is computed anew and signals come.
pub(super) fn run(w: &mut World) {
    // Outside of the matrix: the pages on which the C library's own futexes lie are not written back for its system
    // calls.
    let (place, _) = w.beside.place::<Bed>(&mut w.rng, true);
    let how = match w.rng.below(4) {
        0 | 1 => Sleep::Condition,
        2 => Sleep::Semaphore,
        _ => Sleep::Futex(Way::any(&mut w.rng, true)),
    };
    w.note = format!("a thread that sleeps ({how:?}) at {:p}", place.at());
    // SAFETY: all zeros are objects as pthread initialises them; the thread has ended before the place is used for
    // another value.
    let bed: &'static Bed = unsafe { &*place.at() };
    let semaphore = (&raw const bed.semaphore).cast_mut();
    // SAFETY: a semaphore of this process, which no thread uses yet.
    let failed = unsafe { libc::sem_init(semaphore, 0, 0) };
    assert_eq!(failed, 0);
    // The sleeper's thread id; its pthread handle, to which signals are sent; and the word that counts the signals if
    // that is not beside the result: a handler that writes beside the result makes its pages accessible before the
    // sleep goes on.
    let thread = Arc::new((AtomicI32::new(0), AtomicUsize::new(0), AtomicU32::new(0)));
    let (its, beside) = (thread.clone(), w.rng.one_in(2));
    let sleeper = std::thread::spawn(move || {
        TURNS.set(if beside {
            &raw const bed.handled
        } else {
            &raw const its.2
        });
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
    let handled = || {
        let turns = if beside { &bed.handled } else { &thread.2 };
        turns.load(Ordering::Acquire)
    };
    let until_asleep = || {
        while !asleep(thread.0.load(Ordering::Acquire), bed) && !sleeper.is_finished() {
            std::thread::yield_now();
        }
    };
    until_asleep();
    for round in 1..=1 + w.rng.below(2) {
        make_inaccessible(w, What::Sleepers);
        let to = thread.1.load(Ordering::Acquire) as libc::pthread_t;
        // SAFETY: a thread that is waited for below.
        unsafe { libc::pthread_kill(to, libc::SIGUSR2) };
        let round = u32::try_from(round).unwrap();
        while handled() < round && !sleeper.is_finished() {
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
    sometimes_check(w);
}
