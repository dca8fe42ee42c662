//! Pages of a result that the program guards itself or gives back: write barriers, MADV_DONTNEED.

#![expect(unsafe_code, reason = "plays an unmodified program: mprotect, madvise")]

use std::collections::BTreeSet;
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use libc::{c_int, c_void};
use testkit::Rng;

use super::beside::{make_inaccessible, product, sometimes_check};
use crate::beside::What;
use crate::block::page;
use crate::call::call;
use crate::fortran;
use crate::system::{self, Way};
use crate::world::{BESIDE, World};

/// As many pages as a matrix among others may touch, with room to spare.
const PAGES: usize = 64;

/// Pages that a thread guards, and those that the handler made accessible.
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

/// The program's fault handler at guarded pages: notes and makes them accessible. Returns whether the address was on
/// one.
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
    // SAFETY: pages of the program.
    let failed = unsafe { libc::mprotect(pages.start as *mut c_void, pages.len(), access) };
    assert_eq!(failed, 0, "mprotect");
}

/// Some pages in a row.
pub(super) fn some(pages: &Range<usize>, rng: &mut Rng) -> Range<usize> {
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
    make_inaccessible(w, What::Barriers);
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
        // A call writes a result over the guarded pages.
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
        // An input that is read as a whole.
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
    sometimes_check(w);
}

/// A system call that would write to guarded pages is refused, and the handler notes no page.
fn refused(way: Way, at: usize) {
    let file = File::open("/dev/zero").unwrap();
    let fd = usize::try_from(file.as_raw_fd()).unwrap();
    let got = system::call(way, libc::SYS_read, [fd, at, 8, 0, 0]);
    assert_eq!(
        got,
        -isize::try_from(libc::EFAULT).unwrap(),
        "a system call that writes behind a barrier, {way:?}"
    );
}

/// All elements as an input of calls, whose result is compared.
pub(super) fn copied(w: &mut World) {
    let b = &w.slots[BESIDE];
    let (ty, unit) = (b.ty, b.unit());
    for (from, n) in b.runs() {
        let mut out = vec![0u64; (n * unit).div_ceil(8) + 2];
        let to: *mut u64 = out.as_mut_ptr();
        call!(fortran::COPY[ty as usize]; n, b.addr(from).cast_const(), 1, to.cast_const(), 1);
        // SAFETY: an equal number of bytes.
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

/// Sets the values that the elements on some pages must have.
pub(super) fn becomes(w: &mut World, pages: &Range<usize>, value: impl Fn(usize) -> f64) {
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

pub(super) fn discard(pages: &Range<usize>) {
    // SAFETY: pages of the program.
    let failed =
        unsafe { libc::madvise(pages.start as *mut c_void, pages.len(), libc::MADV_DONTNEED) };
    assert_eq!(failed, 0, "MADV_DONTNEED");
}

/// Pages of a result, and of data beside it, that are given back to the kernel are zeros.
pub(super) fn discarded(w: &mut World) {
    let pages = some(&w.beside.pages(&w.slots[BESIDE], false), &mut w.rng);
    let input = w.rng.one_in(2);
    w.note = format!("{pages:x?} given back, then an input: {input}");
    make_inaccessible(w, What::Discarded);
    discard(&pages);
    becomes(w, &pages, |_| 0.0);
    if input {
        copied(w);
    }
    if w.rng.one_in(2) {
        w.slots[BESIDE].check_all("after pages were given back");
    }
}
