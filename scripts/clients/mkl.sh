#!/bin/bash
# Products of sparse matrices by MKL's inspector-executor functions: right, and the same as plainly, on whole numbers, with integers of
# 32 and 64 bits, in libraries that a program is linked with, and that it opens privately. A stand-in (tests/clients/mkl_standin.c) plays
# MKL and counts what it computes.
#
#   mkl.sh [--quick]     --quick: without MKL itself, which PyPI has (200 MB), and without two of four settings
set -euo pipefail
. "$(dirname "$0")/../setting.sh"
quick=''
[ "${1:-}" = --quick ] && quick=1
build
dir=$(fresh mkl)
source=$ROOT/tests/clients
cd "$dir"

wide=(-DINT=int64_t)
c() { gcc -O2 -g -Wall -Wextra -o "$@"; }
library() { c "$1" -fPIC -shared -Wl,-soname,"${1##*/}" "${@:2}"; }
obtain "$dir/lp64.o" c lp64.o -fPIC -c "$source/mkl_standin.c"
obtain "$dir/lp64_64.o" c lp64_64.o -fPIC -c "${wide[@]}" -DSUFFIX=_64 "$source/mkl_standin.c"
obtain "$dir/libstandin.so" library libstandin.so lp64.o lp64_64.o
obtain "$dir/libstandin_ilp64.so" library libstandin_ilp64.so "${wide[@]}" -DSUFFIX= "$source/mkl_standin.c"
there=(-Wl,-rpath,"\$ORIGIN")
obtain "$dir/lp64" c lp64 "$source/mkl_sparse.c" ./libstandin.so "${there[@]}"
obtain "$dir/lp64_64" c lp64_64 "${wide[@]}" -DSUFFIX=_64 "$source/mkl_sparse.c" ./libstandin.so "${there[@]}"
obtain "$dir/ilp64" c ilp64 "${wide[@]}" -DSUFFIX= "$source/mkl_sparse.c" ./libstandin_ilp64.so "${there[@]}"
# As a Python module that is linked with MKL, and as PyTorch, which has MKL within its own library.
obtain "$dir/libmodule.so" library libmodule.so "$source/mkl_sparse.c" ./libstandin.so "${there[@]}"
obtain "$dir/libwhole.so" library libwhole.so "$source/mkl_sparse.c" lp64.o
obtain "$dir/plugin" c plugin "$source/mkl_plugin.c"
clients_built

# through NAME PLAIN PRODUCTS VAR=VALUE... -- PROGRAM ARGS...: prints what PLAIN has; the stand-in computes this number of products, if one
# is said.
through() {
    local name=$1 plain=$2 products=$3 variables=()
    shift 3
    while [ "$1" != -- ]; do variables+=("$1") && shift; done
    shift
    "${WITHIN[@]}" env "${variables[@]}" "$COMMAND" run --devices "$(machine "${devices:-2}")" --report "$name.json" -- "$@" \
        >"$name.out" 2>"$name.stderr" </dev/null || fail "$name: $(cat "$name.out" "$name.stderr")"
    cmp "$plain" "$name.out" || fail "$name: the output differs"
    [ -z "$products" ] || grep -q "^stand-in.*: $products products" "$name.stderr" ||
        fail "$name: not $products products: $(cat "$name.stderr")"
}

./lp64 >plain 2>plain.stderr
grep -q ': 139 products' plain.stderr || fail "$(cat plain.stderr)"
./lp64 30000 >plain.large 2>/dev/null

# Of 139 products the stand-in gets those by rows with several columns, of symmetric matrices, of rows with gaps, and with a zero alpha;
# five calls with arguments that it refuses, and one in a forked child, whose copy of the stand-in counts it.
settings=("late,poison 2 mprotect" "late,poison,seed=1 3 wp-async")
[ -n "$quick" ] || settings+=("poison,seed=2 1 mprotect" "seed=3 4 wp-async")
for setting in "${settings[@]}"; do
    read -r sim devices gate <<<"$setting"
    for program in lp64 lp64_64 ilp64 "plugin ./libmodule.so" "plugin ./libwhole.so"; do
        name=${program//[^a-z0-9_]/}-$devices
        [ "${SETTING:-hard}" = hard ] && products=37 || products=''
        # shellcheck disable=SC2086
        through "$name" plain "$products" "${HARD[@]}" SEMCACHE_SIM="$sim" SEMCACHE_GATE="$gate" -- ./$program
        sum "$name.json" sparse==102 sparse_host==0 sparse_passed==43 "sparse_links>=80" cache.closes faults
    done
done
devices=2
say "with integers of 32 and 64 bits, linked and opened privately: as plain"

# passed NAME PLAIN VAR=VALUE... -- PROGRAM ARGS...: the stand-in computes every product.
passed() {
    through "$1" "$2" 139 "${@:3}"
    "$COMMAND" report "$1.json" --assert sparse==0 --assert sparse_host==0 --assert sparse_passed==145
}
passed never plain SEMCACHE_OFFLOAD=never -- ./lp64
passed small plain -- ./lp64
names=$(printf 'mkl_sparse_%s,' {s,d,c,z}_m{v,m})
passed disabled plain SEMCACHE_OFFLOAD=always SEMCACHE_DISABLE="$names" -- ./lp64
# Devices that are slower than the host: of large products the library takes the stand-in's time, by a call in place of a jump.
printf 'version = 1\ndevice.memory_bandwidth = 1e6\n' >slow.toml
for program in lp64 lp64_64 ilp64; do
    passed "slow-$program" plain.large SEMCACHE_RATES="$dir/slow.toml" -- ./$program 30000
done
through large plain.large '' -- ./lp64 30000
sum large.json "sparse>=1" "sparse_passed>=40"
say "left to the library: as plain"

[ "$(./plugin)" = absent ] || fail "without MKL: $(./plugin)"
LD_PRELOAD=$LIBRARY ./plugin >absent.out
[ "$(cat absent.out)" = "status 6, y 2" ] || fail "without MKL: $(cat absent.out)"
say "without MKL: not supported"

[ -z "$quick" ] && [ -z "$PREBUILT" ] || exit 0
"$ROOT/scripts/setup.sh" mkl
# No other packages of MKL's are installed, such as its threads.
export MKL_THREADING_LAYER=SEQUENTIAL
mkl=$(echo "$CACHE"/mkl/lib/libmkl_rt.so.*)
c real "$source/mkl_sparse.c" "$mkl" -Wl,-rpath,"$CACHE/mkl/lib"
c real_64 "${wide[@]}" -DSUFFIX=_64 "$source/mkl_sparse.c" "$mkl" -Wl,-rpath,"$CACHE/mkl/lib"
c real_ilp64 "${wide[@]}" -DSUFFIX= "$source/mkl_sparse.c" -Wl,--no-as-needed \
    "$CACHE"/mkl/lib/libmkl_{intel_ilp64,sequential,core}.so.* -lm -Wl,-rpath,"$CACHE/mkl/lib"
for program in real real_64 real_ilp64; do
    ./$program | cmp - plain || fail "$program, plain"
    through $program plain '' "${HARD[@]}" SEMCACHE_SIM=late,poison -- ./$program
    sum $program.json sparse==102 sparse_host==0 sparse_passed==43 cache.closes faults
    through "$program-slow" plain.large '' SEMCACHE_RATES="$dir/slow.toml" -- ./$program 30000
    sum "$program-slow.json" sparse==0 sparse_passed==145
done
say "MKL itself: as plain"
