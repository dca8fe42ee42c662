//! Transfers: which operations are in flight over which bytes ([`ops`]), the device memory that replicas live in
//! ([`pool`]), where a byte of an allocation lies in a replica ([`store`]), and the queueing of copies ([`engine`]).
//! The directory decides what is copied; nothing is decided here.

pub mod engine;
pub mod ops;
pub mod pool;
pub mod store;

pub use engine::Engine;
pub use ops::{Deps, Ops};
pub use pool::Pool;
pub use store::Store;
