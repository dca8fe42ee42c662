//! The devices that are measured, with the memory for it: operations on this memory by the library's own code, as safe functions.

#![expect(
    unsafe_code,
    reason = "the device contract moves raw bytes; every operation here is within the machine's own memory"
)]

use std::time::Instant;

use semcache::base::config::{Config, CudaSet, Devices, SimMachine as Simulated};
use semcache::base::kernel::{Kernel, Operand};
use semcache::base::{DeviceId, Dtype, Link, Routine};
use semcache::device::api::{Backend, Caps, Region, Shape, Ticket};
use semcache::device::cuda::{self, CudaMachine, Hooks};
use semcache::device::sim::{SimConfig, SimMachine};

use super::pages::Host;

/// The most GPUs that are measured: totals are known for 1, 2, 4 and 8 of them.
const MOST_GPUS: usize = 8;

/// Host memory, page-locked, and a block of as many bytes on a device.
#[derive(Debug)]
pub(super) struct Pair {
    device: DeviceId,
    host: Host,
    block: u64,
}

/// The sizes of what is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sizes {
    /// The largest copy.
    pub(super) bytes: usize,
    /// The order of the largest product, which is in double precision complex.
    pub(super) order: usize,
}

/// The memory on the devices.
#[derive(Debug)]
struct Memory {
    /// For each device; the first device has a second pair, for the other direction.
    pairs: Vec<Pair>,
    back: Pair,
    /// The operands of products, and how long they are.
    operands: [u64; 3],
    operand_bytes: usize,
}

/// A machine whose devices are measured. Its memory is in use until the process ends.
#[derive(Debug)]
pub(super) struct Machine {
    backend: &'static dyn Backend,
    /// For GPUs, which come up one after the other; simulated devices are up at once.
    gpus: Option<&'static CudaMachine>,
    pub(super) sizes: Sizes,
    memory: Option<Memory>,
    pin: Option<Host>,
}

/// From which memory a copy is, and to which.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Copy {
    /// From the host to a device.
    In(usize),
    /// From a device to the host.
    Out(usize),
    /// From the host to the first device, in memory that no other copy uses.
    BackIn,
    /// The other way.
    BackOut,
    /// From the second device to the first.
    Peer,
    /// From the first device to the second.
    BackPeer,
}

/// Opens the devices that the configuration names; of GPUs none is up.
pub(super) fn open(config: &Config) -> Result<Machine, String> {
    let (backend, gpus): (&'static dyn Backend, _) = match &config.devices {
        Devices::None => return Err("no devices are wanted (SEMCACHE_DEVICES)".into()),
        Devices::Sim(which) => {
            let simulated = match which {
                Simulated::Count(n) => SimConfig {
                    devices: *n,
                    ..SimConfig::default()
                },
                Simulated::Preset(name) => SimConfig::preset(name)
                    .ok_or_else(|| format!("no simulated machine is called {name}"))?,
            };
            let machine = SimMachine::new(simulated).map_err(|e| e.to_string())?;
            (Box::leak(Box::new(machine)), None)
        }
        Devices::Auto | Devices::Cuda(_) => {
            let set = match &config.devices {
                Devices::Cuda(set) => set.clone(),
                _ => CudaSet::All,
            };
            let machine = cuda::open(&set, config.memory, &hooks()).map_err(|e| e.to_string())?;
            let machine: &'static CudaMachine = Box::leak(Box::new(machine));
            (machine, Some(machine))
        }
    };
    Ok(Machine {
        backend,
        gpus,
        sizes: Sizes { bytes: 0, order: 0 },
        memory: None,
        pin: None,
    })
}

/// What the machine of GPUs asks the command.
pub(crate) fn hooks() -> Hooks {
    Hooks {
        environment: |name| std::env::var(name).ok(),
        choose: |all| (all.to_vec(), 1),
        secure: false,
    }
}

impl Machine {
    pub(super) fn backend(&self) -> &'static dyn Backend {
        self.backend
    }

    /// The devices that are measured.
    pub(super) fn devices(&self) -> &'static [Caps] {
        let all = self.backend.devices();
        &all[..all.len().min(MOST_GPUS)]
    }

    /// Whether the devices are simulated.
    pub(super) fn is_simulated(&self) -> bool {
        self.gpus.is_none()
    }

    /// Whether all devices are of one model.
    pub(super) fn is_alike(&self) -> bool {
        let mut names = self.devices().iter().map(|caps| &caps.name);
        let first = names.next();
        // Simulated devices are numbered.
        self.is_simulated() || names.all(|name| Some(name) == first)
    }

    /// Whether the first device can read the memory of the second.
    pub(super) fn has_peer(&self) -> bool {
        let links = self.devices().first().and_then(|caps| caps.links.get(1));
        links.is_some_and(|link| *link != Link::None)
    }

    /// Brings devices up until this number of them can be used.
    pub(super) fn raise(&self, count: usize) -> Result<(), String> {
        for i in self.backend.usable()..count {
            if let Some(gpus) = self.gpus {
                gpus.make(i).map_err(|e| format!("GPU {i}: {e}"))?;
                gpus.admit(i);
            }
        }
        Ok(())
    }

    /// The seconds of page-locking host memory that has been used.
    pub(super) fn lock_pages(&mut self) -> Result<f64, String> {
        let host = match self.pin.take() {
            Some(host) => host,
            None => Host::new(self.sizes.bytes)?,
        };
        let begun = Instant::now();
        let locked = self.backend.pin(host.address(), host.bytes());
        let seconds = begun.elapsed().as_secs_f64();
        locked.map_err(|e| e.to_string())?;
        self.backend.unpin(host.address(), host.bytes());
        self.pin = Some(host);
        Ok(seconds)
    }

    /// Allocates the memory for all operations but page-locking, once all devices are up.
    pub(super) fn allocate(&mut self) -> Result<(), String> {
        if self.memory.is_some() {
            return Ok(());
        }
        self.pin = None;
        let bytes = self.sizes.bytes;
        let block = |device, bytes| self.backend.alloc(device, bytes).map_err(|e| e.to_string());
        let pair = |i| {
            let (device, host) = (DeviceId::at(i), Host::new(bytes)?);
            let pinned = self.backend.pin(host.address(), host.bytes());
            pinned.map_err(|e| format!("page-locking: {e}"))?;
            Ok::<Pair, String>(Pair {
                device,
                host,
                block: block(device, bytes)?,
            })
        };
        let first = DeviceId(0);
        let operand_bytes = (self.sizes.order.pow(2) * Dtype::Z.size()).max(8192);
        let operand = || block(first, operand_bytes);
        let memory = Memory {
            pairs: (0..self.devices().len())
                .map(pair)
                .collect::<Result<_, _>>()?,
            back: pair(0)?,
            operands: [operand()?, operand()?, operand()?],
            operand_bytes,
        };
        self.memory = Some(memory);
        self.factors(false)
    }

    fn memory(&self) -> Result<&Memory, String> {
        let memory = self.memory.as_ref();
        memory.ok_or_else(|| "no memory was allocated".into())
    }

    /// Fills the operands of products with integers as numbers of a precision.
    pub(super) fn factors(&mut self, single: bool) -> Result<(), String> {
        let backend = self.backend;
        let Some(memory) = self.memory.as_mut() else {
            return Err("no memory was allocated".into());
        };
        memory.pairs[0].host.fill(single);
        let mut last = None;
        for operand in memory.operands {
            for at in (0..memory.operand_bytes).step_by(self.sizes.bytes) {
                let width = self.sizes.bytes.min(memory.operand_bytes - at);
                let region = |addr| Region { addr, pitch: width };
                let from = region(memory.pairs[0].host.address() as u64);
                let to = region(operand + at as u64);
                // SAFETY: the piece lies within the host memory, which is page-locked, and within the operand; both are kept
                // until the process ends.
                last = Some(unsafe {
                    backend.upload(DeviceId(0), &[], &[], from, to, Shape { width, count: 1 })
                });
            }
        }
        match last {
            Some(ticket) => self.wait(ticket.map_err(|e| e.to_string())?),
            None => Ok(()),
        }
    }

    /// Queues a copy of this many bytes, in pieces of `run` bytes that are `pitch` apart in host memory.
    pub(super) fn copy_runs(
        &self,
        which: Copy,
        after: &[Ticket],
        (run, count, pitch): (usize, usize, usize),
    ) -> Result<Ticket, String> {
        let memory = self.memory()?;
        let all = self.sizes.bytes;
        if run > pitch || pitch.checked_mul(count).is_none_or(|bytes| bytes > all) {
            return Err(format!("{count} pieces of {run} bytes exceed the memory"));
        }
        let shape = Shape { width: run, count };
        let on_host = |pair: &Pair| Region {
            addr: pair.host.address() as u64,
            pitch,
        };
        let there = |pair: &Pair| Region {
            addr: pair.block,
            pitch: run,
        };
        let backend = self.backend;
        let pair = match which {
            Copy::In(i) | Copy::Out(i) => memory.pairs.get(i).ok_or("no such device")?,
            Copy::BackIn | Copy::BackOut => &memory.back,
            Copy::Peer | Copy::BackPeer => {
                let [one, two, ..] = &memory.pairs[..] else {
                    return Err("there is no second device".into());
                };
                let (from, to) = match which {
                    Copy::Peer => (there(two), there(one)),
                    // Into memory that copies from the second device may read meanwhile: what is copied has no meaning.
                    _ => (there(&memory.back), there(two)),
                };
                let ids = match which {
                    Copy::Peer => (two.device, one.device),
                    _ => (one.device, two.device),
                };
                // SAFETY: both regions lie within blocks of their devices, which are kept until the process ends.
                let queued = unsafe { backend.copy_peer(ids.0, ids.1, after, from, to, shape) };
                return queued.map_err(|e| e.to_string());
            }
        };
        let (host, device) = (on_host(pair), there(pair));
        let queued = if matches!(which, Copy::In(_) | Copy::BackIn) {
            // SAFETY: the region lies within the pair's host memory, which stays page-locked until the process ends, and
            // within its block.
            unsafe { backend.upload(pair.device, after, &[], host, device, shape) }
        } else {
            // SAFETY: as above; nothing reads the host memory meanwhile.
            unsafe { backend.download(pair.device, after, device, host, shape) }
        };
        queued.map_err(|e| e.to_string())
    }

    /// Queues a copy of this many bytes.
    pub(super) fn copy(
        &self,
        which: Copy,
        after: &[Ticket],
        bytes: usize,
    ) -> Result<Ticket, String> {
        self.copy_runs(which, after, (bytes, 1, bytes))
    }

    fn launch(&self, kernel: &Kernel) -> Result<Ticket, String> {
        let longest = self.memory()?.operand_bytes;
        for (_, (rows, columns), at) in kernel.operands() {
            let elements = if columns == 1 {
                rows
            } else {
                at.ld() * columns
            };
            if elements * kernel.dtype.size() > longest {
                return Err(format!(
                    "an operand of {elements} elements exceeds the memory"
                ));
            }
        }
        // SAFETY: each operand begins where a block of the first device does, and is no longer than that block, which is kept
        // until the process ends.
        unsafe { self.backend.launch(DeviceId(0), &[], kernel) }.map_err(|e| e.to_string())
    }

    /// Queues a product of square matrices of this order on the first device.
    pub(super) fn product(&self, dtype: Dtype, order: usize) -> Result<Ticket, String> {
        let at = self.memory()?.operands;
        let operands = at.map(|addr| Operand::matrix(addr, order));
        let (m, n, k) = (order, order, order);
        self.launch(&Kernel {
            m,
            n,
            k,
            ..Kernel::of(Routine::Gemm, dtype, operands)
        })
    }

    /// Queues the product of a matrix of doubles and a vector on the first device.
    pub(super) fn matrix_vector(&self, m: usize, n: usize) -> Result<Ticket, String> {
        let [a, x, y] = self.memory()?.operands;
        let operands = [
            Operand::matrix(a, m),
            Operand::vector(x, 1),
            Operand::vector(y, 1),
        ];
        self.launch(&Kernel {
            m,
            n,
            ..Kernel::of(Routine::Gemv, Dtype::D, operands)
        })
    }

    /// Queues the sum of two vectors of this many doubles on the first device.
    pub(super) fn sum(&self, m: usize) -> Result<Ticket, String> {
        let [x, _, y] = self.memory()?.operands;
        let operands = [Operand::vector(x, 1), Operand::vector(y, 1)];
        self.launch(&Kernel {
            m,
            ..Kernel::of(Routine::Axpy, Dtype::D, operands)
        })
    }

    /// Waits until an operation is complete.
    pub(super) fn wait(&self, ticket: Ticket) -> Result<(), String> {
        self.backend.wait(ticket).map_err(|e| e.to_string())
    }
}
