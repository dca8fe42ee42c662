//! Loads the code of kernels on a thread of its own, while the calls that would use it stay on the host
//! ([`crate::policy::kernel_code`]).

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use log::debug;

use crate::base::kernel::Kernel;
use crate::base::{DeviceId, DeviceSet};
use crate::device::api::Backend;
use crate::plan::Problem;
use crate::policy::kernel_code::{KernelCode, Kind, Next};
use crate::process::{ending, threads};

/// Stack of the thread: enough for cuBLAS. Address space only; untouched pages cost no memory.
const STACK: usize = 8 << 20;

/// The kernels whose code is loaded, and those whose code is still to be.
#[derive(Debug)]
pub(super) struct KernelLoads {
    code: KernelCode,
    waiting: Mutex<Waiting>,
    idle: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    kernels: VecDeque<(Kernel, DeviceId)>,
    /// Whether there is a thread that loads them.
    running: bool,
}

impl KernelLoads {
    /// No code is loaded; `first_launch_s` as in [`KernelCode::new`].
    pub(super) fn new(first_launch_s: f64) -> Arc<KernelLoads> {
        Arc::new(KernelLoads {
            code: KernelCode::new(first_launch_s),
            waiting: Mutex::default(),
            idle: Condvar::new(),
        })
    }

    /// Notes that devices run a call. Returns whether some device has not run one of this kind, as far as is known.
    pub(super) fn is_first_run(&self, problem: &Problem, devices: &DeviceSet) -> bool {
        let kernel = problem.kernel();
        devices.ids().fold(false, |first, device| {
            self.code.loaded(Kind::of(&kernel, device)) | first
        })
    }

    /// Whether a call stays on the host because devices that are predicted to be `gain_s` seconds faster have not loaded the code of
    /// its kernel; without a prediction as in [`KernelCode::next`]. A thread may begin to load it.
    pub(super) fn awaited(
        self: &Arc<Self>,
        backend: &'static dyn Backend,
        problem: &Problem,
        devices: &DeviceSet,
        gain_s: Option<f64>,
    ) -> bool {
        let kernel = problem.kernel();
        let mut awaited = false;
        for device in devices.ids() {
            match self.code.next(Kind::of(&kernel, device), gain_s) {
                Next::Run => {}
                Next::Stay => awaited = true,
                Next::Load => {
                    awaited = true;
                    self.load(backend, kernel, device);
                }
            }
        }
        awaited
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn load(self: &Arc<Self>, backend: &'static dyn Backend, kernel: Kernel, device: DeviceId) {
        let mut waiting = self.waiting();
        waiting.kernels.push_back((kernel, device));
        if waiting.running || ending::ending() {
            return;
        }
        let all = Arc::clone(self);
        let begun = threads::spawn("semcache-load", STACK, move || all.load_all(backend));
        waiting.running = begun.is_ok();
        if begun.is_err() {
            // The first call that runs there loads it.
            for (kernel, device) in waiting.kernels.drain(..) {
                self.code.loaded(Kind::of(&kernel, device));
            }
        }
    }

    /// The body of the thread, which ends when nothing is left to load.
    fn load_all(&self, backend: &dyn Backend) {
        /// The thread has ended, also by a panic.
        struct Ended<'a>(&'a KernelLoads);
        impl Drop for Ended<'_> {
            fn drop(&mut self) {
                self.0.waiting().running = false;
                self.0.idle.notify_all();
            }
        }
        let _ended = Ended(self);
        while let Some((kernel, device)) = self.first() {
            let loaded = backend.load(device, &kernel);
            let name = kernel.routine.name(kernel.dtype);
            debug!("code of {name} on device {}: {loaded:?}", device.0);
            // If that was refused, the first call that runs there loads it.
            self.code.loaded(Kind::of(&kernel, device));
        }
    }

    /// The next kernel to load. If there is none, the thread counts as ended: what is asked for from now on needs another one.
    fn first(&self) -> Option<(Kernel, DeviceId)> {
        let mut waiting = self.waiting();
        let next = waiting.kernels.pop_front().filter(|_| !ending::ending());
        waiting.running = next.is_some();
        next
    }

    /// At the end of the process, or of its use of devices: waits until the thread is not in the middle of something; it begins
    /// nothing more.
    pub(super) fn stop(&self, patience: Duration) {
        let running = |waiting: &mut Waiting| waiting.running;
        let waited = self
            .idle
            .wait_timeout_while(self.waiting(), patience, running);
        drop(waited);
    }
}
