#!/bin/bash
# MPI programs under the hard setting, 2 and 4 ranks on this machine, with Debian's Open MPI and MPICH: one that sends from and
# receives into the operands of BLAS calls (tests/edge/ranks.c); one that does so with every function of MPI
# (tests/mpi/functions.c); random ones (tests/mpi/random.c); ScaLAPACK's testers of the PBLAS, of LU, Cholesky
# and orthogonal factorizations, least squares and inverses (Debian's scalapack-mpi-test). Each
# rank prints what it prints in a plain run, except times, and uses a device chosen by its local rank.
#
#   mpi.sh [--quick]     --quick: of the programs some; 2 ranks for most
#   ONLY=NAME mpi.sh     of the programs those of this name (a shell pattern)
#   SEEDS=N mpi.sh       this number of random programs, from FIRST (1) on
set -euo pipefail
. "$(dirname "$0")/../setting.sh"
quick=''
[ "${1:-}" = --quick ] && quick=1
if [ -n "$PREBUILT" ]; then
    # Open MPI and the project's own programs lie there.
    dir=$(fresh mpi)
    cp "$BUILT_CLIENTS"/mpi/*.openmpi "$dir"
    . "$PREBUILT/mpi/env.sh"
    kinds=(openmpi)
    # Not files, of which the packed Open MPI has no plugins; nor windows in general: without process_vm_readv Open MPI has osc_pt2pt for
    # them, which fails in plain runs, too, or writes to memory that it has freed.
    groups=(p2p collective neighbours pack)
else
    "$ROOT/scripts/setup.sh" mpi
    build
    dir=$(fresh mpi)
    kinds=(openmpi mpich)
    groups=()
fi
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
# A rank that waits leaves its core to other ranks and processes.
export OMPI_MCA_mpi_yield_when_idle=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# No ssh, no network: all on this machine. UCX says on stderr what it does not find.
export OMPI_MCA_plm_rsh_agent='' OMPI_MCA_btl=self,vader UCX_LOG_LEVEL=fatal
for kind in "${kinds[@]}"; do
    [ -z "$PREBUILT" ] || break
    for program in edge/ranks mpi/functions mpi/random; do
        "mpicc.$kind" -O2 -g -Wall -Wextra -Wno-stringop-overflow -I "$ROOT/tests/edge" -o "$dir/${program#*/}.$kind" "$ROOT/tests/$program.c" -lblas -lm -lpthread
    done
done
clients_built
# launch KIND RANKS PROGRAM...
launch() {
    local mpirun=mpirun.$1
    [ -z "$PREBUILT" ] || mpirun=mpirun
    timeout "$HANG" "$mpirun" -n "${@:2}" </dev/null
}
testers=/usr/lib/x86_64-linux-gnu/scalapack/openmpi-tests
cd "$dir"
[ -n "$PREBUILT" ] || cp /usr/share/scalapack/*.dat /usr/share/scalapack/PBLAS/*.dat .
# One block size and one number of right sides instead of three: 12 tests instead of 240.
[ -n "$PREBUILT" ] || [ -z "$quick" ] || sed -Ei "s/^3(\t+number of (NB|NRHS|NBRHS)'s)|^3(\t+Number of NBRHS's)/1\1\3/" LU.dat
simulated && devices=("sim:2 late,poison,seed=2" "sim:1 seed=1") || devices=("$(machine 1) -" "$(machine 8) -")
simulated && at=0 || at=1
[ -z "$quick" ] || devices=("${devices[at]}")

# The table of MPI's functions has those that the libraries export, and the library wraps those that it says.
table=$ROOT/blas-shim/mpi.txt
if [ -z "${ONLY:-}$PREBUILT" ]; then
    exported() { nm -D --defined-only --format=just-symbols "$1" | sed 's/@.*//' | grep -E '^MPI_[A-Z].*[a-z]' | sort -u; }
    sed 's/#.*//' "$table" | awk 'NF { n = $1; large = sub("/c$", "", n); print "MPI_" n; if (large) print "MPI_" n "_c" }' | sort -u >names
    sed 's/#.*//' "$table" | awk 'NF && $2 != "none" { n = $1; large = sub("/c$", "", n); print "MPI_" n; if (large) print "MPI_" n "_c" }' | sort -u >hooked
    exported "$LIBRARY" >ours
    cmp hooked ours || fail "the library wraps other functions than $table says"
    for library in /usr/lib/x86_64-linux-gnu/libmpi.so.40 /usr/lib/x86_64-linux-gnu/libmpich.so.12; do
        exported "$library" >theirs
        [ "$(wc -l <theirs)" -gt 400 ] || fail "$library has only $(wc -l <theirs) functions"
        # Names of capitals are callbacks of the standard; others with MPI_F are helpers of the Fortran bindings.
        comm -23 theirs names | grep -vE '^MPI_F(_|08_)' >unknown || true
        [ ! -s unknown ] || fail "$library has functions that $table does not have: $(xargs <unknown)"
    done
    say "the table has all functions of Open MPI and MPICH"
fi

# same NAME KIND RANKS ASSERTION... -- PROGRAM ARGS...: output without times, and status, under each setting are those of the
# plain run.
same() {
    local name=$1 kind=$2 ranks=$3 assertions=() status list sim
    shift 3
    # shellcheck disable=SC2053 # a pattern
    [[ $name == ${ONLY:-*} ]] || return 0
    while [ "$1" != -- ]; do assertions+=("$1") && shift; done
    shift
    # without_times FILE: what has a decimal point in the testers' lines is times, MFLOPS, and residuals, which differ by rounding and are below
    # the threshold if the line says PASSED.
    without_times() { sed -E '/^(WALL|CPU ) /s/ +[0-9]+\.[0-9]*(E[-+][0-9]+)?//g; s/ +$//' "$1"; }
    status=0
    launch "$kind" "$ranks" "$@" >"$name.raw" 2>"$name.stderr" || status=$?
    [ $status = 0 ] || { cat "$name.raw" "$name.stderr"; fail "$name plainly: status $status"; }
    without_times "$name.raw" >"$name.plain"
    for setting in "${devices[@]}"; do
        read -r list sim <<<"$setting"
        mkdir -p "reports/$name"
        status=0
        launch "$kind" "$ranks" env "${HARD[@]}" "SEMCACHE_DEVICES=$list" "SEMCACHE_SIM=${sim#-}" \
            "SEMCACHE_REPORT=$dir/reports/$name/%p.json" "LD_PRELOAD=$LIBRARY" "$@" >"$name.raw" 2>"$name.stderr" || status=$?
        without_times "$name.raw" >"$name.out"
        if [ $status != 0 ] || ! cmp -s "$name.plain" "$name.out"; then
            diff "$name.plain" "$name.out" | head -20 || true
            cat "$name.stderr"
            fail "$name under $setting: status $status"
        fi
        if grep -q 'semcache: ' "$name.stderr"; then
            cat "$name.stderr"
            fail "$name under $setting: lines on stderr"
        fi
    done
    say "$name: as plain"
    sum "reports/$name" "${assertions[@]}" degraded.mpi==0
}

# What was communicated lay on pages that were closed.
closed=(offloaded cache.closes mpi.buffers mpi.opened)
for n in 2 4; do
    for kind in "${kinds[@]}"; do
        same "ranks_${kind}_$n" "$kind" $n "${closed[@]}" -- "./ranks.$kind"
        # Pages were inaccessible when MPI was initialised.
        same "early_${kind}_$n" "$kind" $n "${closed[@]}" -- "./ranks.$kind" early
        # With four ranks in its full length only.
        [ "$n$quick" = 41 ] || same "functions_${kind}_$n" "$kind" $n "${closed[@]}" faults -- "./functions.$kind" "${groups[@]}"
    done
    [ -z "$PREBUILT" ] || continue
    # With two ranks only a grid of one process fits.
    [ "$n" = 2 ] || same "dlu_$n" openmpi $n offloaded -- "$testers/xdlu"
    same "pblas3_d_$n" openmpi $n "${closed[@]}" -- "$testers/PBLAS/dpb3tst"
    [ -z "$quick" ] || continue
    for type in s c z; do
        same "${type}lu_$n" openmpi $n offloaded -- "$testers/x${type}lu"
        same "pblas3_${type}_$n" openmpi $n "${closed[@]}" -- "$testers/PBLAS/${type}pb3tst"
    done
    for type in s d c z; do
        same "pblas1_${type}_$n" openmpi $n -- "$testers/PBLAS/${type}pb1tst"
        same "pblas2_${type}_$n" openmpi $n offloaded -- "$testers/PBLAS/${type}pb2tst"
        # With four ranks the tester does not end, in a plain run neither.
        [ "$n" = 4 ] || same "${type}llt_$n" openmpi $n offloaded -- "$testers/x${type}llt"
        for name in qr ls inv; do same "${type}${name}_$n" openmpi $n offloaded -- "$testers/x$type$name"; done
    done
done

# Random programs: SEED: on four ranks; every third one with three threads in each.
seeds=${SEEDS:-$([ -n "$quick" ] && echo 6 || echo 2000)}
for ((seed = ${FIRST:-1}; seed < ${FIRST:-1} + seeds; seed++)); do
    kind=${kinds[seed % ${#kinds[@]}]}
    same "random_$seed" "$kind" 4 offloaded -- "./random.$kind" "$seed" 40 $((seed % 3 ? 1 : 3)) >/dev/null
done
[ -n "${ONLY:-}" ] || say "$seeds random programs: as plain"

# shares RANKS DEVICES VAR=VALUE... -- EXPECTED: the devices of all ranks together, sorted, are EXPECTED.
shares() {
    local ranks=$1 list=$2 variables=()
    shift 2
    while [ "$1" != -- ]; do variables+=("$1") && shift; done
    shift
    rm -rf reports/shares && mkdir -p reports/shares
    launch openmpi "$ranks" env "${HARD[@]}" "${variables[@]}" "SEMCACHE_DEVICES=$list" "SEMCACHE_REPORT=$dir/reports/shares/%p.json" \
        "LD_PRELOAD=$LIBRARY" ./ranks.openmpi >/dev/null 2>&1
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
[ -z "${ONLY:-}$PREBUILT" ] || exit 0

# A job of one rank.
for kind in "${kinds[@]}"; do
    "./ranks.$kind" >alone.plain
    preloaded "reports/alone_$kind" "${HARD[@]}" "SEMCACHE_DEVICES=$(machine 1)" -- "./ranks.$kind" >alone.out
    cmp alone.plain alone.out
    sum "reports/alone_$kind" offloaded cache.closes faults mpi.buffers degraded.mpi==0
done

# An MPI that is not known: page protection ends, which is said once.
cat >unknown.c <<'END'
int MPI_Init(int *argc, char ***argv) { (void)argc, (void)argv; return 0; }
END
gcc -shared -fPIC -o libunknown.so unknown.c
cat >uses_unknown.c <<'END'
int MPI_Init(int *, char ***);
double ddot_(const int *, const double *, const int *, const double *, const int *);
void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *, const int *,
            const double *, const int *, const double *, double *, const int *);
static double a[200 * 200], b[200 * 200];
int main(void)
{
    int n = 200;
    double one = 1, zero = 0;
    MPI_Init(0, 0);
    for (int i = 0; i < 3; i++)
        dgemm_("n", "n", &n, &n, &n, &one, a, &n, a, &n, &zero, b, &n);
    return b[17] != 0;
}
END
gcc -o uses_unknown uses_unknown.c -L. -lunknown -lblas -Wl,-rpath,"$dir"
preloaded reports/unknown "${HARD[@]}" "SEMCACHE_DEVICES=$(machine 1)" -- ./uses_unknown 2>unknown.stderr
[ "$(grep -c 'semcache: an MPI library is in use that is not known; results are written back at once' unknown.stderr)" = 1 ] ||
    { cat unknown.stderr; fail "an MPI that is not known: the line is missing"; }
sum reports/unknown offloaded degraded.mpi==1 cache.closes==0
