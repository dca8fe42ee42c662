#!/bin/bash
# Traces: what Perfetto's own trace processor reads of them agrees with the reports exactly, whatever happens to the process and
# to the disk; and `semcache trace` reads them, too.
#
#   trace.sh [--quick]     --quick: fewer settings, and 300,000 events in place of ten million
set -euo pipefail
. "$(dirname "$0")/../setting.sh"
quick=''
[ "${1:-}" = --quick ] && quick=1
"$ROOT/scripts/setup.sh" trace
build
legacy_clients
dir=$(fresh trace)
for client in fixed memory; do
    gcc -O2 -g -Wall -Wextra -Wno-use-after-free -o "$dir/$client" "$ROOT/tests/edge/$client.c" -lblas -lpthread -lm
done
for client in many left; do
    gcc -O2 -g -Wall -Wextra -o "$dir/$client" "$ROOT/tests/trace/$client.c" -lblas -lpthread
done
gcc -O2 -g -Wall -Wextra -shared -fPIC -o "$dir/attached.so" "$ROOT/tests/trace/attached.c"
standin_in "$dir/gpu"
cd "$dir"
export OPENBLAS_NUM_THREADS=1
ulimit -c 0

sums() { "$CACHE/trace/bin/python" "$ROOT/scripts/trace/sums.py" "$@" || fail "sums $*"; }

# traced VAR=VALUE... -- PROGRAM ARGS...: one run; the trace is one.pftrace, the report one.json, the status $status.
traced() {
    local variables=()
    while [ "$1" != -- ]; do variables+=("$1") && shift; done
    shift
    rm -f one.*
    status=0
    # The shell writes a line of its own when a signal ended the program.
    {
        "${WITHIN[@]}" env "${HARD[@]}" SEMCACHE_DEVICES=sim:2 "${variables[@]}" "SEMCACHE_TRACE=${TRACE-$dir/one.pftrace}" \
            "SEMCACHE_REPORT=$dir/one.json" "LD_PRELOAD=$LIBRARY" "$@" >one.out 2>one.stderr </dev/null || status=$?
    } 2>/dev/null
}

# same NAME ASSERTION... -- PROGRAM ARGS...: as plain in every setting, and the sums agree.
same() {
    local name=$1 wanted=() assertions plain=0 setting
    shift
    while [ "$1" != -- ]; do wanted+=("$1") && shift; done
    shift
    "$@" >plain 2>/dev/null </dev/null || plain=$?
    for setting in "${settings[@]}"; do
        # shellcheck disable=SC2086 # several variables
        traced $setting -- "$@"
        [ $status = $plain ] && cmp -s plain one.out && ! grep -q "^semcache" one.stderr ||
            fail "$name under '$setting': status $status, $(cat one.stderr)"
        assertions=("${wanted[@]}")
        # In late mode operations that nothing needs are never executed.
        [[ $setting != *late* ]] || assertions=("${assertions[@]/untimed==0/ops}")
        # The stand-in's clock knows the ends of operations only.
        [[ $setting != *cuda* ]] || assertions=("${assertions[@]/kernel_ns/ops}")
        sums one.pftrace one.json "${assertions[@]}"
        "$COMMAND" trace one.pftrace >analysis || fail "semcache trace, $name under '$setting'"
    done
    say "$name: as plain, and the sums agree"
}

standin="SEMCACHE_DEVICES=cuda LD_LIBRARY_PATH=$dir/gpu"
settings=("" "SEMCACHE_SIM=late,poison" "$standin SEMCACHE_STANDIN=devices=2,late,seed=1")
[ -n "$quick" ] || settings+=("SEMCACHE_GATE=wp-async" "SEMCACHE_DEVICES=sim:everest SEMCACHE_SIM=seed=3" "$standin" "$standin SEMCACHE_STANDIN=poison,seed=3")
same fixed calls ops untimed==0 faults dropped==0 unlinked==0 -- ./fixed
same memory calls ops untimed==0 faults dropped==0 -- ./memory
same abac calls==2 ops untimed==0 faults kernel_ns dropped==0 unlinked==0 -- "$TARGET/legacy/abac" 300
same jacobi calls ops untimed==0 kernel_ns dropped==0 -- "$TARGET/legacy/jacobi" 300 20 303
settings=("SEMCACHE_DEVICES=sim:1 SEMCACHE_MEMORY=2MiB" "SEMCACHE_DEVICES=sim:1 SEMCACHE_MEMORY=2MiB SEMCACHE_SIM=late,poison")
same abac calls==2 evictions untimed==0 -- "$TARGET/legacy/abac" 300
settings=("SEMCACHE_OFFLOAD=auto SEMCACHE_PANEL=2MiB SEMCACHE_OWN=1MiB" "SEMCACHE_OFFLOAD=never")
same abac ops==0 -- "$TARGET/legacy/abac" 100

# Three questions that a user asks.
traced -- "$TARGET/legacy/abac" 300
"$CACHE/trace/bin/python" - "$ROOT/scripts/trace" one.pftrace <<'END' || fail "three questions"
import sys

sys.path.insert(0, sys.argv[1])
from processor import opened

with opened(sys.argv[2]) as trace:
    busy = trace.rows(
        "select device.name as device, lane.name as lane, sum(dur) as ns from slice join track lane on slice.track_id = lane.id"
        " join track device on lane.parent_id = device.id where category in ('copy', 'kernel') group by device, lane"
    )
    assert {lane for _, lane, _ in busy} == {"copies in", "copies out", "kernels"} and all(ns > 0 for *_, ns in busy), busy
    slowest = trace.rows(
        "select name, extract_arg(arg_set_id, 'debug.side') as side, extract_arg(arg_set_id, 'debug.n') as n from slice"
        " where category = 'call' and dur > 0 order by dur desc limit 1"
    )
    assert slowest == [("dgemm", "devices", 300)], slowest
    waited = trace.rows(
        "select sum(wait.dur) as ns from slice wait join slice call on wait.parent_id = call.id"
        " where wait.category = 'wait' and call.category in ('call', 'fault')"
    )
    assert waited[0][0] > 0, waited
END
say "three questions are answered"

# Threads, children and ends. The children of a fork have traces and reports of their own.
plain=$(./many 64 50 16)
traced -- ./many 64 50 16
[ $status = 0 ] && [ "$(cat one.out)" = "$plain" ] || fail "64 threads: $(cat one.stderr)"
sums one.pftrace one.json threads==64 calls==3200 untimed==0 dropped==0
for end in exit _exit; do
    traced -- ./many 2 50 16 3 $end
    [ $status = 0 ] || fail "children, $end: status $status"
    [ "$(ls one.pftrace.* | wc -l)" = 3 ] || fail "children, $end: $(ls one.*)"
    for child in one.pftrace.*; do sums --part "$child" calls==50; done
    [ $end != exit ] || for child in one.pftrace.*; do sums "$child" "one.json:${child##*.}"; done
    sums --part one.pftrace calls==100 untimed==0
done
for signal in 1 2 15 24; do
    traced -- ./many 2 50 16 0 $signal
    [ $status = $((128 + signal)) ] || fail "signal $signal: status $status"
    sums --part one.pftrace calls==100 untimed==0 dropped==0
done
# Killed: what was written until then can be read, by both.
traced -- ./many 4 20000 16 0 9
[ $status = 137 ] || fail "killed: status $status"
sums --part one.pftrace calls ops
"$COMMAND" trace one.pftrace >analysis || fail "semcache trace of a program that was killed"
head -c $(($(stat -c %s one.pftrace) - 3)) one.pftrace >cut.pftrace
"$COMMAND" trace cut.pftrace >analysis || fail "semcache trace of a file that is cut off"
say "threads, children, signals"

# What has no room in the file is counted.
traced SEMCACHE_TRACE_LIMIT=20KiB -- ./many 4 500 16
sums one.pftrace one.json calls dropped
[ "$(stat -c %s one.pftrace)" -lt 2000000 ] || fail "$(stat -c %s one.pftrace) bytes with a limit of 20 KiB"
calls=20000
[ -n "$quick" ] || calls=500000
plain=$(./many 4 $calls 16)
traced SEMCACHE_TRACE_LIMIT=4GiB -- ./many 4 $calls 16
[ $status = 0 ] && [ "$(cat one.out)" = "$plain" ] || fail "many events: $(cat one.stderr)"
if [ -n "$quick" ]; then sums one.pftrace one.json calls; else sums --large one.pftrace one.json calls==2000000 ops; fi
begun=$SECONDS
"$COMMAND" trace one.pftrace >analysis || fail "semcache trace of $calls calls of each thread"
say "$(stat -c %s one.pftrace) bytes: the sums agree; semcache trace takes $((SECONDS - begun)) s"

# Where nothing can be written there is one line, and the program is not disturbed.
for path in /dev/full /nonexistent/trace /proc/trace "$dir" -; do
    TRACE=$path traced -- "$TARGET/legacy/abac" 100
    [ $status = 0 ] && [ "$(wc -l <one.stderr)" = 1 ] && grep -q '^semcache: .*\(SEMCACHE_TRACE=-\|cannot write the trace\)' one.stderr ||
        fail "$path: status $status, $(cat one.stderr)"
done
# A disk that fills up.
if mkdir full && mount -t tmpfs -o size=64k none full 2>/dev/null; then
    trap 'umount "$dir/full"' EXIT
    TRACE=$dir/full/trace traced -- ./many 2 2000 16
    [ $status = 0 ] && [ "$(wc -l <one.stderr)" = 1 ] && grep -q "cannot write" one.stderr || fail "a full disk: status $status, $(cat one.stderr)"
    [ ! -s full/trace ] || sums --part full/trace
else
    say "a full disk: NOT TESTED, since nothing can be mounted here"
fi
# A file-size limit, whose signal would end the process.
status=0
(
    ulimit -f 16
    TRACE=$dir/limited.pftrace traced -- ./many 2 2000 16
    [ $status = 0 ] && [ "$(wc -l <one.stderr)" = 1 ] || fail "a file-size limit: status $status, $(cat one.stderr)"
) || exit 1
[ ! -s limited.pftrace ] || sums --part limited.pftrace
say "disks that are full, missing or read-only"

# A tool that takes the annotations of NVTX gets a range for each call and a mark for each call on the host BLAS. With a trace
# and without one; calls that a handler of the program left by a jump end with a later call.
# attached VAR=VALUE... -- PROGRAM ARGS...: without a trace; the tool's lines are in `lines`.
attached() {
    rm -f lines
    TRACE='' traced "NVTX_INJECTION64_PATH=$dir/attached.so" "ATTACHED=$dir/lines" "$@"
}
plain=$(./many 1 5 16)
# lines_of TIMES LINE...: these lines, as often.
lines_of() {
    local i
    for ((i = 0; i < $1; i++)); do printf '%s\n' "${@:2}"; done
}
attached -- ./many 1 5 16
[ $status = 0 ] && [ "$(cat one.out)" = "$plain" ] && [ ! -s one.stderr ] || fail "NVTX: status $status, $(cat one.stderr)"
lines_of 5 'push 0 dgemm 16 x 16 x 16' 'pop 0' | cmp - lines || fail "NVTX: $(cat lines)"
traced "NVTX_INJECTION64_PATH=$dir/attached.so" "ATTACHED=$dir/lines" -- ./many 1 5 16
lines_of 10 'push 0 dgemm 16 x 16 x 16' 'pop 0' | cmp - lines || fail "NVTX with a trace: $(cat lines)"
sums one.pftrace one.json calls==5
attached SEMCACHE_OFFLOAD=auto SEMCACHE_DISABLE=dgemm -- ./many 1 2 200
lines_of 2 'push 0 dgemm 200 x 200 x 200' 'mark 1 dgemm on the host BLAS: disabled' 'pop 0' | cmp - lines || fail "NVTX, host: $(cat lines)"
attached -- ./many 8 100 16
[ "$(grep -c '^push 0 dgemm 16 x 16 x 16$' lines)" = 800 ] && [ "$(grep -c '^pop 0$' lines)" = 800 ] || fail "NVTX, threads: $(sort lines | uniq -c)"
plain=$(./left 9 40)
attached -- ./left 9 40
[ $status = 0 ] && [ "$(cat one.out)" = "$plain" ] || fail "NVTX, jumps: status $status, $(cat one.stderr)"
# One call of each round is left. The deeper call after it may lie in the left one's range; the next call ends that.
[ "$(grep -c '^push' lines)" = 27 ] && [ "$(tail -n 1 lines)" = 'pop 0' ] && ! grep -q '^push [2-9]' lines || fail "NVTX, jumps: $(cat lines)"
traced -- ./left 9 40
sums one.pftrace one.json calls==18
attached "NVTX_INJECTION64_PATH=/nonexistent.so" -- ./many 1 5 16
[ $status = 0 ] && [ ! -s one.stderr ] && [ ! -e lines ] || fail "NVTX without its library: status $status, $(cat one.stderr)"
say "a tool gets ranges and marks"
