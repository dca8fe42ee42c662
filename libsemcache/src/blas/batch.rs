//! Batched gemm, several products in one call (`gemm_batch`, `gemm_batch_strided`): one decision for all products, then
//! each product runs as a gemm of its own, in order.

use super::call::Call;
use crate::base::Dtype;
use crate::process::signals_blocked::SignalsBlocked;

/// The products of one call.
#[derive(Clone, PartialEq, Debug)]
pub struct Batch {
    /// Element type.
    pub dtype: Dtype,
    /// The products, in order, each a gemm.
    pub calls: Vec<Call>,
    /// An argument of the batch itself is of doubtful legality: the libraries that export the routine disagree on its
    /// meaning.
    pub doubtful: bool,
}

/// How a batch ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Batched {
    /// No product was computed: the host BLAS must run the batch.
    Host,
    /// All products were computed.
    Done,
    /// Products before this index were computed; the host BLAS must run the others, because the devices refused one of
    /// them.
    From(usize),
}

impl Batch {
    /// An empty batch with room for `products` products; `None` if there is no memory. Adding these products allocates
    /// nothing, so a program's signal handler may leave by `longjmp` meanwhile.
    #[must_use]
    pub fn with_room(dtype: Dtype, products: usize) -> Option<Batch> {
        let _blocked = SignalsBlocked::new();
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
        let _blocked = SignalsBlocked::new();
        drop(std::mem::take(&mut self.calls));
    }
}
