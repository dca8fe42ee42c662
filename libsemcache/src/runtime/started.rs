//! The started runtime: configuration, cache and offload policy, set once.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::base::config::Config;
use crate::blas::offload_policy::Policy;
use crate::cache::Cache;

/// A started runtime.
#[derive(Debug)]
pub struct Runtime {
    /// The parsed environment.
    pub config: &'static Config,
    /// The devices and what is on them; none without devices.
    pub cache: Option<&'static Cache>,
    /// Decides where calls run.
    pub policy: Policy,
}

pub(super) static RUNTIME: OnceLock<Runtime> = OnceLock::new();

/// Held while [`RUNTIME`] is set, and across a fork.
static PUBLISHING: Mutex<()> = Mutex::new(());

/// The runtime, if it was started and is past the point where a device can be used, or where it is known that
/// none will.
pub fn get() -> Option<&'static Runtime> {
    RUNTIME.get()
}

/// Keeps the runtime from appearing while a fork is under way.
pub(crate) fn hold() -> MutexGuard<'static, ()> {
    PUBLISHING.lock().unwrap_or_else(PoisonError::into_inner)
}
