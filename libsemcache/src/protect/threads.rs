//! Threads of the runtime: named, on a small stack, and out of reach of the program's signals.

use semcache_fault::handler::{block_async_signals, threads};
use std::io;
use std::thread;

/// Mapped, not allocated; what is never touched costs nothing.
const STACK: usize = 1 << 20;

/// Runs `body` on a thread of the runtime.
///
/// # Errors
/// What creating a thread says.
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    // Inherited, so that no handler of the program ever runs on that thread.
    let mask = block_async_signals();
    let made = thread::Builder::new()
        .name(name.into())
        .stack_size(STACK)
        .spawn(move || {
            threads::register_runtime_thread();
            body();
            threads::unregister_runtime_thread();
        });
    mask.restore();
    made.map(drop)
}
