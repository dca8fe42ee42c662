"""LU factors of a matrix by blocks, without pivots: first without hints, then with a block-cyclic distribution, then with a distribution of
the program's own.

    PYTHONPATH=python [semcache run --] python3 examples/library/lu.py [N]

A(i, j) = r(i) min(i, j) c(j), counted from one, with r and c among 1, 2, 4, -1, -2, -4. Its factors are known, L(i, j) = r(i) / r(j) and
U(i, j) = r(i) c(j), and all numbers on the way to them exact. Results go to stdout, the same with and without semcache; seconds and bytes
go to stderr."""

import numpy as np
import semcache
from example import Blas, checksum, metered, order, yes


def factor(block):
    """The factors of a block on the diagonal, by the host."""
    for k in range(len(block)):
        block[k + 1:, k] /= block[k, k]
        block[k + 1:, k + 1:] -= np.multiply.outer(block[k + 1:, k], block[k, k + 1:])


def update(a, k, to):
    """The row of blocks, the column of blocks, and the rest of the matrix."""
    diagonal, right, below = a[k:to, k:to], a[k:to, to:], a[to:, k:to]
    BLAS.trsm("LLNU", diagonal, right)
    BLAS.trsm("RUNN", diagonal, below)
    BLAS.gemm(-1.0, below, right, 1.0, a[to:, to:])


def plain(a):
    for k in range(0, N, BLOCK):
        to = min(N, k + BLOCK)
        factor(a[k:to, k:to])
        update(a, k, to)


def hinted(a, distribution):
    # Hint: messages and traces have this name, and the range below.
    semcache.name(a, "A")
    # Hint: blocks go to the devices that compute them from now on. Pays with several devices: a block stays where it is, and only what
    # other devices need of the new row and column is copied between them.
    semcache.distribute(a, distribution).wait()
    for k in range(0, N, BLOCK):
        to = min(N, k + BLOCK)
        with semcache.range("block on the diagonal"):
            # Hint: the host changes this block. Pays since its columns lie in many pages: one wait instead of a fault for each.
            semcache.write_cpu(a[k:to, k:to])
            factor(a[k:to, k:to])
        update(a, k, to)
    # Hint: the factors come back at once. Pays if the CPU reads all of them.
    semcache.read_cpu(a)


def block_cyclic(a):
    hinted(a, semcache.Distribution.block_cyclic(BLOCK, BLOCK))


def own_distribution(a):
    """Diagonals of blocks are dealt to the devices, there and back (0 1 1 0 0 1 ...): every row and column of blocks is spread over all."""
    devices = max(1, semcache.devices())

    def owner(i, j):
        turn = (i + j) % (2 * devices)
        return min(turn, 2 * devices - 1 - turn)

    hinted(a, semcache.Distribution.owners(BLOCK, BLOCK, owner))


N = order(8192)
BLOCK = min(256, max(32, N // 8))
BLAS = Blas()
VALUES = np.array([1.0, -2.0, 4.0, -1.0, 2.0, 2.0, -4.0])
i = np.arange(N)
r, c = VALUES[i % 7], VALUES[i % 5]
KNOWN = np.where(i[:, None] > i[None, :], r[:, None] / r[None, :], r[:, None] * c[None, :])
FIRST = None
for name, run in (("plain", plain), ("block-cyclic", block_cyclic), ("own distribution", own_distribution)):
    matrix = np.asfortranarray(r[:, None] * (np.minimum(i[:, None], i[None, :]) + 1) * c[None, :])
    with metered(name):
        run(matrix)
        total = checksum(matrix)
    print(f"RESULT lu {name}: checksum {total:.2f}, wrong elements: {np.count_nonzero(matrix != KNOWN)}")
    FIRST = matrix.copy() if FIRST is None else FIRST
    print(f"RESULT lu {name}: as the first: {yes((matrix == FIRST).all())}")
