"""D = A B + A C, by two products, and by a sum and one product: each first without hints, then with them.

    PYTHONPATH=python [semcache run --] python3 examples/library/abac.py [N]

Small integers throughout: all results are exact. They go to stdout, the same with and without semcache; seconds and bytes go to stderr."""

import numpy as np
import semcache
from example import checksum, host_work, integers, metered, order, yes


def by_products(a, b, c):
    """The host has something else to do before the products, and before it adds."""
    done = host_work(N)
    d, e = a @ b, a @ c
    done += host_work(N)
    d += e
    return d, done


def by_products_hinted(a, b, c):
    # Hint: the inputs go to the devices while the host works, in the order in which they are needed. Pays if the host works before the
    # first product. Nobody has to wait for the events: the products do.
    for matrix in (a, b, c):
        semcache.prefetch(matrix)
    done = host_work(N)
    d, e = a @ b, a @ c
    # Hint: the results come back while the host works. Pays if the host works before it uses them.
    semcache.coherent(d)
    semcache.coherent(e)
    done += host_work(N)
    # Hints: D and E can be used from here on without page faults. Pays if the CPU reads, or changes, all of them.
    semcache.write_cpu(d)
    semcache.read_cpu(e)
    d += e
    return d, done


def by_a_sum(a, b, c):
    s = b + c
    d = a @ s
    done = host_work(N)
    return d, done


def by_a_sum_hinted(a, b, c):
    # Hint: A goes to the devices while the host adds.
    semcache.prefetch(a)
    s = b + c
    d = a @ s
    # Hints: as above.
    semcache.coherent(d)
    done = host_work(N)
    semcache.read_cpu(d)
    return d, done


N = order(4096)
V = np.arange(N) % 3 + 1.0
FIRST = None
for name, run in (("by products, plain", by_products), ("by products, hinted", by_products_hinted), ("by a sum, plain", by_a_sum),
                  ("by a sum, hinted", by_a_sum_hinted)):
    inputs = integers(N, 3, 5, 7), integers(N, 2, 7, 5), integers(N, 5, 1, 9)
    with metered(name):
        found, worked = run(*inputs)
        total = checksum(found)
    print(f"RESULT abac {name}: checksum {total:.0f}, host work {worked:.6e}")
    if FIRST is None:
        # With v = 1, 2, 3, 1, ... every element of D matters.
        expected = np.einsum("ij,j", inputs[0], np.einsum("ij,j", inputs[1] + inputs[2], V))
        print(f"RESULT abac: wrong rows: {np.count_nonzero(np.einsum('ij,j', found, V) != expected)}")
        FIRST = found.copy()
    print(f"RESULT abac {name}: as the first: {yes((found == FIRST).all())}")
