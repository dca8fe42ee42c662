#!/usr/bin/env python3
"""The decision between host and GPUs over a grid of routines, sizes and places: automatic, against always and never.

    grid.py OUT [--sizes N,N] [--rates FILE] [--warm N] [--rounds N] [--budget SECONDS] [--gpus N] [--quick]

A round runs a process per setting, in an order that rotates: `auto` (the decision), `always`, `never`, and `never` once more as a
control. Each cell of the grid gives the ratio of `auto` to the faster of the other two settings (by their medians over all rounds) in
every round, and the 95 % interval of these ratios (of their logarithms, by Student's t); the ratio of the control to `never` shows
what such a ratio is worth. Where the CPU rewrites the inputs before each call, another ratio has the rewriting in its times: page faults
of the CPU's writes are a cost of the device. WARM calls of each kind are made before the measured ones (10). OUT/grid.md has the table, OUT/bench.jsonl
all times. With --rates the library starts from the rates of a file (docs/rates.md).
"""

import argparse
import os
import statistics
import sys
import time

import pairs
from run import BIN, Bench, machine, markdown, notes_text, quoted, time_text

SETTINGS = ["auto", "always", "never", "control"]
SIZES = ["16,32,64,128,256,512", "1024,2048", "4096", "8192"]
WITHIN, WORST = 1.05, 1.25


def cell(line):
    return line["routine"], line["size"], line["place"]


def measure(b, o, sizes, turn, found):
    """One round of some sizes: for each cell and setting the seconds of a call, and of a call with the rewriting before it."""
    for label in SETTINGS[turn % 4:] + SETTINGS[:turn % 4]:
        setting = "never" if label == "control" else label
        env = {"SEMCACHE_OFFLOAD": setting}
        if o.rates:
            env["SEMCACHE_RATES"] = os.path.abspath(o.rates)
        # The host BLAS learns nothing.
        warm = o.warm if label == "auto" else min(o.warm, 3)
        # A host that needs seconds for a call makes few.
        reps = "1" if setting == "never" and sizes == "8192" else "5"
        for line in b.run("ours", [f"{BIN}/decision", label, sizes, reps, str(warm)], 120, env):
            seconds, refill = statistics.median(line["seconds"]), statistics.median(line["refills"])
            found.setdefault(cell(line), {}).setdefault(label, []).append((seconds, seconds + refill))


def against(times):
    """The faster of always and never, and the ratios of auto to it and of the control to never."""
    best = min("always", "never", key=lambda one: statistics.median(times[one]))
    ratio = lambda one, other: pairs.interval([a / b for a, b in zip(times[one], times[other])])
    return best, ratio("auto", best), ratio("control", "never")


def row(key, times):
    """The cells of a line of the table, the mean and the end of the interval of its ratio, and these of the control; None if a setting
    has no time."""
    if any(label not in times for label in SETTINGS):
        return None
    calls, whole = ({label: [pair[i] for pair in times[label]] for label in SETTINGS} for i in (0, 1))
    best, (mean, low, high), control = against(calls)
    routine, size, place = key
    text = lambda three: "{:.3f} ({:.3f} .. {:.3f})".format(*three)
    cells = [routine, str(size), place, *(time_text(statistics.median(calls[label])) for label in SETTINGS[:3]), best,
             text((mean, low, high)), text(control), f"{against(whole)[1][0]:.3f}" if place == "host" else ""]
    return cells, mean, high, control[0], control[2]


def main():
    parser = argparse.ArgumentParser(prog="gpu-bench.sh grid", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--sizes", help="comma-separated; sizes of one process are joined by + (16+32,4096)")
    parser.add_argument("--rates", help="a file of rates")
    parser.add_argument("--warm", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--budget", type=float, default=400)
    parser.add_argument("--gpus", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="small sizes: does everything run?")
    o = parser.parse_args()
    o.only, o.reps = None, 0
    os.makedirs(o.out, exist_ok=True)
    b = Bench(o)
    sizes = ["16,64", "256"] if o.quick else SIZES
    if o.sizes:
        sizes = [group.replace("+", ",") for group in o.sizes.split(",")]
    # The processor's clock is slow at first: the first process's small calls took 1.3 to 2 times as long as those of the next.
    b.run("ours", [f"{BIN}/decision", "begin", sizes[0], "5", "3"], 120, {"SEMCACHE_OFFLOAD": "never"})
    found, done, begun = {}, 0, time.monotonic()
    # A round that would not end in time would leave settings with different numbers of times.
    while done < o.rounds and (done == 0 or time.monotonic() + (time.monotonic() - begun) / done < b.end):
        for group in sizes:
            measure(b, o, group, done, found)
        done += 1
    rows = [r for key, times in sorted(found.items()) if (r := row(key, times))]
    if not rows:
        sys.exit("gpu-bench: nothing was measured")
    ends = [sum(row[i] <= WITHIN for row in rows) for i in (2, 4)]
    means = [[sum(row[i] <= most for row in rows) for most in (WITHIN, WORST)] for i in (1, 3)]
    worst = max(rows, key=lambda r: r[1])
    head = ["routine", "size", "place", "auto", "always", "never", "faster", "auto / faster (95 %)", "never / never (95 %)", "with rewriting"]
    text = ["# The decision between host and GPUs", "", machine(b), f"* command: `grid {quoted([w for w in sys.argv[1:] if w != o.out])}`; {done} rounds", "",
            f"Of {len(rows)} cells {means[0][0]} have a mean of at most {WITHIN}, {means[0][1]} of at most {WORST}; of never against never "
            f"{means[1][0]} and {means[1][1]}. The interval ends at {WITHIN} or below in {ends[0]}, and in {ends[1]}. The largest mean is "
            f"{worst[1]:.3f} ({' '.join(worst[0][:3])}).", "",
            markdown(head, [r[0] for r in rows]), ""]
    text += notes_text(b.notes)
    with open(os.path.join(o.out, "grid.md"), "w", encoding="utf-8") as f:
        f.write("\n".join(text))
    print("\n".join(text))
    return 1 if b.bad else 0


if __name__ == "__main__":
    sys.exit(main())
