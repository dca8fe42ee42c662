//! Codes of refusals.

/// Status of a refusal for an address outside of the device's blocks, as CUDA numbers it.
pub const BAD_ADDRESS: i32 = 700;

/// Status of a refusal for an argument that makes no sense, as CUDA numbers it.
pub const BAD_VALUE: i32 = 1;

/// Status of a refusal for a copy between devices without a link, as CUDA numbers it (peer access unsupported).
pub const NO_LINK: i32 = 217;
