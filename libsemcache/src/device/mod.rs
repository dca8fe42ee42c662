//! Devices (GPUs or simulated): separate memory, streams and events, kernels. [`api`] is the contract, [`cuda`] NVIDIA
//! GPUs, [`sim`] the simulated machine, [`arith`] the arithmetic that the simulated devices and the last-resort host
//! path share, [`measured`] what becomes of the times that devices took, `awaited` on what a thread waits, [`traced`] records what a machine does, [`clocked`] says when it would
//! do it in virtual time.

pub mod api;
pub mod arith;
mod awaited;
pub mod clocked;
pub mod cuda;
mod host_memory;
pub mod measured;
pub mod sim;
pub mod traced;
