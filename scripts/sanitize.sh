#!/bin/bash
# The tests of the runtime under a sanitizer: data races (thread) or wrong accesses (address). Wants a nightly toolchain
# with rust-src, because the standard library is compiled the same way.
#
#   sanitize.sh [thread|address]...     default: both
set -euo pipefail
. "$(dirname "$0")/setting.sh"
cd "$ROOT"
rustup component list --toolchain nightly --installed 2>/dev/null | grep -q '^rust-src' ||
    fail "no nightly toolchain with rust-src: rustup toolchain install nightly -c rust-src"
[ $# -gt 0 ] || set -- thread address
# SIGSEGV is the runtime's. What lives as long as the process is no leak. A test that runs out of memory on purpose
# wants null.
options=handle_segv=0:handle_sigbus=0:handle_abort=0:exitcode=66
# One test at a time: the sanitizer does not see raw system calls, and takes memory that one test unmapped and another maps
# for memory that they share.
export RUST_TEST_THREADS=1 TSAN_OPTIONS=$options ASAN_OPTIONS=$options:detect_leaks=0:allocator_may_return_null=1
for sanitizer; do
    [[ $sanitizer == @(thread|address) ]] || fail "unknown sanitizer $sanitizer"
    say "$sanitizer sanitizer"
    RUSTFLAGS="-Zsanitizer=$sanitizer" CARGO_TARGET_DIR=$TARGET/$sanitizer cargo +nightly test --locked -q -Zbuild-std \
        --target x86_64-unknown-linux-gnu -p semcache --lib --test threads --test remember --test push --test host_heap \
        --test host_pins
done
