//! Access of a task to an operand: read, update or overwrite.

/// What a task does with a part of an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Intent {
    /// The task reads it.
    Read,
    /// The task reads and writes it.
    Update,
    /// The task writes all of it without reading it (beta = 0).
    Overwrite,
}
