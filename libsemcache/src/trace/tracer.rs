//! The trace of one process: its rings, and the thread that writes their events to the file.
#![expect(
    unsafe_code,
    reason = "a thread's own ring, and its own descriptor table"
)]

use core::cell::Cell;
use core::sync::atomic::{AtomicBool, Ordering};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::Duration;

use rustix::thread::{Timespec, nanosleep};
use semcache_fault::descriptor::own_table;

use super::clock::now;
use super::encode::Encoder;
use super::event::Event;
use super::on;
use super::output::Output;
use super::ring::{Pushed, Ring};
use super::tally::{drop_all, drop_one, dropped};
use crate::process::threads;
use rustix::fs::CWD;

/// How often the thread takes events, unless a ring is half full.
const PERIOD: Duration = Duration::from_millis(50);
/// How long the end of the process waits for the thread.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a thread that waits for the end looks whether it has come.
const STEP: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000,
};
/// From this number of rings on, rings of threads that have ended are used again.
const MANY: usize = 32;
/// Packets that are written at a time.
const BATCH: usize = 4096;
/// Stack of the thread.
const STACK: usize = 1 << 20;

/// Where a trace goes.
#[derive(Debug)]
pub(super) struct Destination {
    /// The file.
    pub(super) path: PathBuf,
    /// Its largest size in bytes, less the summary.
    pub(super) limit: u64,
    /// The process.
    pub(super) pid: u32,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Tracer {
    to: Destination,
    rings: Mutex<Vec<&'static Ring>>,
    /// Whether the thread was asked for.
    begun: AtomicBool,
    writer: OnceLock<Thread>,
    devices: Mutex<Vec<String>>,
    summary: Mutex<Vec<(String, u64)>>,
    /// The end was asked for.
    ending: AtomicBool,
    /// The thread has written its last.
    over: AtomicBool,
}

std::thread_local! {
    /// This thread's ring, of the trace at this address.
    static MINE: Cell<Option<(usize, &'static Ring)>> = const { Cell::new(None) };
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tracer {
    pub(super) fn new(to: Destination) -> Tracer {
        Tracer {
            to,
            rings: Mutex::new(Vec::new()),
            begun: AtomicBool::new(false),
            writer: OnceLock::new(),
            devices: Mutex::new(Vec::new()),
            summary: Mutex::new(Vec::new()),
            ending: AtomicBool::new(false),
            over: AtomicBool::new(false),
        }
    }

    pub(super) fn destination(&self) -> &Destination {
        &self.to
    }

    /// Records an event of the calling thread, whose signals are blocked.
    pub(super) fn record(&'static self, event: Event) {
        let ring = self.ring();
        // SAFETY: the ring is the calling thread's, and its signals are blocked.
        match unsafe { ring.push(event) } {
            Pushed::Yes => {}
            Pushed::Half => self.wake(),
            Pushed::No => drop_one(event.kind()),
        }
    }

    fn wake(&self) {
        if let Some(writer) = self.writer.get() {
            writer.unpark();
        }
    }

    /// The calling thread's ring.
    fn ring(&'static self) -> &'static Ring {
        let me = core::ptr::from_ref(self).addr();
        if let Some((of, ring)) = MINE.get()
            && of == me
        {
            return ring;
        }
        let tid = rustix::thread::gettid();
        let tid = tid.as_raw_nonzero().get().unsigned_abs();
        let mut name = [0; 16];
        if let Ok(own) = rustix::thread::name() {
            let own = own.as_bytes();
            let len = own.len().min(name.len());
            name[..len].copy_from_slice(&own[..len]);
        }
        let mut rings = lock(&self.rings);
        let free = |ring: &&&Ring| ring.is_free(tid);
        let old = (rings.len() >= MANY)
            .then(|| rings.iter().find(free))
            .flatten();
        let ring = old
            // SAFETY: free, and given away under the lock.
            .filter(|ring| unsafe { ring.give(tid, name) })
            .copied()
            .unwrap_or_else(|| {
                let ring: &'static Ring = Box::leak(Box::new(Ring::new(tid, name)));
                rings.push(ring);
                ring
            });
        MINE.set(Some((me, ring)));
        ring
    }

    /// Names the devices, in the order of their numbers.
    pub(super) fn devices(&self, names: Vec<String>) {
        *lock(&self.devices) = names;
    }

    /// Starts the thread, once. Not called where a lock of the process's allocator could be in the way.
    pub(super) fn begin(&'static self) {
        if self.begun.load(Ordering::Relaxed) || self.begun.swap(true, Ordering::AcqRel) {
            return;
        }
        let spawned = threads::spawn("semcache-trace", STACK, || self.write());
        match spawned {
            Ok(thread) => drop(self.writer.set(thread.thread().clone())),
            Err(error) => {
                on::set(false);
                self.over.store(true, Ordering::SeqCst);
                log::warn!("no thread to write the trace: {error}");
            }
        }
    }

    /// Ends the trace, with this summary.
    pub(super) fn finish(&self, summary: Vec<(String, u64)>) {
        *lock(&self.summary) = summary;
        self.end(PATIENCE);
    }

    /// Ends the trace: waits until the thread has written what is left and the summary. Takes no lock: a signal handler
    /// may have interrupted this thread anywhere.
    pub(super) fn end(&self, patience: Duration) {
        if !self.begun.load(Ordering::Acquire) {
            return;
        }
        self.ending.store(true, Ordering::SeqCst);
        let until = now() + u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX / 2);
        while !self.over.load(Ordering::SeqCst) && now() < until {
            self.wake();
            // Not libc's, which is a cancellation point.
            let _ = nanosleep(&STEP);
        }
    }

    /// The body of the thread.
    fn write(&'static self) {
        /// Also when the thread panics: the end of the process waits for this.
        struct Over<'a>(&'a AtomicBool);
        impl Drop for Over<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::SeqCst);
            }
        }
        let over = Over(&self.over);
        // SAFETY: this thread opens what it uses, and writes messages to stderr. Where it cannot have a table of its
        // own, the file's descriptor is compared before each use.
        let _ = unsafe { own_table() };
        let to = &self.to;
        match Output::create(&to.path, to.limit) {
            Ok(mut output) => self.stream(&mut output),
            Err(error) => {
                on::set(false);
                log::error!("cannot write the trace {}: {error}", to.path.display());
            }
        }
        drop(over);
        // The end of a thread makes system calls that the program may forbid after the end of the trace.
        loop {
            std::thread::park();
        }
    }

    fn stream(&'static self, output: &mut Output) {
        let mut encoder = Encoder::new(self.to.pid, program());
        let mut failed = false;
        loop {
            let end = self.ending.load(Ordering::SeqCst);
            for (id, name) in (0..).zip(lock(&self.devices).drain(..)) {
                encoder.device(id, name);
            }
            let rings = lock(&self.rings).clone();
            for ring in rings {
                ring.drain(|tid, event| {
                    if output.full() {
                        drop_one(event.kind());
                        return;
                    }
                    encoder.add(tid, event);
                    if encoder.waiting() >= BATCH {
                        self.append(&mut encoder, output, &mut failed);
                    }
                });
            }
            if end {
                encoder.unfinished();
            }
            self.append(&mut encoder, output, &mut failed);
            if !end {
                std::thread::park_timeout(PERIOD);
                continue;
            }
            // A signal handler that ends the process may have interrupted the thread that holds the lock.
            let summary = self.summary.try_lock();
            let mut summary = summary.map(|s| s.clone()).unwrap_or_default();
            for (name, (count, bytes)) in dropped().iter() {
                summary.push((format!("dropped.{name}"), count));
                summary.push((format!("dropped_bytes.{name}"), bytes));
            }
            encoder.summary(now(), &summary);
            return self.append(&mut encoder, output, &mut failed);
        }
    }

    /// Writes the packets that wait. If that fails, what they show counts as dropped.
    fn append(&self, encoder: &mut Encoder, output: &mut Output, failed: &mut bool) {
        if encoder.waiting() == 0 {
            return;
        }
        let (bytes, shown) = encoder.take();
        let Err(error) = output.append(&bytes) else {
            return;
        };
        drop_all(&shown);
        encoder.again();
        if !std::mem::replace(failed, true) {
            let path = self.to.path.display();
            log::error!("cannot write a part of the trace {path}: {error}");
        }
    }
}

/// The name of the program's file.
fn program() -> String {
    let path = rustix::fs::readlinkat(CWD, "/proc/self/exe", Vec::new()).unwrap_or_default();
    let path = path.to_string_lossy();
    path.rsplit('/').next().unwrap_or_default().to_owned()
}
