"""An element of an input is written between calls, and many small calls: the report must name the lines."""

import numpy as np

N = 512
a, b = np.ones((N, N)), np.full((N, N), 2.0)
for k in range(30):
    c = a @ b  # product
    a[k, 5 * k] += 1
x = np.ones(40)
for _ in range(2000):
    x @ x  # small
print(c[0, 0])
