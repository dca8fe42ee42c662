#!/bin/bash
# The cost of the preload in a program that makes no use of it, and the cost of writing a result back; each figure is
# compared with its limit. Needs a quiet machine.
set -euo pipefail
. "$(dirname "$0")/../setting.sh"
build
dir=$(fresh overhead)
gcc -O2 -Wall -Wextra -o "$dir/overhead" "$ROOT/scripts/perf/overhead.c" -lblas -ldl
cd "$dir"
bad=0
export OPENBLAS_NUM_THREADS=1

# within WHAT VALUE LIMIT UNIT: prints one line, and notes if the value is above its limit.
within() {
    if awk -v v="$2" -v l="$3" 'BEGIN { exit !(v <= l) }'; then verdict=ok; else verdict=TOO\ MUCH bad=1; fi
    printf '%-52s %10s %-4s limit %-6s %s\n' "$1" "$2" "$4" "$3" "$verdict"
}
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.3f", a / b }'; }
least() { sort -g | head -n 1; }

read -r through direct difference < <(LD_PRELOAD=$LIBRARY taskset -c 0 ./overhead gemm)
within "4 x 4 dgemm ($through ns through the library, $direct direct)" "$difference" 10 ns

read -r through direct difference < <(SEMCACHE_DEVICES=sim:1 LD_PRELOAD=$LIBRARY taskset -c 0 ./overhead beside)
within "the same beside a result on a device ($through ns, $direct direct)" "$difference" 45 ns

read -r plain with difference < <(./overhead spawn "$LIBRARY")
within "/bin/true ($plain ms plain, $with preloaded)" "$difference" 1.5 ms

for i in 1 2 3 4 5; do
    ./overhead realloc >>realloc.plain
    LD_PRELOAD=$LIBRARY ./overhead realloc >>realloc.ours
done
plain=$(least <realloc.plain) ours=$(least <realloc.ours)
within "realloc to 1 GiB by 1 MiB ($plain s plain, $ours s)" "$(ratio "$ours" "$plain")" 1.2 x

# The least of five runs each: other programs can only add time. Blocking signals around an allocation costs a
# microsecond.
for i in 1 2 3 4 5; do
    for handler in '' handler; do
        # shellcheck disable=SC2086 # an argument or none
        LD_PRELOAD=$LIBRARY ./overhead malloc $handler >>"malloc.${handler:-none}"
    done
done
for handler in none handler; do
    column=1
    for mib in 1 2 16; do
        ours=$(cut -d ' ' -f $column "malloc.$handler" | least)
        within "malloc and free of $mib MiB, ${handler/none/no handler}" "$ours" 250 ns
        column=$((column + 1))
    done
done

plain=$(./overhead sparse) ours=$(LD_PRELOAD=$LIBRARY ./overhead sparse)
within "sparse 1 GiB calloc ($plain KiB resident plain, $ours)" "$(ratio "$ours" "$plain")" 1.1 x

status='import re; s = open("/proc/self/status").read(); print(*(re.search(k + r":\s*(\d+)", s)[1] for k in ("Threads", "VmRSS")))'
for i in 1 2 3; do
    /usr/bin/python3 -c "$status" >>python.plain
    LD_PRELOAD=$LIBRARY /usr/bin/python3 -c "$status" >>python.ours
done
read -r plain_threads plain < <(sort -k2n python.plain | head -n 1)
read -r threads ours < <(sort -k2n python.ours | head -n 1)
within "python3: threads more than plain" "$((threads - plain_threads))" 0 ""
within "python3: memory more than plain ($plain KiB)" "$((ours - plain))" 2048 KiB

for i in 1 2 3; do
    preloaded "$dir/read" SEMCACHE_OFFLOAD=always SEMCACHE_DEVICES=sim:1 SEMCACHE_MEMORY=4GiB -- ./overhead read >>read.ours
done
sum "$dir/read" offloaded==3 faults
read -r home copy again < <(sort -g read.ours | head -n 1)
within "reading a 1 GiB result ($home s; its copy $copy s, open $again s)" "$(ratio "$home" "$copy")" 1.3 x

for i in 1 2 3; do
    ./overhead refill >>refill.plain
    preloaded "$dir/refill" SEMCACHE_OFFLOAD=always SEMCACHE_DEVICES=sim:1 SEMCACHE_MEMORY=4GiB -- ./overhead refill >>refill.ours
done
sum "$dir/refill" offloaded==18 faults.write
plain=$(least <refill.plain) ours=$(least <refill.ours)
within "refilling 1 GiB that a device has ($plain s plain, $ours s)" "$(ratio "$ours" "$plain")" 1.1 x
exit $bad
