//! The values of the environment variables, once they are parsed.

/// `SEMCACHE_DEVICES`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Devices {
    /// All CUDA GPUs; no devices if there are none.
    Auto,
    /// No devices: everything runs on the host.
    None,
    /// CUDA GPUs.
    Cuda(CudaSet),
    /// A simulated machine.
    Sim(SimMachine),
}

/// The GPUs to use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CudaSet {
    /// All that the driver lists.
    All,
    /// The GPUs with these indices of the driver, in this order, without repeats.
    List(Vec<usize>),
}

/// The simulated machine to use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SimMachine {
    /// This many equal devices, at least one.
    Count(usize),
    /// A machine known by name; the simulator checks that it exists.
    Preset(String),
}

/// `SEMCACHE_SIM`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Sim {
    /// Every copy accesses host memory at the last moment that the protocol allows.
    pub late: bool,
    /// Device memory whose contents are not valid is overwritten.
    pub poison: bool,
    /// Seed of the simulator's random numbers.
    pub seed: u64,
    /// Link speed in GB/s; `None`: the simulator's default.
    pub link_gbs: Option<f64>,
    /// An injected failure.
    pub fail: Option<Fail>,
    /// In virtual time, a device of which kernels take longer than predicted, and the factor.
    pub slow: Option<(usize, f64)>,
    /// A clock says how long the operations take on the modelled machine.
    pub virtual_time: bool,
    /// Copies and kernels move and compute nothing, and no memory is used.
    pub hollow: bool,
}

/// An injected failure; operations (launches, copies, allocations) are counted from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fail {
    /// The Nth operation is refused and changes nothing.
    Refuse(u64),
    /// The device is lost at the Nth operation.
    Lost(u64),
    /// Every Nth launch is refused and changes nothing.
    Launches(u64),
}

/// `SEMCACHE_MEMORY`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Memory {
    /// This many bytes of each device.
    Bytes(usize),
    /// This percentage of each device's memory, 1 to 100, which ranks of an MPI job that share the device share out.
    Percent(u8),
}

impl Memory {
    /// The bytes that each of this number of processes may use of a device with `total` bytes.
    #[must_use]
    pub fn of(self, total: usize, processes: usize) -> usize {
        match self {
            Memory::Bytes(n) => n.min(total),
            Memory::Percent(p) => {
                let all = total / 100 * usize::from(p) + total % 100 * usize::from(p) / 100;
                all / processes.max(1)
            }
        }
    }
}

/// The user's choice (`SEMCACHE_OFFLOAD`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offload {
    /// Each call runs on the side, host or device, with the shorter predicted time.
    Auto,
    /// Every call that can run on a device does.
    Always,
    /// Every call runs on the host.
    Never,
}

/// `SEMCACHE_RANKS`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ranks {
    /// Each rank of a job uses its share of the machine's devices.
    Share,
    /// Each rank uses all devices.
    All,
}

/// `SEMCACHE_PEERS`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peers {
    /// Bytes that the host has, too, come from a device whose link is faster than the host's.
    Auto,
    /// They come from any device to which there is a link, over the fastest of these.
    Any,
    /// They come from the first device to which there is a link, however fast that is. XKBlas without its topology-aware heuristic.
    Unranked,
    /// They come from the host.
    Off,
}

/// `SEMCACHE_SCHEDULER`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scheduler {
    /// Devices compute the tasks that the plan gives them; see `model::window` for what goes to others.
    Planned,
    /// Equal shares of neighbouring tiles of the output, whatever the devices' speeds.
    Static,
    /// BLASX's queue with reservation stations.
    Blasx,
    /// XKaapi's work stealing.
    Xkaapi,
}

/// `SEMCACHE_SITES`: a language of scripts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Language {
    /// Python
    Python,
    /// R
    R,
    /// Octave
    Octave,
}

/// `SEMCACHE_PIN`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pin {
    /// As [`Pin::Again`] where copies through staging memory are faster than page-locking, else as [`Pin::First`].
    Auto,
    /// An operand is page-locked before it is moved for the first time.
    First,
    /// An operand passes through staging memory the first time, and is page-locked before it is moved again.
    Again,
    /// No operand is page-locked.
    Off,
}

impl Pin {
    /// All values, in their order.
    pub const ALL: [Pin; 4] = [Pin::Auto, Pin::First, Pin::Again, Pin::Off];
}

/// `SEMCACHE_HOST_SHARE`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostShare {
    /// As much as the host's rate tells, where the call is predicted to end sooner.
    Auto,
    /// The host has no part in calls that run on devices.
    Off,
    /// This percentage of the work, 1 to 99, of every call that can be divided.
    Percent(u8),
}

/// `SEMCACHE_WINDOW`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Window {
    /// Calls on several devices whose speeds differ, or differ from what is predicted, are issued in a window.
    Auto,
    /// Every call queues all of its tasks at once.
    Off,
    /// Calls of level 3 queue this many tasks ahead of each device, at least one.
    Tasks(usize),
}

/// `SEMCACHE_GATE`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gate {
    /// Page protection; for blocks that the CPU writes again and again, userfaultfd WP_ASYNC.
    Auto,
    /// Page protection and SIGSEGV.
    Mprotect,
    /// userfaultfd WP_ASYNC for the pages of inputs.
    WpAsync,
    /// No page protection: write-through.
    Eager,
    /// As [`Gate::Auto`], but that blocks are write-through by turns.
    Mixed,
}

/// `SEMCACHE_RATES`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RatesFile {
    /// The file that `semcache calibrate` wrote for this machine, if there is one.
    Calibrated,
    /// None: the built-in rates hold.
    Off,
    /// The file with this path.
    Path(String),
}
