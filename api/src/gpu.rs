//! Matrices for kernels of the program's own.

#![expect(unsafe_code, reason = "calls functions of another library")]

use std::ffi::{c_int, c_void};
use std::mem::ManuallyDrop;
use std::ptr::null_mut;

use crate::device::number;
use crate::error::{Error, Result};
use crate::hints::named;
use crate::scalar::Scalar;
use crate::table::{self, Matrix};
use crate::view::{View, ViewMut};

/// Where a matrix is in the memory of a device, for kernels of the program's own.
#[derive(Debug)]
#[non_exhaustive]
pub struct DeviceMatrix {
    /// The device.
    pub device: u32,
    /// The device pointer of the first element.
    pub address: u64,
    /// Elements between the starts of two columns.
    pub ld: usize,
    /// The `CUcontext` in which the address is valid; null on simulated devices, whose memory the CPU can use.
    pub context: *mut c_void,
}

impl<T: Scalar> View<'_, T> {
    /// Lets kernels of the program read the matrix on a device: `f` is told where its newest bytes are there, queues the kernels, and
    /// waits for them before it returns or panics.
    ///
    /// ```
    /// use semcache_api::{Error, View};
    ///
    /// let a = vec![1.0; 1 << 18];
    /// let a = View::new(&a, 512, 512, 512)?;
    /// match a.read_gpu(0, |found| println!("at {:#x}", found.address)) {
    ///     Ok(()) => {}
    ///     Err(reason) => println!("on the host: {reason}"),
    /// }
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`Error`]; unless it comes from the end, `f` was not called.
    pub fn read_gpu<R>(&self, device: u32, f: impl FnOnce(&DeviceMatrix) -> R) -> Result<R> {
        on_device(named(self), device, 0, f)
    }
}

impl<T: Scalar> ViewMut<'_, T> {
    /// Lets kernels of the program change the matrix on a device: as [`View::read_gpu`], and all other copies are out of date. Until `f`
    /// has returned, neither the CPU nor a BLAS call can use the matrix, which is borrowed mutably as long.
    ///
    /// # Errors
    /// See [`Error`]; unless it comes from the end, `f` was not called.
    pub fn write_gpu<R>(&mut self, device: u32, f: impl FnOnce(&DeviceMatrix) -> R) -> Result<R> {
        on_device(named(self), device, 1, f)
    }
}

fn on_device<R>(
    matrix: Matrix,
    device: u32,
    write: c_int,
    f: impl FnOnce(&DeviceMatrix) -> R,
) -> Result<R> {
    // Both functions are there, or nothing is held.
    let (to_gpu, _) = (table::to_gpu()?, table::release()?);
    let mut found = table::DeviceMatrix {
        size: table::size::<table::DeviceMatrix>(),
        device: 0,
        address: 0,
        ld: 0,
        hold: 0,
        context: null_mut(),
    };
    // SAFETY: the arguments live as long as the call.
    Error::check(unsafe { to_gpu(&raw const matrix, number(device), write, &raw mut found) })?;
    let hold = Hold(found.hold);
    let result = f(&DeviceMatrix {
        device,
        address: found.address,
        ld: usize::try_from(found.ld).unwrap_or(0),
        context: found.context,
    });
    hold.end()?;
    Ok(result)
}

/// What the library holds on a device until it is released, also on unwinding.
struct Hold(u64);

impl Hold {
    fn end(self) -> Result<()> {
        ManuallyDrop::new(self).release()
    }

    fn release(&self) -> Result<()> {
        let release = table::release()?;
        // SAFETY: the function takes a number.
        Error::check(unsafe { release(self.0) })
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // On unwinding: nobody could be told.
        let _ = self.release();
    }
}
