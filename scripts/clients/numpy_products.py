"""Matrix products in the four BLAS types, checked exactly: small integers, so that no sum rounds."""

import numpy as np

M, K, N = 301, 407, 253


def integers(shape, dtype, seed):
    rng = np.random.default_rng(seed)
    a = rng.integers(-4, 5, shape).astype(dtype)
    if np.issubdtype(dtype, np.complexfloating):
        a += 1j * rng.integers(-4, 5, shape).astype(a.real.dtype)
    return a


def exact(a):
    """The same numbers in a type whose products never touch the BLAS."""
    parts = [np.asarray(a.real, dtype=np.int64), np.asarray(a.imag, dtype=np.int64)]
    return parts


def product(a, b):
    (ar, ai), (br, bi) = exact(a), exact(b)
    return ar @ br - ai @ bi, ar @ bi + ai @ br


def check(what, dtype, got, want):
    assert got.dtype == dtype, (what, got.dtype)
    real, imag = want
    assert np.array_equal(got.real, real) and np.array_equal(got.imag, imag), f"{what} in {dtype.__name__}"


for dtype in (np.float32, np.float64, np.complex64, np.complex128):
    a, b, v = integers((M, K), dtype, 1), integers((K, N), dtype, 2), integers(K, dtype, 3)
    ab, av = product(a, b), product(a, v)
    for repeat in range(3):
        check("a @ b", dtype, a @ b, ab)
        check("a @ v", dtype, a @ v, av)
    # Transposed and strided operands, a result that is read, changed in place and used again.
    check("b.T @ a.T", dtype, b.T @ a.T, (ab[0].T, ab[1].T))
    check("a[::2] @ b", dtype, a[::2] @ b, (ab[0][::2], ab[1][::2]))
    c = a @ b
    c[5, 7] += 1
    c[:, 0] = 2
    want = product(c, b.T)
    check("changed result", dtype, c @ b.T, want)
    a *= 2
    check("changed input", dtype, a @ b, (2 * ab[0], 2 * ab[1]))
    out = np.full((M, N), 7, dtype)
    np.matmul(a, b, out=out)
    check("out=", dtype, out, (2 * ab[0], 2 * ab[1]))
    del a, c, out
print("numpy", np.__version__, "products right")
