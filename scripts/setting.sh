# Where things are and how the client suites run. Sourced by the other scripts, from anywhere.
#
# SEMCACHE_PREBUILT=DIR         a tree that gpu-test.sh built: nothing is compiled or installed; results go to a
#                               temporary folder, or to CARGO_TARGET_DIR
# SEMCACHE_TEST_DEVICES=cuda    the suites run on the GPUs instead of simulated devices (sim)
# SETTING=default               the suites run without the hard setting, and whether anything was offloaded is not
#                               checked: small calls run on the host BLAS then
# GATE=mprotect|wp-async|eager  the hard setting with this gate, in suites that do not choose it themselves; without
#                               page protection (eager) closes and faults are not checked
# BUILD_ONLY=1                  a suite ends when its clients are compiled
# BUILT_CLIENTS=DIR             clients are copied from DIR/SUITE instead of compiled
# HANG=SECONDS                  a program that runs longer is ended, and its test fails (600)

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
CACHE=$ROOT/.cache
# Not under their own names: the library warns of SEMCACHE_ variables that it does not know.
export PREBUILT=${SEMCACHE_PREBUILT:-${PREBUILT:-}} TEST_DEVICES=${SEMCACHE_TEST_DEVICES:-${TEST_DEVICES:-sim}}
unset SEMCACHE_PREBUILT SEMCACHE_TEST_DEVICES
if [ -n "$PREBUILT" ]; then
    [ -n "${CARGO_TARGET_DIR:-}" ] || CARGO_TARGET_DIR=$(mktemp -d)
    export CARGO_TARGET_DIR
    TARGET=$CARGO_TARGET_DIR
    COMMAND=$PREBUILT/bin/semcache
    LIBRARY=${SEMCACHE_LIB:-$PREBUILT/lib/libsemcache_blas.so}
    PYTHON=python3
    REFERENCE=$PREBUILT/reference
    BUILT_CLIENTS=$PREBUILT/clients
    export LD_LIBRARY_PATH=$PREBUILT/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
else
    TARGET=${CARGO_TARGET_DIR:-$ROOT/target}
    # BUILD_PROFILE=dev: what cargo test has compiled, with debug assertions.
    BUILD_PROFILE=${BUILD_PROFILE:-release}
    BUILT=$TARGET/${BUILD_PROFILE/#dev/debug}
    COMMAND=$BUILT/semcache
    LIBRARY=${SEMCACHE_LIB:-$BUILT/libsemcache_blas.so}
    VENV=$CACHE/venv
    PYTHON=$VENV/bin/python
    REFERENCE=/usr/lib/x86_64-linux-gnu/blas # Debian's reference BLAS and its testers
fi

# The hard setting: everything that can run on a device does, and small operands are made inaccessible, too.
HARD=(SEMCACHE_OFFLOAD=always SEMCACHE_PANEL=4KiB SEMCACHE_OWN=4KiB)
[ -z "${GATE:-}" ] || HARD+=("SEMCACHE_GATE=$GATE")
[ -z "${MEMORY:-}" ] || HARD+=("SEMCACHE_MEMORY=$MEMORY")
[ "${SETTING:-hard}" = hard ] || HARD=()

simulated() { [ "$TEST_DEVICES" = sim ]; }

# machine N: SEMCACHE_DEVICES for N devices of the kind under test; of GPUs, as many of them as there are.
machine() {
    local list=0 i
    if simulated; then
        printf 'sim:%s\n' "$1"
        return
    fi
    : "${GPU_COUNT:=$(nvidia-smi -L 2>/dev/null | wc -l)}"
    for ((i = 1; i < $1 && i < GPU_COUNT; i++)); do list+=,$i; done
    printf 'cuda:%s\n' "$list"
}

# Seconds after which a program of a suite hangs: none takes a tenth of it, and the machine may be busy.
HANG=${HANG:-600}
# WITHIN PROGRAM...: no longer. In the process group of the suite, so that the terminal's signals reach it.
WITHIN=(timeout --foreground -s ABRT "$HANG")

# The suites set all of these themselves; what the user has set must not leak in.
unset SEMCACHE_DEVICES SEMCACHE_SIM SEMCACHE_MEMORY SEMCACHE_OFFLOAD SEMCACHE_DISABLE SEMCACHE_TILE SEMCACHE_GATE \
    SEMCACHE_PANEL SEMCACHE_OWN SEMCACHE_HOST_BLAS SEMCACHE_RANKS SEMCACHE_PEERS SEMCACHE_PIN SEMCACHE_RATES \
    SEMCACHE_REPORT SEMCACHE_TRACE SEMCACHE_HOST_SHARE SEMCACHE_TRACE_LIMIT SEMCACHE_LOG SEMCACHE_MAIN_PID SEMCACHE_COUNTERS \
    SEMCACHE_JOINS SEMCACHE_WINDOW SEMCACHE_SCHEDULER SEMCACHE_SITES

say() { printf '== %s\n' "$*"; }

# On processors with AVX512-BF16 OpenBLAS 0.3.21, which is Debian's, takes its kernels for Cooperlake, whose scasum is wrong
# from 9 elements on. What the user has chosen stays. fuzz/src/drive.rs has the same rule, for cargo test.
if [ -z "${OPENBLAS_CORETYPE+set}" ] && grep -qw avx512_bf16 /proc/cpuinfo; then
    export OPENBLAS_CORETYPE=Haswell
    say "OPENBLAS_CORETYPE=Haswell: OpenBLAS's own choice of kernels is wrong on this processor" >&2
fi

# A script that stops says where.
set -E
trap 'printf "FAILED at %s:%s: %s\n" "${BASH_SOURCE[0]}" "$LINENO" "$BASH_COMMAND" >&2' ERR

fail() {
    printf 'FAILED: %s\n' "$*" >&2
    trap - ERR
    exit 1
}

# The oldest glibc that the library and the command run with (README.md, glibc-versions).
OLDEST_GLIBC=2.28

# old_enough FILE...: no file asks for anything of a newer glibc.
old_enough() {
    local file newest
    for file in "$@"; do
        # What is no release (GLIBC_PRIVATE, GLIBC_ABI_DT_RELR) counts as newer.
        newest=$({ echo $OLDEST_GLIBC && objdump -p "$file" | sed -n 's/.* GLIBC_//p'; } | sort -V | tail -1)
        [ "$newest" = $OLDEST_GLIBC ] ||
            fail "$file asks for GLIBC_$newest: $(objdump -T "$file" | grep -F "GLIBC_$newest)" | awk '{ print $NF }' | xargs)"
    done
}

# The most static thread-local memory that a library may ask for which a program loads while it runs: glibc's reserve for such libraries.
MOST_TLS=1664

# little_tls FILE: the library asks for no more.
little_tls() {
    local bytes
    bytes=$(($(readelf -lW "$1" | awk '$1 == "TLS" { print $6 }')))
    [ "$bytes" -le $MOST_TLS ] || fail "$1 asks for $bytes bytes of static thread-local memory, $MOST_TLS are the limit"
}

# compile PACKAGE...: in BUILD_PROFILE, into BUILT. In dev all packages, with all features that tests ask for: cargo test has compiled
# them so. Quietly, unless CARGO_OPTION says otherwise.
compile() {
    local what=(--release "${@/#/--package=}")
    [ "$BUILD_PROFILE" = release ] || what=(--workspace --exclude=semcache-api --lib --bins --test=oracle)
    (cd "$ROOT" && cargo build --locked "${CARGO_OPTION:--q}" "${what[@]}") || fail "cargo build"
}

# build: the command and the library, which all other scripts run and pack.
build() {
    [ -z "$PREBUILT" ] || return 0
    compile semcache-cli semcache-blas
    if [ "$BUILD_PROFILE" = release ]; then
        old_enough "$COMMAND" "$BUILT/libsemcache_blas.so"
        little_tls "$BUILT/libsemcache_blas.so"
    fi
    [ -e "$LIBRARY" ] || fail "no library at $LIBRARY"
}

# sides DIR: notes in DIR which version its lib/ has, and puts the base library BASE=FILE with the same command into DIR/base.
# BASE_VERSION is what tables call that.
sides() {
    git -C "$ROOT" log -1 --format='%h, %s' >"$1/version"
    rm -rf "${1:?}/base"
    [ -n "${BASE:-}" ] || return 0
    mkdir -p "$1"/base/{bin,lib}
    # A link, not a copy: the pack holds the command once.
    ln "$1/bin/semcache" "$1/base/bin/semcache"
    cp "$BASE" "$1/base/lib/libsemcache_blas.so"
    strip "$1"/base/lib/*.so
    printf '%s\n' "${BASE_VERSION:-$BASE}" >"$1/base/version"
}

# A new empty directory under target/ (or SUITES), named after its argument.
fresh() {
    local dir=${SUITES:-$TARGET/suites}/$1
    rm -rf "$dir" && mkdir -p "$dir" && printf '%s\n' "$dir"
}

# obtain FILE COMMAND...: the client FILE, made by the command or taken from BUILT_CLIENTS.
obtain() {
    local file=$1
    shift
    if [ -n "${BUILT_CLIENTS:-}" ]; then
        mkdir -p "$(dirname "$file")"
        cp "$BUILT_CLIENTS/$(basename "$(dirname "$file")")/$(basename "$file")" "$file"
    else
        "$@"
    fi
}

# standin_in DIR: the stand-in for NVIDIA's libraries. One file under all names: one library in the process.
standin_in() {
    compile semcache-standin
    mkdir "$1"
    cp "$BUILT/libsemcache_standin.so" "$1/libcuda.so.1"
    ln "$1/libcuda.so.1" "$1/libcublas.so.13"
    ln "$1/libcuda.so.1" "$1/libcusparse.so.12"
    ln "$1/libcuda.so.1" "$1/libcusolver.so.12"
}

# legacy_clients: the programs of examples/legacy, in $TARGET/legacy.
legacy_clients() {
    local program
    for program in jacobi cg abac cg_f; do
        obtain "$TARGET/legacy/$program" make -s -C "$ROOT/examples/legacy" OUT="$TARGET/legacy" "$TARGET/legacy/$program"
    done
}

# packed_openblas DIR: Debian's OpenBLAS, compressed, into DIR: what goes to a GPU machine should be small.
packed_openblas() {
    local library=/usr/lib/x86_64-linux-gnu/libopenblas.so.0 packed=$TARGET/libopenblas.so.0.xz
    if [ ! "$packed" -nt "$library" ]; then
        python3 -c 'import lzma, shutil, sys
with open(sys.argv[1], "rb") as f, lzma.open(sys.argv[2] + ".new", "wb") as g: shutil.copyfileobj(f, g)' "$library" "$packed"
        mv "$packed.new" "$packed"
    fi
    cp "$packed" "$1/"
}

# All clients are there: the end, where no more is wanted.
clients_built() { [ -z "${BUILD_ONLY:-}" ] || exit 0; }

# outcomes LOG: one line for each of pytest's tests: name and outcome.
outcomes() { grep -aE '^[^ ]+::.* (PASSED|FAILED|SKIPPED|ERROR|XFAIL|XPASS)' "$1" | sed 's/ *\[ *[0-9]*%\]//' | sort; }

# preloaded REPORTS VAR=VALUE... -- PROGRAM ARGS...: runs the program under the library, one report per
# process in the directory REPORTS. The library is preloaded into the program alone, not into env or the
# shell.
preloaded() {
    local reports=$1
    shift
    local variables=()
    while [ "$1" != -- ]; do
        variables+=("$1")
        shift
    done
    shift
    mkdir -p "$reports"
    env "${variables[@]}" "SEMCACHE_REPORT=$reports/%p.json" "LD_PRELOAD=$LIBRARY" "$@"
}

# sum REPORTS ASSERTION...: prints some sums of a report or a folder of them, and checks the assertions (semcache report --assert).
# In the default setting the assertions are dropped.
sum() {
    local assertion assertions=()
    if [ "${SETTING:-hard}" != hard ]; then set -- "$1"; fi
    for assertion in "${@:2}"; do
        [[ ${GATE:-} == eager && $assertion == @(cache.closes|faults*) ]] || assertions+=("--assert=$assertion")
    done
    local keys=(counted offloaded host faults faults.false_sharing cache.closes cache.evictions moved bytes.p2p bytes.saved fallbacks)
    printf '  counted, offloaded, host, faults, false sharing, closes, evictions, moved, p2p, saved, fallbacks: %s\n' \
        "$("$COMMAND" report "${keys[@]/#/--print=}" "$1")"
    [ "${#assertions[@]}" = 0 ] || "$COMMAND" report "$1" "${assertions[@]}"
}
