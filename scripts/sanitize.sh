#!/bin/bash
# The runtime's own tests under thread and address sanitizer. Both want the signal handlers and the memory map that we
# use, so only tests that close no pages run: the simulated device, transfers, the mailbox, the tables. Needs a nightly
# compiler with rust-src, so CI does not run it.
#
#   sanitize.sh [thread|address]...      default: both
set -euo pipefail
. "$(dirname "$0")/setting.sh"
cd "$ROOT"
kinds=("$@")
[ $# -gt 0 ] || kinds=(thread address)
for kind in "${kinds[@]}"; do
    say "$kind sanitizer"
    build_std=()
    # The standard library's own synchronisation has to be seen by the thread sanitizer.
    [ "$kind" != thread ] || build_std=(-Zbuild-std)
    for filter in device::sim transfer:: base:: directory::; do
        RUSTFLAGS="-Zsanitizer=$kind" ASAN_OPTIONS=detect_leaks=0 CARGO_TARGET_DIR=$TARGET/sanitize-$kind \
            cargo +nightly test --locked -q "${build_std[@]}" --target x86_64-unknown-linux-gnu -p semcache --lib -- "$filter" ||
            fail "$kind sanitizer: $filter"
    done
done
say "sanitizers: no complaint"
