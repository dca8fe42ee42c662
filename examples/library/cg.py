"""Conjugate gradients for a dense symmetric positive definite system: first without hints, then with them.

    PYTHONPATH=python [semcache run --] python3 examples/library/cg.py [N]

The solution is a vector of small integers. Results go to stdout, the same with and without semcache; seconds and bytes go to stderr."""

import numpy as np
import semcache
from example import checksum, metered, order, yes

STEPS = 40


def iterate(a, b):
    x, r, p = np.zeros(N), b.copy(), b.copy()
    rho = r @ r
    goal = 1e-24 * rho
    for _ in range(STEPS):
        if rho <= goal:
            break
        q = a @ p
        alpha = rho / (p @ q)
        x += alpha * p
        r -= alpha * q
        rho, before = r @ r, rho
        p = r + rho / before * p
    return x


def plain(a):
    b = np.einsum("ij,j", a, WANTED)
    return iterate(a, b)


def hinted(a):
    # Hint: A goes to the devices while the host makes b. Pays if the host has something to do before the first product.
    semcache.prefetch(a)
    # Hints: messages and traces have these names, and the range.
    semcache.name(a, "A")
    b = np.einsum("ij,j", a, WANTED)
    with semcache.range("conjugate gradients"):
        return iterate(a, b)


N = order(8192)
WANTED = np.arange(N) % 5 + 1.0
i = np.arange(N)
matrix = (i[:, None] + i[None, :]) % 5 - 2.0
matrix[i, i] = 3.0 * N + i % 11 * N / 8
solutions = []
for name, solve in (("plain", plain), ("hinted", hinted)):
    system = matrix.copy()
    with metered(name):
        found = solve(system)
    solutions.append(found)
    print(f"RESULT cg {name}: checksum {checksum(found):.6f}, error below 1e-9: {yes(np.abs(found - WANTED).max() < 1e-9)}")
# Devices may add in another order.
print(f"RESULT cg: hinted and plain agree within 1e-9: {yes(np.abs(solutions[0] - solutions[1]).max() < 1e-9)}")
