#!/bin/bash
# MPI programs under the hard setting, 2 and 4 ranks on this machine, with Debian's Open MPI and MPICH: one that sends from and
# receives into the operands of BLAS calls (tests/edge/ranks.c); one that does so with every function of MPI
# (tests/mpi/functions.c); random ones, also such that abort, are killed, or leave requests pending (tests/mpi/random.c);
# ScaLAPACK's testers of the PBLAS, of LU, Cholesky and orthogonal factorizations, least squares and inverses (Debian's
# scalapack-mpi-test); HPL (of Debian's hpcc); Quantum ESPRESSO's pw.x; a program that MPICH is linked into. Each
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
    # Open MPI 4 has the persistent collective functions of MPI 4 as extensions.
    extensions() { nm -D --defined-only --format=just-symbols "$1" | sed 's/@.*//' | grep -E '^P?MPIX_.*_init$' | grep -v _Barrier_ | sort; }
    extensions "$LIBRARY" >ours
    extensions /usr/lib/x86_64-linux-gnu/libmpi.so.40 >theirs
    cmp ours theirs || fail "the library wraps other extensions than Open MPI has"
    say "the table has all functions of Open MPI and MPICH"
fi

# same NAME KIND RANKS ASSERTION... -- PROGRAM ARGS...: output without times, and status, under each setting are those of the
# plain run. With ENDS=KIND the program does not end as it should, so the plain run's status may be any. Where the launcher kills ranks it
# is chance what they have printed, and there are no reports; if they leave without MPI_Finalize, whether MPICH's kills any.
same() {
    local name=$1 kind=$2 ranks=$3 assertions=() plain status list sim
    shift 3
    # shellcheck disable=SC2053 # a pattern
    [[ $name == ${ONLY:-*} ]] || return 0
    while [ "$1" != -- ]; do assertions+=("$1") && shift; done
    shift
    # without_times FILE: what has a decimal point in the testers' lines is times, MFLOPS, and residuals, which differ by rounding and are below
    # the threshold if the line says PASSED.
    without_times() { sed -E '/^(WALL|CPU ) /s/ +[0-9]+\.[0-9]*(E[-+][0-9]+)?//g; s/ +$//' "$1"; }
    plain=0
    launch "$kind" "$ranks" "$@" >"$name.raw" 2>"$name.stderr" || plain=$?
    [ $plain = 0 ] || { [ -n "${ENDS:-}" ] && [ $plain != 124 ]; } || { cat "$name.raw" "$name.stderr"; fail "$name plainly: status $plain"; }
    without_times "$name.raw" >"$name.plain"
    for setting in "${devices[@]}"; do
        read -r list sim <<<"$setting"
        mkdir -p "reports/$name"
        status=0
        launch "$kind" "$ranks" env "${HARD[@]}" "SEMCACHE_DEVICES=$list" "SEMCACHE_SIM=${sim#-}" \
            "SEMCACHE_REPORT=$dir/reports/$name/%p.json" "LD_PRELOAD=$LIBRARY" "$@" >"$name.raw" 2>"$name.stderr" || status=$?
        without_times "$name.raw" >"$name.out"
        [[ ${ENDS:-} != @(abort|kill|leave) ]] || cp "$name.plain" "$name.out"
        [ "${ENDS:-}" != leave ] || [ $status = 124 ] || status=$plain
        if [ $status != $plain ] || ! cmp -s "$name.plain" "$name.out"; then
            diff "$name.plain" "$name.out" | head -20 || true
            cat "$name.stderr"
            fail "$name under $setting: status $status, plainly $plain"
        fi
        if grep -q 'semcache: ' "$name.stderr"; then
            cat "$name.stderr"
            fail "$name under $setting: lines on stderr"
        fi
    done
    say "$name: as plain"
    [[ ${ENDS:-} != @(abort|kill|leave) ]] || return 0
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
    # MPICH 4.0 hangs in these at times.
    [ -n "$quick" ] || same "persistent_openmpi_$n" openmpi $n "${closed[@]}" -- ./functions.openmpi persistent
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

# HPL, with three factorizations of panels and recursions, two broadcasts, and with look-ahead; the program also runs other benchmarks. Residuals differ by
# rounding; whether they are below the threshold is said in a line.
hpl() {
    local setting list sim
    [[ hpl == ${ONLY:-*} ]] || return 0
    mkdir -p hpl
    (
        cd hpl
        cat >hpccinf.txt <<'END'
HPLinpack benchmark input file

HPL.out      output file
8            device out
1            number of N
250          N
1            number of NB
80           NB
0            row-major mapping of processes
1            number of grids
2            P
2            Q
16.0         threshold
3            number of PFACT
0 1 2        left, Crout, right
1            number of NBMIN
4            NBMIN
1            number of NDIV
2            NDIV
3            number of RFACT
0 1 2        left, Crout, right
2            number of BCAST
0 5          1ring, long modified
2            number of DEPTH
0 1          look-ahead
2            SWAP: mix
64           threshold
0            L1 transposed
0            U transposed
1            equilibration
8            alignment
# further sizes of PTRANS
0            number of N
1
0            number of NB
1
END
        told() { grep -E 'tests (completed|skipped)|^Success=|Errors=' hpccoutf.txt; }
        launch openmpi 4 hpcc >raw 2>stderr || { cat raw stderr; fail "hpl plainly"; }
        told >plain
        grep -q ' 36 tests completed and passed' plain || { cat plain; fail "hpl plainly: not all residuals passed"; }
        for setting in "${devices[@]}"; do
            read -r list sim <<<"$setting"
            rm -f hpccoutf.txt
            launch openmpi 4 env "${HARD[@]}" "SEMCACHE_DEVICES=$list" "SEMCACHE_SIM=${sim#-}" "SEMCACHE_REPORT=$dir/reports/hpl/%p.json" \
                "LD_PRELOAD=$LIBRARY" hpcc >raw 2>stderr || { cat raw stderr; fail "hpl under $setting"; }
            told >out
            cmp plain out || { diff plain out | head -20; fail "hpl under $setting"; }
        done
    )
    say "hpl: as plain"
    sum reports/hpl "${closed[@]}" degraded.mpi==0
}
[ -n "$quick$PREBUILT" ] || { mkdir -p reports/hpl && hpl; }

# Quantum ESPRESSO: the energy of eight atoms of silicon after each step, to the last digit that is printed. The package has no
# pseudopotentials; its ld1.x makes one.
espresso() {
    local ranks setting list sim
    [[ espresso == ${ONLY:-*} ]] || return 0
    "$ROOT/scripts/setup.sh" espresso
    mkdir -p espresso reports/espresso
    (
        cd espresso
        ld1.x <"$ROOT/tests/mpi/espresso/si.ld1" >ld1.out || { cat ld1.out; fail "ld1.x"; }
        energies() { grep -E '^!? +total energy  ' raw | sed 's/ \+/ /g'; }
        for ranks in 2 4; do
            launch openmpi $ranks pw.x -in "$ROOT/tests/mpi/espresso/si.in" >raw 2>stderr || { cat raw stderr; fail "pw.x plainly"; }
            energies >plain
            [ "$(wc -l <plain)" -ge 5 ] || { cat raw; fail "pw.x plainly: no energies"; }
            for setting in "${devices[@]}"; do
                read -r list sim <<<"$setting"
                launch openmpi $ranks env "${HARD[@]}" "SEMCACHE_DEVICES=$list" "SEMCACHE_SIM=${sim#-}" \
                    "SEMCACHE_REPORT=$dir/reports/espresso/%p.json" "LD_PRELOAD=$LIBRARY" pw.x -in "$ROOT/tests/mpi/espresso/si.in" >raw 2>stderr ||
                    { cat raw stderr; fail "pw.x, $ranks ranks under $setting"; }
                energies >ours
                cmp plain ours || { diff plain ours; fail "pw.x, $ranks ranks under $setting"; }
            done
        done
    )
    say "espresso: as plain"
    sum reports/espresso "${closed[@]}" degraded.mpi==0
}
[ -n "$quick$PREBUILT" ] || espresso

# Random programs: SEED: on four ranks; every third one with three threads in each. Each under one of the settings.
settings=("${devices[@]}")
seeds=${SEEDS:-$([ -n "$quick" ] && echo 6 || echo 2000)}
for ((seed = ${FIRST:-1}; seed < ${FIRST:-1} + seeds; seed++)); do
    kind=${kinds[seed % ${#kinds[@]}]}
    devices=("${settings[seed / 2 % ${#settings[@]}]}")
    same "random_$seed" "$kind" 4 offloaded -- "./random.$kind" "$seed" 40 $((seed % 3 ? 1 : 3)) >/dev/null
done
devices=("${settings[@]}")
[ -n "${ONLY:-}" ] || say "$seeds random programs: as plain"

# Programs that end otherwise than by MPI_Finalize with nothing pending.
for kind in "${kinds[@]}"; do
    for ends in abort kill pending leave; do
        ENDS=$ends same "ends_${ends}_$kind" "$kind" 4 offloaded -- "./random.$kind" 5 end $ends
    done
done

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

# The report names the places that gave MPI what devices held, also where Fortran's functions call those of C.
cat >places.f90 <<'END'
program places
    use mpi
    integer, parameter :: n = 200
    integer :: i, status
    double precision :: a(n, n), b(n, n), c(n, n)
    call mpi_init(status)
    a = 1
    b = 2
    do i = 1, 3
        call dgemm('n', 'n', n, n, n, 1d0, a, n, b, n, 0d0, c, n)
        call mpi_bcast(c, n * n, mpi_double_precision, 0, mpi_comm_world, status)
        if (c(i, 7) /= 2 * n) stop 1
    end do
    call mpi_finalize(status)
end program
END
for kind in "${kinds[@]}"; do
    "mpif90.$kind" -g -fallow-argument-mismatch -o places places.f90 -lblas
    mkdir -p "reports/places_$kind"
    launch "$kind" 2 env "${HARD[@]}" "SEMCACHE_DEVICES=$(machine 2)" "SEMCACHE_REPORT=$dir/reports/places_$kind/%p.json" "LD_PRELOAD=$LIBRARY" \
        ./places 2>places.stderr || { cat places.stderr; fail "places: status $?"; }
    "$COMMAND" report --by site "reports/places_$kind" >places.table
    grep -q '^ places\.f90:[0-9]* ([A-Za-z_]*) *MPI_Bcast  .* for [0-9]* buffers' places.table || { cat places.table; fail "no line for the broadcast"; }
    "$COMMAND" report --by site "reports/ranks_${kind}_2" >ranks.table
    grep -q '^ ranks\.c:[0-9]* (main) *MPI_Sendrecv ' ranks.table || { cat ranks.table; fail "no line for MPI_Sendrecv"; }
done
say "places that called MPI have lines"

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
[ "$(grep -c 'semcache: an MPI library is in use that is not known, or linked statically; results are written back at once' unknown.stderr)" = 1 ] ||
    { cat unknown.stderr; fail "an MPI that is not known: the line is missing"; }
sum reports/unknown offloaded degraded.mpi==1 cache.closes==0

# An MPI that is linked into the program.
for kind in "${kinds[@]}"; do
    [ "$kind" = mpich ] || continue
    mpicc.mpich -O2 -Wno-stringop-overflow -I "$ROOT/tests/edge" -o ranks.linked "$ROOT/tests/edge/ranks.c" \
        -l:libmpich.a -lblas -lm -lpthread -lhwloc -lucp -lucs
    ! ldd ranks.linked | grep -q libmpich || fail "ranks.linked is linked with the shared library"
    launch mpich 2 ./ranks.linked >linked.plain
    mkdir -p reports/linked
    launch mpich 2 env "${HARD[@]}" "SEMCACHE_DEVICES=$(machine 2)" "SEMCACHE_REPORT=$dir/reports/linked/%p.json" "LD_PRELOAD=$LIBRARY" \
        ./ranks.linked >linked.out 2>linked.stderr
    cmp linked.plain linked.out
    grep -q 'is not known, or linked statically; results are written back at once' linked.stderr || fail "an MPI that is linked into the program: no line"
    sum reports/linked offloaded degraded.mpi==2 cache.closes==0
    say "an MPI that is linked into the program is noticed"
done
