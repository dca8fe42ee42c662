#!/bin/bash
# Every door through which a program can come to its BLAS, with one computation behind all of them: linked with the
# library, Debian's alternative for libblas.so.3 (done and undone), a FlexiBLAS backend, MATLAB's BLAS_VERSION, Julia's
# lbt_forward. The last three are small stand-ins in tests/clients for what Debian does not have.
#
# What a program opens with dlopen it does not ask for its memory: without the preload there the library copies operands
# in and results home at each call. Both ways are run; only with the preload must something be closed and fault.
#
#   doors.sh [--quick]     --quick: one setting instead of four
set -euo pipefail
. "$(dirname "$0")/../setting.sh"
quick=''
[ "${1:-}" = --quick ] && quick=1
build
dir=$(fresh doors)
source=$ROOT/tests/clients
system=/usr/lib/x86_64-linux-gnu
openblas=$system/libopenblas.so.0 openblas64=$system/libopenblas64.so.0
export OPENBLAS_NUM_THREADS=1

for library in flexiblas:libflexiblas.so.3 trampoline:libblastrampoline.so.5; do
    gcc -O2 -g -Wall -Wextra -shared -fPIC -Wl,-soname,"${library#*:}" -o "$dir/${library#*:}" "$source/${library%:*}.c" &
done
wait
# door NAME FLAGS...: a client.
door() { gcc -O2 -g -Wall -Wextra -o "$dir/$1" "$source/door_${1%%-*}.c" "${@:2}"; }
ours=(-L"$(dirname "$LIBRARY")" -lsemcache_blas -Wl,-rpath,"$(dirname "$LIBRARY")")
door linked-blas -lblas
door linked-ours "${ours[@]}"
door linked-before "${ours[@]}" -lblas
door linked-flexiblas "$dir/libflexiblas.so.3" -Wl,-rpath,"$dir"
door linked-trampoline -DINT=int64_t -DSUFFIX=_64_ "$dir/libblastrampoline.so.5" -Wl,-rpath,"$dir"
door matlab
door julia -Wl,-rpath,"$dir"
cd "$dir"

# Devices and mode of the simulator.
settings=("2 seed=1")
[ -n "$quick" ] || settings+=("1 late,seed=2" "2 poison,seed=3" "2 late,seed=4")

# through NAME EXPECTED ASSERTION... -- VAR=VALUE... PROGRAM ARGS...: prints what EXPECTED holds, in every setting.
through() {
    local name=$1 expected=$2 assertions=() devices sim status
    shift 2
    while [ "$1" != -- ]; do assertions+=("$1") && shift; done
    shift
    mkdir -p "reports/$name"
    for setting in "${settings[@]}"; do
        read -r devices sim <<<"$setting"
        status=0
        # A call that comes back to the library would go round for ever.
        timeout -s ABRT "$HANG" env "${HARD[@]}" "SEMCACHE_DEVICES=$(machine "$devices")" "SEMCACHE_SIM=$sim" \
            "SEMCACHE_REPORT=$dir/reports/$name/%p.json" "$@" >"$name.out" 2>"$name.stderr" </dev/null || status=$?
        if [ $status != 0 ] || ! cmp -s "$expected" "$name.out" || grep -q '^semcache' "$name.stderr"; then
            diff "$expected" "$name.out" || true
            cat "$name.stderr"
            fail "$name under $setting: status $status"
        fi
    done
    say "$name: as plain"
    sum "$dir/reports/$name" "${assertions[@]}"
}
kept=(offloaded cache.closes faults)
copied=(offloaded)

./linked-blas >plain
for client in ours before; do
    through "linked-$client" plain "${kept[@]}" -- "./linked-$client"
done

# 64-bit integers under names that do not say so: the host BLAS tells.
BLAS_VERSION=$openblas64 ./matlab >plain.64
grep -q '^width *64' plain.64 || fail "this host BLAS has no 64-bit integers"
through matlab plain.64 "${copied[@]}" -- "BLAS_VERSION=$LIBRARY" "SEMCACHE_HOST_BLAS=$openblas64" ./matlab
through matlab.preload plain.64 "${kept[@]}" -- "LD_PRELOAD=$LIBRARY" "BLAS_VERSION=$LIBRARY" "SEMCACHE_HOST_BLAS=$openblas64" ./matlab

# As FlexiBLAS's backend; and in front of FlexiBLAS, which is then the host BLAS.
FLEXIBLAS=$openblas ./linked-flexiblas | cmp - plain
through flexiblas plain "${copied[@]}" -- "FLEXIBLAS=$LIBRARY" "SEMCACHE_HOST_BLAS=$openblas" ./linked-flexiblas
through flexiblas.preload plain "${kept[@]}" -- "LD_PRELOAD=$LIBRARY" "FLEXIBLAS=$openblas" ./linked-flexiblas

# Julia: code without imports that looks the addresses up; and a library that links with libblastrampoline.
export LBT_DEFAULT_LIBS=$openblas64
./julia | cmp - plain.64
./linked-trampoline | cmp - plain.64
through julia plain.64 "${copied[@]}" -- "SEMCACHE_HOST_BLAS=$openblas64" ./julia "$LIBRARY"
through julia.preload plain.64 "${kept[@]}" -- "LD_PRELOAD=$LIBRARY" "SEMCACHE_HOST_BLAS=$openblas64" ./julia "$LIBRARY"
grep -q "64 bits, suffix '64_'" julia.preload.stderr || fail "lbt_forward: $(cat julia.preload.stderr)"
through trampoline.preload plain.64 "${kept[@]}" -- "LD_PRELOAD=$LIBRARY" ./linked-trampoline
unset LBT_DEFAULT_LIBS

# Debian's alternative, in a mount namespace of its own where there can be one: what else runs on this machine keeps its
# BLAS. Whatever happens, it is taken back.
[ "$(id -u)" = 0 ] || fail "Debian's alternative can only be tested by root"
alternative() {
    local script=$ROOT/scripts/debian-alternative.sh before changed=(/etc/alternatives /var/lib/dpkg/alternatives /usr/local/lib)
    chosen() { readlink -f $system/libblas.so.3; }
    if [ "$1" = private ]; then
        for folder in "${changed[@]}"; do
            mkdir -p "private$folder"
            cp -a "$folder/." "private$folder"
            mount --bind "private$folder" "$folder"
        done
    fi
    before=$(chosen)
    # shellcheck disable=SC2064 # the path as it is now
    trap "'$script' remove >/dev/null 2>&1 || true" EXIT
    "$script" install "$LIBRARY" >/dev/null
    # As the next installation of a package will: it must not make links of its own.
    if [ "$1" != private ]; then ldconfig; fi
    [ "$(chosen)" = /usr/local/lib/semcache/libblas.so.3 ] || fail "libblas.so.3 is $(chosen)"
    through alternative plain "${kept[@]}" -- ./linked-blas
    # Octave finds malloc in libc before it finds libblas, unless the same file is preloaded.
    cat >a.m <<'END'
n = 150; i = repmat((0:n-1)', 1, n); j = i';
a = mod(3*i + 5*j, 7) - 3; b = mod(2*i + 7*j, 5) - 2; p = a*b; p(3,4) += 1; q = p'*a;
printf("%d %d\n", sum(sum(p.*i)), sum(sum(q.*j)));
END
    printf '2 146\n' >octave.plain
    through octave octave.plain "${copied[@]}" -- octave-cli --no-init-file --quiet a.m
    through octave.preload octave.plain "${kept[@]}" -- LD_PRELOAD=libblas.so.3 octave-cli --no-init-file --quiet a.m
    "$script" remove >/dev/null
    trap - EXIT
    if [ "$1" != private ]; then ldconfig; fi
    [ "$(chosen)" = "$before" ] || fail "libblas.so.3 was $before and is $(chosen)"
    [ ! -e /usr/local/lib/semcache ] && [ ! -e $system/libsemcache_blas.so ] || fail "the alternative left something behind"
    ./linked-blas | cmp - plain
    say "alternative: undone"
}
if unshare -m true 2>/dev/null; then
    export -f alternative through fail say sum machine simulated
    export ROOT LIBRARY system dir
    unshare -m bash -Eeuo pipefail -c "$(declare -p HARD HANG settings kept copied); alternative private"
else
    alternative shared
fi
