//! The advice of `madvise`, by what it does to the contents of pages and to access to them.

use core::ffi::c_int;

/// Advice that discards the contents of pages or makes accesses fault. The libc crate has no names for the last three,
/// which are newer.
pub(super) const DESTRUCTIVE: [c_int; 6] = [
    libc::MADV_DONTNEED,
    libc::MADV_FREE,
    libc::MADV_REMOVE,
    24, /* DONTNEED_LOCKED */
    GUARD_INSTALL,
    GUARD_REMOVE,
];
/// `MADV_GUARD_INSTALL` and `MADV_GUARD_REMOVE`: accesses fail although the mapping permits them.
pub(super) const GUARD_INSTALL: c_int = 102;
pub(super) const GUARD_REMOVE: c_int = 103;
/// Advice after which the pages may be handed out again by `malloc`: it changes neither contents nor access.
pub(super) const HARMLESS: [c_int; 11] = [
    libc::MADV_NORMAL,
    libc::MADV_RANDOM,
    libc::MADV_SEQUENTIAL,
    libc::MADV_WILLNEED,
    libc::MADV_HUGEPAGE,
    20, // COLD
    21, // PAGEOUT
    22, // POPULATE_READ
    23, // POPULATE_WRITE
    25, // COLLAPSE
    libc::MADV_KEEPONFORK,
];
