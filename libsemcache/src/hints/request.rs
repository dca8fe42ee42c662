//! Requests on one matrix, on the thread that carries them out.

use super::Status;
use super::view::View;
use crate::base::{DeviceId, Intent, Rect};
use crate::cache::Cache;
use crate::cache::task::Use;
use crate::host::{self, Block, Observer as _};
use crate::process::ending;
use crate::transfer::Deps;

/// A matrix in a block of host memory.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    view: View,
    block: Block,
}

/// Bytes of a matrix that are page-locked and sent at a time: copies begin while further pieces are page-locked.
const PIECE: usize = 64 << 20;

impl Target {
    /// The matrix, on a thread of the program: a block that holds this thread's stack is not tracked. `None` if the matrix is empty.
    ///
    /// # Errors
    /// The arguments are not valid, or the memory cannot be tracked.
    pub fn of(cache: &Cache, view: &View) -> Result<Option<Target>, Status> {
        let Some(place) = view.place()? else {
            return Ok(None);
        };
        let block = cache.block_of(&place, false)?.ok_or(Status::Untracked)?;
        Ok(Some(Target { view: *view, block }))
    }

    /// The matrix's bytes, counted from the start of the block.
    fn rect(&self) -> Result<Rect, Status> {
        let place = self.view.place()?.ok_or(Status::Invalid)?;
        Ok(place.counted_from(self.block.start))
    }

    fn columns(&self, from: usize, to: usize) -> Target {
        Target {
            view: self.view.columns(from, to),
            ..*self
        }
    }

    /// Sends the matrix to a device, or its columns to all devices in equal shares, piece by piece.
    ///
    /// # Errors
    /// See [`Cache::send_ahead`]. What was sent before stays.
    pub fn prefetch(&self, cache: &Cache, device: Option<DeviceId>) -> Result<Deps, Status> {
        let devices = cache.backend().devices().len();
        let (first, count) = match device {
            Some(device) => (device.index(), 1),
            None => (0, devices.min(self.view.cols)),
        };
        let (mut all, whole) = (Deps::default(), self.rect()?);
        for i in 0..count {
            let at = |i: usize| self.view.cols * i / count;
            let share = self.columns(at(i), at(i + 1));
            let sent = share.send(cache, DeviceId::at(first + i), &whole)?;
            all.extend(&sent);
        }
        Ok(all)
    }

    fn send(&self, cache: &Cache, device: DeviceId, whole: &Rect) -> Result<Deps, Status> {
        let footprint = self.rect()?;
        let column = (self.view.ld * self.view.element).max(1);
        let step = (PIECE / column).max(1);
        let mut all = Deps::default();
        for from in (0..self.view.cols).step_by(step) {
            let piece = self.columns(from, (from + step).min(self.view.cols));
            // The piece before may have taken long: the program may have freed the block, or be about to end.
            if ending::ending()
                || host::block(self.block.id).is_none_or(|b| b.start != self.block.start)
            {
                return Ok(all);
            }
            all.extend(&piece.send_piece(cache, device, (footprint, whole))?);
        }
        Ok(all)
    }

    fn send_piece(
        &self,
        cache: &Cache,
        device: DeviceId,
        (footprint, whole): (Rect, &Rect),
    ) -> Result<Deps, Status> {
        let (block, view) = (self.block, self.rect()?);
        let bytes = (block.start + view.start, view.end() - view.start);
        if !host::prepare(&block, bytes.0, bytes.1) {
            return Ok(Deps::default());
        }
        // The cache must know the block before it is marked in use: from then on the cache is told when the block ends.
        let fresh = cache.add_block(block);
        if !host::mark_in_use(block.id) {
            if fresh {
                let _ = cache.abandon(block);
            }
            return Ok(Deps::default());
        }
        cache.pin(&block, bytes, false, &[Some(block)]);
        let queued = cache.send_ahead(
            device,
            &Use {
                id: block.id,
                base: block.start,
                view,
                footprint,
                access: Intent::Read,
                touched: Vec::new(),
                size: self.view.element,
                step: isize::try_from(self.view.ld).unwrap_or(isize::MAX),
            },
            whole,
        )?;
        cache.arrive(&queued.pending)?;
        Ok(queued.deps)
    }

    /// Queues the write-back of the matrix's newest bytes.
    ///
    /// # Errors
    /// See [`Cache::write_home`].
    pub fn write_home(&self, cache: &Cache) -> Result<Deps, Status> {
        Ok(cache.write_home(self.block.id, &self.rect()?)?)
    }

    /// Writes the matrix's newest bytes back, and makes its pages readable, or writable.
    ///
    /// # Errors
    /// See [`Cache::open`].
    pub fn open(&self, cache: &Cache, write: bool) -> Result<(), Status> {
        Ok(cache.open(self.block.id, &self.rect()?, write)?)
    }

    /// Frees the memory of devices that holds bytes of the matrix.
    ///
    /// # Errors
    /// See [`Cache::evict_from`].
    pub fn evict(&self, cache: &Cache, device: Option<DeviceId>) -> Result<(), Status> {
        Ok(cache.evict_from(self.block.id, &self.rect()?, device)?)
    }

    /// Bytes of the matrix whose newest copy is on devices only, and bytes that each device holds.
    #[must_use]
    pub fn residency(&self, cache: &Cache) -> crate::cache::Residency {
        let rect = self.rect();
        rect.map_or_else(
            |_| Default::default(),
            |rect| cache.residency(self.block.id, &rect),
        )
    }
}
