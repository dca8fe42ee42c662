//! Requests that take long are carried out in their order by a thread of the runtime.

use core::fmt;
use std::sync::Arc;

use super::Status;
use super::event::Progress;
use crate::process::ending;
use crate::process::queue::{End, Queue, Work};
use crate::transfer::Deps;

/// Requests that may wait.
const MOST: usize = 1 << 12;

/// What a request has queued, or why it could not.
pub type Queued = Result<Deps, Status>;

/// A request that waits for its turn.
pub struct Job {
    request: Option<Box<dyn FnOnce() -> Queued + Send>>,
    progress: Arc<Progress>,
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.progress)
    }
}

impl Work for Job {
    fn run(&mut self) {
        if let Some(request) = self.request.take() {
            self.progress.issued(request());
        }
    }

    fn ended(&mut self, end: End) {
        match end {
            End::Done => {}
            End::Panicked => self.progress.issued(Err(Status::Failed)),
            End::Refused => self.progress.issued(Err(Status::NoDevice)),
        }
    }
}

/// The queue of requests.
pub type Jobs = Queue<Job>;

/// An empty queue.
#[must_use]
pub fn queue() -> Arc<Jobs> {
    Queue::new("semcache-hints", MOST)
}

/// Queues a request.
///
/// # Errors
/// [`Status::NoRoom`]: too many requests wait, or no thread can be made. [`Status::NoDevice`]: the process ends.
pub fn add(
    jobs: &Arc<Jobs>,
    request: impl FnOnce() -> Queued + Send + 'static,
) -> Result<Arc<Progress>, Status> {
    let progress = Progress::queued();
    let job = Job {
        request: Some(Box::new(request)),
        progress: Arc::clone(&progress),
    };
    match jobs.add(job) {
        Ok(()) => Ok(progress),
        Err(_) if ending::ending() => Err(Status::NoDevice),
        Err(_) => Err(Status::NoRoom),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_panics_fails_and_one_that_is_refused_has_no_device() {
        let work = |request: Option<Box<dyn FnOnce() -> Queued + Send>>| {
            let progress = Progress::queued();
            let job = Job {
                request,
                progress: Arc::clone(&progress),
            };
            (job, progress)
        };
        for (end, status) in [
            (End::Panicked, Status::Failed),
            (End::Refused, Status::NoDevice),
        ] {
            let (mut job, progress) = work(None);
            job.ended(end);
            assert_eq!(progress.ended(), status);
        }
        let (mut job, progress) = work(Some(Box::new(|| Ok(Deps::default()))));
        job.run();
        job.ended(End::Done);
        assert_eq!(progress.ended(), Status::Ok);
    }
}
