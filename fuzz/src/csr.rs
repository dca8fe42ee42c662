//! A sparse matrix whose arrays lie in blocks of the program.

/// A run of elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) slot: usize,
    pub(crate) from: usize,
}

/// A matrix in compressed rows. How many entries it has is what the last of its row offsets says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sparse {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    /// What the first entry and the first column are called.
    pub(crate) base: i64,
    pub(crate) offsets: Run,
    pub(crate) columns: Run,
    pub(crate) values: Run,
}
