//! What a program orders for matrices in a block, beyond single requests (`semcache.h`): which device owns which
//! part, and which copies are evicted last. Orders end with their block, and where a later one takes their place.

use std::sync::Arc;

use crate::base::distribution::{Distributed, Distribution};
use crate::base::{DeviceId, Rect};

/// A matrix in a block: where it begins, the bytes from column to column, and the bytes of an element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Offset of the first element.
    pub start: usize,
    /// Bytes between two columns.
    pub stride: usize,
    /// Bytes of an element.
    pub element: usize,
}

impl Layout {
    fn rect(&self, (rows, cols): (usize, usize)) -> Option<Rect> {
        Rect::try_new(self.start, rows * self.element, self.stride, cols)
    }

    /// Row and column at which a matrix of the same layout begins that lies in this one.
    fn position(&self, part: &Layout) -> Option<(usize, usize)> {
        let alike = part.stride == self.stride && part.element == self.element;
        let beyond = part.start.checked_sub(self.start).filter(|_| alike)?;
        let (col, row) = (beyond / self.stride, beyond % self.stride);
        let whole = row.is_multiple_of(self.element);
        whole.then_some((row / self.element, col))
    }
}

/// The orders for one block.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    distributed: Vec<(Layout, Arc<Distribution>)>,
    /// Rectangles whose copies on a device, or on any, are evicted last.
    kept: Vec<(Rect, Option<DeviceId>)>,
}

/// The most orders of a kind for one block: the oldest give way.
const MOST: usize = 256;

fn add<T>(all: &mut Vec<T>, one: T) {
    if all.len() >= MOST {
        all.remove(0);
    }
    all.push(one);
}

impl Orders {
    /// Whether a replica of these bytes on this device is evicted last.
    pub(super) fn keep(&self, device: DeviceId, rect: &Rect) -> bool {
        let mut kept = self.kept.iter();
        kept.any(|(of, on)| on.is_none_or(|on| on == device) && of.overlaps(rect))
    }

    /// Evicts replicas of a rectangle last from now on, or no longer.
    pub(super) fn set_keep(&mut self, rect: &Rect, device: Option<DeviceId>, keep: bool) {
        match keep {
            true if self.kept.contains(&(*rect, device)) => {}
            true => add(&mut self.kept, (*rect, device)),
            false => self.kept.retain(|(of, _)| !of.overlaps(rect)),
        }
    }

    /// Gives a matrix a distribution, or none, in place of those of all matrices that it overlaps.
    pub(super) fn distribute(
        &mut self,
        layout: Layout,
        (extents, of): ((usize, usize), Option<Arc<Distribution>>),
    ) {
        let Some(rect) = layout.rect(extents) else {
            return;
        };
        self.distributed.retain(|(other, known)| {
            let known = other.rect(known.extents());
            !known.is_some_and(|known| known.overlaps(&rect))
        });
        if let Some(of) = of {
            add(&mut self.distributed, (layout, of));
        }
    }

    /// The distribution of a matrix that lies in one with a distribution.
    pub(super) fn distributed(
        &self,
        layout: &Layout,
        (rows, cols): (usize, usize),
    ) -> Option<Distributed> {
        self.distributed.iter().find_map(|(whole, of)| {
            let (row, col) = whole.position(layout)?;
            let (all_rows, all_cols) = of.extents();
            let inside = row + rows <= all_rows && col + cols <= all_cols;
            let of = Arc::clone(of);
            inside.then_some(Distributed { of, row, col })
        })
    }
}
