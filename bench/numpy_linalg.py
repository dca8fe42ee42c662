"""NumPy's and SciPy's linalg: the least seconds of several calls.

    numpy_linalg.py FUNCTION[,FUNCTION...] ORDER...    a line for each order

Functions: cholesky, inv, solve (one right side), det, qr, lstsq (four times as many rows as columns) of NumPy on square matrices but for
lstsq; the same of SciPy with scipy. before the name. Calls are repeated five times, or for half a second if they take less.
"""

import importlib
import sys
import time

import numpy as np

np.seterr(over="ignore")  # of det
names = sys.argv[1].split(",")


def called(name):
    """The function, and its name without the package."""
    package, _, function = name.rpartition(".")
    module = importlib.import_module("scipy.linalg" if package else "numpy.linalg")
    return getattr(module, function), function


for order in map(int, sys.argv[2:]):
    a = np.random.default_rng(1).integers(-3, 4, (order, order)).astype(float)
    a += a.T + np.eye(order) * 8 * order
    tall = np.random.default_rng(2).integers(-3, 4, (order, max(1, order // 4))).astype(float)
    least = []
    for name in names:
        function, plain = called(name)
        arguments = {"solve": (a, a[:, 0]), "lstsq": (tall, a[:, 0])}.get(plain, (a,))
        times, begun = [], time.perf_counter()
        while len(times) < 5 or (time.perf_counter() - begun < 0.5 and len(times) < 200):
            at = time.perf_counter()
            function(*arguments)
            times.append(time.perf_counter() - at)
        least.append(min(times))
    print(order, *(f"{name} {seconds:.6f}" for name, seconds in zip(names, least)), flush=True)
