#!/bin/bash
# The benchmarks: built where there is Rust and a compiler, run where there are GPUs.
#
#   scripts/gpu-bench.sh build DIR         makes DIR self-contained: it needs bash and python3, no more
#   DIR/gpu-bench.sh run OUT [OPTIONS]     OUT/bench.md and OUT/bench.jsonl; --help names the options
#   DIR/gpu-bench.sh memory OUT [OPTIONS]  level 3 with less device memory than the operands take: OUT/memory.md
#   DIR/gpu-bench.sh rates OUT [OPTIONS]   semcache calibrate, with the options of that command: OUT/rates.toml
#   DIR/gpu-bench.sh grid OUT [OPTIONS]    the decision between host and GPUs, by routine and size, against both: OUT/grid.md
#   DIR/gpu-bench.sh ablate OUT [OPTIONS]  what each heuristic is worth, by access patterns: OUT/ablate.md
#   DIR/gpu-bench.sh predict OUT [OPTIONS] predicted times of level 3 against measured ones: OUT/predict.md
#   DIR/gpu-bench.sh hints OUT [OPTIONS]   what hints of semcache.h are worth: OUT/hints.md
#   DIR/gpu-bench.sh sparse OUT [OPTIONS]  products of sparse matrices and conjugate gradients, against cuSPARSE: OUT/sparse.md
#   DIR/gpu-bench.sh solvers OUT [OPTIONS] LAPACK's LU and Cholesky, against the host's and cuSOLVER: OUT/solvers.md
#   DIR/gpu-bench.sh mpi OUT [OPTIONS]     MPI programs, their ranks on GPUs, against cuBLAS by hand: OUT/mpi.md; where 'build' found Open MPI and ScaLAPACK
#   DIR/gpu-bench.sh reproduce OUT [EXPERIMENT...] [OPTIONS]  published experiments: OUT/reproduce-EXPERIMENT.jsonl
#   DIR/gpu-bench.sh pairs OUT [OPTIONS]   the library against an older build of it, BASE=FILE when DIR was built: OUT/pairs.md
#
# The BLAS that our side falls back on, and that the peers are compared with, travels along: Debian's OpenBLAS.
set -euo pipefail

usage() {
    sed -n '4,16s/^# *//p' "${BASH_SOURCE[0]}" >&2
    exit 2
}

build_into() {
    mkdir -p "$1"
    DIR=$(cd "$1" && pwd)
    # shellcheck source=scripts/setting.sh
    . "$(dirname "${BASH_SOURCE[0]}")/setting.sh"
    # shellcheck source=scripts/pack_mpi.sh
    . "$ROOT/scripts/pack_mpi.sh"
    "$ROOT/scripts/setup.sh" demo
    build
    rm -rf "${DIR:?}"/{bin,lib}
    mkdir -p "$DIR/bin" "$DIR/lib"
    local flags=(-O2 -march=x86-64-v3 -Wall -Wextra ${WARNINGS:-}) source=$ROOT/bench name file
    # In the link a library by this soname is enough; which one serves is decided where it runs.
    local openblas=/usr/lib/x86_64-linux-gnu/libopenblas.so.0
    local scalapack=/usr/lib/x86_64-linux-gnu/libscalapack-openmpi.so.2.2
    declare -A ours=([abac]="" [resident]="" [jacobi]=jacobi_system.c [chain]=chain_run.c [readback]="" [decision]=family.c [fork]=""
        [families]=family.c [compose]=family.c [shapes]="" [places]=problem.c
        [habits]="habits_parts.c habits_factor.c habits_change.c" [vector]="" [hints]="" [spmv]=csr.c [cg]=csr.c [solve]=solve_matrix.c)
    declare -A peers=([peer_abac]="" [peer_resident]=jacobi_system.c [peer_chain]=chain_run.c [peer_readback]="" [peer_limits]=""
        [peer_families]=family.c [peer_contexts]="" [peer_strategies]="" [peer_places]=problem.c [peer_transfers]=""
        [peer_csr]="csr.c cusparse.c" [peer_cg]="csr.c cusparse.c" [peer_solve]="solve_matrix.c cusolver.c")
    declare -A mpi=([mpi_jacobi]="mpi_rows.c wake.c" [mpi_cg]="mpi_rows.c wake.c" [mpi_pingpong]=wake.c [peer_mpi]="mpi_rows.c cuda.c"
        [mpi_scalapack]="mpi_rows.c wake.c")
    say "benchmark programs"
    local -a parts
    for name in "${!ours[@]}"; do
        read -ra parts <<<"${ours[$name]}"
        gcc "${flags[@]}" -o "$DIR/bin/$name" "$source/$name.c" "$source/common.c" "$source/wake.c" \
            "${parts[@]/#/$source/}" "$openblas" -lpthread -lm
    done
    for name in "${!peers[@]}"; do
        read -ra parts <<<"${peers[$name]}"
        gcc "${flags[@]}" -o "$DIR/bin/$name" "$source/$name.c" "$source/common.c" "$source/cuda.c" \
            "${parts[@]/#/$source/}" -lpthread -ldl -lm
    done
    rm -rf "${DIR:?}/mpi"
    if command -v mpicc.openmpi >/dev/null && [ -e "$scalapack" ]; then
        for name in "${!mpi[@]}"; do
            read -ra parts <<<"${mpi[$name]}"
            OMPI_CC=gcc mpicc.openmpi "${flags[@]}" -o "$DIR/bin/$name" "$source/$name.c" "$source/common.c" \
                "${parts[@]/#/$source/}" -Wl,--as-needed "$scalapack" "$openblas" -lpthread -ldl -lm
        done
        packed_mpi "$DIR/mpi"
        cp -L "$scalapack" "$DIR/lib/"
    fi
    gcc "${flags[@]}" -o "$DIR/bin/touch" "$source/touch.c" "$source/common.c" -lpthread -lm
    cp "$COMMAND" "$DIR/bin/semcache"
    cp "$LIBRARY" "$DIR/lib/"
    for file in libgfortran.so.5 libquadmath.so.0; do cp -L "/usr/lib/x86_64-linux-gnu/$file" "$DIR/lib/"; done
    strip "$DIR"/bin/* "$DIR"/lib/*.so "$DIR"/lib/*.so.[0-9]
    packed_openblas "$DIR/lib"
    # OpenBLAS has LAPACK, too; these are the names by which ScaLAPACK asks for both.
    for file in libblas.so.3 liblapack.so.3; do ln -s libopenblas.so.0 "$DIR/lib/$file"; done
    cp "$source"/{run,pairs,grid,ablate,memory,predict,hints,sparse,solvers,mpi,numpy_script,scipy_cg}.py "$source/reproduce" \
        "$ROOT/python/semcache.py" "$ROOT/scripts/gpu-bench.sh" "$DIR/"
    rm -rf "${DIR:?}/experiments"
    cp -r "$source/experiments" "$DIR/"
    sides "$DIR"
    local size
    size=$(du -sm "$DIR" | cut -f1)
    [ "$size" -lt 45 ] || fail "$DIR has $size MB, 45 are the limit"
    say "$DIR: $size MB"
}

case ${1:-} in
build)
    [ $# = 2 ] || usage
    build_into "$2"
    ;;
rates)
    [ $# -ge 2 ] || usage
    here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
    [ -e "$here/run.py" ] || { echo "gpu-bench.sh: run the copy in the folder that 'build' made" >&2; exit 2; }
    # The host BLAS is the one that the other benchmarks fall back on.
    kernels=$(PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1 python3 -c 'import os, run; run.unpack(); print(os.environ.get("OPENBLAS_CORETYPE", ""))')
    exec env ${kernels:+"OPENBLAS_CORETYPE=$kernels"} "LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "SEMCACHE_HOST_BLAS=$here/lib/libopenblas.so.0" \
        "$here/bin/semcache" calibrate --output "$2/rates.toml" "${@:3}"
    ;;
reproduce)
    [ $# -ge 2 ] || usage
    here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
    [ -d "$here/experiments" ] && [ -e "$here/run.py" ] || { echo "gpu-bench.sh: run the copy in the folder that 'build' made" >&2; exit 2; }
    PYTHONDONTWRITEBYTECODE=1 exec python3 -u "$here/reproduce" --measure "${@:2}"
    ;;
run | pairs | grid | ablate | memory | predict | hints | sparse | solvers | mpi)
    [ $# -ge 2 ] || usage
    here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
    [ -e "$here/$1.py" ] || { echo "gpu-bench.sh: run the copy in the folder that 'build' made" >&2; exit 2; }
    exec python3 -u "$here/$1.py" "${@:2}"
    ;;
*) usage ;;
esac
