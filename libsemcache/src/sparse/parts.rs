//! Linking a matrix: which rows each device computes with, and what is derived for it.

use rustc_hash::FxHashMap;

use super::arrays::Own;
use super::csr::Csr;
use super::cut::{Share, by_entries};
use super::link::{Link, Part};
use super::pattern::Pattern;
use super::product::Product;
use crate::base::{DeviceId, Interval};
use crate::cache::Cache;
use crate::cache::watches::Watch;
use crate::hints::Status;
use crate::hints::request::Target;
use crate::host;

/// A device that is to have rows.
#[derive(Clone, Copy, Debug)]
pub struct Able {
    /// How fast it is, in any unit.
    pub rate: f64,
    /// Bytes that it can hold.
    pub room: usize,
}

/// Of a device's memory, the share (nominator, denominator) that its rows and their parts of X and Y may fill as one part. Larger ones
/// are cut, and the device holds a few parts at a time.
const MOST_FULL: (usize, usize) = (4, 5);
/// A part of rows that are cut takes at most this share (1 / `EACH`) of the memory: one is computed with while the next arrives, and the
/// others stay for the next product.
const EACH: usize = 8;

/// The pattern of a matrix that is being linked.
#[derive(Debug)]
pub struct Watched {
    watch: Watch,
    /// Addresses of bytes that are not watched.
    loose: Vec<Interval>,
    /// Whether row offsets and column indices lie in blocks, so that devices can keep the program's own ones.
    in_blocks: [bool; 2],
}

/// A part of which the cache has no entries yet.
#[derive(Debug)]
struct Draft {
    device: DeviceId,
    share: Share,
    touched: (usize, usize),
    offsets: Option<Box<[u8]>>,
    columns: Option<Box<[u8]>>,
}

/// What was derived from a matrix.
#[derive(Debug)]
pub struct Derived {
    pattern: Pattern,
    parts: Vec<Draft>,
}

impl Product {
    /// Watches row offsets and column indices, which are page-locked first: later they are read-only.
    ///
    /// # Errors
    /// [`Status::Untracked`]: devices cannot use them.
    pub fn watch(&self, cache: &Cache, nnz: usize, devices: &[Able]) -> Result<Watched, Status> {
        let csr = &self.csr;
        let all = Share {
            rows: 0..csr.rows,
            entries: 0..nnz,
        };
        let room = devices.iter().map(|able| able.room).sum();
        let resent = self.pieces(&all, room) > 1;
        let arrays = [csr.offsets_of(&(0..csr.rows)), csr.columns_of(&(0..nnz))];
        let (mut of, mut loose) = (Vec::new(), Vec::new());
        let mut in_blocks = [false; 2];
        for (view, in_block) in arrays.iter().zip(&mut in_blocks) {
            let Some(place) = view.place()? else {
                continue;
            };
            match Target::at(cache, (view, &place))? {
                Some(target) if target.enter(cache) => {
                    target.pin(cache, resent)?;
                    of.push((target.block(), target.rect()?.span()));
                    *in_block = true;
                }
                None if host::guards::permits(&place, false) => loose.push(place.span()),
                _ => return Err(Status::Untracked),
            }
        }
        let watch = cache.watch(&of, &mut loose);
        Ok(Watched {
            watch,
            loose,
            in_blocks,
        })
    }

    /// Checks the matrix, and derives what devices need. No lock is held.
    ///
    /// # Errors
    /// [`Status::Invalid`]: row offsets that do not ascend, or column indices outside of the matrix. The watch goes back to the caller.
    pub fn derive(
        &self,
        watched: Watched,
        nnz: usize,
        devices: &[Able],
    ) -> Result<Derived, (Status, Pattern)> {
        let csr = &self.csr;
        let [offsets, columns] = watched.in_blocks;
        let pattern = Pattern::new(watched.watch, watched.loose);
        let draft = |(device, share): (DeviceId, Share)| {
            let ascends = csr.ascends(&share.rows, &share.entries);
            let touched = csr.touched(&share.entries).filter(|_| ascends)?;
            let (start, indices) = (share.entries.start, csr.columns_of(&share.entries));
            Some(Draft {
                device,
                touched,
                offsets: (start > 0 || !offsets).then(|| csr.rebased(&share.rows, start)),
                columns: (!columns && indices.rows > 0).then(|| Csr::bytes(&indices)),
                share,
            })
        };
        let parts = self.shares(nnz, devices).ok();
        let parts = parts.and_then(|shares| shares.into_iter().map(draft).collect());
        match parts {
            Some(parts) => Ok(Derived { pattern, parts }),
            None => Err((Status::Invalid, pattern)),
        }
    }

    /// The rows of each part, and its device. Devices get entries by their rates.
    fn shares(&self, nnz: usize, devices: &[Able]) -> Result<Vec<(DeviceId, Share)>, Status> {
        let all = Share {
            rows: 0..self.csr.rows,
            entries: 0..nnz,
        };
        let offset = |row| self.csr.offset(row);
        let cut =
            |all: &Share, weights: &[f64]| by_entries(all, weights, offset).ok_or(Status::Invalid);
        let rates: Vec<f64> = devices.iter().map(|able| able.rate).collect();
        let mut parts = Vec::with_capacity(devices.len());
        for (device, share) in cut(&all, &rates)? {
            let room = devices.get(device).map_or(0, |able| able.room);
            let pieces = vec![1.0; self.pieces(&share, room)];
            let cut = cut(&share, &pieces)?;
            parts.extend(
                cut.into_iter()
                    .map(|(_, share)| (DeviceId::at(device), share)),
            );
        }
        Ok(parts)
    }

    /// Into how many parts a device's rows are cut, so that it can hold some of them.
    fn pieces(&self, share: &Share, room: usize) -> usize {
        let vectors = (self.x.rows + share.rows.len()) * self.x.cols * self.x.element;
        let offsets = (share.rows.len() + 1) * self.csr.index.size();
        let matrix = self.bytes(share.entries.len()) + offsets;
        match (matrix + vectors) / MOST_FULL.0 > room / MOST_FULL.1 {
            true => matrix
                .div_ceil((room / EACH).max(1))
                .clamp(1, share.rows.len().max(1)),
            false => 1,
        }
    }
}

impl Derived {
    /// Makes entries of the cache for what was derived.
    #[must_use]
    pub fn link(self, cache: &Cache, (csr, nnz): (Csr, usize), devices: usize) -> Link {
        let own = |bytes: Option<Box<[u8]>>| bytes.map(|bytes| Own::new(cache, bytes));
        let part = |draft: Draft| Part {
            device: draft.device,
            share: draft.share,
            touched: draft.touched,
            offsets: own(draft.offsets),
            columns: own(draft.columns),
            scratch: FxHashMap::default(),
        };
        Link {
            csr,
            nnz,
            devices,
            parts: self.parts.into_iter().map(part).collect(),
            backwards: false,
            sums: FxHashMap::default(),
            pattern: self.pattern,
            again: None,
        }
    }
}
