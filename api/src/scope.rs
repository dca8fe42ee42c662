//! Scopes of asynchronous calls.

#![expect(unsafe_code, reason = "calls functions of another library")]

use std::cell::Cell;
use std::ffi::c_int;
use std::marker::PhantomData;
use std::ptr::null_mut;

use crate::error::{Error, Result};
use crate::table;

/// Makes BLAS calls that may return before they are complete, and waits for them at its end.
///
/// The calls that `f` makes through its [`Scope`] borrow their operands until the scope has ended: nothing else can change the inputs or
/// touch the results as long, except further calls of the scope. The scope waits when `f` returns and when it panics. Since it is a
/// function that waits and not a value, nothing that `f` forgets ([`std::mem::forget`]) keeps it from waiting.
///
/// Without the library, and where its calls cannot be asynchronous ([`Scope::status`]), each call is complete when it returns.
///
/// ```
/// use semcache_api::{Error, Transpose, View, ViewMut, scope};
/// # unsafe { libc::dlopen(c"libblas.so.3".as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
///
/// let (a, b) = ([1.0, 0.0, 2.0, 1.0], [1.0, 3.0, 0.0, 1.0]);
/// let (mut c, mut d) = ([0.0; 4], [0.0; 4]);
/// scope(|s| {
///     let (a, b) = (View::new(&a, 2, 2, 2)?, View::new(&b, 2, 2, 2)?);
///     // The result of the first product is an operand of the second one.
///     let c = s.gemm(Transpose::No, Transpose::No, 1.0, a, b, 0.0, ViewMut::new(&mut c, 2, 2, 2)?)?;
///     s.gemm(Transpose::Yes, Transpose::No, 1.0, c, b, 0.0, ViewMut::new(&mut d, 2, 2, 2)?)?;
///     Ok(())
/// })?;
/// assert_eq!((c, d), ([7.0, 3.0, 2.0, 1.0], [16.0, 5.0, 3.0, 1.0]));
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// What `f` returns. What came of the asynchronous section is no error: results are the same with and without.
pub fn scope<'env, F, R>(f: F) -> Result<R>
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> Result<R>,
{
    // Ends when this function does, by returning or by unwinding.
    let section = Section::begin();
    f(&Scope {
        status: section.0,
        scope: PhantomData,
        env: PhantomData,
        thread: PhantomData,
    })
}

/// Makes calls whose operands are borrowed for `'scope`: see [`scope`].
#[derive(Debug)]
pub struct Scope<'scope, 'env: 'scope> {
    status: Result<()>,
    /// Invariant: a scope must not pass for a shorter one, whose operands would be free while calls are pending.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
    /// Sections belong to threads.
    thread: PhantomData<*const ()>,
}

impl Scope<'_, '_> {
    /// Whether calls may return before they are complete.
    ///
    /// # Errors
    /// Why not; [`Error::Absent`] without the library.
    pub fn status(&self) -> Result<()> {
        self.status
    }
}

thread_local! {
    /// How many sections this thread's scopes have begun inside each other.
    static OPEN: Cell<u32> = const { Cell::new(0) };
}

/// An asynchronous section of the calling thread, and what came of beginning it.
struct Section(Result<()>);

impl Section {
    fn begin() -> Section {
        let begun = turn(1);
        OPEN.set(OPEN.get() + u32::from(begun.is_ok()));
        Section(begun)
    }
}

impl Drop for Section {
    fn drop(&mut self) {
        if self.0.is_err() {
            return;
        }
        // Only the end of the outermost section waits: all are ended, and those around this one begun again.
        let open = OPEN.replace(OPEN.get() - 1);
        for _ in 0..open {
            // Where the end cannot wait, the CPU's first access to a result does, as without a scope.
            let _ = turn(0);
        }
        for _ in 1..open {
            let _ = turn(1);
        }
    }
}

/// Begins or ends a section.
fn turn(begin: c_int) -> Result<()> {
    let section = table::section()?;
    // SAFETY: the event may be null, which is when the end waits.
    Error::check(unsafe { section(begin, null_mut()) })
}
