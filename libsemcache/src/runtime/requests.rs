//! The requests of `semcache.h` that wait for their turn, and the end of them.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::hints::jobs::{self, Jobs};
use crate::process::signals_blocked::SignalsBlocked;

/// How long the end of the process waits for a request that is being carried out.
const LAST: Duration = Duration::from_secs(6);

static JOBS: OnceLock<Arc<Jobs>> = OnceLock::new();

/// The queue.
pub(super) fn queue() -> &'static Arc<Jobs> {
    JOBS.get_or_init(jobs::queue)
}

/// Before devices are used no more: no request is carried out from now on.
pub(super) fn stop() {
    // A handler of the program that interrupted this thread might wait for the same lock.
    let _blocked = SignalsBlocked::new();
    if let Some(jobs) = JOBS.get() {
        jobs.stop(LAST);
    }
}
