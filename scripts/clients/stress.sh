#!/bin/bash
# tests/stress/stress.c over many seeds, a third each in the simulator's normal, late and poison mode, on one to three
# small devices, with two settings of SEMCACHE_GATE: the result must be that of the plain run. Over all runs, faults,
# evictions, false sharing and re-used addresses must each have happened often; otherwise the runs would prove little.
#
#   stress.sh [--quick] [SEEDS [FIRST]]      default 1000 seeds from 1; --quick: 15, for the fuzzer does more of the kind
set -euo pipefail
. "$(dirname "$0")/../setting.sh"
quick='' often=1000
[ "${1:-}" = --quick ] && quick=1 && shift
seeds=${1:-1000} first=${2:-1}
[ -n "$quick" ] && seeds=15
[ "$seeds" -ge 1000 ] || often=$((seeds > 20 ? seeds / 2 : 1))
build
dir=$(fresh stress)
obtain "$dir/stress" gcc -O2 -g -Wall -Wextra -o "$dir/stress" "$ROOT/tests/stress/stress.c" -lblas -lpthread -lm
clients_built
export OPENBLAS_NUM_THREADS=1
modes=("" late poison) gates=(auto wp-async)
simulated || modes=("")
reused=0
for ((seed = first; seed < first + seeds; seed++)); do
    gate=${gates[seed / 9 % 2]} mode=${modes[seed % ${#modes[@]}]} devices=$(machine $((seed / 3 % 3 + 1)))
    plain=$("$dir/stress" "$seed" 2>/dev/null) || fail "seed $seed: plain run"
    setting=("${HARD[@]}" "SEMCACHE_DEVICES=$devices" "SEMCACHE_MEMORY=${STRESS_MEMORY:-512KiB}" "SEMCACHE_GATE=$gate")
    if simulated; then setting+=("SEMCACHE_SIM=${mode:+$mode,}seed=$seed"); fi
    status=0
    ours=$(preloaded "$dir/reports/$((seed / 100))" "${setting[@]}" -- timeout -s ABRT "$HANG" "$dir/stress" "$seed" 2>"$dir/stderr") || status=$?
    if [ "$status" != 0 ] || [ "$plain" != "$ours" ]; then
        cat "$dir/stderr"
        printf 'plain:   %s\nunder us: %s (status %s)\nagain:   %s LD_PRELOAD=%s %s %s\n' "$plain" "$ours" "$status" \
            "${setting[*]}" "$LIBRARY" "$dir/stress" "$seed" >&2
        fail "seed $seed"
    fi
    n=$(sed -n 's/^reused //p' "$dir/stderr")
    reused=$((reused + n))
done
say "stress: $seeds seeds from $first equal to plain; re-used addresses $reused"
sum "$dir/reports" offloaded "faults>$often" "cache.evictions>$often" "faults.false_sharing>$often" "gate.scans>$often"
[ "$reused" -gt "$often" ] || fail "only $reused re-used addresses, $often wanted"
