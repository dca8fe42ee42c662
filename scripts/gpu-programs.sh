#!/bin/bash
# Whole programs that use BLAS, unmodified, on a GPU machine: plainly, under a base library, and under the one built here.
#
#   scripts/gpu-programs.sh build DIR             makes DIR self-contained: it needs bash and python3, no more
#   DIR/gpu-programs.sh run OUT [PROGRAM...]      adds to OUT/programs.md and OUT/programs.jsonl; --help names the programs
#
# BASE=FILE is the base library, an older build to compare with, and BASE_VERSION what the table calls it; without it there is no
# such side. Both libraries lie in DIR/base and DIR/new, where others can be put in their place. DEVICES=sim:1 runs on simulated
# devices, with --quick to try this script. PACK_PRESET: xz's (6); 0 is quick, and larger.
set -euo pipefail

usage() {
    sed -n '4,5s/^# *//p' "${BASH_SOURCE[0]}" >&2
    exit 2
}

# What the machine brings itself: its loader and C library must not be mixed with those copied here.
loaders='libc|libm|libmvec|libdl|libpthread|librt|libresolv|libutil|libgcc_s|libstdc\+\+|ld-linux-x86-64'
system=/usr/lib/x86_64-linux-gnu

# needs FILE...: the libraries that the programs load, but for the machine's.
needs() {
    local file
    for file in "$@"; do LD_LIBRARY_PATH=$system/openblas-pthread ldd "$file"; done |
        awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }' | sort -u | grep -vE "^($loaders)\.so"
}

compile_into() {
    local bin=$1 lib=$2 source=$ROOT/bench hpl=$CACHE/src/hpcc objects name linpack
    local flags=(-O2 -march=x86-64-v3 -Wall -Wextra ${WARNINGS:-}) blas=$system/openblas-pthread/libblas.so.3
    objects=$(fresh programs-objects)
    say "programs"
    # Linpack is compiled as it is found, warnings included.
    mapfile -t linpack < <(find "$hpl/hpl/src" "$hpl/hpl/testing" -name '*.c')
    mpicc.openmpi -O2 -w -DHPL_CALL_CBLAS -DHPL_NO_MPI_DATATYPE "-I$hpl/include" "-I$hpl/hpl/include" -o "$bin/xhpl" \
        "$source/hpl.c" "${linpack[@]}" "$blas" -lm
    gcc "${flags[@]}" -I/usr/include/mumps_seq -o "$bin/mumps" "$source"/{mumps,common}.c -ldmumps_seq -lmpiseq_seq "$blas" -lpthread -lm
    gcc "${flags[@]}" -o "$bin/lu" "$source"/{lu,common}.c "$system/lapack/liblapack.so.3" "$blas" -lpthread -lm
    for name in fronts unpaid; do
        gcc "${flags[@]}" -c -Dmain=work -o "$objects/$name.o" "$ROOT/tests/edge/$name.c"
        gcc "${flags[@]}" -o "$bin/$name" "$source"/{timed,common}.c "$objects/$name.o" "$blas" -lpthread -lm
    done
    for name in jacobi cg abac; do gcc "${flags[@]}" -o "$bin/$name" "$ROOT/examples/legacy/$name.c" "$blas" -lm; done
    gcc "${flags[@]}" -o "$bin/caffe" "$ROOT/tests/clients/caffe.c" "$blas" -lm
    # Armadillo's own library only passes calls on, and would bring others along.
    local lapack=$system/openblas-pthread/liblapack.so.3 clients=$ROOT/tests/clients
    g++ -O1 -Wall -DARMA_NO_DEBUG -DARMA_DONT_USE_WRAPPER -o "$bin/armadillo" "$clients/armadillo.cpp" "$blas" "$lapack"
    g++ -O1 -Wall -isystem /usr/include/eigen3 -o "$bin/eigen" "$clients/eigen.cpp" "$blas"
    g++ -O1 -Wall -isystem /usr/include/suitesparse -o "$bin/cholmod" "$clients/cholmod.cpp" -lcholmod
    gcc "${flags[@]}" -o "$bin/placement" "$source/placement.c" "$blas" -lm
    gcc "${flags[@]}" -o "$bin/touch" "$source"/{touch,common}.c -lpthread -lm
    gcc "${flags[@]}" -shared -fPIC -o "$lib/libawake.so" "$source"/{awake,common}.c -ldl -lpthread -lm
}

# pack FILE PRESET: the programs, what they load and what they read, compressed.
pack() {
    local tree file name plugins=()
    tree=$(fresh programs-pack)/programs
    mkdir -p "$tree"/{bin,lib,reference,nwchem,mpi/{lib,share}}
    compile_into "$tree/bin" "$tree/lib"
    cp -L /usr/bin/nwchem.openmpi "$tree/bin/"
    cp -L /usr/share/nwchem/libraries/cc-pvdz "$ROOT/bench/ccsd.nw" "$tree/nwchem/"
    # MPI's plugins, but those for networks: each program is one process.
    for file in "$system"/openmpi/lib/openmpi3/mca_*.so; do
        ldd "$file" | grep -qE 'libfabric|libuc[pt]|libpsm|libibverbs|libinfinipath|librdmacm' || plugins+=("$file")
    done
    cp -L "${plugins[@]}" "$tree/mpi/lib/"
    cp -rL /usr/share/openmpi/. "$tree/mpi/share/"
    while read -r name file; do cp -L "$file" "$tree/lib/$name"; done < <(needs "$tree"/bin/* "${plugins[@]}")
    # The BLAS and LAPACK of Debian's OpenBLAS, whatever this machine's alternatives say.
    cp -L "$system"/openblas-pthread/lib{blas,lapack}.so.3 "$system/libopenblas.so.0" "$tree/lib/"
    cp -L "$system/lapack/liblapack.so.3" "$tree/reference/"
    find "$tree" -type f \( -name '*.so*' -o -path '*/bin/*' \) -exec strip --strip-unneeded {} +
    say "compressing $(du -sm "$tree" | cut -f1) MB"
    tar -C "$tree/.." -cf - programs | xz -T1 --x86 --lzma2=preset="$2",dict=128MiB >"$1.new"
    rm -rf "$tree"
    mv "$1.new" "$1"
}

build_into() {
    mkdir -p "$1"
    DIR=$(cd "$1" && pwd)
    # shellcheck source=scripts/setting.sh
    . "$(dirname "${BASH_SOURCE[0]}")/setting.sh"
    "$ROOT/scripts/setup.sh" programs
    build
    local preset=${PACK_PRESET:-6} file size
    local packed=$TARGET/programs-$preset.tar.xz
    for file in /usr/bin/nwchem.openmpi "$system"/{libopenblas.so.0,libdmumps_seq.so} "$ROOT"/bench/*.[ch] "$ROOT/bench/ccsd.nw" \
        "$ROOT"/tests/clients/{caffe.c,armadillo.cpp,eigen.cpp,cholmod.cpp} "$ROOT"/examples/legacy/{jacobi,cg,abac}.c \
        "$ROOT"/tests/edge/{fronts,unpaid}.c "$ROOT/scripts/gpu-programs.sh"; do
        [ "$packed" -nt "$file" ] || rm -f "$packed"
    done
    [ -e "$packed" ] || pack "$packed" "$preset"
    rm -rf "${DIR:?}"/{new,base}
    mkdir "$DIR/new"
    cp "$packed" "$DIR/programs.tar.xz"
    cp "$LIBRARY" "$DIR/new/libsemcache_blas.so"
    git -C "$ROOT" log -1 --format='%h, %s' >"$DIR/new/version"
    if [ -n "${BASE:-}" ]; then
        mkdir "$DIR/base"
        cp "$BASE" "$DIR/base/libsemcache_blas.so"
        printf '%s\n' "${BASE_VERSION:-$BASE}" >"$DIR/base/version"
    fi
    strip "$DIR"/*/*.so
    cp "$ROOT"/bench/{programs,pairs,memory,run,numpy_script}.py "$ROOT/bench/octave.m" "$ROOT/scripts/gpu-programs.sh" "$DIR/"
    size=$(du -sm "$DIR" | cut -f1)
    [ "$size" -le 40 ] || [ "$preset" -lt 3 ] || fail "$DIR has $size MB, 40 are the limit"
    say "$DIR: $size MB"
}

case ${1:-} in
build)
    [ $# = 2 ] || usage
    build_into "$2"
    ;;
run)
    [ $# -ge 2 ] || usage
    shift
    here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
    [ -e "$here/programs.py" ] || { echo "gpu-programs.sh: run the copy in the folder that 'build' made" >&2; exit 2; }
    exec python3 -u "$here/programs.py" "$@"
    ;;
*) usage ;;
esac
