//! Loads the code of kernels on a thread of its own, while the calls that would use it stay on the host
//! ([`crate::policy::kernel_code`]).

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use log::debug;

use crate::base::kernel::Kernel;
use crate::base::{DeviceId, DeviceSet};
use crate::device::api::Backend;
use crate::plan::{Plan, Problem};
use crate::policy::kernel_code::{KernelCode, Kind, Next};
use crate::process::background::Busy;
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
    loads: VecDeque<Load>,
    /// Whether there is a thread that does them.
    running: bool,
}

/// What a call that is predicted to run on devices needs there.
#[derive(Debug)]
struct Load {
    /// The kind of the whole call on each device.
    kinds: Vec<Kind>,
    /// The kernels of its tasks.
    kernels: Vec<(Kernel, DeviceId)>,
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
            self.code.is_first_use(Kind::of(&kernel, device)) | first
        })
    }

    /// Whether a call stays on the host because devices that are predicted to be `gain_s` seconds faster have not loaded the code of
    /// its kernels; without a prediction as in [`KernelCode::next`]. A thread may begin to load that of the kernels of its `plan`.
    pub(super) fn awaited(
        self: &Arc<Self>,
        backend: &'static dyn Backend,
        problem: &Problem,
        devices: &DeviceSet,
        gain_s: Option<f64>,
        plan: impl FnOnce() -> Option<Plan>,
    ) -> bool {
        let kernel = problem.kernel();
        let (mut awaited, mut kinds) = (false, Vec::new());
        for kind in devices.ids().map(|device| Kind::of(&kernel, device)) {
            let next = self.code.next(kind, gain_s);
            awaited |= next != Next::Run;
            if next == Next::Load {
                kinds.push(kind);
            }
        }
        if !kinds.is_empty() {
            let kernels = plan().map_or_else(Vec::new, |plan| kernels(&plan));
            self.load(backend, Load { kinds, kernels });
        }
        awaited
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn load(self: &Arc<Self>, backend: &'static dyn Backend, load: Load) {
        let mut waiting = self.waiting();
        waiting.loads.push_back(load);
        if waiting.running || ending::ending() {
            return;
        }
        let all = Arc::clone(self);
        let begun = threads::spawn("semcache-load", STACK, move || all.load_all(backend));
        waiting.running = begun.is_ok();
        if begun.is_err() {
            waiting.loads.drain(..).for_each(|load| self.done(&load));
        }
    }

    /// What was loaded can be used. What could not be loaded is, by the first call that runs there.
    fn done(&self, load: &Load) {
        load.kinds.iter().for_each(|kind| self.code.loaded(*kind));
    }

    /// The body of the thread, which ends when nothing is left to load.
    fn load_all(&self, backend: &dyn Backend) {
        /// What is being loaded; dropped also by a panic.
        struct InHand<'a>(&'a KernelLoads, Load);
        impl Drop for InHand<'_> {
            fn drop(&mut self) {
                let InHand(all, load) = self;
                all.done(load);
                if std::thread::panicking() {
                    all.waiting().running = false;
                    all.idle.notify_all();
                }
            }
        }
        let _busy = Busy::new();
        while let Some(load) = self.first() {
            let in_hand = InHand(self, load);
            let kernels = in_hand.1.kernels.iter();
            for (kernel, device) in kernels.filter(|_| !ending::ending()) {
                let begun = Instant::now();
                let loaded = backend.load(*device, kernel);
                debug!(
                    "code of {} {} x {} x {} on device {} in {:?}: {loaded:?}",
                    kernel.routine.name(kernel.dtype),
                    kernel.m,
                    kernel.n,
                    kernel.k,
                    device.0,
                    begun.elapsed()
                );
            }
        }
    }

    /// What is to be loaded next. If nothing is, the thread counts as ended: what is asked for from now on needs another one.
    fn first(&self) -> Option<Load> {
        let mut waiting = self.waiting();
        let next = waiting.loads.pop_front().filter(|_| !ending::ending());
        waiting.running = next.is_some();
        if next.is_none() {
            self.idle.notify_all();
        }
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

/// The kernels of a plan, one of each kind on each device.
fn kernels(plan: &Plan) -> Vec<(Kernel, DeviceId)> {
    let mut kinds = Vec::new();
    let mut kernels = Vec::new();
    for task in &plan.tasks {
        let kind = Kind::of(&task.kernel, task.device);
        if !kinds.contains(&kind) {
            kinds.push(kind);
            kernels.push((task.kernel, task.device));
        }
    }
    kernels
}
