//! `libsemcache_blas.so`: the exported face of semcache.
//!
//! A complete BLAS by name, and nothing of one inside: every BLAS symbol in every spelling is a stub
//! (`stubs`) that jumps to the host BLAS which its caller would have bound to (`resolve`, `sites`), unless
//! the call is one that the runtime may take (`entry`, `decode`). Besides, the libc functions that the
//! runtime must see are wrapped (`hooks`).
//!
//! No constructor does anything but note the process's id where reports are asked for: a shell that
//! inherits the preload pays for the mapping only.

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu")))]
compile_error!("libsemcache_blas.so is for x86-64 Linux with glibc");

#[cfg(feature = "builtin-blas")]
mod builtin;
mod core;
pub mod counts;
mod decode;
mod elf;
mod ending;
mod entry;
mod frame;
mod glibc;
mod hooks;
mod resolve;
mod sites;
mod stubs;
mod substitute;
mod symbols;
mod thread;
mod work;

/// Never the program's heap: what the runtime does must not pass through its own hooks.
#[global_allocator]
static HEAP: semcache::host::RuntimeHeap = semcache::host::RuntimeHeap;
