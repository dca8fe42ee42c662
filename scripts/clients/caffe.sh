#!/bin/bash
# tests/clients/caffe.c, a legacy client: Caffe's calls for convolutions and inner products, forward and backward, in
# the shapes of LeNet, CIFAR-10, AlexNet's groups, and of the network 3072-16384-16384-10 made smaller. All results are
# exact.
#
#   caffe.sh [--quick]     --quick: two settings instead of six, smaller batches and a smaller network
set -euo pipefail
. "$(dirname "$0")/../setting.sh"
settings=("1 seed=1" "2 seed=2" "1 late,seed=3" "2 late,seed=4" "1 poison,seed=5" "2 poison,seed=6")
shapes=("lenet 32" "cifar 32" "groups 4" "mlp 16 128" "mlp 13 37")
if [ "${1:-}" = --quick ]; then
    settings=("1 seed=1" "2 late,seed=2") shapes=("lenet 8" "cifar 4" "groups 2" "mlp 24 64")
fi
build
dir=$(fresh caffe)
obtain "$dir/caffe" gcc -O2 -g -Wall -Wextra -o "$dir/caffe" "$ROOT/tests/clients/caffe.c" -lblas -lm
clients_built
export OPENBLAS_NUM_THREADS=1
cd "$dir"
for shape in "${shapes[@]}"; do
    read -r -a words <<<"$shape"
    name=${shape// /-}
    ./caffe "${words[@]}" >"$name.plain" || fail "$shape: plain run"
    for setting in "${settings[@]}"; do
        read -r devices sim <<<"$setting"
        simulated || sim=''
        preloaded "$dir/reports/$name" "${HARD[@]}" "SEMCACHE_DEVICES=$(machine "$devices")" "SEMCACHE_SIM=$sim" -- \
            "${WITHIN[@]}" ./caffe "${words[@]}" >"$name.out" 2>"$name.stderr" ||
            { cat "$name.stderr"; fail "$shape under $setting: status $?"; }
        cmp -s "$name.plain" "$name.out" || { diff "$name.plain" "$name.out" || true; fail "$shape under $setting"; }
    done
    say "caffe $shape: $(wc -l <"$name.plain") sums as plain"
    sum "$dir/reports/$name" calls.sgemm.offloaded calls.sgemv.offloaded cache.closes faults
done
