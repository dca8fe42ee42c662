//! The reasons that the report names: why calls ran on the host, and what does not work as it should.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[doc = $vdoc:literal])+ $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum $name { $($(#[doc = $vdoc])+ $variant,)* }

        impl $name {
            /// Every variant, in the order of the report.
            pub const ALL: &[$name] = &[$($name::$variant,)*];

            /// The name in the report.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }

            /// What it means.
            #[must_use]
            pub const fn doc(self) -> &'static str {
                match self { $($name::$variant => concat!($($vdoc,)+),)* }
            }
        }
    };
}

named! {
    /// Why a call ran on the host.
    WhyHost {
        /// Less work than the fixed floor.
        Small = "small",
        /// The host was predicted to be faster.
        PredictedSlower = "predicted_slower",
        /// An output shares bytes with another operand.
        Aliased = "aliased",
        /// An argument is illegal; the host BLAS reports it.
        BadArgument = "bad_argument",
        /// No routine of the devices computes the call, whose arguments may be valid or not: a complex call by rows that
        /// would have to conjugate an operand, for one.
        Unsupported = "unsupported",
        /// `SEMCACHE_DISABLE` names the routine.
        Disabled = "disabled",
        /// `SEMCACHE_OFFLOAD=never`.
        Never = "never",
        /// There is no usable device.
        NoDevice = "no_device",
        /// The devices are still coming up.
        Starting = "starting",
        /// The operands do not fit device memory, whatever the tile.
        OutOfMemory = "out_of_memory",
        /// A device refused, or was lost, and the host finished the call.
        Refused = "refused",
        /// The provider's way of returning a value was not established.
        Convention = "convention",
        /// The host BLAS itself, or the runtime, made the call.
        Nested = "nested",
        /// The process was forked from one that had devices.
        Forked = "forked",
        /// Several libraries provide the symbol and the caller's own could not be told.
        Providers = "providers",
        /// There is nothing to compute: a dimension is zero.
        Empty = "empty",
        /// The calling thread has set another rounding mode than to nearest, or unmasked a floating-point exception.
        Environment = "environment",
        /// The program guards pages of an operand: by protection, a userfaultfd of its own, a protection key or guard
        /// markers.
        Guarded = "guarded",
    }
}

named! {
    /// What does not work as it should in this process, for the report. Each is also worth one line on
    /// stderr when it is first noticed.
    Degraded {
        /// No CUDA driver, or one that cannot be used.
        NoDriver = "no_driver",
        /// The devices asked for do not exist.
        NoDevices = "no_devices",
        /// `/proc/self/mem` cannot be written: results go home at once.
        NoProcMem = "no_proc_mem",
        /// The SIGSEGV handler could not be installed: results go home at once.
        NoHandler = "no_handler",
        /// A copy engine that cannot move closed pages: a slower path is used.
        DmaSelfTest = "dma_self_test",
        /// A gate was asked for that this kernel does not offer.
        NoGate = "no_gate",
        /// The process is near `vm.max_map_count`: no more panels are closed.
        MapLimit = "map_limit",
        /// Memory could not be reserved or registered as planned.
        NoReservation = "no_reservation",
        /// More large allocations live at once than can be tracked.
        ManyBlocks = "many_blocks",
        /// Another allocator (jemalloc, tcmalloc) serves malloc.
        ForeignMalloc = "foreign_malloc",
        /// A device was lost.
        DeviceLost = "device_lost",
        /// A panic or a broken invariant: offloading stopped.
        Internal = "internal",
        /// Asynchronous I/O: results go home at once.
        AsyncIo = "async_io",
        /// MPI with several ranks: results go home at once.
        Mpi = "mpi",
        /// The process has a fork between it and its devices.
        Forked = "forked",
        /// Somebody else in the process uses CUDA: results go home at once.
        OtherCuda = "other_cuda",
        /// The program took a descriptor of a device's driver: calls go to the host.
        Descriptors = "descriptors",
        /// The process runs under valgrind: calls go to the host.
        Valgrind = "valgrind",
        /// The program restricted its own system calls: calls go to the host.
        Sandbox = "sandbox",
    }
}

static DEGRADED: AtomicU64 = AtomicU64::new(0);

/// Marks something as degraded. Returns whether this is the first time, so that it is said only once.
pub fn degrade(what: Degraded) -> bool {
    let bit = 1 << (what as u8);
    DEGRADED.fetch_or(bit, Relaxed) & bit == 0
}

/// All that was marked so far.
#[must_use]
pub fn degraded() -> Vec<Degraded> {
    let marked = DEGRADED.load(Relaxed);
    let all = Degraded::ALL.iter().copied();
    all.filter(|d| marked >> (*d as u8) & 1 == 1).collect()
}

pub(super) fn forget_degraded() {
    DEGRADED.store(0, Relaxed);
}
