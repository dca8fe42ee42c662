//! Later versions may know other errors.
use semcache_api::{Error, ShapeError};

fn main() {
    match Error::Absent {
        Error::Absent | Error::NoDevice | Error::Invalid | Error::Untracked | Error::NoRoom | Error::Lost => {}
        Error::Busy | Error::Failed | Error::Unknown(_) | Error::Shape(_) | Error::Overlap | Error::NoBlas(_) => {}
    }
    match ShapeError::TooShort {
        ShapeError::LeadingDimension | ShapeError::TooShort | ShapeError::Outside => {}
        ShapeError::Strides | ShapeError::Mismatch => {}
    }
}
