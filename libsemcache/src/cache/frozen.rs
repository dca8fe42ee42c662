//! Fork: the cache's lock is held from before it until after it, and what happens to page faults meanwhile.
//!
//! After the fork handlers libc's `fork` takes the locks of `malloc`. A thread that holds one of these may have been
//! interrupted by a signal whose handler touches a protected page: `fork` waits for that thread, so its fault has to be
//! served although the cache's lock is held. Everything has been written back by then, and no operation in flight uses
//! host memory, so the page can be made accessible without a look at the directory. A page that becomes writable is noted,
//! and replicas' copies of it are invalidated before the parent releases the lock. The child makes all memory accessible.

use std::sync::{MutexGuard, TryLockError};
use std::thread;

use rustix::thread::{Timespec, nanosleep};

use super::HELD;
use super::opened::Opened;
use super::{Cache, State};
use crate::base::{Access, Interval, Rect};
use crate::directory::Event;
use crate::host;
use crate::process::spent::Spent;
use crate::process::waited::Waiting;
use crate::protect::permits;
use crate::transfer::Deps;

/// How often the service thread tries to take the cache's lock before it sleeps, and for how long it sleeps.
const TRIES: usize = 100;
const NAP: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000,
};

/// The cache's lock, held from before a fork until after it, so that no state changes in between.
#[derive(Debug)]
pub struct Frozen(MutexGuard<'static, State>);

impl Cache {
    /// Before fork: writes the newest bytes of all blocks back (replicas stay valid), waits for all copies that use host
    /// memory, and returns the cache's lock, which keeps all state as it is until it is dropped.
    pub fn freeze(&'static self) -> Frozen {
        let mut guard = self.lock();
        let State { entries, pools, .. } = &mut *guard;
        let mut complete = true;
        for e in entries.values_mut() {
            if host::vanished(&e.block) || semcache_fault::broken!("break-processes") {
                complete = false;
                continue;
            }
            let rect = Rect::interval(0, e.block.len);
            let written = self
                .step(e, pools, &Event::WriteBack { rect }, None)
                .and_then(|()| {
                    let mut deps = Deps::default();
                    e.host.ops.deps(&rect, true, &mut deps);
                    Ok(deps.wait(self.backend)?)
                });
            if let Err(err) = written {
                log::error!("before fork: {err:?}");
                complete = false;
            }
            complete &= e.lost.is_empty();
        }
        // The child of a fork has no entries; a thread of its parent may have held this lock.
        if !guard.entries.is_empty() {
            self.opened.lock().frozen = complete && !semcache_fault::broken!("break-frozen");
        }
        Frozen(guard)
    }

    /// In the parent, after the fork: replicas' copies of the pages that became writable meanwhile are invalidated, and
    /// the lock is released.
    pub fn thaw_parent(&self, mut frozen: Frozen) {
        let State { entries, pools, .. } = &mut *frozen.0;
        // See `freeze`.
        if entries.is_empty() {
            return;
        }
        let mut opened = self.opened.lock();
        for e in entries.values_mut() {
            let block = e.block.start..e.block.start + e.block.len;
            let written = opened.pages().iter().filter(|page| block.contains(page));
            // Whole panels, as for any fault: their pages may be protected together.
            let mut spans: Vec<Interval> = match opened.more {
                true => vec![Interval::new(0, e.block.len)],
                false => written
                    .map(|page| e.dir.panel_span(page - block.start))
                    .collect(),
            };
            spans.dedup();
            for span in spans {
                if let Err(err) = self.step(e, pools, &Event::CpuWrite { span }, None) {
                    log::error!("after fork: {err:?}");
                }
            }
        }
        *opened = Opened::default();
    }

    /// In the child of a fork: makes the memory accessible and forgets all entries. The child never touches the
    /// devices.
    pub fn thaw_child(&self, mut frozen: Frozen) {
        for e in frozen.0.entries.values_mut() {
            // These are the child's own page tables, and no other thread runs in the child, so pages may be opened in
            // any order.
            if e.lost.is_empty() {
                let _ = e.open_pages(self.gate);
            }
            e.set_guarded(false);
            e.host.ops.clear();
        }
        frozen.0.by_start.clear();
        // Replicas are device memory of the parent process, which goes on using it: nothing is returned to the pools.
        for (_, e) in std::mem::take(&mut frozen.0.entries) {
            std::mem::forget(e);
        }
        HELD.forget();
    }

    /// The cache's lock for the service of a fault; `None` if the fault has been served without it, during a fork.
    pub(super) fn lock_for_fault(&self, addr: usize, write: bool) -> Option<MutexGuard<'_, State>> {
        let mut waiting = None;
        for tries in 0_usize.. {
            match self.state.try_lock() {
                Ok(state) => return Some(state),
                Err(TryLockError::Poisoned(e)) => return Some(e.into_inner()),
                Err(TryLockError::WouldBlock) => {}
            }
            if self.open_frozen(addr, write) {
                return None;
            }
            waiting.get_or_insert_with(|| Waiting::on(Spent::Turn));
            if tries < TRIES {
                thread::yield_now();
            } else {
                // Not libc's function, whose hook may wait for a lock that is held over a fork.
                let _ = nanosleep(&NAP);
            }
        }
        None
    }

    /// Makes a page accessible while a fork holds the cache's lock; whether it is.
    fn open_frozen(&self, addr: usize, write: bool) -> bool {
        let mut opened = self.opened.lock();
        if !opened.frozen {
            return false;
        }
        if semcache_fault::pages::get(addr).is_none() || permits(addr, write) {
            return true;
        }
        let page = addr & !(self.page - 1);
        if !write && self.gate.apply(page, self.page, Access::Read).is_ok() {
            return true;
        }
        // One more page that is only readable may take more mappings than there are. A page can always be made writable.
        opened.note(page);
        self.gate.apply(page, self.page, Access::ReadWrite).is_ok()
    }
}
