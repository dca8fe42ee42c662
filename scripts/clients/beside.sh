#!/bin/bash
# Tests a program that uses CUDA itself (tests/edge/beside.c): it copies from results and into inputs, registers memory,
# and uses CUDA and BLAS on the same threads. Under the preload it must print and return what it does without. From the
# moment that the program makes a CUDA context, the process must write results back before each call returns, and say so
# once; if it makes no context, it must not. The stand-in for the driver serves both semcache and the program, or only
# the program, while semcache uses simulated devices.
#
#   beside.sh [--quick]      --quick: three settings instead of nine
#   ONLY=NAME beside.sh      only the programs of this name (a shell pattern)
set -euo pipefail
. "$(dirname "$0")/../setting.sh"
unset SEMCACHE_STANDIN SEMCACHE_STANDIN_FAIL SEMCACHE_STANDIN_COUNTS
quick=''
[ "${1:-}" = --quick ] && quick=1
build
dir=$(fresh beside)
export OPENBLAS_NUM_THREADS=1
ulimit -c 0

[ -n "$PREBUILT" ] || standin_in "$dir/gpu"
obtain "$dir/beside" gcc -O2 -g -Wall -Wextra -o "$dir/beside" "$ROOT/tests/edge/beside.c" -lblas -lpthread -ldl -lm
obtain "$dir/beside_linked" gcc -O2 -g -Wall -Wextra -DLINKED -o "$dir/beside_linked" "$ROOT/tests/edge/beside.c" \
    -L"$dir/gpu" -l:libcuda.so.1 -lblas -lpthread -ldl -lm
obtain "$dir/loading" gcc -O2 -g -Wall -Wextra -o "$dir/loading" "$ROOT/tests/edge/loading.c" -lblas -lpthread -ldl -lm
obtain "$dir/ends" g++ -O2 -g -Wall -Wextra -o "$dir/ends" "$ROOT/tests/edge/ends.cpp" -lblas -lpthread -ldl
obtain "$dir/children" gcc -O2 -g -Wall -Wextra -o "$dir/children" "$ROOT/tests/edge/children.c" -lblas -lpthread -ldl -lm
clients_built
cd "$dir"

# The stand-in's settings, SEMCACHE_DEVICES, SEMCACHE_GATE.
settings=("system,devices=2 cuda auto" "late,seed=1 cuda auto" "poison,system,seed=2 sim:2 auto")
[ -n "$quick" ] || settings+=("late,poison,system,devices=2,seed=3 cuda auto" "seed=4 cuda auto" "poison,late,seed=5 cuda auto"
    "system cuda eager" "late sim:1 auto" "system,late sim:2 eager")
if simulated; then export LD_LIBRARY_PATH=$dir/gpu; else settings=("- $(machine 1) auto" "- $(machine 2) auto" "- $(machine 1) eager"); fi

# same NAME WANTED ASSERTION... -- PROGRAM ARGS...: stdout and status in every setting are those of the plain run; the
# assertions hold for the reports of all runs with page protection together. WANTED: the status; said=N: the number of
# lines on stderr in runs with page protection, all of which are line=TEXT (said='': any number); always=1: the lines
# also come in runs without page protection.
said=1 line='other code in the process uses CUDA' always=''
same() {
    local name=$1 wanted=$2 assertions=() status=0 standin devices gate lines
    shift 2
    # shellcheck disable=SC2053 # a pattern
    [[ $name == ${ONLY:-*} ]] || return 0
    while [ "$1" != -- ]; do assertions+=("$1") && shift; done
    shift
    timeout --foreground -s KILL "$HANG" "$@" >"$name.plain" 2>"$name.stderr" </dev/null || status=$?
    [ "$status" = "$wanted" ] || { cat "$name.plain" "$name.stderr"; fail "$name: plain status $status"; }
    for setting in "${settings[@]}"; do
        read -r standin devices gate <<<"$setting"
        status=0
        preloaded "$dir/reports/$name/$gate" "${HARD[@]}" "SEMCACHE_STANDIN=${standin#-}" "SEMCACHE_DEVICES=$devices" "SEMCACHE_GATE=$gate" \
            -- timeout --foreground -s KILL "$HANG" "$@" >"$name.out" 2>"$name.stderr" </dev/null || status=$?
        lines=$said
        [ "$gate" != eager ] || [ -n "$always" ] || lines=0
        [ -n "$lines" ] || lines=$(grep -c "$line" "$name.stderr" || true)
        if [ "$status" != "$wanted" ] || ! cmp -s "$name.plain" "$name.out" || grep -q '^semcache-standin' "$name.stderr" ||
            [ "$(grep -c '^semcache' "$name.stderr")" != "$lines" ] ||
            [ "$(grep -c "$line" "$name.stderr")" != "$lines" ]; then
            diff "$name.plain" "$name.out" | head -20 || true
            head -5 "$name.stderr"
            fail "$name under '$setting': status $status"
        fi
    done
    say "$name: as plain"
    [ ${#assertions[@]} = 0 ] || sum "$dir/reports/$name/auto" "${assertions[@]}"
}

eager=(offloaded cache.closes "degraded.other_cuda>0")
same copies 0 "${eager[@]}" faults -- ./beside copies
same register 0 "${eager[@]}" -- ./beside register
same early 0 offloaded "degraded.other_cuda>0" cache.closes==0 -- ./beside early
same first 0 offloaded "degraded.other_cuda>0" cache.closes==0 -- ./beside first
same threads 0 offloaded "degraded.other_cuda>0" -- ./beside threads
same switch 0 "${eager[@]}" faults -- ./beside switch
same primary 0 "${eager[@]}" faults -- ./beside primary
same static 0 "${eager[@]}" -- ./beside static
same linked 0 "${eager[@]}" faults -- ./beside_linked copies
same linked_switch 0 "${eager[@]}" faults -- ./beside_linked switch
said=0 same query 0 offloaded cache.closes faults degraded.other_cuda==0 -- ./beside query
# The program forks while devices are initialised. The stand-in's driver is slow then, as NVIDIA's is.
usual=("${settings[@]}")
simulated && settings=("loads=2000 cuda auto" "loads=1000,devices=2 cuda auto" "loads=500,late,seed=1 cuda eager")
said=0 same loading 0 offloaded cache.closes degraded.other_cuda==0 -- ./loading
# Threads compute while the process ends, when the driver's functions stop working. On the reference BLAS, since
# OpenBLAS itself crashes in one of five such runs.
simulated && settings=("late,seed=1 cuda auto" "system,devices=2 cuda auto" "late,poison,seed=2 cuda eager" "- cuda auto")
LD_LIBRARY_PATH=$REFERENCE${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} said=0 same running 7 offloaded -- ./ends running
# The program closes every descriptor number, and then opens files of its own under every number; the driver has files
# open, too.
simulated && settings=("files=10 cuda auto" "files=200,late,devices=2 cuda auto" "files=10,system,seed=1 cuda eager")
for what in close close_range closefrom close_number taken; do
    line="the program takes descriptors of the GPUs' driver" always=1 same "children_$what" 7 offloaded degraded.descriptors -- ./children $what
done
# Main returns at some moment while the program takes the descriptors, so the number of lines is not fixed.
said='' always=1 line="the program takes descriptors of the GPUs' driver" same children_taken_exit 7 offloaded -- ./children taken_exit
settings=("${usual[@]}")
# A pointer that is not an address of the host: the process ends by the same signal, and does not hang.
same pointer 139 -- ./beside pointer
if ! simulated; then
    same device 139 -- ./beside device
    # An exception in a kernel of the program's ends all contexts of the process on a GPU, semcache's too; the stand-in
    # runs no kernels of programs.
    line='other code in the process uses CUDA\|is lost; what it was to do is done on the host' said='' always=1 \
        same broken 0 offloaded host degraded.other_cuda degraded.device_lost -- ./beside broken
fi
