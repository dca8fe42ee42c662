#!/bin/bash
# bench/virtual.c in virtual time: hollow devices and devices that compute take the same time, move the same bytes and compute the
# same tasks, in every mode of the simulator; and machines and orders that no machine here has.
#
#   virtual.sh [--quick]     --quick: fewer machines and routines
set -euo pipefail
. "$(dirname "$0")/../setting.sh"
machines=(sim:2 h200 everest makalu dgx1)
calls=("dgemm 700 2" "dsymm 700 2 host" "dsyrk 700 2" "dsyr2k 700 1" "dtrmm 700 2" "dtrsm 700 2" "abac 500 2")
if [ "${1:-}" = --quick ]; then
    machines=(everest makalu) calls=("dgemm 700 2" "dtrsm 700 2" "abac 500 2")
fi
build
dir=$(fresh virtual)
obtain "$dir/virtual" gcc -O2 -g -Wall -Wextra -o "$dir/virtual" "$ROOT/bench/virtual.c" "$ROOT/bench/common.c" -lblas -lpthread -lm
clients_built
export OPENBLAS_NUM_THREADS=1

# in_time MACHINE SIM CALL [SETTING...]: the numbers of the report of one process.
in_time() {
    local machine=$1 sim=$2 words
    read -r -a words <<<"$3"
    rm -f "$dir/report"
    env "SEMCACHE_DEVICES=sim:${machine#sim:}" "SEMCACHE_SIM=$sim" SEMCACHE_OFFLOAD=always "${@:4}" \
        "${WITHIN[@]}" "$COMMAND" run --report "$dir/report" -- "$dir/virtual" "${words[@]}" 2>"$dir/stderr" ||
        { cat "$dir/stderr" >&2; fail "$3 on $machine, $sim"; }
    python3 -c '
import json, sys
d = json.load(open(sys.argv[1]))
b = d["bytes"]
assert d["virtual_time"]["ns"] > 0 and sum(c["offloaded"] for c in d["calls"].values()) > 0, d
print(d["virtual_time"]["ns"], b["h2d"], b["d2h"], b["p2p"], *(x["tasks"] for x in d["devices"]))' "$dir/report"
}

# Only simulated devices have virtual time.
simulated || exit 0
for machine in "${machines[@]}"; do
    for call in "${calls[@]}"; do
        first=$(in_time "$machine" hollow "$call" SEMCACHE_TILE=128)
        for sim in virtual virtual,seed=3 virtual,late,poison; do
            other=$(in_time "$machine" "$sim" "$call" SEMCACHE_TILE=128)
            [ "$first" = "$other" ] || fail "$call on $machine: hollow $first, $sim $other"
        done
    done
    say "virtual time on $machine: ${#calls[@]} programs alike"
done
# As other libraries deal the tasks.
for scheduler in static blasx xkaapi; do
    for call in "${calls[@]}"; do
        settings=(SEMCACHE_TILE=128 "SEMCACHE_SCHEDULER=$scheduler" SEMCACHE_PEERS=unranked SEMCACHE_JOINS=off)
        first=$(in_time makalu hollow "$call" "${settings[@]}")
        for sim in virtual virtual,seed=5,late,poison; do
            other=$(in_time makalu "$sim" "$call" "${settings[@]}")
            [ "$first" = "$other" ] || fail "$call, $scheduler: hollow $first, $sim $other"
        done
    done
done
say "virtual time by three other schedulers: ${#calls[@]} programs alike"
# Matrices of 80 GB each, and BLASX's product on Everest: it sends 18.7 GB there.
read -r ns h2d _ p2p _ <<<"$(in_time h200x8 hollow "dgemm 100000 1")"
say "dgemm 100000 on eight H200: $((ns / 1000000)) ms, $((h2d >> 30)) GiB in, $((p2p >> 30)) GiB between devices"
[ "$h2d" -ge 160000000000 ] || fail "a product of order 100000 sends at least its inputs: $h2d"
read -r ns h2d _ p2p _ <<<"$(in_time everest hollow "dgemm 16384 1")"
say "dgemm 16384 on Everest: $((ns / 1000000)) ms, $(((h2d + p2p) / 1000000)) MB to devices"
[ $((h2d + p2p)) -le 13000000000 ] || fail "a product of order 16384 sends more than 13 GB on Everest: $((h2d + p2p))"
