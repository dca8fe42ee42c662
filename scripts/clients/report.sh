#!/bin/bash
# The report of a run: what several processes count is in it, however they end; places in the code and matrices with a planted fault
# are named; options and paths that are wrong are told before the program starts; names are escaped.
#
#   report.sh [--quick]      --quick: 200 processes instead of 10,000
set -euo pipefail
. "$(dirname "$0")/../setting.sh"
quick=''
[ "${1:-}" = --quick ] && quick=1
build
dir=$(fresh report)
obtain "$dir/counted" gcc -g -O1 -Wall -Wextra -o "$dir/counted" "$ROOT/tests/clients/counted.c" -lblas
obtain "$dir/planted" gcc -g -O1 -Wall -Wextra -o "$dir/planted" "$ROOT/tests/clients/planted.c" -llapack -lblas
obtain "$dir/planted_f" gfortran -g -O1 -o "$dir/planted_f" "$ROOT/tests/clients/planted.f90" -llapack -lblas
# 1,000 call sites.
many() {
    { echo 'extern double ddot_(const int *, const double *, const int *, const double *, const int *);'
      echo 'int main(void) { const int n = 4, one = 1; double x[4] = {1, 2, 3, 4}, s = 0;'
      for ((i = 0; i < 1000; i++)); do echo 's += ddot_(&n, x, &one, x, &one);'; done
      echo 'return s == 30000 ? 0 : 1; }'; } >"$dir/many.c"
    gcc -g -O0 -o "$dir/many" "$dir/many.c" -lblas
}
obtain "$dir/many" many
clients_built
cd "$dir"
export SEMCACHE_LIB=$LIBRARY SEMCACHE_OFFLOAD=always OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
SEMCACHE_DEVICES=$(machine 1)
export SEMCACHE_DEVICES
run() { timeout "$HANG" "$COMMAND" run "$@"; }
report() { "$COMMAND" report "$@"; }
# sums_up REPORT CALLS PROCESSES
sums_up() {
    local calls
    calls=$(report --print calls.dgemm.offloaded --print calls.dgemm.host "$1")
    [ $((${calls/ /+})) = "$2" ] || fail "$1: $calls calls, expected $2"
    report "$1" --assert "counted==$3" || fail "$1: not $3 processes: $(report --by process "$1")"
}

# 5 calls and 7 are 12, however the processes end.
number=0
ends() { # STATUS CALLS PROCESSES PROGRAM...: under the command, and preloaded
    local status=0 wanted=$1 calls=$2 processes=$3
    shift 3
    number=$((number + 1))
    run --report "run$number.json" -- "$@" >out 2>err || status=$?
    [ $status = "$wanted" ] || { cat err; fail "$*: status $status, expected $wanted"; }
    grep -q '^semcache: .*dgemm' err || { cat err; fail "$*: no closing line"; }
    sums_up "run$number.json" "$calls" "$processes"
    # The shell is the first process: it writes what a killed one counted.
    env SEMCACHE_REPORT="pre$number.json" LD_PRELOAD="$LIBRARY" sh -c '"$@"; :' sh "$@" >out 2>err || fail "$*, preloaded: $(cat err)"
    sums_up "pre$number.json" "$calls" "$processes"
    [ "$(find . -name "*$number.json.*" | wc -l)" = 0 ] || fail "$*: left over: $(ls ./*"$number".json.*)"
}
ends 0 12 2 ./counted 5 fork 7 exit
ends 0 12 2 ./counted 5 fork 7 _exit
ends 0 12 2 ./counted fork 5 kill 7
ends 0 12 2 ./counted 5 fork 7 term _exit
ends 0 12 2 ./counted 5 fork 7 exec
ends 137 12 2 ./counted 5 fork 7 kill kill
ends 143 12 2 ./counted 5 fork 7 _exit term
ends 0 12 2 ./counted 5 exec 7
ends 0 6 3 sh -c './counted 1; ./counted 2 kill; ./counted 3 _exit' 
ends 0 24 4 ./counted 5 fork 7 kill exec 5 fork 7 _exit
# Killed in the middle: what was counted by then.
run --report killed.json -- sh -c './counted 5 sleep & sleep 2; kill -9 $!; wait $!; ./counted 7' 2>err || fail "killed: $(cat err)"
sums_up killed.json 12 2
# By the terminal, and by a time limit.
status=0
run --report term.json -- timeout -s TERM 2 ./counted 5 sleep 2>err || status=$?
[ $status = 124 ] || fail "a time limit: status $status"
sums_up term.json 5 1
say "5 and 7 are 12: $number ways to end, under the command and preloaded"

# Pools of Python: by fork and by spawn.
if [ -z "$PREBUILT" ]; then
    cat >pool.py <<'P'
import multiprocessing, sys
import numpy as np

def work(n):
    a = np.ones((200, 200))
    for _ in range(n):
        a @ a
    return n

if __name__ == "__main__":
    work(5)
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        assert sum(pool.map(work, [3, 4], 1)) == 7
P
    for way in fork spawn forkserver; do
        run --report "pool_$way.json" -- "$PYTHON" pool.py $way 2>err || { cat err; fail "a pool by $way"; }
        calls=$(report --print calls.dgemm.offloaded --print calls.dgemm.host "pool_$way.json")
        [ $((${calls/ /+})) = 12 ] || fail "a pool by $way: $calls calls"
    done
    say "pools of Python by fork, spawn and a fork server: 12 calls"

    # MPI: the command around the launcher, and the launcher around the command; one report.
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_plm_rsh_agent='' \
        OMPI_MCA_btl=self,vader
    run --report around.json -- mpirun -n 4 ./counted 3 2>err || { cat err; fail "mpirun under the command"; }
    sums_up around.json 12 4
    timeout "$HANG" mpirun -n 4 "$COMMAND" run --report within.json -- ./counted 3 2>err || { cat err; fail "the command under mpirun"; }
    sums_up within.json 12 4
    timeout "$HANG" mpirun -n 4 env SEMCACHE_REPORT=ranks.json LD_PRELOAD="$LIBRARY" ./counted 3 2>err || { cat err; fail "ranks"; }
    sums_up ranks.json 12 4
    report --by process within.json | grep -c './counted 3' | grep -qx 4 || fail "not each rank has a line"
    for rank in 0 1 2 3; do
        report --json within.json | grep -q "\"rank\": $rank" || fail "no rank $rank"
    done
    say "4 ranks of MPI in both launch orders: one report"
fi

# Planted faults rank first, with file and line, and the sentence names the cause.
first() { # REPORT BY LINE TEXT: the first line of the table names the line of the source, and says the text
    local line
    line=$(report --by "$2" "$1" | sed -n 2p)
    [[ $line == *"$3"* && $line == *"$4"* ]] || { report --by "$2" "$1" | head -5; fail "$1 by $2: not $3, $4"; }
}
line_of() { grep -n "$2" "$ROOT/tests/clients/$1" | head -1 | cut -d: -f1; }
for fault in input page; do
    run --report "$fault.json" -- ./planted $fault >out 2>err || fail "planted $fault: $(cat err)"
    report "$fault.json" --assert cache.closes --assert offloaded --assert faults
done
first input.json matrix "planted.c:$(line_of planted.c '/\* input')" "changes it between calls"
report --by site input.json | sed -n 2,3p | grep -q "planted.c:$(line_of planted.c '/\* input').*changes a matrix" || fail "by site: $(report --by site input.json)"
first page.json matrix "planted.c:$(line_of planted.c '/\* page')" "their pages hold other data, too: give it pages of its own"
report --by site page.json | sed -n 2,3p | grep -q "planted.c:$(line_of planted.c '/\* page') " || fail "by site: $(report --by site page.json)"
run --report small.json -- env SEMCACHE_OFFLOAD=auto ./planted small >out 2>err
first small.json site "planted.c:$(line_of planted.c '/\* small')" "too small to gain: do the same work in fewer"
# Devices have this solver, too, and the settings keep it from them.
kept=SEMCACHE_DISABLE=dpotri
run --report solver.json -- env $kept ./planted solver >out 2>err || fail "planted solver: $(cat err)"
report solver.json --assert calls.dpotri.host==30 --assert offloaded==1
first solver.json site "planted.c:$(line_of planted.c '/\* solver')" "30 of routines that SEMCACHE_DISABLE names"
first solver.json matrix "dpotri at planted.c:$(line_of planted.c '/\* solver')" "LAPACK computes with it on the host, 30 times"
run --report fortran.json -- env $kept ./planted_f solver >out 2>err || fail "planted.f90 solver: $(cat err)"
first fortran.json site "planted.f90:$(line_of planted.f90 '! solver')" "30 of routines that SEMCACHE_DISABLE names"
first fortran.json matrix "dpotri at planted.f90:$(line_of planted.f90 '! solver')" "LAPACK computes with it on the host"
run --report fortran.json -- ./planted_f >out 2>err || fail "planted.f90: $(cat err)"
first fortran.json matrix "planted.f90:$(line_of planted.f90 '! input')" "changes it between calls"
if [ -z "$PREBUILT" ]; then
    run --report python.json -- env SEMCACHE_SITES=python "$PYTHON" "$ROOT/tests/clients/planted.py" >out 2>err || fail "planted.py: $(cat err)"
    first python.json matrix "dgemm at $ROOT/tests/clients/planted.py:$(line_of planted.py '# product')" "changes it between calls"
    first python.json site "planted.py:$(line_of planted.py '# product')" "what it uses does not stay there"
    report --by site python.json >table
    grep -q "planted.py:$(line_of planted.py '# small') .*ddot" table || { cat table; fail "the small calls' line is missing"; }
    run --report python_solver.json -- env SEMCACHE_OFFLOAD=auto SEMCACHE_SITES=python "$PYTHON" "$ROOT/tests/clients/planted.py" solver >out 2>err ||
        fail "planted.py solver: $(cat err)"
    first python_solver.json site "planted.py:$(line_of planted.py '# solver')" "30 of LAPACK, whose BLAS calls are out of sight"
    first python_solver.json matrix "dsyevd at $ROOT/tests/clients/planted.py:$(line_of planted.py '# solver')" "LAPACK computes with it on the host"
    run --report r.json -- env $kept R_ENABLE_JIT=0 SEMCACHE_OFFLOAD=auto SEMCACHE_SITES=r Rscript -e 'options(keep.source = TRUE)' \
        -e "source('$ROOT/tests/clients/planted.R')" >out 2>err || fail "planted.R: $(cat err)"
    run --report octave.json -- env $kept SEMCACHE_OFFLOAD=auto SEMCACHE_SITES=octave octave-cli --no-init-file --quiet "$ROOT/tests/clients/planted.m" \
        >out 2>err || fail "planted.m: $(cat err)"
    for script in r:R:'# ':dpotri octave:m:'% ':dpotri; do
        IFS=: read -r name ends mark routine <<<"$script"
        report --by site $name.json >table
        for line in product:dgemm solver:$routine; do
            grep -q "planted.$ends:$(line_of planted.$ends "$mark${line%:*}") .*${line#*:}" table || { cat table; fail "planted.$ends: no ${line%:*}"; }
        done
        first $name.json site "planted.$ends:$(line_of planted.$ends "${mark}solver")" "20 of routines that SEMCACHE_DISABLE names"
        first $name.json matrix "dpotri at $ROOT/tests/clients/planted.$ends:$(line_of planted.$ends "${mark}solver")" "LAPACK computes with it on the host"
    done
fi
run --report many.json -- env SEMCACHE_OFFLOAD=auto ./many 2>err || fail "1,000 sites: $(cat err)"
report many.json --assert calls.ddot.host==1000
say "planted faults are named; 1,000 call sites are counted"

# Wrong words.
refused() { # STATUS TEXT COMMAND...: one line that says so, and the program did not start
    local status=0 wanted=$1 text=$2
    shift 2
    "$@" >out 2>err || status=$?
    [ $status = "$wanted" ] && [ "$(wc -l <err)" = 1 ] && grep -qF -- "$text" err && [ ! -s out ] || { cat err; fail "$*: status $status"; }
}
refused 125 'run has no option --device' "$COMMAND" run --device sim:2 -- echo started
refused 125 'SEMCACHE_DEVICES=foo is not one of' env SEMCACHE_DEVICES=foo "$COMMAND" run -- echo started
refused 125 '--devices sim:nothing names no machine' "$COMMAND" run --devices sim:nothing -- echo started
refused 125 'cannot write the report' "$COMMAND" run --report /nonexistent/r.json -- echo started
refused 125 'smal is no reason' "$COMMAND" run --fail-on-host=smal -- echo started
refused 69 'no device: none is asked for' "$COMMAND" run --devices none --require-devices -- echo started
refused 1 'offloaded = ' "$COMMAND" report input.json --assert 'offloaded<0'
refused 125 'no report has a number' "$COMMAND" report input.json --assert nothing==0
status=0
run --fail-on-host=small -- env SEMCACHE_OFFLOAD=auto ./planted small >out 2>err || status=$?
[ $status = 69 ] && grep -q 'calls ran on the host: .*ddot small' err || { cat err; fail "--fail-on-host: status $status"; }
run -- true 2>err
grep -q 'saw no BLAS calls' err || fail "no calls: $(cat err)"
if simulated; then
    run --devices none -- ./counted 3 2>err
    grep -q 'no call ran on a device; 3 BLAS calls on the host' err || { cat err; fail "without devices"; }
fi
say "what is wrong is told before the program starts"

# Names with newlines, escapes and HTML.
name=$'\e[2J<b>\n"x"'
cp counted "$name"
run --report name.json -- "./$name" 3 2>err || fail "a strange name: $(cat err)"
report --by process name.json >table
report --by site name.json >>table
! grep -q $'\e' table && grep -qF '\u{1b}[2J<b>\n' table || { cat -v table; fail "a name is not escaped"; }
report name.json --html page.html
! grep -q $'\e' page.html && ! grep -qF '2J<b>' page.html || fail "a name is not escaped in the page"
# A directory that only root may write, and a full disk.
if mkdir full && mount -t tmpfs -o size=8k none full 2>/dev/null; then
    trap 'umount "$dir/full"' EXIT
    head -c 8192 /dev/zero >full/filler 2>/dev/null || true
    run --report full/r.json -- ./counted 3 2>err || fail "a full disk: $(cat err)"
    grep -q 'cannot write the report' err && grep -q 'dgemm' err || { cat err; fail "a full disk is not told"; }
    [ "$(ls full)" = filler ] || fail "left on the full disk: $(ls full)"
    umount full
    trap - EXIT
fi
sed 's/"version": 3/"version": 99/' input.json >future.json
refused 125 'a report of version 99' "$COMMAND" report future.json
# A program that closes all descriptors, and maps over them.
cat >closes.py <<'P'
import os, sys
for fd in range(3, 4096):
    try:
        os.close(fd)
    except OSError:
        pass
opened = [os.open("/dev/null", os.O_RDONLY) for _ in range(1000)]
os.execv(sys.argv[1], sys.argv[1:])
P
run --report closes.json -- python3 closes.py ./counted 12 2>err || fail "closed descriptors: $(cat err)"
sums_up closes.json 12 1
rm -f pcloses.json
env SEMCACHE_REPORT=pcloses.json LD_PRELOAD="$LIBRARY" sh -c 'python3 closes.py ./counted 12; :' 2>err || fail "closed descriptors: $(cat err)"
sums_up pcloses.json 12 1
# Many processes, one after the other and 64 at a time: some places are used again.
processes=10000
[ -z "$quick" ] || processes=200
run --report many_processes.json -- bash -c "seq $processes | xargs -P 64 -n 1 sh -c './counted 1'" 2>err || fail "many processes: $(cat err)"
report many_processes.json --assert "counted==$processes" --assert refused==0
[ "$(find . -name 'many_processes.json*' | wc -l)" = 1 ] && [ "$(wc -c <many_processes.json)" -lt 2000000 ] || fail "$(ls -l many_processes*)"
say "$processes processes are counted"
