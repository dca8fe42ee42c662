#!/usr/bin/env python3
"""What hints of semcache.h are worth, on GPUs, in a folder that `gpu-bench.sh build` made.

    hints.py OUT [--gpus 1,4] [--n 32768] [--block 2048] [--rounds 3] [--budget SECONDS] [--modes placed,prefetch,...]

OUT/hints.jsonl has a line per run (bench/hints.c says of what), OUT/hints.md the tables: medians of the rounds, and their spread.
*placed* compares calls on block-cyclic operands on several GPUs with calls on operands that lie on one. SEMCACHE_* of the caller hold;
DEVICES=sim runs on simulated devices, to try this script. Exit status 1 when a run failed.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

from run import LIB, semcache, unpack

HERE = os.path.dirname(os.path.abspath(__file__))
ROUTINES = ["dgemm", "dsyr2k", "dtrsm"]


def run(o, gpus, words):
    """One process under the library; its JSON line."""
    kind = os.environ.get("DEVICES", "cuda")
    devices = f"sim:{gpus}" if kind == "sim" else ",".join(f"cuda:{i}" for i in range(gpus))
    command = [semcache("ours"), "run", "--devices", devices, "--", os.path.join(HERE, "bin", "hints"), *map(str, words)]
    path = ":".join(filter(None, [LIB, os.environ.get("LD_LIBRARY_PATH")]))
    env = dict(os.environ, SEMCACHE_OFFLOAD="always", LD_LIBRARY_PATH=path)
    begun = time.monotonic()
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=max(5, o.end - begun), check=False)
    print(f"{time.monotonic() - begun:8.1f} s  {gpus} {' '.join(map(str, words))}", flush=True)
    if done.returncode:
        raise RuntimeError(f"{words}: status {done.returncode}: {done.stderr[-300:]}")
    found = json.loads(done.stdout)
    with open(os.path.join(o.out, "hints.jsonl"), "a", encoding="utf-8") as f:
        f.write(json.dumps(dict(found, gpus=gpus)) + "\n")
    return found


def spread(values, form="{:.4f}"):
    """Median and range."""
    text = form.format(statistics.median(values))
    return text if len(values) < 2 else f"{text} ({form.format(min(values))} .. {form.format(max(values))})"


def placed(o):
    lines = ["## Block-cyclic operands on the devices", "",
             f"n = {o.n}, blocks of {o.block}; seconds, and what one GPU takes whose memory holds the operands, divided by the number of GPUs, "
             "over them (wanted: 0.95).", "",
             "| routine | GPUs | first call | later calls | of the ideal, first | later | MB from and to the host, per call | between GPUs |",
             "|---|---|---|---|---|---|---|---|"]
    for routine in ROUTINES:
        base = None
        for gpus in o.gpus:
            runs = [run(o, gpus, ["placed", routine, o.n, o.block, 3]) for _ in range(o.rounds)]
            first, later = [r["first_s"] for r in runs], [r["median_s"] for r in runs]
            base = base or statistics.median(later)
            ideal = base / gpus
            last = runs[-1]
            lines.append(f"| {routine} | {gpus} | {spread(first)} | {spread(later)} | {ideal / statistics.median(first):.3f} | "
                         f"{ideal / statistics.median(later):.3f} | {(last['h2d'] + last['d2h']) / 1e6:.1f} | {last['p2p'] / 1e6:.1f} |")
    return lines


def prefetch(o):
    lines = ["## Prefetch behind host work", "", "A product of cold operands after host work of 1.2 x its time; seconds. *Hidden*: of what a cold "
             "product takes more than a warm one (wanted: 0.90).", "", "| n | host work | cold | warm | work and product | with prefetch | hidden |",
             "|---|---|---|---|---|---|---|"]
    for n in (2048, 4096, 8192):
        runs = [run(o, 1, ["prefetch", n, 7 if n < 8192 else 3]) for _ in range(o.rounds)]
        of = {key: spread([r[key] for r in runs]) for key in runs[0] if isinstance(runs[0][key], float)}
        hidden = spread([r["hidden"] for r in runs], "{:.2f}")
        lines.append(f"| {n} | {of['work_s']} | {of['cold_s']} | {of['warm_s']} | {of['plain_s']} | {of['hinted_s']} | {hidden} |")
    return lines


def overlap(o):
    lines = ["## TRSM, host work, GEMM, host work", "", "Host work of as many seconds as the two calls take by themselves.", "",
             "| n | the calls | host work | without a section | in a section |", "|---|---|---|---|---|"]
    for n in (2048, 8192):
        runs = [run(o, 1, ["overlap", n, 9]) for _ in range(o.rounds)]
        of = {key: spread([r[key] for r in runs]) for key in runs[0] if isinstance(runs[0][key], float)}
        lines.append(f"| {n} | {of['devices_s']} | {of['host_s']} | {of['plain_s']} | {of['hinted_s']} |")
    return lines


def cpu(o):
    lines = ["## The CPU's part", "", "Seconds in which the CPU reads a result that a device has, or changes an input that it holds.", "",
             "| n | what | plain | with the hint |", "|---|---|---|---|"]
    what = {"read_columns": "reads all, read_cpu", "read_rows": "reads 64 columns row by row, read_cpu",
            "read_later": "reads all after 20 ms of other work (included), coherent", "write_input": "changes an input, write_cpu"}
    for n in (4096, 8192):
        runs = [run(o, 1, ["cpu", n, 9]) for _ in range(o.rounds)]
        for key, text in what.items():
            lines.append(f"| {n} | {text} | {spread([r[f'{key}_s'] for r in runs])} | {spread([r[f'{key}_hinted_s'] for r in runs])} |")
    return lines


def memory(o):
    n = 4096
    os.environ["SEMCACHE_MEMORY"] = str(5 * n * n * 8 + (8 << 20))
    runs = [run(o, 1, ["memory", n, 9]) for _ in range(o.rounds)]
    del os.environ["SEMCACHE_MEMORY"]
    lines = ["## Memory for five of seven matrices", "", f"Three products of order {n} in turn, of which the third uses a matrix again.", "",
             "| | s | MB moved |", "|---|---|---|"]
    for key, text in (("plain", "without hints"), ("pinned", "that matrix is pinned"), ("evicted", "the others are evicted after their use")):
        moved = statistics.median(r[f"{key}_bytes"] for r in runs) / 1e6
        lines.append(f"| {text} | {spread([r[f'{key}_s'] for r in runs])} | {moved:.0f} |")
    return lines


def cost(o):
    lines = ["## What hints cost", "", "Products in a row on resident operands, with hints before each, over the same without (wanted: at most 1.02).",
             "", "| n | without, s per call | two asynchronous prefetches | a section for each | one section | a range |", "|---|---|---|---|---|---|"]
    for n in (512, 1024, 2048, 4096):
        runs = [run(o, 1, ["cost", n, 21]) for _ in range(o.rounds)]
        ratio = {key: spread([r[key] for r in runs], "{:.3f}") for key in ("prefetch", "section_each", "section", "range")}
        each = spread([r["plain_s"] / r["calls"] for r in runs], "{:.6f}")
        lines.append(f"| {n} | {each} | {ratio['prefetch']} | {ratio['section_each']} | {ratio['section']} | {ratio['range']} |")
    return lines


def main():
    p = argparse.ArgumentParser(prog="gpu-bench.sh hints", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out")
    p.add_argument("--gpus", default="1,4", type=lambda text: [int(g) for g in text.split(",")], help="numbers of GPUs (1,4)")
    p.add_argument("--n", default=32768, type=int, help="order of placed operands (32768)")
    p.add_argument("--block", default=2048, type=int, help="their blocks (2048)")
    p.add_argument("--rounds", default=3, type=int, help="processes for each line (3)")
    p.add_argument("--budget", default=400, type=float, help="seconds in all (400)")
    p.add_argument("--modes", default="placed,prefetch,overlap,cpu,memory,cost", type=lambda text: text.split(","))
    o = p.parse_args()
    os.makedirs(o.out, exist_ok=True)
    unpack()
    o.end = time.monotonic() + o.budget
    lines, failed = [], False
    for mode in o.modes:
        try:
            lines += globals()[mode](o) + [""]
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            lines += [f"{mode}: {error}", ""]
            failed = True
        with open(os.path.join(o.out, "hints.md"), "w", encoding="utf-8") as f:
            f.write("# Hints\n\n" + "\n".join(lines))
    print("\n".join(lines))
    return failed


if __name__ == "__main__":
    sys.exit(main())
