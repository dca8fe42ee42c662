//! Start, end and report of the runtime within one process.

pub mod report;
