//! Requests on one matrix, on the thread that carries them out.

use super::Status;
use super::view::View;
use crate::base::{DeviceId, Intent, Rect};
use crate::cache::task::Use;
use crate::cache::{Cache, CacheError, Residency};
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
        let block = cache.block_at(&place)?.ok_or(Status::Untracked)?;
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
    /// Devices would keep hardly any of it, it does not fit, or see [`Cache::send_ahead`]: what was sent before stays.
    pub fn prefetch(&self, cache: &Cache, device: Option<DeviceId>) -> Result<Deps, Status> {
        if !cache.whole() {
            return Err(Status::Lost);
        }
        let (first, count) = match device {
            Some(device) => (device.index(), 1),
            None => (0, cache.backend().usable().min(self.view.cols)),
        };
        let at = |i: usize| self.view.cols * i / count;
        let mut all = Deps::default();
        if !self.enter(cache) {
            return Ok(all);
        }
        let largest = self.columns(0, self.view.cols.div_ceil(count)).rect()?;
        if !cache.would_keep((self.block.id, &self.rect()?), (device, &largest))? {
            return Err(Status::Untracked);
        }
        for i in 0..count {
            let share = self.columns(at(i), at(i + 1));
            let sent = share.send(cache, DeviceId::at(first + i))?;
            all.extend(&sent);
        }
        Ok(all)
    }

    /// Whether the block still is what it was when the program asked, which prepared all of the matrix; then the cache knows it, and is
    /// told from now on when it ends or changes its length.
    fn enter(&self, cache: &Cache) -> bool {
        let same = || host::block(self.block.id) == Some(self.block);
        if !same() || !host::prepare(&self.block, self.view.addr, 1) {
            return false;
        }
        // The cache must know the block before it is marked in use.
        let fresh = cache.add_block(self.block);
        let marked = host::mark_in_use(self.block.id) && same();
        if !marked && fresh {
            let _ = cache.abandon(self.block);
        }
        marked
    }

    fn send(&self, cache: &Cache, device: DeviceId) -> Result<Deps, Status> {
        let footprint = self.rect()?;
        let column = (self.view.ld * self.view.element).max(1);
        let step = (PIECE / column).max(1);
        let mut all = Deps::default();
        for from in (0..self.view.cols).step_by(step) {
            let piece = self.columns(from, (from + step).min(self.view.cols));
            // The piece before may have taken long: the program may have changed the block, or be about to end.
            if ending::ending() || !piece.enter(cache) {
                return Ok(all);
            }
            all.extend(&piece.send_piece(cache, device, footprint)?);
        }
        Ok(all)
    }

    fn send_piece(&self, cache: &Cache, device: DeviceId, footprint: Rect) -> Result<Deps, Status> {
        let (block, view) = (self.block, self.rect()?);
        let bytes = (block.start + view.start, view.end() - view.start);
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
        // The pages are opened under the cache's lock: what takes long comes before.
        let home = self.write_home(cache)?;
        home.wait(cache.backend()).map_err(CacheError::from)?;
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
    pub fn residency(&self, cache: &Cache) -> Residency {
        let rect = self.rect();
        rect.map_or_else(
            |_| Default::default(),
            |rect| cache.residency(self.block.id, &rect),
        )
    }
}
