//! Hooks of system calls that change mappings: `mmap`, `munmap`, `mremap`, `madvise`, `mprotect`, `shmat` and their
//! kin.
//!
//! UCX, a network library of MPI, overwrites the first instructions of `mmap`, `munmap`, `mremap` and `madvise` by a jump to functions of
//! its own, which make the system call by number: so the hook of system calls by number does not call these four, but functions
//! that are not exported, and that are not inlined into them.

#![expect(unsafe_code, reason = "exports libc functions")]

use core::ffi::{c_int, c_long, c_ulong, c_void};
use core::ptr;

use super::buffers::{during, one};
use super::raw_syscall::call;
use super::real::{errno, set_errno, with_errno_kept};
use crate::core::any_protected;
use semcache::host::adopt::{self, Unmap};
use semcache::host::guards;
use semcache_fault::broken;

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn mmap(
    addr: *mut c_void,
    len: usize,
    prot: c_int,
    flags: c_int,
    fd: c_int,
    offset: libc::off_t,
) -> *mut c_void {
    // SAFETY: the program's arguments, passed on.
    unsafe { map(addr, len, prot, flags, fd, offset) }
}

/// The system call `mmap`.
///
/// # Safety
/// As of the system call.
#[inline(never)]
pub(super) unsafe fn map(
    addr: *mut c_void,
    len: usize,
    prot: c_int,
    flags: c_int,
    fd: c_int,
    offset: libc::off_t,
) -> *mut c_void {
    with_errno_kept(|| adopt::before_mmap(addr as usize, len, flags));
    // SAFETY: the program's arguments, passed on.
    let at = unsafe {
        call(
            libc::SYS_mmap,
            [
                addr as usize,
                len,
                prot as usize,
                flags as usize,
                fd as usize,
                offset as usize,
            ],
        )
    };
    if at != -1 {
        with_errno_kept(|| adopt::on_mmap(at as usize, len, prot, flags, fd));
    }
    at as usize as *mut c_void
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn mmap64(
    addr: *mut c_void,
    len: usize,
    prot: c_int,
    flags: c_int,
    fd: c_int,
    offset: libc::off_t,
) -> *mut c_void {
    // The same function on this architecture, of which UCX overwrites one: so it must not be inlined here.
    let mmap =
        core::hint::black_box(mmap as unsafe extern "C-unwind" fn(_, _, _, _, _, _) -> *mut c_void);
    // SAFETY: the program's arguments, passed on.
    unsafe { mmap(addr, len, prot, flags, fd, offset) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn munmap(addr: *mut c_void, len: usize) -> c_int {
    // SAFETY: the program's arguments, passed on.
    unsafe { unmap(addr, len) }
}

/// The system call `munmap`.
///
/// # Safety
/// As of the system call.
#[inline(never)]
pub(super) unsafe fn unmap(addr: *mut c_void, len: usize) -> c_int {
    match with_errno_kept(|| adopt::on_munmap(addr as usize, len)) {
        Unmap::Proceed => {
            // SAFETY: the program's arguments, passed on.
            status(unsafe { call(libc::SYS_munmap, [addr as usize, len, 0, 0, 0, 0]) })
        }
        Unmap::Done => 0,
    }
}

/// Variadic in C: the last argument must be passed with `MREMAP_FIXED`, and may be passed with `MREMAP_DONTUNMAP`.
/// Without these flags its register can be read as well.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn mremap(
    old: *mut c_void,
    old_len: usize,
    new_len: usize,
    flags: c_int,
    target: *mut c_void,
) -> *mut c_void {
    let has_target = flags & (libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP) != 0;
    let target = if has_target { target } else { ptr::null_mut() };
    let before = errno();
    // SAFETY: the program's arguments, passed on.
    let at = unsafe { remap(old, old_len, new_len, flags, target) };
    let hinted = flags & libc::MREMAP_FIXED == 0 && !target.is_null();
    if at == libc::MAP_FAILED && errno() == libc::EINVAL && hinted && !broken!("break-memory") {
        // The program may have passed no fifth argument; then the register held some other value. Without an address
        // the kernel chooses one.
        set_errno(before);
        // SAFETY: the program's arguments, passed on, except the address, which may be null.
        return unsafe { remap(old, old_len, new_len, flags, ptr::null_mut()) };
    }
    at
}

/// `mremap` by its system call. Before and after it, the record of the memory's blocks is updated.
///
/// # Safety
/// As of `mremap`.
pub(super) unsafe fn remap(
    old: *mut c_void,
    old_len: usize,
    new_len: usize,
    flags: c_int,
    target: *mut c_void,
) -> *mut c_void {
    with_errno_kept(|| {
        adopt::before_mremap(old as usize, old_len, flags, target as usize, new_len)
    });
    // SAFETY: the program's arguments, passed on.
    let at = unsafe {
        call(
            libc::SYS_mremap,
            [
                old as usize,
                old_len,
                new_len,
                flags as usize,
                target as usize,
                0,
            ],
        )
    };
    if at != -1 {
        with_errno_kept(|| adopt::on_mremap(old as usize, old_len, at as usize, new_len));
    }
    at as usize as *mut c_void
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn madvise(addr: *mut c_void, len: usize, advice: c_int) -> c_int {
    // SAFETY: the program's arguments, passed on.
    unsafe { advise(addr, len, advice) }
}

/// The system call `madvise`.
///
/// # Safety
/// As of the system call.
#[inline(never)]
pub(super) unsafe fn advise(addr: *mut c_void, len: usize, advice: c_int) -> c_int {
    let advise = || {
        with_errno_kept(|| adopt::on_madvise(addr as usize, len, advice));
        // SAFETY: the program's arguments, passed on.
        status(unsafe {
            call(
                libc::SYS_madvise,
                [addr as usize, len, advice as usize, 0, 0, 0],
            )
        })
    };
    if adopt::discards(advice) {
        // From before the bytes are given up until the kernel has replaced them no request on a thread of the runtime may send them.
        during(|| one(addr, len, true), advise)
    } else if POPULATE.contains(&advice) && any_protected() {
        // The kernel does not populate pages that it may not access, and reports an error, so results are written back
        // and the pages made accessible before.
        during(|| one(addr, len, true), advise)
    } else {
        advise()
    }
}

/// Like glibc's: returns the error instead of setting `errno`, and never discards pages.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn posix_madvise(addr: *mut c_void, len: usize, advice: c_int) -> c_int {
    if advice == libc::POSIX_MADV_DONTNEED {
        return 0;
    }
    let before = errno();
    // SAFETY: the program's arguments, passed on.
    let failed = unsafe { advise(addr, len, advice) } != 0;
    let error = if failed { errno() } else { 0 };
    set_errno(before);
    error
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn mprotect(
    addr: *mut c_void,
    len: usize,
    prot: c_int,
) -> c_int {
    let change = || {
        with_errno_kept(|| adopt::on_mprotect(addr as usize, len, prot));
        // SAFETY: the program's arguments, passed on.
        status(unsafe {
            call(
                libc::SYS_mprotect,
                [addr as usize, len, prot as usize, 0, 0, 0],
            )
        })
    };
    if prot == libc::PROT_READ | libc::PROT_WRITE {
        // Pages that a request on a thread of the runtime made read-only meanwhile would become writable.
        during(|| one(addr, len, true), change)
    } else {
        change()
    }
}

/// In glibc, `pkey_mprotect` with a key is a system call of its own, and without a key `mprotect`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn pkey_mprotect(
    addr: *mut c_void,
    len: usize,
    prot: c_int,
    key: c_int,
) -> c_int {
    if key == -1 {
        // SAFETY: the program's arguments, passed on.
        return unsafe { mprotect(addr, len, prot) };
    }
    with_errno_kept(|| guards::watch_for_good(addr as usize, len));
    // SAFETY: the program's arguments, passed on.
    status(unsafe {
        call(
            libc::SYS_pkey_mprotect,
            [addr as usize, len, prot as usize, key as usize, 0, 0],
        )
    })
}

/// Only the newest versions of libc have this function; with older versions programs make the system call by number.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn mseal(addr: *mut c_void, len: usize, flags: c_ulong) -> c_int {
    with_errno_kept(|| guards::before_seal(addr as usize, len));
    // SAFETY: the program's arguments, passed on.
    status(unsafe { call(SYS_MSEAL, [addr as usize, len, flags as usize, 0, 0, 0]) })
}

/// Not yet in the libc crate.
pub(super) const SYS_MSEAL: c_long = 462;

/// `MADV_POPULATE_READ` and `MADV_POPULATE_WRITE`.
const POPULATE: [c_int; 2] = [22, 23];

fn status(result: c_long) -> c_int {
    if result == 0 { 0 } else { -1 }
}

/// System V shared memory that replaces the mappings at its address (`SHM_REMAP`): for tracked blocks that is the same
/// as `mmap` with `MAP_FIXED`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn shmat(id: c_int, addr: *const c_void, flags: c_int) -> *mut c_void {
    if flags & libc::SHM_REMAP != 0 && !addr.is_null() {
        let mut info = core::mem::MaybeUninit::<libc::shmid_ds>::zeroed();
        // SAFETY: the record is written if there is such a segment; all zero is a value of it.
        let (known, info) = unsafe {
            let known = libc::shmctl(id, libc::IPC_STAT, info.as_mut_ptr()) == 0;
            (known, info.assume_init())
        };
        if known {
            let at = addr as usize;
            let first = if flags & libc::SHM_RND != 0 {
                at & !(rustix::param::page_size() - 1)
            } else {
                at
            };
            with_errno_kept(|| adopt::before_mmap(first, info.shm_segsz, libc::MAP_FIXED));
        }
    }
    // SAFETY: the program's arguments, passed on.
    unsafe { libc::syscall(libc::SYS_shmat, id, addr, flags) as usize as *mut c_void }
}
