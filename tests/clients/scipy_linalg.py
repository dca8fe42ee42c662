"""scipy.linalg on whole numbers: what is exact is printed in full, the rest to eight digits."""

import numpy as np
import scipy.linalg as sl
import scipy.sparse.linalg as ssl

n = 160


def matrix(rows, columns, p, q, m):
    i = np.arange(rows)[:, None]
    j = np.arange(columns)[None, :]
    return ((p * i + q * j + i * j) % m - m // 2).astype(float)


def exact(name, x):
    x = np.asarray(x)
    parts = [x.real, x.imag] if np.iscomplexobj(x) else [x]
    weight = np.arange(x.size).reshape(x.shape) % 17
    print(name, *(f"{part.sum():.0f} {(part * weight).sum():.0f}" for part in parts))


def close(name, *values):
    # Nought comes out as any small number.
    print(name, *(f"{v + 0.0:.8g}" if abs(v) > 1e-9 else "0" for v in map(float, values)))


a, b = matrix(n, n, 3, 5, 7), matrix(n, n, 2, 7, 5)
unit = np.tril(matrix(n, n, 1, 2, 3), -1) + np.eye(n)
x = matrix(n, 40, 5, 3, 9)

for kind in "fdFD":
    gemm, = sl.get_blas_funcs(["gemm"], dtype=kind)
    exact("gemm " + kind, gemm(1, a.astype(kind), b.astype(kind), trans_b=1))
for name in ["symm", "syrk", "syr2k", "trmm", "trsm", "gemv", "ger"]:
    f, = sl.get_blas_funcs([name], dtype="d")
    arguments = {"symm": (1, a, b), "syrk": (2, a), "syr2k": (1, a, b), "trmm": (1, unit, b),
                 "trsm": (1, unit, unit @ x), "gemv": (1, a, x[:, 0].copy()), "ger": (1, x[:, 0].copy(), x[:, 1].copy())}
    more = {"trmm": {"lower": 1}, "trsm": {"lower": 1}}.get(name, {})
    exact(name, f(*arguments[name], **more))

# Products of unit triangles with small entries: every step of these is exact.
positive = unit @ unit.T
exact("cholesky", sl.cholesky(positive, lower=True))
exact("solve_triangular", sl.solve_triangular(unit, unit @ x, lower=True))
lu, pivots = sl.lu_factor(unit @ unit.T)
exact("lu_factor", lu)
exact("lu_solve", np.rint(sl.lu_solve((lu, pivots), positive @ x)))
exact("inv", sl.inv(unit) @ unit)

s = a + a.T + 900 * np.eye(n)
close("solve", np.abs(sl.solve(s, b)).sum())
close("cho_solve", np.abs(sl.cho_solve(sl.cho_factor(s), b)).sum())
close("svdvals", *sl.svdvals(a[:90, :60] + np.eye(90, 60) * 40)[:3])
close("eigvalsh", *sl.eigvalsh(s)[-3:])
q, r = sl.qr(s)
close("qr", np.abs(np.diag(r)).sum(), np.abs(q @ r - s).max() < 1e-9)
close("expm", np.abs(sl.expm(a / 400)).sum())
close("lstsq", np.abs(sl.lstsq(s[:, :50], b[:, :10])[0]).sum())
for solver in [ssl.cg, ssl.gmres, ssl.bicgstab]:
    y, info = solver(s, s @ np.arange(n))
    close(solver.__name__, info, np.abs(y - np.arange(n)).max() < 0.1)
