#!/usr/bin/env python3
"""The decision between host and GPUs over a grid of routines, sizes and places: automatic, against always and never.

    grid.py OUT [--sizes N,N] [--rates FILE] [--warm N] [--rounds N] [--budget SECONDS] [--gpus N] [--quick]

A round runs a process per setting, in an order that rotates: `auto` (the decision), `always`, `never`, and `never` once more as a
control. Each cell of the grid gives the ratio of `auto` to the faster of the other two settings (by their medians over all rounds) in
every round, and the 95 % interval of these ratios (of their logarithms, by Student's t); the ratio of the control to `never` shows
what such a ratio is worth. Where the CPU rewrites the inputs before each call, a time is that of the call and of what rewriting
takes longer than it does under `never` and the control, the shorter of the two, in the same round. WARM calls of each kind are made before the measured ones (10). OUT/grid.md has the table, OUT/bench.jsonl
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


def costs(lines):
    """Seconds of a call by setting, from the lines that one round printed for a cell."""
    refill = {label: statistics.median(line["refills"]) for label, line in lines.items()}
    least = min((refill[label] for label in ("never", "control") if label in refill), default=0.0)
    return {label: statistics.median(line["seconds"]) + max(0.0, refill[label] - least) for label, line in lines.items()}


def measure(b, o, sizes, turn, found):
    """One round of some sizes."""
    lines = {}
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
            lines.setdefault(cell(line), {})[label] = line
    for key, by_label in lines.items():
        for label, seconds in costs(by_label).items():
            found.setdefault(key, {}).setdefault(label, []).append(seconds)


def row(key, times):
    """The cells of a line of the table, and the ends of the interval; None if a setting has no time."""
    if any(label not in times for label in SETTINGS):
        return None
    medians = {label: statistics.median(times[label]) for label in SETTINGS}
    best = min("always", "never", key=lambda label: medians[label])
    ratios = lambda one, other: pairs.interval([a / b for a, b in zip(times[one], times[other])])
    mean, low, high = ratios("auto", best)
    control = ratios("control", "never")
    routine, size, place = key
    text = lambda three: "{:.3f} ({:.3f} .. {:.3f})".format(*three)
    cells = [routine, str(size), place, *(time_text(medians[label]) for label in SETTINGS[:3]), best, text((mean, low, high)), text(control)]
    return cells, mean, high, control[2]


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
    found, done, begun = {}, 0, time.monotonic()
    # A round that would not end in time would leave settings with different numbers of times.
    while done < o.rounds and (done == 0 or time.monotonic() + (time.monotonic() - begun) / done < b.end):
        for group in sizes:
            measure(b, o, group, done, found)
        done += 1
    rows = [r for key, times in sorted(found.items()) if (r := row(key, times))]
    if not rows:
        sys.exit("gpu-bench: nothing was measured")
    within = sum(high <= WITHIN for _, _, high, _ in rows)
    means = sum(mean <= WITHIN for _, mean, _, _ in rows)
    controls = sum(high <= WITHIN for _, _, _, high in rows)
    worst = max(rows, key=lambda r: r[1])
    head = ["routine", "size", "place", "auto", "always", "never", "faster", "auto / faster (95 %)", "never / never (95 %)"]
    text = ["# The decision between host and GPUs", "", machine(b), f"* command: `grid {quoted([w for w in sys.argv[1:] if w != o.out])}`; {done} rounds", "",
            f"Of {len(rows)} cells {within} have an interval that ends at {WITHIN} or below ({controls} of never against never), {means} a mean; "
            f"the largest mean is {worst[1]:.3f} ({' '.join(worst[0][:3])}; at most {WORST} is wanted).", "",
            markdown(head, [r[0] for r in rows]), ""]
    text += notes_text(b.notes)
    with open(os.path.join(o.out, "grid.md"), "w", encoding="utf-8") as f:
        f.write("\n".join(text))
    print("\n".join(text))
    return 1 if b.bad else 0


if __name__ == "__main__":
    sys.exit(main())
