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
    /// Why a call on devices did not use a device.
    LeftOut {
        /// The device could not be used yet.
        Starting = "starting",
        /// Fewer devices, or others, were predicted to be as fast.
        Slower = "slower",
        /// The call was too small to have a part for the device, or is never divided.
        NoPart = "no_part",
    }
}

named! {
    /// Why a call ran on the host.
    WhyHost {
        /// The call has less work than is offloaded with its operands in host memory, or came before starting the
        /// devices was worth it.
        Small = "small",
        /// The model predicts, or measurements of earlier calls show, that the host BLAS is faster.
        PredictedSlower = "predicted_slower",
        /// An output shares bytes with another operand of the call, or an operand does not lie in one tracked block.
        Aliased = "aliased",
        /// An argument is illegal; the host BLAS gets the call as it is and reports the error.
        BadArgument = "bad_argument",
        /// No routine of the devices computes such a call, a row-major complex one that would have to conjugate an
        /// operand, for example; or a factorization found its matrix singular or not positive definite, of which the host's LAPACK
        /// leaves what LAPACK leaves.
        Unsupported = "unsupported",
        /// `SEMCACHE_DISABLE` names the routine.
        Disabled = "disabled",
        /// `SEMCACHE_OFFLOAD=never` is set.
        Never = "never",
        /// There is no usable device.
        NoDevice = "no_device",
        /// The devices are still being started.
        Starting = "starting",
        /// Devices are predicted to be faster, but have not loaded the code of the kernel: that takes longer than the call would
        /// gain, and is done meanwhile if such calls go on.
        Loading = "loading",
        /// The operands do not fit in device memory with any tile size.
        OutOfMemory = "out_of_memory",
        /// A device refused a request (for memory, or a kernel), or was lost; the host BLAS ran the call, or completed
        /// it.
        Refused = "refused",
        /// How the host BLAS returns a value, or how wide its integers are, could not be determined.
        Convention = "convention",
        /// The host BLAS, semcache itself, or an operator of the program that MPI calls in a reduction made the call.
        Nested = "nested",
        /// The process is a child, by fork, of one that used devices.
        Forked = "forked",
        /// Several loaded libraries provide the routine, and which of them the caller is bound to could not be
        /// determined.
        Providers = "providers",
        /// Nothing, or too little for a device, is computed (a dimension, alpha or an increment is zero), or an operand
        /// is misaligned.
        Empty = "empty",
        /// The calling thread has set another rounding mode than to nearest, or unmasked a floating-point exception.
        Environment = "environment",
        /// The program itself protects pages of an operand: by `mprotect`, a userfaultfd, a protection key or guard
        /// markers.
        Guarded = "guarded",
        /// The call is one of a driver of LAPACK that devices do not compute (`dsyevd`), or too small, and runs on the host; BLAS calls that the LAPACK makes inside itself,
        /// past the names of the BLAS, are not seen.
        Solver = "solver",
    }
}

named! {
    /// What does not work as it should in this process, for the report. Each is also worth one line on
    /// stderr when it is first noticed.
    Degraded {
        /// There is no CUDA driver, or it cannot be used: calls run on the host BLAS.
        NoDriver = "no_driver",
        /// Devices that were asked for do not exist or did not start: fewer are used, or none.
        NoDevices = "no_devices",
        /// `/proc/self/mem` cannot be written, which simulated devices need: calls run on the host BLAS.
        NoProcMem = "no_proc_mem",
        /// The handler of SIGSEGV could not be installed: results are copied to the host before a call returns. Or the
        /// thread that serves faults could not be started: calls run on the host BLAS.
        NoHandler = "no_handler",
        /// The copy engine of a GPU failed the test of copying to inaccessible pages: copies go through staging memory.
        DmaSelfTest = "dma_self_test",
        /// The kernel does not offer `SEMCACHE_GATE=wp-async`, or a scan for written pages failed: `mprotect` is used.
        NoGate = "no_gate",
        /// The process is near `vm.max_map_count`: pages that could not be protected stay accessible, and results in
        /// them are copied to the host before a call returns.
        MapLimit = "map_limit",
        /// No address space could be reserved for large allocations: operands in them are copied at every call.
        NoReservation = "no_reservation",
        /// More large allocations exist at once than can be tracked: operands in the others are copied at every call.
        ManyBlocks = "many_blocks",
        /// Another allocator (jemalloc, tcmalloc) serves `malloc`: operands in its memory are copied at every call.
        ForeignMalloc = "foreign_malloc",
        /// A device failed: later calls run on the host BLAS.
        DeviceLost = "device_lost",
        /// A panic or a broken invariant inside semcache: calls run on the host BLAS from then on.
        Internal = "internal",
        /// The program uses asynchronous I/O (io_uring, AIO): results are copied to the host before a call returns.
        AsyncIo = "async_io",
        /// The program uses an MPI library that is not known, or that is linked into it: results are copied to the host before a call returns.
        Mpi = "mpi",
        /// The process is a child, by fork, of one that used devices: calls run on the host BLAS.
        Forked = "forked",
        /// Another part of the program uses CUDA: results are copied to the host before a call returns.
        OtherCuda = "other_cuda",
        /// The program closed or replaced a file descriptor of a device's driver: calls run on the host BLAS.
        Descriptors = "descriptors",
        /// The process runs under valgrind: calls run on the host BLAS.
        Valgrind = "valgrind",
        /// The program installed a seccomp filter: calls run on the host BLAS.
        Sandbox = "sandbox",
    }
}

impl WhyHost {
    /// The reason of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<WhyHost> {
        WhyHost::ALL.iter().copied().find(|why| why.name() == name)
    }

    /// The reason as what follows "5 calls": a phrase for people.
    #[must_use]
    pub const fn said(self) -> &'static str {
        match self {
            WhyHost::Small => "too small to gain",
            WhyHost::PredictedSlower => "sooner on the host",
            WhyHost::Aliased => "with operands that overlap or lie in no tracked block",
            WhyHost::BadArgument => "with an illegal argument",
            WhyHost::Unsupported => "that no device computes",
            WhyHost::Disabled => "of routines that SEMCACHE_DISABLE names",
            WhyHost::Never => "kept on the host by SEMCACHE_OFFLOAD=never",
            WhyHost::NoDevice => "without a device",
            WhyHost::Starting => "made while devices were starting",
            WhyHost::Loading => "made before the kernel was loaded",
            WhyHost::OutOfMemory => "too large for device memory",
            WhyHost::Refused => "that a device refused",
            WhyHost::Convention => "to a BLAS whose calling convention is unknown",
            WhyHost::Nested => "made by the host BLAS itself, or in a reduction of MPI",
            WhyHost::Forked => "in a child of fork",
            WhyHost::Providers => "that could go to several BLAS libraries",
            WhyHost::Empty => "with nothing to compute",
            WhyHost::Environment => "under another floating-point environment",
            WhyHost::Guarded => "on memory that the program protects itself",
            WhyHost::Solver => "of LAPACK, whose BLAS calls are out of sight",
        }
    }

    /// What a user can do about it.
    #[must_use]
    pub const fn advice(self) -> &'static str {
        match self {
            WhyHost::Small => {
                "do the same work in fewer, larger calls (gemm for several gemv, batches)"
            }
            WhyHost::PredictedSlower => {
                "nothing, unless the operands could stay on devices from call to call: use larger matrices, and let the CPU touch them less"
            }
            WhyHost::Aliased => {
                "give each matrix a block of memory of its own, so that outputs overlap nothing"
            }
            WhyHost::BadArgument => "correct the arguments: the host BLAS reports them",
            WhyHost::Unsupported => {
                "use a form of the call that devices have (column-major, without conjugation)"
            }
            WhyHost::Disabled => "take the routine out of SEMCACHE_DISABLE",
            WhyHost::Never => "unset SEMCACHE_OFFLOAD",
            WhyHost::NoDevice => "semcache doctor says what is missing",
            WhyHost::Starting => {
                "nothing: devices take seconds to start, and longer programs lose nothing by it"
            }
            WhyHost::Loading => "nothing: the first calls of a kind load its kernel",
            WhyHost::OutOfMemory => "use smaller blocks, more devices, or a larger SEMCACHE_MEMORY",
            WhyHost::Refused => "see the lines on stderr: a device had no memory or was lost",
            WhyHost::Convention => "set SEMCACHE_HOST_BLAS to a known BLAS",
            WhyHost::Nested => "nothing: the call is a part of another one",
            WhyHost::Forked => {
                "make BLAS calls before the fork or in the parent, or start processes by spawn"
            }
            WhyHost::Providers => "set SEMCACHE_HOST_BLAS to the BLAS that is meant",
            WhyHost::Empty => "nothing",
            WhyHost::Environment => {
                "restore rounding to nearest, and mask floating-point exceptions, around BLAS calls"
            }
            WhyHost::Guarded => {
                "keep the memory of matrices free of guards (mprotect, userfaultfd)"
            }
            WhyHost::Solver => {
                "with a LAPACK that calls the BLAS by name (the reference LAPACK, Debian's liblapack3), its products run on devices"
            }
        }
    }
}

/// The features that do not work as they should, one bit each.
#[derive(Debug)]
pub struct DegradedSet(AtomicU64);

impl DegradedSet {
    pub(super) const fn new() -> Self {
        DegradedSet(AtomicU64::new(0))
    }

    /// Adds a feature. Returns whether it was not there.
    pub fn add(&self, what: Degraded) -> bool {
        let bit = 1 << (what as u8);
        self.0.fetch_or(bit, Relaxed) & bit == 0
    }

    /// All that were added so far.
    #[must_use]
    pub fn all(&self) -> Vec<Degraded> {
        let marked = self.0.load(Relaxed);
        let all = Degraded::ALL.iter().copied();
        all.filter(|d| marked >> (*d as u8) & 1 == 1).collect()
    }
}
