"""X = L^-1 B, then C = A X, while the host does something else: first without hints, then in an asynchronous section.

    PYTHONPATH=python [semcache run --] python3 examples/library/trsm_gemm.py [N]

L(i, j) = r(i) / r(j) with r among 1, 2, 4, -1, -2, -4: its inverse has two diagonals, and all results are exact. They go to stdout, the
same with and without semcache; seconds and bytes go to stderr."""

import numpy as np
import semcache
from example import Blas, checksum, host_work, integers, metered, order, yes


def plain(l, b, a, c):
    """The host has something else to do after each call."""
    BLAS.trsm("LLNU", l, b)
    done = host_work(N)
    BLAS.gemm(1.0, a, b, 0.0, c)
    return done + host_work(N)


def hinted(l, b, a, c):
    # Hint: in the section calls return once they are queued; its end waits for them. Pays where a call would wait for its result (a small
    # one that the CPU reads each time, devices of unequal speed, a part for the host), and the host has something else to do.
    with semcache.section():
        BLAS.trsm("LLNU", l, b)
        # Hint: A is not needed before the second call. Pays, as the section does, if the host works meanwhile.
        semcache.prefetch(a)
        done = host_work(N)
        BLAS.gemm(1.0, a, b, 0.0, c)
        # Hint: C comes back as soon as it is complete, while the host works. Pays if the CPU reads it afterwards.
        semcache.coherent(c)
        done += host_work(N)
    # Hint: C can be read from here on without page faults. Pays if the CPU reads all of it.
    semcache.read_cpu(c)
    return done


N = order(4096)
BLAS = Blas()
i = np.arange(N)
r = np.array([1.0, -2.0, 4.0, -1.0, 2.0, 2.0, -4.0])[i % 7]
triangle = np.asfortranarray(np.where(i[:, None] < i[None, :], -7777.0, r[:, None] / r[None, :]))
# What X must be: of each column two neighbours.
given = integers(N, 3, 5, 7)
expected = given.copy()
expected[1:] -= (r[1:] / r[:-1])[:, None] * given[:-1]
FIRST = None
for name, run in (("plain", plain), ("hinted", hinted)):
    x, product = given.copy(order="F"), np.zeros((N, N), order="F")
    with metered(name):
        worked = run(triangle.copy(order="F"), x, integers(N, 2, 7, 5), product)
        total = checksum(product)
    wrong = np.count_nonzero(x != expected)
    print(f"RESULT trsm_gemm {name}: checksums {total:.2f} {checksum(x):.2f}, wrong elements of X: {wrong}, host work {worked:.6e}")
    FIRST = (x.copy(), product.copy()) if FIRST is None else FIRST
    print(f"RESULT trsm_gemm {name}: as the first: {yes((x == FIRST[0]).all() and (product == FIRST[1]).all())}")
