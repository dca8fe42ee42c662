//! Where the counters of a run's processes are: in memory that its processes share, so that nothing that was counted is lost when
//! a process is killed, ends by `_exit`, or executes another program.
//!
//! `semcache run`, or the first process into which the library was preloaded with `SEMCACHE_REPORT`, makes the memory ([`Run`]).
//! Each process takes a place in it at its first BLAS call ([`join`]): the place is mapped over the static counters, so counting
//! costs what it costs without. The child of a fork begins with zeros of its own, and takes a place at its first call.
#![expect(unsafe_code, reason = "maps places over the static counters")]

use core::mem::offset_of;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, Ordering};

use std::sync::OnceLock;
use std::time::Duration;

use rustix::fd::{AsRawFd as _, BorrowedFd, IntoRawFd as _, OwnedFd};
use rustix::io::{Errno, FdFlags};
use rustix::process::{Resource, getrlimit};
use rustix::time::ClockId;
use semcache_fault::latency::{FAULTS, Histogram};

use super::init::{environment, say};
use super::ranks;
use super::secluded::is_secluded;
use crate::base::config;
use crate::base::counters::{CallTable, Identity, PAGE, Page, Quick};
use crate::process::shared::{self, Mapped};
use crate::process::signals_blocked::SignalsBlocked;
use crate::process::{descriptors, lives, own_file};

/// How many processes can count at a time.
const PLACES: usize = 4096;

/// `semcache run` frees places every second, once a quarter of them was taken: a process that finds none looks again `WAITS` times.
const WAIT: Duration = Duration::from_millis(5);
const WAITS: u32 = 800;

/// The beginning of the shared memory.
#[derive(Debug)]
#[repr(C, align(4096))]
struct Header {
    /// [`LAYOUT`] of the library or command that made the memory.
    layout: AtomicU64,
    /// The places up to the last one that was ever taken.
    used: AtomicU32,
    /// The processes that found no place.
    refused: AtomicU32,
    /// The id of the process that has the place; 0: free.
    owners: [AtomicU32; PLACES],
}

/// What a process counts in its place.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Place {
    pub(super) page: Page,
    pub(super) faults: Histogram,
}

const LEN: usize = size_of::<Header>() + PLACES * size_of::<Place>();

/// Processes whose library lays its counters out in another way do not count here. Any change of the structures changes their
/// size, but for one that gives a counter another meaning: the version of the package is part of it.
const LAYOUT: u64 = {
    let version = env!("CARGO_PKG_VERSION").as_bytes();
    let mut hash = size_of::<Place>() as u64 ^ (offset_of!(Place, faults) as u64) << 24;
    let mut i = 0;
    while i < version.len() {
        hash = (hash ^ version[i] as u64).wrapping_mul(0x0100_0000_01b3);
        i += 1;
    }
    hash
};

fn offset(place: usize) -> usize {
    size_of::<Header>() + place * size_of::<Place>()
}

/// The time since the machine started, in nanoseconds.
pub(super) fn boot_time() -> u64 {
    let t = rustix::time::clock_gettime(ClockId::Boottime);
    u64::try_from(t.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(t.tv_nsec).unwrap_or(0)
}

/// The memory in which the processes of a run count.
#[derive(Debug)]
pub struct Run {
    file: OwnedFd,
    header: Mapped,
    name: String,
    /// Whether `semcache run` made it, and frees the places of processes that have ended.
    gathered: bool,
}

impl Run {
    /// Makes the memory. Its name is unique on the machine.
    ///
    /// # Errors
    /// The system's.
    pub fn new() -> Result<Run, Errno> {
        let file = shared::create(LEN)?;
        let parent =
            rustix::process::getppid().map_or(0, |p| p.as_raw_nonzero().get().unsigned_abs());
        let since = lives::begun(parent).unwrap_or(0);
        let job = ranks::job(&environment, &format!("{parent} of {since}"));
        let name = job.unwrap_or_else(|| format!("{:x}-{}", boot_time(), std::process::id()));
        let run = Run::of(file, name)?;
        run.header().layout.store(LAYOUT, Ordering::Release);
        Ok(run)
    }

    /// The memory that [`config::COUNTERS`] describes, to read it: the process takes no place by this.
    ///
    /// # Errors
    /// The system's: the process that made the memory has ended, for example; `EINVAL` if it is not such memory, or that of another
    /// version.
    pub fn open(described: &str) -> Result<Run, Errno> {
        let (pid, rest) = described.split_once(':').ok_or(Errno::INVAL)?;
        let (number, name) = rest.split_once(':').ok_or(Errno::INVAL)?;
        let gathered = name.ends_with(GATHERED);
        let name = name.strip_suffix(GATHERED).unwrap_or(name);
        let file = shared::open(&format!("/proc/{pid}/fd/{number}"), LEN)?;
        let run = Run::of(file, name.to_owned())?;
        match run.header().layout.load(Ordering::Acquire) {
            LAYOUT => Ok(Run { gathered, ..run }),
            _ => Err(Errno::INVAL),
        }
    }

    fn of(file: OwnedFd, name: String) -> Result<Run, Errno> {
        let header = Mapped::new(&file, 0, size_of::<Header>())?;
        Ok(Run {
            file,
            header,
            name,
            gathered: false,
        })
    }

    fn header(&self) -> &Header {
        // SAFETY: the structure has nothing but atomic integers.
        unsafe { self.header.get() }
    }

    /// The run's name: that of its MPI job, if the process is one of several ranks, else one of its own.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The value of [`config::COUNTERS`] for the processes of the run, which `semcache run` gathers.
    #[must_use]
    pub fn described(&self) -> String {
        let file = self.file.as_raw_fd();
        format!("{}:{file}:{}{GATHERED}", own_id(), self.name)
    }

    /// How many processes found no place.
    #[must_use]
    pub fn refused(&self) -> u32 {
        self.header().refused.load(Ordering::Relaxed)
    }

    /// Whether more than a quarter of the places were ever taken: those of ended processes should be freed from then on.
    #[must_use]
    pub fn is_filling(&self) -> bool {
        self.header().used.load(Ordering::Acquire) as usize > PLACES / 4
    }

    /// Takes a free place for a process. If there is none, waits until `semcache run` has freed those of processes that have ended.
    fn take(&self, pid: u32) -> Option<usize> {
        let header = self.header();
        let free = |owner: &AtomicU32| {
            owner
                .compare_exchange(0, pid, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        };
        let mut place = header.owners.iter().position(free);
        let waits = if self.gathered { WAITS } else { 0 };
        for _ in 0..waits {
            if place.is_some() {
                break;
            }
            std::thread::sleep(WAIT);
            place = header.owners.iter().position(free);
        }
        match place {
            Some(place) => {
                let used = u32::try_from(place + 1).unwrap_or(u32::MAX);
                header.used.fetch_max(used, Ordering::AcqRel);
            }
            None => {
                header.refused.fetch_add(1, Ordering::Relaxed);
            }
        }
        place
    }

    /// Calls `visit` with the counters of the processes that `which` says, by id and identity, of those whose place is still taken.
    /// The place of one that has ended is free afterwards, and no other call visits it.
    pub(super) fn visit(
        &self,
        which: impl Fn(u32, &Identity) -> Visit,
        mut visit: impl FnMut(&Page, &Histogram),
    ) {
        let used = self.header().used.load(Ordering::Acquire) as usize;
        for (index, owner) in self.header().owners.iter().enumerate().take(used) {
            let pid = owner.load(Ordering::Acquire);
            if matches!(pid, 0 | LEAVING) {
                continue;
            }
            let Ok(mapped) = Mapped::new(&self.file, offset(index), size_of::<Place>()) else {
                continue;
            };
            // SAFETY: the structure has nothing but atomic integers.
            let place: &Place = unsafe { mapped.get() };
            match which(pid, &place.page.identity) {
                Visit::No => continue,
                Visit::Yes => {
                    visit(&place.page, &place.faults);
                    continue;
                }
                Visit::Ended => {}
            }
            let leaves = || {
                let (acquire, relaxed) = (Ordering::AcqRel, Ordering::Relaxed);
                owner
                    .compare_exchange(pid, LEAVING, acquire, relaxed)
                    .is_ok()
            };
            if leaves() {
                visit(&place.page, &place.faults);
                // If the memory cannot be zeroed, no other process gets it.
                if shared::clear(&self.file, offset(index), size_of::<Place>()).is_ok() {
                    owner.store(0, Ordering::Release);
                }
            }
        }
    }
}

/// Whether a process is visited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Visit {
    No,
    Yes,
    /// It has ended.
    Ended,
}

/// Has the processes of a run time some of their small calls ([`super::timed::small`]).
#[derive(Debug)]
pub struct Ticks<'a> {
    run: &'a Run,
    /// The beginning of each place that was ever taken.
    places: Vec<Option<Mapped>>,
}

/// A process in a place behind this one times none.
const TICKED: usize = 1024;

const _: () = assert!(offset_of!(Place, page) == 0 && offset_of!(Page, quick) == 0);

impl Run {
    /// See [`Ticks`].
    #[must_use]
    pub fn ticks(&self) -> Ticks<'_> {
        Ticks {
            run: self,
            places: Vec::new(),
        }
    }
}

impl Ticks<'_> {
    /// From here on the next small calls of each process are timed. Returns whether a process makes any.
    pub fn tick(&mut self) -> bool {
        let header = self.run.header();
        let used = header.used.load(Ordering::Acquire) as usize;
        let mut any = false;
        for (index, owner) in header.owners.iter().enumerate().take(used.min(TICKED)) {
            if self.places.len() == index {
                let place = Mapped::new(&self.run.file, offset(index), size_of::<Quick>());
                self.places.push(place.ok());
            }
            if let Some(Some(place)) = self.places.get(index)
                && owner.load(Ordering::Relaxed) != 0
            {
                // SAFETY: the structure at the beginning of a place is an atomic integer.
                let quick: &Quick = unsafe { place.get() };
                if quick.is_on() {
                    any = true;
                    quick.set(false);
                }
            }
        }
        any
    }
}

/// The end of [`config::COUNTERS`] if the process that made the memory is `semcache run`.
const GATHERED: &str = "+";

/// The owner of a place whose process has ended and is being read for the last time.
const LEAVING: u32 = u32::MAX;

/// Where this process counts.
static STATE: AtomicU8 = AtomicU8::new(APART);
/// In its own memory: it has made no BLAS call.
const APART: u8 = 0;
/// A thread takes a place.
const JOINING: u8 = 1;
/// In its place, or for good in its own memory.
const SETTLED: u8 = 2;

/// Whether this process has a place in shared memory.
static SHARED: AtomicBool = AtomicBool::new(false);

/// Whether this process counts in a place that another one may read.
pub(super) fn is_shared() -> bool {
    SHARED.load(Ordering::Relaxed)
}

/// Grows when this process begins to count somewhere else: what the counters were told before is to be told again.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Before the first count: takes a place among the counters of the run, if the process belongs to one. Returns a number that has
/// changed if the process has begun to count somewhere else.
pub fn join() -> u32 {
    if STATE.load(Ordering::Acquire) != SETTLED {
        find_place();
    }
    GENERATION.load(Ordering::Acquire)
}

#[cold]
fn find_place() {
    // A signal handler of the program that makes a call would wait for the thread that it interrupted.
    let _blocked = SignalsBlocked::new();
    let mine = || {
        let change = STATE.compare_exchange(APART, JOINING, Ordering::AcqRel, Ordering::Acquire);
        change.is_ok()
    };
    if mine() {
        if !is_secluded() {
            take_place();
            GENERATION.fetch_add(1, Ordering::AcqRel);
        }
        STATE.store(SETTLED, Ordering::Release);
        return;
    }
    // Another thread takes the place, which takes some microseconds. In a child that was made past libc's `fork` there may be no
    // such thread: it counts where its parent counts.
    for _ in 0..10_000 {
        if STATE.load(Ordering::Acquire) == SETTLED {
            break;
        }
        rustix::thread::sched_yield();
    }
}

fn take_place() {
    let Some(described) = environment(config::COUNTERS) else {
        return;
    };
    let settled = Run::open(&described).and_then(|run| settle(&run));
    if let Err(error) = settled
        && environment(config::REPORT).is_none()
    {
        say(&format!(
            "semcache: this process is not in the report of its run, whose counters it cannot open: {error}"
        ));
    }
}

fn settle(run: &Run) -> Result<(), Errno> {
    let pid = own_id();
    let place = run.take(pid).ok_or(Errno::NOSPC)?;
    let mapped = Mapped::new(&run.file, offset(place), size_of::<Place>())?;
    // SAFETY: the structure has nothing but atomic integers.
    let ours: &Place = unsafe { mapped.get() };
    let calls = offset_of!(Page, calls);
    let calls = calls..calls + size_of::<CallTable>();
    // SAFETY: the structures have nothing but atomic integers and fill whole pages. No call has been counted, since each thread
    // comes here before its first count; what was counted otherwise (requests of `semcache.h`, what does not work) is copied.
    unsafe {
        shared::copy(&PAGE, &mapped, calls);
        identify(&ours.page.identity, pid);
        shared::map_over(&PAGE, &run.file, offset(place))?;
        shared::map_over(
            &FAULTS,
            &run.file,
            offset(place) + offset_of!(Place, faults),
        )?;
    }
    SHARED.store(true, Ordering::Release);
    Ok(())
}

/// Says which process it is that counts.
fn identify(identity: &Identity, pid: u32) {
    identity.pid.set(u64::from(pid));
    let parent = rustix::process::getppid().map_or(0, |p| p.as_raw_nonzero().get().unsigned_abs());
    identity.parent.set(u64::from(parent));
    identity.begun_ns.set(boot_time());
    let rank = ranks::of(&environment).map_or(0, |local| local.rank as u64 + 1);
    identity.rank.set(rank);
    identity.command.set(&own_file::command_line());
}

/// The id of this process as `/proc` has it.
fn own_id() -> u32 {
    let link = rustix::fs::readlink("/proc/self", Vec::new()).ok();
    let id = link.and_then(|path| path.to_str().ok()?.parse().ok());
    id.unwrap_or_else(std::process::id)
}

/// What the library's entry does in the child of a fork.
static IN_CHILD: OnceLock<fn()> = OnceLock::new();

/// The library has been preloaded into this process. Has `then` called in each child of a fork, when its counters are zero. It takes
/// no lock and allocates nothing.
pub fn in_child(then: fn()) {
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    let _ = IN_CHILD.set(then);
}

/// In the child of a fork: it counts anew, from zero, and takes a place at its first call. System calls and stores only.
pub(super) fn child() {
    if is_secluded() {
        // A system call might end it: it counts where its parent counts.
        return;
    }
    if SHARED.swap(false, Ordering::AcqRel) {
        if part().is_err() {
            // The child goes on counting where its parent counts: nothing is lost.
            SHARED.store(true, Ordering::Release);
            return;
        }
    } else if STATE.load(Ordering::Acquire) == APART {
        // The parent has counted nothing; what does not work in it is known all the same.
        // SAFETY: the structure is an atomic integer.
        unsafe { shared::zero(&PAGE.degraded) };
    } else if part().is_err() {
        forget();
    }
    STATE.store(APART, Ordering::Release);
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    if let Some(then) = IN_CHILD.get() {
        then();
    }
}

/// Puts zeros of this process's own in the place of its counters. A few system calls, however much was counted.
fn part() -> Result<(), Errno> {
    // SAFETY: the structures have nothing but atomic integers and fill whole pages; what they hold is not wanted here any more.
    unsafe { shared::zero_over(&PAGE).and_then(|()| shared::zero_over(&FAULTS)) }
}

/// Sets all counters of this process to zero.
pub fn forget() {
    // SAFETY: the structures have nothing but atomic integers, and begin at a page.
    unsafe {
        shared::zero(&PAGE);
        shared::zero(&FAULTS);
    }
}

/// The process whose counters are in this memory; 0: the library was not preloaded.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Whether the counters in this memory are those of this process, and not of a parent that shares its memory.
pub(super) fn is_own() -> bool {
    PROCESS.load(Ordering::Relaxed) == std::process::id()
}

/// Whether this process has made calls.
fn has_begun() -> bool {
    STATE.load(Ordering::Acquire) == SETTLED
}

/// This process has written its last count.
pub(super) fn end() {
    if !SHARED.load(Ordering::Acquire) {
        identify(&PAGE.identity, own_id());
    }
    PAGE.identity.ended_ns.set(boot_time());
}

/// Leaves the place: what this process still counts is lost. Its counters are in the place until [`Run::visit`] frees it.
pub(super) fn leave() {
    if SHARED.swap(false, Ordering::AcqRel) {
        let lacks = PAGE.degraded.all();
        // If it fails, the last counts go to the place, whichever process has it.
        let _ = part();
        // So that nothing is told twice.
        lacks.into_iter().for_each(|what| {
            PAGE.degraded.add(what);
        });
    }
}

/// The run that this process belongs to, if its counters can be opened.
pub(super) fn run() -> Option<Run> {
    Run::open(&environment(config::COUNTERS)?).ok()
}

/// The name of the run that this process belongs to.
pub(super) fn run_name() -> Option<String> {
    let described = environment(config::COUNTERS)?;
    let name = described.splitn(3, ':').nth(2)?;
    Some(name.strip_suffix(GATHERED).unwrap_or(name).to_owned())
}

/// Whether this process writes to the report as it ends. Under `semcache run`, which writes it, only one that has counted where the
/// command cannot read it does (on another machine, in a container, as another user); else one that has made calls, or the first one.
pub(super) fn writes(is_first: bool) -> bool {
    let described = environment(config::COUNTERS);
    match described.is_some_and(|described| described.ends_with(GATHERED)) {
        true => has_begun() && !SHARED.load(Ordering::Acquire),
        false => has_begun() || is_first,
    }
}

/// The descriptor of the memory in the process that made it, and this process; -1 and 0: another process made it.
static FILE: AtomicI32 = AtomicI32::new(-1);
static OWNER: AtomicU32 = AtomicU32::new(0);

/// In the first process that is preloaded where reports are asked for: makes the memory, for this process and those that it
/// starts, and returns the value of [`config::COUNTERS`]. A program that this process executed in its place keeps the memory.
#[must_use]
pub fn begin() -> Option<String> {
    let own = own_id();
    let keep = |number: i32| {
        OWNER.store(std::process::id(), Ordering::Release);
        FILE.store(number, Ordering::Release);
        descriptors::hold(number);
        executes(false);
    };
    if let Some(described) = environment(config::COUNTERS) {
        let number = described.strip_prefix(&format!("{own}:"));
        let number = number.and_then(|rest| rest.split(':').next()?.parse().ok());
        if let Some(number) = number
            && Run::open(&described).is_ok()
        {
            keep(number);
        }
        return None;
    }
    let run = Run::new().ok()?;
    // A program may expect the lowest numbers for its own files.
    let high = getrlimit(Resource::Nofile)
        .current
        .unwrap_or(1024)
        .min(1024);
    let lowest = i32::try_from(high.saturating_sub(24)).unwrap_or(0);
    let file = rustix::io::fcntl_dupfd_cloexec(&run.file, lowest).ok()?;
    let number = file.into_raw_fd();
    keep(number);
    Some(format!("{own}:{number}:{}", run.name))
}

/// Before and after this process executes another program in its place, which is to find the memory if this process made it.
pub fn executes(begins: bool) {
    let number = FILE.load(Ordering::Acquire);
    if number < 0
        || is_secluded()
        || OWNER.load(Ordering::Acquire) != std::process::id()
        || !descriptors::held(number)
    {
        return;
    }
    let flags = if begins {
        FdFlags::empty()
    } else {
        FdFlags::CLOEXEC
    };
    // SAFETY: the descriptor is open: the hooks keep the program from closing it.
    let file = unsafe { BorrowedFd::borrow_raw(number) };
    let _ = rustix::io::fcntl_setfd(file, flags);
}
