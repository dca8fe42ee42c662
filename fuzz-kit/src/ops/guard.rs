//! Pages of a result that the program guards itself or gives back: write barriers, userfaultfd, MADV_DONTNEED.

#![expect(
    unsafe_code,
    reason = "plays an unmodified program: mprotect, madvise, userfaultfd"
)]

use std::collections::BTreeSet;
use std::ffi::c_long;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use libc::{c_int, c_void};

use super::beside::{closes, glance, product};
use super::call;
use crate::beside::What;
use crate::block::page;
use crate::fortran;
use crate::rng::Rng;
use crate::system::{self, Way};
use crate::world::{BESIDE, World};

/// As many pages as a matrix among others may touch, with room to spare.
const PAGES: usize = 64;

/// Pages that a thread guards, and those that the handler opened.
struct Guard {
    from: AtomicUsize,
    end: AtomicUsize,
    opened: [AtomicU64; PAGES],
}

static GUARDS: [Guard; 4] = [const {
    Guard {
        from: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        opened: [const { AtomicU64::new(0) }; PAGES],
    }
}; 4];

/// What the program's handler of faults does at guarded pages: notes and opens them. Whether the address was on one.
pub(super) fn opens(at: usize) -> bool {
    for guard in &GUARDS {
        let from = guard.from.load(Ordering::Acquire);
        if from == 0 || !(from..guard.end.load(Ordering::Acquire)).contains(&at) {
            continue;
        }
        guard.opened[(at - from) / page()].fetch_add(1, Ordering::AcqRel);
        protect(at / page() * page()..at / page() * page() + 1, open());
        return true;
    }
    false
}

fn open() -> c_int {
    libc::PROT_READ | libc::PROT_WRITE
}

fn protect(pages: Range<usize>, access: c_int) {
    // SAFETY: pages of the program's own.
    let failed = unsafe { libc::mprotect(pages.start as *mut c_void, pages.len(), access) };
    assert_eq!(failed, 0, "mprotect");
}

/// Some pages in a row.
fn some(pages: &Range<usize>, rng: &mut Rng) -> Range<usize> {
    let count = pages.len() / page();
    let first = rng.below(count);
    let n = 1 + rng.below(count - first);
    let from = pages.start + first * page();
    from..from + n * page()
}

/// The pages on which bytes of elements lie, of those in a range.
fn touched(
    w: &World,
    runs: impl Iterator<Item = (usize, usize)>,
    of: &Range<usize>,
) -> BTreeSet<usize> {
    let b = &w.slots[BESIDE];
    runs.filter(|r| r.1 > 0)
        .flat_map(|(from, n)| {
            let (from, end) = (b.addr(from).addr(), b.addr(from + n).addr());
            (from / page()..=(end - 1) / page()).map(|p| p * page())
        })
        .filter(|p| of.contains(p))
        .collect()
}

/// A barrier: pages that may not be written, or not be touched, until the program's handler has noted them.
pub(super) fn barrier(w: &mut World) {
    let pages = some(&w.beside.pages(&w.slots[BESIDE], false), &mut w.rng);
    let guard = &GUARDS[w.thread];
    let none = w.rng.one_in(3);
    let what = w.rng.below(4);
    w.note = format!("a barrier (no access: {none}) {what} on {pages:x?}");
    if w.rng.one_in(2) {
        // Sometimes the guard comes first.
        protect(pages.clone(), open());
        product(w);
    }
    closes(w, What::Barriers);
    for opened in &guard.opened {
        opened.store(0, Ordering::Release);
    }
    guard.end.store(pages.end, Ordering::Release);
    guard.from.store(pages.start, Ordering::Release);
    protect(
        pages.clone(),
        if none {
            libc::PROT_NONE
        } else {
            libc::PROT_READ
        },
    );
    let runs = w.slots[BESIDE].runs();
    let mut wanted = BTreeSet::new();
    if what == 3 {
        let way = Way::any(&mut w.rng, true);
        refused(way, pages.start);
    }
    match what {
        // A result over them.
        0 => {
            product(w);
            wanted = touched(w, runs.into_iter(), &pages);
        }
        // The CPU writes some elements.
        1 => {
            for _ in 0..1 + w.rng.below(3) {
                let (from, n) = w.slots[BESIDE].span(&mut w.rng);
                let n = n.min(1 + w.rng.below(600));
                w.slots[BESIDE].fill(from, n, &mut w.rng);
                wanted.extend(touched(w, [(from, n)].into_iter(), &pages));
            }
        }
        // An input of which all is read.
        2 => {
            copied(w);
            if none {
                wanted = touched(w, runs.into_iter(), &pages);
            }
        }
        _ => {
            w.slots[BESIDE].check_all("behind a barrier");
            if none {
                wanted = touched(w, runs.into_iter(), &pages);
            }
        }
    }
    guard.from.store(0, Ordering::Release);
    let opened = |n: u64| -> BTreeSet<usize> {
        let times = |p: &usize| guard.opened[(p - pages.start) / page()].load(Ordering::Acquire);
        let all = (pages.start..pages.end).step_by(page());
        all.filter(|p| times(p) == n).collect()
    };
    let (once, never) = (opened(1), opened(0));
    assert_eq!(
        once,
        wanted,
        "pages that a barrier noted; {} of {} not",
        never.len(),
        pages.len() / page()
    );
    assert_eq!(
        (once.len() + never.len()) * page(),
        pages.len(),
        "a barrier noted pages twice"
    );
    protect(pages, open());
    glance(w);
}

/// A system call that would write to guarded pages is refused, and nobody notes it.
fn refused(way: Way, at: usize) {
    // SAFETY: a file of the system's.
    let fd = unsafe { libc::open(c"/dev/zero".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    let file = usize::try_from(fd).unwrap();
    let got = system::call(way, libc::SYS_read, [file, at, 8, 0, 0]);
    // SAFETY: ours.
    unsafe { libc::close(fd) };
    assert_eq!(
        got,
        -isize::try_from(libc::EFAULT).unwrap(),
        "a system call that writes behind a barrier, {way:?}"
    );
}

/// All elements as an input of calls, whose result is compared.
fn copied(w: &mut World) {
    let b = &w.slots[BESIDE];
    let (ty, unit) = (b.ty, b.unit());
    for (from, n) in b.runs() {
        let mut out = vec![0u64; (n * unit).div_ceil(8) + 2];
        let to: *mut u64 = out.as_mut_ptr();
        call!(fortran::COPY[ty as usize]; n, b.addr(from).cast_const(), 1, to.cast_const(), 1);
        // SAFETY: as many bytes.
        let got = unsafe { std::slice::from_raw_parts(to.cast::<u8>(), n * unit) };
        let wanted = b.shadow(from, n);
        let wrong = (0..n).find(|i| ty.load(&got[i * unit..]) != ty.load(&wanted[i * unit..]));
        if let Some(i) = wrong {
            panic!(
                "element {} as an input is {}, not {}",
                from + i,
                ty.load(&got[i * unit..]),
                b.get(from + i)
            );
        }
    }
}

/// Sets what must be on some pages, in the elements that lie there.
fn becomes(w: &mut World, pages: &Range<usize>, value: impl Fn(usize) -> f64) {
    let at = w.slots[BESIDE].at.addr();
    let unit = w.slots[BESIDE].unit();
    for i in 0..w.slots[BESIDE].len {
        let here = at + i * unit;
        if pages.contains(&here) {
            let number = num_complex::Complex64::new(value(here), 0.0);
            w.slots[BESIDE].set(i, number);
        }
    }
}

fn discard(pages: &Range<usize>) {
    // SAFETY: pages of the program's own.
    let failed =
        unsafe { libc::madvise(pages.start as *mut c_void, pages.len(), libc::MADV_DONTNEED) };
    assert_eq!(failed, 0, "MADV_DONTNEED");
}

/// Pages of a result, and of what stands beside it, that are given back are zeros.
pub(super) fn discarded(w: &mut World) {
    let pages = some(&w.beside.pages(&w.slots[BESIDE], false), &mut w.rng);
    let input = w.rng.one_in(2);
    w.note = format!("{pages:x?} given back, then an input: {input}");
    closes(w, What::Discarded);
    discard(&pages);
    becomes(w, &pages, |_| 0.0);
    if input {
        copied(w);
    }
    if w.rng.one_in(2) {
        w.slots[BESIDE].check_all("after pages were given back");
    }
}

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
pub(super) fn missing(w: &mut World) {
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
