"""Every function of python/semcache.py, on integers: with and without the library the output is the same. With it (argument "with") the
answers are checked; without it they say ABSENT."""

import sys

import numpy as np
import semcache
from semcache import Status

WITH = "with" in sys.argv
N = 300


def answers(got, wanted=Status.OK):
    wanted = wanted if WITH else Status.ABSENT
    assert got == wanted, (got, wanted)


def holds(condition):
    assert condition or not WITH


def matrix(seed, order="C"):
    return np.array((np.arange(N * N) * 7 + seed) % 11 - 5, dtype=float).reshape(N, N, order=order)


a, b = matrix(1), matrix(2, "F")
sent = semcache.prefetch(a, 0)
answers(sent.wait())
answers(sent.wait())
answers(sent.test())
assert semcache.devices() > 0 if WITH else semcache.devices() == 0
nearly = a.nbytes - 2 * 4096
holds((semcache.residency(a, 0) or 0) >= nearly)
answers(semcache.prefetch(b).wait())
before = semcache.statistics()
c = a @ b
holds(semcache.statistics().get("offloaded") == before.get("offloaded", 0) + 1)
answers(semcache.coherent(c).wait())
answers(semcache.read_cpu(c))
faults = semcache.statistics().get("faults")
print("product", int(c.sum()), int((c * c).sum()))
holds(semcache.statistics().get("faults") == faults)
answers(semcache.write_cpu(a))
holds(semcache.residency(a) == 0)
a[3, 4] = 100
print("changed", int((a @ b).sum()))
answers(semcache.evict(b))
holds(semcache.residency(b) == 0 and semcache.residency(b, semcache.HOST) == b.nbytes)

# Views: parts, transposes, vectors, more dimensions, other elements, nothing.
for array in (a[10:200, 20:250], a.T, b[5:100, 7:9].T, a[:, 3], a[7], a[::2], b[:, ::3], a.reshape(10, 30, 300), np.zeros((N, 0)),
              a[:1, 5:50], a.astype(np.complex64), np.zeros((N, N), dtype=np.int16), np.zeros((N, N), dtype="S3")):
    answers(semcache.read_cpu(array))
    print(array.shape, semcache._view(array).rows, semcache._view(array).cols, semcache._view(array).ld)
for array in (a[::2, ::2], a[::-1]):
    try:
        semcache.evict(array)
        raise SystemExit("no error")
    except ValueError as error:
        print(error)
try:
    semcache.prefetch([1, 2, 3])
    raise SystemExit("no error")
except TypeError as error:
    print(error)
answers(semcache.prefetch(a, 1000).status, Status.INVALID)
answers(semcache.evict(a, -5), Status.INVALID)
print("again", int((a @ c).sum()))

# Orders, sections, device addresses.
D = semcache.Distribution
for of in (D.block_cyclic(64, 64), D.rows(), D.columns(), D.blocks(), D.owners(100, 50, lambda i, j: (i + j) % max(1, semcache.devices())),
           D.none()):
    answers(semcache.distribute(c, of).wait())
    np.matmul(a, b, out=c)
    print("distributed", int(c.sum()))
answers(semcache.distribute(c, D.block_cyclic(0, 1)).wait(), Status.INVALID)
answers(semcache.distribute(c, D.owners(9, 9, lambda i, j: -1)).status, Status.INVALID)
answers(semcache.distribute(c, D.owners(9, 9, lambda i, j: 1 // 0)).status, Status.INVALID)
with semcache.section():
    with semcache.range("two products"):
        d = a @ c
        np.matmul(d, b, out=c)
print("section", int(d.sum()), int(c.sum()))
with semcache.section(wait=False) as begun:
    np.matmul(a, b, out=d)
answers(begun.wait())
answers(begun.test())
print("section", int(d.sum()))
answers(semcache.pin(a, 0).wait())
print("pinned", int((a @ b).sum()))
answers(semcache.unpin(a))
answers(semcache.name(a, "a"))
answers(semcache.name(a, None))
with semcache.read_gpu(c) as there:
    holds(there and there.address and there.ld >= N)
with semcache.write_gpu(c) as there:
    if there and not there.context:
        np.ctypeslib.as_array(semcache.ctypes.cast(there.address, semcache.ctypes.POINTER(semcache.ctypes.c_double)), (N, there.ld))[:, :N] = 7
if not WITH:
    c[:] = 7
print("written", int(c.sum()), int((c @ b).sum()))
assert semcache.rates().get("dgemm_flops", 0) > 0 if WITH else semcache.rates() == {}
assert semcache.predict("dgemm", 500, 500, 500).get("host_s", 0) > 0 if WITH else semcache.predict("dgemm", 5, 5, 5) == {}
