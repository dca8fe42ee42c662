//! The runtime as the shim calls it.

#[cfg(not(feature = "naive-core"))]
pub(crate) use semcache::runtime::call;
pub(crate) use semcache::runtime::init::FLOOR_HOLDS;
pub(crate) use semcache::runtime::io::{IoGuards, open_all};
pub(crate) use semcache::runtime::{Facts, any_protected, has_floor, is_kept};

pub(crate) use semcache::cache::GUARDED as PROTECTED;

#[cfg(feature = "naive-core")]
pub(crate) use crate::naive::call;
