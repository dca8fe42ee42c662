//! Memory that products use: arrays and vectors of the program, and data of the library's own.

#![expect(
    unsafe_code,
    reason = "allocates memory that is used on devices, without touching it"
)]

use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::base::{AllocId, DeviceId, Intent, Rect};
use crate::cache::task::Use;
use crate::cache::{Cache, CacheError};
use crate::hints::Status;
use crate::hints::request::Target;
use crate::hints::view::View;
use crate::host::{self, Block};

/// Memory of the library that devices cache as they cache the program's: it is written by devices alone, or never changes.
#[derive(Debug)]
pub struct Own {
    id: AllocId,
    /// Freed by [`Own::end`] alone: while the cache has an entry for it, devices may write it back.
    bytes: ManuallyDrop<Bytes>,
}

#[derive(Debug)]
enum Bytes {
    Boxed(Box<[u8]>),
    Mapped(Mapped),
}

/// A mapping of zeros, of which the kernel gives pages to those that are touched.
#[derive(Debug)]
struct Mapped(usize, usize);

impl Mapped {
    fn new(len: usize) -> Option<Mapped> {
        let (open, flags) = (
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE | MapFlags::NORESERVE,
        );
        // SAFETY: a new mapping, anywhere.
        let at = unsafe { mmap_anonymous(ptr::null_mut(), len, open, flags) }.ok()?;
        Some(Mapped(at.expose_provenance(), len))
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`; the cache has no entry for it any more.
        let _ = unsafe { munmap(ptr::with_exposed_provenance_mut(self.0), self.1) };
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Boxed(bytes) => bytes,
            // SAFETY: mapped as long as this lives, and written by no thread: copies from devices are awaited before it is read.
            Bytes::Mapped(Mapped(at, len)) => unsafe {
                core::slice::from_raw_parts(ptr::with_exposed_provenance(*at), *len)
            },
        }
    }
}

impl Own {
    /// Makes an entry of the cache for these bytes.
    #[must_use]
    pub fn new(cache: &Cache, bytes: Box<[u8]>) -> Own {
        Own::of(cache, Bytes::Boxed(bytes))
    }

    fn of(cache: &Cache, bytes: Bytes) -> Own {
        let id = cache.add_transient(bytes.as_ptr().addr(), bytes.len());
        Own {
            id,
            bytes: ManuallyDrop::new(bytes),
        }
    }

    /// Zeros, whose host memory is used if they ever come home; `None` without memory.
    #[must_use]
    pub fn zeroed(cache: &Cache, len: usize) -> Option<Own> {
        Some(Own::of(cache, Bytes::Mapped(Mapped::new(len)?)))
    }

    /// Ends the entry of the cache, and frees the memory.
    pub fn end(self, cache: &Cache) {
        cache.finish_transient(self.id);
        drop(ManuallyDrop::into_inner(self.bytes));
    }

    /// How many bytes it has.
    #[must_use]
    pub fn extent(&self) -> usize {
        self.bytes.len()
    }

    /// Whether an operand lies in it.
    #[must_use]
    pub fn is(&self, operand: &Use) -> bool {
        self.id == operand.id
    }

    /// All of it as an operand.
    #[must_use]
    pub fn operand(&self, access: Intent) -> Use {
        self.part(Rect::interval(0, self.bytes.len()), (1, 1), access)
    }

    /// These bytes of it as an operand, a matrix with elements of this size and this leading dimension.
    #[must_use]
    pub fn part(&self, view: Rect, (size, ld): (usize, usize), access: Intent) -> Use {
        Use {
            id: self.id,
            base: self.bytes.as_ptr().expose_provenance(),
            view,
            footprint: view,
            access,
            touched: Vec::new(),
            size,
            step: isize::try_from(ld).unwrap_or(isize::MAX),
        }
    }

    /// Its newest bytes, which are copied from the devices that hold them.
    ///
    /// # Errors
    /// They are lost, or a device refused a copy.
    pub fn bytes(&self, cache: &Cache) -> Result<&[u8], CacheError> {
        let home = cache.write_home(self.id, &Rect::interval(0, self.bytes.len()))?;
        home.wait(cache.backend())?;
        Ok(&self.bytes)
    }
}

/// Memory of the program that a product uses in pieces.
#[derive(Debug)]
pub struct Placed {
    memory: Memory,
    view: View,
    /// Whether devices have no room to keep it.
    resent: bool,
}

#[derive(Debug)]
enum Memory {
    /// Devices keep what they get of it.
    Block(Target),
    /// Memory of unknown lifetime: its bytes are sent to devices by each product, and come home before it ends.
    Transient(AllocId),
}

impl Placed {
    /// A view; `None` if it is empty; `resent`: devices have no room to keep it. The cache's lock is not held, and signals are blocked.
    ///
    /// # Errors
    /// Devices cannot use the bytes, or one is lost.
    pub fn of(
        cache: &Cache,
        view: View,
        access: Intent,
        resent: bool,
    ) -> Result<Option<Placed>, Status> {
        let Some(place) = view.place()? else {
            return Ok(None);
        };
        let memory = match Target::at(cache, (&view, &place))? {
            Some(target) => {
                if !target.enter(cache) {
                    return Err(Status::Untracked);
                }
                let announced = cache.announce(target.block(), &target.rect()?);
                // A block that has changed since may be anything.
                announced.map_err(|_| Status::Untracked)?;
                Memory::Block(target)
            }
            // The program guards some of it: its own access faults there.
            None if !host::guards::permits(&place, access != Intent::Read) => {
                return Err(Status::Untracked);
            }
            None => Memory::Transient(cache.add_transient(place.start, place.end() - place.start)),
        };
        Ok(Some(Placed {
            memory,
            view,
            resent,
        }))
    }

    /// Begins to send all of it to a device, in pieces that are copied while further ones are page-locked. Without success the first
    /// operation that uses it sends it.
    pub fn send(&self, cache: &Cache, device: DeviceId) {
        if let Memory::Block(target) = &self.memory {
            let _ = target.prefetch(cache, Some(device));
        }
    }

    /// A part of the view as an operand.
    ///
    /// # Errors
    /// The part is not within the view.
    pub fn operand(&self, cache: &Cache, part: View, access: Intent) -> Result<Use, Status> {
        match &self.memory {
            Memory::Block(target) => {
                let target = target.part(part);
                target.operand(cache, target.rect()?, access, self.resent)
            }
            Memory::Transient(id) => {
                let place = part.place()?.ok_or(Status::Invalid)?;
                let view = place.counted_from(self.view.addr);
                Ok(Use {
                    id: *id,
                    base: self.view.addr,
                    view,
                    footprint: view,
                    access,
                    touched: Vec::new(),
                    size: part.element,
                    step: isize::try_from(part.ld).unwrap_or(isize::MAX),
                })
            }
        }
    }

    /// The block that has it; `None` for memory of unknown lifetime.
    #[must_use]
    pub fn block(&self) -> Option<Block> {
        match &self.memory {
            Memory::Block(target) => Some(*target.whole_block()),
            Memory::Transient(_) => None,
        }
    }

    /// The product has ended, and waited for all copies.
    pub fn end(&self, cache: &Cache) {
        if let Memory::Transient(id) = &self.memory {
            cache.finish_transient(*id);
        }
    }
}
