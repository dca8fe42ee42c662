//! Names and structures beside a result, passed to system calls.

#![expect(
    unsafe_code,
    reason = "plays an unmodified program: raw memory, system calls, fork"
)]

use std::ffi::{CString, OsString, c_long};
use std::io::{Read, Write};
use std::mem::offset_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::ptr;

use libc::c_int;

use super::level3::spread;
use crate::beside::{INNER, What};
use crate::call::call;
use crate::fortran;
use crate::system::{self, Way};
use crate::world::{BESIDE, Mat, World};

/// A new product in the matrix that lies among other data.
pub(super) fn product(w: &mut World) {
    let (ty, shape) = (w.ty(BESIDE), w.beside.shape);
    let k = 1 + w.rng.below(3);
    let first = w.rng.below(INNER - k + 1);
    let alpha = w.scalar(ty, false, false, &[BESIDE]);
    let zero = [0.0f64; 2];
    let c = Mat {
        slot: BESIDE,
        off: shape.off,
        ld: shape.ld,
        rows: shape.rows,
        cols: shape.cols,
    };
    let (left, right) = (&w.beside.left, &w.beside.right);
    let out = testkit::oracle::Dense::of(c.rows, c.cols, |i, j| {
        let sum: num_complex::Complex64 = (0..k)
            .map(|x| left.1.at(i, first + x) * right.1.at(first + x, j))
            .sum();
        alpha.value * sum
    });
    let a = left.0[first * c.rows * ty.size()..].as_ptr();
    let b = right.0[first * ty.size()..].as_ptr();
    call!(fortran::GEMM[ty as usize]; b'N', b'N', c.rows, c.cols, k, &alpha, a, c.rows, b, INNER, zero.as_ptr(), w.p(&c),
        c.ld);
    let s = spread(ty);
    w.put_all(&c, &out, 3.0 * s * s * 9.0 * k as f64 * s);
}

/// A product, after which an operation beside the matrix follows.
pub(super) fn closes(w: &mut World, what: What) {
    product(w);
    w.beside.count(&w.slots[BESIDE], what);
}

/// Compares the matrix now and then.
pub(super) fn glance(w: &mut World) {
    w.glance(BESIDE);
}

/// A folder for the files of this process, removed when the guard is dropped.
pub(crate) struct Scratch(PathBuf);

static SCRATCH: std::sync::Mutex<Option<PathBuf>> = std::sync::Mutex::new(None);

impl Scratch {
    pub(crate) fn new() -> Scratch {
        const NEW: &str = "semcache-fuzz.XXXXXX";
        let mut path = std::env::temp_dir().join(NEW);
        if path.as_os_str().len() > NAME - 32 {
            path = PathBuf::from("/tmp").join(NEW);
        }
        let name = CString::new(path.into_os_string().into_vec()).unwrap();
        let at = name.into_raw();
        // SAFETY: a C string with room for the name that comes out.
        let name = unsafe {
            assert!(!libc::mkdtemp(at).is_null(), "no folder for files");
            CString::from_raw(at)
        };
        let path = PathBuf::from(OsString::from_vec(name.into_bytes()));
        *SCRATCH.lock().unwrap() = Some(path.clone());
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Bytes for a path.
const NAME: usize = 176;

/// Two paths beside a result.
struct Names {
    at: *mut [[u8; NAME]; 2],
    way: Way,
}

impl Names {
    fn addr(&self, which: usize) -> usize {
        self.at.addr() + which * NAME
    }

    fn write(&self, which: usize, name: &CString) {
        let bytes = name.as_bytes_with_nul();
        assert!(bytes.len() <= NAME);
        // SAFETY: room for as many bytes.
        unsafe {
            let to = self.at.cast::<u8>().add(which * NAME);
            ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
    }

    /// A system call, often on pages that a new product has made inaccessible.
    fn ask(&self, w: &mut World, number: c_long, a: [usize; 3]) -> isize {
        if w.rng.one_in(2) {
            closes(w, What::Names);
        }
        system::call(self.way, number, [a[0], a[1], a[2], 0, 0])
    }

    fn must(&self, w: &mut World, number: c_long, a: [usize; 3], wanted: isize) {
        let got = self.ask(w, number, a);
        assert_eq!(
            got, wanted,
            "system call {number} on a name beside a result, {:?}",
            self.way
        );
    }
}

/// Files, folders and links whose names stand beside a result.
pub(super) fn names(w: &mut World) {
    let (place, outside) = w.beside.place::<[[u8; NAME]; 2]>(&mut w.rng, false);
    let n = Names {
        at: place.at(),
        way: Way::any(&mut w.rng, outside),
    };
    let what = w.rng.below(3);
    w.note = format!("names {what} {:?} at {:p}", n.way, n.at);
    let path = SCRATCH
        .lock()
        .unwrap()
        .as_ref()
        .unwrap()
        .join(format!("{}.{}", w.thread, w.step));
    let first = CString::new(path.as_os_str().as_bytes()).unwrap();
    let second = CString::new([first.as_bytes(), b"+"].concat()).unwrap();
    n.write(0, &first);
    n.write(1, &second);
    closes(w, What::Names);
    let (x, y) = (n.addr(0), n.addr(1));
    let none = -isize::try_from(libc::ENOENT).unwrap();
    let taken = -isize::try_from(libc::EEXIST).unwrap();
    // SAFETY: all zeros are a valid value.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    let to_stat = ptr::from_mut(&mut stat).addr();
    let create =
        usize::try_from(libc::O_CREAT | libc::O_EXCL | libc::O_RDWR | libc::O_CLOEXEC).unwrap();
    match what {
        0 => {
            let fd = n.ask(w, libc::SYS_open, [x, create, 0o600]);
            assert!(fd >= 0, "open of a name beside a result: {fd}");
            // SAFETY: a descriptor of this function.
            drop(unsafe { OwnedFd::from_raw_fd(c_int::try_from(fd).unwrap()) });
            n.must(w, libc::SYS_open, [x, create, 0o600], taken);
            n.must(w, libc::SYS_access, [x, 4, 0], 0);
            n.must(w, libc::SYS_stat, [x, to_stat, 0], 0);
            assert_eq!(stat.st_mode & libc::S_IFMT, libc::S_IFREG);
            n.must(w, libc::SYS_rename, [x, y, 0], 0);
            n.must(w, libc::SYS_access, [x, 0, 0], none);
            n.must(w, libc::SYS_unlink, [y, 0, 0], 0);
            n.must(w, libc::SYS_unlink, [y, 0, 0], none);
        }
        1 => {
            n.must(w, libc::SYS_mkdir, [x, 0o700, 0], 0);
            n.must(w, libc::SYS_mkdir, [x, 0o700, 0], taken);
            n.must(w, libc::SYS_stat, [x, to_stat, 0], 0);
            assert_eq!(stat.st_mode & libc::S_IFMT, libc::S_IFDIR);
            n.must(w, libc::SYS_rmdir, [x, 0, 0], 0);
            n.must(w, libc::SYS_rmdir, [x, 0, 0], none);
        }
        _ => {
            n.must(w, libc::SYS_symlink, [x, y, 0], 0);
            // Written over the first name, which is the target of the link.
            let length = first.as_bytes().len();
            // SAFETY: inside the place.
            unsafe { ptr::write_bytes(n.at.cast::<u8>(), 0, length) };
            n.must(
                w,
                libc::SYS_readlink,
                [y, x, NAME],
                isize::try_from(length).unwrap(),
            );
            n.must(w, libc::SYS_access, [x, 0, 0], none);
            n.must(w, libc::SYS_unlink, [y, 0, 0], 0);
        }
    }
    for (i, name) in [&first, &second].iter().enumerate() {
        let seen = &place.bytes()[i * NAME..][..name.as_bytes().len()];
        assert_eq!(seen, name.as_bytes(), "a name beside a result");
    }
    place.check();
    glance(w);
}

/// The largest structure: what uname fills.
const MOST: usize = 392;
/// Stands for the address in the arguments of a system call.
const AT: usize = usize::MAX - 4096;

/// Structures that the kernel fills beside a result: their values must equal those that it fills elsewhere.
pub(super) fn structures(w: &mut World) {
    let (file, _other) = std::io::pipe().unwrap();
    let fd = usize::try_from(file.as_raw_fd()).unwrap();
    let calls: [(c_long, [usize; 5]); 9] = [
        (libc::SYS_sched_getaffinity, [0, 128, AT, 0, 0]),
        (
            libc::SYS_getrlimit,
            [usize::try_from(libc::RLIMIT_NOFILE).unwrap(), AT, 0, 0, 0],
        ),
        (libc::SYS_uname, [AT, 0, 0, 0, 0]),
        (libc::SYS_rt_sigprocmask, [0, 0, AT, 8, 0]),
        (libc::SYS_fstat, [fd, AT, 0, 0, 0]),
        (
            libc::SYS_prctl,
            [usize::try_from(libc::PR_GET_NAME).unwrap(), AT, 0, 0, 0],
        ),
        (libc::SYS_getresuid, [AT, AT + 4, AT + 8, 0, 0]),
        (libc::SYS_getcwd, [AT, MOST, 0, 0, 0]),
        (libc::SYS_sched_getparam, [0, AT, 0, 0, 0]),
    ];
    if w.rng.one_in(3) {
        words(w);
    } else if w.rng.one_in(5) {
        usage(w);
    } else {
        let (number, arguments) = w.rng.of(&calls);
        let (place, outside) = w.beside.place::<[u8; MOST]>(&mut w.rng, true);
        let way = Way::any(&mut w.rng, outside);
        w.note = format!(
            "structure of system call {number} {way:?} at {:p}",
            place.at()
        );
        let with = |at: usize| arguments.map(|a| if a >= AT { at + (a - AT) } else { a });
        let mut elsewhere = [0u8; MOST];
        let wanted = system::call(way, number, with(elsewhere.as_mut_ptr().addr()));
        closes(w, What::Structures);
        let got = system::call(way, number, with(place.addr()));
        assert_eq!(got, wanted, "what system call {number} returns, {way:?}");
        assert_eq!(
            place.bytes(),
            elsewhere,
            "what system call {number} wrote, {way:?}"
        );
        place.check();
    }
    glance(w);
}

/// Times only grow.
fn usage(w: &mut World) {
    let (place, outside) = w.beside.place::<libc::rusage>(&mut w.rng, false);
    let way = Way::any(&mut w.rng, outside);
    w.note = format!("getrusage {way:?} at {:p}", place.at());
    let time = |u: &libc::rusage| {
        let one = |t: libc::timeval| t.tv_sec * 1_000_000 + t.tv_usec;
        (one(u.ru_utime), one(u.ru_stime))
    };
    let ask = |at: *mut libc::rusage| {
        let got = system::call(way, libc::SYS_getrusage, [0, at.addr(), 0, 0, 0]);
        assert_eq!(got, 0, "getrusage beside a result, {way:?}");
        // SAFETY: just filled.
        let usage = unsafe { at.read_volatile() };
        time(&usage)
    };
    // SAFETY: all zeros are a valid value.
    let mut elsewhere: libc::rusage = unsafe { std::mem::zeroed() };
    let before = ask(&raw mut elsewhere);
    closes(w, What::Structures);
    let between = ask(place.at());
    let after = ask(&raw mut elsewhere);
    let sum = |t: (i64, i64)| t.0 + t.1;
    assert!(
        sum(before) <= sum(between) && sum(between) <= sum(after),
        "getrusage beside a result: {before:?}, {between:?}, {after:?}"
    );
    place.check();
}

/// Words that pass through a pipe, whose descriptors the kernel also writes beside the result.
fn words(w: &mut World) {
    #[repr(C)]
    struct Words {
        sent: [u64; 6],
        arrived: [u64; 6],
        fds: [c_int; 2],
        ready: libc::pollfd,
    }
    let (place, outside) = w.beside.place::<Words>(&mut w.rng, false);
    let way = Way::any(&mut w.rng, outside);
    w.note = format!("words through a pipe {way:?} at {:p}", place.at());
    let sent: [u64; 6] = std::array::from_fn(|_| w.rng.draw());
    let at = place.at();
    // SAFETY: fields of the place.
    unsafe { (&raw mut (*at).sent).write_volatile(sent) };
    let [s, a, f, r] = [
        offset_of!(Words, sent),
        offset_of!(Words, arrived),
        offset_of!(Words, fds),
        offset_of!(Words, ready),
    ]
    .map(|field| place.addr() + field);
    closes(w, What::Structures);
    let must = |number, a: [usize; 3], wanted: isize| {
        let ask = || system::call(way, number, [a[0], a[1], a[2], 0, 0]);
        let mut got = ask();
        // poll is not restarted after a signal's handler.
        while got == -isize::try_from(libc::EINTR).unwrap() {
            got = ask();
        }
        assert_eq!(got, wanted, "system call {number} on words, {way:?}");
    };
    must(libc::SYS_pipe, [f, 0, 0], 0);
    // SAFETY: just filled.
    let fds = unsafe { (&raw const (*at).fds).read_volatile() };
    let [from, to] = fds.map(|fd| usize::try_from(fd).unwrap());
    // SAFETY: as above.
    unsafe {
        (&raw mut (*at).ready).write_volatile(libc::pollfd {
            fd: fds[0],
            events: libc::POLLIN,
            revents: 0,
        });
    }
    if w.rng.one_in(2) {
        closes(w, What::Structures);
    }
    must(libc::SYS_write, [to, s, 48], 48);
    must(libc::SYS_poll, [r, 1, 1000], 1);
    if w.rng.one_in(2) {
        closes(w, What::Structures);
    }
    must(libc::SYS_read, [from, a, 48], 48);
    // SAFETY: as above.
    let (arrived, ready) = unsafe {
        (
            (&raw const (*at).arrived).read_volatile(),
            (&raw const (*at).ready).read_volatile(),
        )
    };
    // SAFETY: descriptors of this function.
    drop(fds.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
    assert_eq!(
        (arrived, ready.revents),
        (sent, libc::POLLIN),
        "words that passed through a pipe, {way:?}"
    );
    place.check();
}

/// A child's status, which the kernel writes beside a result.
pub(super) fn children(w: &mut World) {
    let (place, outside) = w.beside.place::<c_int>(&mut w.rng, false);
    let way = Way::any(&mut w.rng, outside);
    let code = c_int::try_from(1 + w.rng.below(200)).unwrap();
    w.note = format!("a child's status {way:?} at {:p}", place.at());
    let (mut ready, mut go) = std::io::pipe().unwrap();
    // SAFETY: the child makes two system calls and ends.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork: {}", std::io::Error::last_os_error());
    if child == 0 {
        while ready.read_exact(&mut [0]).is_err() {}
        // SAFETY: takes no pointer.
        unsafe { libc::_exit(code) };
    }
    closes(w, What::Children);
    // Not ended by closing the pipe: a child of another thread may have the pipe, too.
    go.write_all(&[1]).unwrap();
    let id = usize::try_from(child).unwrap();
    let got = system::call(way, libc::SYS_wait4, [id, place.addr(), 0, 0, 0]);
    assert_eq!(
        got,
        isize::try_from(child).unwrap(),
        "wait for a child, {way:?}"
    );
    // SAFETY: just filled.
    let status = unsafe { place.at().read_volatile() };
    assert_eq!(status, code << 8, "a child's status beside a result");
    place.check();
    glance(w);
}
