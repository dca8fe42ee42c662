#!/bin/bash
# The pure core under Miri: undefined behaviour and arithmetic that only happens to work. Needs a nightly compiler with
# its component miri (rustup toolchain install nightly --component miri,rust-src), so CI does not run it.
#
#   miri.sh [FILTER...]      tests whose names contain one of these; default: the pure floors
set -euo pipefail
. "$(dirname "$0")/setting.sh"
cd "$ROOT"
filters=("$@")
[ $# -gt 0 ] || filters=(base::rect directory:: plan::tiles plan::problem topology:: model::select)
for filter in "${filters[@]}"; do
    say "miri: $filter"
    # Property tests draw fewer cases: Miri is some hundred times slower. They read where to keep failures.
    MIRIFLAGS="-Zmiri-disable-isolation" PROPTEST_CASES=4 CARGO_TARGET_DIR=$TARGET/miri \
        cargo +nightly miri test --locked -q -p semcache --lib -- "$filter" || fail "miri: $filter"
done
say "miri: no complaint"
