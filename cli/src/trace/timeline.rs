//! A chart of operations that are predicted and not measured, by the code that draws traces.

use semcache::base::DeviceId;
use semcache::model::timeline::{Did, Operation};
use semcache::trace::OpId;

use super::gantt::{self, Choice};
use super::model::{Device, KERNELS, Op, PEERS, Trace, What};

/// The lanes of copies from and to the host.
const UPLOADS: usize = 0;
const DOWNLOADS: usize = 1;

/// A predicted timeline as a trace.
#[derive(Debug)]
pub(crate) struct Drawn(Trace);

impl Drawn {
    /// The trace of the operations of a call. `devices` are the number and the name of each, in the order in which the
    /// operations count them; `kernel` is the name of a task's kernel.
    pub(crate) fn new<'a>(
        title: &str,
        devices: &[(DeviceId, &str)],
        operations: &[Operation],
        kernel: impl Fn(usize) -> &'a str,
    ) -> Drawn {
        let mut trace = Trace::default();
        title.clone_into(&mut trace.program);
        trace.predicted = true;
        trace.devices = devices
            .iter()
            .map(|(id, name)| Device {
                id: id.0,
                name: (*name).to_owned(),
                ..Device::default()
            })
            .collect();
        let ns = |seconds: f64| (seconds * 1e9).round() as u64;
        for operation in operations {
            let (lane, what, name) = match operation.did {
                Did::Upload => (UPLOADS, What::Upload, ""),
                Did::WriteBack => (DOWNLOADS, What::Download, ""),
                Did::Kernel(task) => (KERNELS, What::Kernel, kernel(task)),
                Did::Peer(from) => {
                    let from = devices.get(from).map_or(0, |(id, _)| id.0);
                    (PEERS, What::Peer(from), "")
                }
            };
            let op = Op {
                from: ns(operation.start),
                to: ns(operation.end),
                queued: 0,
                queueing: 0,
                seq: 0,
                amount: operation.bytes.round() as u64,
                cause: 0,
                name: trace.names.add(name),
                what,
                after: [OpId::default(); 3],
            };
            if let Some(device) = trace.devices.get_mut(operation.device) {
                device.lanes[lane].ops.push(op);
            }
        }
        trace.sort();
        trace.from = 0;
        Drawn(trace)
    }

    /// The chart as the bytes of a PNG file.
    pub(crate) fn picture(&self) -> Result<Vec<u8>, String> {
        gantt::png(&self.0, Choice::All)
    }
}

/// The chart as text, as wide as the terminal.
pub(crate) fn chart(drawn: &Drawn) -> Result<String, String> {
    gantt::page(&drawn.0, Choice::All)
}
