//! Where a call runs: gathers what the model needs to know of the operands and asks it.

use crate::base::config::{Config, Offload};
use crate::base::counters::WhyHost;
use crate::cache::Cache;
use crate::device::api::Backend;
use crate::host::Block;
use crate::plan::{Plan, Problem};

use super::args::Placed;
