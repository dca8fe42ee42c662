#!/bin/bash
# The runtime's unit tests under the thread sanitizer: the queues and workers of simulated devices, locks, heaps, pins, the
# phases of start-up. Wants a nightly toolchain with rust-src, because the standard library is compiled the same way.
#
#   sanitize.sh
set -euo pipefail
. "$(dirname "$0")/setting.sh"
cd "$ROOT"
rustup component list --toolchain nightly --installed 2>/dev/null | grep -q '^rust-src' ||
    fail "no nightly toolchain with rust-src: rustup toolchain install nightly -c rust-src"
# SIGSEGV is the runtime's. One test at a time: the sanitizer does not see raw system calls, and takes memory that one test
# unmapped and another maps for memory that they share.
export RUST_TEST_THREADS=1 TSAN_OPTIONS=handle_segv=0:handle_sigbus=0:handle_abort=0:exitcode=66
RUSTFLAGS="-Zsanitizer=thread" CARGO_TARGET_DIR=$TARGET/thread cargo +nightly test --locked -q -Zbuild-std \
    --target x86_64-unknown-linux-gnu -p semcache --lib
