//! Threads of the runtime: named, on a stack of fixed size, with the program's signals blocked.

use std::io;
use std::thread::{Builder, JoinHandle};

use semcache_fault::handler::threads::{register_runtime_thread, unregister_runtime_thread};

use super::signals_blocked::{self, SignalsBlocked};

/// Stack of threads that only serve: mapped, not allocated; pages that are never touched use no memory.
pub const STACK: usize = 1 << 20;

/// Makes the calling thread a runtime thread until it ends: the program's asynchronous signals are blocked, and a fault
/// of the thread is taken for a bug of semcache, not for a program's access to a protected page.
pub fn enter() {
    signals_blocked::always();
    register_runtime_thread();
}

/// Runs `body` on a thread of the runtime.
///
/// # Errors
/// The error of creating the thread.
pub fn spawn<T: Send + 'static>(
    name: &str,
    stack: usize,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    /// Runs also when `body` panics: the kernel reuses the id of a thread that has ended.
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            unregister_runtime_thread();
        }
    }
    // The new thread inherits the blocked signals, so no handler of the program runs there before `enter`.
    let _blocked = SignalsBlocked::new();
    Builder::new()
        .name(name.into())
        .stack_size(stack)
        .spawn(move || {
            enter();
            let _leave = Leave;
            body()
        })
}
