#!/bin/bash
# OpenBLAS's own tests (test, ctest with its gemm3m part, utest), linked with Debian's libopenblas.so.0, under the hard
# setting: they print what they print in a plain run, except times.
#
#   openblas.sh [--quick]     --quick: one setting instead of five, and only double precision, and utest
set -euo pipefail
. "$(dirname "$0")/../setting.sh"
settings=("1 seed=1" "2 seed=2" "1 late,seed=3" "3 late,seed=4" "2 poison,seed=5")
precisions="s d c z" three="c z" least=500
if [ "${1:-}" = --quick ]; then settings=("2 seed=1") precisions=d three='' least=100; fi
build
source=$CACHE/src/openblas
[ -e "$source/utest/utest_main.c" ] || fail "no source at $source: run scripts/setup.sh"
host=/usr/lib/x86_64-linux-gnu
dir=$(fresh openblas)
programs=$TARGET/openblas
export OPENBLAS_NUM_THREADS=1

# Built as Debian tests its package: by the Makefiles, but with the installed library. Kept, since the build takes half
# a minute.
if [ ! -x "$programs/utest/openblas_utest" ]; then
    rm -rf "$programs" && mkdir -p "$programs"
    cp -a "$source"/. "$programs/"
    cd "$programs"
    sed -i -e 's,\.\./\$(LIBNAME),,g' -e 's,\$(TOPDIR)/\$(LIBNAME),,g' {test,ctest,utest}/Makefile
    sed -i -e "3i CEXTRALIB += $host/libopenblas.so.0" -e "3i EXTRALIB += $host/libopenblas.so.0" {test,ctest}/Makefile
    {
        make -C test {s,d,c,z}blat{1,2,3} {c,z}blat3_3m &&
            make -C ctest CFLAGS="-O2 -DADD_CBLAS_PROTOTYPES -w -I.." x{s,d,c,z}cblat{1,2,3} \
                c_{c,z}blas3_3m.o c_{c,z}3chke_3m.o &&
            # The rules for these programs need Fortran, which the Makefiles do not find without a build of the library.
            for p in c z; do
                gfortran -O1 -w -std=legacy -o "ctest/x${p}cblat3_3m" "ctest/c_${p}blat3_3m.f" "ctest/c_${p}blas3_3m.o" \
                    "ctest/c_${p}3chke_3m.o" ctest/{auxiliary,c_xerbla,constant}.o $host/libopenblas.so.0 || exit
            done &&
            # Debian's library contains no LAPACKE, so the rule's own link fails.
            { make -C utest openblas_utest || true; } &&
            gcc -o utest/openblas_utest.new utest/*.o $host/libopenblas.so.0 $host/liblapacke.so.3 -lm -lpthread -lgfortran &&
            mv utest/openblas_utest.new utest/openblas_utest
    } >build.log 2>&1 || { grep -m5 -E 'rror|undefined|No rule' build.log | cut -c1-300; fail "building OpenBLAS's tests"; }
fi
clients_built
cd "$dir"

# tests OUT PREFIX...: runs all tests by the command PREFIX; the output of each, and its status if not 0, go to OUT.
tests() {
    local out=$1 p l
    shift
    mkdir -p "$out"
    (
        cd "$out"
        # one NAME INPUT PROGRAM
        one() { "${prefix[@]}" "$programs/$3" <"$2" >"$1.out" 2>&1 || echo "status $?" >>"$1.out"; }
        prefix=("$@")
        for p in $precisions; do
            one "${p}blat1" /dev/null "test/${p}blat1"
            one "${p}cblat1" /dev/null "ctest/x${p}cblat1"
            for l in 2 3; do
                one "${p}blat$l" "$programs/test/${p}blat$l.dat" "test/${p}blat$l"
                one "${p}cblat$l" "$programs/ctest/${p}in$l" "ctest/x${p}cblat$l"
            done
        done
        for p in $three; do
            one "${p}blat3_3m" "$programs/test/${p}blat3_3m.dat" "test/${p}blat3_3m"
            one "${p}cblat3_3m" "$programs/ctest/${p}in3_3m" "ctest/x${p}cblat3_3m"
        done
        one utest /dev/null utest/openblas_utest
    )
}
# The output that is compared: without times, and without the flags of the floating-point unit at the end, which depend
# on the code that ran.
results() {
    (cd "$1" && grep -a '' -- * | grep -av 'floating-point exceptions are signalling' | sed -E 's/ ran in [0-9]+ ms//')
}

tests plain env
results plain >plain.expected
passes=$(grep -caE 'PASS' plain.expected)
units=$(grep -cE '^utest.*\[OK\]' plain.expected || true)
[ "$passes" -ge $least ] || fail "only $passes PASS lines in the plain run"
for setting in "${settings[@]}"; do
    read -r devices sim <<<"$setting"
    run=$devices.${sim//,/.}
    SECONDS=0
    mkdir -p reports; tests "$run" timeout -s ABRT "$HANG" env "${HARD[@]}" "SEMCACHE_DEVICES=$(machine "$devices")" "SEMCACHE_SIM=$sim" \
        "SEMCACHE_REPORT=$dir/reports/$run.%p.json" "LD_PRELOAD=$LIBRARY"
    results "$run" >"$run.results"
    diff plain.expected "$run.results" || fail "OpenBLAS's tests under $setting: other results than plain"
    say "openblas $setting: $passes PASS lines and $units unit tests as plain, $SECONDS s"
done
sum "$dir/reports" offloaded cache.closes faults
