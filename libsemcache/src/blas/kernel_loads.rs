//! Loads the code of kernels on a thread of its own, while the calls that would use it stay on the host
//! ([`crate::policy::kernel_code`]).

use std::sync::Arc;
use std::time::{Duration, Instant};

use log::debug;

use crate::base::dense::DenseKernel;
use crate::base::kernel::Kernel;
use crate::base::{DeviceId, DeviceSet};
use crate::device::api::{Backend, DeviceError};
use crate::plan::{Plan, Problem};
use crate::policy::kernel_code::{KernelCode, Kind, Next};
use crate::process::background::Busy;
use crate::process::ending;
use crate::process::queue::{End, Queue, Work};

/// The kernels whose code is loaded, and those whose code is still to be.
#[derive(Debug)]
pub(super) struct KernelLoads {
    code: Arc<KernelCode>,
    loads: Arc<Queue<Load>>,
}

/// What a call that is predicted to run on devices needs there.
struct Load {
    backend: &'static dyn Backend,
    code: Arc<KernelCode>,
    /// The kind of the whole call on each device.
    kinds: Vec<Kind>,
    /// The kernels of its tasks.
    kernels: Vec<(Code, DeviceId)>,
}

/// A kernel whose code is to be loaded.
#[derive(Debug)]
enum Code {
    Blas(Kernel),
    Solver(DenseKernel),
}

impl Code {
    fn load(&self, backend: &dyn Backend, device: DeviceId) -> Result<(), DeviceError> {
        match self {
            Code::Blas(kernel) => backend.load(device, kernel),
            Code::Solver(kernel) => backend.load_solver(device, kernel),
        }
    }
}

impl Work for Load {
    fn run(&mut self) {
        let _busy = Busy::new();
        for (kernel, device) in self.kernels.iter().filter(|_| !ending::ending()) {
            let begun = Instant::now();
            let loaded = kernel.load(self.backend, *device);
            debug!(
                "code on device {} in {:?}: {loaded:?}: {kernel:?}",
                device.0,
                begun.elapsed()
            );
        }
    }

    /// What was loaded can be used. What could not be loaded is, by the first call that runs there.
    fn ended(&mut self, _end: End) {
        self.kinds.iter().for_each(|kind| self.code.loaded(*kind));
    }
}

impl KernelLoads {
    /// No code is loaded; `first_launch_s` as in [`KernelCode::new`].
    pub(super) fn new(first_launch_s: f64) -> KernelLoads {
        KernelLoads {
            code: Arc::new(KernelCode::new(first_launch_s)),
            loads: Queue::new("semcache-load", usize::MAX),
        }
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
        &self,
        backend: &'static dyn Backend,
        problem: &Problem,
        devices: &DeviceSet,
        gain_s: Option<f64>,
        plan: impl FnOnce() -> Option<Plan>,
    ) -> bool {
        let kernel = problem.kernel();
        let kinds = devices.ids().map(|device| Kind::of(&kernel, device));
        let (awaited, kinds) = self.next(kinds, gain_s);
        if !kinds.is_empty() {
            let kernels = plan().map_or_else(Vec::new, |plan| kernels(&plan));
            self.load(backend, kinds, kernels);
        }
        awaited
    }

    /// The same for a dense system, whose kernels run on one device.
    pub(super) fn solver_awaited(
        &self,
        backend: &'static dyn Backend,
        kernels: &[DenseKernel],
        device: DeviceId,
        gain_s: f64,
    ) -> bool {
        let kinds = kernels.iter().map(|kernel| Kind::of_solver(kernel, device));
        let (awaited, kinds) = self.next(kinds, Some(gain_s));
        if !kinds.is_empty() {
            let all = kernels.iter().map(|kernel| (Code::Solver(*kernel), device));
            self.load(backend, kinds, all.collect());
        }
        awaited
    }

    /// Whether a call stays on the host because of one of these kinds, and those whose code is to be loaded.
    fn next(&self, kinds: impl Iterator<Item = Kind>, gain_s: Option<f64>) -> (bool, Vec<Kind>) {
        let (mut awaited, mut load) = (false, Vec::new());
        for kind in kinds {
            let next = self.code.next(kind, gain_s);
            awaited |= next != Next::Run;
            if next == Next::Load {
                load.push(kind);
            }
        }
        (awaited, load)
    }

    fn load(
        &self,
        backend: &'static dyn Backend,
        kinds: Vec<Kind>,
        kernels: Vec<(Code, DeviceId)>,
    ) {
        let load = Load {
            backend,
            code: Arc::clone(&self.code),
            kinds,
            kernels,
        };
        if let Err(mut load) = self.loads.add(load) {
            load.ended(End::Refused);
        }
    }

    /// At the end of the process, or of its use of devices: waits until the thread is not in the middle of something; it begins
    /// nothing more.
    pub(super) fn stop(&self, patience: Duration) {
        self.loads.stop(patience);
    }
}

/// The kernels of a plan, one of each kind on each device.
fn kernels(plan: &Plan) -> Vec<(Code, DeviceId)> {
    let mut kinds = Vec::new();
    let mut kernels = Vec::new();
    for task in &plan.tasks {
        let kind = Kind::of(&task.kernel, task.device);
        if !kinds.contains(&kind) {
            kinds.push(kind);
            kernels.push((Code::Blas(task.kernel), task.device));
        }
    }
    kernels
}
