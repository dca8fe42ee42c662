//! What is done with bytes.

/// What a task does with a part of an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Intent {
    /// Reads it.
    Read,
    /// Reads and writes it.
    Update,
    /// Writes all of it without reading (beta = 0).
    Overwrite,
}
