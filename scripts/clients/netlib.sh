#!/bin/bash
# Netlib's BLAS testers, levels 1 to 3, Fortran and CBLAS, as Debian builds them (libblas-test), under the hard setting;
# every PASS and FAIL line must be that of the plain run. Inputs: the stock ones, and larger ones whose matrices contain
# whole pages.
#
#   netlib.sh [--quick] [--ilp64]   --quick: one device, one precision with the larger inputs; otherwise one device and
#                                   three, these in all modes of the simulator, and two with 8 MiB of memory
#                                   --ilp64: the testers with 64-bit integers under unsuffixed names
#   TESTERS=DIR netlib.sh        testers from elsewhere (see netlib_alloc.sh)
set -euo pipefail
. "$(dirname "$0")/../setting.sh"
quick='' NAME=${SUITE:-netlib}
for option in "$@"; do
    case $option in
    --quick) quick=1 ;;
    --ilp64) REFERENCE=${REFERENCE}64 NAME=${NAME}64 ;;
    *) fail "unknown option $option" ;;
    esac
done
build
T=${TESTERS:-$REFERENCE}
dir=$(fresh "$NAME")
# The CBLAS testers need RowMajorStrg, which only the reference BLAS defines.
export LD_LIBRARY_PATH=$REFERENCE${PREBUILT:+:$PREBUILT/lib}
clients_built

# Name, devices, variable.
settings=("plain 1 SEMCACHE_SIM=")
if [ -z "$quick" ]; then
    [ "$(machine 1)" = "$(machine 3)" ] || settings+=("plain 3 SEMCACHE_SIM=")
    settings+=("small 2 SEMCACHE_MEMORY=8MiB")
    if simulated; then settings+=("late 3 SEMCACHE_SIM=late,seed=1" "poison 3 SEMCACHE_SIM=poison,seed=2"); fi
fi

mkdir -p "$dir/stock" "$dir/big"
for p in s d c z; do
    for l in 2 3; do
        for f in ${p}blat$l.in ${p}in$l; do
            cp "$REFERENCE/$f" "$dir/stock/$f"
            sed -E 's/^[0-9]+( +NUMBER OF VALUES OF N\b)/4\1/; s/^[0-9 ]*[0-9]( +VALUES OF N\b)/0 31 64 65\1/' \
                "$REFERENCE/$f" >"$dir/big/$f"
        done
    done
done

# one OUT INPUTS PRECISIONS PREFIX...: runs all testers of these precisions in the directory OUT, each by the command
# PREFIX. The status of every program is recorded, too.
one() {
    local out=$1 inputs=$2 precisions=$3
    shift 3
    mkdir -p "$out"
    cd "$out"
    local p l
    for p in $precisions; do
        if [ "$inputs" = "$dir/stock" ]; then
            [ -e "$T/xblat1$p" ] && { "$@" "$T/xblat1$p" >"${p}blat1.log" 2>&1 || echo "status $?" >>"${p}blat1.log"; }
            [ -e "$T/x${p}cblat1" ] && { "$@" "$T/x${p}cblat1" >"${p}cblat1.log" 2>&1 || echo "status $?" >>"${p}cblat1.log"; }
        fi
        for l in 2 3; do
            "$@" "$T/xblat$l$p" <"$inputs/${p}blat$l.in" >"${p}blat$l.log" 2>&1 || echo "status $?" >>"${p}blat$l.log"
            "$@" "$T/x${p}cblat$l" <"$inputs/${p}in$l" >"${p}cblat$l.log" 2>&1 || echo "status $?" >>"${p}cblat$l.log"
        done
    done
    cd "$dir"
}

# The lines of a run that are compared: verdicts and statuses, without the measured ratios.
verdicts() {
    (cd "$1" && grep -raE --include='*.log' --include='*.out' --include='*.SUMM' \
        'PASS|FAIL|\*\*\*\*\*\*\*|^status' . | sort)
}

under() { # under REPORTS DEVICES MODE, for use as a prefix
    local reports=$1 devices=$2 mode=$3
    shift 3
    preloaded "$reports" "${HARD[@]}" "SEMCACHE_DEVICES=$devices" "$mode" -- "$@"
}

all="s d c z"
for inputs in stock big; do
    precisions=$all
    [ -n "$quick" ] && [ $inputs = big ] && precisions=z
    one "$dir/$inputs.plain" "$dir/$inputs" "$precisions" env
    verdicts "$dir/$inputs.plain" >"$dir/$inputs.expected"
    passes=$(grep -c PASS "$dir/$inputs.expected")
    [ "$passes" -ge 40 ] || fail "$inputs: only $passes PASS lines in the plain run"
    for setting in "${settings[@]}"; do
        read -r mode devices variable <<<"$setting"
        devices=$(machine "$devices")
        run=$inputs.$devices.$mode
        reports=$dir/reports/$run
        SECONDS=0
        one "$dir/$run" "$dir/$inputs" "$precisions" under "$reports" "$devices" "$variable"
        verdicts "$dir/$run" >"$dir/$run.verdicts"
        diff "$dir/$inputs.expected" "$dir/$run.verdicts" || fail "$run: other verdicts than plain"
        say "$NAME $run: $passes PASS lines as plain, $SECONDS s"
        sum "$reports" offloaded
    done
done
say "$NAME: all runs"
routines=()
for p in s d; do for r in symv syr syr2 trmv trsv; do routines+=("calls.$p$r.offloaded"); done; done
for p in c z; do for r in hemv her her2 trmv trsv; do routines+=("calls.$p$r.offloaded"); done; done
[ -e "$T/xblat1d" ] && routines+=(calls.srot.offloaded calls.drot.offloaded calls.srotm.offloaded calls.drotm.offloaded)
sum "$dir/reports" "${routines[@]}" >/dev/null
sum "$dir/reports" offloaded cache.closes faults
