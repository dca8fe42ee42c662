#!/bin/bash
# Builds semcache, runs unmodified solvers plainly and on two simulated devices, checks that their answers agree, and prints what they
# took, what was moved against what copying at every call would have moved, where the CPU's accesses faulted, and where the pages with
# the charts are.
#
#   scripts/demo.sh        on Debian with Rust; installs what it needs
set -euo pipefail
. "$(dirname "$0")/setting.sh"

"$ROOT/scripts/setup.sh" demo
say "building, about a minute on two cores"
CARGO_OPTION=--color=auto build
make -s -C "$ROOT/examples/legacy" OUT="$TARGET/legacy"
dir=$(fresh demo)

# On a simulated machine the prediction might well prefer this host: the demonstration insists.
export SEMCACHE_OFFLOAD=always SEMCACHE_LIB=$LIBRARY
rows=()
for client in "jacobi 4096 100" "cg 4096" "cg_f 4096" "abac 1024"; do
    # shellcheck disable=SC2086 # words are meant
    set -- $client
    program=$1
    shift
    say "$program $*, plainly"
    begun=$(date +%s%N)
    "$TARGET/legacy/$program" "$@" | tee "$dir/$program.plain"
    plain=$(($(date +%s%N) - begun))
    say "semcache run --devices sim:2 -- $program $*"
    begun=$(date +%s%N)
    "$COMMAND" run --devices sim:2 --report "$dir/$program.json" --trace "$dir/$program.pftrace" -- "$TARGET/legacy/$program" "$@" |
        tee "$dir/$program.semcache"
    ours=$(($(date +%s%N) - begun))
    "$COMMAND" report "$dir/$program.json" --trace "$dir/$program.pftrace" --html "$dir/$program.html"
    cmp "$dir/$program.plain" "$dir/$program.semcache" || fail "$program: the answers differ"
    sum "$dir/$program.json" offloaded >/dev/null || fail "$program: nothing was offloaded"
    read -r moved per_call < <("$COMMAND" report --print moved --print per_call "$dir/$program.json")
    rows+=("$program $plain $ours $moved $per_call")
done

say "the answers agree; simulated devices compute on this machine's cores, so only a GPU makes it faster. Moved over the host link:"
printf '%-8s %10s %10s %14s %20s\n' program plainly semcache 'moved' 'copying every call'
for row in "${rows[@]}"; do
    # shellcheck disable=SC2086
    set -- $row
    awk -v p="$1" -v a="$2" -v b="$3" -v m="$4" -v c="$5" 'BEGIN {
        printf "%-8s %8.2f s %8.2f s %11.1f MB %17.1f MB   %.0f times less\n", p, a / 1e9, b / 1e9, m / 1e6, c / 1e6, (m > 0 ? c / m : 0)
    }'
done
say "abac's matrices, and the line where the CPU reads the result: a page fault brings it back (semcache report --by matrix)"
"$COMMAND" report --by matrix "$dir/abac.json"
say "charts of each run, to open in a browser: $dir/{jacobi,cg,cg_f,abac}.html"
