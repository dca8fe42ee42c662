#!/bin/bash
# The clients of tests/edge: odd arguments, files, processes, signals, the allocators, refusals, and user errors. Each
# must print and return under the preload what it does in a plain run.
#
#   edge.sh [--quick]     --quick: four settings instead of eighteen, fewer jumps and refusals
#   ONLY=NAME edge.sh     of the programs that must do as plainly, those of this name (a shell pattern), and nothing else
#   JOBS=N edge.sh        N programs at a time: on a GPU a program takes a second or more to start, four times each
set -euo pipefail
. "$(dirname "$0")/../setting.sh"
quick='' jumps=1000 step=1
[ "${1:-}" = --quick ] && quick=1 jumps=340 step=7
build
dir=$(fresh edge)
# Each of several jobs has its share of the programs, and a folder of its own.
jobs=${JOBS:-1}
if [ "$jobs" -gt 1 ] && [ -z "${BUILD_ONLY:-}${ONLY:-}" ]; then
    for ((i = 0; i < jobs; i++)); do
        JOBS=1 SHARE=$i/$jobs SUITES=$dir/$i "$0" "$@" 2>&1 | tee "$dir/$i.log" || touch "$dir/$i.failed" &
    done
    wait
    ! compgen -G "$dir/*.failed" >/dev/null || fail "some programs; see above"
    exit
fi
share=${SHARE:-0/1} shares=${share#*/} share=${share%/*}
source=$ROOT/tests/edge
export OPENBLAS_NUM_THREADS=1
ulimit -c 0

clients=(arguments files kernel asynchronous mappings joining cancelled interrupted deferred handlers processes children signals memory fixed nohost half patches crashes stacks contexts shared limits foreign progress without bits environment spread checked spawning guards vanishing sandbox pointers numbers neighbours factorise fronts unpaid window copies)
for client in "${clients[@]}"; do
    obtain "$dir/$client" gcc -O2 -g -Wall -Wextra -Wno-use-after-free -o "$dir/$client" "$source/$client.c" -lblas -lpthread -lm &
done
obtain "$dir/ends" g++ -O2 -g -Wall -Wextra -o "$dir/ends" "$source/ends.cpp" -lblas -lpthread -ldl &
obtain "$dir/unloaded.so" gcc -O2 -g -Wall -Wextra -shared -fPIC -o "$dir/unloaded.so" "$source/unloaded.c" -lblas -lm &
obtain "$dir/common" gfortran -O2 -g -o "$dir/common" "$source/common.f90" -lblas &
# Only the reference BLAS has some of the program's routines.
obtain "$dir/rare" gcc -O2 -g -Wall -Wextra -o "$dir/rare" "$source/rare.c" -L"$REFERENCE" -lblas -lm &
obtain "$dir/nohost_linked" gcc -O2 -g -o "$dir/nohost_linked" "$source/nohost.c" -L"$(dirname "$LIBRARY")" -lsemcache_blas -lm &
obtain "$dir/nothing.so" gcc -shared -fPIC -x c - -o "$dir/nothing.so" <<<'int nothing;' &
obtain "$dir/timed.so" gcc -O2 -g -Wall -Wextra -fno-builtin -shared -fPIC -o "$dir/timed.so" "$source/timed.c" &
obtain "$dir/foreign_library.so" gcc -O2 -g -Wall -Wextra -fPIC -shared -o "$dir/foreign_library.so" "$source/foreign_library.c" &
# The program finds this library in its own folder, after the preloaded library in load order.
obtain "$dir/counting.so" gcc -O2 -g -Wall -Wextra -fno-builtin -shared -fPIC -Wl,-soname,counting.so -o "$dir/counting.so" "$source/counting.c" &&
    obtain "$dir/service" gcc -O2 -g -Wall -Wextra -fno-builtin-malloc -o "$dir/service" "$source/service.c" -Wl,-rpath,"\$ORIGIN" "$dir/counting.so" -lblas -lm &
for client in fixed signals; do
    obtain "$dir/${client}_asan" gcc -O1 -g -fsanitize=address -o "$dir/${client}_asan" "$source/$client.c" -lblas -lpthread -lm &
done
obtain "$dir/fixed_tsan" gcc -O1 -g -fsanitize=thread -o "$dir/fixed_tsan" "$source/fixed.c" -lblas -lpthread -lm &
wait
clients_built
cd "$dir"
mkdir scratch

# Devices, mode of the simulator, SEMCACHE_GATE.
settings=("sim:1 seed=1 auto" "sim:2 late,seed=2 auto" "sim:2 poison,seed=3 wp-async" "sim:1 late,poison,seed=4 eager")
[ -n "$quick" ] || settings=({sim:1,sim:2}\ {seed=1,late\,seed=2,poison\,seed=3}\ {auto,wp-async,eager})
simulated || settings=("$(machine 1) - auto" "$(machine 2) - auto" "$(machine 2) - wp-async" "$(machine 1) - eager")

# quiet FILE: semcache has written no line to FILE, except one line that the caller expects (said).
quiet() {
    local lines
    lines=$(grep -a 'semcache: ' "$1" || true)
    [ -z "$lines" ] || { [ -n "${said:-}" ] && [ "$(wc -l <<<"$lines")" = 1 ] && grep -qE "$said" <<<"$lines"; }
}

# chosen NAME: whether the program of this name is to run: ONLY, and this job's share.
chosen() {
    local number
    # shellcheck disable=SC2053 # a pattern
    [[ $1 == ${ONLY:-*} ]] || return 1
    number=$(cksum <<<"$1")
    ((${number%% *} % shares == share))
}

# same NAME ASSERTION... -- PROGRAM ARGS...: stdout and status in every setting are those of the plain run; the
# assertions hold for the reports of all runs with page protection together. Variables of the caller: more, further
# settings; plainly, the command that starts the plain run; said, a pattern for one line on stderr that may appear;
# says, one for a line that must appear in runs with page protection.
more=() plainly=()
same() {
    local name=$1 assertions=() status devices sim gate
    shift
    chosen "$name" || return 0
    while [ "$1" != -- ]; do assertions+=("$1") && shift; done
    shift
    status=0
    "${WITHIN[@]}" "${plainly[@]}" "$@" >"$name.plain" 2>"$name.stderr" </dev/null || status=$?
    echo "status $status" >>"$name.plain"
    [ -n "${expected:-}" ] && [ "$status" != "$expected" ] && fail "$name: plain status $status, expected $expected"
    [ "$status" != 127 ] || fail "$name does not start: $(cat "$name.stderr")"
    for setting in "${settings[@]}"; do
        read -r devices sim gate <<<"$setting"
        sim=${sim#-}
        status=0
        preloaded "$dir/reports/$name/$gate" "${HARD[@]}" "SEMCACHE_DEVICES=$devices" "SEMCACHE_SIM=$sim" "SEMCACHE_GATE=$gate" \
            "${more[@]}" -- "${WITHIN[@]}" "$@" >"$name.out" 2>"$name.stderr" </dev/null || status=$?
        echo "status $status" >>"$name.out"
        if [ -n "${says:-}" ] && [ "$gate" != eager ]; then
            [ "$(grep -c "semcache: $says" "$name.stderr")" = 1 ] || fail "$name under $setting: not said once: $(cat "$name.stderr")"
            sed -i "\#semcache: $says#d" "$name.stderr"
        fi
        if ! cmp -s "$name.plain" "$name.out" || ! quiet "$name.stderr"; then
            diff "$name.plain" "$name.out" | head -20 || true
            cat "$name.stderr"
            fail "$name under $setting"
        fi
    done
    say "$name: as plain"
    [ ${#assertions[@]} = 0 ] || sum "$dir/reports/$name/auto" "${assertions[@]}"
}

same arguments offloaded cache.closes faults.read faults.write calls.dger.offloaded calls.dswap.offloaded \
    calls.dgemm.why_host.aliased calls.dgemm.why_host.bad_argument -- ./arguments scratch/mapped
same common offloaded cache.closes faults calls.dgemm.host==0 calls.dgemv.host==0 calls.daxpy.host==0 -- ./common
# Without address randomisation older kernels put the beginning of the heap into the last page of static data.
if setarch -R true 2>/dev/null; then same fixed_addresses offloaded cache.closes -- setarch -R ./common; fi
same half offloaded cache.closes faults calls.dsymv.offloaded calls.dtrmv.offloaded calls.dtrsv.offloaded \
    calls.dsyr.offloaded calls.dsyr2.offloaded calls.dsymv.host==0 calls.dsyr.host==0 -- ./half
reference=$REFERENCE${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
LD_LIBRARY_PATH=$reference same rare cache.closes faults calls.csrot.offloaded calls.zdrot.offloaded \
    calls.{zgemv,zgerc,zhemv}.why_host.unsupported calls.{zgemv,zgerc,zhemv}.why_host.bad_argument==0 -- ./rare
same files offloaded cache.closes faults -- ./files scratch
# Calls in another rounding mode or with unmasked floating-point exceptions run on the host BLAS.
same environment_rounding offloaded cache.closes faults calls.dgemm.why_host.environment calls.ddot.offloaded==0 -- ./environment rounding 64
for what in before after; do expected=9 same environment_$what -- ./environment $what 64; done
same environment_quiet offloaded cache.closes faults calls.dgemm.why_host.environment -- ./environment quiet 64
same environment_flush offloaded cache.closes faults calls.dgemm.host==0 -- ./environment flush 64
# Copies that the host makes, by several threads: by two, as the environment says.
more=(SEMCACHE_DISABLE=scopy,dcopy,ccopy,zcopy OPENBLAS_NUM_THREADS=2)
same copies offloaded cache.closes faults calls.dcopy.why_host.disabled -- ./copies helpers
more=()
chosen copies && { [ "$(wc -l <helpers)" = $((1 + ${#settings[@]})) ] && [ "$(sed -n 1p helpers)" = 0 ] && ! sed 1d helpers | grep -qx 0 || fail "copies: threads: $(tr '\n' ' ' <helpers)"; }
# In the default setting, with matrices that are large enough for devices. GPUs are initialised while the host BLAS
# computes.
hard=("${HARD[@]}") HARD=()
if simulated; then
    same environment_default offloaded calls.dgemm.why_host.environment -- ./environment rounding 600
    expected=9 same environment_after_default -- ./environment after 600
    same environment_flush_default offloaded calls.dgemm.host==0 -- ./environment flush 600
fi
HARD=("${hard[@]}")
# Two runs on two devices, of three rounds each: between these A is copied (128 KiB), and of the copies to other places in a vector
# what changes its device. To gather one matrix on a device would take 16 MiB.
same spread offloaded cache.closes "bytes.p2p<=3e6" calls.daxpy.offloaded calls.ddot.offloaded calls.dswap.host==0 -- ./spread
# Between two tasks of a call: handlers that jump out of it, compute, fork or end the process, and other threads. The reference BLAS
# can be left by a jump.
usual=("${settings[@]}") more=(SEMCACHE_TILE=32 SEMCACHE_WINDOW=2)
settings=("$(machine 1) - auto" "$(machine 2) - auto" "$(machine 3) - auto")
if simulated; then settings=("sim:2 late,seed=2 auto" "sim:3 poison,seed=3 wp-async"); fi
if simulated && [ -z "$quick" ]; then settings+=("sim:1 seed=1 auto" "sim:2 seed=4 auto"); fi
LD_LIBRARY_PATH=$reference expected=0 same window_jumps window.calls window.pauses window.left cache.closes faults -- ./window jumps "$jumps"
for what in computes forks; do
    LD_LIBRARY_PATH=$reference expected=0 same "window_$what" window.calls window.pauses cache.closes faults -- ./window "$what"
done
LD_LIBRARY_PATH=$reference expected=0 same window_frees window.calls cache.closes faults -- ./window frees
says='asynchronous I/O .* results are written back at once' LD_LIBRARY_PATH=$reference same window_through window.calls degraded.async_io -- ./window through
LD_LIBRARY_PATH=$reference expected=7 same window_exit window.calls cache.closes faults -- ./window exit
LD_LIBRARY_PATH=$reference expected=8 same window_quits -- ./window quits
LD_LIBRARY_PATH=$reference expected=9 same window_thread window.calls cache.closes faults -- ./window thread
settings=("${usual[@]}") more=()
same kernel offloaded cache.closes faults.read faults.write -- ./kernel scratch
# Data of the program on the same pages as results; also with panels of the default size.
for what in static heap sleepers columns; do expected=0 same "neighbours_$what" offloaded cache.closes faults -- ./neighbours $what; done
same neighbours_many offloaded cache.closes cache.coarse -- ./neighbours many
# Parts of a matrix with different gaps between their columns, used in turn by the CPU and by devices.
expected=0 same factorise offloaded cache.closes cache.coarse faults.write -- ./factorise 1500 1700
hard=("${HARD[@]}") HARD=(SEMCACHE_OFFLOAD=always)
for what in static heap sleepers columns; do expected=0 same "neighbours_large_$what" offloaded cache.closes -- ./neighbours $what; done
HARD=("${hard[@]}")
# Paths and structures on inaccessible pages, with panels of one page and of 2 MiB.
same pointers offloaded "cache.closes>1000" faults -- ./pointers scratch/pointers 8192 $((quick ? 3 : 1))
same numbers offloaded "cache.closes>1000" faults -- ./numbers scratch/numbers 8192 $((quick ? 3 : 1))
usual=("${settings[@]}") settings=("$(machine 1) - auto" "$(machine 2) - auto") more=(SEMCACHE_PANEL=2MiB)
same pointers_large offloaded cache.closes faults -- ./pointers scratch/large 300000 7
same numbers_large offloaded cache.closes faults -- ./numbers scratch/large 300000 7
settings=("${usual[@]}") more=()
# The kernel reads and writes memory after the system call: from then on no page is protected, and one line says so.
says='asynchronous I/O .* results are written back at once' same asynchronous offloaded degraded.async_io -- ./asynchronous scratch
same mappings offloaded cache.closes faults -- ./mappings scratch
same memory offloaded cache.closes faults -- ./memory
for what in barrier inputs missing written; do
    expected=0 same "guards_$what" offloaded cache.closes calls.dgemm.why_host.guarded -- ./guards $what
done
for what in reserve sealed; do expected=0 same "guards_$what" offloaded cache.closes calls.dgemm.host==0 -- ./guards $what; done
# Memory that a copy could access when it was queued, and cannot access when it is made.
for what in missing protected jumps shrinking; do expected=0 same "vanishing_$what" offloaded -- ./vanishing $what; done
for what in holes leaps; do
    expected=0 same "vanishing_$what" offloaded cache.closes faults calls.dgemm.why_host.guarded -- ./vanishing $what
done
more=(SEMCACHE_TILE=24)
expected=0 same vanishing_tiles offloaded calls.dgemm.why_host.guarded -- ./vanishing missing
# Calls that are refused after their first tasks, and whose rest on the host BLAS a handler leaves by a jump.
expected=0 same vanishing_tiles_leaps offloaded fallbacks -- ./vanishing leaps
more=()
hard=("${HARD[@]}") HARD=(SEMCACHE_OFFLOAD=always)
for what in missing protected; do expected=0 same "vanishing_large_$what" offloaded -- ./vanishing $what 256; done
HARD=("${hard[@]}")
# The filter kills the process for any system call that it does not make in a plain run: the devices are used no more,
# which one line says.
for what in prctl seccomp; do
    said='the program restricts its own system calls; calls go to the host' expected=7 \
        same "sandbox_$what" offloaded cache.closes degraded.sandbox -- ./sandbox $what
done
said='the program restricts its own system calls; calls go to the host' expected=7 same sandbox_early -- ./sandbox early
# The filter is installed for all threads at once, while other threads are in calls, system calls and allocations; many
# times.
if simulated; then
    expected=7 same sandbox_threads offloaded cache.closes degraded.sandbox -- ./sandbox rounds
else
    say "sandbox_threads: not on GPUs, whose driver has threads of its own that the filter kills the process for"
fi
expected=7 same sandbox_asks offloaded cache.closes calls.dgemm.host==0 -- ./sandbox asks
# The same in panels of the default size.
more=(SEMCACHE_PANEL=2MiB SEMCACHE_OWN=64KiB)
for what in barrier inputs missing reserve; do expected=0 same "guards_large_$what" offloaded cache.closes -- ./guards $what 256; done
# A driver cannot page-lock memory with holes, and says so.
for what in holes leaps; do
    said='[0-9]* kB of a matrix cannot be page-locked: .*' expected=0 \
        same "vanishing_large_$what" offloaded cache.closes -- ./vanishing $what 256
done
more=()
usual=("${settings[@]}") settings=("$(machine 1) - auto" "$(machine 1) - eager") more=(SEMCACHE_TILE=64)
same bits offloaded cache.closes faults cache.hits cache.misses calls.dgemm.host==0 calls.dtrsm.host==0 -- ./bits
settings=("${usual[@]}") more=()
same fronts offloaded cache.closes faults calls.dgemm.offloaded calls.dsyrk.offloaded calls.dtrsm.offloaded -- ./fronts 60 300 8
more=(SEMCACHE_PANEL=2MiB)
same fronts_panels offloaded cache.closes faults -- ./fronts 100 300 8
more=()
if simulated; then
    # On a very slow link: the operands of these calls are never used again, so whether they lie in blocks of their own
    # or in an arena must make no difference to the number of offloaded calls.
    usual=("${settings[@]}") settings=("sim:1 link=2 auto") more=(SEMCACHE_OFFLOAD=auto SEMCACHE_PANEL=2MiB)
    same unpaid_blocks -- ./unpaid blocks
    same unpaid_arena -- ./unpaid arena
    if [ -d reports/unpaid_blocks ] && [ -d reports/unpaid_arena ]; then
        blocks=$("$COMMAND" report --print offloaded reports/unpaid_blocks/auto) arena=$("$COMMAND" report --print offloaded reports/unpaid_arena/auto)
        ((blocks < arena + 40 && arena < blocks + 40)) || fail "offloaded $blocks products of blocks, and $arena of parts of an arena"
    fi
    settings=("${usual[@]}") more=()
fi
if simulated; then
    same service offloaded cache.closes faults.read faults.write -- ./service
else
    # A GPU's driver may allocate while a fault is served: from libc's own heap, which is never made inaccessible; if
    # another allocator owns the process's heap, none of its blocks is.
    say "service: not on GPUs, whose driver allocates now and then"
fi
for what in fork tree spawn threads alarms; do
    expected=7 same "processes_$what" offloaded cache.closes faults -- ./processes $what
done
# Each child process that computed and ended by exit() has a report of its own, which says why it ran on the host.
! chosen processes_tree || sum reports/processes_tree/auto "reports>5" "calls.dgemm.why_host.forked>5" degraded.forked
expected=0 same spawning offloaded cache.closes faults -- ./spawning
for what in vfork shared clone underscore handler both daemon close close_range closefrom close_number taken taken_exit; do
    # A daemon's parents write no report. Results may have been written back for another thread's call before the CPU
    # reads them.
    asserted=(offloaded cache.closes faults)
    [[ $what != @(daemon|taken*) ]] || asserted=(offloaded cache.closes)
    # The programs that take descriptors take the driver's, too.
    may=''
    if ! simulated && [[ $what == @(close|taken)* ]]; then may="the program takes descriptors of the GPUs' driver"; fi
    expected=7 said=$may same "children_$what" "${asserted[@]}" -- ./children $what
done
expected=0 OPENBLAS_NUM_THREADS=4 same joining offloaded cache.closes faults -- ./joining
expected=0 same handlers offloaded cache.closes faults -- ./handlers
# On the reference BLAS: a thread that is cancelled inside OpenBLAS leaves one of OpenBLAS's locks taken.
for what in deferred asynchronous; do
    LD_LIBRARY_PATH=$reference expected=0 same "cancelled_$what" offloaded cache.closes faults -- ./cancelled $what
done
# System calls by number, if the library exports `syscall`.
if nm -D --defined-only "$LIBRARY" 2>/dev/null | grep -q ' syscall$'; then
    expected=7 same children_system_call offloaded cache.closes faults -- ./children system_call
fi
expected=7 same children_early offloaded cache.closes -- ./children early
expected=8 same children_exec -- ./children exec
for what in statics locals; do expected=7 same "ends_$what" offloaded cache.closes -- ./ends $what; done
expected=7 same ends_quick -- ./ends quick
expected=7 same ends_unload offloaded cache.closes -- ./ends unload ./unloaded.so
# In a plain run OpenBLAS crashes in one of five runs: its memory is freed while threads compute.
LD_LIBRARY_PATH=$reference expected=7 same ends_running offloaded -- ./ends running
for what in exit atexit destructor; do expected=7 same "processes_$what" offloaded -- ./processes $what; done
expected=6 same processes_thread offloaded -- ./processes thread
expected=5 same processes_quick -- ./processes quick
expected=134 same processes_abort -- ./processes abort
for what in before after simple onstack chain masked inside writer; do
    expected=0 same "signals_$what" offloaded cache.closes faults -- ./signals $what
done
for what in default ignore reset raise; do expected=139 same "signals_$what" -- ./signals $what; done
. "$ROOT/scripts/clients/edge_beside.sh"

same patches_early offloaded cache.closes faults -- ./patches early scratch
for what in one kernel threads fork; do
    same "patches_$what" offloaded -- ./patches $what scratch
    ! chosen "patches_$what" || sum "reports/patches_$what/wp-async" offloaded gate.scans gate.written
done
# A process that may not use userfaultfd: one line if SEMCACHE_GATE asked for it, and page protection by mprotect.
usual=("${settings[@]}") settings=("$(machine 1) - auto") more=(SEMCACHE_GATE=wp-async)
says='the wp-async gate is not available; using mprotect' expected=0 \
    same gate_refused offloaded faults degraded.no_gate gate.scans==0 -- ./without ./patches one scratch
settings=("${usual[@]}") more=()
for what in closer watched watches; do same "patches_$what" offloaded -- ./patches $what scratch; done

# patched NAME ARGS... -- ASSERTION...: large inputs of which little changes between calls, in panels of the default
# size, with SEMCACHE_GATE=wp-async and auto; few bytes are sent.
patched() {
    local name=$1 gate arguments=()
    shift
    chosen "$name" || return 0
    while [ "$1" != -- ]; do arguments+=("$1") && shift; done
    shift
    "${WITHIN[@]}" "${arguments[@]}" >"$name.plain" 2>"$name.stderr" </dev/null
    for gate in wp-async auto; do
        preloaded "$dir/reports/$name/$gate" "${HARD[@]}" SEMCACHE_PANEL=2MiB "SEMCACHE_DEVICES=$(machine 1)" "SEMCACHE_GATE=$gate" \
            -- "${WITHIN[@]}" "${arguments[@]}" >"$name.out" 2>"$name.stderr" </dev/null
        cmp "$name.plain" "$name.out" || fail "$name under $gate"
        [ ! -s "$name.stderr" ] || fail "$name: $(cat "$name.stderr")"
        sum "$dir/reports/$name/$gate" "$@"
    done
    say "$name: only what was written is sent again"
}
# 8 MiB: rewritten whole nine times, changed in places 46 times; by the kernel rewritten whole three times, changed in
# places 24 times.
patched patches_sent_one ./patches one scratch 1024 -- offloaded gate.scans gate.written "gate.kept>1e8" "bytes.h2d<1e8"
patched patches_sent_beside ./patches beside scratch 512 -- offloaded cache.closes faults
patched patches_sent_kernel ./patches kernel scratch 1024 -- offloaded gate.scans gate.written "gate.kept>3e7" "bytes.h2d<5e7"
# A child by a bare system call: it has its own copy of what the host had; a read of bytes that only a device had ends
# it, with one line.
bare_child() {
    local status=0
    chosen "children_bare" || return 0
    { ./children bare || [ $? = 7 ]; } | sed '0,/parent/! {/bare: exited 13/s/exited 13/killed by 11/}' >bare.plain
    "${WITHIN[@]}" env "${HARD[@]}" "SEMCACHE_DEVICES=$(machine 1)" LD_PRELOAD="$LIBRARY" ./children bare >bare.out 2>bare.stderr || status=$?
    [ $status = 7 ] && cmp bare.plain bare.out && [ "$(grep -c 'made by a bare system call' bare.stderr)" = "$(wc -l <bare.stderr)" ] ||
        { cat bare.stderr; fail "a child by a bare system call: status $status"; }
    say "children_bare: what the host has is the child's"
}
bare_child

compgen -G '*.plain' >/dev/null || fail "nothing ran${ONLY:+ of $ONLY}"
[ -z "${ONLY:-}" ] && [ "$share" = 0 ] || exit 0

# Signal handlers that jump out of waits for a fault: the waits are long because of a slow link and late copies.
./signals jump $jumps >jump.plain 2>/dev/null
jumps_under=(sim:1\ late,seed=5 sim:2\ link=0.01 sim:2\ late,poison,seed=6,link=0.05)
simulated || jumps_under=("$(machine 1)" "$(machine 2)")
for setting in "${jumps_under[@]}"; do
    read -r devices sim <<<"$setting"
    preloaded reports/jump "${HARD[@]}" "SEMCACHE_DEVICES=$devices" "SEMCACHE_SIM=$sim" -- \
        "${WITHIN[@]}" ./signals jump $jumps >jump.out 2>jump.stderr || { cat jump.stderr; fail "jump under $setting: status $?"; }
    cmp jump.plain jump.out || fail "jump under $setting"
    # With a real link most waits are over before a signal interrupts them.
    simulated && least="jumps $jumps" || least='jumps [1-9][0-9]*'
    grep -qx "$least" jump.stderr || fail "jump under $setting: $(cat jump.stderr)"
done
sum reports/jump offloaded cache.closes faults

# refusals KIND: runs the fixed program with the Nth operation of a device refused, or the device lost at it, for each N
# up to the last operation.
refusals() {
    local kind=$1 n=1 last=0 gone=0 done_=0 status before=$SECONDS
    while :; do
        rm -rf one.json
        status=0
        "${WITHIN[@]}" env "${HARD[@]}" SEMCACHE_DEVICES=sim:2 "SEMCACHE_SIM=fail=$kind:$n" SEMCACHE_REPORT="$dir/one.json" \
            LD_PRELOAD="$LIBRARY" ./fixed >fixed.out 2>fixed.stderr || status=$?
        if [ "$kind" = lost ] && [ $status = 70 ]; then
            [ "$(grep -c 'the only copy of the matrix' fixed.stderr)" = 1 ] || fail "lost:$n: $(cat fixed.stderr)"
            gone=$((gone + 1))
        else
            [ $status = 0 ] && cmp fixed.plain fixed.out || fail "$kind:$n: status $status, $(cat fixed.stderr)"
            [ "$(wc -l <fixed.stderr)" -le 1 ] || fail "$kind:$n: more than one line: $(cat fixed.stderr)"
            if [ "$("$COMMAND" report --print fallbacks one.json)" = 0 ]; then
                # N is beyond the last operation, or the operation's failure had no effect on a result.
                last=$((last + 1))
                [ $last -lt 4 ] || break
            else
                last=0 done_=$((done_ + 1))
            fi
        fi
        n=$((n + step))
        [ $n -lt 2000 ] || fail "$kind: never past the last operation"
    done
    say "$kind: up to operation $n, $done_ finished on the host, $gone ended with the one line"
    [ $done_ -gt 10 ] || [ "$kind" = lost ] || fail "$kind: only $done_ runs fell back"
    [ $gone -gt 0 ] || [ "$kind" = refuse ] || fail "$kind: nothing was ever lost"
}
./fixed >fixed.plain
# Only simulated devices can be made to fail; gpu-test.sh tests failures of real ones.
if simulated; then
    refusals refuse
    refusals lost
fi

# lines N PATTERN FILE: FILE has N lines, all of which match PATTERN.
lines() {
    [ "$(wc -l <"$3")" = "$1" ] && [ "$(grep -cE "$2" "$3")" = "$1" ] || fail "expected $1 lines like '$2': $(cat "$3")"
}
SEMCACHE_DEVICES=$(machine 1)
export SEMCACHE_DEVICES

# No host BLAS: empty libraries of these names are found first.
mkdir decoy
cp nothing.so decoy/libblas.so.3
for name in libopenblas.so.0 libblas64.so.3 libopenblas64.so.0; do cp decoy/libblas.so.3 decoy/$name; done
./nohost >nohost.plain
for setting in SEMCACHE_OFFLOAD={auto,always,never}\ SEMCACHE_DEVICES={none,$(machine 2)}; do
    # shellcheck disable=SC2086
    env "${HARD[@]}" $setting LD_LIBRARY_PATH="$dir/decoy:$(dirname "$LIBRARY")" ./nohost_linked x >nohost.out 2>nohost.stderr
    cmp nohost.plain nohost.out || fail "without a host BLAS, $setting"
    lines 1 'no BLAS has dtpsv_ \(searched: .*Set SEMCACHE_HOST_BLAS' nohost.stderr
done
LD_LIBRARY_PATH=$(dirname "$LIBRARY") ./nohost_linked >nohost.out 2>nohost.stderr
cmp nohost.plain nohost.out
lines 0 . nohost.stderr
LD_PRELOAD=$LIBRARY SEMCACHE_HOST_BLAS=/nonexistent ./nohost x >nohost.out 2>nohost.stderr
cmp nohost.plain nohost.out
lines 1 'cannot open SEMCACHE_HOST_BLAS=/nonexistent' nohost.stderr
LD_PRELOAD=$LIBRARY SEMCACHE_HOST_BLAS=$LIBRARY timeout "$HANG" ./nohost x >nohost.out 2>nohost.stderr
cmp nohost.plain nohost.out
lines 1 'that is semcache itself' nohost.stderr
say "no host BLAS: computed, one line for what cannot be"

# Wrong values of variables: each costs one warning line, and the default holds.
for wrong in DEVICES=gpu DEVICES=sim:0 SIM=fast MEMORY=0 OFFLOAD=yes TILE=-1 GATE=none PANEL=0 PANEL=5000 OWN=x LOG=loud \
    DEVICES=sim:atlantis NONSENSE=1 DISABLE=foo DISABLE=sgemm,gemm,foo; do
    env SEMCACHE_OFFLOAD=always "SEMCACHE_$wrong" LD_PRELOAD="$LIBRARY" ./fixed >wrong.out 2>wrong.stderr
    cmp fixed.plain wrong.out || fail "SEMCACHE_$wrong changes the answer"
    lines 1 "^semcache: .*${wrong#*=sim:}|^semcache: SEMCACHE_${wrong%%=*}.*(using|ignored)" wrong.stderr
done
env SEMCACHE_OFFLOAD=yes SEMCACHE_TILE=x SEMCACHE_NONSENSE=1 LD_PRELOAD="$LIBRARY" ./fixed 2>wrong.stderr | cmp - fixed.plain
lines 3 '^semcache: ' wrong.stderr
say "wrong settings: one line each"

# Reports that cannot be written.
for path in /dev/full /dev/null /nonexistent/report.json /proc/report.json "$dir"; do
    status=0
    env SEMCACHE_REPORT="$path" LD_PRELOAD="$LIBRARY" ./processes exit >wrong.out 2>wrong.stderr || status=$?
    [ $status = 7 ] && [ ! -s wrong.out ] || fail "SEMCACHE_REPORT=$path: status $status"
    lines 1 "cannot write the report $path" wrong.stderr
done
if mkdir full && mount -t tmpfs -o size=4k none full 2>/dev/null; then
    trap 'umount "$dir/full"' EXIT
    head -c 4096 /dev/zero >full/filler
    status=0
    env SEMCACHE_REPORT=full/report.json LD_PRELOAD="$LIBRARY" ./processes exit >wrong.out 2>wrong.stderr || status=$?
    [ $status = 7 ] && [ ! -s wrong.out ] && [ "$(ls full)" = filler ] || fail "a full disk: status $status, $(ls full)"
    lines 1 "cannot write the report full/report.json" wrong.stderr
    umount full
    trap - EXIT
fi
# stderr is closed, or full.
env SEMCACHE_REPORT=- SEMCACHE_NONSENSE=1 LD_PRELOAD="$LIBRARY" ./fixed 2>&- | cmp - fixed.plain
env SEMCACHE_REPORT=- LD_PRELOAD="$LIBRARY" ./fixed 2>/dev/full | cmp - fixed.plain
env SEMCACHE_REPORT=- "${HARD[@]}" LD_PRELOAD="$LIBRARY" ./fixed 2>report.stderr | cmp - fixed.plain
grep -q 'semcache: report of process' report.stderr || fail "no table on stderr"
# Without %p all processes have one report: their sum, and each.
env SEMCACHE_REPORT="$dir/plain.json" "${HARD[@]}" LD_PRELOAD="$LIBRARY" ./processes tree >/dev/null || true
[ -s plain.json ] && [ "$(find . -maxdepth 1 -name 'plain.json.*' | wc -l)" = 0 ] || fail "$(ls -d plain.json*)"
sum plain.json offloaded "counted==6"
say "reports: one line where they cannot be written"

# The command.
export SEMCACHE_LIB=$LIBRARY
status_of() { # WANTED COMMAND...: what it prints goes to command.out and command.stderr
    local wanted=$1 status=0
    shift
    "$@" >command.out 2>command.stderr </dev/null || status=$?
    [ $status = "$wanted" ] || fail "$*: status $status, expected $wanted: $(cat command.stderr)"
}
status_of 1 "$COMMAND" run -- false
lines 1 '^semcache: ' command.stderr
[ ! -s command.out ] || fail "semcache run writes to stdout"
status_of 127 "$COMMAND" run -- ./no-such-program
lines 1 'no-such-program' command.stderr
status_of 126 "$COMMAND" run -- /etc/passwd
status_of 139 "$COMMAND" run -- ./signals default
status_of 137 "$COMMAND" run -- sh -c 'kill -KILL $$'
lines 1 '^semcache: ' command.stderr
status_of 7 "$COMMAND" run --devices "$(machine 2)" -- ./processes exit
status_of 0 "$COMMAND" run --off -- ./fixed
cmp command.out fixed.plain
status_of 0 env "${HARD[@]}" "$COMMAND" run --devices "$(machine 2)" --report run.json -- ./fixed
cmp command.out fixed.plain
lines 1 '^semcache: .*ran on devices' command.stderr
sum run.json offloaded cache.closes faults
status_of 0 "$COMMAND" report run.json
status_of 125 "$COMMAND" report /nonexistent
status_of 0 "$COMMAND" env
[ "$(grep -c '^SEMCACHE_' command.out)" -ge 13 ] || fail "semcache env: $(cat command.out)"
status=0
"$COMMAND" doctor >command.out 2>command.stderr || status=$?
[ $status -le 1 ] && grep -qi 'blas' command.out || fail "semcache doctor: status $status"
say "the command: as it should"
