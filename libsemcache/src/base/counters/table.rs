//! The plain counters of a process in one table: the name of each, which is its key in the report, and what it counts.
//!
//! Counting is a relaxed `fetch_add` on a static atomic: it takes no lock and allocates nothing, so that any code of
//! this library may count. Only the crate of the signal handler does not.

use core::ops::AddAssign;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::{Deserialize, Serialize};

/// A count that only grows.
#[derive(Debug)]
pub struct Counter(AtomicU64);

impl Counter {
    pub(super) const fn new() -> Self {
        Counter(AtomicU64::new(0))
    }

    /// Adds `n`.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    /// Stores a number that is no count: an id, a time, a size.
    pub fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }

    /// The count now.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A number of the report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    /// The JSON object of the report that contains the number; empty for the report itself.
    pub group: &'static str,
    /// The key of the number in that object.
    pub name: &'static str,
    /// What the number counts.
    pub doc: &'static str,
}

/// Makes from the table: per group a struct of atomics and one of the values that the report has, the counters of this
/// process, and the list of all keys. Entries behind `computed` are not counted: the report computes them.
macro_rules! counters {
    ({ $(
        $(#[doc = $gdoc:literal])* $group:ident, $Atomics:ident, $Values:ident {
            $($(#[doc = $doc:literal])+ $name:ident,)*
            $(computed { $($(#[doc = $cdoc:literal])+ $computed:ident: $type:ty,)* })?
        }
    )* } { $($(#[doc = $tdoc:literal])+ $top:ident,)* }) => {
        $(
            $(#[doc = $gdoc])*
            #[derive(Debug)]
            pub struct $Atomics { $($(#[doc = $doc])+ pub $name: Counter,)* }

            $(#[doc = $gdoc])*
            #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
            #[serde(default)]
            pub struct $Values {
                $($(#[doc = $doc])+ pub $name: u64,)*
                $($($(#[doc = $cdoc])+ pub $computed: $type,)*)?
            }
        )*

        /// The counters of a process.
        #[derive(Debug)]
        pub struct Counters {
            $($(#[doc = $gdoc])* pub $group: $Atomics,)*
            $($(#[doc = $tdoc])+ pub $top: Counter,)*
        }

        /// The values of all counters at one moment. If other threads count meanwhile, the values may be a few events apart.
        #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Values {
            $($(#[doc = $gdoc])* pub $group: $Values,)*
            $($(#[doc = $tdoc])+ pub $top: u64,)*
        }

        impl Counters {
            #[expect(clippy::declare_interior_mutable_const, reason = "an initial value")]
            pub(super) const NEW: Counters = Counters {
                $($group: $Atomics { $($name: Counter::new(),)* },)*
                $($top: Counter::new(),)*
            };
        }

        /// Every number of the report, in its order.
        pub const KEYS: &[Key] = &[$(
            $(Key { group: stringify!($group), name: stringify!($name), doc: concat!($($doc,)+) },)*
            $($(Key { group: stringify!($group), name: stringify!($computed), doc: concat!($($cdoc,)+) },)*)?
        )* $(Key { group: "", name: stringify!($top), doc: concat!($($tdoc,)+) },)*];

        impl Counters {
            /// The values now; those that the report computes are zero.
            #[must_use]
            pub fn values(&self) -> Values {
                let mut values = Values::default();
                $($(values.$group.$name = self.$group.$name.get();)*)*
                $(values.$top = self.$top.get();)*
                values
            }
        }

        impl AddAssign<&Values> for Values {
            /// Adds the counts; leaves the values that the report computes.
            fn add_assign(&mut self, other: &Values) {
                $($(self.$group.$name += other.$group.$name;)*)*
                $(self.$top += other.$top;)*
            }
        }
    };
}

counters! {
{
    /// Bytes moved.
    bytes, BytesCounters, Bytes {
        /// Bytes copied from the host to devices.
        h2d,
        /// Bytes copied from devices to the host.
        d2h,
        /// Bytes copied between devices.
        p2p,
        /// Bytes of results that kernels wrote to mapped memory, from which the calling thread copied them.
        mapped,
        /// Bytes that would move if every offloaded call copied its inputs in and its outputs out (an operand that is
        /// updated counts twice).
        per_call,
        computed {
            /// `per_call` less `h2d`, `d2h` and `mapped`; negative if more was moved.
            saved: i64,
        }
    }
    /// Accesses of the CPU to protected pages.
    faults, FaultsCounters, Faults {
        /// Faults of loads.
        read,
        /// Faults of stores.
        write,
        /// Faults on bytes that no device holds, in a panel with bytes that one does.
        false_sharing,
        computed {
            /// Half of the faults were served in at most this time, in microseconds.
            p50_us: f64,
            /// 99 % of the faults were served in at most this time, in microseconds.
            p99_us: f64,
        }
    }
    /// Device memory as a cache.
    cache, CacheCounters, Cache {
        /// Parts of operands that a kernel found in device memory.
        hits,
        /// Parts of operands that had to be copied to a device first.
        misses,
        /// Replicas whose device memory was taken for another one.
        evictions,
        /// Panels made inaccessible because a device holds newer bytes.
        closes,
        /// Operands, counted as they became resident, with whole pages between their columns that are made inaccessible with
        /// the columns because the gap is less than 1/1024 of the block.
        coarse,
        /// Calls and sparse products replayed: the same on operands that nobody touched since; nothing was decided or planned anew.
        replayed,
        /// Results that their kernels left in mapped memory, from which the calling thread copied them.
        mapped,
    }
    /// Calls that queue a few tasks ahead of each device, and deal the others again by the pace of the devices.
    window, WindowCounters, Window {
        /// Calls issued in a window. They return about one window before their last task is complete.
        calls,
        /// Tasks that another device got than planned, because devices were faster or slower than predicted; counted each time.
        moved,
        /// Times that such a call let the program's signal handlers run between two tasks.
        pauses,
        /// Calls that a handler left by a jump: queued tasks remain valid, the others were not computed.
        left,
    }
    /// Write tracking.
    gate, GateCounters, Gate {
        /// Scans for pages written since the last scan.
        scans,
        /// Bytes of pages that the scans found written.
        written,
        /// Bytes that stayed valid on a device although the CPU wrote other pages of their panel.
        kept,
        /// How often a block became write-through for a while, so that calls upload what they read of it: small inputs that the CPU always
        /// rewrites, and blocks of which page protection takes longer than copies at each call, whose results are on the host when a call
        /// returns.
        write_through,
    }
    /// Buffers of MPI.
    mpi, MpiCounters, Mpi {
        /// Buffers of operations of MPI on pages that had to be made accessible first, since devices held newer bytes, or copies of what
        /// MPI was to write.
        buffers,
        /// Bytes of such pages' parts of the buffers.
        opened,
    }
    /// Page-locked host memory.
    host, HostCounters, Host {
        /// Bytes of host memory that were page-locked, in all.
        pinned,
        /// Microseconds that page-locking took.
        pin_us,
        /// Blocks that were to be page-locked and could not be.
        pin_refused,
    }
    /// Simulated devices in virtual time.
    virtual_time, VirtualTimeCounters, VirtualTime {
        /// Nanoseconds after which all operations are complete on the machine that is modelled (`SEMCACHE_SIM=virtual`).
        ns,
    }
    /// Times that devices took, of the operations that are timed as samples: 1 in 256 of each stream.
    sampled, SampledCounters, Sampled {
        /// Bytes of the copies from the host to devices that were timed as samples, 1 operation in 256 of each stream.
        h2d_bytes,
        /// Nanoseconds that devices took for the copies that `sampled.h2d_bytes` counts.
        h2d_ns,
        /// Bytes of the copies from devices to the host that were timed as samples, 1 operation in 256 of each stream.
        d2h_bytes,
        /// Nanoseconds that devices took for the copies that `sampled.d2h_bytes` counts.
        d2h_ns,
        /// Bytes of the copies between devices that were timed as samples, 1 operation in 256 of each stream.
        p2p_bytes,
        /// Nanoseconds that devices took for the copies that `sampled.p2p_bytes` counts.
        p2p_ns,
        /// Kernels that were timed as samples, 1 operation in 256 of each stream.
        kernels,
        /// Nanoseconds that devices took for the kernels that `sampled.kernels` counts.
        kernel_ns,
    }
}
{
        /// Offloaded calls of which the host BLAS computed a part while devices computed the rest (`SEMCACHE_HOST_SHARE`).
        host_parts,
        /// Offloaded calls whose tiles were computed where a distribution of the program wants them (`semcache.h`).
        distributed,
        /// Factorizations of dense matrices that devices computed by tiles: on several devices, or with less memory than the matrix takes.
        tiled,
        /// Products of sparse matrices (`semcache_csr_multiply`, `mkl_sparse_?_mv`, `mkl_sparse_?_mm`) that devices computed.
        sparse,
        /// Such products that a loop of the library computed on the host, all rows or some.
        sparse_host,
        /// Products that a program asked MKL for (`mkl_sparse_?_mv`, `mkl_sparse_?_mm`) and that were passed on to it.
        sparse_passed,
        /// Sparse matrices that were checked for them: at the first product, and after a change of row offsets or column indices.
        sparse_links,
        /// Calls left to the host BLAS whose time there was taken: the library called its function instead of jumping to it.
        host_timed,
        /// Offloaded calls, or parts of them, that the host completed after a device's refusal or loss.
        fallbacks,
        /// Parts of such calls that the host BLAS computed.
        fallback_host_tasks,
        /// Parts of such calls, and of those that `host_parts` counts, that semcache's own arithmetic computed, on one thread,
        /// because the host BLAS has no function for them.
        fallback_own_tasks,
}
}
