//! Requests that may not be complete.

#![expect(unsafe_code, reason = "calls a function of another library")]

use std::ffi::c_int;

use crate::error::{Error, Result};
use crate::table;

/// A request that may not be complete. It may be copied, waited for several times, or never.
///
/// ```
/// use semcache_api::{Device, Error, Hints, View};
///
/// let a = vec![1.0; 1 << 10];
/// let sent = View::new(&a, 32, 32, 32)?.prefetch(Device::All);
/// // The host does something else here.
/// let arrived = sent.and_then(|sent| sent.test());
/// assert!(matches!(arrived, Ok(_) | Err(Error::Absent)));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Event(u64);

impl Event {
    /// Returns when the request is complete.
    ///
    /// # Errors
    /// What became of the request, if it failed.
    pub fn wait(self) -> Result<()> {
        Error::check(self.ask(1)?)
    }

    /// Whether the request is complete.
    ///
    /// # Errors
    /// What became of the request, if it failed.
    pub fn test(self) -> Result<bool> {
        const PENDING: c_int = 2;
        match self.ask(0)? {
            PENDING => Ok(false),
            status => Error::check(status).map(|()| true),
        }
    }

    fn ask(self, waits: c_int) -> Result<c_int> {
        let wait = table::wait()?;
        // SAFETY: the number lives as long as the call.
        Ok(unsafe { wait(&raw const self.0, waits) })
    }

    /// The event of a request, which is given a place for its number.
    pub(crate) fn of(request: impl FnOnce(*mut u64) -> c_int) -> Result<Event> {
        let mut event = 0;
        Error::check(request(&raw mut event))?;
        Ok(Event(event))
    }
}
