//! The simulated machine: devices with memory of their own, real arithmetic, four streams each served by a thread, and
//! a choice of misbehaviours ([`SimConfig`]) that bring out errors in the coherence protocol.
//!
//! * Device memory is an anonymous mapping; a device address is an address of this process, but every region and
//!   operand is checked to lie within a block that `alloc` returned.
//! * Copies reach host memory through `/proc/self/mem`: inaccessible pages stay inaccessible and no signal is raised.
//! * Losing a device: see the rules in `queue`. A failed ticket reports the device that was lost, which need not be the
//!   ticket's own.
//! * A copy whose host memory cannot be accessed loses no device: an upload is refused (see `staged`), the bytes of a
//!   download are kept (`device::api::undelivered`).
//!
//! Threads start with the first operation on their device and sleep while idle. A child of fork must not use the
//! machine.

mod backend;
mod cells;
mod config;
mod copy;
mod memory;
mod pins;
mod poison;
mod queue;
mod staged;
mod status;
mod times;
mod worker;

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

pub use config::{Fail, SimConfig};
pub use status::{BAD_ADDRESS, BAD_VALUE, NO_LINK};

use self::cells::Cells;
use self::memory::Memory;
use self::poison::Pattern;
use self::queue::{LANES, Queues, StreamSet};
use self::times::Times;
use super::api::{Caps, DeviceError, Ticket};
use super::host_memory::HostMemory;
use crate::base::DeviceId;
use crate::base::ids::MAX_DEVICES;
use crate::topology::Topology;

/// Why a simulated machine cannot be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SimError {
    /// More devices than a process can drive, or none.
    Devices(usize),
    /// The memory of a device could not be reserved.
    Memory {
        /// The device.
        device: usize,
        /// Bytes asked for.
        bytes: usize,
        /// The reason of the system.
        reason: String,
    },
    /// `/proc/self/mem` cannot write inaccessible pages (no /proc, or `proc_mem.force_override` forbids it).
    HostAccess(String),
}

impl core::fmt::Display for SimError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            SimError::Devices(n) => {
                write!(
                    f,
                    "cannot simulate {n} devices: 1 to {MAX_DEVICES} are possible"
                )
            }
            SimError::Memory {
                device,
                bytes,
                reason,
            } => write!(
                f,
                "cannot reserve {bytes} bytes for simulated device {device}: {reason}"
            ),
            SimError::HostAccess(reason) => write!(
                f,
                "simulated devices need to write closed pages through /proc/self/mem: {reason} \
                 (is /proc mounted, does proc_mem.force_override allow it?)"
            ),
        }
    }
}

impl core::error::Error for SimError {}

/// A machine of simulated devices.
#[derive(Debug)]
pub struct SimMachine {
    inner: Arc<Inner>,
}

/// The state that the machine's threads share.
#[derive(Debug)]
struct Inner {
    config: SimConfig,
    caps: Vec<Caps>,
    topology: Option<Topology>,
    host: HostMemory,
    memories: Vec<Memory>,
    cells: Cells,
    pins: pins::Pins,
    /// Bytes that were read from host memory for uploads that are not executed yet.
    staged: Arc<AtomicUsize>,
    /// Fills fresh memory with poison; `Some` in poison mode.
    pattern: Option<Pattern>,
    queues: Mutex<Queues>,
    signals: Vec<Signals>,
    /// The number of counted calls so far.
    calls: AtomicU64,
    launches: AtomicU64,
    /// Whether a ticket has failed: after that, a stream's retired number alone does not prove that a ticket is done.
    any_lost: AtomicBool,
}

/// The condition variables of a stream, and what threads read of the stream without the lock.
#[derive(Debug)]
struct Signals {
    /// Wakes the worker.
    work: Condvar,
    /// Wakes the threads that wait for tickets.
    retired: Condvar,
    /// The smallest ticket that a thread sleeps for; changes under the queues' lock.
    wanted: AtomicU64,
    /// A copy of the stream's retired number, to be read without the lock.
    mirror: AtomicU64,
    /// Whether the worker exists; changes under the queues' lock.
    started: AtomicBool,
    times: Times,
}

impl SimMachine {
    /// Reserves the devices' memory and tests access to inaccessible host pages. Starts no thread.
    ///
    /// # Errors
    /// See [`SimError`].
    pub fn new(config: SimConfig) -> Result<Self, SimError> {
        let n = config.devices;
        if n == 0 || n > MAX_DEVICES {
            return Err(SimError::Devices(n));
        }
        let host = HostMemory::open().map_err(|e| SimError::HostAccess(e.to_string()))?;
        let memories = (0..n)
            .map(|device| {
                Memory::new(config.memory).map_err(|e| SimError::Memory {
                    device,
                    bytes: config.memory,
                    reason: e.to_string(),
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        let pattern =
            config
                .poison
                .then(Pattern::new)
                .transpose()
                .map_err(|e| SimError::Memory {
                    device: 0,
                    bytes: poison::FILE,
                    reason: e.to_string(),
                })?;
        let signals = (0..n * LANES)
            .map(|_| Signals {
                work: Condvar::new(),
                retired: Condvar::new(),
                wanted: AtomicU64::new(u64::MAX),
                mirror: AtomicU64::new(0),
                started: AtomicBool::new(false),
                times: Times::default(),
            })
            .collect();
        let topology = config
            .preset
            .as_ref()
            .map(|machine| machine.topology.clone());
        Ok(SimMachine {
            inner: Arc::new(Inner {
                caps: caps(&config),
                topology,
                host,
                memories,
                cells: Cells::new(n),
                pins: pins::Pins::default(),
                staged: Arc::default(),
                pattern,
                // In a seeded machine workers are woken for small operations, too, so that their races show.
                queues: Mutex::new(Queues::new(n, config.late, config.seed == 0)),
                signals,
                calls: AtomicU64::new(0),
                launches: AtomicU64::new(0),
                any_lost: AtomicBool::new(false),
                config,
            }),
        })
    }

    /// The settings.
    #[must_use]
    pub fn config(&self) -> &SimConfig {
        &self.inner.config
    }

    /// The link graph of the modelled machine, if the settings name one.
    #[must_use]
    pub fn topology(&self) -> Option<&Topology> {
        self.inner.topology.as_ref()
    }

    /// Counted calls so far: alloc, upload, download, `copy_peer`, launch.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.inner.calls.load(Ordering::Relaxed)
    }

    /// The page-locked host memory: start and length, by address.
    #[must_use]
    pub fn pinned(&self) -> Vec<(usize, usize)> {
        self.inner.pins.all()
    }

    /// How often memory was pinned twice, unpinned without being pinned, or unmapped while it was pinned.
    #[must_use]
    pub fn pin_violations(&self) -> usize {
        self.inner.pins.violations()
    }

    /// Ends the machine. Queued operations fail, operations that execute complete, threads end on their own; this call
    /// waits for none of them. Dropping the machine does the same.
    pub fn shutdown(&self) {
        let mut wake = StreamSet::default();
        let mut queues = self.inner.lock();
        self.inner.note_loss();
        queues.stop(&mut wake);
        self.inner.after_loss(&queues, wake);
    }
}

impl Drop for SimMachine {
    fn drop(&mut self) {
        self.shutdown();
    }
}

fn caps(config: &SimConfig) -> Vec<Caps> {
    let cores = rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count());
    let links = config.links();
    (0..config.devices)
        .map(|device| {
            let model = config
                .preset
                .as_ref()
                .and_then(|machine| machine.engines.get(device));
            let what = model.map_or_else(String::new, |engine| format!(", as {}", engine.name));
            Caps {
                name: format!("sim{} ({cores} cores shared{what})", config.first + device),
                kind: "sim",
                memory: config.memory,
                links: links.row(DeviceId::at(device)).to_vec(),
            }
        })
        .collect()
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the worker of `stream` to sleep until it is woken.
    fn sleep<'a>(&self, queues: MutexGuard<'a, Queues>, stream: usize) -> MutexGuard<'a, Queues> {
        self.signals[stream]
            .work
            .wait(queues)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a device is lost; must be called before any failed ticket is retired.
    fn note_loss(&self) {
        self.any_lost.store(true, Ordering::Release);
    }

    /// Publishes the stream's retired number to threads that read it without the lock.
    fn publish(&self, queues: &Queues, stream: usize) {
        self.signals[stream]
            .mirror
            .store(queues.retired(stream), Ordering::Release);
    }

    fn wake_streams(&self, wake: StreamSet) {
        for stream in wake.iter() {
            if let Some(signals) = self.signals.get(stream) {
                signals.work.notify_one();
            }
        }
    }

    /// Wakes the threads whose ticket in `stream` is retired; after a loss, all threads that wait on the streams of
    /// `wake`.
    fn wake_waiters(&self, queues: &Queues, stream: usize, wake: StreamSet, loss: bool) {
        if loss {
            self.after_loss(queues, wake);
            return;
        }
        let signals = &self.signals[stream];
        if signals.wanted.load(Ordering::Relaxed) <= queues.retired(stream) {
            signals.wanted.store(u64::MAX, Ordering::Relaxed);
            signals.retired.notify_all();
        }
    }

    fn after_loss(&self, queues: &Queues, wake: StreamSet) {
        for stream in wake.iter() {
            if let Some(signals) = self.signals.get(stream) {
                self.publish(queues, stream);
                signals.wanted.store(u64::MAX, Ordering::Relaxed);
                signals.work.notify_all();
                signals.retired.notify_all();
            }
        }
    }

    /// Whether the ticket is complete, as far as can be told without the queues' lock.
    fn plainly_done(&self, ticket: Ticket) -> bool {
        // The order matters: a failed ticket is retired only after `any_lost` is set.
        self.signals
            .get(queue::index(ticket.device, ticket.lane))
            .is_some_and(|s| s.mirror.load(Ordering::Acquire) >= ticket.seq)
            && !self.any_lost.load(Ordering::Acquire)
    }

    fn memory(&self, device: DeviceId, what: &'static str) -> Result<&Memory, DeviceError> {
        self.memories
            .get(device.index())
            .ok_or(DeviceError::Refused {
                device,
                what,
                code: BAD_VALUE,
            })
    }

    /// Whether `bytes` at `addr` lie within one block of `device`.
    fn check(
        &self,
        device: DeviceId,
        addr: u64,
        bytes: usize,
        what: &'static str,
    ) -> Result<(), DeviceError> {
        if bytes == 0 || self.memory(device, what)?.holds(addr, bytes) {
            return Ok(());
        }
        if what == "launch" && self.cells.hold(device, addr, bytes) {
            return Ok(());
        }
        log::error!("{what} on {device:?}: {bytes} bytes at {addr:#x} are not allocated there");
        Err(DeviceError::Refused {
            device,
            what,
            code: BAD_ADDRESS,
        })
    }

    /// Counts a call, and injects the configured failure if this is the call.
    fn count(&self, device: DeviceId, what: &'static str) -> Result<(), DeviceError> {
        self.memory(device, what)?;
        let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let launch = (what == "launch").then(|| self.launches.fetch_add(1, Ordering::Relaxed) + 1);
        let refused = match self.config.fail {
            Some(Fail::Refuse(n)) => n == call,
            Some(Fail::Launches(n)) => launch.is_some_and(|launch| launch.is_multiple_of(n)),
            _ => false,
        };
        match self.config.fail {
            _ if refused => Err(DeviceError::Refused {
                device,
                what,
                code: 0,
            }),
            Some(Fail::Lost(n)) if n == call => {
                let mut wake = StreamSet::default();
                let mut queues = self.lock();
                self.note_loss();
                queues.lose(device, &mut wake);
                self.after_loss(&queues, wake);
                Err(DeviceError::Lost { device })
            }
            _ => Ok(()),
        }
    }
}
