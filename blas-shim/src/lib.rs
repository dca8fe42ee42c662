//! `libsemcache_blas.so`: the preloaded BLAS and the libc hooks.
//!
//! The library exports a complete BLAS by name and contains no BLAS: every BLAS symbol in every spelling is a stub
//! (`stubs`) that jumps to the host BLAS which the calling object would have been bound to (`resolve`, `sites`), unless
//! the runtime may take the call (`entry`, `decode`). The library also wraps the libc functions that the runtime must
//! know of (`hooks`).
//!
//! The constructor registers fork handlers, and notes the process's id where reports are asked for. It does nothing
//! else: a shell that inherits the preload pays for the mapping only.

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu")))]
compile_error!("libsemcache_blas.so is for x86-64 Linux with glibc");

#[cfg(feature = "builtin-blas")]
mod builtin;
mod core;
pub mod counts;
mod decode;
mod door;
mod elf;
mod ending;
mod entry;
mod frame;
mod glibc;
mod hooks;
mod library;
mod link_map;
mod mkl;
mod products;
mod resolve;
mod script;
mod sites;
mod stored;
mod stubs;
mod substitute;
mod symbols;
mod thread;
mod words;
mod work;

/// Allocations of this library never go to the program's heap: they would pass through this library's own hooks of
/// `malloc`.
#[global_allocator]
static HEAP: semcache::host::RuntimeHeap = semcache::host::RuntimeHeap;
