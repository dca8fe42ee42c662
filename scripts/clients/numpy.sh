#!/bin/bash
# NumPy from PyPI, unmodified: products in four types offloaded and right, and numpy.linalg's own tests
# under the hard setting, in the simulator's modes; outcomes test by test as in the plain run.
#
#   numpy.sh [--quick]           --quick: part of numpy.linalg, in the plain mode only
set -euo pipefail
. "$(dirname "$0")/../setting.sh"
modes=("plain:" "late:late" "poison:poison") part=() least=300
if [ "${1:-}" = --quick ]; then
    modes=("plain:") least=60
    part=(-k "Solve or Inv or MultiDot or MatrixPower or QR or Cholesky or Matmul or regression")
fi
build
here=$ROOT/scripts/clients
python=$PYTHON
command -v "$python" >/dev/null || fail "no $python: run scripts/setup.sh"
simulated || modes=("plain:")
dir=$(fresh numpy)

product_modes=("plain:" "late:late" "poison:poison")
simulated || product_modes=("plain:")
for devices in "$(machine 1)" "$(machine 2)"; do
    for mode in "${product_modes[@]}"; do
        run=products.$devices.${mode%%:*}
        preloaded "$dir/$run" SEMCACHE_OFFLOAD=always "SEMCACHE_DEVICES=$devices" "SEMCACHE_SIM=${mode#*:}" -- \
            "$python" "$here/numpy_products.py" || fail "$run"
        assertions=()
        for t in s d c z; do assertions+=("calls.${t}gemm.offloaded" "calls.${t}gemv.offloaded"); done
        say "numpy $run"
        sum "$dir/$run" "${assertions[@]}" cache.closes faults
    done
done

# One line per test: name and outcome.
outcomes() { grep -aE '^[^ ]+::.* (PASSED|FAILED|SKIPPED|ERROR|XFAIL|XPASS)' "$1" | sed 's/ *\[ *[0-9]*%\]//' | sort; }
pytest=("$python" -m pytest -v --tb=short -p no:cacheprovider --pyargs numpy.linalg "${part[@]}")

cd "$dir"
"${pytest[@]}" >"$dir/linalg.plain.log" 2>&1 || grep -q ' failed' "$dir/linalg.plain.log" || fail "plain run"
outcomes "$dir/linalg.plain.log" >"$dir/linalg.expected"
passed=$(grep -c PASSED "$dir/linalg.expected")
[ "$passed" -ge $least ] || fail "numpy.linalg: only $passed passed in the plain run"
for mode in "${modes[@]}"; do
    run=linalg.${mode%%:*}.hard
    SECONDS=0
    preloaded "$dir/$run" "${HARD[@]}" "SEMCACHE_DEVICES=$(machine 2)" "SEMCACHE_SIM=${mode#*:}" -- \
        "${pytest[@]}" >"$dir/$run.log" 2>&1 || true # judged by its outcomes
    outcomes "$dir/$run.log" >"$dir/$run.outcomes"
    diff "$dir/linalg.expected" "$dir/$run.outcomes" || { tail -30 "$dir/$run.log"; fail "$run: other outcomes than plain"; }
    say "numpy $run: $passed passed as plain, $SECONDS s"
    sum "$dir/$run" offloaded cache.closes faults
done
