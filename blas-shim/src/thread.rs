//! The shim's thread-local state.
//!
//! The state is a thread-local variable of the initial-exec model, which two instructions reach: `thread_local!` in a
//! shared object calls `__tls_get_addr`, which costs more than the rest of a small call, and may allocate. The state is
//! all zero at first and has no destructor: it can be used before main and after the thread's other thread-local
//! variables are destroyed.

#![expect(
    unsafe_code,
    reason = "stable Rust cannot choose the model of a thread-local variable"
)]

use core::arch::{asm, global_asm};
use core::cell::Cell;

use semcache::base::counters::Passed;

global_asm!(
    ".pushsection .tbss.semcache_blas_thread, \"awT\", @nobits",
    ".balign 8",
    ".globl semcache_blas_thread",
    ".hidden semcache_blas_thread",
    ".type semcache_blas_thread, @object",
    ".size semcache_blas_thread, 64",
    "semcache_blas_thread:",
    ".zero 64",
    ".popsection",
);

/// The state of one thread.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct State {
    /// Stack pointer at the entry of the last call that was forwarded to the host BLAS.
    pub(crate) forwarded_sp: Cell<usize>,
    /// Return address of that call. The call is still running as long as the stack holds this address there.
    pub(crate) forwarded_site: Cell<usize>,
    /// The thread's counters; null before the first count.
    pub(crate) slot: Cell<*const Passed>,
    /// Not zero while this thread probes a library's calling conventions.
    pub(crate) probing: Cell<usize>,
    /// As `forwarded_sp` and `forwarded_site`, of the last driver of LAPACK that the settings left to the host.
    solver_sp: Cell<usize>,
    solver_site: Cell<usize>,
    /// How many operators of the program this thread runs for reductions of MPI, one within the other.
    pub(crate) operators: Cell<usize>,
    /// Where on the stack the last hook of MPI's that has not returned began; 0 if there is none.
    pub(crate) mpi_sp: Cell<usize>,
}

const _: () = assert!(size_of::<State>() <= 64 && align_of::<State>() <= 8);

/// The largest distance on the stack from a running forwarded call down to a call that the host BLAS makes itself. BLAS
/// wrappers call their kernels a few hundred bytes further down; the limit keeps the check from reading a stack that is
/// unmapped.
const REACH: usize = 64 << 10;

/// The calling thread's state.
#[inline(always)]
pub(crate) fn state() -> &'static State {
    let address: *const State;
    // SAFETY: reads the thread pointer and a constant offset; the block is zeroed, aligned and 64 bytes, a
    // valid `State`, and lives as long as the thread that can use the reference (`State` is not `Sync`).
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + semcache_blas_thread@GOTTPOFF]",
            "add {0}, qword ptr fs:[0]",
            out(reg) address,
            options(nostack, readonly, pure),
        );
        &*address
    }
}

impl State {
    /// Stores the stack pointer and the return address of a call that is about to be forwarded to the host BLAS.
    #[inline]
    pub(crate) fn forwarded(&self, sp: usize, site: usize) {
        self.forwarded_sp.set(sp);
        self.forwarded_site.set(site);
    }

    /// Whether the last forwarded call is still running and the call with stack pointer `sp` was made from within it.
    /// The question makes sense only for callers that are BLAS libraries.
    pub(crate) fn inside_forwarded(&self, sp: usize) -> bool {
        runs(self.forwarded_sp.get(), self.forwarded_site.get(), sp)
    }

    /// Whether MPI runs on this thread, and the function whose frame `here` lies in was called by it.
    pub(crate) fn inside_mpi(&self, here: usize) -> bool {
        here < self.mpi_sp.get()
    }

    /// Stores those of a driver of LAPACK that the settings leave to the host.
    pub(crate) fn leaves_solver(&self, sp: usize, site: usize) {
        self.solver_sp.set(sp);
        self.solver_site.set(site);
    }

    /// Whether that driver is still running, and the call with stack pointer `sp` was made from within it, by LAPACK itself. If another
    /// function of the program has the same return address at the same place by chance, its call runs on the host, uncounted.
    pub(crate) fn inside_solver(&self, sp: usize) -> bool {
        runs(self.solver_sp.get(), self.solver_site.get(), sp)
    }
}

/// Whether the stack still holds the return address of a call where it was, above a call with the stack pointer `sp`.
fn runs(outer: usize, site: usize, sp: usize) -> bool {
    if outer <= sp || outer - sp > REACH {
        return false;
    }
    // SAFETY: `outer` is an aligned stack address of this thread at most 64 KiB above the frame that runs now, on the same stack: BLAS
    // libraries do not switch stacks between entry and kernel.
    let word = unsafe { (outer as *const usize).read_volatile() };
    word == site
}
