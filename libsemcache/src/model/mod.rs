//! The performance model: predicts the time of a call on the devices and on the host. Pure functions, without I/O,
//! clock or threads.
//!
//! The time of a pipelined offload is predicted with the models of CoCoPeLia (Anastasiadis et al., ISPASS 2021:
//! [`predictor`], Eq. 1 to 5), which extend those of van Werkhoven et al. (CCGrid 2014) for overlapped transfers by the
//! location of the data, by links that are slower when both directions are in use, and by the reuse of tiles. Links
//! follow the latency and bandwidth model ([`link`]), kernels a roofline with a size-efficiency curve ([`exec`]).
//! [`select`] takes the tile with the smallest prediction, [`mod@decide`] compares the prediction with the host's,
//! [`first`] has the rates that a GPU's hardware lets expect, [`observe`] corrects the rates by measured times, and [`rates_file`] reads
//! rates that were measured earlier.
//!
//! [`predictor`] has all of these models behind one trait, van Werkhoven's own ones for comparison.
//!
//! [`timeline`] predicts when each copy and kernel of a plan runs; connections to the host that several devices share
//! ([`ports`]) count there as what they carry together.
//!
//! Times are in seconds, rates in bytes or floating point operations per second, all `f64`.

pub mod classes;
pub mod clocks;
pub mod dealing;
pub mod decide;
pub mod drift;
pub mod exec;
pub mod first;
pub mod link;
pub mod observe;
pub mod ports;
pub mod predictor;
pub mod rates;
pub mod rates_file;
pub mod select;
pub mod stations;
pub mod timeline;
pub mod window;

pub use decide::{Decision, Floor, Mode, OperandState, Question, Reason, decide};
pub use observe::Refined;
pub use rates::{DeviceRates, HostRates, LinkRate, Rates, Total, Vectors};
pub use select::Choice;
