//! Requests that take long are carried out in their order by a thread of the runtime, which ends when none is left.

use core::fmt;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Status;
use super::event::Progress;
use crate::process::{ending, threads};
use crate::transfer::Deps;

/// Stack of the thread. Address space only; untouched pages cost no memory.
const STACK: usize = 8 << 20;
/// Requests that may wait.
const MOST: usize = 1 << 12;

/// What a request has queued, or why it could not.
pub type Queued = Result<Deps, Status>;

/// What a request does on the thread.
pub type Work = Box<dyn FnOnce() -> Queued + Send>;

/// A request that waits for its turn.
struct Job {
    work: Work,
    progress: Arc<Progress>,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    /// Whether there is a thread that carries them out.
    running: bool,
}

impl Waiting {
    /// None of the requests that wait is carried out.
    fn refuse(&mut self) {
        for job in self.jobs.drain(..) {
            job.progress.issued(Err(Status::NoDevice));
        }
    }
}

/// The queue of requests.
#[derive(Default)]
pub struct Jobs {
    waiting: Mutex<Waiting>,
    idle: Condvar,
}

impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} requests", self.waiting().jobs.len())
    }
}

impl Jobs {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a request.
    ///
    /// # Errors
    /// [`Status::NoRoom`]: too many requests wait, or no thread can be made. [`Status::NoDevice`]: the process ends.
    pub fn add(&'static self, work: Work) -> Result<Arc<Progress>, Status> {
        let mut waiting = self.waiting();
        if ending::ending() {
            return Err(Status::NoDevice);
        }
        if waiting.jobs.len() >= MOST {
            return Err(Status::NoRoom);
        }
        if !waiting.running {
            let begun = threads::spawn("semcache-hints", STACK, || self.run());
            waiting.running = begun.is_ok();
        }
        if !waiting.running {
            return Err(Status::NoRoom);
        }
        let progress = Progress::queued();
        waiting.jobs.push_back(Job {
            work,
            progress: Arc::clone(&progress),
        });
        Ok(progress)
    }

    /// The body of the thread.
    fn run(&self) {
        /// The request in hand; dropped also by a panic, so that no thread waits for it in vain.
        struct InHand<'a>(&'a Jobs, Arc<Progress>);
        impl Drop for InHand<'_> {
            fn drop(&mut self) {
                if std::thread::panicking() {
                    self.1.issued(Err(Status::Failed));
                    let mut waiting = self.0.waiting();
                    waiting.refuse();
                    waiting.running = false;
                    self.0.idle.notify_all();
                }
            }
        }
        while let Some(Job { work, progress }) = self.next() {
            let in_hand = InHand(self, progress);
            in_hand.1.issued(work());
        }
    }

    /// The next request. If there is none, the thread counts as ended: what is asked for from now on needs another one.
    fn next(&self) -> Option<Job> {
        let mut waiting = self.waiting();
        if ending::ending() {
            waiting.refuse();
        }
        let next = waiting.jobs.pop_front();
        waiting.running = next.is_some();
        if next.is_none() {
            self.idle.notify_all();
        }
        next
    }

    /// Before devices are used no more: returns when the thread is not in the middle of a request, or after `patience`.
    pub fn stop(&self, patience: Duration) {
        let mut waiting = self.waiting();
        waiting.refuse();
        let running = |waiting: &mut Waiting| waiting.running;
        let waited = self.idle.wait_timeout_while(waiting, patience, running);
        drop(waited);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn requests_are_carried_out_in_their_order_by_threads_that_end() {
        let jobs: &Jobs = Box::leak(Box::default());
        let (tell, told) = channel();
        for round in 0..3 {
            for i in 0..10 {
                let tell = tell.clone();
                let work = move || {
                    tell.send(10 * round + i).expect("the test listens");
                    Ok(Deps::default())
                };
                jobs.add(Box::new(work)).expect("a thread");
            }
            while jobs.waiting().running {
                std::thread::yield_now();
            }
        }
        drop(tell);
        let found: Vec<i32> = told.iter().collect();
        assert_eq!(found, (0..30).collect::<Vec<_>>());
    }

    #[test]
    fn a_request_that_panics_fails_and_the_next_one_gets_a_thread() {
        let jobs: &Jobs = Box::leak(Box::default());
        jobs.add(Box::new(|| panic!("on purpose")))
            .expect("a thread");
        while jobs.waiting().running {
            std::thread::yield_now();
        }
        jobs.add(Box::new(|| Ok(Deps::default())))
            .expect("another thread");
        jobs.stop(Duration::from_secs(10));
        assert!(!jobs.waiting().running);
    }
}
