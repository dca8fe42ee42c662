//! Accesses of host memory by the CPU inside a CUDA call: an inaccessible page faults in the calling thread.

#![expect(unsafe_code, reason = "touches the program's memory")]

use core::ffi::c_void;

use semcache::device::api::{Region, Shape};

use crate::misuse::complain;

/// Copies the runs of `src` into `to`, one after the other.
///
/// # Safety
/// The runs are mapped, `to` has room for all of them.
pub(crate) unsafe fn gather(src: Region, shape: Shape, to: *mut u8) {
    for run in 0..shape.count {
        let from = pointer(src, run);
        // SAFETY: one run of each side.
        unsafe {
            let to = to.add(run * shape.width);
            if closed(libc::SYS_process_vm_readv, to, from, shape.width) {
                complain(format_args!(
                    "the CPU reads {} closed bytes at {from:?} inside a CUDA call",
                    shape.width
                ));
            }
            core::ptr::copy(from, to, shape.width);
        }
    }
}

/// Copies the packed runs at `from` to those of `dst`.
///
/// # Safety
/// The runs are mapped and may be overwritten, `from` holds all of them.
pub(crate) unsafe fn scatter(from: *const u8, dst: Region, shape: Shape) {
    for run in 0..shape.count {
        let to = pointer(dst, run);
        // SAFETY: one run of each side.
        unsafe {
            let from = from.add(run * shape.width);
            if closed(
                libc::SYS_process_vm_writev,
                from.cast_mut(),
                to,
                shape.width,
            ) {
                complain(format_args!(
                    "the CPU writes {} closed bytes at {to:?} inside a CUDA call",
                    shape.width
                ));
            }
            core::ptr::copy(from, to, shape.width);
        }
    }
}

/// Touches every page of one run as a read does.
///
/// # Safety
/// The run is mapped.
pub(crate) unsafe fn look(addr: u64, bytes: usize) {
    let mut seen = vec![0u8; bytes];
    let shape = Shape {
        width: bytes,
        count: 1,
    };
    // SAFETY: the buffer has the run's size.
    unsafe { gather(Region { addr, pitch: bytes }, shape, seen.as_mut_ptr()) };
    core::hint::black_box(&seen);
}

fn pointer(region: Region, run: usize) -> *mut u8 {
    let addr = region.addr as usize + run * region.pitch;
    core::ptr::with_exposed_provenance_mut(addr)
}

/// Whether the access will fault. The kernel's copy honours page protection and returns an error instead of raising a
/// signal, so a misuse can be reported before it happens. The system call is made without libc, whose functions a
/// preloaded library may have hooked to make the pages accessible.
///
/// # Safety
/// Both sides may be accessed by this function, `bytes` long; `call` is the number of `process_vm_readv` or
/// `process_vm_writev`.
unsafe fn closed(call: i64, ours: *mut u8, theirs: *mut u8, bytes: usize) -> bool {
    let mut done = 0;
    while done < bytes {
        let piece = (bytes - done).min(1 << 30);
        let side = |p: *mut u8| libc::iovec {
            iov_base: p.wrapping_add(done).cast::<c_void>(),
            iov_len: piece,
        };
        let (ours, theirs) = (side(ours), side(theirs));
        let mut result = call;
        // SAFETY: a system call that reads the two vectors, and copies between the two sides, for which the caller
        // vouches. The kernel changes no registers but these.
        unsafe {
            core::arch::asm!(
                "syscall",
                inlateout("rax") result,
                in("rdi") i64::from(libc::getpid()),
                in("rsi") &raw const ours,
                in("rdx") 1,
                in("r10") &raw const theirs,
                in("r8") 1,
                in("r9") 0,
                lateout("rcx") _,
                lateout("r11") _,
                options(nostack)
            );
        }
        match usize::try_from(result) {
            Ok(copied) if copied > 0 => done += copied,
            // Another error is no statement about the memory: sandboxes forbid the call.
            _ => return result == -i64::from(libc::EFAULT),
        }
    }
    false
}
