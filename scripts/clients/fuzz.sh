#!/bin/bash
# Random programs under the library, each in a process of its own and a setting of its own: one to three devices, tiny
# and large device memory, small and large panels, every gate, in the simulator's normal, late and poison mode. The
# right answer is computed alongside by plain loops. The first difference is made as short as it gets and printed
# with the command that shows it again.
#
#   fuzz.sh [--quick] [PROGRAMS|SECONDS [FIRST]]     SECONDS with an "s" behind them (3600s), PROGRAMS without; default 10000
#                                                    programs from seed 1, --quick: 300
#
# SEMCACHE_TEST_DEVICES=cuda: on the GPUs. FUZZ_OPERATIONS: in each program (200). FUZZ_GATES: a list of gates.
# FUZZ_PLAIN=1: without the library, which tries the host BLAS and the fuzzer itself. JOBS: processes at a time.
set -euo pipefail
. "$(dirname "$0")/../setting.sh"
many=10000
[ "${1:-}" != --quick ] || { many=300 && shift; }
many=${1:-$many} first=${2:-1}
build
dir=$(fresh fuzz)
if [ -n "$PREBUILT" ]; then
    fuzzer=$PREBUILT/bin/semcache-fuzz
else
    compile semcache-fuzz
    fuzzer=$BUILT/semcache-fuzz
fi
clients_built
how=(--first "$first" --operations "${FUZZ_OPERATIONS:-200}" --jobs "${JOBS:-$(nproc)}" --dir "$dir")
[ -n "${FUZZ_PLAIN:-}" ] || how+=(--library "$LIBRARY")
[ -z "${FUZZ_GATES:-}" ] || how+=(--gates "$FUZZ_GATES")
case $many in
*s) how+=(--seconds "${many%s}") ;;
*) how+=(--programs "$many") ;;
esac
if ! simulated; then how+=(--cuda "$(nvidia-smi -L | wc -l)"); fi
"$fuzzer" drive "${how[@]}" || fail "see $dir"
