#!/bin/bash
# The programs of examples/legacy: the same results, every call offloaded, and no byte copied more than once.
#
#   legacy.sh [--quick]     --quick: n = 1024
set -euo pipefail
. "$(dirname "$0")/../setting.sh"
n=4096
[ "${1:-}" = --quick ] && n=1024
build
legacy_clients
clients_built
dir=$(fresh legacy)
export SEMCACHE_LIB=$LIBRARY

# run NAME DEVICES PROGRAM ARGS...: compares with the plain run; the report is $dir/NAME.json.
run() {
    local name=$1 devices=$2
    shift 2
    "$@" >"$dir/$name.plain" || fail "$name: plain run"
    SEMCACHE_OFFLOAD=always "$COMMAND" run --devices "$devices" --report "$dir/$name.json" -- "$@" \
        >"$dir/$name.out" || fail "$name: $(cat "$dir/$name.out")"
    cmp "$dir/$name.plain" "$dir/$name.out" || fail "$name: the answers differ"
}

for shape in "$n $n" "$((n + 3)) $((n + 16))"; do
    # shellcheck disable=SC2086
    set -- $shape
    iterations=100 devices=2
    [ "$(machine 2)" != "$(machine 1)" ] || devices=1
    say "jacobi n=$1 lda=$2"
    run "jacobi-$1" "$(machine $devices)" "$TARGET/legacy/jacobi" "$1" $iterations "$2"
    matrix=$((8 * $1 * $1)) vectors=$((iterations * 8 * $1))
    sum "$dir/jacobi-$1.json" calls.dgemv.offloaded==$iterations calls.dgemv.host==0 \
        "bytes.h2d>=$matrix" \
        "bytes.h2d<=$(awk "BEGIN { printf \"%.0f\", 1.02 * ($matrix + $devices * $vectors) }")" \
        "bytes.d2h<=$(awk "BEGIN { printf \"%.0f\", 1.02 * $vectors }")"
done
for program in cg cg_f; do
    say "$program"
    run $program "$(machine 2)" "$TARGET/legacy/$program" $n
    sum "$dir/$program.json" calls.dgemv.offloaded calls.dgemv.host==0
done
say "abac"
run abac "$(machine 2)" "$TARGET/legacy/abac" $((n / 2))
sum "$dir/abac.json" calls.dgemm.offloaded==2 cache.closes faults
run abac1 "$(machine 1)" "$TARGET/legacy/abac" $((n / 2))
# Of four matrices three are uploaded once and one is written back once.
matrix=$((8 * n * n / 4))
sum "$dir/abac1.json" "bytes.h2d<=$((3 * matrix + matrix / 50))" "bytes.d2h<=$((matrix + matrix / 50))"
say "power.py"
run power "$(machine 2)" "$PYTHON" "$ROOT/examples/legacy/power.py" $((n / 2)) 30
sum "$dir/power.json" calls.dgemv.offloaded
