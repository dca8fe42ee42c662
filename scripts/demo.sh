#!/bin/bash
# Builds semcache, runs two unmodified solvers plainly and on two simulated devices, checks that their
# answers agree, and prints what was moved against what copying at every call would have moved.
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
for client in "jacobi 4096 100" "cg 4096" "cg_f 4096"; do
    # shellcheck disable=SC2086 # words are meant
    set -- $client
    program=$1
    shift
    say "$program $*, plainly"
    "$TARGET/legacy/$program" "$@" | tee "$dir/$program.plain"
    say "semcache run --devices sim:2 -- $program $*"
    "$COMMAND" run --devices sim:2 --report "$dir/$program.json" -- "$TARGET/legacy/$program" "$@" |
        tee "$dir/$program.semcache"
    cmp "$dir/$program.plain" "$dir/$program.semcache" || fail "$program: the answers differ"
    sum "$dir/$program.json" calls.dgemv.offloaded >/dev/null || fail "$program: nothing was offloaded"
    read -r moved per_call < <("$COMMAND" report --print moved --print per_call "$dir/$program.json")
    rows+=("$program $moved $per_call")
done

say "the answers agree; moved over the host link"
printf '%-8s %14s %20s\n' program 'moved' 'copying every call'
for row in "${rows[@]}"; do
    # shellcheck disable=SC2086
    set -- $row
    awk -v p="$1" -v m="$2" -v c="$3" \
        'BEGIN { printf "%-8s %11.1f MB %17.1f MB   %.0f times less\n", p, m / 1e6, c / 1e6, (m > 0 ? c / m : 0) }'
done
