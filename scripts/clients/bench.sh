#!/bin/bash
# Tests the benchmarks for GPU machines, so that they run there at the first try: every program compiles without a
# warning; semcache runs on a simulated device, the peers on a stand-in for NVIDIA's libraries, and each result is
# checked; packed Octave and the packed programs run in an empty environment. The measured times have no meaning here.
#
#   bench.sh [--quick]     --quick: without packed Octave and the packed programs, of which NWChem, MUMPS and Linpack are installed
#                          or built
set -euo pipefail
. "$(dirname "$0")/../setting.sh"
dir=$(fresh bench)
only=limits,abac,dgemm,resident,jacobi,chain,readback,fork
only+=,families:dgemm:dsymm:dsyrk:dsyr2k:dtrmm:dtrsm:zhemm:zherk:zher2k

export BASE=$LIBRARY
# Not CFLAGS: cargo would build the library anew, and once more without them.
WARNINGS=-Werror "$ROOT/scripts/gpu-bench.sh" build "$dir/pack"
mkdir "$dir/gpu"
gcc -O2 -Wall -Wextra -Werror -shared -fPIC -fvisibility=hidden -o "$dir/gpu/libcudart.so.13" "$ROOT/bench/standin.c" \
    /usr/lib/x86_64-linux-gnu/libopenblas.so.0
ln -s libcudart.so.13 "$dir/gpu/libcublas.so.13"
cd "$dir"
env -i PATH="$PATH" LD_LIBRARY_PATH="$dir/gpu" DEVICES=sim:1 "$dir/pack/gpu-bench.sh" run "$dir/out" --quick --budget 100000 --only "$only" \
    >run.log 2>&1 || { cat run.log; fail "gpu-bench.sh"; }
# Every comparison of the families has both sides, and no note was printed.
rows=$(grep -c '^| families .* | [0-9]*/[0-9]* |$' out/bench.md)
[ "$rows" = 36 ] || { cat out/bench.md; fail "$rows rows of families, not 36"; }
if grep -E '^\| families .* \| - \| [^|]* \| [^|]* \| - \|' out/bench.md || grep '^  note:.*families' run.log; then
    fail "a comparison lacks a side"
fi
grep -q '| 515 | dgemm, refilled: moved per call .* | 1.0000 |' out/bench.md || { cat out/bench.md; fail "dgemm moved something else"; }
# Every way of moving operands gives the right result.
env -i LD_LIBRARY_PATH="$dir/gpu" "$dir/pack/bin/peer_strategies" axpy,dot,gemm,gemv 600 36 >strategies.jsonl || fail "peer_strategies"
rows=$(grep -cE '"routine":"d[a-z-]+",.*"seconds":\[[0-9]' strategies.jsonl)
[ "$rows" = 278 ] || { cat strategies.jsonl; fail "peer_strategies: $rows lines, not 278"; }
say "benchmarks: $(grep -c '^| [a-z]* | [0-9]' out/bench.md) comparisons"
# pairs FOLDER SCRIPT FIGURES [OPTIONS]: two rounds of the library against itself print FIGURES figures.
pairs() {
    rm -rf "$1.pairs"
    env -i PATH="$PATH" DEVICES=sim:1 "$dir/$1/$2" pairs "$dir/$1.pairs" --quick --rounds 2 --budget 100000 "${@:4}" >pairs.log 2>&1 ||
        { cat pairs.log; fail "$2 pairs"; }
    rows=$(grep -cE '^\| [^|]+ \| 2 \|( [0-9.]+ m?u?s \|){3}( [0-9.]+ \([0-9.]+ \.\. [0-9.]+\) \|){2}$' "$1.pairs/pairs.md")
    [ "$rows" = "$3" ] || { cat "$1.pairs/pairs.md"; fail "$2 pairs: $rows figures, not $3"; }
}
pairs pack gpu-bench.sh 14
pairs pack gpu-bench.sh 3 --only dsymm:4096,dtrsm:16384@0.25,dgemm:512:1500:1500@0.1
env -i PATH="$PATH" DEVICES=sim:1 "$dir/pack/gpu-bench.sh" memory "$dir/memory" --quick --shares 0.1,0.4 --budget 100000 >memory.log 2>&1 ||
    { cat memory.log; fail "gpu-bench.sh memory"; }
rows=$(grep -cE '^\| d[a-z0-9:]+ \| 0\.[14] \| .* \| 0 \|$' memory/memory.md)
[ "$rows" = 20 ] && ! grep -q '^Notes:' memory/memory.md || { cat memory/memory.md; fail "memory: $rows rows without fallbacks, not 20"; }

env -i PATH="$PATH" DEVICES=sim:1 "$dir/pack/gpu-bench.sh" grid "$dir/grid" --quick --rounds 2 --warm 2 --budget 100000 >grid.log 2>&1 ||
    { cat grid.log; fail "gpu-bench.sh grid"; }
rows=$(grep -cE '^\| d[a-z]+ \| [0-9]+ \| (host|resident) \|( [0-9.]+ [mu]?s \|){3} (always|never) \|( [0-9.]+ \([0-9.]+ \.\. [0-9.]+\) \|){2} [0-9.]* \|$' grid/grid.md)
[ "$rows" = 30 ] || { cat grid/grid.md; fail "grid: $rows cells, not 30"; }

# Dense solvers; there is no stand-in for cuSOLVER's side.
env -i PATH="$PATH" DEVICES=sim:1 "$dir/pack/gpu-bench.sh" solvers "$dir/solvers" --problems getrf,potrf,geqrf,gesv,posv,inv,qr,geqp3 --sizes 200,256 --reps 2 >solvers.log 2>&1 ||
    { cat solvers.log; fail "gpu-bench.sh solvers"; }
rows=$(grep -cE '^\| (getrf|potrf|geqrf|gesv|posv|inv|qr|geqp3) \| (200|256) \|( [0-9.]+ [mu]?s \|){2} [0-9.]+ \|( [0-9.]+ [mu]?s \|){2}( - \|){3}$' solvers/solvers.md)
[ "$rows" = 16 ] || { cat solvers/solvers.md; fail "solvers: $rows rows, not 16"; }

# Products whose results the CPU reads; the program checks them.
BENCH_WAKE=0.05 LD_LIBRARY_PATH=$dir/pack/lib SEMCACHE_OFFLOAD=always "$COMMAND" run --devices sim:1 --report vector.json -- \
    "$dir/pack/bin/vector" 64,96 400 >vector.out || fail "vector"
[ "$(grep -c '"bench":"vector"' vector.out)" = 8 ] || { cat vector.out; fail "vector"; }
sum vector.json offloaded "cache.mapped>1000" "cache.replayed>1000"

env -i PATH="$PATH" DEVICES=sim:1 "$dir/pack/gpu-bench.sh" ablate "$dir/ablate" --quick --rounds 1 --budget 100000 >ablate.log 2>&1 ||
    { cat ablate.log; fail "gpu-bench.sh ablate"; }
rows=$(grep -cE '^\| [a-z-]+ \| [^|]+ \| 1 \|( [0-9.]+ [mu]?s \|){2}( [0-9.]+ \(0.000 \.\. inf\) \|){2}$' ablate/ablate.md)
changes=$(grep -cE '^\| [a-z, ]+ \| d[a-z]+ \| [0-9]+ \|( [0-9.]+ [mu]?s \|){2} [0-9]+ \([0-9]+\) \| [0-9]+ \| (yes|NO) \|$' ablate/ablate.md)
[ "$rows" = 54 ] && [ "$changes" = 12 ] && ! grep -q '^Notes:' ablate/ablate.md ||
    { cat ablate/ablate.md; fail "ablate: $rows rows and $changes changes, not 54 and 12, or a note"; }
# The script and the page have the same heuristics.
for name in $(sed -n '/^HEURISTICS = {/,/^}/s/^ *"\([a-z-]*\)".*/\1/p' "$ROOT/bench/ablate.py"); do
    grep -q "^| \`$name\` |" "$ROOT/docs/heuristics.md" || fail "docs/heuristics.md has no $name"
done
say "heuristics: $rows comparisons, $changes changes"

# The published experiments, and once more, when everything is there already.
for again in 0 1; do
    env -i PATH="$PATH" LD_LIBRARY_PATH="$dir/gpu" DEVICES=sim:1 "$dir/pack/gpu-bench.sh" reproduce "$dir/reproduce" --quick --budget 100000 \
        >reproduce.log 2>&1 || { cat reproduce.log; fail "gpu-bench.sh reproduce"; }
    rows=$(grep -cE '^\{"set":"[a-z0-9 ]+","call":"d.*,"s":\[[0-9]' reproduce/reproduce-cocopelia.jsonl)
    [ "$rows" = 183 ] && ! grep -q '"note"' reproduce/*.jsonl || { cat reproduce.log; fail "reproduce: $rows calls, not 183, or a note"; }
    already=$(grep -c ': finished$' reproduce.log)
    [ "$already" = $((again ? 19 : 2)) ] || { cat reproduce.log; fail "reproduce: $already steps were finished already"; }
done
say "published experiments: $rows calls, twice"
# Their pages, and the same again from what is kept beside them.
pages_of() {
    PYTHONDONTWRITEBYTECODE=1 "$ROOT/bench/reproduce" cocopelia werkhoven --data "$1" --out "$2" --no-plots --semcache "$COMMAND" \
        --machine "$ROOT/bench/results/h100-80gb-hbm3-x1.toml" >pages.log 2>&1 || { cat pages.log; fail "bench/reproduce: no pages"; }
}
pages_of reproduce pages
pages_of pages pages.again
for name in cocopelia:85 werkhoven:60; do
    file=${name%:*}.md
    rows=$(grep -c '^|' "pages/$file")
    [ "$rows" = "${name#*:}" ] && grep -q 'Nothing is missing' "pages/$file" || { cat "pages/$file"; fail "$file: $rows rows, not ${name#*:}"; }
    cmp "pages/$file" "pages.again/$file" || fail "$file differs when it is written again"
done
say "pages of published experiments, twice"
# Those in virtual time, and the same pages from what is kept beside them.
virtual=(semcache:56 blasx:117 xkblas:45 beyond:71)
in_virtual_time() {
    PYTHONDONTWRITEBYTECODE=1 "$ROOT/bench/reproduce" "${virtual[@]%:*}" --no-plots --semcache "$COMMAND" "$@" >virtual.log 2>&1 ||
        { cat virtual.log; fail "bench/reproduce: no runs in virtual time"; }
}
in_virtual_time --quick --out virtual
in_virtual_time --kept --data virtual --out virtual.again
for name in "${virtual[@]}"; do
    file=${name%:*}.md
    rows=$(grep -c '^|' "virtual/$file")
    [ "$rows" = "${name#*:}" ] || { cat "virtual/$file"; fail "$file: $rows rows, not ${name#*:}"; }
    cmp "virtual/$file" "virtual.again/$file" || fail "$file differs when it is written again"
done
say "pages of experiments in virtual time, twice"

# measured FILE KEY...: a calibration has written these figures.
measured() {
    local key
    for key in "${@:2}"; do grep -q "^$key = " "$1" || { cat "$1" rates.log; fail "semcache calibrate: no $key"; }; done
}
# A calibration of simulated devices.
env -i PATH="$PATH" "$dir/pack/gpu-bench.sh" rates "$dir/rates" --devices sim:2 --quick >rates.log 2>&1 ||
    { cat rates.log; fail "gpu-bench.sh rates"; }
measured rates/rates.toml h2d_all d2h_all pin peak_flops bid_slowdown runs stream_s memory_bandwidth gemm_flops
# Calibrations on the stand-in of the driver, of one GPU and of two of different models, whose files programs take, and not on a
# machine with other GPUs.
standin_in "$dir/driver"
on_standin() {
    env -i PATH="$PATH" XDG_CACHE_HOME="$dir/cache" LD_LIBRARY_PATH="$dir/driver" "$@"
}
for gpus in 1 2; do
    on_standin SEMCACHE_STANDIN=devices=$gpus "$COMMAND" calibrate --quick >calibrated 2>rates.log || { cat rates.log; fail "semcache calibrate, $gpus GPUs"; }
    measured "$(cat calibrated)" h2d_all d2h_all pin gemm_flops
    on_standin SEMCACHE_STANDIN=devices=$gpus "$COMMAND" machine >machine.log || fail "semcache machine"
    grep -q "^pin .* measured .* by semcache calibrate ($(cat calibrated))" machine.log || { cat machine.log; fail "semcache machine"; }
done
measured "$dir/cache/semcache/stand-in-gpu-0.toml" peak_flops bid_slowdown runs stream_s memory_bandwidth
# taken SETTING...: the lines of the library about its file, when a program runs on the stand-in.
taken() {
    on_standin SEMCACHE_DEVICES=cuda SEMCACHE_OFFLOAD=always SEMCACHE_LOG=debug "$@" "LD_PRELOAD=$LIBRARY" "$TARGET/legacy/abac" 100 2>&1 >/dev/null |
        grep -E 'semcache: [a-z]+: (rates of|no file|.*built-in rates)' || true
}
legacy_clients
grep -q "debug: rates of $dir/cache/semcache/stand-in-gpu-0.toml" <<<"$(taken)" || fail "the calibration's file is not used: $(taken)"
grep -q "debug: no file" <<<"$(taken XDG_CACHE_HOME="$dir/empty")" || fail "a missing file"
[ -z "$(taken SEMCACHE_RATES=off)" ] || fail "SEMCACHE_RATES=off: $(taken SEMCACHE_RATES=off)"
sed -i 's/^cpu = .*/cpu = "another"/' "$dir/cache/semcache/stand-in-gpu-0.toml"
grep -q 'info: .* was measured with the processor "another".*; using the built-in rates' <<<"$(taken)" || fail "a foreign file: $(taken)"
say "calibrations: on simulated devices and on the stand-in of the driver"
env -i PATH="$PATH" DEVICES=sim:2 "$dir/pack/gpu-bench.sh" predict "$dir/predict" --quick --reps 2 --rates rates/rates.toml \
    --budget 100000 >predict.log 2>&1 || { cat predict.log; fail "gpu-bench.sh predict"; }
rows=$(grep -cE '^\| d[a-z0-9]+ \| (300|515) \| (first|later) \| [12] \| .* \| [+-][0-9.]+ % \|$' predict/predict.md)
[ "$rows" = 24 ] || { cat predict/predict.md; fail "predict: $rows lines, not 24"; }
if grep 'built-in rates' predict/bench.jsonl; then fail "the file of rates is not used"; fi
say "rates: $rows predictions by those of a calibration"
[ "${1:-}" != --quick ] || { rm -rf "$dir/pack"; exit 0; }

PACK_PRESET=0 "$ROOT/scripts/gpu-octave.sh" build "$dir/octave"
env -i PATH="$PATH" DEVICES=sim:1 "$dir/octave/gpu-octave.sh" run "$dir/octave.out" --quick --budget 100000 >octave.log 2>&1 ||
    { cat octave.log; fail "gpu-octave.sh"; }
grep -q 'started through the packed loader' octave.out/octave.md || { cat octave.log; fail "the packed loader was not used"; }
# Nine workloads, each with calls that ran on the device.
rows=$(grep -cE '^\| [^|]* \| [0-9]+ \| .* x \| - \| - \| [1-9][0-9]*/[0-9]+ \|$' octave.out/octave.md)
[ "$rows" = 14 ] || { cat octave.out/octave.md; fail "$rows workloads, not 14"; }
pairs octave gpu-octave.sh 14
rm -rf "$dir/octave" "$dir/pack"
say "packed Octave: $rows workloads as plainly"

WARNINGS=-Werror PACK_PRESET=0 "$ROOT/scripts/gpu-programs.sh" build "$dir/programs"
env -i PATH="$PATH" DEVICES=sim:1 "$dir/programs/gpu-programs.sh" run "$dir/programs.out" --quick --rounds 1 --budget 100000 \
    >programs.log 2>&1 || { cat programs.log; fail "gpu-programs.sh"; }
# Eleven programs and the placements, each on all sides; those that compute enough have calls that ran on the device.
rows=$(grep -cE '^\| .* \| (plain|base|new) \| [0-9.]+ \| [0-9.]+ \|' programs.out/programs.md)
[ "$rows" = 33 ] || { cat programs.out/programs.md; fail "$rows rows of programs, not 33"; }
rows=$(grep -cE '^\| (malloc|static|common|member|arena|part) \| 256( \| [0-9.]+)+ \|$' programs.out/programs.md)
[ "$rows" = 12 ] || { cat programs.out/programs.md; fail "$rows rows of places, not 12"; }
[ "$(grep -cE '"program": "(temporary|hpl|lu|nwchem)", "side": "new".*"offloaded": [1-9]' programs.out/programs.jsonl)" -ge 4 ] ||
    { cat programs.out/programs.jsonl; fail "nothing was offloaded"; }
# Clients print what they print plainly, or the script says so.
env -i PATH="$PATH" DEVICES=sim:1 "$dir/programs/gpu-programs.sh" run "$dir/clients.out" armadillo eigen cholmod caffe jacobi cg abac \
    --quick --rounds 1 --sides plain,new,control --budget 100000 >clients.log 2>&1 || { cat clients.log; fail "gpu-programs.sh: clients"; }
rows=$(grep -cE '^\| .* \| (plain|new|control) \| [0-9.]+ \| [0-9.]+ \|' clients.out/programs.md)
[ "$rows" = 21 ] || { cat clients.out/programs.md; fail "$rows rows of clients, not 21"; }
# Linpack checks its own solution: with panels of one page, and every call on devices.
env -i PATH="$PATH" DEVICES=sim:1 SEMCACHE_OFFLOAD=always SEMCACHE_PANEL=4KiB "$dir/programs/gpu-programs.sh" run "$dir/hpl.out" hpl \
    --quick --rounds 1 --sides plain,new --budget 100000 >hpl.log 2>&1 || { cat hpl.log; fail "gpu-programs.sh hpl"; }
rm -rf "$dir/programs"
say "packed programs: as plainly"
