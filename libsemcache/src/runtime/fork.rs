//! fork: the parent's results come home before, the child computes on the host.
//!
//! Devices cannot be used after fork, the child has no service thread, and it inherits page protection. So
//! the prepare handler brings the newest bytes home and holds every lock; the parent goes on with its
//! replicas still valid; the child opens all memory and never touches a device again.
#![expect(unsafe_code, reason = "pthread_atfork")]

use std::sync::Mutex;

use super::{Mode, init, set_mode};
use crate::base::counters::{Degraded, degrade};
use crate::cache::flush::Frozen;
use crate::host;

static FROZEN: Mutex<Option<Frozen>> = Mutex::new(None);

fn frozen() -> std::sync::MutexGuard<'static, Option<Frozen>> {
    FROZEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Registers the handlers, once, when devices come into use.
pub(crate) fn register() {
    // SAFETY: the handlers are functions of this library, which is never unloaded (`-z nodelete`).
    unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
}

extern "C" fn prepare() {
    if let Some(cache) = init::get().and_then(|r| r.cache) {
        *frozen() = Some(cache.freeze());
    }
    host::before_fork();
}

extern "C" fn parent() {
    host::after_fork_parent();
    *frozen() = None;
}

extern "C" fn child() {
    host::after_fork_child();
    set_mode(Mode::Forked);
    degrade(Degraded::Forked);
    semcache_fault::mailbox::reset_after_fork();
    host::registry::forget_users();
    let taken = frozen().take();
    if let (Some(cache), Some(f)) = (init::get().and_then(|r| r.cache), taken) {
        cache.thaw_child(f);
    }
    crate::base::counters::reset();
}
