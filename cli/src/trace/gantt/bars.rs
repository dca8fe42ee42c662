//! What a row of a Gantt chart shows in each of its columns: how much of the column's time was spent on what.

use super::window::Window;
use crate::trace::model::{Did, What};

/// What a row shows, each in a colour or a character of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Upload,
    Download,
    Peer,
    Within,
    Kernel,
    Wait,
    Pin,
    Start,
    Fault,
    Call,
    Other,
}

impl Kind {
    /// All kinds. Of a thread's slices, the ones that lie inside others come first.
    pub(crate) const ALL: [Kind; 11] = [
        Kind::Upload,
        Kind::Download,
        Kind::Peer,
        Kind::Within,
        Kind::Kernel,
        Kind::Wait,
        Kind::Pin,
        Kind::Start,
        Kind::Fault,
        Kind::Call,
        Kind::Other,
    ];

    /// The kind of an operation of a device.
    pub(crate) fn of_op(what: What) -> Kind {
        match what {
            What::Upload => Kind::Upload,
            What::Download => Kind::Download,
            What::Peer(_) => Kind::Peer,
            What::Within => Kind::Within,
            What::Kernel => Kind::Kernel,
        }
    }

    /// The kind of a slice of a thread.
    pub(crate) fn of_slice(did: Did) -> Kind {
        match did {
            Did::Call(..) => Kind::Call,
            Did::Wait(_) => Kind::Wait,
            Did::Fault | Did::Faulted => Kind::Fault,
            Did::Pin(_) | Did::Unpin(_) => Kind::Pin,
            Did::Start => Kind::Start,
            Did::Other => Kind::Other,
        }
    }

    /// The kind's short name and what it means.
    pub(crate) fn name(self) -> (&'static str, &'static str) {
        match self {
            Kind::Upload => ("upload", "copy from host memory to the device"),
            Kind::Download => ("download", "copy from the device to host memory"),
            Kind::Peer => ("peer", "copy from another device"),
            Kind::Within => ("within", "copy within the device"),
            Kind::Kernel => ("kernel", "a kernel of a BLAS routine runs"),
            Kind::Wait => ("wait", "the thread waits for a device"),
            Kind::Pin => ("page lock", "memory is page-locked or unlocked"),
            Kind::Start => ("start", "the devices are brought up"),
            Kind::Fault => ("fault", "a page fault is served"),
            Kind::Call => ("call", "the thread is in a BLAS call"),
            Kind::Other => ("other", "something else that the trace names"),
        }
    }
}

/// How many kinds there are, each once for what was asked for and once for the rest.
const LAYERS: usize = 2 * Kind::ALL.len();

/// How much of each column one kind takes. A slice costs the same whether it covers one column or all: the columns that it
/// covers in full are counted by a difference at its first and its last.
#[derive(Clone, Default, Debug)]
struct Layer {
    /// The time in columns that slices cover in part.
    parts: Vec<u64>,
    /// By how much the number of slices that cover a column in full differs from the column before.
    steps: Vec<i64>,
}

/// A part of a column: its kind, whether it belongs to what was asked for, and its share of the column's time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Part {
    pub(crate) kind: Kind,
    pub(crate) strong: bool,
    pub(crate) share: f64,
}

/// The bars of one row.
#[derive(Debug)]
pub(crate) struct Bars {
    window: Window,
    columns: usize,
    /// By kind; what belongs to the call comes before the rest. A kind that the row does not have is empty.
    layers: [Layer; LAYERS],
}

impl Bars {
    /// A row without bars.
    pub(crate) fn new(window: Window, columns: usize) -> Bars {
        Bars {
            window,
            columns: columns.max(1),
            layers: Default::default(),
        }
    }

    /// Adds a slice of time, if it lies in the window; says whether it does.
    pub(crate) fn add(&mut self, kind: Kind, strong: bool, from: u64, to: u64) -> bool {
        let to = to.max(from);
        if !self.window.meets(from, to) {
            return false;
        }
        let layer = &mut self.layers[2 * (kind as usize) + usize::from(!strong)];
        if layer.parts.is_empty() {
            layer.parts = vec![0; self.columns];
            layer.steps = vec![0; self.columns + 1];
        }
        // In units of which a column has as many as the window has nanoseconds, so that nothing is rounded.
        let column = u128::from(self.window.length());
        let end = column * self.columns as u128;
        let begin = u128::from(from.saturating_sub(self.window.from)) * self.columns as u128;
        let begin = begin.min(end - 1);
        let stop = u128::from(to.saturating_sub(self.window.from)) * self.columns as u128;
        let stop = stop.clamp(begin + 1, end);
        let (first, last) = (begin / column, stop / column);
        let mut part = |at: u128, time: u128| {
            if let Some(sum) = layer.parts.get_mut(at as usize) {
                *sum = sum.saturating_add(time as u64);
            }
        };
        if first == last {
            part(first, stop - begin);
            return true;
        }
        part(first, (first + 1) * column - begin);
        part(last, stop - last * column);
        layer.steps[first as usize + 1] += 1;
        layer.steps[last as usize] -= 1;
        true
    }

    /// The parts of each column, in the order of [`Kind::ALL`], what belongs to the call first. Their shares are at most 1
    /// together: of slices inside others, the inner ones count.
    pub(crate) fn columns(&self) -> Vec<Vec<Part>> {
        let length = self.window.length() as f64;
        let mut all = vec![Vec::new(); self.columns];
        let mut left = vec![1.0_f64; self.columns];
        for (place, layer) in self.layers.iter().enumerate() {
            let (mut open, kind, strong) = (0, Kind::ALL[place / 2], place % 2 == 0);
            for (at, (part, step)) in layer.parts.iter().zip(&layer.steps).enumerate() {
                open += step;
                if open <= 0 && *part == 0 {
                    continue;
                }
                let full = if open > 0 { 1.0 } else { 0.0 };
                let share = (*part as f64 / length + full).min(left[at]);
                if share > 0.0 {
                    left[at] -= share;
                    all[at].push(Part {
                        kind,
                        strong,
                        share,
                    });
                }
            }
        }
        all
    }
}
