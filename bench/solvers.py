#!/usr/bin/env python3
"""Dense solvers of LAPACK on one GPU, in a folder that `gpu-bench.sh build` made, against the host's LAPACK and cuSOLVER by hand.

    solvers.py OUT [--problems getrf,potrf,...] [--sizes 256,512,...] [--largest-plain 8192] [--reps 7] [--budget SECONDS]

--problems geqp3, which takes long on the host, and which cuSOLVER does not have, is not among those by default. OUT/solvers.jsonl has a line per measurement (bench/solve.c and peer_solve.c say of what), OUT/solvers.md the table. SEMCACHE_* of the caller hold; DEVICES=sim:1 runs our side on a simulated device, to try this script. Exit
status 1 when a run failed.
"""

import argparse
import json
import os
import statistics
import sys
import time

import sparse
from run import BIN, markdown, time_text, unpack

SIDES = [("plain", None, {}), ("ours", 1, {}), ("always", 1, {"SEMCACHE_OFFLOAD": "always"}), ("cuSOLVER", None, {})]


def measured(o):
    """Medians and reads by side, problem and order."""
    found = {}
    for side, gpus, env in SIDES:
        program = "peer_solve" if side == "cuSOLVER" else "solve"
        sizes = [n for n in o.sizes if side not in ("plain", "ours") or n <= o.largest_plain]
        # Small ones by themselves: a large matrix before them would have brought all code already.
        for group in ([n for n in sizes if n <= 2048], [n for n in sizes if n > 2048]):
            if not group:
                continue
            problems = [p for p in o.problems.split(",") if p != "geqp3" or program == "solve"]
            if not problems:
                continue
            words = [os.path.join(BIN, program), ",".join(problems), ",".join(map(str, group)), o.reps]
            wake = {"BENCH_WAKE": "0.1" if side == "plain" else "1"}
            lines = sparse.peer(o, words, dict(env, **wake)) if gpus is None else sparse.run(o, words, gpus, dict(env, **wake))
            for line in lines:
                key = (side + ("" if side != "cuSOLVER" else ", " + line["variant"]), line.get("problem", line["variant"]), line["size"])
                found[key] = statistics.median(line["seconds"]), line.get("read")
                check(o, key, line)
    return found


def check(o, key, line):
    """All sides solve the same systems; factors differ by rounding."""
    if line.get("check") is None:
        return
    first = o.checks.setdefault(key[1:], line["check"])
    if abs(first - line["check"]) > 1e-6 * abs(first) + 1e-6:
        raise RuntimeError(f"{key}: {line['check']}, not {first}")


def table(o, found):
    head = ["call", "order", "plain", "semcache", "plain/semcache", "always on the GPU", "reading it then", "cuSOLVER and copies",
            "always/cuSOLVER and copies", "cuSOLVER, resident"]
    rows = []
    for problem in o.problems.split(","):
        for n in o.sizes:
            of = lambda side: (found.get((side, problem, n)) or (None, None))[0]
            read = (found.get(("always", problem, n)) or (None, None))[1]
            text = lambda seconds: time_text(seconds) if seconds else "-"
            rows.append([problem, str(n), text(of("plain")), text(of("ours")), sparse.over(of("plain"), of("ours")), text(of("always")),
                         text(read), text(of("cuSOLVER, copies")), sparse.over(of("always"), of("cuSOLVER, copies")),
                         text(of("cuSOLVER, resident"))])
    return markdown(head, rows)


def main():
    p = argparse.ArgumentParser(prog="gpu-bench.sh solvers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out")
    p.add_argument("--problems", default="getrf,potrf,geqrf,gesv,posv,inv,qr")
    p.add_argument("--sizes", default=[256, 512, 1024, 2048, 4096, 8192, 16384], type=sparse.numbers)
    p.add_argument("--largest-plain", default=8192, type=int, help="the largest order that the host's LAPACK computes (8192)")
    p.add_argument("--reps", default=7, type=int, help="repetitions (7)")
    p.add_argument("--budget", default=240, type=float, help="seconds in all (240)")
    o = p.parse_args()
    o.name = "solvers"
    os.makedirs(o.out, exist_ok=True)
    unpack()
    o.end, o.checks = time.monotonic() + o.budget, {}
    failed = False
    try:
        lines = [table(o, measured(o))]
    except RuntimeError as error:
        lines, failed = [str(error)], True
    lines = ["# Dense solvers", "", sparse.machine(o), "",
             "Per call of double precision, medians; gesv and posv with 100 right sides. The program writes the matrix anew before each call.",
             "*semcache*: where it decides, its first calls included; *reading it then*: by one thread, the factor or the solutions.", "", *lines]
    with open(os.path.join(o.out, "solvers.md"), "w", encoding="utf-8") as f:
        f.write("\n".join(lines) + "\n")
    print("\n".join(lines))
    return failed


if __name__ == "__main__":
    sys.exit(main())
