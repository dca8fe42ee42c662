"""Jacobi's method for a dense system, one product per step: first without hints, then with them.

    PYTHONPATH=python [semcache run --] python3 examples/library/jacobi.py [N]

Solves (R + d I) x = b, made so that the solution is a vector of small integers. Results go to stdout, the same with and without semcache;
seconds and bytes go to stderr."""

import numpy as np
import semcache
from example import checksum, metered, order, yes

STEPS = 60


def plain(r, d):
    b = d * WANTED + np.einsum("ij,j", r, WANTED)
    x = np.zeros(N)
    for _ in range(STEPS):
        y = r @ x
        x = (b - y) / d
    return x


def hinted(r, d):
    # Hint: R goes to the devices while the host makes b, and stays. Pays if the host has something to do before the first step; and if
    # other matrices would push R out between the steps.
    semcache.pin(r)
    b = d * WANTED + np.einsum("ij,j", r, WANTED)
    x = np.zeros(N)
    # Hint: traces have this range.
    with semcache.range("Jacobi"):
        for _ in range(STEPS):
            y = r @ x
            # Hint: all of y comes back at once. Pays if y takes several page faults otherwise, of up to 2 MiB each; results that are
            # smaller than SEMCACHE_OWN come back with the call.
            semcache.read_cpu(y)
            x = (b - y) / d
    # Hint: R may leave the devices.
    semcache.unpin(r)
    return x


N = order(8192)
WANTED = np.arange(N) % 7 + 1.0
i = np.arange(N)
matrix = (7.0 * i[:, None] + 3 * i[None, :]) % 5 - 2
matrix[i, i] = 0
solutions = []
for name, solve in (("plain", plain), ("hinted", hinted)):
    system = matrix.copy()
    with metered(name):
        found = solve(system, 4.0 * N)
    solutions.append(found)
    print(f"RESULT jacobi {name}: checksum {checksum(found):.6f}, error below 1e-9: {yes(np.abs(found - WANTED).max() < 1e-9)}")
# Devices may add in another order.
print(f"RESULT jacobi: hinted and plain agree within 1e-12: {yes(np.abs(solutions[0] - solutions[1]).max() < 1e-12)}")
