"""semcache.csr, on integers: its products are compared with SciPy's while the program changes the matrix in between. With and without the
library (argument "with") the output is the same."""

import gc
import sys
import types
import warnings

import numpy as np
import scipy.sparse as sp
import semcache
from scipy.sparse.linalg import LinearOperator, aslinearoperator, bicgstab, cg, lsqr

warnings.simplefilter("ignore", sp.SparseEfficiencyWarning)
WITH = "with" in sys.argv
TYPES = (np.float32, np.float64, np.complex64, np.complex128)
drawn = np.random.default_rng(1)


def integers(shape, dtype, most=4):
    found = drawn.integers(-most, most + 1, shape)
    if np.dtype(dtype).kind == "c":
        found = found + 1j * drawn.integers(-most, most + 1, shape)
    return found.astype(dtype)


def matrix(rows, cols, dtype, index=np.int32, of=sp.csr_array, each=8):
    """A matrix whose rows have about this many entries, some of them twice, and none in some rows."""
    counts = drawn.integers(0, 2 * each + 1, rows)
    indptr = np.concatenate(([0], np.cumsum(counts)))
    found = of((integers(indptr[-1], dtype, 3), drawn.integers(0, cols, indptr[-1]), indptr), (rows, cols))
    # SciPy chooses the type of the indices itself.
    found.indptr, found.indices = found.indptr.astype(index), found.indices.astype(index)
    return found


def same(got, wanted, dtype=None):
    assert isinstance(got, np.ndarray) and got.dtype == (dtype or wanted.dtype), (got.dtype, wanted.dtype)
    assert got.shape == wanted.shape and (got == wanted).all(), (got.shape, wanted.shape)


def refused(kind, what, *arguments, **named):
    try:
        what(*arguments, **named)
    except kind as error:
        return str(error)
    raise SystemExit(f"no {kind.__name__}")


def layouts(rows, dtype):
    """Vectors and matrices of integers in all the ways in which they lie in memory."""
    yield integers(rows, dtype)
    yield integers(2 * rows, dtype)[::2]
    yield integers(rows, dtype)[::-1]
    yield integers((rows, 1), dtype)
    yield integers((rows, 3), dtype)
    yield np.asfortranarray(integers((rows, 3), dtype))
    yield np.asfortranarray(integers((rows + 5, 6), dtype))[2:-3, ::2]
    yield np.broadcast_to(integers((rows, 1), dtype), (rows, 3))
    yield integers((rows, 0), dtype)
    yield np.frombuffer(b"1" + integers(rows, dtype).tobytes(), dtype, offset=1)
    yield integers(rows, dtype).astype(np.dtype(dtype).newbyteorder())


def into_all(linked, plain, x, dtype):
    """Products that are written to arrays of the program, and added to them."""
    y = plain @ x
    empty = np.full((y.shape[0] + 4, *(2 * n for n in y.shape[1:])), 7, dtype)
    for whole in (empty, np.asfortranarray(empty)):
        for out in (np.full_like(y, 7), whole[1:-3] if y.ndim == 1 else whole[1:-3, ::2]):
            for alpha, beta in ((1, 0), (2, -1), (0, 3)):
                wanted = alpha * y + (beta * out if beta else 0)
                assert linked.multiply(x, out=out, alpha=alpha, beta=beta) is out
                same(out, wanted.astype(dtype))
    assert (empty[0] == 7).all() and (empty[-3:] == 7).all() and (empty.ndim == 1 or (empty[:, 1::2] == 7).all())


total = 0
for dtype in TYPES:
    for index in (np.int32, np.int64):
        a = matrix(1800, 2500, dtype, index, sp.csr_array if index == np.int32 else sp.csr_matrix)
        linked = semcache.csr(a)
        assert isinstance(linked, LinearOperator) and linked.shape == a.shape and linked.dtype == a.dtype
        assert aslinearoperator(linked) is linked and a.indices.dtype == index
        for found, plain in ((linked, a), (linked.T, a.T), (linked.H, a.conj().T), (linked.T.H, a.conj()), (linked.H.H, a)):
            assert found.shape == plain.shape and isinstance(found, LinearOperator)
            for x in layouts(plain.shape[1], dtype):
                same(found @ x, plain @ x, dtype)
            for x in (integers(plain.shape[1], dtype), integers((plain.shape[1], 3), dtype)):
                y = found.dot(x)
                total += int((y * (np.arange(len(y)) % 13).reshape(-1, *[1] * (y.ndim - 1))).sum().real)
                into_all(found, plain, x, dtype)
        x, z = integers(2500, dtype), integers((1800, 2), dtype)
        same(linked.matvec(x), a @ x)
        same(linked.matmat(x.reshape(-1, 1)), a @ x.reshape(-1, 1))
        same(linked.rmatvec(z[:, 0]), a.conj().T @ z[:, 0])
        same(linked.rmatmat(z), a.conj().T @ z)
        same(z.T @ linked, z.T @ a)
        same(linked.multiply(x, alpha=3), 3 * (a @ x))
        same((2 * linked + linked) @ x, 3 * (a @ x))
        same((linked.H @ linked) @ x, a.conj().T @ (a @ x))
        same(linked @ x.tolist(), a @ np.array(x.tolist()))
        # Other types than the matrix's: converted where its type can hold them, else SciPy's product.
        for other in (np.int8, np.int64, *TYPES):
            x = integers(2500, other)
            same(linked @ x, a @ x, np.result_type(dtype, other))
            if np.result_type(dtype, other) == dtype:
                same(linked.multiply(x, out=np.ones(1800, np.complex128), beta=1), (a @ x + 1).astype(np.complex128))
        # In and out are one array.
        a = matrix(900, 900, dtype, index)
        x = integers(900, dtype)
        wanted = a @ x
        same(semcache.csr(a).multiply(x, out=x), wanted)
print("products", total)

# What the program changes is in the next product.
a = matrix(3000, 3000, np.float64)
linked, transposed = semcache.csr(a), semcache.csr(a).T
x = integers(3000, float)
for turn in range(60):
    if turn % 8 == 0:
        a.data[drawn.integers(a.nnz)] = turn
    elif turn % 8 == 1:
        a.data *= -1
    elif turn % 8 == 2:
        a.indices[drawn.integers(a.nnz)] = drawn.integers(3000)
    elif turn % 8 == 3:
        row = 1 + np.flatnonzero(np.diff(a.indptr[1:]))[turn]
        a.indptr[row] += 1
    elif turn % 8 == 4:
        a.data = a.data + 1
    elif turn % 24 == 5:
        # By SciPy, with new arrays.
        a.sum_duplicates()
        a[5, 7] += 2
    elif turn % 8 == 6:
        x[drawn.integers(3000)] = turn
    a.data %= 5
    same(linked @ x, a @ x)
    same(transposed @ x, a.T @ x)
    total += int((linked @ x).sum())
print("changes", total)

# The operator keeps the arrays; of a product that is used by the next one nothing is looked at.
linked = semcache.csr(matrix(20000, 20000, float, each=2))
gc.collect()
x, y = integers(20000, float), np.empty(20000)
wanted = x.copy()
for _ in range(6):
    linked.multiply(x, out=y)
    x, y = y, x
if WITH:
    held = linked._matrix.indices  # pylint: disable=protected-access
    assert semcache.residency(held) > held.nbytes // 2 and semcache.residency(x) > x.nbytes // 2
for _ in range(6):
    wanted = linked._matrix @ wanted  # pylint: disable=protected-access
same(x, wanted)
print("iteration", int(x.sum()) % 1000003)

# Solvers.
n = 40
line = sp.diags([-1.0, 2.0, -1.0], [-1, 0, 1], shape=(n, n))
one = sp.eye(n)
a = sp.csr_array(sp.kron(line, one) + sp.kron(one, line) + sp.kron(one, one) * 0.5)
skew = sp.csr_array(a + sp.kron(one, sp.diags([-0.5, 0.5], [-1, 1], shape=(n, n))))
known = np.arange(n * n) % 7 - 3.0
for solver, system in ((cg, a), (bicgstab, skew)):
    for of in (system, semcache.csr(system), aslinearoperator(semcache.csr(system)), semcache.csr(sp.csr_array(system.T)).T):
        found, failed = solver(of, system @ known, rtol=1e-12)
        assert failed == 0 and np.abs(found - known).max() < 1e-8
assert np.abs(lsqr(semcache.csr(skew), skew @ known, atol=1e-12, btol=1e-12)[0] - known).max() < 1e-6
print("solvers")

# No rows, no columns, no entries.
for shape in ((0, 0), (0, 5), (5, 0), (5, 5)):
    a = sp.csr_array(shape)
    for found, plain in ((semcache.csr(a), a), (semcache.csr(a).H, a.T)):
        same(found @ np.ones(plain.shape[1]), plain @ np.ones(plain.shape[1]))
        same(found @ np.ones((plain.shape[1], 2)), plain @ np.ones((plain.shape[1], 2)))
        same(found.multiply(np.ones(plain.shape[1]), out=np.ones(plain.shape[0]), beta=2), np.full(plain.shape[0], 2.0))

# What is no such matrix, or no such vector.
a = matrix(500, 400, float)
linked = semcache.csr(a)
for wrong in (a.tocsc(), a.tocoo(), sp.bsr_array(a), a.toarray(), None, [[1.0]]):
    assert ".tocsr()" in refused(TypeError, semcache.csr, wrong)
print(refused(TypeError, semcache.csr, a.tocsc()))
print(refused(TypeError, semcache.csr, a.astype(int)))


def parts(**changed):
    return types.SimpleNamespace(**{"indptr": a.indptr, "indices": a.indices, "data": a.data, "shape": a.shape, **changed})


print(refused(TypeError, semcache.csr, parts(indptr=a.indptr.astype(np.int64))))
print(refused(TypeError, semcache.csr, parts(indptr=a.indptr.astype(np.int16), indices=a.indices.astype(np.int16))))
print(refused(TypeError, semcache.csr, parts(data=a.data.astype(">f8"))))
print(refused(TypeError, semcache.csr, parts(data=a.data.tolist())))
print(refused(ValueError, semcache.csr, parts(data=np.repeat(a.data, 2)[::2])))
print(refused(ValueError, semcache.csr, parts(shape=(400, 400))))
print(refused(ValueError, semcache.csr(parts(data=a.data[:-1])).multiply, np.ones(400)))
print(refused(ValueError, linked.multiply, np.ones(500)))
print(refused(ValueError, linked.T.multiply, np.ones(400)))
print(refused(ValueError, linked.multiply, np.ones((400, 1, 1))))
print(refused(ValueError, linked.multiply, np.ones(400), out=np.ones(400)))
print(refused(ValueError, linked.multiply, np.ones(400), out=np.broadcast_to(1.0, 500)))
print(refused(ValueError, linked.multiply, np.ones(400), beta=1))
print(refused(TypeError, linked.multiply, np.ones(400), alpha=1j))
refused(TypeError, linked.multiply, np.ones(400) * 1j, out=np.ones(500))
refused(TypeError, linked.matmat, a.T)
for what in (linked.dot, linked.matvec, linked.matmat, linked.rmatvec):
    refused(ValueError, what, np.ones(777))
if WITH:
    kept = a.indices[9]
    for column in (-1, 400, 2**31 - 1):
        a.indices[9] = column
        refused(ValueError, linked.dot, np.ones(400))
    a.indices[9] = kept
    refused(ValueError, linked.multiply, np.ones(400), out=a.data[:500])
same(linked @ np.ones(400), a @ np.ones(400))
shorter = a.copy()
linked = semcache.csr(shorter)
shorter.resize(400, 400)
print(refused(ValueError, linked.dot, np.ones(400)))

# Arrays without a matrix of SciPy around them, and a process without SciPy.
x = integers(400, float)
same(semcache.csr(parts()) @ x, a @ x)
same(semcache.csr(parts()).T @ np.ones(500), a.T @ np.ones(500))
semcache._operator.cache_clear()  # pylint: disable=protected-access
sys.modules["scipy.sparse.linalg"] = None
linked = semcache.csr(a)
assert not isinstance(linked, LinearOperator) and linked.shape == a.shape and linked.dtype == float
same(linked @ x, a @ x)
same(linked.matmat(np.stack((x, x), 1)), a @ np.stack((x, x), 1))
same(linked.H @ np.ones(500), a.T @ np.ones(500))
same(linked.rmatvec(np.ones(500)), linked.T.dot(np.ones(500)))
print("end")
