#!/bin/bash
# Netlib's testers, levels 1 to 3, under the other spellings of the BLAS: built from source with all names of the BLAS
# changed in the object files, and linked with a reference BLAS whose names are changed in the same way; then as netlib.sh.
#
#   netlib_suffixed.sh [--quick] [SPELLING...]     64_: dgemm_64_, cblas_dgemm64_ (OpenBLAS)
#                                                  _64: dgemm_64_, cblas_dgemm_64 (MKL, Netlib)
#                                                  scipy64_: scipy_dgemm_64_, scipy_cblas_dgemm64_ (NumPy's wheels)
#                                                  scipy: scipy_dgemm_, scipy_cblas_dgemm, 32 bits (SciPy's wheels)
#                                                  default: all; with --quick the first
set -euo pipefail
. "$(dirname "$0")/../setting.sh"
options=() spellings=(64_ _64 scipy64_ scipy)
if [ "${1:-}" = --quick ]; then
    options=(--quick) spellings=(64_)
    shift
fi
[ $# = 0 ] || spellings=("$@")
L=$CACHE/src/lapack
built=$TARGET/netlib_suffixed
if [ -n "$PREBUILT" ]; then
    built=$PREBUILT/clients/netlib_suffixed
else
    [ -d "$L/BLAS/TESTING" ] || fail "no source at $L: run scripts/setup.sh"
fi

# renamed SPELLING: prints pairs of names, old and new, for the symbols on stdin.
renamed() {
    local name prefix='' fortran c
    case $1 in
    64_) fortran=_64_ c=64_ ;;
    _64) fortran=_64_ c=_64 ;;
    scipy64_) prefix=scipy_ fortran=_64_ c=64_ ;;
    scipy) prefix=scipy_ fortran=_ c='' ;;
    *) fail "no spelling $1" ;;
    esac
    while read -r name; do
        case $name in
        cblas_*) echo "$name $prefix$name$c" ;;
        *) echo "$name $prefix${name%_}$fortran" ;;
        esac
    done
}

# testers SPELLING DIR: builds the testers.
testers() {
    local spelling=$1 out=$2 p l file fortran=(-O1 -w -std=legacy -fPIC) c=(-O1 -w -fPIC -DADD_ "-I$L/CBLAS/include")
    [ "$spelling" = scipy ] || fortran+=(-fdefault-integer-8) c+=(-DWeirdNEC)
    mkdir -p "$out/objects/blas"
    cd "$out/objects/blas"
    gfortran "${fortran[@]}" -c "$L"/BLAS/SRC/*.f "$L"/BLAS/SRC/*.f90 "$L"/CBLAS/src/*.f
    gcc "${c[@]}" -c "$L"/CBLAS/src/*.c
    cd ..
    nm blas/*.o | awk '$2 == "T" { print $3 }' | sort -u | renamed "$spelling" >names
    for file in blas/*.o; do objcopy --redefine-syms=names "$file"; done
    gfortran -shared -o ../libref.so blas/*.o -Wl,-soname,libref.so
    gcc "${c[@]}" -c "$L"/CBLAS/testing/{auxiliary,c_xerbla}.c
    for p in s d c z; do
        gcc "${c[@]}" -c "$L"/CBLAS/testing/c_${p}{blas{1,2,3},{2,3}chke}.c
        for l in 1 2 3; do
            gfortran "${fortran[@]}" -c "$L/BLAS/TESTING/${p}blat$l.f" "$L/CBLAS/testing/c_${p}blat$l.f"
        done
    done
    for file in ./*.o; do objcopy --redefine-syms=names "$file"; done
    for p in s d c z; do
        for l in 1 2 3; do
            file="c_${p}blat$l.o c_${p}blas$l.o"
            [ $l = 1 ] || file+=" c_${p}${l}chke.o auxiliary.o c_xerbla.o"
            gfortran -o "../xblat$l$p" "${p}blat$l.o" ../libref.so -Wl,-rpath,'$ORIGIN' -Wl,--export-dynamic
            # shellcheck disable=SC2086 # a list
            gfortran -o "../x${p}cblat$l" $file ../libref.so -Wl,-rpath,'$ORIGIN' -Wl,--export-dynamic
        done
    done
    touch ../built
}

for spelling in "${spellings[@]}"; do
    out=$built/$spelling
    # The testers depend on no file of semcache, so they are built once.
    [ -e "$out/built" ] || (testers "$spelling" "$out") || fail "building the testers for $spelling"
    [ -n "${BUILD_ONLY:-}" ] || TESTERS=$out SUITE=netlib.$spelling "$ROOT/scripts/clients/netlib.sh" "${options[@]}"
done
