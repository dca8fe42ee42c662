//! Events: when a request is complete.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::Status;
use crate::device::api::Backend;
use crate::transfer::Deps;

/// How far a request is.
#[derive(Debug)]
enum Stage {
    /// It waits for its turn.
    Queued,
    /// Its copies are queued on devices.
    Issued(Deps),
    /// It is complete, or has failed.
    Done(Status),
}

/// The progress of one request.
#[derive(Debug)]
pub struct Progress {
    stage: Mutex<Stage>,
    changed: Condvar,
}

impl Progress {
    /// Of a request that waits for its turn.
    #[must_use]
    pub fn queued() -> Arc<Progress> {
        Progress::at(Stage::Queued)
    }

    /// Of a request whose copies are queued already.
    #[must_use]
    pub fn issued_at_once(deps: Deps) -> Arc<Progress> {
        Progress::at(Stage::Issued(deps))
    }

    fn at(stage: Stage) -> Arc<Progress> {
        Arc::new(Progress {
            stage: Mutex::new(stage),
            changed: Condvar::new(),
        })
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The request's copies are queued, or it failed.
    pub fn issued(&self, queued: Result<Deps, Status>) {
        *self.stage() = match queued {
            Ok(deps) => Stage::Issued(deps),
            Err(status) => Stage::Done(status),
        };
        self.changed.notify_all();
    }

    /// Waits until the request is complete.
    pub fn wait(&self, backend: &dyn Backend) -> Status {
        let queued = |stage: &mut Stage| matches!(stage, Stage::Queued);
        let stage = self.changed.wait_while(self.stage(), queued);
        let deps = match &*stage.unwrap_or_else(PoisonError::into_inner) {
            Stage::Queued => return Status::Pending,
            Stage::Done(status) => return *status,
            Stage::Issued(deps) => deps.clone(),
        };
        // Another thread may ask for the stage meanwhile.
        let status = deps.wait(backend).map_or(Status::Lost, |()| Status::Ok);
        *self.stage() = Stage::Done(status);
        status
    }

    /// What became of the request, once devices are used no more.
    pub fn ended(&self) -> Status {
        match &*self.stage() {
            Stage::Queued => Status::NoDevice,
            Stage::Issued(_) => Status::Ok,
            Stage::Done(status) => *status,
        }
    }

    /// Whether the request is complete: [`Status::Pending`] if not.
    pub fn test(&self, backend: &dyn Backend) -> Status {
        let mut stage = self.stage();
        let status = match &mut *stage {
            Stage::Queued => return Status::Pending,
            Stage::Done(status) => *status,
            Stage::Issued(deps) => match deps.settled(backend) {
                true => Status::Ok,
                false => return Status::Pending,
            },
        };
        *stage = Stage::Done(status);
        status
    }
}

/// The most events that are kept. A program that waits for none of its events loses the oldest: they count as complete.
const MOST: u64 = 1 << 16;

/// The events that programs hold, by their numbers.
#[derive(Debug, Default)]
pub struct Events {
    kept: HashMap<u64, Arc<Progress>>,
    last: u64,
}

impl Events {
    /// The number of a new event, which is not zero.
    pub fn add(&mut self, progress: Arc<Progress>) -> u64 {
        self.last += 1;
        self.kept.insert(self.last, progress);
        self.kept.remove(&self.last.saturating_sub(MOST));
        self.last
    }

    /// The event of this number; `None` if it was waited for.
    ///
    /// # Errors
    /// [`Status::Invalid`]: there was no such event.
    pub fn get(&self, number: u64) -> Result<Option<Arc<Progress>>, Status> {
        let issued = (1..=self.last).contains(&number);
        issued
            .then(|| self.kept.get(&number).cloned())
            .ok_or(Status::Invalid)
    }

    /// The event was waited for: from now on it counts as complete.
    pub fn forget(&mut self, number: u64) {
        self.kept.remove(&number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_that_was_waited_for_is_complete_and_others_are_invalid() {
        let mut events = Events::default();
        let number = events.add(Progress::queued());
        assert!(events.get(number).unwrap().is_some());
        events.forget(number);
        assert!(events.get(number).unwrap().is_none());
        assert_eq!(events.get(0).unwrap_err(), Status::Invalid);
        assert_eq!(events.get(number + 1).unwrap_err(), Status::Invalid);
    }

    #[test]
    fn events_that_nobody_waits_for_are_not_kept_for_ever() {
        let mut events = Events::default();
        let first = events.add(Progress::queued());
        (0..MOST).for_each(|_| _ = events.add(Progress::queued()));
        assert!(events.get(first).unwrap().is_none());
        assert!(events.kept.len() <= MOST as usize);
    }
}
