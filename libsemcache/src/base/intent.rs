//! Access of a task to an operand: read, update or overwrite.

/// What a task does with a part of an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Intent {
    /// The task reads the bytes.
    Read,
    /// The task reads and writes the bytes.
    Update,
    /// The task writes all of the bytes without reading them (beta = 0).
    Overwrite,
}
