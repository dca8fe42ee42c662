//! Threads of the runtime: named, on a stack of their own size, and out of reach of the program's signals.

use std::io;
use std::thread::{Builder, JoinHandle};

use semcache_fault::handler::threads::{register_runtime_thread, unregister_runtime_thread};

use crate::process::masked::{self, Masked};

/// Stack of threads that only serve: mapped, not allocated; what is never touched costs nothing.
pub const STACK: usize = 1 << 20;

/// Makes the calling thread one of ours for the rest of its life: no asynchronous signal of the program's, and a fault
/// there is our bug.
pub fn enter() {
    masked::always();
    register_runtime_thread();
}

/// Runs `body` on a thread of the runtime.
///
/// # Errors
/// What creating a thread says.
pub fn spawn<T: Send + 'static>(
    name: &str,
    stack: usize,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    /// Also when `body` panics: the ids of a thread that ended are used again.
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            unregister_runtime_thread();
        }
    }
    // Inherited, so that no handler of the program runs there before `enter`.
    let _masked = Masked::new();
    Builder::new()
        .name(name.into())
        .stack_size(stack)
        .spawn(move || {
            enter();
            let _leave = Leave;
            body()
        })
}
