#!/bin/bash
# Armadillo, Eigen with EIGEN_USE_BLAS, and CHOLMOD's supernodal factorisation: the programs in tests/clients must print
# under the hard setting what they print in a plain run.
#
#   cxx.sh [--quick]     --quick: two settings instead of six, a smaller grid for CHOLMOD
set -euo pipefail
. "$(dirname "$0")/../setting.sh"
settings=("1 seed=1" "2 seed=2" "1 late,seed=3" "2 late,seed=4" "1 poison,seed=5" "2 poison,seed=6") grid=16
if [ "${1:-}" = --quick ]; then settings=("1 seed=1" "2 late,seed=2") grid=12; fi
"$ROOT/scripts/setup.sh" cxx
build
dir=$(fresh cxx)
source=$ROOT/tests/clients
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
# These headers compile slowly, so the programs are not optimised, and compiled again only if the source is newer.
compiled() {
    local program=$TARGET/cxx/$1
    mkdir -p "$TARGET/cxx"
    [ "$program" -nt "$source/$1.cpp" ] || g++ -O0 -Wall -Wextra -o "$program" "$source/$1.cpp" "${@:2}"
    cp "$program" "$dir/$1"
}
compiled armadillo -DARMA_NO_DEBUG -larmadillo &
compiled eigen -isystem /usr/include/eigen3 -lblas &
wait
compiled cholmod -isystem /usr/include/suitesparse -lcholmod
clients_built
cd "$dir"

# same PROGRAM ARGS ASSERTION...: in every setting the program prints what it prints in a plain run.
same() {
    local name=$1 devices sim
    local -a words
    read -r -a words <<<"$2"
    shift 2
    "./$name" "${words[@]}" >"$name.plain" || fail "$name: plain run"
    for setting in "${settings[@]}"; do
        read -r devices sim <<<"$setting"
        preloaded "$dir/reports/$name" "${HARD[@]}" "SEMCACHE_DEVICES=$(machine "$devices")" "SEMCACHE_SIM=$sim" -- \
            "${WITHIN[@]}" "./$name" "${words[@]}" >"$name.out" 2>"$name.stderr" ||
            { cat "$name.stderr"; fail "$name under $setting: status $?"; }
        cmp -s "$name.plain" "$name.out" || { diff "$name.plain" "$name.out" || true; fail "$name under $setting"; }
    done
    say "$name: $(wc -l <"$name.plain") lines as plain"
    sum "$dir/reports/$name" offloaded cache.closes faults "$@"
}
same armadillo "" calls.{s,d,z}gemm.offloaded calls.dgemv.offloaded
same eigen "" calls.{s,d,c,z}gemm.offloaded calls.dgemv.offloaded
same cholmod "$grid" calls.dgemm.offloaded
