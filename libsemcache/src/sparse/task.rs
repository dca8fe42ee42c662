//! The kernel of a part of a product, and the bytes that it uses.

#![expect(
    unsafe_code,
    reason = "launches kernels on replicas of arrays that were checked"
)]

use core::ops::Range;

use super::pattern::Pattern;
use crate::base::DeviceId;
use crate::base::sparse::CsrKernel;
use crate::cache::room::Room;
use crate::cache::task::Use;
use crate::cache::{Cache, CacheError};
use crate::device::api::Operand;

/// Replicas of what a task uses, gaps between columns included.
pub(super) const ROOM: Room<'static> = Room::Whole { flat: true };

/// The operands of a product.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Slot {
    Offsets,
    Columns,
    Values,
    X,
    Y,
    Scratch,
}

/// One kernel.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) device: DeviceId,
    /// The rows of the matrix.
    pub(super) rows: Range<usize>,
    /// What the operands are.
    pub(super) slots: Vec<Slot>,
    pub(super) uses: Vec<Use>,
    /// The operands that are memory of the library.
    pub(super) own_slots: Vec<Slot>,
    /// The leading dimension of Y in memory of the library; none in the program's, which may lie otherwise on a device.
    pub(super) own_ld: Option<usize>,
    /// Without the addresses of its operands.
    pub(super) kernel: CsrKernel,
}

impl Task {
    /// Queues it. After an error no kernel was launched, and nothing has changed.
    ///
    /// # Errors
    /// Refused, lost, no room, or a freed operand. [`CacheError::Gone`]: row offsets or column indices have changed.
    pub(super) fn queue(&self, cache: &Cache, pattern: &Pattern) -> Result<(), CacheError> {
        let mut kernel = self.kernel;
        cache.queue_with(self.device, &self.uses, ROOM, |backend, after, at| {
            // Offsets and columns have not changed since they were checked, and cannot be while the cache's lock is held.
            if !pattern.is_watched() {
                return Err(CacheError::Gone);
            }
            for (slot, at) in self.slots.iter().zip(at) {
                match slot {
                    Slot::Offsets => kernel.offsets = at.addr,
                    Slot::Columns => kernel.columns = at.addr,
                    Slot::Values => kernel.values = at.addr,
                    Slot::X => kernel.x = *at,
                    Slot::Y => {
                        kernel.y = self.own_ld.map_or(*at, |ld| Operand::matrix(at.addr, ld))
                    }
                    Slot::Scratch => kernel.scratch = at.addr,
                }
            }
            // SAFETY: all operands lie in replicas of this device and are recorded in their operations; offsets and columns lie within
            // the matrix (`Product::link`), and what devices hold of them are those bytes.
            Ok(unsafe { backend.multiply_csr(self.device, after, &kernel) }?)
        })?;
        Ok(())
    }

    /// The operands that are memory of the program.
    pub(super) fn of_program(&self) -> impl Iterator<Item = &Use> {
        let all = self.slots.iter().zip(&self.uses);
        all.filter(|(slot, _)| !self.own_slots.contains(slot))
            .map(|(_, used)| used)
    }
}
