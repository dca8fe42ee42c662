#!/usr/bin/env python3
"""Measures what this machine's GPUs and links reach, and writes the file that SEMCACHE_RATES takes (docs/rates.md).

    rates.py OUT [--gpus N] [--reps N] [--budget SECONDS] [--quick]

OUT/GPU-xCOUNT.toml is the file, OUT/bench.jsonl has the times that it was made from. Each time is the median of N (7).
The file has what was measured, and no more: nothing of the host BLAS, and nothing of the library's own costs.
"""

import argparse
import os
import re
import statistics
import sys

from run import BIN, Bench, machine, tell

TYPES = {"s": 2, "d": 2, "c": 8, "z": 8}
"""Floating-point operations on real numbers for each m n k of a product."""
RUNS = [4, 8, 16, 32, 64]


class Measured:
    """The medians of a run of peer_rates, by what was measured and its size."""

    def __init__(self, lines):
        self.seconds, self.bytes, self.uncovered = {}, {}, []
        for line in lines:
            key = line["variant"], line["size"]
            # A clock that did not move measured nothing.
            if line["seconds"] and statistics.median(line["seconds"]) > 0:
                self.seconds[key] = statistics.median(line["seconds"])
                self.bytes[key] = line["bytes"]
                if not line["covered"]:
                    self.uncovered.append(f"{key[0]} of {key[1]}")

    def sizes(self, what):
        return sorted(size for name, size in self.seconds if name == what)

    def rate(self, what, size):
        seconds = self.seconds.get((what, size))
        return self.bytes[what, size] / seconds if seconds else None


def line_through(points):
    """The line a + b x with the least squares of relative errors; None if it does not rise."""
    w = [1 / y**2 for _, y in points]
    s = sum(w)
    sx, sy = (sum(k * v for k, v in zip(w, values)) for values in zip(*points))
    sxx = sum(k * x * x for k, (x, _) in zip(w, points))
    sxy = sum(k * x * y for k, (x, y) in zip(w, points))
    d = s * sxx - sx * sx
    if len(points) < 2 or d <= 0:
        return None
    b = (s * sxy - sx * sy) / d
    return ((sy - b * sx) / s, b) if b > 0 else None


def link(m, what, opposite):
    """Latency, rate and slowdown of a link."""
    sizes = m.sizes(what)
    figures = {}
    fitted = line_through([(n, m.seconds[what, n]) for n in sizes]) if sizes else None
    if fitted:
        figures = {"latency_s": fitted[0], "bytes_per_s": 1 / fitted[1]}
    for size in m.sizes(opposite):
        # The time of as many bytes alone, by the line: the sizes that were measured alone may be others.
        if fitted:
            figures["bid_slowdown"] = max(1.0, m.seconds[opposite, size] / (fitted[0] + fitted[1] * size))
    return figures


def gemm(m, letter, launch):
    """Peak rate and half size that fit the products' times best, by relative error, each time being
    launch + flops / (peak (n / (n + half))^3)."""
    what = "gemm " + letter
    points = [(n, m.seconds[what, n]) for n in m.sizes(what)]

    def fit(half):
        """Seconds per operation at the peak, and the sum of squared errors."""
        x = [(TYPES[letter] * n**3 * ((n + half) / n) ** 3 / t, 1 - launch / t) for n, t in points]
        per_flop = sum(u * v for u, v in x) / sum(u * u for u, _ in x)
        return per_flop, sum((per_flop * u - v) ** 2 for u, v in x)

    if len(points) < 2:
        return {}
    half = min((2 ** (i / 16) for i in range(16 * 12)), key=lambda h: fit(h)[1])
    per_flop = fit(half)[0]
    return {"peak_flops": 1 / per_flop, "half_size": half} if per_flop > 0 else {}


def totals(m, what):
    """The rate of 1, 2, 4 and 8 GPUs together."""
    return [m.rate(what, count) for count in m.sizes(what)]


def figures(m):
    """The figures by section; the section "" comes first."""
    h2d, d2h = link(m, "h2d", "h2d beside d2h"), link(m, "d2h", "d2h beside h2d")
    top = {"h2d_all": totals(m, "h2d all"), "d2h_all": totals(m, "d2h all"), "pin": totals(m, "pin")}
    launch = m.seconds.get(("launch", 32))
    device = {
        "memory_bandwidth": m.rate("memory", m.sizes("memory")[0]) if m.sizes("memory") else None,
        "launch_s": launch,
        "stream_s": m.seconds.get(("stream", 1000)),
        "exec_s": m.seconds.get(("exec", 1000)),
    }
    shares = [m.rate("runs h2d", run << 10) for run in RUNS]
    if all(shares) and "bytes_per_s" in h2d:
        device["runs"] = [min(1.0, share / h2d["bytes_per_s"]) for share in shares]
    sections = {"": top, "device": device, "device.h2d": h2d, "device.d2h": d2h,
                "device.p2p": link(m, "p2p", "p2p beside p2p")}
    for letter in TYPES:
        sections[f"device.gemm.{letter}"] = gemm(m, letter, launch or 0)
    return sections


def written(value):
    return "[" + ", ".join(map(written, value)) + "]" if isinstance(value, list) else f"{value:.4g}"


def usable(value):
    values = value if isinstance(value, list) else [value]
    return bool(values) and all(v is not None and v > 0 for v in values)


def text(sections, about):
    """The file."""
    lines = ["# Rates of one machine, for SEMCACHE_RATES: docs/rates.md says what each figure is.", "version = 1"]
    lines += [f"{k} = {written(v)}" for k, v in sections[""].items() if usable(v)]
    lines += ["", "[machine]"] + [f"{k} = {v if isinstance(v, int) else quoted(v)}" for k, v in about.items()]
    for name, section in sections.items():
        values = [f"{k} = {written(v)}" for k, v in section.items() if usable(v)]
        if name and values:
            lines += ["", f"[{name}]", *values]
    return "\n".join(lines) + "\n"


def quoted(value):
    return '"' + re.sub(r'["\\\x00-\x1f]', " ", value) + '"'


def main():
    parser = argparse.ArgumentParser(prog="gpu-bench.sh rates", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--gpus", type=int, default=0, help="number of GPUs to use; default all, at most 8")
    parser.add_argument("--reps", type=int, default=7)
    parser.add_argument("--budget", type=float, default=120)
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does everything run?")
    o = parser.parse_args()
    o.only = None
    os.makedirs(o.out, exist_ok=True)
    b = Bench(o)
    args = ["4", "128", "2"] if o.quick else ["512", "8192", str(o.reps)]
    lines = b.run("peer", [f"{BIN}/peer_rates", *args], 110)
    if not lines:
        sys.exit("gpu-bench: nothing was measured")
    gpus = next(line["size"] for line in lines if line["variant"] == "gpus")
    described = tell(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]).splitlines() or ["none, none"]
    name, _, driver = (part.strip() for part in described[0].partition(","))
    m = Measured(lines)
    if m.uncovered and not o.quick:
        b.note(f"too good, since the work beside the copy ended before it: {', '.join(m.uncovered)}")
    cpu = next(line for line in machine(b).splitlines() if line.startswith("* CPU: "))
    about = {"gpu": name, "gpus": gpus, "driver": driver, "cpu": cpu.removeprefix("* CPU: ").removesuffix(" at the end"),
             "command": "gpu-bench.sh rates OUT" + "".join(" " + w for w in sys.argv[1:] if w != o.out)}
    slug = re.sub("[^a-z0-9]+", "-", name.lower().removeprefix("nvidia ")).strip("-")
    path = os.path.join(o.out, f"{slug}-x{gpus}.toml")
    found = text(figures(m), about)
    with open(path, "w", encoding="utf-8") as f:
        f.write(found)
    print(f"{path}:\n{found}", end="")
    return 1 if b.notes and not o.quick else 0


if __name__ == "__main__":
    sys.exit(main())
