//! Memory that the processes of a run share: an anonymous file (memfd) of fixed size, which other processes open through the
//! descriptor table of the process that made it. Nothing of it is left behind.
#![expect(unsafe_code, reason = "maps memory over statics of this library")]

use core::ffi::c_void;
use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    FallocateFlags, MemfdFlags, Mode, OFlags, SealFlags, fallocate, fcntl_add_seals,
    fcntl_get_seals, fstat, ftruncate, memfd_create, open as open_file,
};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use rustix::process::{Resource, getrlimit};

/// No process can make the file smaller or larger.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// Makes such a file of `len` bytes, all zero. Memory is taken for pages that are written only.
///
/// # Errors
/// The system's; `EFBIG` if the process may make no file as large (`ulimit -f`).
pub fn create(len: usize) -> Result<OwnedFd, Errno> {
    // The system would not only refuse a larger file, but send a signal that ends the process.
    let most = getrlimit(Resource::Fsize).current;
    if most.is_some_and(|most| most < len as u64) {
        return Err(Errno::FBIG);
    }
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = memfd_create("semcache", flags)?;
    ftruncate(&file, len as u64)?;
    fcntl_add_seals(&file, SEALS)?;
    Ok(file)
}

/// Opens the file by its path in a descriptor table (`/proc/PID/fd/N`).
///
/// # Errors
/// The system's; `EINVAL` if the path is that of another file, or of another size.
pub fn open(path: &str, len: usize) -> Result<OwnedFd, Errno> {
    let file = open_file(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    check(&file, len)?;
    Ok(file)
}

/// Whether a descriptor is that of such a file.
///
/// # Errors
/// The system's; `EINVAL` if it is not.
pub fn check(file: impl AsFd, len: usize) -> Result<(), Errno> {
    let sealed = fcntl_get_seals(&file).is_ok_and(|seals| seals.contains(SEALS));
    let same = fstat(&file)?.st_size == i64::try_from(len).unwrap_or(i64::MAX);
    if sealed && same {
        Ok(())
    } else {
        Err(Errno::INVAL)
    }
}

/// Gives the memory of a part of the file back; its bytes are zero then.
///
/// # Errors
/// The system's.
pub fn clear(file: impl AsFd, offset: usize, len: usize) -> Result<(), Errno> {
    let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(file, how, offset as u64, len as u64)
}

/// A part of the file in the memory of this process.
#[derive(Debug)]
pub struct Mapped {
    at: NonNull<c_void>,
    len: usize,
}

// SAFETY: the mapping belongs to no thread; `bytes` gives out addresses only.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps a part of the file, which begins at a multiple of the page size.
    ///
    /// # Errors
    /// The system's.
    pub fn new(file: impl AsFd, offset: usize, len: usize) -> Result<Mapped, Errno> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses an address where nothing is mapped.
        let at = unsafe {
            mmap(
                core::ptr::null_mut(),
                len,
                access,
                MapFlags::SHARED | MapFlags::NORESERVE,
                file,
                offset as u64,
            )
        }?;
        let at = NonNull::new(at).ok_or(Errno::NOMEM)?;
        Ok(Mapped { at, len })
    }

    /// The mapping as a structure of atomics.
    ///
    /// # Safety
    /// `T` has nothing but atomic integers, for which all bytes are valid.
    #[must_use]
    pub unsafe fn get<T>(&self) -> &T {
        assert!(size_of::<T>() <= self.len && self.at.cast::<T>().is_aligned());
        // SAFETY: mapped for the length of the structure as long as this value lives; atomics may be changed by other processes.
        unsafe { self.at.cast().as_ref() }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, to which no reference is left. It fails only where nothing is mapped.
        let _ = unsafe { munmap(self.at.as_ptr(), self.len) };
    }
}

/// Puts a part of the file in the place of a static's memory: from then on what is stored there is in the file.
///
/// # Errors
/// The system's; the static is as it was then.
///
/// # Safety
/// `T` has nothing but atomic integers, and fills whole pages. What it held is lost; that must be known to be zero, or copied.
pub unsafe fn map_over<T>(place: &'static T, file: impl AsFd, offset: usize) -> Result<(), Errno> {
    let at = core::ptr::from_ref(place).cast_mut().cast();
    let flags = MapFlags::SHARED | MapFlags::FIXED;
    // SAFETY: the range is that of the static, and of whole pages by the caller's word; it stays readable and writable.
    unsafe {
        mmap(
            at,
            size_of::<T>(),
            ProtFlags::READ | ProtFlags::WRITE,
            flags,
            file,
            offset as u64,
        )
    }
    .map(drop)
}

/// Copies what a static holds to a mapping, but for the bytes `without`, which are known to be zero: reading them would make their pages
/// present in memory.
///
/// # Safety
/// `T` has nothing but atomic integers of at most a word, and begins at a page.
pub unsafe fn copy<T>(from: &'static T, to: &Mapped, without: Range<usize>) {
    // SAFETY: by the caller's word; the mapping is as long, since `get` checks that.
    let (from, to) = unsafe { (words(from), words(to.get::<T>())) };
    for (i, (from, to)) in from.iter().zip(to).enumerate() {
        if !without.contains(&(i * WORD)) && from.load(Relaxed) != 0 {
            to.store(from.load(Relaxed), Relaxed);
        }
    }
}

const WORD: usize = size_of::<AtomicU64>();

/// A structure as words.
///
/// # Safety
/// `T` has nothing but atomic integers of at most a word, and is aligned to words.
unsafe fn words<T>(of: &T) -> &[AtomicU64] {
    let words = core::ptr::from_ref(of).cast();
    // SAFETY: by the caller's word these are atomics, which may be changed through a shared reference.
    unsafe { core::slice::from_raw_parts(words, size_of::<T>() / WORD) }
}

/// Sets a static to zero. Stores to memory only.
///
/// # Safety
/// `T` has nothing but atomic integers of at most a word, and is aligned to words.
pub unsafe fn zero<T>(place: &'static T) {
    // SAFETY: by the caller's word.
    for word in unsafe { words(place) } {
        // A store would make every page present in memory.
        if word.load(Relaxed) != 0 {
            word.store(0, Relaxed);
        }
    }
}

/// Puts zeros of this process alone in the place of a static's memory. A system call only, so safe in the child of a fork.
///
/// # Errors
/// The system's; the static is as it was then.
///
/// # Safety
/// As [`map_over`].
pub unsafe fn zero_over<T>(place: &'static T) -> Result<(), Errno> {
    let at = core::ptr::from_ref(place).cast_mut().cast();
    let flags = MapFlags::PRIVATE | MapFlags::FIXED;
    // SAFETY: as in `map_over`.
    unsafe {
        mmap_anonymous(
            at,
            size_of::<T>(),
            ProtFlags::READ | ProtFlags::WRITE,
            flags,
        )
    }
    .map(drop)
}
