#!/usr/bin/env python3
"""Predicted time of level-3 calls against what they take, from and to host memory.

    predict.py OUT [--rates FILE] [--sizes SIZES] [--only ROUTINES] [--reps N] [--gpus N] [--budget SECONDS] [--quick]

Runs `families refilled` for each size and routine, the largest size last, with a trace; FILE is for SEMCACHE_RATES. The CPU
rewrites the inputs before each call and reads all of the result behind it. OUT/predict.md has a line for the first call of
each process, which page-locks its matrices and loads its kernels, and one for the median of those from the third on (of N + 1
calls, or of three if these take half a minute). The second call is left out: its write-back is predicted, but most of it is
done in page faults of the CPU, after the call; from the third on the library does not wait for these.
"measured" is the time from the call's first page lock or operation to the end of its last kernel or write-back, by the
trace; "planned" is what the library took before that. OUT/bench.jsonl has a line for each call.
All calls run on devices (SEMCACHE_OFFLOAD=always, unless it is set). DEVICES (default cuda) is what
`semcache run --devices` gets. Exit status 1 if a call was not measured.
"""

import argparse
import math
import os
import statistics
import subprocess
import sys
import tempfile

from run import BIN, FAMILIES, Bench, figure, machine, semcache

SIZES = [2048, 4096, 8192, 16384, 24576, 32768, 49152]


def calls(b, routine, n):
    """The device calls of a process, as the trace has them: a dictionary for each, with numbers where they are."""
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "trace.pftrace")
        env = {"SEMCACHE_TRACE": trace, **b.given}
        limit = 40 + 12 * (b.o.reps + 1) * (n / 16384) ** 2
        if not b.run("ours", [f"{BIN}/families", "refilled", str(n), str(b.o.reps), routine], limit, env):
            return []
        told = subprocess.run([semcache("ours"), "trace", "--predictions", trace], capture_output=True, text=True, check=False)
    if told.returncode:
        b.note(f"{routine} {n}: semcache trace: {told.stderr.strip()}")
        return []
    names, *lines = (line.split("\t") for line in told.stdout.splitlines())
    found = [dict(zip(names, line)) for line in lines]
    found = [call for call in found if call["routine"] == routine]
    for call in found:
        for key in ("predicted_s", "measured_s", "planned_s"):
            call[key] = float(call[key])
        b.write({"routine": routine, "size": n, **call})
    return found


def row(routine, n, which, some):
    """A line of the table, and its error: medians of some calls."""
    predicted, measured, planned = (statistics.median(c[key] for c in some) for key in ("predicted_s", "measured_s", "planned_s"))
    error = predicted / measured - 1
    devices = max(int(c["devices"]) for c in some)
    times = " | ".join(figure({"seconds": [s]}) for s in (predicted, measured, planned))
    return f"| {routine} | {n} | {which} | {devices} | {times} | {100 * error:+.1f} % |", error


def rank(values, share):
    """The least value that this share of the values does not exceed."""
    return sorted(values)[max(1, math.ceil(share * len(values))) - 1]


def summary(what, errors):
    if not errors:
        return f"* {what}: none measured"
    off = [abs(e) for e in errors]
    return (f"* {what}: {len(off)} lines; median of |error| {100 * statistics.median(off):.1f} %, 90th percentile "
            f"{100 * rank(off, 0.9):.1f} %, worst {100 * max(off):.1f} %; median of the error itself "
            f"{100 * statistics.median(errors):+.1f} %")


def page(b, rows, errors, rates):
    head = ["routine", "n", "call", "devices", "predicted", "measured", "planned before", "error"]
    lines = ["# Predicted time of level 3 against measured" + (" (quick: the numbers have no meaning)" if b.o.quick else ""), "",
             machine(b).replace("run OUT", "predict OUT"),
             f"* rates: {os.path.basename(rates) if rates else 'the built-in ones'}", "",
             "| " + " | ".join(head) + " |", "|" + "---|" * len(head), *rows, "",
             summary("later calls", errors["later"]), summary("first calls", errors["first"])]
    if b.notes:
        lines += ["", "Notes:", "", *(f"* {n}" for n in b.notes)]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(prog="gpu-bench.sh predict", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--rates")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--only", default=",".join(FAMILIES))
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--gpus", type=int, default=0)
    parser.add_argument("--budget", type=float, default=540)
    parser.add_argument("--quick", action="store_true")
    o = parser.parse_args()
    o.reps = max(2, o.reps)
    sizes = [300, 515] if o.quick else sorted(map(int, o.sizes.split(",")))
    only, o.only = o.only.split(","), None
    os.makedirs(o.out, exist_ok=True)
    b = Bench(o)
    b.settings.setdefault("SEMCACHE_OFFLOAD", "always")
    # The file's folder is no part of what the page says.
    rates = o.rates or b.settings.pop("SEMCACHE_RATES", None)
    b.given = {"SEMCACHE_RATES": os.path.abspath(rates)} if rates else {}
    rows, errors = [], {"first": [], "later": []}
    for n in sizes:
        for routine in only:
            found = calls(b, routine, n)
            for which, some in ("first", found[:1]), ("later", found[2:]):
                if some:
                    line, error = row(routine, n, which, some)
                    rows.append(line)
                    errors[which].append(error)
                else:
                    b.note(f"{routine} {n}: no {which} call on devices was measured")
                    b.bad = True
            with open(os.path.join(o.out, "predict.md"), "w", encoding="utf-8") as f:
                f.write(page(b, rows, errors, rates))
    print(page(b, rows, errors, rates))
    return 1 if b.bad else 0


if __name__ == "__main__":
    sys.exit(main())
