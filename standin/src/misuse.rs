//! Reports misuse of CUDA functions.

use core::fmt::Arguments;

/// Reports a misuse of CUDA on stderr.
pub(crate) fn complain(what: Arguments<'_>) {
    let line = format!("semcache-standin: {what}\n");
    let _ = rustix::io::write(rustix::stdio::stderr(), line.as_bytes());
}
