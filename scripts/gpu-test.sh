#!/bin/bash
# The suites of the project on real GPUs: built where there is Rust, run where there are GPUs. Without a GPU it
# fails; it skips nothing in silence.
#
#   scripts/gpu-test.sh build DIR            makes DIR self-contained: it needs bash, python3 with numpy and pytest
#   DIR/gpu-test.sh run OUT [PART...]        adds the verdicts to OUT/gpu-test.md, what was said to OUT/gpu-test.log
#
# A PART is one of those below, with arguments after colons (stress:--quick, stress:200:1001), and with "default/" in
# front of it (default/netlib) in the default setting instead of the hard one; no part: all of them.
#
#   devices                  the device contract; devices:--ignored:costs what queued operations cost
#   coherence  threads  sweep    the runtime against a sequential memory; every routine under all flags
#   netlib  netlib_alloc     Netlib's testers; netlib:--ilp64 those with 64-bit integers
#   netlib_suffixed          the same under other spellings; netlib_suffixed:--quick:scipy64_ one of them, in short
#   numpy                    products, and numpy.linalg's own tests
#   stress  fuzz             random programs; fuzz:300s runs for 300 s, fuzz:1000 runs 1000, fuzz:1000:5001 from seed 5001
#   edge  legacy  tools      odd clients, the examples, programs that have nothing to do with matrices
#   library                  programs that use semcache.h
#   solvers                  LAPACK's LU and Cholesky by cuSOLVER, in four precisions
#   mpi                      MPI programs, with the Open MPI that comes along
#   beside                   another user of CUDA in the process, on the same GPUs
#   refusals                 no driver, no library, no memory on the device, no locked memory
#   sanitizer                compute-sanitizer's memcheck on stress programs
#   lapack:--hard            LAPACK's testers in double precision, only when asked for: hours of a core; JOBS=N of them at once
#
# GPU_TEST_DEVICES=sim runs them on simulated devices, to try this script. PART_LIMIT: seconds for a part (280).
set -euo pipefail

PARTS=(devices coherence threads sweep netlib:--quick netlib:--quick:--ilp64 netlib_suffixed:--quick netlib_alloc:--quick numpy:--quick stress:60
    edge:--quick legacy:--quick library solvers:--quick mpi:--quick tools beside fuzz:240s refusals sanitizer:6 default/netlib:--quick default/numpy:--quick default/stress:30)

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() {
    sed -n '5,6s/^# *//p' "${BASH_SOURCE[0]}" >&2
    exit 2
}

build_into() {
    mkdir -p "$1"
    local dir program suite file
    dir=$(cd "$1" && pwd)
    # shellcheck source=scripts/setting.sh
    . "$here/setting.sh"
    # shellcheck source=scripts/pack_mpi.sh
    . "$here/pack_mpi.sh"
    "$ROOT/scripts/setup.sh" mpi
    build
    rm -rf "${dir:?}"/{bin,lib,clients,reference,reference64,lapack,scripts,examples,tests,gpu-test.sh}
    mkdir -p "$dir"/{bin,lib,clients,mpi,reference,reference64,lapack,scripts,examples/legacy,tests/edge}

    say "test programs of the library"
    (cd "$ROOT" && cargo test -p semcache --locked -q --no-run --message-format=json --test={devices,coherence,threads,sweep}) |
        python3 -c '
import json, shutil, sys
for line in sys.stdin:
    m = json.loads(line)
    if m.get("executable") and "test" in m["target"]["kind"]:
        shutil.copy(m["executable"], sys.argv[1] + "/" + m["target"]["name"])' "$dir/bin"
    say "fuzzer"
    compile semcache-fuzz
    cp "$BUILT/semcache-fuzz" "$dir/bin/"
    say "clients"
    for suite in edge beside legacy library solvers mpi stress netlib_alloc netlib_suffixed; do BUILD_ONLY=1 "$ROOT/scripts/clients/$suite.sh"; done
    cp -r "$TARGET"/suites/{edge,beside,library,solvers,stress,mpi,netlib_alloc.testers} "$TARGET/legacy" "$dir/clients/"
    cp -r "$TARGET/netlib_suffixed" "$dir/clients/"
    rm -r "$dir/clients/netlib_suffixed"/*/objects
    packed_mpi "$dir/mpi"
    # The stand-in must not be found there.
    rm -r "$dir/clients/beside/gpu"
    find "$dir/clients" \( -name '*.[ofc]' -o -name '*.plain' \) -delete
    gcc -O2 -Wall -Wextra -o "$dir/bin/hog" "$ROOT/bench/hog.c" "$ROOT/bench/common.c" "$ROOT/bench/cuda.c" -lpthread -ldl -lm

    cp "$COMMAND" "$dir/bin/"
    cp "$LIBRARY" "$dir/lib/"
    # The suites' host BLAS: Debian's libblas.so.3 on top of OpenBLAS, as in CI.
    cp -L /usr/lib/x86_64-linux-gnu/openblas-pthread/libblas.so.3 "$dir/lib/"
    packed_openblas "$dir/lib"
    for file in libgfortran.so.5 libquadmath.so.0; do cp -L "/usr/lib/x86_64-linux-gnu/$file" "$dir/lib/"; done
    cp -L "$REFERENCE"/x* "$REFERENCE"/*.in "$REFERENCE"/?in[23] "$REFERENCE/libblas.so.3" "$dir/reference/"
    cp -L "${REFERENCE}64"/x* "${REFERENCE}64"/*.in "${REFERENCE}64"/?in[23] "${REFERENCE}64/libblas64.so.3" "$dir/reference64/"
    cp -L "${REFERENCE%/*}"/lapack/{xlintstd,xlintstds,xlintstrfd,xeigtstd,liblapack.so.3,*.in} "$dir/lapack/"
    for program in "$dir"/bin/* "$dir"/lapack/[lx]* "$dir"/reference*/[lx]* "$dir"/clients/netlib_suffixed/*/* "$dir"/lib/*.so "$dir"/lib/*.so.[0-9] "$dir"/clients/*/*; do strip "$program" 2>/dev/null || true; done
    cp -r "$ROOT/scripts/clients" "$ROOT/scripts/setting.sh" "$dir/scripts/"
    cp "$ROOT/examples/legacy/power.py" "$dir/examples/legacy/"
    cp "$ROOT/tests/edge/dumps.py" "$dir/tests/edge/"
    cp "$ROOT/scripts/gpu-test.sh" "$dir/"
    say "$dir: $(du -sm "$dir" | cut -f1) MB"
}

# The parts that have no script of their own -----------------------------------------------------------------------

# unchanged NAME LINES VARIABLE... -- PROGRAM...: prints and returns as plainly, with at most LINES lines on stderr.
unchanged() {
    local name=$1 lines=$2 status=0
    shift 2
    local variables=()
    while [ "$1" != -- ]; do variables+=("$1") && shift; done
    shift
    "$@" >plain.out 2>/dev/null || status=$?
    echo "status $status" >>plain.out
    status=0
    timeout 120 env "SEMCACHE_DEVICES=$(machine 8)" "${HARD[@]}" "${variables[@]}" "SEMCACHE_REPORT=$PWD/report.json" \
        "LD_PRELOAD=$LIBRARY" "$@" >ours.out 2>ours.stderr || status=$?
    echo "status $status" >>ours.out
    cmp plain.out ours.out || fail "$name: $(tail -3 ours.out ours.stderr)"
    [ "$(grep -c 'semcache' ours.stderr)" -le "$lines" ] || fail "$name: $(cat ours.stderr)"
    say "$name: as plain; $("$COMMAND" report --print offloaded --print host --print fallbacks report.json) offloaded, host, fallbacks; said: $(grep -m1 semcache ours.stderr || echo nothing)"
}

part_refusals() {
    local clients=$PREBUILT/clients name seed
    cd "$(fresh refusals)"
    export OPENBLAS_NUM_THREADS=1
    unchanged "nothing refused" 0 -- "$clients/edge/fixed"
    "$COMMAND" report report.json --assert offloaded
    unchanged "no GPU visible" 1 CUDA_VISIBLE_DEVICES=-1 -- "$clients/edge/fixed"
    for name in libcuda.so.1 libcublas.so.13; do
        mkdir -p "decoy.$name"
        cp "$clients/edge/nothing.so" "decoy.$name/$name"
        [ "$name" = libcuda.so.1 ] || cp "$clients/edge/nothing.so" "decoy.$name/${name/13/12}"
        unchanged "a $name that holds nothing" 1 "LD_LIBRARY_PATH=$PWD/decoy.$name:$LD_LIBRARY_PATH" -- "$clients/edge/fixed"
    done
    unchanged "hardly any device memory allowed" 1 SEMCACHE_MEMORY=64KiB -- "$clients/edge/fixed"
    (
        ulimit -l 64
        unchanged "no locked memory" 1 -- "$clients/edge/fixed"
    )
    simulated && return
    for name in 0 4 64 1024; do
        coproc HOG { exec "$PREBUILT/bin/hog" "$name"; }
        local hog=$HOG_PID
        read -r -t 60 line <&"${HOG[0]}" || fail "hog does not start"
        say "hog, all but $name MiB: $line"
        unchanged "a full GPU, $name MiB free" 1 -- "$clients/edge/fixed"
        for seed in 1 2 3; do unchanged "a full GPU, $name MiB free, stress $seed" 1 -- "$clients/stress/stress" $seed; done
        kill "$hog"
        wait "$hog" 2>/dev/null || true
    done
}

part_sanitizer() {
    local seeds=${1:-6} seed
    cd "$(fresh sanitizer)"
    export OPENBLAS_NUM_THREADS=1
    if simulated; then
        say "simulated devices: nothing for compute-sanitizer to look at"
        return
    fi
    command -v compute-sanitizer >/dev/null || fail "no compute-sanitizer"
    for ((seed = 1; seed <= seeds; seed++)); do
        "$PREBUILT/clients/stress/stress" $seed >plain.out 2>/dev/null
        # The program starts under env, so that the sanitizer itself is not preloaded.
        timeout 200 compute-sanitizer --tool memcheck --target-processes all --error-exitcode 66 --log-file sanitizer.log \
            env "${HARD[@]}" "SEMCACHE_DEVICES=$(machine 8)" "SEMCACHE_MEMORY=${STRESS_MEMORY:-512KiB}" "SEMCACHE_REPORT=$PWD/report.json" \
            "LD_PRELOAD=$LIBRARY" "$PREBUILT/clients/stress/stress" $seed >ours.out 2>ours.stderr ||
            fail "seed $seed: status $?: $(tail -5 ours.stderr) $(tail -40 sanitizer.log)"
        cmp plain.out ours.out || fail "seed $seed: other numbers than plain"
        "$COMMAND" report report.json --assert offloaded
        grep -h 'ERROR SUMMARY' sanitizer.log | sort | uniq -c
        grep -q 'ERROR SUMMARY: 0 errors' sanitizer.log || fail "seed $seed: $(tail -40 sanitizer.log)"
    done
}

# Runs one part in this process: the script calls itself for each.
one_part() {
    local part=$1
    shift
    # shellcheck source=scripts/setting.sh
    . "$here/scripts/setting.sh"
    case $part in
    devices | coherence | threads | sweep)
        simulated || export SEMCACHE_TEST_DEVICES=cuda
        exec "$PREBUILT/bin/$part" --nocapture "$@"
        ;;
    edge)
        # On a GPU the runs of a program wait for contexts and little else.
        simulated || export JOBS=${JOBS:-8}
        exec "$ROOT/scripts/clients/edge.sh" "$@"
        ;;
    refusals) part_refusals "$@" ;;
    sanitizer) part_sanitizer "$@" ;;
    netlib | netlib_alloc | netlib_suffixed | numpy | lapack | stress | fuzz | beside | legacy | library | solvers | mpi | tools) exec "$ROOT/scripts/clients/$part.sh" "$@" ;;
    *) fail "no part $part" ;;
    esac
}

run_parts() {
    local out=$1 part words setting name status begun failed=0 log
    shift
    [ -e "$here/scripts/setting.sh" ] || { echo "gpu-test.sh: run the copy in the folder that 'build' made" >&2; exit 2; }
    export SEMCACHE_PREBUILT=$here SEMCACHE_TEST_DEVICES=${GPU_TEST_DEVICES:-cuda}
    if [ "$SEMCACHE_TEST_DEVICES" != sim ] && ! { command -v nvidia-smi && nvidia-smi -L | grep -q GPU; } >/dev/null 2>&1; then
        echo "gpu-test: no GPU here" >&2
        exit 1
    fi
    [ -e "$here/lib/libopenblas.so.0" ] || python3 -c 'import lzma, shutil, sys
with lzma.open(sys.argv[1] + ".xz") as f, open(sys.argv[1], "wb") as g: shutil.copyfileobj(f, g)' "$here/lib/libopenblas.so.0"
    mkdir -p "$out"
    out=$(cd "$out" && pwd)
    log=$out/gpu-test.log
    [ $# -gt 0 ] || set -- "${PARTS[@]}"
    {
        echo "# Suites on $SEMCACHE_TEST_DEVICES"
        echo
        { nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null || true; } | sort | uniq -c | sed 's/^ */* /'
        echo "* Linux $(uname -r | cut -d. -f1,2), $(nproc) cores"
        echo
        echo "| part | setting | verdict | seconds |"
        echo "|---|---|---|---|"
    } >>"$out/gpu-test.md"
    for part in "$@"; do
        setting=hard
        [ "${part#default/}" = "$part" ] || setting=default
        IFS=: read -r -a words <<<"${part#default/}"
        name=${words[0]}
        begun=$SECONDS status=0
        echo "===== $part" | tee -a "$log"
        CARGO_TARGET_DIR=$(mktemp -d) SETTING=$setting timeout -k 5 "${PART_LIMIT:-280}" \
            bash "$here/gpu-test.sh" part "${words[@]}" >"$out/part.log" 2>&1 </dev/null || status=$?
        cat "$out/part.log" >>"$log"
        if [ $status = 0 ]; then
            tail -n 2 "$out/part.log"
            echo "| $part | $setting | passed | $((SECONDS - begun)) |" >>"$out/gpu-test.md"
        else
            failed=1
            tail -n 25 "$out/part.log"
            [ $status != 124 ] || echo "$name: stopped after ${PART_LIMIT:-280} s" | tee -a "$log"
            echo "| $part | $setting | FAILED, status $status | $((SECONDS - begun)) |" >>"$out/gpu-test.md"
        fi
    done
    rm -f "$out/part.log"
    cat "$out/gpu-test.md"
    return $failed
}

case ${1:-} in
build)
    [ $# = 2 ] || usage
    build_into "$2"
    ;;
run)
    [ $# -ge 2 ] || usage
    shift
    run_parts "$@"
    ;;
part)
    shift
    one_part "$@"
    ;;
*) usage ;;
esac
