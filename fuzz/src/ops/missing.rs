//! Pages of a result that are missing until the program's own userfaultfd fills them in.

#![expect(
    unsafe_code,
    reason = "plays an unmodified program: userfaultfd, raw memory"
)]

use std::ffi::c_long;
use std::io::{PipeReader, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::Arc;

use libc::c_int;
use nix::Result;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::beside::{make_inaccessible, product, sometimes_check};
use super::guard::{becomes, copied, discard, some};
use crate::beside::What;
use crate::block::page;
use crate::element::Type;
use crate::world::{BESIDE, World};

/// The part of linux/userfaultfd.h that is used.
mod uffd {
    pub(super) const API: u64 = 0xC018_AA3F;
    pub(super) const REGISTER: u64 = 0xC020_AA00;
    pub(super) const UNREGISTER: u64 = 0x8010_AA01;
    pub(super) const COPY: u64 = 0xC028_AA03;
    pub(super) const MISSING: u64 = 1;
    pub(super) const VERSION: u64 = 0xAA;
    pub(super) const PAGEFAULT: u8 = 0x12;

    #[repr(C)]
    pub(super) struct Message {
        pub(super) event: u8,
        pub(super) reserved: [u8; 7],
        pub(super) flags: u64,
        pub(super) address: u64,
        pub(super) thread: u64,
    }
}

fn asks<const N: usize>(fd: &OwnedFd, number: u64, mut words: [u64; N]) -> Result<()> {
    // SAFETY: as many words as the request has.
    Errno::result(unsafe { libc::ioctl(fd.as_raw_fd(), number, words.as_mut_ptr()) }).map(drop)
}

fn userfaultfd() -> Option<OwnedFd> {
    let flags: c_long = (libc::O_CLOEXEC | libc::O_NONBLOCK).into();
    // SAFETY: a new descriptor, which no other code owns.
    let fd = unsafe {
        let fd = libc::syscall(libc::SYS_userfaultfd, flags);
        OwnedFd::from_raw_fd(c_int::try_from(fd).ok().filter(|&fd| fd >= 0)?)
    };
    asks(&fd, uffd::API, [uffd::VERSION, 0, 0]).ok()?;
    Some(fd)
}

/// Whether this process may answer its own page faults.
#[must_use]
pub fn may_answer_faults() -> bool {
    static MAY: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *MAY.get_or_init(|| userfaultfd().is_some())
}

/// The number that a missing page is filled with.
fn number_of(address: usize, seed: usize) -> f64 {
    f64::from(u32::try_from((address / page() + seed) % 5).unwrap_or(0)) - 2.0
}

/// Fills missing pages until it is told to stop; returns their number.
fn answers(fd: &OwnedFd, stop: &PipeReader, seed: usize, ty: Type) -> Option<usize> {
    let mut filled = 0;
    let mut contents = vec![0u8; page()];
    loop {
        let mut ready = [fd.as_fd(), stop.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        if poll(&mut ready, PollTimeout::NONE).is_err() {
            continue;
        }
        let size = size_of::<uffd::Message>();
        // SAFETY: a structure of numbers, which the kernel fills.
        let (got, message) = unsafe {
            let mut message: uffd::Message = std::mem::zeroed();
            let at = (&raw mut message).cast();
            (libc::read(fd.as_raw_fd(), at, size), message)
        };
        if got != isize::try_from(size).ok()? {
            if ready[1].any() == Some(true) {
                return Some(filled);
            }
            continue;
        }
        if message.event != uffd::PAGEFAULT {
            return None;
        }
        let at = usize::try_from(message.address).ok()? / page() * page();
        for element in contents.chunks_exact_mut(ty.size()) {
            let number = num_complex::Complex64::new(number_of(at, seed), 0.0);
            ty.store(element, number);
        }
        let (to, from) = (at as u64, contents.as_ptr().addr() as u64);
        match asks(fd, uffd::COPY, [to, from, page() as u64, 0, 0]) {
            Ok(()) => filled += 1,
            Err(Errno::EEXIST) => (),
            Err(_) => return None,
        }
    }
}

/// Pages of a result that are given back to the kernel; a thread of the program fills them in again when they are
/// touched.
pub(super) fn run(w: &mut World) {
    let inner = w.beside.pages(&w.slots[BESIDE], true);
    if inner.is_empty() || !may_answer_faults() {
        w.note = "no missing pages".into();
        return;
    }
    let watched = some(&inner, &mut w.rng);
    let pages = some(&watched, &mut w.rng);
    let (seed, ty) = (w.rng.below(5), w.ty(BESIDE));
    let what = w.rng.below(4);
    w.note = format!("missing pages {pages:x?}, then {what}");
    let fd = Arc::new(userfaultfd().expect("userfaultfd"));
    let (stopped, mut stop) = std::io::pipe().unwrap();
    let its = fd.clone();
    let answering = std::thread::spawn(move || answers(&its, &stopped, seed, ty));
    let range = [watched.start as u64, watched.len() as u64];
    make_inaccessible(w, What::Missing);
    let registered = asks(&fd, uffd::REGISTER, [range[0], range[1], uffd::MISSING, 0]);
    assert_eq!(registered, Ok(()), "UFFDIO_REGISTER");
    discard(&pages);
    becomes(w, &pages, |at| number_of(at, seed));
    match what {
        0 => copied(w),
        1 => product(w),
        2 => {
            let (from, n) = w.slots[BESIDE].span(&mut w.rng);
            w.slots[BESIDE].fill(from, n, &mut w.rng);
        }
        _ => {}
    }
    w.slots[BESIDE].check_all("after pages were missing");
    // Pages of gaps between columns, too.
    for p in pages.clone().step_by(page()) {
        // SAFETY: a page of the matrix.
        unsafe { ptr::with_exposed_provenance::<u8>(p).read_volatile() };
    }
    let ended = asks(&fd, uffd::UNREGISTER, range);
    assert_eq!(ended, Ok(()), "UFFDIO_UNREGISTER");
    stop.write_all(&[1]).unwrap();
    assert_eq!(
        answering.join().unwrap(),
        Some(pages.len() / page()),
        "pages that were filled in"
    );
    sometimes_check(w);
}
