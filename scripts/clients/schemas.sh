#!/bin/bash
# What doctor, env, machine, predict and report print as JSON, and reports themselves, follow the schemas in docs/schema: no key is
# missing there, none is there that nothing prints, and altered documents are refused.
#
#   schemas.sh [--quick]     --quick: without a report of 300 processes
set -euo pipefail
. "$(dirname "$0")/../setting.sh"
quick=''
[ "${1:-}" = --quick ] && quick=1
"$ROOT/scripts/setup.sh" schemas
build
dir=$(fresh schemas)
obtain "$dir/counted" gcc -g -O1 -Wall -Wextra -o "$dir/counted" "$ROOT/tests/clients/counted.c" -lblas
obtain "$dir/planted" gcc -g -O1 -Wall -Wextra -o "$dir/planted" "$ROOT/tests/clients/planted.c" -llapack -lblas
clients_built
cd "$dir"

# A place is a line of Python, a fault is one of the library of C, a matrix has a name.
cat >places.py <<'P'
import ctypes
import os
import types

import semcache

N = 512
ctypes.CDLL("libblas.so.3", ctypes.RTLD_GLOBAL)
dgemm = ctypes.CDLL(None).dgemm_
a, b, c = ((ctypes.c_double * (N * N))() for _ in range(3))
array = {"shape": (N, N), "typestr": "<f8", "data": (ctypes.addressof(a), False)}
size, one = ctypes.byref(ctypes.c_int(N)), ctypes.byref(ctypes.c_double(1))
for _ in range(5):
    dgemm(b"N", b"N", size, size, size, one, a, size, b, size, one, c, size)
    semcache.name(types.SimpleNamespace(__array_interface__=array), "input")
ctypes.memmove(a, c, ctypes.sizeof(c))
os._exit(0)
P

# made REPORT VAR=VALUE... -- PROGRAM ARGS...: one run.
made() {
    local report=$1 variables=()
    shift
    while [ "$1" != -- ]; do variables+=("$1") && shift; done
    shift
    "${WITHIN[@]}" env "SEMCACHE_LIB=$LIBRARY" SEMCACHE_OFFLOAD=always OPENBLAS_NUM_THREADS=1 "SEMCACHE_DEVICES=$(machine 2)" \
        "${variables[@]}" "$COMMAND" run --report "$report" -- "$@" >out 2>err || fail "$*: $(cat err)"
}
made faults.json -- ./planted input
made none.json -- true
made fork.json -- ./counted 5 fork 7 _exit
made first.json -- ./counted 5
made second.json -- ./counted 7
made places.json SEMCACHE_SITES=python "PYTHONPATH=$ROOT/python" PYTHONDONTWRITEBYTECODE=1 -- /usr/bin/python3 places.py
made rank.json SEMCACHE_DEVICES=sim:2 SEMCACHE_SIM=virtual OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2 -- ./counted 5
made never.json SEMCACHE_OFFLOAD=never -- ./counted 5
# More processes than have entries of their own.
[ -n "$quick" ] || made shares.json SEMCACHE_OFFLOAD=never -- bash -c 'seq 300 | xargs -P 4 -n 1 sh -c "./counted 1"'
"$COMMAND" report faults.json --assert faults --assert offloaded --assert cache.closes
say "reports of several programs"

"$CACHE/schemas/bin/python" "$ROOT/scripts/clients/schemas.py" "$COMMAND" "$ROOT/docs/schema" "$dir" || fail "schemas"
say "what commands print follows the schemas"
