//! Several gemms in one call (`gemm_batch`, `gemm_batch_strided`): one decision for all of them, then each as a gemm of
//! its own, in order.

use super::call::Call;
use crate::base::Dtype;
use crate::process::masked::Masked;

/// The products of one call.
#[derive(Clone, PartialEq, Debug)]
pub struct Batch {
    /// Element type.
    pub dtype: Dtype,
    /// The products, in order, each a gemm.
    pub calls: Vec<Call>,
    /// An argument of the batch itself is of doubtful legality: its libraries do not agree on what it means.
    pub doubtful: bool,
}

/// What became of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Batched {
    /// Nothing was done: the host must run it.
    Host,
    /// Done.
    Done,
    /// Products before this one are done, the others are the host's: the devices refused in the middle.
    From(usize),
}

impl Batch {
    /// An empty batch with room for so many products; `None` if there is no memory. Filling it allocates nothing: a
    /// program's handler may leave in the middle.
    #[must_use]
    pub fn with_room(dtype: Dtype, products: usize) -> Option<Batch> {
        let _masked = Masked::new();
        let mut calls = Vec::new();
        calls.try_reserve_exact(products).ok()?;
        Some(Batch {
            dtype,
            calls,
            doubtful: false,
        })
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        let _masked = Masked::new();
        drop(std::mem::take(&mut self.calls));
    }
}
