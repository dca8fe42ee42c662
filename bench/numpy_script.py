"""What a user of NumPy writes: power iteration, covariance, least squares by normal equations.

    numpy_script.py N REPETITIONS RESULTS

Prints one JSON line per step; a sample of the results goes to RESULTS (JSON) for comparison with another run.
"""

import json
import sys
import time

import numpy as np


def power_iteration(a, steps):
    x = np.ones(a.shape[0])
    value = 0.0
    for _ in range(steps):
        y = a @ x
        value = np.linalg.norm(y)
        x = y / value
    return value, x


def covariance(x):
    centred = x - x.mean(axis=0)
    return centred.T @ centred / (x.shape[0] - 1)


def cross_covariance(x, y):
    return (x - x.mean(axis=0)).T @ (y - y.mean(axis=0)) / (x.shape[0] - 1)


def least_squares(x, y):
    return np.linalg.solve(x.T @ x, x.T @ y)


def sample(a):
    flat = np.ravel(a)
    spots = np.linspace(0, flat.size - 1, 64).astype(int)
    return [float(v) for v in flat[spots]] + [float(np.abs(flat).sum())]


def main():
    n, repetitions, results = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    rng = np.random.default_rng(1)
    b = rng.standard_normal((n, n))
    # One eigenvalue is much larger than all others, so that the iteration converges.
    b += 40.0 / np.sqrt(n)
    x = rng.standard_normal((n, n))
    tall = rng.standard_normal((2 * n, max(n // 4, 1)))
    target = tall @ np.arange(1.0, tall.shape[1] + 1) + 1e-3 * rng.standard_normal(2 * n)
    steps = {
        "power iteration, 50 steps": lambda: power_iteration(b, 50),
        "covariance": lambda: covariance(x),
        "cross covariance": lambda: cross_covariance(x, b),
        "least squares": lambda: least_squares(tall, target),
    }
    seconds, found, first = {s: [] for s in steps}, {}, {}
    total = []
    for r in range(repetitions + 1):
        begun = time.perf_counter()
        for name, step in steps.items():
            start = time.perf_counter()
            result = step()
            result = result[1] * np.sign(result[1].sum()) if isinstance(result, tuple) else result
            found[name] = sample(result)  # reading the result is part of the step
            spent = time.perf_counter() - start
            if r:
                seconds[name].append(spent)
            else:
                first[name] = spent
            del result
        if r:
            total.append(time.perf_counter() - begun)
    for name in steps:
        print(json.dumps({"bench": "numpy", "size": n, "variant": name, "seconds": seconds[name], "first": first[name]}))
    print(json.dumps({"bench": "numpy", "size": n, "variant": "all", "seconds": total, "first": sum(first.values())}))
    with open(results, "w", encoding="utf-8") as f:
        json.dump(found, f)


main()
