#!/bin/bash
# MPI programs under the hard setting, 2 and 4 ranks on this machine: one that sends from and receives into the operands
# of BLAS calls (tests/edge/ranks.c), and ScaLAPACK's testers of the PBLAS, of LU, Cholesky
# and orthogonal factorizations, least squares and inverses (Debian's scalapack-mpi-test). Each rank
# prints what it prints in a plain run, except times, and uses a device chosen by its local rank.
#
#   mpi.sh [--quick]     --quick: the PBLAS's level 3 and LU in double precision
#   ONLY=NAME mpi.sh     of the programs those of this name (a shell pattern)
set -euo pipefail
. "$(dirname "$0")/../setting.sh"
# There is no mpirun on the machines for which programs are built in advance.
[ -z "$PREBUILT" ] || { say "mpi: not on this machine"; exit 0; }
quick=''
[ "${1:-}" = --quick ] && quick=1
build
dir=$(fresh mpi)
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
# A rank that waits leaves its core to other ranks and processes.
export OMPI_MCA_mpi_yield_when_idle=1
export MPICC_CC=gcc OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# No ssh, no network: all on this machine.
export OMPI_MCA_plm_rsh_agent='' OMPI_MCA_btl=self,vader
mpicc -O2 -g -Wall -Wextra -o "$dir/ranks" "$ROOT/tests/edge/ranks.c" -lblas -lm
clients_built
testers=/usr/lib/x86_64-linux-gnu/scalapack/openmpi-tests
cd "$dir"
cp /usr/share/scalapack/*.dat /usr/share/scalapack/PBLAS/*.dat .
# One block size and one number of right sides instead of three: 12 tests instead of 240.
[ -z "$quick" ] || sed -Ei "s/^3(\t+number of (NB|NRHS|NBRHS)'s)|^3(\t+Number of NBRHS's)/1\1\3/" LU.dat
simulated && devices=("sim:2 late,poison,seed=2" "sim:1 seed=1") || devices=("$(machine 1) -" "$(machine 8) -")
[ -z "$quick" ] || devices=("${devices[0]}")

# same NAME RANKS ASSERTION... -- PROGRAM ARGS...: output without times, and status, under each setting are those of the
# plain run.
same() {
    local name=$1 ranks=$2 assertions=() status list sim
    shift 2
    # shellcheck disable=SC2053 # a pattern
    [[ $name == ${ONLY:-*} ]] || return 0
    while [ "$1" != -- ]; do assertions+=("$1") && shift; done
    shift
    # without_times FILE: what has a decimal point in the testers' lines is times, MFLOPS, and residuals, which differ by rounding and are below
    # the threshold if the line says PASSED.
    without_times() { sed -E '/^(WALL|CPU ) /s/ +[0-9]+\.[0-9]*(E[-+][0-9]+)?//g; s/ +$//' "$1"; }
    status=0
    timeout "$HANG" mpirun -n "$ranks" "$@" >"$name.raw" 2>"$name.stderr" </dev/null || status=$?
    [ $status = 0 ] || { cat "$name.raw" "$name.stderr"; fail "$name plainly: status $status"; }
    without_times "$name.raw" >"$name.plain"
    for setting in "${devices[@]}"; do
        read -r list sim <<<"$setting"
        mkdir -p "reports/$name"
        status=0
        timeout "$HANG" mpirun -n "$ranks" env "${HARD[@]}" "SEMCACHE_DEVICES=$list" "SEMCACHE_SIM=${sim#-}" \
            "SEMCACHE_REPORT=$dir/reports/$name/%p.json" "LD_PRELOAD=$LIBRARY" "$@" >"$name.raw" 2>"$name.stderr" </dev/null || status=$?
        without_times "$name.raw" >"$name.out"
        if [ $status != 0 ] || ! cmp -s "$name.plain" "$name.out"; then
            diff "$name.plain" "$name.out" | head -20 || true
            cat "$name.stderr"
            fail "$name under $setting: status $status"
        fi
        # One line for the whole job.
        if [ "$(grep -c 'semcache: ' "$name.stderr")" != 1 ] || ! grep -q 'semcache: MPI is in use; results are written back at once' "$name.stderr"; then
            cat "$name.stderr"
            fail "$name under $setting: the one line is missing, or there are others"
        fi
    done
    say "$name: as plain"
    sum "reports/$name" "${assertions[@]}" "reports==$((ranks * ${#devices[@]}))" degraded.mpi
}

for n in 2 4; do
    same "ranks_$n" $n offloaded "degraded.mpi==$((n * ${#devices[@]}))" -- ./ranks
    # Pages were inaccessible when MPI was initialised.
    same "early_$n" $n offloaded cache.closes "degraded.mpi==$((n * ${#devices[@]}))" -- ./ranks early
    # With two ranks only a grid of one process fits.
    [ "$n" = 2 ] || same "dlu_$n" $n offloaded -- "$testers/xdlu"
    same "pblas3_d_$n" $n offloaded -- "$testers/PBLAS/dpb3tst"
    [ -z "$quick" ] || continue
    for type in s c z; do
        same "${type}lu_$n" $n offloaded -- "$testers/x${type}lu"
        same "pblas3_${type}_$n" $n offloaded -- "$testers/PBLAS/${type}pb3tst"
    done
    for type in s d c z; do
        same "pblas1_${type}_$n" $n -- "$testers/PBLAS/${type}pb1tst"
        same "pblas2_${type}_$n" $n offloaded -- "$testers/PBLAS/${type}pb2tst"
        # With four ranks the tester does not end, in a plain run neither.
        [ "$n" = 4 ] || same "${type}llt_$n" $n offloaded -- "$testers/x${type}llt"
        for name in qr ls inv; do same "${type}${name}_$n" $n offloaded -- "$testers/x$type$name"; done
    done
done

# shares RANKS DEVICES VAR=VALUE... -- EXPECTED: the devices of all ranks together, sorted, are EXPECTED.
shares() {
    local ranks=$1 list=$2 variables=()
    shift 2
    while [ "$1" != -- ]; do variables+=("$1") && shift; done
    shift
    rm -rf reports/shares && mkdir -p reports/shares
    timeout "$HANG" mpirun -n "$ranks" env "${HARD[@]}" "${variables[@]}" "SEMCACHE_DEVICES=$list" "SEMCACHE_REPORT=$dir/reports/shares/%p.json" \
        "LD_PRELOAD=$LIBRARY" ./ranks >/dev/null 2>&1 </dev/null
    # Each report has the sum of its processes before the process.
    found=$(awk 'FNR == 1 { sum = 1 } /"processes": \[/ { sum = 0 } sum' reports/shares/*.json | grep -o '"sim[0-9]* (' | tr -dc '0-9\n' | sort -n | tr '\n' ' ')
    [ "$found" = "$1 " ] || fail "$ranks ranks on $list: devices $found, expected $1"
}
if simulated && [ -z "${ONLY:-}" ]; then
    shares 2 sim:2 -- "0 1"
    shares 2 sim:3 -- "0 1 2"
    [ -n "$quick" ] || shares 4 sim:2 -- "0 0 1 1"
    [ -n "$quick" ] || shares 4 sim:1 -- "0 0 0 0"
    shares 2 sim:2 SEMCACHE_RANKS=all -- "0 0 1 1"
    say "ranks share the devices out"
fi
# A job of one rank shares its memory with no other process: pages are protected as in any program.
[ -z "${ONLY:-}" ] || exit 0
./ranks >alone.plain
preloaded reports/alone "${HARD[@]}" "SEMCACHE_DEVICES=$(machine 1)" -- ./ranks >alone.out
cmp alone.plain alone.out
sum reports/alone offloaded cache.closes faults degraded.mpi==0
