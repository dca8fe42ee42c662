//! Pages of a result that the program's own userfaultfd fills in.

#![expect(
    unsafe_code,
    reason = "plays an unmodified program: userfaultfd, raw memory"
)]

use std::ffi::c_long;
use std::ptr;

use libc::c_int;

use super::beside::{closes, glance, product};
use super::guard::{becomes, copied, discard, some};
use crate::beside::What;
use crate::block::page;
use crate::world::{BESIDE, World};

/// What of linux/userfaultfd.h is used.
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

fn asks<const N: usize>(fd: c_int, number: u64, mut words: [u64; N]) -> c_int {
    // SAFETY: as many words as the request has.
    unsafe { libc::ioctl(fd, number, words.as_mut_ptr()) }
}

fn userfaultfd() -> Option<c_int> {
    let flags: c_long = (libc::O_CLOEXEC | libc::O_NONBLOCK).into();
    // SAFETY: a new descriptor.
    let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
    let fd = c_int::try_from(fd).ok().filter(|&fd| fd >= 0)?;
    if asks(fd, uffd::API, [uffd::VERSION, 0, 0]) == 0 {
        return Some(fd);
    }
    // SAFETY: ours.
    unsafe { libc::close(fd) };
    None
}

/// Whether this process may answer faults of its own.
#[must_use]
pub fn may_answer_faults() -> bool {
    static MAY: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *MAY.get_or_init(|| match userfaultfd() {
        Some(fd) => {
            // SAFETY: ours.
            unsafe { libc::close(fd) };
            true
        }
        None => false,
    })
}

/// What a missing page is filled with.
fn number_of(address: usize, seed: usize) -> f64 {
    f64::from(u32::try_from((address / page() + seed) % 5).unwrap_or(0)) - 2.0
}

/// Fills missing pages until it is told to stop; how many.
fn answers(fd: c_int, stop: c_int, seed: usize, ty: crate::element::Type) -> Option<usize> {
    let mut filled = 0;
    let mut contents = vec![0u8; page()];
    loop {
        let mut ready = [fd, stop].map(|fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        });
        // SAFETY: structures and memory of this function.
        unsafe {
            if libc::poll(ready.as_mut_ptr(), 2, -1) < 0 {
                continue;
            }
            let mut message: uffd::Message = std::mem::zeroed();
            let size = size_of::<uffd::Message>();
            let got = libc::read(fd, (&raw mut message).cast(), size);
            if got != isize::try_from(size).ok()? {
                if ready[1].revents != 0 {
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
            if asks(fd, uffd::COPY, [to, from, page() as u64, 0, 0]) == 0 {
                filled += 1;
            } else if *libc::__errno_location() != libc::EEXIST {
                return None;
            }
        }
    }
}

/// Pages of a result that are given back, and come again as a thread of the program says.
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
    let fd = userfaultfd().expect("userfaultfd");
    let mut stop = [0; 2];
    // SAFETY: room for two descriptors.
    assert_eq!(unsafe { libc::pipe(stop.as_mut_ptr()) }, 0);
    let answering = std::thread::spawn(move || answers(fd, stop[0], seed, ty));
    let range = [watched.start as u64, watched.len() as u64];
    closes(w, What::Missing);
    let failed = asks(fd, uffd::REGISTER, [range[0], range[1], uffd::MISSING, 0]);
    assert_eq!(
        failed,
        0,
        "UFFDIO_REGISTER: {}",
        std::io::Error::last_os_error()
    );
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
    // Of gaps between columns, too.
    for p in pages.clone().step_by(page()) {
        // SAFETY: a page of the matrix.
        unsafe { ptr::with_exposed_provenance::<u8>(p).read_volatile() };
    }
    assert_eq!(asks(fd, uffd::UNREGISTER, range), 0, "UFFDIO_UNREGISTER");
    // SAFETY: one byte; descriptors of ours.
    let filled = unsafe {
        assert_eq!(libc::write(stop[1], [1u8].as_ptr().cast(), 1), 1);
        let filled = answering.join().unwrap();
        for fd in [fd, stop[0], stop[1]] {
            libc::close(fd);
        }
        filled
    };
    assert_eq!(
        filled,
        Some(pages.len() / page()),
        "pages that were filled in"
    );
    glance(w);
}
