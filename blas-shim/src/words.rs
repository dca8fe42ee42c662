//! Calls of functions of the host by their words: addresses of arguments, and the lengths of flags.

#![expect(unsafe_code, reason = "calls functions by their addresses")]

use core::ffi::c_void;
use core::mem::transmute;

/// The most words that a function takes, the lengths of its flags included.
pub(crate) const WORDS: usize = 16;

/// A function of a Fortran interface. Words beyond its arguments are the lengths of its flags, which follow all other
/// arguments; more words than it takes do no harm.
type Function<R> = extern "C" fn(
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
) -> R;

/// The words of a call, in order.
#[derive(Debug)]
pub(crate) struct Words {
    words: [usize; WORDS],
    count: usize,
}

impl Default for Words {
    fn default() -> Words {
        Words {
            words: [1; WORDS],
            count: 0,
        }
    }
}

impl Words {
    pub(crate) fn push(&mut self, word: usize) -> Option<()> {
        *self.words.get_mut(self.count)? = word;
        self.count += 1;
        Some(())
    }

    /// # Safety
    /// `function` is a function with these arguments and this result.
    pub(crate) unsafe fn call<R>(&self, function: *const c_void) -> R {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = self.words;
        // SAFETY: the caller keeps this function's contract.
        let function = unsafe { transmute::<*const c_void, Function<R>>(function) };
        function(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)
    }
}
