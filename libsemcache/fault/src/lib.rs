//! What semcache runs inside a SIGSEGV handler.
#![no_std]

pub mod page;
