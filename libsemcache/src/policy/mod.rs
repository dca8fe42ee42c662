//! What a process learns from its calls and uses for later ones. Predictions and choices rest on it, correctness never does, and
//! each heuristic can be left out ([`crate::base::heuristics`]).
//!
//! Two records hold it. The *use of a block* ([`block_use`]), under the cache's lock, is what calls and the CPU did with a block of
//! host memory: how much of its results the CPU reads ([`results`]), how it changes inputs ([`inputs`]), what devices' use of the
//! block took beyond its prediction ([`prediction_error`]), and which uploads later calls are to amortise ([`amortisation`]). The
//! *call site* ([`call_sites`]) is what is known of a call that the program makes again, by one key: that the host BLAS runs it
//! without a decision, the A/B probes of its predictions ([`ab_probe`]), and how it is replayed.
//!
//! What the machine does is no such record: its rates are corrected by measured times (`model::observe`), [`host_times`] has
//! the times of the host BLAS by kinds of calls, whatever their operands, and [`kernel_code`] knows which kernels' code devices have loaded.

pub mod ab_probe;
mod alike;
pub mod amortisation;
pub mod block_use;
pub mod block_uses;
pub mod call_sites;
pub mod host_times;
pub mod inputs;
pub mod kernel_code;
pub mod prediction_error;
pub mod results;
