#!/bin/bash
# The whole check of a change: format, lints, tests, and the quick part of every client suite.
#
#   scripts/test.sh [--full]     --full: the client suites in their full length
set -euo pipefail
. "$(dirname "$0")/setting.sh"
cd "$ROOT"
length=(--quick)
suites=(legacy caffe tools edge security doors standin beside netlib netlib_alloc lapack openblas numpy cxx r_octave bench mpi
    stress fuzz)
# SciPy, scikit-learn and PyTorch take minutes to install alone, the testers in other spellings a minute to build.
[ "${1:-}" = --full ] && length=() suites+=(netlib_suffixed python python_io breaks)

scripts/setup.sh clients
say "scripts"
for script in scripts/*.sh scripts/*/*.sh .ci/run; do bash -n "$script" || fail "$script"; done
say "cargo fmt"
cargo fmt --all --check
say "cargo clippy"
cargo clippy --workspace --all-targets --locked -q -- -D warnings
say "cargo doc"
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked -q
say "cargo test"
cargo test --workspace --locked -q
say "loom: the mailbox and the page byte"
RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=$TARGET/loom cargo test -p semcache-fault --release --locked -q --test loom
say "release build"
build
say "the host BLAS"
if "$COMMAND" doctor | grep -A1 'host BLAS .*\(is wrong\|ended the process\|did not return\)'; then fail "the host BLAS is wrong"; fi
for suite in "${suites[@]}"; do
    say "clients: $suite"
    "scripts/clients/$suite.sh" "${length[@]}"
done
say "everything passed"
