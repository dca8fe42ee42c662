#!/bin/bash
# NumPy from PyPI, unmodified: products in four types are offloaded and right; the tests of numpy.linalg, and those of
# dot, matmul and einsum, have under the hard setting, in the simulator's modes, the same outcomes as in the plain run.
#
#   numpy.sh [--quick]           --quick: part of numpy.linalg, in the plain mode only
set -euo pipefail
. "$(dirname "$0")/../setting.sh"
quick='' modes=("plain:" "late:late" "poison:poison") part=() least=300
if [ "${1:-}" = --quick ]; then
    quick=1
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

# Python's ways to make processes. Spawned processes load NumPy anew, which takes most of the time.
methods=(spawn)
[ -n "$quick" ] || methods=(spawn forkserver)
# One thread: OpenBLAS's own threads wait for each other without end if the process forks while they compute.
OPENBLAS_NUM_THREADS=1 timeout "$HANG" "$python" "$here/multiprocessing_products.py" "${methods[@]}" >"$dir/processes.plain" || fail "processes: plain run"
preloaded "$dir/processes" "${HARD[@]}" "SEMCACHE_DEVICES=$(machine 2)" OPENBLAS_NUM_THREADS=1 -- timeout -s ABRT "$HANG" \
    "$python" "$here/multiprocessing_products.py" "${methods[@]}" >"$dir/processes.out" || fail "processes: status"
diff "$dir/processes.plain" "$dir/processes.out" || fail "processes: other output than plain"
say "numpy in processes by fork ${methods[*]}: as plain"
sum "$dir/processes" offloaded cache.closes faults "reports>2"

# own NAME LEAST PYTEST-ARGUMENT...: runs NumPy's own tests in every mode; at least LEAST of them pass in the plain run.
own() {
    local name=$1 least=$2 passed mode run
    shift 2
    local pytest=("$python" -m pytest -v --tb=short -p no:cacheprovider "$@")
    cd "$dir"
    "${pytest[@]}" >"$name.plain.log" 2>&1 || grep -q ' failed' "$name.plain.log" || fail "$name: plain run"
    outcomes "$name.plain.log" >"$name.expected"
    passed=$(grep -c PASSED "$name.expected")
    [ "$passed" -ge "$least" ] || fail "$name: only $passed passed in the plain run"
    for mode in "${modes[@]}"; do
        run=$name.${mode%%:*}.hard
        SECONDS=0
        preloaded "$dir/$run" "${HARD[@]}" "SEMCACHE_DEVICES=$(machine 2)" "SEMCACHE_SIM=${mode#*:}" -- \
            "${pytest[@]}" >"$run.log" 2>&1 || true # judged by its outcomes
        outcomes "$run.log" >"$run.outcomes"
        diff "$name.expected" "$run.outcomes" || { tail -30 "$run.log"; fail "$run: other outcomes than plain"; }
        say "numpy $run: $passed passed as plain, $SECONDS s"
        sum "$dir/$run" offloaded cache.closes faults
    done
}
own linalg $least --pyargs numpy.linalg "${part[@]}"
[ -z "$quick" ] || exit 0
products="(dot or matmul or einsum or vdot or inner or tensordot or vecdot)"
# Without the tests of vectors of more than 2^31 elements, which take minutes and the memory of a large machine, and
# without test_dot_errstate, which expects dot to raise the exception flag of an invalid operation: calls that run on
# devices raise none (README).
own products 200 --pyargs numpy._core.tests.test_multiarray numpy._core.tests.test_numeric numpy._core.tests.test_einsum \
    -k "$products and not huge and not errstate"
