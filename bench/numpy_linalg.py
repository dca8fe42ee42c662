"""NumPy's linalg on square matrices: the least seconds of several calls.

    numpy_linalg.py FUNCTION[,FUNCTION...] ORDER...    a line for each order; functions: cholesky, inv, solve (one right side)
"""

import sys
import time

import numpy as np

names = sys.argv[1].split(",")
for order in map(int, sys.argv[2:]):
    a = np.random.default_rng(1).integers(-3, 4, (order, order)).astype(float)
    a += a.T + np.eye(order) * 8 * order
    least = []
    for name in names:
        arguments = (a, a[:, 0]) if name == "solve" else (a,)
        times = []
        for _ in range(5):
            begun = time.perf_counter()
            getattr(np.linalg, name)(*arguments)
            times.append(time.perf_counter() - begun)
        least.append(min(times))
    print(order, *(f"{name} {seconds:.4f}" for name, seconds in zip(names, least)), flush=True)
