#!/bin/bash
# The functions of semcache.h with arbitrary arguments, drawn by libFuzzer from what covers new code of the library, which is compiled
# with coverage for it; BLAS calls in between have to be right.
#
#   entry.sh [--quick] [SECONDS]     60 unless said; --quick: 20
set -euo pipefail
. "$(dirname "$0")/../setting.sh"
seconds=60
[ "${1:-}" != --quick ] || { seconds=20; shift; }
seconds=${1:-$seconds}
build
dir=$(fresh entry)
coverage="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=3 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters"
coverage+=" -Cllvm-args=-sanitizer-coverage-pc-table"
host=$(rustc -vV | sed -n 's/^host: //p')
# With --target, build scripts are compiled without coverage. What optimises across crates takes minutes and finds no faults.
quickly=(CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_DEBUG=line-tables-only CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16)
instrumented() { (cd "$1" && env "${quickly[@]}" RUSTFLAGS="$coverage" CARGO_TARGET_DIR=$TARGET/entry cargo build --release --locked -q --target "$host" "${@:2}"); }
instrumented "$ROOT" -p semcache-blas
instrumented "$ROOT/fuzz/entry"
mkdir "$dir/corpus"
# The seeds reach what the sums below ask for, however few inputs a busy machine comes to.
for setting in "3 late,poison mprotect" "2 poison,seed=3 wp-async"; do
    read -r devices sim gate <<<"$setting"
    (cd "$dir" && "${WITHIN[@]}" env "${HARD[@]}" SEMCACHE_LIB="$TARGET/entry/$host/release/libsemcache_blas.so" OPENBLAS_NUM_THREADS=1 \
        SEMCACHE_SIM="$sim" SEMCACHE_GATE="$gate" "$COMMAND" run --devices "sim:$devices" --report "$dir/$gate.json" -- \
        "$TARGET/entry/$host/release/c_entry" -max_total_time=$((seconds / 2)) -max_len=1500 -len_control=20 -timeout=30 \
        -print_final_stats=1 corpus "$ROOT/fuzz/entry/seeds" >"$dir/$gate.log" 2>&1) || { tail -40 "$dir/$gate.log"; fail "a call of semcache.h: the input is in $dir"; }
    grep "number_of_executed_units\|^Done" "$dir/$gate.log"
    sum "$dir/$gate.json" calls.dgemm.offloaded "sparse>=1" "sparse_host>=1" cache.closes faults
done
