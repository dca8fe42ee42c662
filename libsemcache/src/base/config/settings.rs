//! What the variables say, once their values are read.

/// `SEMCACHE_DEVICES`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Devices {
    /// All CUDA GPUs, else none.
    Auto,
    /// No devices: everything runs on the host.
    None,
    /// CUDA GPUs.
    Cuda(CudaSet),
    /// A simulated machine.
    Sim(SimMachine),
}

/// Which GPUs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CudaSet {
    /// All that the driver lists.
    All,
    /// These, by the driver's index, in this order, without repeats.
    List(Vec<usize>),
}

/// Which simulated machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SimMachine {
    /// That many equal devices, at least one.
    Count(usize),
    /// A machine known by name; whether it exists is the simulator's business.
    Preset(String),
}

/// `SEMCACHE_SIM`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Sim {
    /// Every copy touches host memory at the last moment that the protocol allows.
    pub late: bool,
    /// Device memory that is not valid is overwritten.
    pub poison: bool,
    /// Seed of whatever the simulator draws.
    pub seed: u64,
    /// Link speed in GB/s; none: the simulator's own figure.
    pub link_gbs: Option<f64>,
    /// An injected failure.
    pub fail: Option<Fail>,
}

/// An injected failure; operations (launches, copies, allocations) count from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fail {
    /// The Nth operation is refused, nothing changed.
    Refuse(u64),
    /// The device is lost at the Nth operation.
    Lost(u64),
}

/// `SEMCACHE_MEMORY`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Memory {
    /// That many bytes per device.
    Bytes(usize),
    /// That share of what the device has, 1 to 100.
    Percent(u8),
}

impl Memory {
    /// The bytes that may be used of a device with `total`.
    #[must_use]
    pub fn of(self, total: usize) -> usize {
        match self {
            Memory::Bytes(n) => n.min(total),
            Memory::Percent(p) => total / 100 * usize::from(p) + total % 100 * usize::from(p) / 100,
        }
    }
}

/// The user's choice (`SEMCACHE_OFFLOAD`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offload {
    /// The side with the shorter predicted time.
    Auto,
    /// Whatever can run on a device does.
    Always,
    /// Nothing does.
    Never,
}

/// `SEMCACHE_RANKS`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ranks {
    /// Each rank of a job uses its part of the devices.
    Share,
    /// Each uses all.
    All,
}

/// `SEMCACHE_GATE`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gate {
    /// Page protection, and for blocks that are patched over and over userfaultfd WP_ASYNC.
    Auto,
    /// Page protection and SIGSEGV.
    Mprotect,
    /// userfaultfd WP_ASYNC for inputs.
    WpAsync,
    /// No protection at all.
    Eager,
}
