#!/bin/bash
# Tests every way in which a program can get its BLAS, with one computation for all of them: linked with the library,
# Debian's alternative for libblas.so.3 (installed and removed), a FlexiBLAS backend, MATLAB's BLAS_VERSION, Julia's
# lbt_forward. The last three are small stand-ins in tests/clients, since Debian does not have them.
#
# A program does not allocate its memory by a library that it opens with dlopen. So without the preload the library
# copies operands to the device and results back at each call. Both ways are run; only with the preload must pages
# become inaccessible and fault.
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
# door NAME FLAGS...: compiles a client.
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

# The number of simulated devices, and the mode of the simulator.
settings=("2 seed=1")
[ -n "$quick" ] || settings+=("1 late,seed=2" "2 poison,seed=3" "2 late,seed=4")

# through NAME EXPECTED ASSERTION... -- VAR=VALUE... PROGRAM ARGS...: in every setting the program prints the contents
# of EXPECTED.
through() {
    local name=$1 expected=$2 assertions=() devices sim status
    shift 2
    while [ "$1" != -- ]; do assertions+=("$1") && shift; done
    shift
    mkdir -p "reports/$name"
    for setting in "${settings[@]}"; do
        read -r devices sim <<<"$setting"
        status=0
        # A call that the host BLAS passes back to the library would never end.
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

# 64-bit integers under names that do not say so: the host BLAS is probed for their width.
BLAS_VERSION=$openblas64 ./matlab >plain.64
grep -q '^width *64' plain.64 || fail "this host BLAS has no 64-bit integers"
through matlab plain.64 "${copied[@]}" -- "BLAS_VERSION=$LIBRARY" "SEMCACHE_HOST_BLAS=$openblas64" ./matlab
through matlab.preload plain.64 "${kept[@]}" -- "LD_PRELOAD=$LIBRARY" "BLAS_VERSION=$LIBRARY" "SEMCACHE_HOST_BLAS=$openblas64" ./matlab

# The library as FlexiBLAS's backend; and preloaded in front of FlexiBLAS, which is the host BLAS then.
FLEXIBLAS=$openblas ./linked-flexiblas | cmp - plain
through flexiblas plain "${copied[@]}" -- "FLEXIBLAS=$LIBRARY" "SEMCACHE_HOST_BLAS=$openblas" ./linked-flexiblas
through flexiblas.preload plain "${kept[@]}" -- "LD_PRELOAD=$LIBRARY" "FLEXIBLAS=$openblas" ./linked-flexiblas

# Julia: code without imported symbols that looks the addresses up; and a library that is linked with libblastrampoline.
export LBT_DEFAULT_LIBS=$openblas64
./julia | cmp - plain.64
./linked-trampoline | cmp - plain.64
through julia plain.64 "${copied[@]}" -- "SEMCACHE_HOST_BLAS=$openblas64" ./julia "$LIBRARY"
through julia.preload plain.64 "${kept[@]}" -- "LD_PRELOAD=$LIBRARY" "SEMCACHE_HOST_BLAS=$openblas64" ./julia "$LIBRARY"
grep -q "64 bits, suffix '64_'" julia.preload.stderr || fail "lbt_forward: $(cat julia.preload.stderr)"
through trampoline.preload plain.64 "${kept[@]}" -- "LD_PRELOAD=$LIBRARY" ./linked-trampoline
unset LBT_DEFAULT_LIBS

# Debian's alternative, in a mount namespace of its own where one can be made, so that other programs on this machine
# keep their BLAS. The alternative is removed again in every case, also after a failure.
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
    # ldconfig, which the next installation of a package will run: it must not make links of its own.
    if [ "$1" != private ]; then ldconfig; fi
    [ "$(chosen)" = /usr/local/lib/semcache/libblas.so.3 ] || fail "libblas.so.3 is $(chosen)"
    through alternative plain "${kept[@]}" -- ./linked-blas
    # Octave is bound to libc's malloc, which precedes libblas in load order, unless the library is preloaded.
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
    export ROOT LIBRARY COMMAND system dir
    unshare -m bash -Eeuo pipefail -c "$(declare -p HARD HANG settings kept copied); alternative private"
else
    alternative shared
fi
