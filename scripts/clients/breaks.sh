#!/bin/bash
# Builds the library without some of its remedies, and shows for each that the test of it notices: tests/breaks.txt has
# the remedies, each with the test that must pass with it and fail without.
#
#   breaks.sh [--quick] [ITEM...]     ITEM: only these (break-signals); --quick: only the runs without a remedy, as the suites
#                                     pass with all of them
set -euo pipefail
. "$(dirname "$0")/../setting.sh"
quick=''
[ "${1:-}" != --quick ] || { quick=1; shift; }
build
dir=$(fresh breaks)
say "the library without its remedies"
(cd "$ROOT" && CARGO_TARGET_DIR=$TARGET/broken cargo build --release --locked -q -p semcache-blas --features breaks) || fail "cargo build"
broken=$TARGET/broken/release/libsemcache_blas.so
say "the clients"
for suite in edge beside; do BUILD_ONLY=1 SUITES=$dir/clients "$ROOT/scripts/clients/$suite.sh"; done
declare -A seen=()
while read -r item suite only; do
    [[ -n $item && $item != \#* ]] || continue
    seen[$item]=1
    [ $# = 0 ] || [[ " $* " == *" $item "* ]] || continue
    # run NAME VAR=VALUE...: the test, in results of its own.
    run() {
        local name=$1
        shift
        env "$@" "ONLY=$only" SUITES="$dir/$item" BUILT_CLIENTS="$dir/clients" "$ROOT/scripts/clients/$suite.sh" --quick >"$dir/$item.$name.log" 2>&1 </dev/null
    }
    # Some programs wait for ever without the remedy.
    hang=20 begun=$SECONDS
    if [ -z "$quick" ]; then
        run with BROKEN_ITEM=none SEMCACHE_LIB="$broken" || { tail -20 "$dir/$item.with.log"; fail "$item: $suite $only fails with all remedies"; }
        hang=$((20 + 5 * (SECONDS - begun)))
    fi
    if run without BROKEN_ITEM="$item" SEMCACHE_LIB="$broken" HANG=$hang; then fail "$item: $suite $only passes without the remedy"; fi
    say "$item: $suite $only fails without the remedy: $(grep -a FAILED "$dir/$item.without.log" | head -1)"
done <"$ROOT/tests/breaks.txt"
for item in $(sed -n 's/^\(break-[a-z]*\) = .*/\1/p' "$ROOT/blas-shim/Cargo.toml"); do
    [ -n "${seen[$item]:-}" ] || fail "$item: no test in tests/breaks.txt"
done
