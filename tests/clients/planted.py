"""An element of an input is written between calls, and many small calls; or, with an argument, LAPACK hides its BLAS calls: the
report must name the lines."""

import sys

import numpy as np

N = 512
a, b = np.ones((N, N)), np.full((N, N), 2.0)
for k in range(30):
    c = a @ b  # product
    a[k, 5 * k] += 1
if len(sys.argv) > 1:
    s = 2 * np.eye(900)
    for _ in range(30):
        assert np.all(np.linalg.eigvalsh(s) == 2)  # solver
x = np.ones(40)
for _ in range(2000):
    x @ x  # small
