//! What the runtime counts, and the snapshot that the report is made of.
//!
//! Recording is a relaxed `fetch_add` on a static atomic: it takes no lock and allocates nothing, so that
//! it may happen anywhere outside the signal handler's own crate. Routines are named by a small index that
//! the caller chooses; the names come in with [`snapshot`].
//!
//! Calls that stay on the host are counted on the fast path of tiny calls by many threads at once, so those
//! counters are sharded: threads that call at the same time mostly touch different cache lines.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{Dtype, Routine};

/// The routines that are told apart: operation times element type.
pub const MAX_ROUTINES: usize = Routine::ALL.len() * Dtype::ALL.len();

/// Shards of the host-call counters.
const SHARDS: usize = 16;

macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum $name { $($(#[$vdoc])* $variant,)* }

        impl $name {
            /// Every variant, in the order of the report.
            pub const ALL: &[$name] = &[$($name::$variant,)*];

            /// The name in the report.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
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
        /// No host BLAS was found.
        NoHostBlas = "no_host_blas",
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

const REASONS: usize = WhyHost::ALL.len();

/// Two cache lines, for the prefetcher fetches pairs.
#[repr(align(128))]
struct Shard {
    host: [[AtomicU64; REASONS]; MAX_ROUTINES],
}

/// Latency buckets: four per octave of nanoseconds.
const LATENCIES: usize = 4 * 40;

static HOST: [Shard; SHARDS] = [const {
    Shard {
        host: [const { [const { AtomicU64::new(0) }; REASONS] }; MAX_ROUTINES],
    }
}; SHARDS];
static OFFLOADED: [AtomicU64; MAX_ROUTINES] = [const { AtomicU64::new(0) }; MAX_ROUTINES];
static LATENCY: [AtomicU64; LATENCIES] = [const { AtomicU64::new(0) }; LATENCIES];

/// One number of the report.
#[derive(Debug)]
pub struct Counter(AtomicU64);

impl Counter {
    const fn new() -> Self {
        Counter(AtomicU64::new(0))
    }

    /// Adds `n`.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    /// The value now.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// The plain counters. Field names are those of the report.
#[derive(Debug)]
pub struct Counters {
    /// Bytes copied from host to devices.
    pub h2d: Counter,
    /// Bytes copied from devices to the host.
    pub d2h: Counter,
    /// Bytes copied between devices.
    pub p2p: Counter,
    /// What copying every operand in and every result out at every offloaded call would have moved: each
    /// offloaded call adds the bytes of its inputs and of its outputs (an updated operand counts twice).
    pub per_call: Counter,
    /// Read faults served.
    pub fault_reads: Counter,
    /// Write faults served.
    pub fault_writes: Counter,
    /// Faults on bytes of a panel that belong to no replica.
    pub false_sharing: Counter,
    /// Operand parts found on the device.
    pub hits: Counter,
    /// Calls that were made as they were made before, without being looked at.
    pub remembered: Counter,
    /// Operand parts that had to be sent.
    pub misses: Counter,
    /// Replicas given up for want of device memory.
    pub evictions: Counter,
    /// Panels closed.
    pub closes: Counter,
    /// Operands that became resident with whole pages between their columns which are closed with the columns, because they
    /// are less than 1/1024 of their block.
    pub coarse: Counter,
    /// Scans for written pages.
    pub scans: Counter,
    /// Bytes of pages that they found written.
    pub scan_dirty: Counter,
    /// Bytes on devices that panels' protection would have sent again, and that stood.
    pub scan_kept: Counter,
    /// Offloaded calls, or parts of them, that the host finished after a refusal.
    pub fallbacks: Counter,
    /// Bytes of host memory that were page-locked, in all.
    pub pinned: Counter,
    /// Microseconds that this took.
    pub pin_us: Counter,
    /// Blocks that should have been page-locked and were not.
    pub pin_refused: Counter,
    degraded: AtomicU64,
}

/// The counters of this process.
pub static COUNTERS: Counters = Counters {
    h2d: Counter::new(),
    d2h: Counter::new(),
    p2p: Counter::new(),
    per_call: Counter::new(),
    fault_reads: Counter::new(),
    fault_writes: Counter::new(),
    false_sharing: Counter::new(),
    hits: Counter::new(),
    remembered: Counter::new(),
    misses: Counter::new(),
    evictions: Counter::new(),
    closes: Counter::new(),
    coarse: Counter::new(),
    scans: Counter::new(),
    scan_dirty: Counter::new(),
    scan_kept: Counter::new(),
    fallbacks: Counter::new(),
    pinned: Counter::new(),
    pin_us: Counter::new(),
    pin_refused: Counter::new(),
    degraded: AtomicU64::new(0),
};

/// Counts a call that ran on devices. An index of [`MAX_ROUTINES`] or more is not counted.
#[inline]
pub fn offloaded(routine: usize) {
    if let Some(count) = OFFLOADED.get(routine) {
        count.fetch_add(1, Relaxed);
    }
}

/// Counts a call that ran on the host, and why. An index of [`MAX_ROUTINES`] or more is not counted.
#[inline]
pub fn host(routine: usize, why: WhyHost) {
    if let Some(reasons) = HOST[shard()].host.get(routine) {
        reasons[why as usize].fetch_add(1, Relaxed);
    }
}

/// A shard that mostly differs between threads: it hashes the address of the stack, whose upper bits tell
/// threads apart. Cheaper than a thread-local, and a collision costs time only.
#[inline]
fn shard() -> usize {
    let here = 0_u8;
    let stack = (&raw const here).addr() >> 18;
    stack.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (usize::BITS - SHARDS.ilog2())
}

/// Records how long the program waited for one fault.
pub fn fault_latency(nanoseconds: u64) {
    LATENCY[bucket(nanoseconds)].fetch_add(1, Relaxed);
}

/// Marks something as degraded. Returns whether this is the first time, so that it is said only once.
pub fn degrade(what: Degraded) -> bool {
    let bit = 1 << (what as u8);
    COUNTERS.degraded.fetch_or(bit, Relaxed) & bit == 0
}

fn bucket(nanoseconds: u64) -> usize {
    let ns = nanoseconds.max(4);
    let octave = ns.ilog2() as usize;
    let quarter = (ns >> (octave - 2)) as usize & 3;
    (4 * (octave - 2) + quarter).min(LATENCIES - 1)
}

/// The middle of a bucket in nanoseconds.
fn middle(bucket: usize) -> f64 {
    let octave = bucket / 4 + 2;
    let low = (4 + bucket % 4) as u64;
    (low as f64 + 0.5) * (1_u64 << (octave - 2)) as f64
}

/// The calls of one routine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RoutineCalls {
    /// Plain name (`dgemm`).
    pub name: String,
    /// Calls that ran on devices.
    pub offloaded: u64,
    /// Calls that ran on the host, by reason; only reasons that occurred.
    pub why_host: Vec<(WhyHost, u64)>,
}

impl RoutineCalls {
    /// Calls that ran on the host.
    #[must_use]
    pub fn host(&self) -> u64 {
        self.why_host.iter().map(|(_, n)| n).sum()
    }
}

/// All counters at one moment. Taken while other threads count, the numbers may be a few events apart.
#[derive(Clone, PartialEq, Debug, Default)]
#[expect(missing_docs, reason = "the fields are those of Counters")]
pub struct Snapshot {
    /// Routines that were called at all, by name.
    pub calls: Vec<RoutineCalls>,
    pub h2d: u64,
    pub d2h: u64,
    pub p2p: u64,
    pub per_call: u64,
    pub fault_reads: u64,
    pub fault_writes: u64,
    pub false_sharing: u64,
    /// Half of the faults took at most this many microseconds; zero without faults.
    pub fault_p50_us: f64,
    /// 99 of 100 faults took at most this many microseconds; zero without faults.
    pub fault_p99_us: f64,
    pub hits: u64,
    /// See [`Counters::remembered`].
    pub remembered: u64,
    pub misses: u64,
    pub evictions: u64,
    pub closes: u64,
    /// See [`Counters::coarse`].
    pub coarse: u64,
    pub scans: u64,
    pub scan_dirty: u64,
    pub scan_kept: u64,
    pub fallbacks: u64,
    pub pinned: u64,
    pub pin_us: u64,
    pub pin_refused: u64,
    pub degraded: Vec<Degraded>,
}

impl Snapshot {
    /// What copying at every call would have moved over the host link, less what was moved. Negative when
    /// more was moved.
    #[must_use]
    pub fn saved(&self) -> i64 {
        let saved = i128::from(self.per_call) - i128::from(self.h2d) - i128::from(self.d2h);
        i64::try_from(saved).unwrap_or(if saved < 0 { i64::MIN } else { i64::MAX })
    }

    /// Adds host calls that were counted elsewhere.
    pub fn add_host(&mut self, name: &str, why: WhyHost, calls: u64) {
        let at = match self.calls.iter().position(|c| c.name == name) {
            Some(at) => at,
            None => {
                self.calls.push(RoutineCalls {
                    name: name.to_owned(),
                    offloaded: 0,
                    why_host: Vec::new(),
                });
                self.calls.len() - 1
            }
        };
        let reasons = &mut self.calls[at].why_host;
        match reasons.iter_mut().find(|(w, _)| *w == why) {
            Some((_, n)) => *n += calls,
            None => reasons.push((why, calls)),
        }
        self.calls.sort_by(|a, b| a.name.cmp(&b.name));
    }

    /// Whether nothing at all was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Snapshot::default()
    }
}

/// Reads every counter. `names` gives the plain name of each routine index; two indices of one name are
/// added up, an index without a name is reported as `routine<index>`.
#[must_use]
pub fn snapshot<S: AsRef<str>>(names: &[S]) -> Snapshot {
    let c = &COUNTERS;
    let latencies: Vec<u64> = LATENCY.iter().map(|n| n.load(Relaxed)).collect();
    let degraded = c.degraded.load(Relaxed);
    Snapshot {
        calls: calls(names),
        h2d: c.h2d.get(),
        d2h: c.d2h.get(),
        p2p: c.p2p.get(),
        per_call: c.per_call.get(),
        fault_reads: c.fault_reads.get(),
        fault_writes: c.fault_writes.get(),
        false_sharing: c.false_sharing.get(),
        fault_p50_us: quantile(&latencies, 50),
        fault_p99_us: quantile(&latencies, 99),
        hits: c.hits.get(),
        remembered: c.remembered.get(),
        misses: c.misses.get(),
        evictions: c.evictions.get(),
        closes: c.closes.get(),
        coarse: c.coarse.get(),
        scans: c.scans.get(),
        scan_dirty: c.scan_dirty.get(),
        scan_kept: c.scan_kept.get(),
        fallbacks: c.fallbacks.get(),
        pinned: c.pinned.get(),
        pin_us: c.pin_us.get(),
        pin_refused: c.pin_refused.get(),
        degraded: Degraded::ALL
            .iter()
            .copied()
            .filter(|d| degraded >> (*d as u8) & 1 == 1)
            .collect(),
    }
}

fn calls<S: AsRef<str>>(names: &[S]) -> Vec<RoutineCalls> {
    let mut calls: Vec<RoutineCalls> = Vec::new();
    for (routine, offloaded) in OFFLOADED.iter().enumerate() {
        let offloaded = offloaded.load(Relaxed);
        let why: Vec<u64> = (0..REASONS)
            .map(|w| HOST.iter().map(|s| s.host[routine][w].load(Relaxed)).sum())
            .collect();
        if offloaded == 0 && why.iter().all(|n| *n == 0) {
            continue;
        }
        let name = names
            .get(routine)
            .map_or_else(|| format!("routine{routine}"), |n| n.as_ref().to_owned());
        let at = calls
            .iter()
            .position(|c| c.name == name)
            .unwrap_or_else(|| {
                calls.push(RoutineCalls {
                    name,
                    offloaded: 0,
                    why_host: Vec::new(),
                });
                calls.len() - 1
            });
        let entry = &mut calls[at];
        entry.offloaded += offloaded;
        for (why, n) in WhyHost::ALL.iter().zip(why).filter(|(_, n)| *n > 0) {
            match entry.why_host.iter_mut().find(|(w, _)| w == why) {
                Some((_, count)) => *count += n,
                None => entry.why_host.push((*why, n)),
            }
        }
        entry.why_host.sort_unstable();
    }
    calls.sort_by(|a, b| a.name.cmp(&b.name));
    calls
}

/// The smallest bucket middle, in microseconds, that `percent` of the samples do not exceed.
fn quantile(buckets: &[u64], percent: u64) -> f64 {
    let total: u64 = buckets.iter().sum();
    let rank = (u128::from(total) * u128::from(percent)).div_ceil(100);
    let mut seen = 0_u128;
    for (bucket, n) in buckets.iter().enumerate() {
        seen += u128::from(*n);
        if *n > 0 && seen >= rank {
            return middle(bucket) / 1000.0;
        }
    }
    0.0
}

/// Sets everything back to zero: a forked child reports its own doings only. Plain stores, nothing else.
pub fn reset() {
    let c = &COUNTERS;
    for n in HOST
        .iter()
        .flat_map(|s| s.host.iter().flatten())
        .chain(&OFFLOADED)
        .chain(&LATENCY)
    {
        // A store would make every page of the table resident.
        if n.load(Relaxed) != 0 {
            n.store(0, Relaxed);
        }
    }
    for n in [
        &c.h2d,
        &c.d2h,
        &c.p2p,
        &c.per_call,
        &c.fault_reads,
        &c.fault_writes,
        &c.false_sharing,
        &c.hits,
        &c.remembered,
        &c.misses,
        &c.evictions,
        &c.closes,
        &c.coarse,
        &c.scans,
        &c.scan_dirty,
        &c.scan_kept,
        &c.fallbacks,
        &c.pinned,
        &c.pin_us,
        &c.pin_refused,
    ] {
        n.0.store(0, Relaxed);
    }
    c.degraded.store(0, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_what_they_say() {
        for ns in [0, 1, 4, 5, 7, 8, 1000, 1023, 1024, 123_456, 10_000_000_000] {
            let m = middle(bucket(ns));
            assert!(
                ns < 4 || (m / ns as f64 - 1.0).abs() < 0.2,
                "{ns} in the bucket of {m}"
            );
        }
        assert_eq!(bucket(u64::MAX), LATENCIES - 1);
    }

    #[test]
    fn quantiles() {
        let mut b = vec![0; LATENCIES];
        assert_eq!(quantile(&b, 50), 0.0);
        b[bucket(1_000)] = 98;
        b[bucket(1_000_000)] = 2;
        assert!((quantile(&b, 50) - 1.0).abs() < 0.2);
        assert!((quantile(&b, 99) - 1000.0).abs() < 200.0);
    }

    #[test]
    fn report_names_are_unique() {
        for list in [
            WhyHost::ALL.iter().map(|w| w.name()).collect::<Vec<_>>(),
            Degraded::ALL.iter().map(|w| w.name()).collect(),
        ] {
            for (i, n) in list.iter().enumerate() {
                assert!(!list[..i].contains(n));
            }
        }
    }
}
