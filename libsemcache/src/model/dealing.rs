//! Which task of a call is queued next, on which device, while the call is issued step by step.
//!
//! Pure: the caller says what time it is and which tasks are complete. The library's own rule is [`super::window`]; those of other
//! libraries, to compare with, are [`super::stations`].

/// The tasks of a call that stay on one device, in order.
#[derive(Clone, PartialEq, Debug)]
pub struct Chain {
    /// The index of the device for which they are planned.
    pub device: usize,
    /// The tasks: for each its index in the plan, and its seconds on a device of speed 1.
    pub tasks: Vec<(usize, f64)>,
}

impl Chain {
    /// The seconds of all its tasks.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.tasks.iter().map(|task| task.1).sum()
    }
}

/// What the caller does next.
#[derive(Clone, PartialEq, Debug)]
pub enum Next {
    /// This chain, of which no task is queued, is now on the device that it names: change the plan, and ask again.
    Give(Chain),
    /// Queue this task on this device.
    Task {
        /// Index of the device.
        device: usize,
        /// Index of the task in the plan.
        task: usize,
    },
    /// Every device with work left has as many tasks queued as it may: wait for the oldest task of this device, or of any other.
    Wait {
        /// Index of the device.
        device: usize,
    },
    /// All tasks are queued.
    Done,
}

/// Deals the chains of one call to devices.
pub trait Dealing: Send + core::fmt::Debug {
    /// What to do next.
    fn next(&mut self, now: f64) -> Next;

    /// The oldest queued task of a device is complete. Returns the chains that are dealt again because of that: the device that
    /// each has now, and its tasks.
    fn completed(&mut self, device: usize, now: f64) -> Vec<Chain>;

    /// The caller is about to do something else: it will notice late that the tasks in flight are complete.
    fn forget_time(&mut self);

    /// Tasks that have another device than planned, each time counted.
    fn moved(&self) -> u64;

    /// By which share the devices' measured paces over the whole call lie apart; zero if fewer than two are known.
    fn spread(&self) -> f64;

    /// The tasks that are not queued, in an order in which they may be computed.
    fn rest(&self) -> Vec<usize>;
}
