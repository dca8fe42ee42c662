#!/bin/bash
# LAPACK's own testers as Debian builds them (liblapack-test), on the reference LAPACK and BLAS: every line that they
# print is that of the plain run, except times. One precision in the hard setting, all of them in the default one. The
# two inputs that take longest are split into runs of their own, except with --time.
#
#   lapack.sh [--quick]             --quick: the hard setting only, without the testers that make most of the calls
#   lapack.sh --hard [P...]         the hard setting only, in the precisions P (of s d c z; default d): long
#   lapack.sh --default [P...]      the default setting only (default: all four)
#   lapack.sh --solvers [P...]      the linear equations whose solvers devices have, in the precisions P (default: all four), on one and
#                                   three devices: late and poison, every 10th launch refused
#   lapack.sh --losses [P...]       the same, a device lost at each 10th operation of the first 200 (default: d)
#   lapack.sh --time [PAIRS]        default setting and plain in turn, 5 times: user time at most 1.10 times the plain
#   PRECISION=z lapack.sh ...       another precision than d for the hard setting and the times
#   JOBS=N lapack.sh ...            N testers at once (not in --time)
set -euo pipefail
. "$(dirname "$0")/../setting.sh"
precision=${PRECISION:-d}
hard=$precision default="s d c z" quick='' pairs='' solvers='' losses=''
case ${1:-} in
--quick) quick=1 default='' ;;
--hard) default='' hard="${*:2}" hard=${hard:-$precision} ;;
--default) hard='' default="${*:2}" default=${default:-s d c z} ;;
--solvers) hard='' default='' solvers="${*:2}" solvers=${solvers:-s d c z} ;;
--losses) hard='' default='' losses="${*:2}" losses=${losses:-d} ;;
--time) pairs=${2:-5} ;;
'') ;;
*) fail "unknown option $1" ;;
esac
build
dir=$(fresh "lapack${1:+.${1#--}}")
clients_built
jobs=${JOBS:-1}
[ -z "$pairs" ] || jobs=1
T=${REFERENCE%/*}/lapack
[ -e "$T/xlintstd" ] || fail "no testers at $T: run scripts/setup.sh"
export LD_LIBRARY_PATH=$T:$REFERENCE${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
cd "$dir"

# cut PRECISION: splits the input of the linear equations by matrix path, and that of the singular values by block
# sizes, into files of this folder. Each run begins with the same random numbers.
cut() {
    awk -v name="$1test" '
        !/^[SDCZ][A-Z0-9][A-Z0-9]( |$)/ { head = head $0 "\n"; next }
        { file = name "." $1 ".in"; printf "%s%s\n", head, $0 >file; close(file) }' "$T/$1test.in"
    awk -v name="$1svd" '
        { line[NR] = $0 }
        END {
            split(line[5], count)
            for (set = 1; set <= count[1]; set++) {
                file = name "." set ".in"
                for (n = 1; n <= NR; n++) {
                    split(line[n], word)
                    print(n == 5 ? 1 : n >= 6 && n <= 9 ? word[set] : line[n]) >file
                }
                close(file)
            }
        }' "$T/svd.in"
}

# programs PRECISION: prints a line for each run: its name, the tester, its input.
programs() {
    local p=$1 input
    if [ -n "$solvers$losses" ]; then
        cut "$p"
        # Least squares are tested with each combination of sizes, block sizes and ranks: of the sizes and block sizes one or two.
        sed -i -e 2c1 -e 3c50 -e 4c2 -e '5c10 50' -e 6c1 -e 7c2 -e 8c1 -e 9c20 -e 10c1 "${p}test.${p^}LS.in"
        for input in "${p}test.${p^}"{GE,PO,TR,QR,LQ,LS,QP,SY}.in; do echo "${input%.in} xlintst$p $input"; done
        return
    fi
    if [ -n "$pairs" ]; then
        echo "${p}test xlintst$p $T/${p}test.in"
        echo "${p}svd xeigtst$p $T/svd.in"
    else
        cut "$p"
        for input in "${p}test".*.in; do echo "${input%.in} xlintst$p $input"; done
        for input in "${p}svd".*.in; do echo "${input%.in} xeigtst$p $input"; done
    fi
    for input in nep sep se2; do echo "$p$input xeigtst$p $T/$input.in"; done
    echo "${p}test_rfp xlintstrf$p $T/${p}test_rfp.in"
    [ "$p" != d ] || echo "dstest xlintstds $T/dstest.in"
    [ "$p" != z ] || echo "zctest xlintstzc $T/zctest.in"
    for input in glm gqr gsv csd lse; do echo "$p$input xeigtst$p $T/$input.in"; done
    for input in ec ed gg gd sb sg bb bal bak gbal gbak; do echo "$p$input xeigtst$p $T/$p$input.in"; done
}

# testers OUT PRECISION PREFIX...: runs every tester of a precision by the command PREFIX; output and status of each go
# to OUT.
testers() {
    local out=$1 p=$2 name tester file
    shift 2
    mkdir -p "$out"
    while read -r name tester file; do
        [ -z "$quick" ] || [[ $name != ?@(test.*|stest|nep|sep|se2|svd.*|ec|ed|sg|gd) ]] || continue
        while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done
        { "$@" "$T/$tester" <"$file" >"$out/$name" 2>&1 || echo "status $?" >>"$out/$name"; } &
    done < <(programs "$p")
    wait
}

# results OUT NAMES...: everything that the testers of these names printed, except times, and what the library says of refusals and lost
# devices.
results() {
    local said=$solvers$losses
    (cd "$1" && grep -a '' -- /dev/null "${@:2}" | grep -av "Total time used${said:+\|^[^:]*:semcache: }")
}

# ended OUT: removes what testers printed whose process ended with one line, as a device was lost that had the only copy of a result.
ended() {
    local file
    for file in "$1"/*; do
        if grep -aqx 'status 70' "$file" && grep -aq '^semcache: .*the only copy of the matrix' "$file"; then rm "$file"; fi
    done
}

if [ -n "$pairs" ]; then
    # timed NAME PREFIX...: adds the user seconds of all testers.
    timed() {
        local name=$1
        shift
        TIMEFORMAT=%U
        { time testers "$dir/timed" "$precision" "$@"; } 2>>"$name.seconds"
    }
    for ((i = 0; i < pairs; i++)); do
        timed plain env
        timed ours env "SEMCACHE_DEVICES=$(machine 1)" "LD_PRELOAD=$LIBRARY"
    done
    python3 - plain.seconds ours.seconds <<'END_OF_PYTHON'
import statistics, sys
plain, ours = ([float(line) for line in open(name)] for name in sys.argv[1:])
ratios = [b / a for a, b in zip(plain, ours)]
print("user seconds, plain and ours:", *(f"{a:.2f}/{b:.2f}" for a, b in zip(plain, ours)))
print(f"median of {len(ratios)} ratios: {statistics.median(ratios):.3f}")
sys.exit(statistics.median(ratios) > 1.10)
END_OF_PYTHON
    exit
fi

# as_plain NAME PRECISION VAR=VALUE...: with the library, all testers print what they print in a plain run.
as_plain() {
    local name=$1 p=$2 passes names
    shift 2
    [ -d "plain.$p" ] || testers "plain.$p" "$p" env
    ! grep -H '^status' "plain.$p"/* || fail "$p: plain run"
    SECONDS=0
    testers "$name.$p" "$p" preloaded "$dir/reports/$name.$p" "SEMCACHE_DEVICES=$(machine 2)" "$@" --
    [ -z "$losses" ] || ended "$name.$p"
    mapfile -t names < <(ls "$name.$p")
    [ ${#names[@]} -gt 0 ] || fail "$name, $p: all processes ended"
    results "plain.$p" "${names[@]}" >"plain.$p.expected"
    passes=$(grep -cE 'passed the (threshold|tests)' "plain.$p.expected") || fail "$p: nothing passes in the plain run"
    results "$name.$p" "${names[@]}" >"$name.$p.results"
    diff "plain.$p.expected" "$name.$p.results" >"$name.$p.diff" || { head -40 "$name.$p.diff"; fail "$name, $p: other results than plain"; }
    say "lapack $name $p: $passes lines of passes as plain, $SECONDS s"
}
for p in $default; do
    as_plain default "$p" SEMCACHE_OFFLOAD=auto
    sum "$dir/reports/default.$p"
done
for p in $hard; do
    as_plain hard "$p" "${HARD[@]}"
    sum "$dir/reports/hard.$p" offloaded cache.closes faults
done
# Refusals and losses of simulated devices: a driver of LAPACK takes 10 operations and more, so each of them meets some.
for p in $solvers; do
    for n in 1 3; do
        simulated || { as_plain "solvers$n" "$p" "${HARD[@]}" "SEMCACHE_DEVICES=$(machine $n)"; continue; }
        for sim in late,seed=$n poison,seed=$n fail=launches:10; do
            as_plain "solvers$n.$sim" "$p" "${HARD[@]}" "SEMCACHE_DEVICES=sim:$n" "SEMCACHE_SIM=$sim"
            sum "$dir/reports/solvers$n.$sim.$p" "calls.${p}getrf.offloaded" "calls.${p}potrf.offloaded" "calls.${p}geqrf.offloaded" cache.closes faults
        done
    done
done
for p in $losses; do
    for n in 1 3; do
        for ((at = 10; at <= 200; at += 10)); do
            rm -rf "lost$n.$p" "reports/lost$n.$p"
            as_plain "lost$n" "$p" "${HARD[@]}" "SEMCACHE_DEVICES=sim:$n" "SEMCACHE_SIM=fail=lost:$at"
        done
    done
done
