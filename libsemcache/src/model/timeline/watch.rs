//! What the timeline tells an observer: every copy and kernel with its times.

/// What an operation of a device does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Did {
    /// Copies from the host to the device.
    Upload,
    /// Copies from the device with this index to the device.
    Peer(usize),
    /// Runs the kernel of the task with this index.
    Kernel(usize),
    /// Copies from the device to the host.
    WriteBack,
}

/// An operation of a device.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Operation {
    /// Index into the list of devices.
    pub device: usize,
    /// What it does.
    pub did: Did,
    /// Bytes that a copy moves; 0 for a kernel.
    pub bytes: f64,
    /// When it begins, in seconds.
    pub start: f64,
    /// When it ends, in seconds.
    pub end: f64,
}

/// Is told every operation of a timeline, in the order in which they are queued.
pub trait Watch {
    /// An operation that will run.
    fn runs(&mut self, operation: Operation);
}

/// Nobody watches: the call compiles to nothing.
impl Watch for () {
    #[inline(always)]
    fn runs(&mut self, _: Operation) {}
}

impl Watch for Vec<Operation> {
    fn runs(&mut self, operation: Operation) {
        self.push(operation);
    }
}
