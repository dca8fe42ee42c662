#!/bin/bash
# LAPACK's solvers on devices in four precisions: getrf, getrs, gesv, getri, potrf, potrs, posv, potri, trtrs, trtri and lauum, of matrices
# whose factors and inverses are exact, give what they give plainly, bit by bit; the factors of geqrf, orgqr and ormqr give the matrix; gelqf,
# orglq, ormlq, gels, gelsd, gelss and gelsy give what plain loops give; geqp3 chooses the longest columns, and its factors give the matrix;
# sytrf, sytrs and sysv of symmetric matrices with exact factors, with blocks of order two, give what they give plainly, pivots included.
# With 64-bit integers under plain names, too. On several devices, and in less memory than the matrix takes, potrf, posv, getrf and gesv by
# tiles.
#
# What happens in the middle of a factorization (a handler that jumps or forks, a thread that is cancelled, reads or frees) changes nothing.
#
#   solvers.sh [--quick]     --quick: four of twelve settings, and of each part some
#   ONLY=NAME solvers.sh     of the parts those of this name (a shell pattern): precisions, tiles, middle, wide, refusals, left
set -euo pipefail
. "$(dirname "$0")/../setting.sh"
quick=''
[ "${1:-}" = --quick ] && quick=1
# shellcheck disable=SC2053 # a pattern
wants() { [[ $1 == ${ONLY:-*} ]]; }
build
dir=$(fresh solvers)
source=$ROOT/tests/clients
cd "$dir"
c() { gcc -O2 -g -Wall -Wextra -o "$@"; }
obtain "$dir/solvers" c solvers "$source/solvers.c" -llapack -lblas -lm
obtain "$dir/libwide.so" c libwide.so -fPIC -shared -Wl,-soname,libwide.so "$source/lapack_wide.c" -lm
obtain "$dir/wide" c wide -DWIDE "$source/solvers.c" ./libwide.so -Wl,-rpath,"\$ORIGIN" -lm
obtain "$dir/solving" c solving "$source/solving.c" -llapack -lblas -pthread
clients_built
export OPENBLAS_NUM_THREADS=1
[ -z "$PREBUILT" ] || export LD_LIBRARY_PATH=$PREBUILT/lapack:$LD_LIBRARY_PATH

./solvers >plain || fail "plain: $(cat plain)"
for types in d z dz dscz; do ./solvers 200 1 $types >plain.$types || fail "plain: $(cat plain.$types)"; done
./wide 200 1 >plain.wide || fail "wide, plain: $(cat plain.wide)"

# as_plain NAME PLAIN DEVICES VAR=VALUE... -- PROGRAM ARGS...
as_plain() {
    local name=$1 plain=$2 devices=$3 variables=()
    shift 3
    while [ "$1" != -- ]; do variables+=("$1") && shift; done
    shift
    "${WITHIN[@]}" env "${variables[@]}" "$COMMAND" run --devices "$(machine "$devices")" --report "$dir/$name.json" -- "$@" \
        >"$name.out" 2>"$name.stderr" </dev/null || fail "$name: $(tail -n 5 "$name.out" "$name.stderr")"
    cmp "$plain" "$name.out" || { diff "$plain" "$name.out" | head -20; fail "$name: the output differs"; }
}

# In memory for less than a matrix of double complex numbers and its copy LAPACK computes on the host what has no way by tiles; in some more,
# devices evict.
settings=("late,poison 2 mprotect 1GiB" "late,poison,seed=1 1 wp-async 1GiB" "poison,seed=2 3 eager 1GiB" "late,poison,seed=3 2 mprotect 1280KiB")
[ -n "$quick" ] || settings+=("late,seed=4 3 wp-async 4MiB" "late,poison,seed=5 1 mprotect 3MiB" "seed=6 4 mprotect 1GiB" "poison,seed=7 1 eager 2MiB"
    "late,seed=8 2 mprotect 512KiB" "late,poison,seed=9 3 mprotect 1500KiB" "poison,seed=10 2 wp-async 1MiB" "late,poison,seed=11 4 mprotect 2500KiB")
# What LAPACK calls inside itself takes long where pages are write-tracked, or bytes are copied at each call or evicted; the quick part leaves
# it to the host in all settings but the first, which has smaller matrices.
inner=$(printf '%s,' {s,d,c,z}{copy,swap,scal,axpy,gemv,trmv} {s,d}{ger,dot,nrm2,asum} {c,z}ger{u,c} {c,z}dot{u,c} {sc,dz}{nrm2,asum} i{s,d,c,z}amax)
for setting in "${settings[@]}"; do
    wants precisions || break
    read -r sim devices gate memory <<<"$setting"
    name=$devices-$gate-$memory
    plain=plain words=() inside=()
    if [ -n "$quick" ]; then
        [ "$gate" = wp-async ] || words=(200 1 dscz) plain=plain.dscz
        [ "$gate" != eager ] || words=(200 1 dz) plain=plain.dz
        [ "$memory" = 1GiB ] || words=(200 1 z) plain=plain.z
        [ "$setting" = "${settings[0]}" ] || inside=("SEMCACHE_DISABLE=${inner%,}")
    fi
    as_plain "$name" "$plain" "$devices" "${HARD[@]}" "${inside[@]}" SEMCACHE_SIM="$sim" SEMCACHE_GATE="$gate" SEMCACHE_MEMORY="$memory" -- ./solvers "${words[@]}"
    checks=(offloaded)
    [ "$gate" = eager ] || checks+=(cache.closes faults)
    # With several simulated devices, or GPUs that there are: sim:1 and cuda:0 are one.
    [[ $(machine "$devices") == *:[01] ]] || checks+=("tiled>=15")
    if [ "$memory" = 1GiB ] && [ "$plain" = plain ]; then
        # INFO is not 0, or numbers are extreme, in some calls of each of two rounds; the child of a fork makes its calls on the host.
        for p in s c z; do checks+=("calls.${p}getrf.offloaded>=8" "calls.${p}getrs.offloaded==14" "calls.${p}gesv.offloaded==4" "calls.${p}potrf.offloaded==10" "calls.${p}potrs.offloaded==6" "calls.${p}posv.offloaded==4"
            "calls.${p}getri.offloaded==2" "calls.${p}potri.offloaded==4" "calls.${p}trtrs.offloaded==30" "calls.${p}geqrf.offloaded>=14"
            "calls.${p}gelqf.offloaded>=10" "calls.${p}gels.offloaded==12" "calls.${p}gels.why_host.unsupported==18"
            "calls.${p}trtri.offloaded==10" "calls.${p}lauum.offloaded==4" "calls.${p}gels"{d,s,y}{.offloaded==4,.why_host.unsupported==6} "calls.${p}geqp3.offloaded>=26" "calls.${p}geqp3.why_host.unsupported>=4"
            "calls.${p}sytrf.offloaded>=8" "calls.${p}sytrf.why_host.unsupported>=8" "calls.${p}sytrs.offloaded>=4" "calls.${p}sysv.offloaded==4" "calls.${p}sysv.why_host.unsupported==4"
            "calls.${p}gecon.offloaded==22" "calls.${p}pocon.offloaded==4"); done
        checks+=(calls.{sor,cun,zun}{gqr.offloaded==6,mqr.offloaded'>='56,glq.offloaded'>='4,mlq.offloaded'>='24})
        checks+=("calls.dgesv.offloaded==4" "calls.dgesv.why_host.unsupported==2" "calls.dgesv.why_host.forked==3")
    elif [[ $memory == @(512KiB|1280KiB|1500KiB|1MiB) ]]; then
        checks+=("calls.zgesv.why_host.out_of_memory==0" "calls.zgesv.offloaded>=2" "calls.zgeqrf.why_host.out_of_memory>=1")
    fi
    sum "$name.json" "${checks[@]}"
done
! wants precisions || say "four precisions: as plain"

# By tiles, in memory for two fifths of the matrix. What LAPACK calls inside itself is tested above.
./solvers 300 1 d >plain.tiles
for devices in 3 1 2 4; do
    wants tiles || break
    [ -z "$quick" ] || [ $devices = 3 ] || break
    gate=mprotect
    [ $devices != 3 ] || gate=wp-async
    [ $devices != 4 ] || gate=eager
    as_plain tiles-$devices plain.tiles $devices "${HARD[@]}" SEMCACHE_SIM=late,poison,seed=$devices SEMCACHE_GATE=$gate SEMCACHE_MEMORY=290KiB \
        "SEMCACHE_DISABLE=${inner%,}" -- ./solvers 300 1 d
    sum tiles-$devices.json calls.dgetrf.offloaded==6 calls.dgesv.offloaded==2 calls.dpotrf.offloaded==5 calls.dposv.offloaded==2 \
        "tiled>=15" cache.evictions "calls.dgetrs.why_host.out_of_memory>=1"
done
! wants tiles || say "in less memory than the matrix takes: as plain, by tiles"

# In the middle of factorizations. On the reference BLAS and LAPACK: OpenBLAS keeps locks that a jump leaves taken.
reference=$REFERENCE:${REFERENCE%/*}/lapack
[ -z "$PREBUILT" ] || reference=$REFERENCE:$PREBUILT/lapack
for what in jumps forks cancels threads; do
    wants middle || break
    LD_LIBRARY_PATH=$reference ./solving "$what" 20 >plain.$what || fail "$what, plain: $(cat plain.$what)"
    for setting in "${settings[@]}"; do
        read -r sim devices gate memory <<<"$setting"
        [ -z "$quick" ] || [ $gate != eager ] || continue
        # Less has no room for a matrix and its copy.
        [[ $memory != *KiB && $memory != 1MiB ]] || continue
        name=$what-$devices-$gate-$memory
        as_plain "$name" plain.$what "$devices" "${HARD[@]}" SEMCACHE_SIM="$sim" SEMCACHE_GATE="$gate" SEMCACHE_MEMORY="$memory" \
            LD_LIBRARY_PATH="$reference" -- ./solving "$what" $((quick ? 20 : 60))
        sum "$name.json" calls.dpotrf.offloaded
    done
done
! wants middle || say "handlers, forks, cancellation and other threads in the middle of factorizations: as plain"

if wants wide; then
    as_plain wide plain.wide 2 "${HARD[@]}" SEMCACHE_SIM=late,poison -- ./wide 200 1
    sum wide.json calls.dgetrf.offloaded calls.dgesv.offloaded calls.dpotrf.offloaded calls.dpotrs.offloaded
    say "64-bit integers under plain names: as plain"
fi

# Each operation of a simulated device is refused once, or the device is lost: LAPACK computes the call on the host. On two devices matrices
# are computed by tiles, few of them, so that the operations by which they take the place of the program's matrix are among these, too.
refused=0 last=120
simulated || last=0
# The workspace that LAPACK would rather have is another one for matrices of few rows.
./solvers 50 1 d | sed 's/ work .*//' >plain.few
for ((n = 2; n <= last; n += quick ? 17 : 3)); do
    wants refusals || break
    for what in "fail=refuse:$n" "fail=lost:$n"; do
        for devices in 1 2; do
            [ -z "$quick" ] || [ $devices = $((1 + n % 2)) ] || continue
            [ $devices = 1 ] && order=200 plain=plain.d || order=50 plain=plain.few
            rm -f injected.json
            status=0
            "${WITHIN[@]}" env "${HARD[@]}" SEMCACHE_SIM="late,poison,$what" "$COMMAND" run --devices "$(machine $devices)" \
                --report injected.json -- ./solvers $order 1 d >injected.out 2>injected.stderr </dev/null || status=$?
            if [ $status = 70 ] && [[ $what == fail=lost:* ]] && grep -q 'only copy of the matrix' injected.stderr; then continue; fi
            [ $status = 0 ] || fail "$what on $devices devices: status $status, $(cat injected.stderr)"
            [ $devices = 1 ] || sed -i 's/ work .*//' injected.out
            cmp $plain injected.out || fail "$what on $devices devices: the output differs"
            refused=$((refused + $("$COMMAND" report --print host injected.json)))
        done
    done
done
if simulated && wants refusals; then
    [ $refused -gt 0 ] || fail "nothing was refused"
    say "refusals and lost devices: as plain, or the one line"
fi

wants left || exit 0
plain=plain words=()
[ -z "$quick" ] || words=(200 1 dz) plain=plain.dz
as_plain disabled $plain 1 "${HARD[@]}" SEMCACHE_DISABLE=dgesv,zpotrf -- ./solvers "${words[@]}"
"$COMMAND" report disabled.json --assert "calls.dgesv.why_host.disabled>=3" --assert "calls.zpotrf.why_host.disabled>=1" \
    --assert calls.dgesv.offloaded==0 --assert calls.zpotrf.offloaded==0
as_plain never $plain 1 SEMCACHE_OFFLOAD=never -- ./solvers "${words[@]}"
"$COMMAND" report never.json --assert offloaded==0
as_plain auto $plain 2 SEMCACHE_OFFLOAD=auto -- ./solvers "${words[@]}"
say "left to LAPACK: as plain"
