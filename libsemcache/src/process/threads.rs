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

/// Dropped at a runtime thread's end, also when it panics: the kernel reuses the id of a thread that has ended.
struct Leave;

impl Drop for Leave {
    fn drop(&mut self) {
        unregister_runtime_thread();
    }
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

/// Runs `body` on the calling thread and `helper` on a thread of the runtime beside it, and returns when both have returned. If no
/// thread can be created, the calling thread runs `helper` first.
pub fn beside<T>(
    name: &str,
    stack: usize,
    helper: impl FnOnce() + Send + Clone,
    body: impl FnOnce() -> T,
) -> T {
    std::thread::scope(|scope| {
        let started = {
            let _blocked = SignalsBlocked::new();
            let helper = helper.clone();
            let on_thread = move || {
                enter();
                let _leave = Leave;
                helper();
            };
            let builder = Builder::new().name(name.into()).stack_size(stack);
            builder.spawn_scoped(scope, on_thread)
        };
        if started.is_err() {
            helper();
        }
        body()
    })
}
