//! What may go wrong.

use std::ffi::c_int;
use std::fmt;

/// The result of a hint or a call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a hint did nothing, or a call of a [`Scope`](crate::Scope) was not made.
///
/// A hint that fails changes nothing of what the program computes, so programs may ignore its error.
///
/// ```
/// use semcache_api::{Device, Error, Hints, View};
///
/// let a = vec![0.0; 12];
/// match View::new(&a, 4, 3, 4)?.prefetch(Device::All) {
///     Ok(sent) => sent.wait()?,
///     Err(Error::Absent) => {} // the program runs without semcache
///     Err(other) => eprintln!("not sent: {other}"),
/// }
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The program runs without semcache, or with a version that lacks this function.
    Absent,
    /// No device can be used: there is none, or the process is the child of a fork.
    NoDevice,
    /// An argument is not valid: no such device, or a size that the BLAS cannot be told in 32 bits.
    Invalid,
    /// The memory cannot be tracked: a stack, guarded pages, or more than one allocation.
    Untracked,
    /// The device has no room for the matrix, or too many requests wait.
    NoRoom,
    /// The device is lost.
    Lost,
    /// A signal handler interrupted the library.
    Busy,
    /// A device refused a copy.
    Failed,
    /// A status that this crate does not know.
    Unknown(i32),
    /// Sizes are wrong.
    Shape(ShapeError),
    /// A call's result shares elements with another of its operands.
    Overlap,
    /// The process has no BLAS, or one without this routine.
    NoBlas(&'static str),
}

impl Error {
    /// What a status of the library means. "Pending" is none here: only [`Event::test`](crate::Event::test) expects it.
    pub(crate) fn check(status: c_int) -> Result<()> {
        Err(match status {
            0 => return Ok(()),
            1 => Error::Absent,
            3 => Error::NoDevice,
            4 => Error::Invalid,
            5 => Error::Untracked,
            6 => Error::NoRoom,
            7 => Error::Lost,
            8 => Error::Busy,
            9 => Error::Failed,
            other => Error::Unknown(other),
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::Absent => {
                "the program runs without semcache, or with a version that lacks this function"
            }
            Error::NoDevice => "no device can be used here",
            Error::Invalid => "an argument is not valid",
            Error::Untracked => {
                "the memory cannot be tracked: a stack, guarded pages, or more than one allocation"
            }
            Error::NoRoom => "the device has no room for the matrix, or too many requests wait",
            Error::Lost => "the device is lost",
            Error::Busy => "a signal handler interrupted the library",
            Error::Failed => "a device refused a copy",
            Error::Unknown(status) => return write!(f, "unknown status {status}"),
            Error::Shape(shape) => return shape.fmt(f),
            Error::Overlap => "the result of a call shares elements with another operand",
            Error::NoBlas(routine) => return write!(f, "the process has no BLAS with {routine}"),
        })
    }
}

impl std::error::Error for Error {}

impl From<ShapeError> for Error {
    fn from(shape: ShapeError) -> Error {
        Error::Shape(shape)
    }
}

/// Why memory is no matrix of a given size, or matrices are no operands of one call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ShapeError {
    /// The leading dimension is zero, or below the number of rows.
    LeadingDimension,
    /// There are fewer elements than the matrix has.
    TooShort,
    /// Rows or columns that the matrix does not have.
    Outside,
    /// The elements of a column are not contiguous, or columns run backwards. Of an array by rows take the transpose.
    Strides,
    /// The sizes of a call's operands do not agree.
    Mismatch,
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ShapeError::LeadingDimension => {
                "the leading dimension is zero, or below the number of rows"
            }
            ShapeError::TooShort => "there are fewer elements than the matrix has",
            ShapeError::Outside => "the matrix has no such rows or columns",
            ShapeError::Strides => {
                "the elements of a column are not contiguous, or columns run backwards"
            }
            ShapeError::Mismatch => "the sizes of the operands do not agree",
        })
    }
}

impl std::error::Error for ShapeError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_of_the_header_has_its_sentence() {
        let header = include_str!("../../include/semcache.h");
        let names = [
            "OK",
            "ABSENT",
            "PENDING",
            "NO_DEVICE",
            "INVALID",
            "UNTRACKED",
            "NO_ROOM",
            "LOST",
            "BUSY",
            "FAILED",
        ];
        for (name, status) in names.iter().zip(0..) {
            assert!(
                header.contains(&format!("SEMCACHE_{name} = {status}")),
                "{name}"
            );
            let Err(error) = Error::check(status) else {
                assert_eq!(status, 0);
                continue;
            };
            let sentence = format!("case SEMCACHE_{name}: return \"{error}\";");
            assert!(
                header.contains(&sentence) == (*name != "PENDING"),
                "{sentence}"
            );
        }
        assert!(!header.contains("SEMCACHE_FAILED = 9,"), "a status more");
        assert_eq!(Error::check(-3), Err(Error::Unknown(-3)));
    }
}
