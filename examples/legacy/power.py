"""The largest eigenvalue of a symmetric matrix by power iteration.

    power.py [N [ITERATIONS]]
"""

import sys

import numpy as np

n = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
iterations = int(sys.argv[2]) if len(sys.argv) > 2 else 50

i = np.arange(n)
a = ((i[:, None] + i[None, :]) % 5 - 2).astype(np.float64)  # small integers
a[i, i] += 4 * (i % 3)
a += np.outer(np.ones(n), np.ones(n))  # makes the vector of ones the direction of the largest eigenvalue

v = np.ones(n)
for _ in range(iterations):
    v = a @ v
    v /= np.linalg.norm(v)
value = v @ (a @ v)
residual = np.linalg.norm(a @ v - value * v) / abs(value)

print(f"power n={n} iterations={iterations}")
print(f"eigenvalue {value:.6f} residual below 1e-6: {'yes' if residual < 1e-6 else 'NO'}")
