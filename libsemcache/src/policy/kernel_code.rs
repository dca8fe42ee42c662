//! Which kinds of kernels' code devices have loaded, and what waiting for it has cost.
//!
//! The first kernel of a kind loads its code. On an H100 that took 0.5 to 4 ms for routines of level 1, and for those of level 2 and 3
//! 0.4 to 79 ms, half of them 5 to 14, where later launches took 0.02 ms. Libraries have several kernels for a routine, which they
//! choose by flags and sizes; a kind is a device, a routine, its flags, an element type, and the magnitude of each size.
//!
//! So a call for which devices are predicted to be faster stays on the host while their code is not loaded, unless it gains more than
//! loading costs. Once calls of a kind have lost a part of that cost, the code is loaded while further calls stay on the host. If these
//! lose all of that cost before it is loaded, the next one runs on the device and waits for it: threads of the host BLAS that spin
//! leave little time to the one that loads (190 ms for dgemm beside 64 of them, where a call on the host took 20).

use core::hash::{BuildHasher as _, BuildHasherDefault};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use rustc_hash::FxHasher;

use crate::base::DeviceId;
use crate::base::dense::DenseKernel;
use crate::base::kernel::Kernel;

/// Places in the table: two kinds that share one count as the same.
const PLACES: usize = 1 << 12;
/// A place of code that a call has used, and that is loaded; other numbers are tenths of microseconds that calls lost, with this bit
/// those that they lost since the code is being loaded.
const USED: u32 = u32::MAX;
const LOADED: u32 = u32::MAX - 1;
const LOADING: u32 = 1 << 31;
const PER_S: f64 = 1e7;

/// Code is loaded once calls have lost this part of what loading it costs: the load takes a core away from the host BLAS.
const PART: f64 = 1.0 / 8.0;
/// What loading costs, in first launches of a kernel of level 1, by the routine's level; the last one: of a dense solver, with its library
/// (0.2 s on an H200).
const FIRST_LAUNCHES: [f64; 4] = [2.0, 20.0, 20.0, 200.0];
/// A first launch counts as at most these seconds: the thread may have been held up.
const LONGEST_S: f64 = 2e-3;

/// The kinds of kernels, by the hash of what tells them apart.
#[derive(Debug)]
pub struct KernelCode {
    table: [AtomicU32; PLACES],
    first_launch_s: f64,
}

/// What a call does for which devices are predicted to be faster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Devices run it: they have the code, or loading it pays for this call alone.
    Run,
    /// The host runs it.
    Stay,
    /// The host runs it, and the code is to be loaded meanwhile. Of several threads one is told so.
    Load,
}

/// A kind of kernel on a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kind {
    place: usize,
    level: usize,
}

impl Kind {
    /// The kind of a kernel.
    #[must_use]
    pub fn of(kernel: &Kernel, device: DeviceId) -> Kind {
        let magnitude = |n: usize| n.max(1).ilog2();
        let hash = BuildHasherDefault::<FxHasher>::default().hash_one((
            kernel.routine,
            kernel.dtype,
            kernel.form,
            (kernel.op_a, kernel.op_b),
            [kernel.m, kernel.n, kernel.k].map(magnitude),
            device,
        ));
        Kind {
            place: (hash >> 52) as usize,
            level: kernel.routine.level().into(),
        }
    }

    /// The kind of a dense solver.
    #[must_use]
    pub fn of_solver(kernel: &DenseKernel, device: DeviceId) -> Kind {
        let hash =
            BuildHasherDefault::<FxHasher>::default().hash_one((kernel.step, kernel.dtype, device));
        Kind {
            place: (hash >> 52) as usize,
            level: 4,
        }
    }
}

impl KernelCode {
    /// No code is loaded. On the devices the first launch of a kernel of level 1 took `first_launch_s` seconds; zero if that is not
    /// known: then no call waits for code.
    #[must_use]
    pub fn new(first_launch_s: f64) -> KernelCode {
        KernelCode {
            table: [const { AtomicU32::new(0) }; PLACES],
            first_launch_s: first_launch_s.min(LONGEST_S),
        }
    }

    /// Notes that a call runs on a device. Returns whether it is the first of its kind: even if code was loaded for it, it may use more.
    pub fn is_first_use(&self, kind: Kind) -> bool {
        let place = &self.table[kind.place];
        place.load(Relaxed) != USED && place.swap(USED, Relaxed) != USED
    }

    /// Notes that a device has loaded the code of a kind, or could not.
    pub fn loaded(&self, kind: Kind) {
        self.table[kind.place].fetch_max(LOADED, Relaxed);
    }

    /// What a call does that devices are predicted to compute `gain_s` seconds faster than the host. Where it is not known what the call
    /// would gain, the code is loaded at once.
    pub fn next(&self, kind: Kind, gain_s: Option<f64>) -> Next {
        let place = &self.table[kind.place];
        let lost = place.load(Relaxed);
        let costs_s = self.first_launch_s * FIRST_LAUNCHES[kind.level.clamp(1, 4) - 1];
        if lost >= LOADED || gain_s.unwrap_or(0.0) >= costs_s {
            return Next::Run;
        }
        let loading = lost & LOADING;
        let more = match gain_s {
            Some(gain_s) => gain_s.max(0.0),
            None if loading == 0 => costs_s,
            None => 0.0,
        };
        let now = f64::from(lost & !LOADING) / PER_S + more;
        let kept = ((now * PER_S) as u32).min(LOADING >> 1);
        let (next, to) = match loading {
            0 if now >= costs_s * PART => (Next::Load, LOADING),
            0 => (Next::Stay, kept),
            _ if now >= costs_s => return Next::Run,
            _ => (Next::Stay, LOADING | kept),
        };
        // Another thread was first: its call counts, and this one stays on the host.
        let changed = place.compare_exchange(lost, to, Relaxed, Relaxed);
        changed.map_or(Next::Stay, |_| next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Dtype, Op, Routine};

    fn gemm(dtype: Dtype, n: usize) -> Kernel {
        Kernel {
            m: n,
            n,
            k: n,
            ..Kernel::of(Routine::Gemm, dtype, [])
        }
    }

    fn on_0(kernel: &Kernel) -> Kind {
        Kind::of(kernel, DeviceId(0))
    }

    #[test]
    fn a_kind_has_one_first_use() {
        let code = KernelCode::new(1e-3);
        let first = |kernel: Kernel| code.is_first_use(on_0(&kernel));
        assert!(first(gemm(Dtype::D, 512)));
        assert!(!first(gemm(Dtype::D, 512)) && !first(gemm(Dtype::D, 600)));
        assert!(first(gemm(Dtype::D, 1024)) && first(gemm(Dtype::S, 512)));
        assert!(first(Kernel {
            op_a: Op::Trans,
            ..gemm(Dtype::D, 512)
        }));
        code.loaded(Kind::of(&gemm(Dtype::D, 512), DeviceId(1)));
        assert!(code.is_first_use(Kind::of(&gemm(Dtype::D, 512), DeviceId(1))));
        assert!(!first(gemm(Dtype::D, 1024)) && !first(gemm(Dtype::S, 512)));
    }

    #[test]
    fn calls_stay_on_the_host_until_they_have_lost_a_part_of_what_loading_costs() {
        // Loading costs 20 ms, of which calls lose 2.5 first.
        let code = KernelCode::new(1e-3);
        let kind = on_0(&gemm(Dtype::D, 512));
        for _ in 0..24 {
            assert_eq!(code.next(kind, Some(1e-4)), Next::Stay);
        }
        assert_eq!(code.next(kind, Some(2e-4)), Next::Load);
        assert_eq!(code.next(kind, Some(1e-4)), Next::Stay);
        assert_eq!(code.next(kind, None), Next::Stay);
        // Calls have lost 19.9 ms while it is loaded; the next one waits for it.
        assert_eq!(code.next(kind, Some(19.8e-3)), Next::Stay);
        assert_eq!(code.next(kind, None), Next::Stay);
        assert_eq!(code.next(kind, Some(2e-4)), Next::Run);
        code.loaded(kind);
        assert_eq!(code.next(kind, Some(1e-6)), Next::Run);
        // A call that gains as much as that runs there at once.
        let other = on_0(&gemm(Dtype::S, 512));
        assert_eq!(code.next(other, Some(21e-3)), Next::Run);
        // One that whose gain is not known does not, but its code is loaded.
        assert_eq!(code.next(other, None), Next::Load);
        // A vector's kernel costs 2 ms.
        let axpy = Kernel {
            m: 1 << 20,
            ..Kernel::of(Routine::Axpy, Dtype::D, [])
        };
        assert_eq!(code.next(on_0(&axpy), Some(2e-4)), Next::Stay);
        assert_eq!(code.next(on_0(&axpy), Some(1e-4)), Next::Load);
    }

    #[test]
    fn where_the_first_launch_is_not_known_no_call_waits() {
        let code = KernelCode::new(0.0);
        let kind = on_0(&gemm(Dtype::D, 512));
        assert_eq!(code.next(kind, Some(1e-6)), Next::Run);
        assert_eq!(code.next(kind, None), Next::Run);
    }

    #[test]
    fn a_first_launch_that_was_held_up_does_not_keep_calls_away() {
        let code = KernelCode::new(1.0);
        assert_eq!(code.next(on_0(&gemm(Dtype::D, 8)), Some(0.05)), Next::Run);
    }
}
