"""SciPy's conjugate gradients on a Laplacian of 27 points, with products of several kinds.

    [PYTHONPATH=python] [semcache run --] python3 scipy_cg.py ROWS STEPS REPETITIONS [VARIANTS]

Prints a JSON line for each of VARIANTS (scipy,semcache,free): `step` the median of seconds per step, `seconds` all, `first` of the first
run. *scipy* has the matrix itself, *semcache* has semcache.csr(A) in its place, *free* gets the products of a run before: what the loop
takes besides them. The solution after STEPS steps is compared with *scipy*'s.
"""

import json
import statistics
import sys
import time

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

ROWS, STEPS, REPETITIONS = map(int, sys.argv[1:4])
VARIANTS = (sys.argv[4] if len(sys.argv) > 4 else "scipy,semcache,free").split(",")


def laplacian(rows):
    """The matrix of bench/csr.h: 26 on the diagonal and -1 beside it, on a cube of at most `rows` points."""
    k = round(rows ** (1 / 3))
    k -= k**3 > rows
    beside = sparse.diags([np.ones(k - 1), np.ones(k), np.ones(k - 1)], [-1, 0, 1])
    a = 27 * sparse.identity(k**3) - sparse.kron(sparse.kron(beside, beside), beside)
    a = sparse.csr_matrix(a)
    a.sort_indices()
    return a


class Recorded:
    """Products that are kept, and given again for nothing in the same order."""

    def __init__(self, a):
        self.a, self.kept, self.turn = a, [], 0

    def record(self, x):
        self.kept.append(self.a @ x)
        return self.kept[-1]

    def replay(self, _):
        self.turn += 1
        return self.kept[(self.turn - 1) % len(self.kept)]


def solve(a, b):
    """STEPS steps: no residual is small enough."""
    try:
        return linalg.cg(a, b, rtol=0, atol=0, maxiter=STEPS)[0]
    except TypeError:  # before SciPy 1.12
        return linalg.cg(a, b, tol=0, atol=0, maxiter=STEPS)[0]


def operator(shape, product):
    return linalg.LinearOperator(shape, matvec=product, dtype=float)


def main():
    a = laplacian(ROWS)
    b = a @ (np.arange(a.shape[0]) % 5 - 2.0)
    wanted = solve(a, b)
    for variant in VARIANTS:
        recorded = Recorded(a)
        if variant == "scipy":
            of = a
        elif variant == "semcache":
            import semcache  # pylint: disable=import-outside-toplevel

            of = semcache.csr(a)
        elif variant == "free":
            solve(operator(a.shape, recorded.record), b)
            of = operator(a.shape, recorded.replay)
        else:
            raise SystemExit(f"scipy_cg: no variant {variant!r}")
        seconds = []
        for _ in range(REPETITIONS + 1):
            recorded.turn = 0
            start = time.perf_counter()
            x = solve(of, b)
            x.sum()  # reading the result is part of it
            seconds.append((time.perf_counter() - start) / STEPS)
        apart = np.abs(x - wanted).max()
        if not apart < 1e-8:
            raise SystemExit(f"WRONG: {variant}: the solution is {apart} apart from SciPy's")
        print(json.dumps({"bench": "scipy_cg", "variant": variant, "rows": a.shape[0], "nnz": a.nnz, "steps": STEPS,
                          "step": statistics.median(seconds[1:]), "seconds": seconds[1:], "first": seconds[0]}), flush=True)


main()
