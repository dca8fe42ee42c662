//! File descriptors that the stand-in's driver has open, as NVIDIA's has: device files, copies of their descriptors and
//! a socket. If any code of the process closes one of them, the devices are lost.

#![expect(unsafe_code, reason = "calls libc as any library does")]

use core::ffi::c_int;
use std::sync::OnceLock;

use rustix::fd::BorrowedFd;
use rustix::fs::fstat;

use crate::settings::settings;

/// An open descriptor, and the file that it was opened for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct File {
    number: c_int,
    kind: u64,
    node: u64,
}

static FILES: OnceLock<Vec<File>> = OnceLock::new();

impl File {
    fn look(number: c_int) -> Option<File> {
        // SAFETY: the number is only asked about; it need not be open.
        let stat = fstat(unsafe { BorrowedFd::borrow_raw(number) }).ok()?;
        Some(File {
            number,
            kind: stat.st_rdev,
            node: stat.st_ino,
        })
    }
}

/// Opens the files when the driver is initialised. NVIDIA's driver closes most files again as soon as it has opened them,
/// as the first `open64` of each round is closed here.
pub(crate) fn open() {
    FILES.get_or_init(|| {
        type Pipe = unsafe extern "C" fn(*mut c_int, c_int) -> c_int;
        // NVIDIA's driver looks `pipe2` up by version, past preloaded libraries.
        // SAFETY: C strings; the function found is libc's, or stands for it, and has this type.
        let pipe: Option<Pipe> = unsafe {
            let program = libc::dlopen(core::ptr::null(), libc::RTLD_NOW);
            core::mem::transmute(libc::dlvsym(
                program,
                c"pipe2".as_ptr(),
                c"GLIBC_2.9".as_ptr(),
            ))
        };
        let mut files = Vec::new();
        for _ in 0..settings().files {
            // SAFETY: a C string, and numbers of this function's own.
            unsafe {
                libc::close(libc::open64(c"/dev/zero".as_ptr(), libc::O_RDWR));
                let device = libc::open64(c"/dev/zero".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
                let copy = libc::dup(device);
                let socket = libc::socket(libc::AF_UNIX, libc::SOCK_DGRAM, 0);
                let mut ends = [-1; 2];
                if let Some(pipe) = pipe {
                    pipe(ends.as_mut_ptr(), libc::O_CLOEXEC);
                }
                let all = [device, copy, socket].into_iter().chain(ends);
                files.extend(all.filter_map(File::look));
            }
        }
        files
    });
}

/// Whether all descriptors still are those of the driver's files.
pub(crate) fn there() -> bool {
    let there = |f: &File| File::look(f.number) == Some(*f);
    FILES.get().is_none_or(|files| files.iter().all(there))
}
