#!/usr/bin/env python3
"""Level 3 with less device memory than the operands take, against the same with memory for all of them.

    memory.py OUT [--n N] [--only ROUTINES] [--shares SHARES] [--reps N] [--budget SECONDS] [--quick]

Runs each routine, first with all memory ("in core"), then with SEMCACHE_MEMORY set to each share of what the operands take.
The CPU rewrites the inputs before each call and reads all of the result; both are in the time. ROUTINES: level-3 routines with
matrices of order N, dgemm:M:N:K and dgemv:M:N with any shape; by default all of order N, and dgemm with one dimension of 512.
dgemv of a matrix that the CPU has just written is no work for a GPU, so it runs with SEMCACHE_OFFLOAD=always.
OUT/memory.md has the table, OUT/bench.jsonl a line per process. "uploaded" is in multiples of the best simple blocking: with
M elements per device the least of keeping an s x s block of the output (s = sqrt(0.9 M)), or a panel of an input.
DEVICES (default cuda) is what `semcache run --devices` gets; its devices share the work and have this memory each.
"""

import argparse
import math
import os
import statistics
import sys

import run
from run import BIN, Bench, machine, tell

ROUTINES = ["dgemm", "dsymm", "dsyrk", "dsyr2k", "dtrmm", "dtrsm"]
SHARES = [round(0.05 * step, 2) for step in range(1, 25)]
MATRICES = {"dgemm": 3, "dsymm": 3, "dsyrk": 2, "dsyr2k": 3, "dtrmm": 2, "dtrsm": 2}


class Figure:
    """A routine with its sizes: dsymm (of order n), dgemm:M:N:K, dgemv:M:N."""

    def __init__(self, word, n):
        self.word, self.n = word, n
        self.routine, *sizes = word.split(":")
        self.sizes = list(map(int, sizes))
        if self.routine not in ROUTINES + ["dgemv"] or len(self.sizes) not in {"dgemm": (0, 3), "dgemv": (2,)}.get(self.routine, (0,)):
            sys.exit(f"gpu-bench memory: no routine {word!r}")

    def operands(self):
        """Bytes of all operands."""
        if self.routine == "dgemv":
            m, n = self.sizes
            return 8 * (m * n + m + n)
        if self.sizes:
            m, n, k = self.sizes
            return 8 * (m * k + k * n + m * n)
        return MATRICES[self.routine] * self.n * self.n * 8

    def simple(self, memory):
        """Bytes that the best simple blocking sends to one device of `memory` bytes."""
        kept = 0.9 * memory / 8
        if self.routine == "dgemv":
            return self.operands() - 8 * self.sizes[0]
        n = self.n
        if self.sizes:
            m, n, k = self.sizes
            side = math.sqrt(kept)
            return 8 * min(m * k * math.ceil(n / side) + k * n * math.ceil(m / side),
                           m * k + k * n * math.ceil(m * k / kept), k * n + m * k * math.ceil(k * n / kept))
        blocks = 2 * math.ceil(n / math.sqrt(kept))
        panel = 1 + math.ceil(n * n / kept)
        matrices = {
            "dgemm": min(blocks, panel),
            "dsymm": min(blocks, panel),
            "dsyrk": blocks / 2,
            "dsyr2k": blocks,
            "dtrmm": 1 + min(blocks / 2, panel / 2),
            "dtrsm": 1 + min(blocks / 2, panel / 2),
        }
        return matrices[self.routine] * n * n * 8

    def command(self, repetitions):
        if self.sizes:
            return [f"{BIN}/shapes", *map(str, self.sizes), str(repetitions)]
        return [f"{BIN}/families", "refilled", str(self.n), str(repetitions), self.routine]

    def measure(self, b, memory):
        env = {"SEMCACHE_MEMORY": str(memory)} if memory else {}
        if self.routine == "dgemv":
            env["SEMCACHE_OFFLOAD"] = "always"
        # A fallback shows in the report's line of bench.jsonl; a call on the host in `offloaded`.
        b.fallbacks = None
        lines = b.run("ours", self.command(b.o.reps), 40 * max(1, (self.n / 16384) ** 3 / 9), env)
        return lines[0] if lines else None


def calls_of(line):
    return line["calls"] if isinstance(line["calls"], int) else 1


class Sweep(Bench):
    def write(self, entry):
        if "report" in entry:
            self.fallbacks = entry.get("fallbacks")
        super().write(entry)


def main():
    parser = argparse.ArgumentParser(prog="gpu-bench.sh memory", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--n", type=int, default=16384)
    parser.add_argument("--only", help="by default the routines named above")
    parser.add_argument("--shares", default=",".join(map(str, SHARES)))
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--budget", type=float, default=540)
    parser.add_argument("--quick", action="store_true")
    o = parser.parse_args()
    if o.quick:
        o.n, o.reps = 1500, 1
    o.gpus = None
    os.makedirs(o.out, exist_ok=True)
    n, thin = o.n, min(512, o.n // 24)
    skewed = [f"dgemm:{thin}:{n}:{n}", f"dgemm:{n}:{thin}:{n}", f"dgemm:{n}:{n}:{thin}"]
    words, o.only = o.only.split(",") if o.only else [*ROUTINES, *skewed, f"dgemv:{n}:{n}"], None
    figures = [Figure(word, n) for word in words]
    b = Sweep(o)
    if o.quick:
        b.settings.setdefault("SEMCACHE_OFFLOAD", "always")
    devices = max(1, len(tell(["nvidia-smi", "-L"]).splitlines())) if b.devices == "cuda" else int(b.devices.split(":")[-1] or 1)
    if "," not in b.devices and b.devices.startswith("cuda:"):
        devices = 1
    rows = []
    for figure in figures:
        routine, operands = figure.word, figure.operands()
        core = figure.measure(b, None)
        if core is None:
            continue
        base, least = statistics.median(core["seconds"]), math.inf
        rows.append(f"| {routine} | in core | | {run.figure(core)} | 1 | | {core['bytes']['h2d'] / calls_of(core) / 1e9:.2f} | |")
        for share in map(float, o.shares.split(",")):
            memory = int(share * operands / devices)
            line = figure.measure(b, memory)
            if line is None:
                rows.append(f"| {routine} | {share:g} | {memory / 2**30:.2f} | - | | | | |")
                b.bad = True
                continue
            seconds = statistics.median(line["seconds"])
            h2d = line["bytes"]["h2d"] / calls_of(line)
            compared = f" ({h2d / figure.simple(memory):.2f})" if devices == 1 else ""
            slower = "" if least == math.inf else f"{seconds / least:.2f}"
            least = min(least, seconds)
            rows.append(f"| {routine} | {share:g} | {memory / 2**30:.2f} | {run.figure(line)} | {seconds / base:.2f} | {slower} | "
                        f"{h2d / 1e9:.2f}{compared} | {b.fallbacks} |")
            if b.fallbacks or line["offloaded"].split("/")[0] != line["offloaded"].split("/")[1]:
                b.note(f"{routine} at {share:g}: {line['offloaded']} calls offloaded, {b.fallbacks} fallbacks")
    table = "\n".join([f"# Level 3 of order {o.n} by device memory", "", machine(b).replace("run OUT", "memory OUT"), "",
                       "| routine | memory, of the operands | GiB per device | seconds | / in core | / best with less memory | "
                       "uploaded, GB a call (of simple blocking) | fallbacks |", "|---|---|---|---|---|---|---|---|", *rows]
                      + (["", "Notes:", "", *(f"* {n}" for n in b.notes)] if b.notes else [])) + "\n"
    with open(os.path.join(o.out, "memory.md"), "w", encoding="utf-8") as f:
        f.write(table)
    print(table)
    sys.exit(1 if b.bad else 0)


if __name__ == "__main__":
    main()
