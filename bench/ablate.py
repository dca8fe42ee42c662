#!/usr/bin/env python3
"""What each heuristic is worth: access patterns with all that the library learns, and without one of the heuristics.

    ablate.py OUT [--only HEURISTICS] [--rounds N] [--budget SECONDS] [--gpus N] [--quick]

A round runs the program `habits` for each group of patterns: with all heuristics, without each one that may matter there, and with
all once more as a control, in an order that rotates, one process each. The ratio without / all of every round gives a mean and its
95 % interval (of the logarithms, by Student's t); the ratio of the control to `all` shows what such a ratio is worth. OUT/ablate.md
has the table, OUT/ablate.jsonl all times. `change`, which may be named with the heuristics, is no heuristic: programs that change
what they do, and how many calls later a call takes what it takes from then on.

"low rates" and "high rates": the library starts from a file (docs/rates.md) with a ninth of what the links, the memory and the
arithmetic of an H100 reach, or nine times as much. DEVICES (default cuda) is what `semcache run --devices` gets.
"""

import argparse
import math
import os
import statistics
import subprocess
import sys
import time

import pairs
from run import BIN, LIB, Bench, machine, markdown, notes_text, quoted, semcache, time_text

# The patterns that a process runs, by group.
GROUPS = {
    "results": "fresh,thin,read,land,vector,outer",
    "inputs": "power,feed,patch,patch-vector",
    "uploads": "reuse,narrow,rewrite,arena",
    "calls": "small-dgemv,small-dgemm,again-dgemm,again-dgemv,again-daxpy",
    "factor": "factor",
    "low rates": "square",
    "high rates": "square",
}
PLACES = [f"{place}, calls {calls}" for place in ("host", "resident") for calls in ("11 to 60", "81 to 140")]
RATES = [("low rates", PLACES), ("high rates", PLACES)]
# Each heuristic by its name in SEMCACHE_WITHOUT, and the patterns that it may matter for.
HEURISTICS = {
    "corrections": RATES,
    "host-times": [*RATES, ("calls", ["small-dgemv", "small-dgemm"])],
    "ab-probes": RATES,
    "host-decisions": [("calls", ["small-dgemv", "small-dgemm"])],
    "replay": [("calls", ["again-dgemm", "again-dgemv", "again-daxpy"])],
    "read-back": [("results", ["thin", "read", "outer"])],
    "streamed": [("results", ["read", "land", "vector", "outer"])],
    "mapped": [("results", ["vector"])],
    "write-through": [("inputs", ["power", "feed"])],
    "write-tracking": [("inputs", ["patch", "patch-vector"])],
    "prediction-error": [("factor", ["factor"]), ("results", ["outer", "thin"]), ("inputs", ["feed"])],
    "amortisation": [("uploads", ["reuse", "narrow", "arena"])],
    "samples": [("uploads", ["rewrite", "reuse"])],
    "alike": [("results", ["fresh", "thin"])],
}
# What an H100 reaches, in the file's keys.
REACHED = {"device.h2d": {"bytes_per_s": 55e9}, "device.d2h": {"bytes_per_s": 55e9}, "device": {"memory_bandwidth": 3.1e12},
           "device.gemm.s": {"peak_flops": 60e12}, "device.gemm.d": {"peak_flops": 62e12}}
WRONG = 9.0
ALL, CONTROL = "all", "control"
SETTLED, WANTED = 1.25, 10


def accepted(names):
    """Whether the library takes these names without a word."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SEMCACHE_")}
    libraries = [LIB, environment.get("LD_LIBRARY_PATH")]
    environment.update(BENCH_WAKE="0.05", SEMCACHE_WITHOUT=names, LD_LIBRARY_PATH=":".join(filter(None, libraries)))
    command = [semcache("ours"), "run", "--devices", "sim:1", "--", os.path.join(BIN, "resident"), "16", "1", "1"]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    if ran.returncode:
        sys.exit(f"ablate: {quoted(command)}: {ran.stderr}")
    return "SEMCACHE_WITHOUT" not in ran.stderr


def known():
    """Ends the program if the library does not know a name of the list."""
    if "SEMCACHE_WITHOUT" not in subprocess.run([semcache("ours"), "env"], capture_output=True, text=True, check=True).stdout:
        sys.exit("ablate: this build has no SEMCACHE_WITHOUT")
    if accepted("no-such-name"):
        sys.exit("ablate: the library does not say which names it does not know")
    if not accepted(",".join(HEURISTICS)):
        sys.exit("ablate: the library does not know " + " ".join(name for name in HEURISTICS if not accepted(name)))


def file_of_rates(path, factor):
    lines = ["version = 1", *(f"{key} = [{55e9 * factor:e}]" for key in ("h2d_all", "d2h_all"))]
    for table, figures in REACHED.items():
        lines += [f"[{table}]", *(f"{key} = {figure * factor:e}" for key, figure in figures.items())]
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(lines) + "\n")


def figures(lines):
    """The medians of a process: by pattern, then by size."""
    found = {}
    for line in lines:
        name = line["pattern"]
        if name == "square":
            name = f"{line['place']}, calls {'11 to 60' if line['calls'] == 'early' else '81 to 140'}"
        found.setdefault(name, {})[line["size"]] = statistics.median(line["seconds"])
    return found


def settled(seconds):
    """How many calls at the begin of a phase come before the first three in a row that take about as long as its last ones, and how
    many calls of the phase take longer in all."""
    level = SETTLED * statistics.median(seconds[-20:])
    slow = [s > level for s in seconds]
    first = next((i for i in range(len(slow) - 2) if not any(slow[i:i + 3])), len(slow))
    return first, sum(slow)


def geometric(values):
    return math.exp(statistics.fmean(math.log(v) for v in values))


class Ablation:
    """The rounds so far: times by group, side and pattern."""

    def __init__(self, bench, options, chosen):
        self.b, self.o, self.chosen = bench, options, chosen
        self.sides = {group: [ALL, *(h for h in chosen if any(g == group for g, _ in HEURISTICS[h])), CONTROL] for group in GROUPS}
        # For each group a list of rounds: the figures of each side.
        self.rounds, self.changes = {}, {}
        self.rates = {"low rates": 1 / WRONG, "high rates": WRONG}
        for group, factor in self.rates.items():
            file_of_rates(self.file(group), factor)

    def file(self, group):
        return os.path.abspath(os.path.join(self.o.out, group.replace(" ", "-") + ".toml"))

    def process(self, side, patterns, env=None):
        env = dict(env or {})
        if side not in (ALL, CONTROL):
            env["SEMCACHE_WITHOUT"] = side
        return self.b.run("ours", [f"{BIN}/habits", side, patterns, "8" if self.o.quick else "1"], 60, env)

    def round(self, turn, change):
        for group, patterns in GROUPS.items():
            sides = self.sides[group]
            if len(sides) == 2:
                continue
            at = turn % len(sides)
            env = {"SEMCACHE_RATES": self.file(group)} if group in self.rates else None
            found = {side: figures(self.process(side, patterns, env)) for side in sides[at:] + sides[:at]}
            if all(found.values()):
                self.rounds.setdefault(group, []).append(found)
        if change:
            for line in self.process(ALL, "change"):
                self.changes.setdefault((line["change"], line["routine"], line["size"]), []).append(line)

    def row(self, heuristic, group, pattern):
        """A line of the table; None without a round that has all sides."""
        rounds = [r for r in self.rounds.get(group, []) if all(pattern in r[side] for side in (ALL, heuristic, CONTROL))]
        common = set.intersection(*(set(r[side][pattern]) for r in rounds for side in (ALL, heuristic, CONTROL))) if rounds else set()
        if not common:
            return None
        of = lambda r, side: geometric(r[side][pattern][size] for size in common)
        ratios = lambda side: "{:.3f} ({:.3f} .. {:.3f})".format(*pairs.interval([of(r, side) / of(r, ALL) for r in rounds]))
        times = [time_text(statistics.median(of(r, side) for r in rounds)) for side in (ALL, heuristic)]
        name = f"{group}, {pattern}" if group in self.rates else pattern
        return [heuristic, name, str(len(rounds)), *times, ratios(heuristic), ratios(CONTROL)]

    def rows(self):
        wanted = [(h, group, pattern) for h in self.chosen for group, patterns in HEURISTICS[h] for pattern in patterns]
        return [r for w in wanted if (r := self.row(*w))]

    def changed(self):
        rows = []
        for (change, routine, size), lines in self.changes.items():
            phases = [[line["seconds"][:line["phase"]], line["seconds"][line["phase"]:]] for line in lines]
            late = [time_text(statistics.median(statistics.median(p[i][-20:]) for p in phases)) for i in (0, 1)]
            found = [settled(after) for _, after in phases]
            first = [f for f, _ in found]
            rows.append([change, routine, str(size), *late, f"{statistics.median(first):g} ({max(first)})",
                         f"{statistics.median(a for _, a in found):g}", "yes" if statistics.median(first) <= WANTED else "NO"])
        return rows


def main():
    names = [*HEURISTICS, "change"]
    parser = argparse.ArgumentParser(prog="gpu-bench.sh ablate", description=__doc__, formatter_class=argparse.RawTextHelpFormatter,
                                     epilog="Heuristics: " + " ".join(names))
    parser.add_argument("out")
    parser.add_argument("--only", help="comma-separated heuristics, or change")
    parser.add_argument("--rounds", type=int, default=3, help="(3)")
    parser.add_argument("--budget", type=float, default=240, help="seconds in all (240)")
    parser.add_argument("--gpus", type=int, default=0, help="number of GPUs to use; default all")
    parser.add_argument("--quick", action="store_true", help="small sizes: does everything run?")
    o = parser.parse_args()
    only = o.only.split(",") if o.only else names
    if unknown := set(only) - set(names):
        sys.exit(f"ablate: no heuristic {' '.join(unknown)}; there are {' '.join(names)}")
    o.only, o.reps = None, 0
    os.makedirs(o.out, exist_ok=True)
    known()
    Bench.RAW = "ablate.jsonl"
    b = Bench(o)
    a = Ablation(b, o, [name for name in HEURISTICS if name in only])
    done, begun = 0, time.monotonic()
    # A round that would not end in time is not begun.
    while done < o.rounds and (done == 0 or time.monotonic() + (time.monotonic() - begun) / done < b.end):
        b.write({"round": done})
        a.round(done, "change" in only)
        done += 1
    rows, changed = a.rows(), a.changed()
    if not rows and not changed:
        sys.exit("gpu-bench: nothing was measured")
    text = ["# What each heuristic is worth" + (" (quick: sizes that show nothing but that everything runs)" if o.quick else ""), "",
            machine(b).rpartition("\n")[0], f"* command: `ablate {quoted([w for w in sys.argv[1:] if w != o.out])}`; {done} round{'s' * (done != 1)}", ""]
    if rows:
        text += [markdown(["heuristic", "pattern", "rounds", "all", "without", "without / all (95 %)", "all again / all (95 %)"], rows), ""]
    if changed:
        text += ["Programs that change what they do: the last 20 calls of either phase, the calls of the second phase before three in a row "
                 f"take at most {SETTLED} times as long as its last 20 (median of the rounds, and the largest), and the calls of that phase "
                 "that take longer in all.", "",
                 markdown(["change", "routine", "n", "before", "after", "calls until then", "slower in all", f"at most {WANTED}?"], changed), ""]
    text += notes_text(b.notes)
    text += [f"In all {time.monotonic() - begun:.0f} s.", ""]
    with open(os.path.join(o.out, "ablate.md"), "w", encoding="utf-8") as f:
        f.write("\n".join(text))
    print("\n".join(text))
    return 1 if b.bad else 0


if __name__ == "__main__":
    sys.exit(main())
