#!/usr/bin/env python3
"""Compares two builds of the library in one run: base, new, and base once more as a control, by turns.

    pairs.py OUT [--only FIGURES] [--width PERCENT] [--rounds N] [--budget SECONDS] [--with VAR=VALUE...] [--quick]

A round runs a program once per side, in an order that rotates, and gives the ratios new/base and base/base of the medians
that the three processes report. Rounds go on until the 95 % intervals of the mean of both ratios (of their logarithms, by
Student's t) are at most WIDTH percent wide, or the time is over. OUT/pairs.md has the table, OUT/pairs.jsonl a line per
process. With --with all three sides are the same build, and the new one has these variables. FIGURES is a comma-separated
list of what --help ends with; those of Octave need the folder of `gpu-octave.sh build`, the others that of `gpu-bench.sh
build`, made with BASE=FILE unless --with is given. A level-3 routine may have an order, or dgemm M:N:K, and
SEMCACHE_MEMORY as a share of what its operands take: dgemm:4096, dsymm:16384@0.25, dgemm:512:16384:16384@0.1.
DEVICES (default cuda) is what `semcache run --devices` gets.
"""

import argparse
import json
import math
import os
import platform
import re
import statistics
import sys
import tarfile
import tempfile
import time

import memory
import run
from run import BIN, HERE, find, markdown, notes_text, quoted, tell, time_text

# Key: program, arguments, those of --quick, and which of its lines are figures: title, and the line's variant and size.
PROGRAMS = {
    "chain": (["chain", "131072", "10000", "3"], ["chain", "131072", "20", "2"],
              [("chain, " + op, {"variant": op}) for op in ("cycle", "daxpy", "ddot", "dgemv", "read")]),
    "resident": (["resident", "2048,8192", "10", "5"], ["resident", "256,512", "4", "2"],
                 [("resident dgemm, smaller", 0), ("resident dgemm, larger", 1)]),
    "abac": (["abac", "16384", "2", "inplace", "3"], ["abac", "256", "2", "inplace", "2"],
             [("abac, refilled in place", {"variant": "inplace"})]),
}
SIDES = ["base", "ours", "control"]
# Student's t, two-sided, 95 %, by degrees of freedom.
STUDENT = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
           2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045]


def interval(ratios):
    """Geometric mean and the ends of its 95 % interval."""
    logs = [math.log(r) for r in ratios]
    mean = statistics.fmean(logs)
    if len(logs) < 2:
        return math.exp(mean), 0.0, math.inf
    t = STUDENT[len(logs) - 2] if len(logs) - 2 < len(STUDENT) else 2.0
    half = t * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


class Figure:
    """One number of a program, of every round and side."""

    def __init__(self, title):
        self.title, self.seconds = title, {side: [] for side in SIDES}

    def ratios(self, side):
        return [a / b for a, b in zip(self.seconds[side], self.seconds["base"])]

    def narrow(self, width):
        if len(self.seconds["base"]) < 4:
            return False
        ends = [interval(self.ratios(side)) for side in ("ours", "control")]
        return all(high - low <= width for _, low, high in ends)

    def row(self):
        if not self.seconds["base"]:
            return [self.title] + ["-"] * 6
        text = lambda side: "{:.4f} ({:.4f} .. {:.4f})".format(*interval(self.ratios(side)))
        medians = [time_text(statistics.median(self.seconds[side])) for side in SIDES]
        return [self.title, str(len(self.seconds["base"])), *medians, text("ours"), text("control")]


class Program:
    """A program of the benchmarks: `measure` runs it for a side and returns one number per figure, or None."""

    def __init__(self, bench, key, quick):
        words, small, wanted = PROGRAMS[key]
        self.bench, self.words = bench, small if quick else words
        self.sizes = self.words[1].split(",")
        self.wanted = [where if isinstance(where, dict) else {"variant": "resident", "size": int(self.sizes[where])} for _, where in wanted]
        self.figures = [Figure(f"{title} (`{' '.join(self.words)}`)" if isinstance(where, dict) else f"resident dgemm, {self.sizes[where]}")
                        for title, where in wanted]

    def measure(self, side, env):
        lines = self.bench.run(side, [os.path.join(BIN, self.words[0]), *self.words[1:]], 120, env)
        found = [find(lines, **where) for where in self.wanted]
        return [statistics.median(line["seconds"]) for line in found] if all(found) else None


class Level3:
    """One level-3 routine whose inputs the CPU rewrites before each call: a figure as ROUTINE, ROUTINE:N or dgemm:M:N:K, with
    @SHARE if not all operands fit into the devices."""

    def __init__(self, bench, key, quick):
        word, _, share = key.partition("@")
        routine, *sizes = word.split(":")
        n = int(sizes[0]) if len(sizes) == 1 else 16384
        self.bench, self.routine = bench, memory.Figure(word if len(sizes) > 1 else routine, (1500 if share else 300) if quick else n)
        self.memory = int(float(share) * self.routine.operands()) if share else None
        self.repetitions = 2 if quick else 3 if n > 8192 else 9
        self.figures = [Figure(f"{word}{f', memory for {share} of its operands' if share else ''} (`{' '.join(self.command())}`)")]

    def command(self):
        program, *words = self.routine.command(self.repetitions)
        return [os.path.basename(program), *words]

    def measure(self, side, env):
        memory_ = {"SEMCACHE_MEMORY": str(self.memory)} if self.memory else {}
        line = find(self.bench.run(side, self.routine.command(self.repetitions), 120, {**env, **memory_}), variant="refilled")
        return [statistics.median(line["seconds"])] if line else None


class Octave:
    """A workload of octave.m."""

    def __init__(self, runner, key, quick):
        import octave
        workload, title, size, small, *_ = octave.WORKLOADS[key]
        n = small if quick else size
        self.runner, self.median = runner, octave.median
        self.words = [os.path.join(HERE, "octave.m"), workload, str(n), "3", "2", "4"]
        self.figures = [Figure(f"Octave, {title}, {n}")]

    def measure(self, side, env):
        entry = self.runner.run(side, self.words, 60, env=env)
        return [self.median(entry)] if entry else None


def rounds(programs, o, end, notes):
    """Rounds of each program that is not narrow yet, by turns, until all are or the time is over."""
    failed, longest, count = set(), 0.0, 0
    while True:
        left = [p for p in programs if p not in failed and not all(f.narrow(o.width / 100) for f in p.figures)
                and len(p.figures[0].seconds["base"]) < o.rounds]
        if not left:
            return
        for program in left:
            if time.monotonic() + longest > end:
                notes.append("the time was over before every interval was narrow enough")
                return
            begun = time.monotonic()
            turn = count % len(SIDES)
            got = {side: program.measure(o.builds[side], o.variables if side == "ours" else {}) for side in SIDES[turn:] + SIDES[:turn]}
            if None in got.values():
                notes.append(f"a run failed or was out of time: {program.figures[0].title}")
                failed.add(program)
                continue
            for side, values in got.items():
                for figure, value in zip(program.figures, values):
                    figure.seconds[side].append(value)
            longest = max(longest, time.monotonic() - begun)
        count += 1


def main():
    has_octave = os.path.exists(os.path.join(HERE, "octave.tar.xz"))
    known = [*PROGRAMS, *memory.ROUTINES]
    if has_octave:
        import octave
        known = list(octave.WORKLOADS)
    parser = argparse.ArgumentParser(prog="pairs", description=__doc__, formatter_class=argparse.RawTextHelpFormatter,
                                     epilog="Figures here: " + " ".join(known))
    parser.add_argument("out")
    parser.add_argument("--only", help="comma-separated figures")
    parser.add_argument("--width", type=float, default=2, help="percent (2)")
    parser.add_argument("--rounds", type=int, default=30, help="at most (30)")
    parser.add_argument("--budget", type=float, default=500, help="seconds in all (500)")
    parser.add_argument("--with", nargs="+", dest="variables", default=[], metavar="VAR=VALUE", help="what the new side has, of the same build")
    parser.add_argument("--quick", action="store_true", help="small sizes: does everything run?")
    o = parser.parse_args()
    chosen = o.only.split(",") if o.only else known
    sized = lambda figure: not has_octave and re.fullmatch(r"d\w+(:\d+|:\d+:\d+:\d+)?(@[\d.]+)?", figure)
    if unknown := {f for f in chosen if not sized(f)} - set(known):
        sys.exit(f"pairs: no figure {' '.join(unknown)}; there are {' '.join(known)}")
    o.variables = dict(word.split("=", 1) for word in o.variables)
    o.builds = {side: "ours" if o.variables or side == "ours" else "base" for side in SIDES}
    if not os.path.exists(run.semcache(o.builds["base"])):
        sys.exit("pairs: no base library here: build with BASE=FILE")
    os.makedirs(o.out, exist_ok=True)
    begun, notes = time.monotonic(), []
    with tempfile.TemporaryDirectory(prefix="pairs-") as d:
        if has_octave:
            with tarfile.open(os.path.join(HERE, "octave.tar.xz")) as t:
                t.extractall(d)  # a trusted archive, made by build
            # Further options that octave.py needs.
            o.loader, o.reps = "auto", 3
            runner = octave.Runner(o, os.path.join(d, "octave"))
            if not runner.choose_loader():
                sys.exit("pairs: Octave does not reach the devices: " + " / ".join(runner.notes))
            programs = [Octave(runner, key, o.quick) for key in chosen]
        else:
            o.only, o.gpus, o.reps = None, None, 0
            runner = run.Bench(o)
            programs = [(Program if key in PROGRAMS else Level3)(runner, key, o.quick) for key in chosen]
        rounds(programs, o, begun + o.budget, notes)
    gpus = tell(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]).splitlines()
    cpu = next((l.split(":", 1)[1].strip() for l in open("/proc/cpuinfo", encoding="utf-8") if l.startswith("model name")), "?")
    version = lambda *folder: next(iter(open(os.path.join(HERE, *folder, "version"), encoding="utf-8").read().splitlines()), "?")
    head = ["figure", "rounds", "base", "new", "base again", "new / base (95 %)", "base again / base (95 %)"]
    rows = [f.row() for p in programs for f in p.figures]
    text = ["# Two builds in pairs" + (" (quick: sizes that show nothing but that everything runs)" if o.quick else ""), "",
            f"* GPUs: {len(gpus)} x {gpus[0]}" if gpus else f"* GPUs: none; devices {runner.devices}",
            f"* CPU: {cpu}, {os.cpu_count()} cores; Linux {platform.release()}",
            f"* base: {version() if o.variables else version('base')}; new: {version()}" + "".join(f", {k}={v}" for k, v in o.variables.items()),
            f"* command: `pairs {quoted([w for w in sys.argv[1:] if w != o.out])}`", "",
            markdown(head, rows), ""]
    text += notes_text(notes + runner.notes)
    text += [f"In all {time.monotonic() - begun:.0f} s.", ""]
    with open(os.path.join(o.out, "pairs.md"), "a", encoding="utf-8") as f:
        f.write("\n".join(text))
    with open(os.path.join(o.out, "pairs.jsonl"), "a", encoding="utf-8") as f:
        for figure in (f for p in programs for f in p.figures):
            f.write(json.dumps({"figure": figure.title, **figure.seconds}) + "\n")
    print("\n".join(text))
    return 1 if runner.bad else 0


if __name__ == "__main__":
    sys.exit(main())
