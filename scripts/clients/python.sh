#!/bin/bash
# Python's other BLAS clients, unmodified: SciPy and scikit-learn from PyPI and from Debian, Debian's NumPy and PyTorch.
# Their programs in tests/clients print what they print in a plain run; each of SciPy's own tests has the outcome of the
# plain run.
#
#   python.sh [--quick]     --quick: one setting instead of three, and of SciPy's tests those of its BLAS
set -euo pipefail
. "$(dirname "$0")/../setting.sh"
quick='' modes=("plain:" "late:late" "poison:poison")
[ "${1:-}" = --quick ] && quick=1 modes=("plain:")
simulated || modes=("plain:")
"$ROOT/scripts/setup.sh" python
build
dir=$(fresh python)
source=$ROOT/tests/clients
debian=/usr/bin/python3
# The results must not depend on the order in which threads finish.
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=2
cd "$dir"

# same NAME PYTHON PROGRAM ASSERTION...: in every setting the program prints what it prints in a plain run.
same() {
    local name=$1 python=$2 program=$3 mode
    shift 3
    "$python" "$program" >"$name.plain" 2>/dev/null || fail "$name: plain run"
    for devices in 1 2; do
        for mode in "${modes[@]}"; do
            preloaded "$dir/reports/$name" "${HARD[@]}" "SEMCACHE_DEVICES=$(machine $devices)" "SEMCACHE_SIM=${mode#*:}" -- \
                "${WITHIN[@]}" "$python" "$program" >"$name.out" 2>"$name.stderr" ||
                { cat "$name.stderr"; fail "$name: status $?"; }
            cmp -s "$name.plain" "$name.out" || { diff "$name.plain" "$name.out" || true; fail "$name under ${mode%%:*}"; }
        done
    done
    say "$name: $(wc -l <"$name.plain") lines as plain"
    sum "$dir/reports/$name" offloaded cache.closes faults "$@"
}
for from in pypi debian; do
    python=$PYTHON
    [ $from = pypi ] || python=$debian
    same "scipy.$from" "$python" "$source/scipy_linalg.py" calls.{s,d,c,z}gemm.offloaded calls.dgemv.offloaded
    same "sklearn.$from" "$python" "$source/sklearn_fits.py" calls.dgemm.offloaded
done
same numpy.debian $debian "$ROOT/scripts/clients/numpy_products.py" calls.{s,d,c,z}gem{m,v}.offloaded
same torch.debian $debian "$source/torch_tensors.py" calls.{s,d,c,z}gemm.offloaded calls.{s,d}gemv.offloaded

# A test that is expected to fail, on a singular matrix: its outcome depends on rounding.
rounding='test_maxiter_worsening[gmres]'

# own NAME LEAST MODULES ASSERTION...: runs SciPy's own tests; at least LEAST of them pass in the plain run.
own() {
    local name=$1 least=$2 passed part
    read -r -a part <<<"$3"
    shift 3
    local pytest=("$PYTHON" -m pytest -v --tb=short -p no:cacheprovider --pyargs "${part[@]}")
    "${pytest[@]}" >"$name.plain.log" 2>&1 || grep -q ' failed' "$name.plain.log" || { tail -5 "$name.plain.log"; fail "$name: plain run"; }
    outcomes "$name.plain.log" | grep -vF "$rounding" >"$name.expected"
    passed=$(grep -c PASSED "$name.expected")
    [ "$passed" -ge "$least" ] || fail "$name: only $passed passed in the plain run"
    SECONDS=0
    preloaded "$dir/reports/$name" "${HARD[@]}" "SEMCACHE_DEVICES=$(machine 2)" -- "${pytest[@]}" >"$name.log" 2>&1 || true # judged by its outcomes
    outcomes "$name.log" | grep -vF "$rounding" >"$name.outcomes"
    diff "$name.expected" "$name.outcomes" || { tail -30 "$name.log"; fail "$name: other outcomes than plain"; }
    say "scipy's tests (${part[*]}): $passed passed as plain, $SECONDS s"
    sum "$dir/reports/$name" "$@"
}
if [ -n "$quick" ]; then
    # These tests have no matrix as large as a page.
    own blas 200 "scipy.linalg.tests.test_blas scipy.linalg.tests.test_fblas" offloaded
else
    own linalg 8000 scipy.linalg offloaded cache.closes faults
    own sparse.linalg 4000 scipy.sparse.linalg offloaded cache.closes faults
fi
