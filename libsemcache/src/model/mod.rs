//! Pure: what a call will cost, on the devices and on the host.
//!
//! The time of a pipelined offload is predicted with the models of CoCoPeLia (Anastasiadis et al., ISPASS
//! 2021: [`predict`], Eq. 1 to 5), which extend those of van Werkhoven et al. (CCGrid 2014) for overlapped
//! transfers by the location of the data, by links that are slower when both directions are in use, and by
//! the reuse of tiles. Links follow the latency and bandwidth model ([`link`]), kernels a roofline with a
//! size-efficiency curve ([`exec`]). [`select`] takes the tile with the smallest prediction, [`mod@decide`]
//! compares it with the host, [`invest`] remembers which uploads paid, [`observe`] lets measured times correct the
//! tables, and [`trial`] finds out where predictions are wrong all the same.
//!
//! Times are in seconds, rates in bytes or floating point operations per second, all `f64`.

pub mod decide;
pub mod exec;
pub mod invest;
pub mod link;
pub mod observe;
pub mod predict;
pub mod rates;
pub mod select;
pub mod trial;

pub use decide::{Decision, Floor, Mode, OperandState, Question, Reason, decide};
pub use observe::{Observed, Quantity, Refined};
pub use rates::{DeviceRates, HostRates, LinkRate, Rates, Total, Vectors};
pub use select::Choice;
