"""Sparse solvers: SciPy's conjugate gradients and BiCGSTAB, and a power iteration. First on SciPy's matrix, then on `semcache.csr` of it.

    PYTHONPATH=python [semcache run --] python3 examples/library/sparse_solvers.py [N]

The matrix has a row for each point of a grid of N x N x N points, and in it 27 entries: -1 for each neighbour, 26 for the point. BiCGSTAB
gets one that is not symmetric. Solutions are vectors of small integers. Results go to stdout, the same with and without semcache; seconds
and bytes go to stderr. SciPy 1.12 or newer."""

from functools import partial

import numpy as np
import scipy.sparse as sp
import semcache
from example import checksum, metered, order, yes
from scipy.sparse.linalg import bicgstab, cg

STEPS = 60


def grid(n, drift):
    """The matrix; with a drift neighbours before a point count more than those behind it."""
    near = sp.diags([1.0, 1.0, 1.0], [-1, 0, 1], shape=(n, n))
    along = sp.diags([1.0 + drift, 1.0, 1.0 - drift], [-1, 0, 1], shape=(n, n))
    return sp.csr_array(27 * sp.eye(n**3) - sp.kron(near, sp.kron(near, along)))


def solve(of, a):
    found, failed = of(a, B, rtol=1e-12, maxiter=1000)
    assert failed == 0
    return found


def power_plain(a):
    x = B / np.linalg.norm(B)
    for _ in range(STEPS):
        y = a @ x
        length = np.linalg.norm(y)
        x = y / length
    return x * length


def power_linked(a):
    x, y = B.copy(), np.empty(len(B))
    length = np.linalg.norm(x)
    for _ in range(STEPS):
        # The product is divided by the length on the way, so that no loop of the host touches x and y: they stay on the devices.
        a.multiply(x, out=y, alpha=1 / length)
        x, y = y, x
        length = np.linalg.norm(x)
    return x


def compare(name, plain, linked):
    found = []
    # All that a program changes to have its products on devices: semcache.csr.
    for way, run, a in (("plain", plain, matrix), ("linked", linked, semcache.csr(matrix))):
        with metered(f"{name} {way}"):
            found.append(run(a))
        error = "" if name == "power" else f", error below 1e-7: {yes(np.abs(found[-1] - WANTED).max() < 1e-7)}"
        print(f"RESULT sparse {name} {way}: checksum {checksum(found[-1]):.3f}{error}")
    # Devices may add in another order.
    print(f"RESULT sparse {name}: linked and plain agree within 1e-7: {yes(np.abs(found[0] - found[1]).max() < 1e-7)}")


N = order(80)
WANTED = np.arange(N**3) % 5 + 1.0
for named, solver, drift in (("cg", cg, 0), ("bicgstab", bicgstab, 0.25)):
    matrix = grid(N, drift)
    B = matrix @ WANTED
    # SciPy's solvers add vectors by NumPy, on the host: these come and go in each step, and the matrix stays on the devices.
    compare(named, partial(solve, solver), partial(solve, solver))
# Of the symmetric matrix: the length of A x comes close to the largest eigenvalue.
matrix = grid(N, 0)
B = matrix @ WANTED
compare("power", power_plain, power_linked)
