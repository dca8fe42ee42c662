#!/bin/bash
# Tests the CUDA backend without a GPU, on the stand-in for libcuda, libcublas and libcusparse: the device contract, the
# clients, and every function of the three libraries failing once, and failing at all later calls.
#
#   standin.sh [--quick]     --quick: two settings instead of eleven, and each function fails at its first and its last call (of cuSPARSE
#                            the first), on two GPUs only
set -euo pipefail
. "$(dirname "$0")/../setting.sh"
unset SEMCACHE_STANDIN SEMCACHE_STANDIN_FAIL SEMCACHE_STANDIN_COUNTS SEMCACHE_TEST_DEVICES
quick=''
[ "${1:-}" = --quick ] && quick=1
build
dir=$(fresh standin)
export OPENBLAS_NUM_THREADS=1
ulimit -c 0

standin_in "$dir/gpu"
export LD_LIBRARY_PATH=$dir/gpu

settings=(late,seed=1 devices=2,late,poison,system)
[ -n "$quick" ] || settings+=("" devices=2,late,poison devices=2,system,seed=2 late system poison,seed=3 devices=2 devices=2,seed=4
    devices=3,late,poison,system,seed=5)

# Built with the whole workspace, as in test.sh: the package alone would be built once more, with other features.
for setting in "${settings[@]}"; do
    (cd "$ROOT" && SEMCACHE_TEST_DEVICES=cuda SEMCACHE_STANDIN=$setting \
        cargo test --locked -q --workspace --test devices -- --nocapture) >"$dir/contract" 2>&1 ||
        { cat "$dir/contract"; fail "the device contract under '$setting'"; }
    # If the self-test found that no direct copies are safe, most of the backend would not run.
    grep -q 'in from 32768 bytes (rows from 64 bytes), out always' "$dir/contract" ||
        { cat "$dir/contract"; fail "the self-test found something else"; }
done
say "the device contract: as on simulated devices"

for client in fixed arguments memory vanishing declined exchanged children kernel_code while_loading; do
    gcc -O2 -g -Wall -Wextra -Wno-use-after-free -o "$dir/$client" "$ROOT/tests/edge/$client.c" -lblas -lpthread -lm &
done
gcc -std=c99 -D_GNU_SOURCE -O1 -g -Wall -Wextra -rdynamic -I"$ROOT/include" -o "$dir/csr" "$ROOT/tests/library/csr.c" \
    -lblas -lpthread -ldl &
gfortran -O2 -g -o "$dir/common" "$ROOT/tests/edge/common.f90" -lblas &
legacy_clients &
wait
cd "$dir"
mkdir scratch

# run VAR=VALUE... -- PROGRAM ARGS...: stdout goes to run.out, stderr to run.stderr, the exit status to $status. The
# library is preloaded into the program alone.
run() {
    local variables=()
    while [ "$1" != -- ]; do variables+=("$1") && shift; done
    shift
    status=0
    timeout --foreground -s KILL "$HANG" env "${HARD[@]}" SEMCACHE_DEVICES=cuda "${variables[@]}" "LD_PRELOAD=$LIBRARY" "$@" \
        >run.out 2>run.stderr </dev/null || status=$?
}

# same NAME ASSERTION... -- PROGRAM ARGS...: in every setting the program prints and returns what it does in a plain
# run.
same() {
    local name=$1 assertions=()
    shift
    while [ "$1" != -- ]; do assertions+=("$1") && shift; done
    shift
    local plain=0
    "$@" >"$name.plain" 2>/dev/null </dev/null || plain=$?
    mkdir -p "reports/$name"
    for setting in "${settings[@]}"; do
        run "SEMCACHE_STANDIN=$setting" "SEMCACHE_REPORT=$dir/reports/$name/%p.json" -- "$@"
        if [ $status != $plain ] || ! cmp -s "$name.plain" run.out || grep -q '^semcache' run.stderr; then
            diff "$name.plain" run.out | head -20 || true
            cat run.stderr
            fail "$name under '$setting': status $status"
        fi
    done
    sum "reports/$name" "${assertions[@]}"
    say "$name: as plain"
}

same fixed offloaded cache.closes faults -- ./fixed

# By the default decision most calls of a device that is no faster than the host stay there, and the library takes the time of the
# first ones.
mkdir -p reports/declined
./declined 200 4 >declined.plain
for setting in "${settings[@]}"; do
    run "SEMCACHE_STANDIN=$setting" SEMCACHE_OFFLOAD=auto "SEMCACHE_REPORT=$dir/reports/declined/%p.json" -- ./declined 200 4
    [ $status = 0 ] && cmp declined.plain run.out || { cat run.stderr; fail "declined under '$setting': status $status"; }
done
sum reports/declined offloaded host host_timed
say "declined: as plain"

# What page protection costs makes a block write-through, by rates that say that the host would take far longer than copies at each call.
mkdir -p reports/exchanged
cat >slow_host.toml <<'END'
version = 1
device.h2d.bytes_per_s = 5e10
device.d2h.bytes_per_s = 5e10
host.gemm_flops = [1e7, 1e7, 1e7, 1e7]
END
./exchanged 900 8 700 >exchanged.plain
for setting in "${settings[@]}"; do
    run "SEMCACHE_STANDIN=$setting" SEMCACHE_OFFLOAD=auto "SEMCACHE_REPORT=$dir/reports/exchanged/%p.json" SEMCACHE_RATES="$dir/slow_host.toml" \
        SEMCACHE_WITHOUT=corrections,host-times,ab-probes,kernel-loads -- ./exchanged 900 8 700
    [ $status = 0 ] && cmp exchanged.plain run.out || { cat run.stderr; fail "exchanged under '$setting': status $status"; }
done
sum reports/exchanged offloaded cache.closes faults.write gate.write_through
say "exchanged: as plain"

# Code of kernels takes 30 ms to load: calls for which devices are predicted to be faster stay on the host meanwhile. A thousand calls of
# each kind last until the device is up and the code is loaded, also beside another suite.
for what in calls threads exit fork; do
    [ -f code.plain ] || ./kernel_code calls 1000 >code.plain
    mkdir "reports/code_$what"
    for setting in "${settings[@]}"; do
        run "SEMCACHE_STANDIN=$setting,code=30000" SEMCACHE_OFFLOAD=auto "SEMCACHE_REPORT=$dir/reports/code_$what/%p.json" \
            SEMCACHE_WITHOUT=corrections,host-times,ab-probes,prediction-error -- ./kernel_code $what 1000
        # The end of the process comes in the middle of a load: nothing is printed.
        [ $what = exit ] || sort -u run.out | cmp - code.plain || fail "kernel_code $what under '$setting' printed $(cat run.out)"
        [ $status = 0 ] && [ ! -s run.stderr ] || { cat run.stderr; fail "kernel_code $what under '$setting': status $status"; }
    done
    [ $what = exit ] && more=() || more=(calls.dgemm.offloaded calls.daxpy.offloaded)
    sum "reports/code_$what" calls.dgemm.why_host.loading "${more[@]}"
done
say "kernel_code: as plain"

# While the driver's libraries are loaded no call waits for the dynamic linker's lock, which that thread holds.
mkdir slow
cp gpu/libcuda.so.1 slow/
gcc -O2 -shared -fPIC -o slow/libcublas.so.13 -Wl,-soname,libcublas.so.13,--no-as-needed "$ROOT/tests/edge/slow_library.c" -Lslow -l:libcuda.so.1
rm -f loading called loaded
LD_LIBRARY_PATH=$dir/slow run SEMCACHE_OFFLOAD=auto -- ./while_loading
[ $status = 0 ] && [ "$(cat run.out)" = right ] || fail "while_loading: status $status, $(cat run.out run.stderr)"
say "while_loading: right"

same common offloaded cache.closes faults -- ./common
same arguments offloaded cache.closes faults -- ./arguments scratch/mapped
same memory offloaded cache.closes faults -- ./memory
# Children of a fork share page-locked memory of the driver with their parent.
same children_both offloaded cache.mapped -- ./children both
for what in missing protected jumps holes leaps; do same "vanishing_$what" offloaded -- ./vanishing $what; done
same abac offloaded cache.closes faults calls.dgemm.host==0 -- "$TARGET/legacy/abac" 300
SEMCACHE_PIN=again same abac_again offloaded cache.closes faults calls.dgemm.host==0 -- "$TARGET/legacy/abac" 700
same jacobi offloaded calls.dgemv.host==0 -- "$TARGET/legacy/jacobi" 300 20 303

# Another process takes most of each GPU's memory, or all of it, once semcache has allocated some.
usual=("${settings[@]}")
settings=(memory=33554432,taken=32505856@4 devices=2,late,memory=33554432,taken=31457280@6)
same fixed offloaded cache.closes faults -- ./fixed
same memory offloaded cache.closes faults -- ./memory
settings=(memory=33554432,taken=33554432@1 memory=33554432,taken=33554432@6)
# One line reports that.
SEMCACHE_LOG=error same memory host fallbacks -- ./memory
settings=("${usual[@]}")

# Products of sparse matrices: every function of cuSPARSE is called, and devices compute most products.
./csr >csr.plain
mkdir -p reports/csr
for setting in "${settings[@]}"; do
    run "SEMCACHE_STANDIN=$setting" "SEMCACHE_STANDIN_COUNTS=$dir/counts" "SEMCACHE_REPORT=$dir/reports/csr/%p.json" -- ./csr with
    [ $status = 0 ] && cmp csr.plain run.out && [ ! -s run.stderr ] || { cat run.stderr; fail "csr under '$setting': status $status"; }
    [ "$(grep -c '^cusparse.* 0$' counts)" = 0 ] && [ "$(grep -c '^cusparse' counts)" = 13 ] ||
        fail "csr under '$setting' calls only these: $(awk '$2' counts)"
done
sum reports/csr "sparse>=$((200 * ${#settings[@]}))" "sparse_host>=1" "sparse_links>=30" cache.closes faults
say "csr: as plain"

# sparse LIBRARIES VAR=VALUE...: the program csr in a folder of its own, which is the current one. Not in the whole hard setting,
# so that the program does not look where the matrix is.
sparse() {
    local libraries=$1
    shift
    rm -f one.json
    HARD=(SEMCACHE_OFFLOAD=always SEMCACHE_OWN=4KiB)
    LD_LIBRARY_PATH=$libraries run "$@" "SEMCACHE_REPORT=$PWD/one.json" -- "$dir/csr" with
}
# counted KEY: of its report.
counted() { "$COMMAND" report --print "$1" one.json; }

# failures NAME CALLS AT...: values of SEMCACHE_STANDIN_FAIL for the calls AT of a function that is called CALLS times: only that call
# fails, or all later ones, too.
failures() {
    local n
    for n in $(printf '%s\n' "${@:3}" | sort -nu); do
        [ "$n" -gt "$2" ] || printf '%s\n' "$1:$n" "$1:$n:sticky"
    done
}
# few_failures NAME CALLS AT...: as failures; quick: from the first call on, and only the last one.
few_failures() { [ -n "$quick" ] && printf '%s\n' "$1:1:sticky" "$1:$2" || failures "$@"; }

# failing_sparse SETTING: each function of cuSPARSE fails once, or from then on. In little memory, so that scratch memory is evicted,
# too. Of a lost device a line tells, if it had the only copy of a vector, or the status of a product. Two programs at a time.
failing_sparse() {
    local machine=$1 memory=SEMCACHE_MEMORY=300KiB name calls how half
    rm -rf halves && mkdir -p halves/0 halves/1
    (
        cd halves/0
        sparse "$dir/gpu" "SEMCACHE_STANDIN=$machine" "$memory" "SEMCACHE_STANDIN_COUNTS=$dir/counts"
        [ $status = 0 ] && cmp ../../csr.plain run.out && [ "$(counted cache.evictions)" -gt 100 ] ||
            fail "csr under '$machine': status $status, $(cat run.stderr)"
        counted sparse_host >"$dir/usual"
    )
    grep ^cusparse counts | while read -r name calls; do
        [ -n "$quick" ] && failures "$name" "$calls" 1 || failures "$name" "$calls" 1 2 $(((calls + 1) / 2)) "$calls"
    done >failures
    for half in 0 1; do
        (
            cd halves/$half
            awk -v half=$half 'int((NR - 1) / 2) % 2 == half' ../../failures | while read -r how; do
                sparse "$dir/gpu" "SEMCACHE_STANDIN=$machine" "$memory" "SEMCACHE_STANDIN_FAIL=$how"
                sparse_end "$how"
            done >ends
        ) &
    done
    wait
    cat halves/*/ends >ends
    if grep '^wrong' ends || [ "$(wc -l <ends)" != "$(wc -l <failures)" ]; then fail "'$machine', cuSPARSE"; fi
    say "'$machine', cuSPARSE: $(wc -l <failures) failures, $(grep -c host ends) finished on the host, $(grep -c gone ends || true) told" \
        "of a lost device"
    [ "$(grep -c host ends)" -gt 10 ] || fail "hardly any product was left to the host"
}
# sparse_end FAILURE: how the program csr ended, in one word; or all about it.
sparse_end() {
    if [ "$(wc -l <run.stderr)" -le 3 ] && ! grep -q '^semcache-standin' run.stderr; then
        if [ $status = 0 ] && cmp -s "$dir/csr.plain" run.out; then
            [ "$(counted sparse_host)" -gt "$(cat "$dir/usual")" ] && printf 'host\n' || printf 'device\n'
            return
        elif [[ $1 == *:sticky ]] && { { [ $status = 70 ] && grep -q 'the only copy of the matrix' run.stderr; } ||
            { [ $status = 1 ] && tail -1 run.out | grep -q '(the device is lost), not 0'; }; }; then
            printf 'gone\n'
            return
        fi
    fi
    printf 'wrong: %s: status %s, %s\n' "$1" "$status" "$(tail -q -n 3 run.out run.stderr | tr '\n' ' ')"
}
[ -n "$quick" ] || failing_sparse late,poison
failing_sparse devices=2,late,poison,seed=6

# Without cuSPARSE, or one of its functions, the host makes all products, and other calls run on the devices.
lacking() {
    (
        cd halves/0
        sparse "$dir/lacking"
        [ $status = 0 ] && cmp ../../csr.plain run.out && [ ! -s run.stderr ] || fail "without $1: status $status, $(cat run.stderr)"
        [ "$(counted sparse)" = 0 ] && [ "$(counted calls.daxpy.offloaded)" -gt 0 ] || fail "without $1: $(cat one.json)"
    )
}
removed="cusparseSpMV_preprocess"
[ -n "$quick" ] || removed=$(awk '/^cusparse/ { print $1 }' counts)
mkdir lacking
ln gpu/libcuda.so.1 gpu/libcublas.so.13 lacking/
lacking libcusparse
for name in $removed; do
    rm -f lacking/libcusparse.so.12
    LC_ALL=C sed "s/\x00$name\x00/\x00X${name:1}\x00/" gpu/libcuda.so.1 >lacking/libcusparse.so.12
    ! cmp -s gpu/libcuda.so.1 lacking/libcusparse.so.12 || fail "no symbol $name to remove"
    lacking "$name"
done
say "without cuSPARSE: on the host"

# Dense solvers: every function of cuSOLVER is called, and fails at its first and its last call, once or from then on (quick: of double
# precision, from its first call on, and once at its last): LAPACK computes what a device does not. A lost device may have had the only copy of a product's result.
gcc -O2 -g -Wall -Wextra -o "$dir/solvers" "$ROOT/tests/clients/solvers.c" -llapack -lblas -lm
for type in s d c z; do ./solvers 200 1 $type >solvers.plain.$type; done
./solvers 200 1 >solvers.plain.dscz
types=dscz
solver() { LD_LIBRARY_PATH=$1 run "${@:2}" "SEMCACHE_REPORT=$PWD/one.json" -- ./solvers 200 1 $types; }
# What LAPACK itself calls for small matrices is tested above; in the quick part the host computes it everywhere.
inner=$(printf '%s,' {s,d,c,z}{copy,scal,axpy,gemv,trmv} {s,d}{ger,dot,nrm2,asum} {c,z}ger{u,c} {c,z}dot{u,c} {sc,dz}{nrm2,asum} i{s,d,c,z}amax)
inside=()
[ -z "$quick" ] || inside=("SEMCACHE_DISABLE=${inner%,}")
for setting in "${settings[@]}"; do
    solver "$dir/gpu" "${inside[@]}" "SEMCACHE_STANDIN=$setting" "SEMCACHE_STANDIN_COUNTS=$dir/counts"
    [ $status = 0 ] && cmp solvers.plain.$types run.out && [ ! -s run.stderr ] || { cat run.stderr; fail "solvers under '$setting': status $status"; }
    # Rows are exchanged where several devices factor by LU.
    unused=4
    [[ $setting != *devices=* ]] || unused=0
    [ "$(grep -c '^cusolver.* 0$' counts)" = $unused ] && [ "$(grep -c '^cusolver' counts)" = 33 ] ||
        fail "solvers under '$setting' call only these: $(awk '$2' counts)"
    "$COMMAND" report one.json --assert calls.dgesv.offloaded --assert calls.zpotrf.offloaded
done
# What `system` adds to each call of the driver makes these runs three times as long: in the whole suite only.
failing_types='s d c z' machine=${settings[-1]}
[ -z "$quick" ] || failing_types=d machine=devices=2,late,poison
for types in $failing_types; do
    solver "$dir/gpu" "SEMCACHE_DISABLE=${inner%,}" "SEMCACHE_STANDIN=$machine" "SEMCACHE_STANDIN_COUNTS=$dir/counts.$types"
done
grep ^cusolver counts | while read -r name _; do
    # Products with Q, exchanges of rows and factorizations of symmetric matrices have a function for each element type.
    types=d
    if [[ $name =~ ^cusolverDn[SCZ](ormqr|unmqr|laswp|sytrf) ]]; then types=${name:10:1} types=${types,,}; fi
    [[ " $failing_types " == *" $types "* ]] || continue
    calls=$(awk -v name="$name" '$1 == name { print $2 }' "counts.$types")
    mapfile -t ways < <(few_failures "$name" "$calls" 1 "$calls")
    for how in "${ways[@]}"; do
        rm -f one.json
        solver "$dir/gpu" "SEMCACHE_DISABLE=${inner%,}" "SEMCACHE_STANDIN=$machine" "SEMCACHE_STANDIN_FAIL=$how"
        if [ "$status" = 70 ] && [[ $how == *:sticky ]] && grep -q 'the only copy of the matrix' run.stderr; then
            printf 'gone\n'
        elif [ $status = 0 ] && cmp solvers.plain.$types run.out && [ "$(wc -l <run.stderr)" -le 2 ] && ! grep -q '^semcache-standin' run.stderr; then
            grep -q '"refused": *[1-9]' one.json || fail "$how: no call was refused"
            printf 'host\n'
        else
            cat run.stderr >&2
            fail "$how: status $status"
        fi
    done
done >ends
say "cuSOLVER: $(wc -l <ends) failures, $(grep -c host ends) finished on the host"
# A program that only solves brings devices up, too, once its calls have taken long enough.
LD_LIBRARY_PATH=$dir/gpu run SEMCACHE_OFFLOAD=auto SEMCACHE_DEVICES=auto "SEMCACHE_STANDIN_COUNTS=$dir/counts.one" -- ./solvers 700 1 d
[ $status = 0 ] && [ ! -s run.stderr ] || fail "solvers by themselves: status $status, $(cat run.stderr)"
grep -q '^cuInit [1-9]' counts.one || fail "solvers by themselves bring no device up"
rm -rf lacking_solver && mkdir lacking_solver
ln gpu/libcuda.so.1 gpu/libcublas.so.13 lacking_solver/
types=dscz
solver "$dir/lacking_solver" "${inside[@]}"
[ $status = 0 ] && cmp solvers.plain.$types run.out && [ ! -s run.stderr ] || fail "without cuSOLVER: status $status, $(cat run.stderr)"
"$COMMAND" report one.json --assert calls.dgesv.offloaded==0 --assert calls.zgemm.offloaded
say "without cuSOLVER: on the host"

# failing DEVICES: the fixed program with one failing call. Every function that the backend calls fails at its first,
# second, middle and last call; only that call, or all later calls, too (quick: from its first call on, and once at its last).
failing() {
    local machine=$1 name calls how ways fell=0 gone=0 runs=0
    : >wrong
    run "SEMCACHE_STANDIN=$machine" "SEMCACHE_STANDIN_COUNTS=$dir/counts" -- ./fixed
    [ $status = 0 ] && cmp fixed.plain run.out || fail "$machine: $(cat run.stderr)"
    [ "$(awk '$2' counts | wc -l)" -gt 30 ] || fail "only these are called: $(awk '$2' counts)"
    while read -r name calls; do
        [ "$calls" -gt 0 ] || continue
        mapfile -t ways < <(few_failures "$name" "$calls" 1 2 $(((calls + 1) / 2)) "$calls")
        for how in "${ways[@]}"; do
            runs=$((runs + 1))
            rm -f one.json
            run "SEMCACHE_STANDIN=$machine" "SEMCACHE_STANDIN_FAIL=$how" "SEMCACHE_REPORT=$dir/one.json" -- ./fixed
            # At most one line for a device that cannot be initialised, and one for later failures.
            if [ $status = 70 ] && [[ $how == *:sticky ]] && [ "$(wc -l <run.stderr)" -le 3 ] &&
                [ "$(grep -c 'the only copy of the matrix' run.stderr)" = 1 ]; then
                gone=$((gone + 1))
            elif [ $status = 0 ] && cmp -s fixed.plain run.out && [ "$(wc -l <run.stderr)" -le 2 ] &&
                ! grep -q '^semcache-standin' run.stderr; then
                [ "$("$COMMAND" report --print fallbacks one.json)" = 0 ] || fell=$((fell + 1))
            else
                printf '%s\n' "$how: status $status, $(cat run.stderr)" >>wrong
            fi
        done
    done <counts
    [ ! -s wrong ] || fail "'$machine', of $runs failures: $(cat wrong)"
    say "'$machine': $runs failures, $fell finished on the host, $gone ended with the one line"
    [ $fell -gt 10 ] || fail "only $fell runs fell back"
    [ $gone -gt 0 ] || fail "nothing was ever lost"
}
[ -n "$quick" ] || failing ''
failing devices=2,late,seed=6

# without NAME: runs the fixed program with a libcuda without this symbol, whose name is overwritten. In two files.
without() {
    mkdir -p absent
    rm -f absent/*
    LC_ALL=C sed "s/\x00$1\x00/\x00X${1:1}\x00/" gpu/libcuda.so.1 >absent/libcuda.so.1
    ! cmp -s gpu/libcuda.so.1 absent/libcuda.so.1 || fail "no symbol $1 to remove"
    ln absent/libcuda.so.1 absent/libcublas.so.13
    LD_LIBRARY_PATH=$dir/absent run "SEMCACHE_REPORT=$dir/one.json" -- ./fixed
    [ $status = 0 ] && cmp fixed.plain run.out || fail "without $1: status $status, $(cat run.stderr)"
}

# absent NAME: without this symbol no backend starts, which one line says.
absent() {
    without "$1"
    [ "$(wc -l <run.stderr)" = 1 ] && grep -q "^semcache: .*$1" run.stderr || fail "without $1: $(cat run.stderr)"
}
removed="cuMemHostRegister_v2 cublasZdotc_v2"
[ -n "$quick" ] || removed=$(awk '$2 && $1 != "cuEventElapsedTime" { print $1 }' counts)
for name in $removed; do absent "$name"; done
say "without a symbol: on the host, one line"

# Without the function that tells the time between two events no operation is timed, and the device is used.
rm -f one.json
without cuEventElapsedTime
[ ! -s run.stderr ] || fail "without cuEventElapsedTime: $(cat run.stderr)"
[ "$("$COMMAND" report --print offloaded one.json)" -gt 0 ] ||
    fail "without cuEventElapsedTime no call was offloaded"
say "without cuEventElapsedTime: on the devices"
