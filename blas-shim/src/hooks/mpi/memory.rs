//! Memory that MPI uses for long: that of windows, and buffers that are attached to it.

#![expect(unsafe_code, reason = "reads what MPI has stored")]

use core::ffi::c_int;

use super::buffers::Kept;
use super::pending::{self, Use};
use super::row::Row;
use super::{Calling, quietly};
use semcache_fault::pages::page_size;

impl Calling<'_> {
    /// Calls a function that tells MPI of memory, or ends that: from then on, or until then, the memory stays accessible.
    pub(super) fn memory(&self, call: &dyn Fn() -> c_int) -> c_int {
        let Row {
            buffers,
            window,
            window_at,
            base,
            size,
            given_up,
            ..
        } = *self.row;
        if let (Some(_), Some(_)) = (window, given_up) {
            let by = Use::Window(self.handle(window), self.word(given_up));
            return self.ended(call, quietly(|| pending::take(by)));
        }
        // Memory of the program is accessible before other processes, or an adapter's driver, can use it.
        let of_program = buffers.first().and_then(|buffer| {
            let addr = self.words.get(buffer.at).copied()?;
            let len = match buffer.wide {
                true => self.word(size),
                false => usize::try_from(self.word(size) as c_int).unwrap_or(0),
            };
            // Without memory, and special values.
            let is_memory = len > 0 && addr >= page_size() && addr.checked_add(len).is_some();
            Some((
                addr,
                is_memory.then(|| quietly(|| Kept::bytes(addr, len, self.row.name))),
            ))
        });
        let status = call();
        if status != 0 {
            return status;
        }
        let stored = |at: Option<usize>| {
            // SAFETY: MPI has stored an address, or a length, there.
            unsafe { (self.word(at) as *const usize).read_unaligned() }
        };
        let window = match window {
            Some(_) => Some(self.handle(window)),
            None => window_at.map(|_| self.library.stored(self.word(window_at), 0)),
        };
        let (addr, kept) = match (of_program, base) {
            (Some((addr, kept)), _) => (addr, kept),
            (None, Some(at)) if window.is_some() => {
                let len = match size {
                    Some(_) => self.word(size),
                    // The memory of another process in the window, of a length that MPI tells.
                    None => stored(at.checked_sub(2)),
                };
                let addr = stored(base);
                (
                    addr,
                    (len > 0).then(|| quietly(|| Kept::bytes(addr, len, self.row.name))),
                )
            }
            (None, Some(_)) if size.is_none() => {
                // A buffer that was attached.
                self.end(&mut quietly(|| pending::take(Use::Attached(stored(base)))));
                return status;
            }
            _ => return status,
        };
        let by = match window {
            Some(window) => Use::Window(window, addr),
            None => Use::Attached(addr),
        };
        quietly(|| {
            drop(pending::take(by));
            pending::add(by, kept.into_iter().collect());
        });
        status
    }
}
