#!/bin/bash
# `semcache top` and `semcache run --progress` beside programs that run: what they say is what the programs have done until then.
#
#   top.sh [--quick]
set -euo pipefail
. "$(dirname "$0")/../setting.sh"
build
dir=$(fresh top)
obtain "$dir/counted" gcc -O2 -Wall -Wextra -o "$dir/counted" "$ROOT/tests/clients/counted.c" -lblas
clients_built
cd "$dir"
devices=$(machine 2)
export OPENBLAS_NUM_THREADS=1 "${HARD[@]}"
started=()
trap 'for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done' EXIT

# until_true SECONDS COMMAND...: waits until the command succeeds.
until_true() {
    local deadline=$((SECONDS + $1))
    until "${@:2}"; do
        [ $SECONDS -lt $deadline ] || fail "not within $1 s: ${*:2}"
        sleep 0.1
    done
}

# counts PID CALLS: the run of a process has made CALLS calls on devices.
counts() {
    "$COMMAND" top --json "$1" >now.json 2>now.err &&
        "$COMMAND" report now.json "--assert=calls.dgemm.offloaded==$2" 2>/dev/null
}

# run_beside CALLS WORDS...: a run of `counted`, in the background, that has made CALLS calls on devices; its command is $command, its
# program $program.
run_beside() {
    local calls=$1
    shift
    "$COMMAND" run --devices "$devices" -- ./counted "$@" 2>run.err &
    command=$!
    started+=("$command")
    until_true 120 counts "$command" "$calls"
    program=$(pgrep -P "$command" | head -1)
}

# ends: it ends by the signal that its command is sent, unless it has ended.
ends() {
    kill "$command" 2>/dev/null || true
    wait "$command" || true
}

# Where stderr is no terminal, a line each ten seconds.
"$COMMAND" run --progress --devices "$devices" -- ./counted 3 sleep 2>progress.err &
progress=$!
started+=("$progress")
until_true 120 counts "$progress" 3

# The child of a fork computes on the host, and waits for ever.
run_beside 7 5 fork 7 wait 2 sleep
child=$(pgrep -P "$program" | head -1)
started+=("$child")
child_counts() { "$COMMAND" report now.json --assert=calls.dgemm.host==7 || { counts "$command" 7 && false; }; } 2>/dev/null
until_true 120 child_counts
for pid in "$command" "$program" "$child"; do
    "$COMMAND" top --once "$pid" >top.txt
    for words in 'semcache top  run ' '2 processes, 2 running' './counted 5 fork 7 wait 2 sleep' \
        '^calls on devices .* 7 ' '^calls on host .* 7 ' '^host calls  7 in a child of fork' \
        '^degraded    The process is a child' '^dgemm  .* 7  *7  7 in a child of fork' \
        "^$program  *runs .* 7  *0  " "^$child  *runs .* 0  *7  " '^sim0 ' '^sim1 '; do
        grep -q -e "$words" top.txt || simulated || [[ $words == *sim* ]] || fail "top --once $pid says no '$words': $(cat top.txt)"
    done
    if simulated; then grep -q '^sim0 .*MB' top.txt || fail "no device: $(cat top.txt)"; fi
done
"$COMMAND" report now.json '--assert=counted==2' || fail "$(cat now.json)"
say "a run is found by its command, its program and a child of that"

# Without an id: there are two runs at least, which are listed.
status=0
"$COMMAND" top --once >list 2>list.err || status=$?
[ $status = 1 ] && grep -q 'several runs' list.err && grep -q "^ *$command  .*counted 5 fork" list && grep -q "^ *$progress  " list ||
    fail "the list, status $status: $(cat list list.err)"
say "several runs are listed"

# A process of no run, none at all, and a terminal that is none: one line.
for pid in $$ 4194303; do
    status=0
    "$COMMAND" top --once "$pid" >none 2>none.err || status=$?
    [ $status = 1 ] && [ ! -s none ] && [ "$(wc -l <none.err)" = 1 ] && grep -q "^semcache: .*process $pid" none.err ||
        fail "process $pid, status $status: $(cat none none.err)"
done
status=0
"$COMMAND" top "$command" >none 2>none.err || status=$?
[ $status = 125 ] && grep -q 'wants a terminal' none.err || fail "no terminal, status $status: $(cat none none.err)"
say "what is no run, or no terminal, is told"

# A child that is killed is counted as ended, with what it did.
kill -KILL "$child"
killed() { "$COMMAND" top --once "$command" >top.txt && grep -q '2 processes, 1 running' top.txt && grep -q ' ended .* 7 ' top.txt; }
until_true 20 killed
ends
say "a killed process counts"

# A program into which the library is preloaded without the command.
env SEMCACHE_DEVICES="$devices" SEMCACHE_REPORT="$dir/preloaded.json" LD_PRELOAD="$LIBRARY" ./counted 4 sleep &
command=$!
started+=("$command")
until_true 120 counts "$command" 4
ends
say "a preloaded program is found by itself"

for how in q escape interrupt terminate ended; do
    run_beside 5 5 sleep
    python3 "$ROOT/scripts/clients/top_terminal.py" top "$how" "$COMMAND" "$program" || fail "top in a terminal, $how"
    [ $how = ended ] || counts "$command" 5 || fail "top has changed the counts: $(cat now.json)"
    ends
done
say "on a terminal: drawn, switched, resized, and left as it was"

python3 "$ROOT/scripts/clients/top_terminal.py" progress "$COMMAND" ./counted 5 sleep || fail "progress in a terminal"
told() { grep -q '^semcache: 0:[1-9][0-9]: 3 calls on devices (.*/s), 0 on the host' progress.err; }
until_true 30 told
command=$progress
ends
tail -1 progress.err | grep -q '^semcache: .*3 of 3 dgemm calls ran' && ! grep -q $'\r' progress.err ||
    fail "the closing line: $(cat progress.err)"
say "progress: a line that is erased on a terminal, lines elsewhere"
