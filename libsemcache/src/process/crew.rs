//! Worker threads that share work which one thread alone does at the rate of a core and not of memory: zeroing and populating
//! pages, and copies between the program's memory and staging memory.
//!
//! A job is a number of chunks. The thread that posts it works on it too, so a job completes without any worker; posting takes no
//! lock and allocates nothing, and while a job is posted, other threads do theirs alone. Workers end after two seconds without
//! work.

#![expect(
    unsafe_code,
    reason = "calls the closure of another thread, which waits meanwhile"
)]

use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};
use core::time::Duration;
use std::time::Instant;

use rustix::thread::futex;

use super::threads;

/// The most workers.
const MOST: usize = 31;
/// How long an idle worker waits for a job before it ends.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long an idle worker looks for a job before it sleeps: while a large matrix is copied, jobs follow each other, and to wake
/// sleeping workers takes longer than their part of a job.
const LOOKS: Duration = Duration::from_micros(500);

/// Number of the job in the upper half, index of its next chunk in the lower: a thread takes a chunk only of the job
/// whose closure and number of chunks it has read.
static NEXT: AtomicU64 = AtomicU64::new(CLOSED);
const CLOSED: u64 = u32::MAX as u64;
static CHUNKS: AtomicUsize = AtomicUsize::new(0);
/// The closure of the job, and the function that calls it with the index of a chunk.
static WORK: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());
static CALL: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());
/// Chunks of the job that are finished.
static DONE: AtomicUsize = AtomicUsize::new(0);
/// A job is posted.
static TAKEN: AtomicBool = AtomicBool::new(false);
/// Changes with every job.
static JOBS: AtomicU32 = AtomicU32::new(0);
static WORKERS: AtomicUsize = AtomicUsize::new(0);
/// Workers that sleep, or are about to.
static ASLEEP: AtomicUsize = AtomicUsize::new(0);

type Call = unsafe fn(*const (), usize);

/// Processors that the process may use.
#[must_use]
pub fn cores() -> usize {
    rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count() as usize)
}

/// Starts workers until this number of threads can work on a job, the calling one included, or a processor each is taken. Creates
/// threads: the caller is where that is safe.
pub fn recruit(threads: usize) {
    if WORKERS.load(Relaxed) + 1 >= threads {
        return;
    }
    let wanted = threads.min(cores()).saturating_sub(1).min(MOST);
    while WORKERS.load(Relaxed) < wanted {
        WORKERS.fetch_add(1, Relaxed);
        if threads::spawn("semcache-crew", threads::STACK, wait_for_jobs).is_err() {
            WORKERS.fetch_sub(1, Relaxed);
            break;
        }
    }
}

/// Whether any worker exists.
#[must_use]
pub fn exists() -> bool {
    WORKERS.load(Relaxed) > 0
}

/// Calls `work` once with each index below `chunks`, from the calling thread and the workers that exist, and returns when all
/// calls have returned. `work` does not unwind, and does not wait for a thread that may post a job.
pub fn share<F: Fn(usize) + Sync>(chunks: usize, work: &F) {
    share_while(chunks, work, || ());
}

/// As [`share`]; the calling thread does something else first, while workers begin. `first` posts no job and does not unwind.
pub fn share_while<F: Fn(usize) + Sync>(chunks: usize, work: &F, first: impl FnOnce()) {
    unsafe fn call<F: Fn(usize)>(work: *const (), chunk: usize) {
        // SAFETY: `share` stored this function together with a closure of this type, which lives until all chunks of the job
        // are done.
        (unsafe { &*work.cast::<F>() })(chunk);
    }
    let alone = chunks < 2 || chunks >= CLOSED as usize || !exists() || TAKEN.swap(true, AcqRel);
    if alone {
        first();
        (0..chunks).for_each(work);
        return;
    }
    let call: Call = call::<F>;
    WORK.store(ptr::from_ref(work).cast::<()>().cast_mut(), Relaxed);
    CALL.store(call as *mut (), Relaxed);
    CHUNKS.store(chunks, Relaxed);
    DONE.store(0, Relaxed);
    let generation = (NEXT.load(Relaxed) >> 32).wrapping_add(1) << 32;
    NEXT.store(generation, Release);
    JOBS.fetch_add(1, SeqCst);
    if ASLEEP.load(SeqCst) > 0 {
        let _ = futex::wake(&JOBS, futex::Flags::PRIVATE, MOST as u32);
    }
    first();
    while step() {}
    while DONE.load(Acquire) < chunks {
        rustix::thread::sched_yield();
    }
    NEXT.store(generation | CLOSED, Release);
    TAKEN.store(false, Release);
}

/// Forgets the workers: a child of fork has none.
pub fn forget() {
    WORKERS.store(0, Relaxed);
    ASLEEP.store(0, Relaxed);
    NEXT.store(NEXT.load(Relaxed) | CLOSED, Relaxed);
    TAKEN.store(false, Relaxed);
}

/// Takes a chunk of the posted job, if there is one left.
fn step() -> bool {
    let mut next = NEXT.load(Acquire);
    loop {
        let (work, call) = (WORK.load(Relaxed), CALL.load(Relaxed));
        let chunk = (next & CLOSED) as usize;
        if next & CLOSED == CLOSED || chunk >= CHUNKS.load(Relaxed) {
            return false;
        }
        match NEXT.compare_exchange(next, next + 1, AcqRel, Acquire) {
            Ok(_) => {
                // SAFETY: a posted job's function is a `Call`.
                let call: Call = unsafe { core::mem::transmute(call) };
                // SAFETY: the job's number was current before the closure and its function were read and is so still, so they
                // belong together; the thread that posted the job waits until this chunk is counted as done.
                unsafe { call(work, chunk) };
                DONE.fetch_add(1, Release);
                return true;
            }
            Err(now) => next = now,
        }
    }
}

fn wait_for_jobs() {
    loop {
        let jobs = JOBS.load(Acquire);
        while step() {}
        if comes_soon(jobs) {
            continue;
        }
        let Ok(patience) = PATIENCE.try_into() else {
            break;
        };
        // Either the poster sees this worker among the sleeping ones, or the worker sees that the number of jobs has changed.
        ASLEEP.fetch_add(1, SeqCst);
        // The worker was woken, the futex had changed, or a signal came: it looks for a chunk again.
        let woken = futex::wait(&JOBS, futex::Flags::PRIVATE, jobs, Some(&patience));
        ASLEEP.fetch_sub(1, SeqCst);
        if woken == Err(rustix::io::Errno::TIMEDOUT) {
            break;
        }
    }
    WORKERS.fetch_sub(1, Relaxed);
}

/// Looks for a while whether a job is posted after the one with this number. The host BLAS may keep as many threads awake as there
/// are processors, so a worker that looks leaves its processor to any other thread that could run.
fn comes_soon(jobs: u32) -> bool {
    let began = Instant::now();
    while began.elapsed() < LOOKS {
        for _ in 0..16 {
            core::hint::spin_loop();
            if JOBS.load(Relaxed) != jobs {
                return true;
            }
        }
        rustix::thread::sched_yield();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_chunk_is_done_once() {
        recruit(4);
        std::thread::scope(|s| {
            // One of these threads at a time posts its job to the workers, the others work alone.
            for chunks in [1, 2, 7, 1000] {
                s.spawn(move || {
                    for _ in 0..200 {
                        let done: Vec<AtomicUsize> =
                            (0..chunks).map(|_| AtomicUsize::new(0)).collect();
                        let mut first = 0;
                        let work = |chunk: usize| {
                            done[chunk].fetch_add(1, Relaxed);
                        };
                        share_while(chunks, &work, || first += 1);
                        assert!(done.iter().all(|n| n.load(Relaxed) == 1));
                        assert_eq!(first, 1);
                    }
                });
            }
        });
    }
}
