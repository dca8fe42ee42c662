# Where things are and how the client suites run. Sourced by the other scripts, from anywhere.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
CACHE=$ROOT/.cache
TARGET=${CARGO_TARGET_DIR:-$ROOT/target}
COMMAND=$TARGET/release/semcache
LIBRARY=${SEMCACHE_LIB:-$TARGET/release/libsemcache_blas.so}
VENV=$CACHE/venv
REFERENCE=/usr/lib/x86_64-linux-gnu/blas # Debian's reference BLAS and its testers

# The hard setting: everything that can run on a device does, and small operands are closed too.
HARD=(SEMCACHE_OFFLOAD=always SEMCACHE_PANEL=4KiB SEMCACHE_OWN=4KiB)

# The suites set all of these themselves; what the user has set must not leak in.
unset SEMCACHE_DEVICES SEMCACHE_SIM SEMCACHE_MEMORY SEMCACHE_OFFLOAD SEMCACHE_DISABLE SEMCACHE_TILE \
    SEMCACHE_GATE SEMCACHE_PANEL SEMCACHE_OWN SEMCACHE_HOST_BLAS SEMCACHE_REPORT SEMCACHE_TRACE \
    SEMCACHE_LOG SEMCACHE_MAIN_PID

say() { printf '== %s\n' "$*"; }

# A script that stops says where.
set -E
trap 'printf "FAILED at %s:%s: %s\n" "${BASH_SOURCE[0]}" "$LINENO" "$BASH_COMMAND" >&2' ERR

fail() {
    printf 'FAILED: %s\n' "$*" >&2
    trap - ERR
    exit 1
}

# Builds the command and the library for release.
build() {
    (cd "$ROOT" && cargo build --release --locked -q -p semcache-cli -p semcache-blas) || fail "cargo build"
    [ -e "$LIBRARY" ] || fail "no library at $LIBRARY"
}

# A new empty directory under target/, named after its argument.
fresh() {
    local dir=$TARGET/suites/$1
    rm -rf "$dir" && mkdir -p "$dir" && printf '%s\n' "$dir"
}

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

# sum REPORTS ASSERTION...: see report_sum.py.
sum() { python3 "$ROOT/scripts/report_sum.py" "$@"; }
