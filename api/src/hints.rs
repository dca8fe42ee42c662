//! Hints on matrices.
//!
//! Every function of the table is given a structure that names memory. What the library does to this memory, also after the function
//! has returned, changes nothing that a program could observe by reading it, and ends when the memory is freed: so no hint asks more
//! of the program's memory than that it was a matrix once, and none is unsafe.

#![expect(unsafe_code, reason = "calls functions of another library")]

use std::ffi::CString;
use std::marker::PhantomData;
use std::ptr::{NonNull, null, null_mut};

use crate::device::{ALL_DEVICES, Device, Place};
use crate::distribution::{Distribution, Owner};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::placed::{Located, Placed};
use crate::scalar::Scalar;
use crate::table::{self, Matrix};
use crate::view::ViewMut;

/// A matrix, as the library wants it.
pub(crate) fn named<'a>(of: &(impl Located<'a> + ?Sized)) -> Matrix {
    let Placed {
        data,
        rows,
        cols,
        ld,
    } = of.placed();
    // No slice has as many elements; an empty matrix may say so.
    let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    Matrix {
        size: table::size::<Matrix>(),
        element: element(data),
        data: data.as_ptr().cast_const().cast(),
        rows: count(rows),
        cols: count(cols),
        ld: count(ld),
    }
}

/// Bytes of an element.
fn element<T>(_: NonNull<T>) -> u32 {
    table::size::<T>()
}

/// The hints on a matrix, which [`View`](crate::View), [`ViewMut`] and [`Pending`](crate::Pending) have. They change when bytes move, never what is computed.
///
/// Each fails with [`Error::Absent`] where the program runs without the library.
///
/// ```
/// use semcache_api::{Device, Error, Hints, Place, View};
///
/// fn hinted() -> Result<(), Error> {
///     let a = vec![1.0; 1 << 18];
///     let a = View::new(&a, 512, 512, 512)?;
///     a.name("A")?;
///     let sent = a.prefetch(Device::Number(0))?;
///     sent.wait()?;
///     println!("{} bytes on device 0", a.residency(Place::Device(0))?);
///     a.evict(Device::All)
/// }
/// # let found = hinted();
/// # assert!(matches!(found, Ok(()) | Err(Error::Absent)), "{found:?}");
/// ```
pub trait Hints<'a>: Located<'a> {
    /// Sends the matrix to a device, or its columns to all in equal shares, before a call uses it. Returns at once.
    ///
    /// # Errors
    /// See [`Error`].
    fn prefetch(&self, to: Device) -> Result<Event> {
        let (prefetch, matrix) = (table::prefetch()?, named(self));
        // SAFETY: the arguments live as long as the call.
        Event::of(|event| unsafe { prefetch(&raw const matrix, to.number(), event) })
    }

    /// Queues the copy of the matrix's newest bytes to the host; devices keep their copies. Returns at once.
    ///
    /// # Errors
    /// See [`Error`].
    fn coherent(&self) -> Result<Event> {
        let (coherent, matrix) = (table::coherent()?, named(self));
        // SAFETY: the arguments live as long as the call.
        Event::of(|event| unsafe { coherent(&raw const matrix, event) })
    }

    /// The CPU is about to read the matrix: its newest bytes are copied to the host and its pages become readable, at once instead of by
    /// page faults. Devices keep their copies.
    ///
    /// # Errors
    /// See [`Error`].
    fn read_cpu(&self) -> Result<()> {
        let (to_cpu, matrix) = (table::to_cpu()?, named(self));
        // SAFETY: the arguments live as long as the call.
        Error::check(unsafe { to_cpu(&raw const matrix, 0) })
    }

    /// Frees the memory of a device, or of all, that holds bytes of the matrix. What only it holds goes to the host.
    ///
    /// # Errors
    /// See [`Error`].
    fn evict(&self, from: Device) -> Result<()> {
        let (evict, matrix) = (table::evict()?, named(self));
        // SAFETY: the arguments live as long as the call.
        Error::check(unsafe { evict(&raw const matrix, from.number()) })
    }

    /// How many bytes of the matrix a place holds in their newest state.
    ///
    /// # Errors
    /// See [`Error`].
    fn residency(&self, place: Place) -> Result<u64> {
        let (residency, matrix, mut bytes) = (table::residency()?, named(self), 0);
        // SAFETY: the arguments live as long as the call.
        Error::check(unsafe { residency(&raw const matrix, place.number(), &raw mut bytes) })?;
        Ok(u64::try_from(bytes).unwrap_or(0))
    }

    /// Sends the blocks of the matrix to devices. From then on, each block of the matrix that a level-3 call writes is computed by the
    /// device that it belongs to. Returns at once.
    ///
    /// ```
    /// use semcache_api::{Distribution, Error, Hints, View};
    ///
    /// let a = vec![1.0; 1 << 18];
    /// let sent = View::new(&a, 512, 512, 512)?.distribute(Distribution::Cyclic { mb: 128, nb: 128, p: 2, q: 2 });
    /// # assert!(matches!(sent, Ok(_) | Err(Error::Absent)), "{sent:?}");
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`Error`].
    fn distribute(&self, by: Distribution) -> Result<Event> {
        let (distribute, matrix, by) = (table::distribute()?, named(self), by.c()?);
        // SAFETY: the arguments live as long as the call.
        Event::of(|event| unsafe { distribute(&raw const matrix, &raw const by, event) })
    }

    /// As [`distribute`](Self::distribute), with blocks of `mb x nb` of which a function says the device: of the block in a row and a
    /// column of blocks. If it panics, so does this.
    ///
    /// # Errors
    /// See [`Error`].
    fn distribute_by(
        &self,
        mb: usize,
        nb: usize,
        owner: impl Fn(usize, usize) -> u32 + Sync,
    ) -> Result<Event>
    where
        Self: Sized,
    {
        let (distribute, matrix, owner) = (table::distribute()?, named(self), Owner::new(owner));
        let by = owner.c(mb, nb)?;
        // SAFETY: the arguments live as long as the call, and the owner is asked no more after it.
        let sent =
            Event::of(|event| unsafe { distribute(&raw const matrix, &raw const by, event) });
        owner.resume();
        sent
    }

    /// As [`prefetch`](Self::prefetch), and calls that need room evict other copies first, for as long as the returned value lives.
    ///
    /// ```
    /// use semcache_api::{Device, Hints, View};
    ///
    /// let a = vec![1.0; 1 << 18];
    /// let pinned = View::new(&a, 512, 512, 512)?.pin(Device::Number(0));
    /// // Calls that use the matrix. It cannot be changed or freed here.
    /// drop(pinned);
    /// # Ok::<(), semcache_api::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`Error`].
    fn pin(&self, on: Device) -> Result<Pinned<'a>> {
        let (pin, matrix) = (table::pin()?, named(self));
        // SAFETY: the arguments live as long as the call.
        let sent = Event::of(|event| unsafe { pin(&raw const matrix, on.number(), 1, event) })?;
        Ok(Pinned {
            matrix,
            sent,
            borrow: PhantomData,
        })
    }

    /// Names the matrix in messages and traces; an empty name takes the name away.
    ///
    /// # Errors
    /// The name has a zero byte, or see [`Error`].
    fn name(&self, name: &str) -> Result<()> {
        let (call, matrix) = (table::name()?, named(self));
        let text = CString::new(name).map_err(|_| Error::Invalid)?;
        let text = if name.is_empty() {
            null()
        } else {
            text.as_ptr()
        };
        // SAFETY: the arguments live as long as the call.
        Error::check(unsafe { call(&raw const matrix, text) })
    }
}

impl<'a, M: Located<'a>> Hints<'a> for M {}

impl<T: Scalar> ViewMut<'_, T> {
    /// The CPU is about to change the matrix: as [`read_cpu`](Hints::read_cpu), and devices drop their copies.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn write_cpu(&mut self) -> Result<()> {
        let (to_cpu, matrix) = (table::to_cpu()?, named(self));
        // SAFETY: the arguments live as long as the call.
        Error::check(unsafe { to_cpu(&raw const matrix, 1) })
    }
}

/// A matrix that is kept on devices ([`Hints::pin`]), until this value is dropped. The matrix stays borrowed as long: of a
/// [`ViewMut`] mutably, which itself may be used meanwhile.
#[derive(Debug)]
#[must_use = "the matrix is pinned only as long as this value lives"]
pub struct Pinned<'a> {
    matrix: Matrix,
    sent: Event,
    borrow: PhantomData<&'a ()>,
}

// SAFETY: the pointer only names memory, and pins belong to the process.
unsafe impl Send for Pinned<'_> {}
// SAFETY: as above.
unsafe impl Sync for Pinned<'_> {}

impl Pinned<'_> {
    /// The request that sends the matrix.
    #[must_use]
    pub fn sent(&self) -> Event {
        self.sent
    }
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        if let Ok(pin) = table::pin() {
            // SAFETY: the arguments live as long as the call.
            unsafe { pin(&raw const self.matrix, ALL_DEVICES, 0, null_mut()) };
        }
    }
}
