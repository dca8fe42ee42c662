//! Requests on one matrix, on the thread that carries them out.

use std::sync::Arc;

use super::Status;
use super::view::View;
use crate::base::distribution::Distribution;
use crate::base::{AllocId, DeviceId, Intent, Rect};
use crate::cache::hints::Held;
use crate::cache::orders::Layout;
use crate::cache::task::Use;
use crate::cache::{Cache, CacheError, Residency};
use crate::device::api::undelivered;
use crate::host::{self, Block, Observer as _};
use crate::process::ending;
use crate::transfer::Deps;

/// A matrix in a block of host memory.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    view: View,
    block: Block,
}

/// What one device gets of a matrix: parts of it, and the smallest part that has them all.
struct Share {
    device: DeviceId,
    parts: Vec<View>,
    footprint: View,
}

/// Bytes of a matrix that are page-locked and sent at a time: copies begin while further pieces are page-locked.
const PIECE: usize = 64 << 20;

/// A matrix in pieces of whole columns.
fn pieces(of: View) -> impl Iterator<Item = View> {
    let step = (PIECE / (of.ld * of.element).max(1)).max(1);
    let begins = (0..of.cols).step_by(step);
    begins.map(move |from| of.columns(from, (from + step).min(of.cols)))
}

impl Target {
    /// The matrix, on a thread of the program: a block that holds this thread's stack is not tracked. `None` if the matrix is empty.
    ///
    /// # Errors
    /// The arguments are not valid, or the memory cannot be tracked.
    pub fn of(cache: &Cache, view: &View) -> Result<Option<Target>, Status> {
        match view.place()? {
            Some(place) => {
                let found = Target::at(cache, (view, &place))?;
                found.map(Some).ok_or(Status::Untracked)
            }
            None => Ok(None),
        }
    }

    /// A matrix that is not empty; `None` if it lies in no block.
    ///
    /// # Errors
    /// It lies partly in a block.
    pub fn at(cache: &Cache, (view, place): (&View, &Rect)) -> Result<Option<Target>, Status> {
        // Results that could not be written to memory at these addresses are dropped, as before a call: the program uses them for other
        // data now.
        if !undelivered::none() {
            drop(undelivered::take(place));
        }
        let block = cache.block_at(place)?;
        Ok(block.map(|block| Target { view: *view, block }))
    }

    /// The block that holds the matrix.
    #[must_use]
    pub fn block(&self) -> AllocId {
        self.block.id
    }

    /// As [`Target::block`], with what is known of it.
    #[must_use]
    pub fn whole_block(&self) -> &Block {
        &self.block
    }

    /// The matrix's bytes, counted from the start of the block.
    ///
    /// # Errors
    /// The view is not valid.
    pub fn rect(&self) -> Result<Rect, Status> {
        let place = self.view.place()?.ok_or(Status::Invalid)?;
        Ok(place.counted_from(self.block.start))
    }

    /// A part of the matrix.
    #[must_use]
    pub fn part(&self, view: View) -> Target {
        Target { view, ..*self }
    }

    /// Sends the matrix to a device, or its columns to all devices in equal shares, piece by piece.
    ///
    /// # Errors
    /// Devices would keep hardly any of it, it does not fit, or see [`Cache::send_ahead`]: what was sent before stays.
    pub fn prefetch(&self, cache: &Cache, device: Option<DeviceId>) -> Result<Deps, Status> {
        let (first, count) = match device {
            Some(device) => (device.index(), 1),
            None => (0, cache.backend().usable().min(self.view.cols)),
        };
        let at = |i: usize| self.view.cols * i / count;
        let share = |i: usize| Share {
            footprint: self.view.columns(at(i), at(i + 1)),
            parts: pieces(self.view.columns(at(i), at(i + 1))).collect(),
            device: DeviceId::at(first + i),
        };
        self.send(cache, &(0..count).map(share).collect::<Vec<_>>())
    }

    /// Whether a device holds the matrix, but for the ends that pages share with other data: then there is nothing to prefetch. Shares
    /// of several devices are not looked at.
    #[must_use]
    pub fn is_on(&self, cache: &Cache, device: Option<DeviceId>) -> bool {
        let only = || (cache.backend().usable() == 1).then(|| DeviceId::at(0));
        let page = semcache_fault::pages::page_size();
        let held = |device: DeviceId| {
            let found = self.residency(cache).resident;
            let held = found.get(device.index()).copied().unwrap_or(0);
            let Ok(Some(place)) = self.view.place() else {
                return true;
            };
            // Bytes of the matrix on its first and last page, where these are shared.
            let ends = (page - place.start % page) % page + place.end() % page;
            held > 0 && held + ends >= place.bytes()
        };
        device.or_else(only).is_some_and(held)
    }

    /// Orders that blocks of the matrix are computed by their owners, from now on; `None` ends the order.
    ///
    /// # Errors
    /// The memory cannot be tracked.
    pub fn order(&self, cache: &Cache, of: Option<Arc<Distribution>>) -> Result<(), Status> {
        if !self.enter(cache) {
            return Err(Status::Untracked);
        }
        let View { rows, cols, .. } = self.view;
        cache.distribute(self.block.id, self.layout(), ((rows, cols), of));
        Ok(())
    }

    /// Sends each block of a distribution to its owner.
    ///
    /// # Errors
    /// As [`Target::prefetch`].
    pub fn send_blocks(&self, cache: &Cache, of: &Distribution) -> Result<Deps, Status> {
        let View { rows, cols, .. } = self.view;
        let share = |device: DeviceId| {
            let owned = of.blocks().filter(|(.., owner)| *owner == device);
            let (mut from, mut to) = ((rows, cols), (0, 0));
            let mut parts = Vec::new();
            for ((row, col), (m, n), _) in owned {
                from = (from.0.min(row), from.1.min(col));
                to = (to.0.max(row + m), to.1.max(col + n));
                parts.extend(pieces(self.view.block((row, col), (m, n))));
            }
            let extents = (to.0 - from.0, to.1 - from.1);
            Share {
                footprint: self.view.block(from, extents),
                parts,
                device,
            }
        };
        self.send(
            cache,
            &of.devices().into_iter().map(share).collect::<Vec<_>>(),
        )
    }

    fn layout(&self) -> Layout {
        Layout {
            start: self.view.addr - self.block.start,
            stride: self.view.ld * self.view.element,
            element: self.view.element,
        }
    }

    /// Sends parts of the matrix to devices. Those that lack it get memory for their footprint.
    fn send(&self, cache: &Cache, shares: &[Share]) -> Result<Deps, Status> {
        let mut all = Deps::default();
        if !cache.whole() {
            return Err(Status::Lost);
        }
        if !self.enter(cache) {
            return Ok(all);
        }
        let bytes = |share: &&Share| share.parts.iter().map(|p| p.rows * p.cols).sum::<usize>();
        if let Some(largest) = shares.iter().max_by_key(bytes) {
            let least = Rect::interval(0, bytes(&largest) * self.view.element);
            let device = Some(largest.device).filter(|_| shares.len() == 1);
            if !cache.would_keep((self.block.id, &self.rect()?), (device, &least))? {
                return Err(Status::Untracked);
            }
        }
        // Each device's link begins with the first piece.
        let longest = shares.iter().map(|share| share.parts.len()).max();
        for i in 0..longest.unwrap_or(0) {
            for share in shares {
                let Some(part) = share.parts.get(i) else {
                    continue;
                };
                let piece = self.part(*part);
                // The piece before may have taken long: the program may have changed the block, or be about to end.
                if ending::ending() || !piece.enter(cache) {
                    return Ok(all);
                }
                let footprint = self.part(share.footprint).rect()?;
                let input = piece.operand(cache, footprint, Intent::Read, false)?;
                let queued = cache.send_ahead(share.device, &input)?;
                cache.arrive(&queued.pending)?;
                all.extend(&queued.deps);
            }
        }
        Ok(all)
    }

    /// Whether the block still is what it was when the program asked, which prepared all of the matrix; then the cache knows it, and is
    /// told from now on when it ends or changes its length.
    #[must_use]
    pub fn enter(&self, cache: &Cache) -> bool {
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

    /// The matrix as an operand that lies in a replica of this footprint. Its host memory is page-locked, as far as that is permitted;
    /// `resent`: devices have no room to keep it.
    ///
    /// # Errors
    /// The view is not valid.
    pub fn operand(
        &self,
        cache: &Cache,
        footprint: Rect,
        access: Intent,
        resent: bool,
    ) -> Result<Use, Status> {
        let (block, view) = (self.block, self.rect()?);
        self.pin(cache, resent || access != Intent::Read)?;
        Ok(Use {
            id: block.id,
            base: block.start,
            view,
            footprint,
            access,
            touched: Vec::new(),
            size: self.view.element,
            step: isize::try_from(self.view.ld).unwrap_or(isize::MAX),
        })
    }

    /// Page-locks the matrix's host memory ([`Cache::pin`]).
    ///
    /// # Errors
    /// The view is not valid.
    pub fn pin(&self, cache: &Cache, now: bool) -> Result<(), Status> {
        let (block, view) = (self.block, self.rect()?);
        let bytes = (block.start + view.start, view.end() - view.start);
        cache.pin(&block, bytes, now, &[Some(block)]);
        Ok(())
    }

    /// Copies of the matrix on a device, or on any, are evicted last from now on, or no longer.
    pub fn keep(&self, cache: &Cache, device: Option<DeviceId>, keep: bool) -> Result<(), Status> {
        if self.enter(cache) {
            cache.keep(self.block.id, &self.rect()?, device, keep);
        }
        Ok(())
    }

    /// Brings the matrix to a device for a kernel of the program, which changes it if `write`, and waits until it has arrived.
    ///
    /// # Errors
    /// As [`Target::prefetch`]; [`Status::Untracked`], too, if another thread has freed or remapped some of the block meanwhile.
    pub fn hold(&self, cache: &Cache, device: DeviceId, write: bool) -> Result<Held, Status> {
        let held = self.held(cache, device, write);
        held.map_err(|status| match status {
            Status::Ok => Status::Untracked,
            other => other,
        })
    }

    fn held(&self, cache: &Cache, device: DeviceId, write: bool) -> Result<Held, Status> {
        let rect = self.rect()?;
        if !cache.whole() {
            return Err(Status::Lost);
        }
        if !self.enter(cache) {
            return Err(Status::Untracked);
        }
        if !cache.would_keep((self.block.id, &rect), (Some(device), &rect))? {
            return Err(Status::Untracked);
        }
        let access = match write {
            true => Intent::Update,
            false => Intent::Read,
        };
        let held = cache.hold(device, &self.operand(cache, rect, access, false)?)?;
        let arrived = cache.arrive(&held.queued.pending);
        let arrived = arrived.and_then(|()| Ok(held.queued.deps.wait(cache.backend())?));
        if let Err(error) = arrived {
            let _ = cache.release_held(held.number);
            return Err(error.into());
        }
        Ok(held)
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
