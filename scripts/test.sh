#!/bin/bash
# The check of a change, in three depths. Times are those of a fresh clone on two quiet cores.
#
#   scripts/test.sh           9 minutes: format, clippy, documentation, all Rust tests, and one client of each kind, with what the
#                             tests have compiled
#   scripts/test.sh --ci      50 minutes at most, what CI runs: the same with the release build, loom, write-tracking against a second
#                             userfaultfd, and the quick part of every client suite but OpenBLAS's own tests
#   scripts/test.sh --full    hours: every suite in its full length
#
# Each step is announced with its number and about how many seconds it takes; "60+": of its quick part, in full it is longer.
set -euo pipefail
[ $# -gt 0 ] || export BUILD_PROFILE=dev
. "$(dirname "$0")/setting.sh"
cd "$ROOT"

# step SECONDS COMMAND...: one more.
steps=()
step() { steps+=("$1 ${*:2}"); }

syntax() {
    local script
    for script in scripts/*.sh scripts/*/*.sh .ci/run; do bash -n "$script" || fail "$script"; done
}
format() { cargo fmt --all --check && cargo fmt --manifest-path fuzz/entry/Cargo.toml --check; }
clippy() { cargo clippy --workspace --all-targets --locked -q -- -D warnings; }
documentation() {
    local -x RUSTDOCFLAGS="-D warnings"
    cargo rustdoc -p semcache-cli --bin semcache --locked -q -- -D warnings # Before the library, whose pages replace these.
    cargo doc --workspace --no-deps --locked -q
}
cargo_test() { cargo test --workspace --exclude semcache-api --locked -q; }
# What must not compile, the pages' programs and other crates' matrices take minutes: CI does these, but for faer's, which takes two
# to build.
api() { cargo test -p semcache-api --locked -q --lib --test table --test absent; }
api_features() { cargo test -p semcache-api --features "$1" --locked -q; }
loom() { RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=$TARGET/loom cargo test -p semcache-fault --release --locked -q --test loom; }
# Write-tracking against crate userfaultfd, whose bindings need libclang. With the features of the workspace, so that nothing of
# it is built again.
oracle_userfaultfd() {
    scripts/setup.sh userfaultfd
    local features=(--workspace --features semcache-oracle-userfaultfd/userfaultfd --test write_tracking --locked -q)
    cargo clippy "${features[@]}" -- -D warnings
    cargo test "${features[@]}"
}
host_blas() {
    if "$COMMAND" doctor | grep -A1 'host BLAS .*\(is wrong\|ended the process\|did not return\)'; then fail "the host BLAS is wrong"; fi
}
clients() { JOBS=2 "scripts/clients/$1.sh" "${@:2}"; }
# The quick parts of suites, two at a time, as most keep one core busy. What a suite prints comes at its end; the last lines of a
# suite that failed come after those of the others, as readers of a long log look there.
one_of_two() {
    local begun=$SECONDS quick=--quick log=$LOGS/$1
    # MKL itself is in the whole suite only.
    [ "$1" != mkl ] || quick=''
    "scripts/clients/$1.sh" $quick >"$log" 2>&1 </dev/null || { mv "$log" "$log.failed"; exit 255; }
    cat "$log"
    say "clients $1 $quick, $((SECONDS - begun)) s"
}
two_at_a_time() {
    local log
    LOGS=$(mktemp -d)
    export LOGS
    export -f one_of_two say
    printf '%s\n' "$@" | xargs -P 2 -I NAME bash -c 'one_of_two NAME' && { rm -r "$LOGS"; return; }
    for log in "$LOGS"/*.failed; do
        say "clients $(basename "$log" .failed): the end of what it printed"
        tail -n 60 "$log"
    done
    fail "clients: $(cd "$LOGS" && echo *.failed)"
}
only() { ONLY=$2 "scripts/clients/$1.sh" --quick; }
# With memory for three tiles of 256 x 256 double complex numbers on each device, the least that all of level 3 needs.
least_memory() { MEMORY=3MiB "scripts/clients/$1.sh"; }

step 10 scripts/setup.sh clients
step 1 syntax
step 1 format
step 45 clippy
step 10 documentation
step 390 cargo_test
case "${1:-}" in
'') step 10 api ;;
--ci) step 180 api_features ndarray ;;
*) step 360 api_features ndarray,faer ;;
esac
[ $# = 0 ] || step 30 loom
[ $# = 0 ] || step 15 oracle_userfaultfd
[ $# = 0 ] && step 5 build || step 95 build
step 1 host_blas

# The client suites, each with the seconds of its quick part.
suites=(1:legacy 2:caffe 2:tools 260:edge 2:security 3:doors 135:standin 15:beside 21:netlib 35:netlib_alloc 33:lapack
    38:numpy 45:cxx 16:r_octave 60:trace 12:top 53:bench 8:virtual 6:time 70:library 65:mpi 3:stress 40:fuzz 130:entry 20:report
    12:schemas 150:solvers)
case "${1:-}" in
'')
    # C, Fortran and NumPy programs, programs without a BLAS, R and Octave with tests of their own, several ranks, random programs
    # in late and poison mode, another user of CUDA, and programs with files, signals, children and memory of their own.
    for suite in 1:legacy 2:caffe 2:tools 8:virtual 60:library 2:security 3:doors 8:mkl 16:r_octave 3:stress; do
        step "${suite%:*}" clients "${suite#*:}" --quick
    done
    step 25 only solvers '@(middle|wide|left)'
    step 5 only mpi ranks_openmpi_2
    step 30 only beside '@(copies|children_close)'
    step 30 only edge '@(arguments|files|kernel|memory|guards_barrier|processes_fork|children_vfork|signals_chain|ends_locals|patches_one)'
    ;;
--ci)
    # Alone: what uses both cores (ranks of MPI take them from everything beside them), measures time, or looks at all runs of the machine.
    alone=' edge time top bench mpi '
    beside=(60:mkl)
    for suite in "${suites[@]}"; do
        if [[ $alone == *" ${suite#*:} "* ]]; then step "${suite%:*}" clients "${suite#*:}" --quick; else beside+=("$suite"); fi
    done
    # The longest first, so that neither of the two waits long for the other at the end.
    mapfile -t beside < <(printf '%s\n' "${beside[@]}" | sort -t: -rn)
    step 600 two_at_a_time "${beside[@]#*:}"
    ;;
--full)
    # SciPy, scikit-learn and PyTorch take minutes to install alone, the testers in other spellings a minute to build.
    for suite in "${suites[@]}" 77:openblas 60:netlib_suffixed 60:mkl 600:python 600:python_io 370:breaks; do
        step "${suite%:*}+" clients "${suite#*:}"
    done
    for suite in 1:legacy 2:caffe 21:netlib 33:lapack 77:openblas 38:numpy 45:cxx 16:r_octave 23:mpi; do
        step "${suite%:*}+" least_memory "${suite#*:}"
    done
    ;;
*)
    sed -n '4,8s/^# *//p' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
esac

for i in "${!steps[@]}"; do
    read -r seconds command <<<"${steps[i]}"
    say "[$((i + 1))/${#steps[@]}] $command, about $seconds s ($SECONDS s so far)"
    $command
done
say "everything passed, in $SECONDS s"
