#!/bin/bash
# Times in reports: what a report says that BLAS calls took is what the program measures itself around its calls, wherever they
# run, and however they are timed.
#
#   time.sh [--quick]     --quick: half a second a program in place of three
set -euo pipefail
. "$(dirname "$0")/../setting.sh"
seconds=3
[ "${1:-}" = --quick ] && seconds=0.5
build
dir=$(fresh time)
obtain "$dir/timed" gcc -O2 -g -Wall -Wextra -o "$dir/timed" "$ROOT/tests/clients/timed.c" -lblas
clients_built
cd "$dir"
export OPENBLAS_NUM_THREADS=1
devices=$(machine 2)

# near NAME SHARE KEY... -- VAR=VALUE... -- ARGS...: runs the program; the report's time differs by this share at most from what
# the program says, and these keys are a tenth of it at least. Of three tries one is enough, as other processes may get in between.
near() {
    local name=$1 share=$2 keys=() variables=() try
    shift 2
    while [ "$1" != -- ]; do keys+=("$1") && shift; done
    shift
    while [ "$1" != -- ]; do variables+=("$1") && shift; done
    shift
    for try in 1 2 3; do
        rm -f report.json
        env "SEMCACHE_DEVICES=$devices" "${variables[@]}" "${WITHIN[@]}" "$COMMAND" run --report report.json ./timed "$@" \
            >out 2>line || fail "$name: $(cat line)"
        if python3 - out report.json line "$share" "${keys[@]}" >told <<'EOF'; then
import json, sys
out, report, line, share, *keys = sys.argv[1:]
said, core = (float(line.split()[1]) for line in open(out).readlines()[:2])
# Small calls are timed by sampling, of which half a second has about fifty samples, and which hardly sees what other programs take of
# the cores.
share = float(share) + ((0.15 if core >= 0.97 else 0.4) if keys == ["host_sampled_s"] else 0)
time = json.load(open(report))["time"]
parts = [k for k in time if k.endswith("_s") and k not in ("blas_s", "wall_s", "plain_estimate_s", "faults_kernels_s", "faults_transfers_s")]
total = sum(time[k] for k in parts)
routines = sum(v for r in time["routines"].values() for k, v in r.items() if k in parts)
print(f"{said:.3f} s, reported {time['blas_s']:.3f} s:", ", ".join(f"{k} {time[k]:.3f}" for k in parts if time[k] > 0.001))
assert abs(total - time["blas_s"]) < 1e-6 and abs(routines + time["faults_s"] - total) < 1e-6, "the parts do not add up"
sampled = time["host_sampled_s"]
assert time["blas_s"] - sampled <= time["wall_s"] * 1.01, "more than the program ran"
assert all(time[k] >= 0.1 * said for k in keys), f"too little of {keys}"
assert open(line).read().splitlines()[-1].startswith("semcache: BLAS took "), "the closing line does not lead with it"
# A sample stands for calls whose times differ.
sys.exit(0 if abs(time["blas_s"] / said - 1) <= share and time["blas_s"] <= time["wall_s"] * 1.05 else 3)
EOF
            say "$name: $(cat told)"
            return 0
        else
            [ $? = 3 ] || fail "$name: $(cat told)"
        fi
    done
    fail "$name: not within $share: $(cat told)"
}

near 'large calls on the host' 0.05 host_s -- SEMCACHE_OFFLOAD=never -- large $seconds
near 'large calls on devices' 0.05 -- SEMCACHE_OFFLOAD=always -- large $seconds
near 'large calls on devices, late' 0.05 -- SEMCACHE_OFFLOAD=always $(simulated && echo SEMCACHE_SIM=late) -- large $seconds
near 'large calls in small pieces' 0.05 -- "${HARD[@]}" SEMCACHE_TILE=128 -- large $seconds
near 'small calls' 0.05 host_sampled_s -- SEMCACHE_OFFLOAD=never -- small $seconds
# These take 2 us each, and the entry of the library is a part of that.
near 'small calls on devices' 0.1 -- "${HARD[@]}" -- small $seconds
near 'small calls and arithmetic of its own' 0.05 host_sampled_s -- SEMCACHE_OFFLOAD=never -- apart $seconds
# A call that is left by a jump, after next to no time, counts as the others of its routine, as far as time has passed.
near 'jumps out of calls' 1.2 host_sampled_s -- SEMCACHE_OFFLOAD=never -- jump $seconds
