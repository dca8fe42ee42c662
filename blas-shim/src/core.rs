//! The functions of the runtime that the shim's stubs and hooks call.

pub(crate) use semcache::base::counters::Degraded;
pub(crate) use semcache::runtime::io::{
    Buffer, IoGuard, IoGuards, keep, may_be_protected, open_all, open_everything, wrote,
};
pub(crate) use semcache::runtime::start::spares_cores;
pub(crate) use semcache::runtime::{
    Facts, any_protected, any_restricted, caught, go_write_through, has_floor, is_kept, retire,
    runs_here, sandbox,
};
#[cfg(not(feature = "builtin-blas"))]
pub(crate) use semcache::runtime::{batch, call};

pub(crate) use semcache::cache::GUARDED as PROTECTED;
pub(crate) use semcache::cache::changed;

#[cfg(feature = "builtin-blas")]
pub(crate) use crate::builtin::{batch, call};
