//! The kernel as a reader and writer of blocks.

#![expect(
    unsafe_code,
    reason = "plays an unmodified program: system calls on raw memory"
)]

use std::ffi::c_void;
use std::ptr;

use libc::{c_int, iovec};

use crate::element::Type;
use crate::world::{ALL, World};

/// What fits into a pipe without a reader.
const PIPE: usize = 65536;

fn file(bytes: &[u8]) -> c_int {
    // SAFETY: a new file; the bytes are ours.
    unsafe {
        let fd = libc::memfd_create(c"file".as_ptr(), libc::MFD_CLOEXEC);
        assert!(fd >= 0);
        assert_eq!(
            libc::pwrite(fd, bytes.as_ptr().cast(), bytes.len(), 0),
            signed(bytes.len())
        );
        fd
    }
}

/// Some elements of a block, and one of nine ways to move them; those that `FUZZ_WITHOUT=process_vm` names are left out.
fn elements(w: &mut World) -> (usize, usize, usize, usize) {
    let slot = w.rng.below(ALL);
    let (from, n) = w.slots[slot].span(&mut w.rng);
    let how = w.rng.below(9);
    let without = std::env::var("FUZZ_WITHOUT").unwrap_or_default();
    match how {
        7 if without.contains("process_vm") => (slot, from, n, 0),
        2..=6 => (slot, from, n.min(PIPE / 2 / w.slots[slot].unit()), how),
        _ => (slot, from, n, how),
    }
}

/// All bytes were moved.
fn complete(w: &World, moved: isize, bytes: usize) {
    assert!(
        moved == signed(bytes),
        "{}: {moved} of {bytes} bytes: {}",
        w.note,
        std::io::Error::last_os_error()
    );
}

fn signed(n: usize) -> isize {
    isize::try_from(n).unwrap()
}

/// The two ends of a pipe or of a pair of sockets: written to, read from.
fn ends(socket: bool) -> [c_int; 2] {
    let mut fds = [0; 2];
    // SAFETY: room for two descriptors.
    let failed = unsafe {
        if socket {
            libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, fds.as_mut_ptr())
        } else {
            libc::pipe(fds.as_mut_ptr())
        }
    };
    assert_eq!(failed, 0);
    [fds[1], fds[0]]
}

fn close(fds: &[c_int]) {
    for &fd in fds {
        // SAFETY: a descriptor of ours.
        unsafe { libc::close(fd) };
    }
}

/// Two pieces of a range.
fn pieces(at: *mut u8, bytes: usize, cut: usize) -> [iovec; 2] {
    [
        iovec {
            iov_base: at.cast(),
            iov_len: cut,
        },
        iovec {
            iov_base: at.wrapping_add(cut).cast(),
            iov_len: bytes - cut,
        },
    ]
}

fn message(parts: &mut [iovec; 2]) -> libc::msghdr {
    // SAFETY: a message without anything is all zeros.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = 2;
    message
}

fn differs(ty: Type, got: &[u8], wanted: &[u8]) -> Option<usize> {
    let size = ty.size();
    (0..wanted.len() / size).find(|i| ty.load(&got[i * size..]) != ty.load(&wanted[i * size..]))
}

/// The kernel reads elements; what arrives is compared.
pub(super) fn out(w: &mut World) {
    let (slot, from, n, how) = elements(w);
    let unit = w.slots[slot].unit();
    let (at, bytes) = (w.slots[slot].addr(from), n * unit);
    let cut = w.rng.below(bytes + 1);
    let mut parts = pieces(at, bytes, cut);
    let mut got = vec![0u8; bytes];
    let to: *mut c_void = got.as_mut_ptr().cast();
    w.note = format!("the kernel reads (way {how}) {n} elements from {from} of {slot}");
    // SAFETY: elements of the block; `got` has room for them.
    let moved = unsafe {
        match how {
            0 => {
                let fd = file(&[]);
                let moved = libc::pwrite(fd, at.cast(), bytes, 8);
                libc::pread(fd, to, bytes, 8);
                close(&[fd]);
                moved
            }
            1 => {
                let fd = file(&[]);
                let moved = libc::pwritev(fd, parts.as_ptr(), 2, 0);
                libc::pread(fd, to, bytes, 0);
                close(&[fd]);
                moved
            }
            2..=6 => {
                let fds = ends(how >= 5);
                let moved = match how {
                    2 => libc::write(fds[0], at.cast(), bytes),
                    3 => libc::writev(fds[0], parts.as_ptr(), 2),
                    4 => {
                        let stream = libc::fdopen(libc::dup(fds[0]), c"w".as_ptr());
                        assert!(!stream.is_null());
                        let items = libc::fwrite(at.cast(), unit, n, stream);
                        assert_eq!(libc::fclose(stream), 0);
                        signed(items * unit)
                    }
                    5 => libc::send(fds[0], at.cast(), bytes, 0),
                    _ => libc::sendmsg(fds[0], &message(&mut parts), 0),
                };
                let mut have = 0;
                while have < usize::try_from(moved).unwrap_or(0) {
                    let more = libc::read(fds[1], to.wrapping_byte_add(have), bytes - have);
                    assert!(more > 0, "read from a pipe");
                    have += usize::try_from(more).unwrap();
                }
                close(&fds);
                moved
            }
            7 => {
                let local = iovec {
                    iov_base: to,
                    iov_len: bytes,
                };
                libc::process_vm_readv(libc::getpid(), &local, 1, parts.as_ptr(), 2, 0)
            }
            _ => {
                let fd = file(&[]);
                let stream = libc::fdopen(fd, c"w+".as_ptr());
                assert!(!stream.is_null());
                let items = libc::fwrite(at.cast(), unit, n, stream);
                libc::rewind(stream);
                libc::fread(to, unit, n, stream);
                libc::fclose(stream);
                signed(items * unit)
            }
        }
    };
    complete(w, moved, bytes);
    let b = &w.slots[slot];
    if let Some(i) = differs(b.ty, &got, b.shadow(from, n)) {
        panic!(
            "{}: element {} of {} is {}, not {}",
            w.note,
            from + i,
            b.name,
            b.ty.load(&got[i * unit..]),
            b.get(from + i)
        );
    }
}

/// The kernel writes elements.
pub(super) fn into(w: &mut World) {
    let (slot, from, n, how) = elements(w);
    let (unit, ty) = (w.slots[slot].unit(), w.slots[slot].ty);
    let mut new = vec![0u8; n * unit];
    for element in new.chunks_mut(unit) {
        let (re, im) = (
            w.rng.of(&[-2.0, 0.0, 1.0, 3.0]),
            w.rng.of(&[-1.0, 0.0, 2.0]),
        );
        ty.store(element, num_complex::Complex64::new(re, im));
    }
    let (at, bytes) = (w.slots[slot].addr(from), n * unit);
    let cut = w.rng.below(bytes + 1);
    let mut parts = pieces(at, bytes, cut);
    let source: *const c_void = new.as_ptr().cast();
    w.note = format!("the kernel writes (way {how}) {n} elements from {from} of {slot}");
    // SAFETY: elements of the block.
    let moved = unsafe {
        match how {
            0 | 1 | 8 => {
                let fd = file(&new);
                let moved = match how {
                    0 => libc::pread(fd, at.cast(), bytes, 0),
                    1 => libc::preadv(fd, parts.as_ptr(), 2, 0),
                    _ => {
                        let stream = libc::fdopen(libc::dup(fd), c"r".as_ptr());
                        assert!(!stream.is_null());
                        libc::rewind(stream);
                        let items = libc::fread(at.cast(), unit, n, stream);
                        libc::fclose(stream);
                        signed(items * unit)
                    }
                };
                close(&[fd]);
                moved
            }
            2..=6 => {
                let fds = ends(how >= 5);
                assert_eq!(libc::write(fds[0], source, bytes), signed(bytes));
                let moved = match how {
                    2 => libc::read(fds[1], at.cast(), bytes),
                    3 => libc::readv(fds[1], parts.as_ptr(), 2),
                    4 => {
                        let stream = libc::fdopen(libc::dup(fds[1]), c"r".as_ptr());
                        assert!(!stream.is_null());
                        let items = libc::fread(at.cast(), unit, n, stream);
                        libc::fclose(stream);
                        signed(items * unit)
                    }
                    5 => libc::recv(fds[1], at.cast(), bytes, libc::MSG_WAITALL),
                    _ => libc::recvmsg(
                        fds[1],
                        ptr::from_mut(&mut message(&mut parts)),
                        libc::MSG_WAITALL,
                    ),
                };
                close(&fds);
                moved
            }
            _ => {
                let local = iovec {
                    iov_base: source.cast_mut(),
                    iov_len: bytes,
                };
                libc::process_vm_writev(libc::getpid(), &local, 1, parts.as_ptr(), 2, 0)
            }
        }
    };
    complete(w, moved, bytes);
    w.slots[slot].shadow_mut(from, n).copy_from_slice(&new);
    w.raise(slot, 3.0);
    w.glance(slot);
}
