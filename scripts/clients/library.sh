#!/bin/bash
# Programs that use semcache.h: they compile as C99 and C++11 without a warning, print the same with and without the library, and get
# the answers that the header promises, in late and poison mode.
#
#   library.sh [--quick]     --quick: two settings instead of all
set -euo pipefail
. "$(dirname "$0")/../setting.sh"
quick=''
[ "${1:-}" = --quick ] && quick=1
build
dir=$(fresh library)
export OPENBLAS_NUM_THREADS=1 SEMCACHE_LIB=$LIBRARY
source=$ROOT/tests/library
flags=(-D_GNU_SOURCE -O1 -g -Wall -Wextra -pedantic -Werror -I"$ROOT/include")
for program in hints orders csr versions; do
    # The program exports its table.
    obtain "$dir/$program.c99" gcc -std=c99 "${flags[@]}" -rdynamic -o "$dir/$program.c99" "$source/$program.c" -lblas -lpthread -ldl
    obtain "$dir/$program.cxx11" g++ -std=c++11 -x c++ "${flags[@]}" -rdynamic -o "$dir/$program.cxx11" "$source/$program.c" \
        -x none -lblas -lpthread -ldl
done
examples=(prefetch jacobi cg abac lu trsm_gemm cg_sparse bicgstab power_sparse)
for program in "${examples[@]}"; do
    obtain "$dir/$program" gcc -std=c99 "${flags[@]}" -o "$dir/$program" "$ROOT/examples/library/$program.c" -lblas -lm -ldl
done
# As users build: by pkg-config, and by CMake.
if [ -z "${BUILT_CLIENTS:-}" ]; then
    version=$(sed -n '0,/^version = /s/^version = "\(.*\)"/\1/p' "$ROOT/Cargo.toml")
    grep -q "^Version: $version\$" "$ROOT/include/pkgconfig/semcache.pc" || fail "semcache.pc: not version $version"
    grep -q "PACKAGE_VERSION $version)" "$ROOT/include/cmake/semcache-config-version.cmake" || fail "CMake: not version $version"
    read -ra by_pkg_config < <(PKG_CONFIG_PATH=$ROOT/include/pkgconfig pkg-config --cflags --libs semcache)
    gcc -rdynamic -o "$dir/by_pkg_config" "$source/versions.c" "${by_pkg_config[@]}"
    cmake -S "$source" -B "$dir/cmake" -D CMAKE_PREFIX_PATH="$ROOT/include" >"$dir/cmake.log" && cmake --build "$dir/cmake" >>"$dir/cmake.log" ||
        { cat "$dir/cmake.log"; fail "CMake"; }
    for program in "$dir/by_pkg_config" "$dir/cmake/versions"; do
        [ "$("$program")" = versions ] || fail "$program: $("$program")"
    done
fi
clients_built
for language in c99 cxx11; do
    [ "$("$dir/versions.$language")" = versions ] || fail "$("$dir/versions.$language")"
done
say "an older library: what it lacks is absent"

settings=("late,poison 2 mprotect" "late,poison,seed=1 3 wp-async")
[ -n "$quick" ] || settings+=("poison,seed=2 1 mprotect" "late,seed=3 4 mprotect" "seed=4 2 wp-async")
for setting in "${settings[@]}"; do
    read -r sim devices gate <<<"$setting"
    for language in c99 cxx11; do
        [ "$language" = c99 ] || [ "$setting" = "${settings[0]}" ] || continue
        for program in hints orders csr; do
            name=$program-$language-$sim-$devices-$gate
            "$dir/$program.$language" >"$dir/plain" || fail "plain: $(cat "$dir/plain")"
            # Tiles shorter than the matrices, so that blocks of a distribution are computed apart.
            "${WITHIN[@]}" env "${HARD[@]}" SEMCACHE_TILE=50 CSR_STAYS=1 SEMCACHE_SIM="$sim" SEMCACHE_GATE="$gate" \
                "$COMMAND" run --devices "$(machine "$devices")" --report "$dir/$name.json" -- "$dir/$program.$language" with >"$dir/$name.out" || fail "$name: $(cat "$dir/$name.out")"
            cmp "$dir/plain" "$dir/$name.out" || fail "$name: the output differs"
            case $program in
            hints) sum "$dir/$name.json" calls.dgemm.offloaded cache.closes faults cache.evictions ;;
            orders) sum "$dir/$name.json" calls.dgemm.offloaded cache.closes faults distributed "calls.dsyrk.offloaded>=8" "calls.dtrsm.offloaded>=16" ;;
            csr)
                sum "$dir/$name.json" "sparse>=200" "sparse_host>=1" "sparse_links>=30" cache.closes faults calls.daxpy.offloaded
                # By mprotect alone devices do not keep what lies on pages with other data, so no product finds all that it reads there.
                [ $gate = mprotect ] || sum "$dir/$name.json" "cache.replayed>=100"
                ;;
            esac
        done
    done
done
# Sparse matrices beyond the memory of devices; small arrays, which are sent at each product; and without page protection.
csr() {
    local name=$1
    shift
    "${WITHIN[@]}" env "${HARD[@]}" SEMCACHE_SIM=late,poison "$@" --report "$dir/$name.json" -- "$dir/csr.c99" with >"$dir/$name.out" ||
        fail "$name: $(cat "$dir/$name.out")"
    cmp "$dir/plain" "$dir/$name.out" || fail "$name: the output differs"
    sum "$dir/$name.json" "sparse>=200" "sparse_links>=30" calls.daxpy.offloaded
}
"$dir/csr.c99" >"$dir/plain" || fail "plain: $(cat "$dir/plain")"
for devices in 1 2 3; do
    for gate in mprotect wp-async; do
        [ -z "$quick" ] || [ $((devices % 2)) = $([ $gate = mprotect ]; echo $?) ] || continue
        csr csr-memory-$devices-$gate SEMCACHE_MEMORY=160KiB SEMCACHE_GATE=$gate "$COMMAND" run --devices "$(machine $devices)"
    done
    [ -z "$quick" ] || [ $devices = 2 ] || continue
    csr csr-small-$devices SEMCACHE_OWN=1MiB "$COMMAND" run --devices "$(machine $devices)"
    csr csr-eager-$devices SEMCACHE_GATE=eager "$COMMAND" run --devices "$(machine $devices)"
done
say "hints, orders and sparse matrices: as plain"

# example NAME COMMAND...: it prints the same with and without the library, and says of no result that it is wrong.
example() {
    local name=$1
    shift
    "$@" >"$dir/plain" 2>/dev/null || fail "$name, plain"
    "${WITHIN[@]}" env "${HARD[@]}" SEMCACHE_SIM=late,poison "$COMMAND" run --devices "$(machine 2)" --report "$dir/$name.json" -- \
        "$@" >"$dir/$name.out" 2>/dev/null || fail "$name"
    cmp "$dir/plain" "$dir/$name.out" || fail "$name: the output differs"
    if grep -w NO "$dir/plain"; then fail "$name: a result is wrong"; fi
}
example prefetch "$dir/prefetch" 300
sum "$dir/prefetch.json" calls.dgemm.offloaded==3 cache.closes faults
# Vectors below the size of tracked blocks do not fault.
example jacobi "$dir/jacobi" 640
sum "$dir/jacobi.json" calls.dgemv.offloaded==120 cache.closes
example cg "$dir/cg" 640
sum "$dir/cg.json" calls.dgemv.offloaded==26 calls.daxpy.offloaded==78 cache.closes
example abac "$dir/abac" 300
sum "$dir/abac.json" "calls.dgemm.offloaded>=6" calls.daxpy.offloaded==2 cache.closes faults
example lu "$dir/lu" 300
sum "$dir/lu.json" distributed calls.dtrsm.offloaded==48 calls.dgemm.offloaded cache.closes faults
# A name that is given before the first call.
"$COMMAND" report --json "$dir/lu.json" | grep -q '"name": "A"' || fail "lu: the report does not name the matrix"
example trsm_gemm "$dir/trsm_gemm" 300
sum "$dir/trsm_gemm.json" calls.dtrsm.offloaded==2 "calls.dgemm.offloaded>=2" cache.closes faults
# Small matrices would have row offsets of less than a page for each device.
for program in cg_sparse bicgstab power_sparse; do
    example $program "$dir/$program" 20
    sum "$dir/$program.json" "sparse>=40" sparse_links==1 calls.ddot.offloaded calls.dscal.offloaded cache.closes faults
done
say "the examples in C: as plain"

# Python, of which the wheels' own BLAS makes the products.
if simulated; then
    python=(env PYTHONDONTWRITEBYTECODE=1 "PYTHONPATH=$ROOT/python" "$PYTHON" "$source/hints.py")
    "${python[@]}" >"$dir/plain" || fail "hints.py, plain"
    "${WITHIN[@]}" env "${HARD[@]}" SEMCACHE_SIM=late,poison "$COMMAND" run --devices "$(machine 2)" --report "$dir/python.json" -- \
        "${python[@]}" with >"$dir/python.out" || fail "hints.py"
    cmp "$dir/plain" "$dir/python.out" || fail "hints.py: the output differs"
    sum "$dir/python.json" calls.dgemm.offloaded cache.closes faults
    say "hints.py: as plain"
    python[-1]=$source/csr.py
    "${python[@]}" >"$dir/plain" || fail "csr.py, plain"
    counts=(2)
    [ -n "$quick" ] || counts+=(1 3)
    for devices in "${counts[@]}"; do
        "${WITHIN[@]}" env "${HARD[@]}" SEMCACHE_SIM=late,poison "$COMMAND" run --devices "$(machine "$devices")" \
            --report "$dir/csr-python-$devices.json" -- "${python[@]}" with >"$dir/python.out" || fail "csr.py, $devices devices"
        cmp "$dir/plain" "$dir/python.out" || fail "csr.py, $devices devices: the output differs"
        sum "$dir/csr-python-$devices.json" "sparse>=1000" "sparse_links>=30" cache.closes faults
    done
    say "csr.py: as plain"
    for program in jacobi cg abac lu trsm_gemm; do
        order=300
        [ "$program" != jacobi ] && [ "$program" != cg ] || order=640
        example "$program-python" env PYTHONDONTWRITEBYTECODE=1 "PYTHONPATH=$ROOT/python" "$PYTHON" "$ROOT/examples/library/$program.py" "$order"
        sum "$dir/$program-python.json" offloaded cache.closes faults
    done
    example sparse_solvers-python env PYTHONDONTWRITEBYTECODE=1 "PYTHONPATH=$ROOT/python" "$PYTHON" "$ROOT/examples/library/sparse_solvers.py" 16
    sum "$dir/sparse_solvers-python.json" "sparse>=100" offloaded cache.closes faults
    say "the examples in Python: as plain"
fi
if simulated && [ -z "$quick" ]; then
    (cd "$ROOT" && cargo build --release --locked -q -p semcache-api --examples)
    for program in cg_sparse bicgstab power_sparse; do
        example "$program-rust" "$TARGET/release/examples/$program" 20
        sum "$dir/$program-rust.json" "sparse>=40" sparse_links==1 calls.ddot.offloaded cache.closes faults
    done
    for program in jacobi abac lu trsm_gemm; do
        example "$program-rust" "$TARGET/release/examples/$program" 300
        sum "$dir/$program-rust.json" offloaded cache.closes faults
    done
    say "the examples in Rust: as plain"
fi
