//! System calls that read and write blocks.

#![expect(
    unsafe_code,
    reason = "plays an unmodified program: system calls on raw memory"
)]

use std::ffi::{CStr, c_void};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;

use libc::{c_int, iovec};
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::element::Type;
use crate::world::World;

/// Number of bytes that fit into a pipe without a reader.
const PIPE: usize = 65536;
/// Offset in its file at which pwrite puts the elements.
const OFFSET: libc::off_t = 8;

pub(super) fn file(bytes: &[u8]) -> File {
    let file = File::from(memfd_create(c"file", MFdFlags::MFD_CLOEXEC).unwrap());
    file.write_all_at(bytes, 0).unwrap();
    file
}

/// Some elements of a block, and one of nine ways to move them; ways that `FUZZ_WITHOUT=process_vm` names are left out.
fn elements(w: &mut World) -> (usize, usize, usize, usize) {
    let slot = w.any();
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
fn ends(socket: bool) -> [File; 2] {
    let ends: [OwnedFd; 2] = if socket {
        let (to, from) = UnixStream::pair().unwrap();
        [to.into(), from.into()]
    } else {
        let (from, to) = std::io::pipe().unwrap();
        [to.into(), from.into()]
    };
    ends.map(File::from)
}

/// Elements of a block: as one range, and as two pieces.
struct Range {
    at: *mut c_void,
    unit: usize,
    n: usize,
    parts: [iovec; 2],
}

impl Range {
    fn of(w: &mut World, slot: usize, from: usize, n: usize) -> Range {
        let (at, unit) = (w.slots[slot].addr(from), w.slots[slot].unit());
        let bytes = n * unit;
        let cut = w.rng.below(bytes + 1);
        let part = |from: usize, to: usize| iovec {
            iov_base: at.wrapping_add(from).cast(),
            iov_len: to - from,
        };
        Range {
            at: at.cast(),
            unit,
            n,
            parts: [part(0, cut), part(cut, bytes)],
        }
    }

    fn bytes(&self) -> usize {
        self.n * self.unit
    }

    /// The kernel writes the elements to a file, or to one end of a pipe or of a pair of sockets.
    fn write_to(&mut self, fd: c_int, how: usize) -> isize {
        let (at, bytes) = (self.at.cast_const(), self.bytes());
        // SAFETY: elements of a block.
        unsafe {
            match how {
                0 => libc::pwrite(fd, at, bytes, OFFSET),
                1 => libc::pwritev(fd, self.parts.as_ptr(), 2, 0),
                2 => libc::write(fd, at, bytes),
                3 => libc::writev(fd, self.parts.as_ptr(), 2),
                4 | 8 => {
                    let stream = stream(fd, c"w");
                    let items = libc::fwrite(at, self.unit, self.n, stream);
                    assert_eq!(libc::fclose(stream), 0);
                    signed(items * self.unit)
                }
                5 => libc::send(fd, at, bytes, 0),
                _ => libc::sendmsg(fd, &message(&mut self.parts), 0),
            }
        }
    }

    /// The kernel reads the elements from there.
    fn read_from(&mut self, fd: c_int, how: usize) -> isize {
        let (at, bytes) = (self.at, self.bytes());
        // SAFETY: elements of a block, which no other code uses meanwhile.
        unsafe {
            match how {
                0 => libc::pread(fd, at, bytes, 0),
                1 => libc::preadv(fd, self.parts.as_ptr(), 2, 0),
                2 => libc::read(fd, at, bytes),
                3 => libc::readv(fd, self.parts.as_ptr(), 2),
                4 | 8 => {
                    let stream = stream(fd, c"r");
                    let items = libc::fread(at, self.unit, self.n, stream);
                    libc::fclose(stream);
                    signed(items * self.unit)
                }
                5 => libc::recv(fd, at, bytes, libc::MSG_WAITALL),
                _ => {
                    let mut message = message(&mut self.parts);
                    libc::recvmsg(fd, &raw mut message, libc::MSG_WAITALL)
                }
            }
        }
    }
}

/// A stream of the C library over a descriptor that stays open.
fn stream(fd: c_int, mode: &CStr) -> *mut libc::FILE {
    // SAFETY: a descriptor of this process, and a mode of fopen.
    let stream = unsafe { libc::fdopen(libc::dup(fd), mode.as_ptr()) };
    assert!(!stream.is_null());
    stream
}

fn message(parts: &mut [iovec; 2]) -> libc::msghdr {
    // SAFETY: an empty message is all zeros.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = 2;
    message
}

fn differs(ty: Type, got: &[u8], wanted: &[u8]) -> Option<usize> {
    let size = ty.size();
    (0..wanted.len() / size).find(|i| ty.load(&got[i * size..]) != ty.load(&wanted[i * size..]))
}

/// The kernel reads elements; the bytes that arrive are compared.
pub(super) fn out(w: &mut World) {
    let (slot, from, n, how) = elements(w);
    let mut range = Range::of(w, slot, from, n);
    let mut got = vec![0u8; range.bytes()];
    w.note = format!("the kernel reads (way {how}) {n} elements from {from} of {slot}");
    let moved = match how {
        0 | 1 | 8 => {
            let file = file(&[]);
            let moved = range.write_to(file.as_raw_fd(), how);
            let start = if how == 0 { OFFSET } else { 0 };
            file.read_at(&mut got, start.unsigned_abs()).unwrap();
            moved
        }
        2..=6 => {
            let [to, mut from] = ends(how >= 5);
            let moved = range.write_to(to.as_raw_fd(), how);
            let arrived = usize::try_from(moved).unwrap_or(0);
            from.read_exact(&mut got[..arrived]).unwrap();
            moved
        }
        _ => {
            let local = iovec {
                iov_base: got.as_mut_ptr().cast(),
                iov_len: got.len(),
            };
            // SAFETY: elements of the block; `got` has room for them.
            unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, range.parts.as_ptr(), 2, 0) }
        }
    };
    complete(w, moved, range.bytes());
    let b = &w.slots[slot];
    if let Some(i) = differs(b.ty, &got, b.shadow(from, n)) {
        panic!(
            "{}: element {} of {} is {}, not {}",
            w.note,
            from + i,
            b.name,
            b.ty.load(&got[i * range.unit..]),
            b.get(from + i)
        );
    }
}

/// The kernel writes elements.
pub(super) fn into(w: &mut World) {
    let (slot, from, n, how) = elements(w);
    let (unit, ty) = (w.slots[slot].unit(), w.slots[slot].ty);
    let mut new = vec![0u8; n * unit];
    let parts = match ty.whole() {
        true => [1.0, 2.0, 3.0, 3.0],
        false => [-2.0, 0.0, 1.0, 3.0],
    };
    for element in new.chunks_mut(unit) {
        let (re, im) = (w.rng.of(&parts), w.rng.of(&[-1.0, 0.0, 2.0]));
        ty.store(element, num_complex::Complex64::new(re, im));
    }
    let mut range = Range::of(w, slot, from, n);
    let source: *mut c_void = new.as_mut_ptr().cast();
    w.note = format!("the kernel writes (way {how}) {n} elements from {from} of {slot}");
    let moved = match how {
        0 | 1 | 8 => range.read_from(file(&new).as_raw_fd(), how),
        2..=6 => {
            let [mut to, from] = ends(how >= 5);
            to.write_all(&new).unwrap();
            range.read_from(from.as_raw_fd(), how)
        }
        _ => {
            let local = iovec {
                iov_base: source,
                iov_len: new.len(),
            };
            // SAFETY: elements of the block, from an equal number of bytes.
            unsafe {
                libc::process_vm_writev(libc::getpid(), &local, 1, range.parts.as_ptr(), 2, 0)
            }
        }
    };
    complete(w, moved, range.bytes());
    w.slots[slot].shadow_mut(from, n).copy_from_slice(&new);
    w.raise(slot, 3.0);
    w.sometimes_check(slot);
}
