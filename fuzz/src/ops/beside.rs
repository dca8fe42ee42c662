//! System calls whose paths and structures lie on the same pages as a BLAS result, in the bytes around its matrix: a
//! product first makes these pages inaccessible, then the kernel has to read or fill them as it would plainly.

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

/// Overwrites the matrix of the slot `BESIDE`, around which the program keeps other data, by a new product.
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

/// Overwrites the matrix by a product, whose result stays on a device, so that its pages become inaccessible; and counts
/// that an access of the kind `what` to these pages follows.
pub(super) fn make_inaccessible(w: &mut World, what: What) {
    product(w);
    w.beside.count(&w.slots[BESIDE], what);
}

/// Compares the matrix with the expected values, in some of the calls.
pub(super) fn sometimes_check(w: &mut World) {
    w.sometimes_check(BESIDE);
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
        // SAFETY: a C string that ends in six X, which mkdtemp overwrites in place.
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

/// The size of a buffer for a path, its end included: a folder's name and up to 32 bytes of a file's.
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
        // SAFETY: `at` holds two buffers of NAME bytes, and the name is not longer.
        unsafe {
            let to = self.at.cast::<u8>().add(which * NAME);
            ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
    }

    /// A system call, often on pages that a new product has made inaccessible.
    fn ask(&self, w: &mut World, number: c_long, a: [usize; 3]) -> isize {
        if w.rng.one_in(2) {
            make_inaccessible(w, What::Names);
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
    make_inaccessible(w, What::Names);
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
            // SAFETY: the descriptor was opened just now, and nothing else uses it.
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
            // readlink writes the link's target, which is the first name, to where the first name stood: these bytes are
            // zero before, so that the check below sees what the kernel wrote.
            let length = first.as_bytes().len();
            // SAFETY: inside the buffer of the first name, which is longer than the name.
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
    sometimes_check(w);
}

/// The size of a buffer for the largest structure, utsname with its 390 bytes.
const MOST: usize = 392;
/// In the arguments of a system call: stands for the address of the buffer; AT + 4 for four bytes behind it.
const AT: usize = usize::MAX - 4096;

/// The kernel fills structures on the pages of a result: they must equal what the same call fills in ordinary memory.
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
        pipe(w);
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
        make_inaccessible(w, What::Structures);
        let got = system::call(way, number, with(place.addr()));
        assert_eq!(got, wanted, "what system call {number} returns, {way:?}");
        assert_eq!(
            place.bytes(),
            elsewhere,
            "what system call {number} wrote, {way:?}"
        );
        place.check();
    }
    sometimes_check(w);
}

/// getrusage into a structure on the pages of a result. Times of a process only grow, so they must lie between those read
/// before and after into ordinary memory.
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
        // SAFETY: the call succeeded, so the kernel has filled the structure.
        let usage = unsafe { at.read_volatile() };
        time(&usage)
    };
    // SAFETY: all zeros are a valid value.
    let mut elsewhere: libc::rusage = unsafe { std::mem::zeroed() };
    let before = ask(&raw mut elsewhere);
    make_inaccessible(w, What::Structures);
    let between = ask(place.at());
    let after = ask(&raw mut elsewhere);
    let sum = |t: (i64, i64)| t.0 + t.1;
    assert!(
        sum(before) <= sum(between) && sum(between) <= sum(after),
        "getrusage beside a result: {before:?}, {between:?}, {after:?}"
    );
    place.check();
}

/// Data are sent through a pipe. The data to send, the data that arrive, the pipe's descriptors and poll's structure all
/// lie on the pages of a result.
fn pipe(w: &mut World) {
    #[repr(C)]
    struct Sent {
        sent: [u64; 6],
        arrived: [u64; 6],
        fds: [c_int; 2],
        ready: libc::pollfd,
    }
    let (place, outside) = w.beside.place::<Sent>(&mut w.rng, false);
    let way = Way::any(&mut w.rng, outside);
    w.note = format!("data through a pipe {way:?} at {:p}", place.at());
    let sent: [u64; 6] = std::array::from_fn(|_| w.rng.draw());
    let at = place.at();
    // SAFETY: a field of the structure that was reserved beside the matrix.
    unsafe { (&raw mut (*at).sent).write_volatile(sent) };
    let [s, a, f, r] = [
        offset_of!(Sent, sent),
        offset_of!(Sent, arrived),
        offset_of!(Sent, fds),
        offset_of!(Sent, ready),
    ]
    .map(|field| place.addr() + field);
    make_inaccessible(w, What::Structures);
    let must = |number, a: [usize; 3], wanted: isize| {
        let ask = || system::call(way, number, [a[0], a[1], a[2], 0, 0]);
        let mut got = ask();
        // After the handler of a signal (other operations use timers) poll returns EINTR rather than going on.
        while got == -isize::try_from(libc::EINTR).unwrap() {
            got = ask();
        }
        assert_eq!(got, wanted, "system call {number} of a pipe, {way:?}");
    };
    must(libc::SYS_pipe, [f, 0, 0], 0);
    // SAFETY: pipe succeeded, so the kernel has filled both descriptors.
    let fds = unsafe { (&raw const (*at).fds).read_volatile() };
    let [from, to] = fds.map(|fd| usize::try_from(fd).unwrap());
    // SAFETY: a field of the structure that was reserved beside the matrix.
    unsafe {
        (&raw mut (*at).ready).write_volatile(libc::pollfd {
            fd: fds[0],
            events: libc::POLLIN,
            revents: 0,
        });
    }
    if w.rng.one_in(2) {
        make_inaccessible(w, What::Structures);
    }
    must(libc::SYS_write, [to, s, 48], 48);
    must(libc::SYS_poll, [r, 1, 1000], 1);
    if w.rng.one_in(2) {
        make_inaccessible(w, What::Structures);
    }
    must(libc::SYS_read, [from, a, 48], 48);
    // SAFETY: fields of the structure that was reserved beside the matrix; read and poll have filled them.
    let (arrived, ready) = unsafe {
        (
            (&raw const (*at).arrived).read_volatile(),
            (&raw const (*at).ready).read_volatile(),
        )
    };
    // SAFETY: the pipe was opened by this function, and nothing else uses its descriptors.
    drop(fds.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
    assert_eq!(
        (arrived, ready.revents),
        (sent, libc::POLLIN),
        "data that passed through a pipe, {way:?}"
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
    // SAFETY: the child calls only read and _exit, which are async-signal-safe.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork: {}", std::io::Error::last_os_error());
    if child == 0 {
        while ready.read_exact(&mut [0]).is_err() {}
        // SAFETY: takes no pointer.
        unsafe { libc::_exit(code) };
    }
    make_inaccessible(w, What::Children);
    // A byte, rather than the end of the file: a child that another thread forked meanwhile may hold the pipe open.
    go.write_all(&[1]).unwrap();
    let id = usize::try_from(child).unwrap();
    let got = system::call(way, libc::SYS_wait4, [id, place.addr(), 0, 0, 0]);
    assert_eq!(
        got,
        isize::try_from(child).unwrap(),
        "wait for a child, {way:?}"
    );
    // SAFETY: wait4 succeeded, so the kernel has filled the status.
    let status = unsafe { place.at().read_volatile() };
    assert_eq!(status, code << 8, "a child's status beside a result");
    place.check();
    sometimes_check(w);
}
