#!/bin/bash
# Installs what the scripts need on Debian 12 with Rust; does nothing where it is all there.
#
#   scripts/setup.sh [demo|clients|python|cxx|programs|mpi|espresso|userfaultfd|trace|schemas|plots|mkl]
#
# Default: clients, which includes demo; python, cxx and mpi are what the suites of these names need besides, and ask for
# themselves; espresso what mpi.sh needs in its full length; programs what gpu-programs.sh packs; userfaultfd what the build of tests/oracle-userfaultfd needs;
# trace Perfetto's trace processor; schemas jsonschema; plots Matplotlib, for bench/reproduce; mkl Intel's MKL.
set -euo pipefail
. "$(dirname "$0")/setting.sh"

DEMO=(gcc libc6-dev make gfortran libblas-dev libopenblas0-pthread python3)
CLIENTS=(libblas3 liblapack3 libblas-test liblapack-test libblas64-3 libblas64-test libopenblas64-0-pthread octave
    r-base-core liblapacke libopenblas-pthread-dev python3-venv strace git tar binutils dpkg-dev xz-utils procps
    g++ pkg-config cmake gdb valgrind libjemalloc2 libtcmalloc-minimal4 libmimalloc2.0 openmpi-bin libopenmpi-dev scalapack-mpi-test)
PYTHON_CLIENTS=(libpython3.11-testsuite python3-numpy python3-scipy python3-sklearn python3-torch)
CXX_CLIENTS=(g++ libarmadillo-dev libeigen3-dev libsuitesparse-dev)
PROGRAMS=(liblapack3 libopenblas-pthread-dev xz-utils binutils libopenmpi-dev libmumps-seq-dev nwchem-openmpi)
MPI=(mpich libmpich-dev hpcc)
ESPRESSO=(quantum-espresso)
USERFAULTFD=(libclang1-14 libclang-common-14-dev)
RETRY=(-o Acquire::Retries=5) # of apt: a fetch that fails once

what=${1:-clients}
packages=("${DEMO[@]}")
python=(numpy scipy pytest hypothesis)
case $what in
demo) ;;
clients) packages+=("${CLIENTS[@]}") ;;
python) packages+=("${CLIENTS[@]}" "${PYTHON_CLIENTS[@]}") python+=(scikit-learn) ;;
cxx) packages+=("${CXX_CLIENTS[@]}") ;;
programs) packages+=("${PROGRAMS[@]}" "${CXX_CLIENTS[@]}") ;;
mpi) packages+=("${CLIENTS[@]}" "${MPI[@]}") ;;
espresso) packages+=("${ESPRESSO[@]}") ;;
userfaultfd) packages+=("${USERFAULTFD[@]}") ;;
trace) command -v node >/dev/null || packages+=(nodejs) ;;
schemas | plots | mkl) packages=(python3-venv) ;;
*) fail "usage: setup.sh [demo|clients|python|cxx|programs|mpi|espresso|userfaultfd|trace|schemas|plots|mkl]" ;;
esac

[[ $what == @(schemas|plots|mkl) ]] || command -v cargo >/dev/null || fail "Rust is not installed: see https://rustup.rs"

missing=()
for package in "${packages[@]}"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
    say "installing ${missing[*]}"
    as_root=()
    [ "$(id -u)" = 0 ] || as_root=(sudo)
    install() {
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get "${RETRY[@]}" install -y -q \
            --no-install-recommends "${missing[@]}" >"$1"
    }
    log=$(mktemp)
    # The lists may be old or absent: try what is known, then refresh.
    install "$log" 2>/dev/null || { "${as_root[@]}" apt-get "${RETRY[@]}" update -q >"$log" && install "$log"; } ||
        { cat "$log"; fail "apt-get install"; }
    rm -f "$log"
fi
# Sources: Debian's, without touching the machine's own apt sources. Only what is wanted of them is
# unpacked.
#
# source_of PACKAGE FILE WANTED...: the package's source, unpacked into .cache/src/PACKAGE, where FILE then is.
source_of() {
    local package=$1 file=$2 apt=$CACHE/apt f
    shift 2
    [ ! -e "$CACHE/src/$package/$file" ] || return 0
    say "source of $package"
    mkdir -p "$CACHE/src/$package" "$apt/lists/partial" "$apt/archives/partial" "$apt/parts"
    for f in /etc/apt/sources.list.d/*.sources; do
        [ -f "$f" ] && sed 's/^Types:.*/Types: deb-src/' "$f" >"$apt/parts/$(basename "$f")"
    done
    # apt reads .list files in a sources.list.d directory, too.
    [ -f /etc/apt/sources.list ] && sed -n 's/^deb /deb-src /p' /etc/apt/sources.list >"$apt/parts/main.list"
    local options=("${RETRY[@]}" -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$apt/parts"
        -o "Dir::State::lists=$apt/lists" -o "Dir::Cache=$apt" -o APT::Sandbox::User=root)
    apt-get "${options[@]}" update -qq
    # An older version's archive would be a second one.
    rm -f "$CACHE/src/$package"_*.orig.tar.*
    (cd "$CACHE/src" && apt-get "${options[@]}" source --download-only --tar-only -qq "$package")
    tar xf "$(find "$CACHE/src" -maxdepth 1 -name "${package}_*.orig.tar.*" ! -name '*.asc')" -C "$CACHE/src/$package" --strip-components=1 --wildcards "$@"
}
[ "$what" != programs ] || source_of hpcc hpl/testing/ptest/HPL_pddriver.c '*/hpl/*' '*/include/*'
# pinned NAME MODULE: the packages of scripts/NAME/requirements.txt, in an environment of their own, .cache/NAME, where MODULE then is.
pinned() {
    ! "$CACHE/$1/bin/python" -c "import $2" 2>/dev/null || return 0
    say "Python packages of scripts/$1/requirements.txt into $CACHE/$1"
    rm -rf "${CACHE:?}/$1" && /usr/bin/python3 -m venv "$CACHE/$1"
    "$CACHE/$1/bin/pip" install -q --disable-pip-version-check --retries 10 --timeout 60 --no-deps --only-binary :all: \
        --require-hashes -r "$ROOT/scripts/$1/requirements.txt"
}
[ "$what" != trace ] || pinned trace perfetto.trace_processor
[ "$what" != schemas ] || pinned schemas jsonschema
[ "$what" != plots ] || pinned plots matplotlib
if [ "$what" = mkl ] && ! compgen -G "$CACHE/mkl/lib/libmkl_rt.so.*" >/dev/null; then
    say "MKL from PyPI into $CACHE/mkl"
    rm -rf "${CACHE:?}/mkl" && /usr/bin/python3 -m venv "$CACHE/mkl"
    "$CACHE/mkl/bin/pip" install -q --disable-pip-version-check --retries 10 --timeout 60 --no-deps --only-binary :all: mkl
fi
[[ $what != @(demo|cxx|programs|userfaultfd|trace|schemas|plots|mkl) ]] || exit 0

# What is missing is added: the suites of a group do not undo those of another.
modules=${python[*]/scikit-learn/sklearn}
if ! "$VENV/bin/python" -c "import ${modules// /, }" 2>/dev/null; then
    say "Python packages from PyPI into $VENV"
    "$VENV/bin/python" -c 'import pytest' 2>/dev/null || { rm -rf "$VENV" && /usr/bin/python3 -m venv "$VENV"; }
    "$VENV/bin/pip" install -q --disable-pip-version-check --retries 10 --timeout 60 "${python[@]}"
fi
[ "$what" = clients ] || exit 0

# Sources whose tests are run.
source_of lapack BLAS/TESTING/dblat3.f '*/BLAS/*' '*/CBLAS/*'
source_of openblas utest/utest_main.c --exclude '*/kernel/*' --exclude '*/benchmark/*' --exclude '*/lapack-netlib/*' '*'
source_of r-base tests/reg-BLAS.R '*/tests/reg-BLAS.R'
