//! libFuzzer's target: takes the bytes as a program and plays it in this process. To fuzz the library rather than the
//! fuzzer, preload it:
//!
//!   cargo +nightly fuzz build -s none --features libfuzzer program
//!   SEMCACHE_DEVICES=sim:2 SEMCACHE_OFFLOAD=always SEMCACHE_PANEL=4KiB SEMCACHE_OWN=4KiB OPENBLAS_NUM_THREADS=1 \
//!     LD_PRELOAD=target/release/libsemcache_blas.so target/x86_64-unknown-linux-gnu/release/program \
//!     -max_len=1202 -handle_segv=0 -handle_bus=0 -handle_alrm=0 -handle_usr1=0
#![no_main]

use libfuzzer_sys::fuzz_target;
use semcache_fuzz::play::play;
use semcache_fuzz::program::Program;

fuzz_target!(|bytes: &[u8]| {
    play(&Program::of_bytes(bytes));
});
