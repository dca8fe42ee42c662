#!/bin/bash
# Netlib's testers for levels 2 and 3, built from source so that each operand is allocated on the heap instead of lying
# on the stack; then run as by netlib.sh.
#
# The main program becomes a subroutine whose large arrays are arguments (their bounds are constants, so
# the declarations stand), and a driver allocates them.
#
#   netlib_alloc.sh [--quick]
set -euo pipefail
. "$(dirname "$0")/../setting.sh"
if [ -n "$PREBUILT" ]; then
    TESTERS=$PREBUILT/clients/netlib_alloc.testers SUITE=netlib_alloc exec "$ROOT/scripts/clients/netlib.sh" "$@"
fi
L=$CACHE/src/lapack
[ -d "$L/BLAS/TESTING" ] || fail "no source at $L: run scripts/setup.sh"
out=$(fresh netlib_alloc.testers)
cd "$out"
flags=(-O1 -w -std=legacy)
link=(-L"$REFERENCE" -lblas -Wl,--export-dynamic)

two="A,AA,ALF,AS,BET,X,XS,XX,Y,YS,YT,YY,Z"
three="AA,AB,ALF,AS,BB,BET,BS,C,CC,CS,CT,W"

# heap SOURCE LEVEL TYPE REAL: prints SOURCE with its main program turned into TESTER, and a driver.
heap() {
    local source=$1 level=$2 type=$3 real=$4 names name
    [ "$level" = 2 ] && names=$two || names=$three
    sed -E "0,/^      PROGRAM/s/^      PROGRAM.*/      SUBROUTINE TESTER($names,\n     \$ G)/" "$source"
    echo "      PROGRAM DRIVER"
    for name in ${names//,/ }; do echo "      $type, ALLOCATABLE :: $name(:)"; done
    echo "      $real, ALLOCATABLE :: G(:)"
    for name in ${names//,/ } G; do echo "      ALLOCATE($name(2*65*65))"; done
    echo "      CALL TESTER($names,"
    echo "     \$ G)"
    echo "      END"
}

for p in s d c z; do
    case $p in
    s) type=REAL real=REAL ;;
    d) type="DOUBLE PRECISION" real="DOUBLE PRECISION" ;;
    c) type=COMPLEX real=REAL ;;
    z) type="COMPLEX*16" real="DOUBLE PRECISION" ;;
    esac
    for l in 2 3; do
        heap "$L/BLAS/TESTING/${p}blat$l.f" $l "$type" "$real" >"${p}blat$l.f"
        gfortran "${flags[@]}" -o "xblat$l$p" "${p}blat$l.f" "${link[@]}"
        heap "$L/CBLAS/testing/c_${p}blat$l.f" $l "$type" "$real" >"c_${p}blat$l.f"
        for c in "c_${p}blas$l" "c_${p}${l}chke" auxiliary c_xerbla; do
            gcc -O1 -w -fPIC -DADD_ -I"$L/CBLAS/include" -c "$L/CBLAS/testing/$c.c" -o "$c.o"
        done
        gfortran "${flags[@]}" -o "x${p}cblat$l" "c_${p}blat$l.f" "c_${p}blas$l.o" "c_${p}${l}chke.o" \
            auxiliary.o c_xerbla.o "${link[@]}"
    done
done
clients_built
TESTERS=$out SUITE=netlib_alloc "$ROOT/scripts/clients/netlib.sh" "$@"
