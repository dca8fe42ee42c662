#!/usr/bin/env python3
"""MPI programs whose ranks use GPUs, in a folder that `gpu-bench.sh build` made, against cuBLAS by hand and their plain run.

    mpi.py OUT [--sizes 16384,32768] [--ranks 1,2,4,2:1] [--steps 50] [--reps 5] [--few 10:2] [--budget SECONDS]
               [--modes jacobi,cg,pingpong,scalapack] [--sides semcache,hand,eager,plain]

OUT/mpi.jsonl has a line per run (bench/mpi_jacobi.c, mpi_cg.c, mpi_pingpong.c, mpi_scalapack.c and peer_mpi.c say of what), OUT/mpi.md the tables.
*jacobi*, *cg*: dense systems in blocks of rows. *pingpong*: messages of 8 bytes to 64 MiB between two ranks.
*scalapack*: products and factorizations; numbers of ranks that are no squares are left out. RANKS:GPUS is a number of
ranks on a number of GPUs, as many if none is said; those are left out for which there are too few GPUs. Sides: `semcache`; `hand`;
`eager`, which is semcache with SEMCACHE_GATE=eager: results are copied back at once, and nothing stays on devices; `plain`, on all cores.
SEMCACHE_* of the caller hold; DEVICES=sim:2 runs our side on simulated devices, to try this script. Exit status 1 when a run failed.
"""

import argparse
import glob
import json
import math
import os
import shutil
import subprocess
import sys
import time

from run import BIN, HERE, LIB, markdown, quoted, semcache, tell, time_text, toolkit_folders, unpack
from sparse import SIMULATED, machine, numbers, over, seconds

SIDES = ["semcache", "hand", "eager", "plain"]
EAGER = {"SEMCACHE_GATE": "eager"}
BYTES = ("h2d", "d2h", "p2p", "mapped")


class Over(Exception):
    """The time is over."""


def sums(folder):
    """What the reports of all ranks say, added up."""
    total = {"dgemv": 0, "dgemv_offloaded": 0, "fallbacks": 0, "degraded": [], **{f"total_{key}": 0 for key in BYTES}}
    files = glob.glob(os.path.join(folder, "*.json"))
    for path in files:
        with open(path, encoding="utf-8") as f:
            report = json.load(f)
        for key in BYTES:
            total[f"total_{key}"] += report["bytes"][key]
        dgemv = report["calls"].get("dgemv", {"offloaded": 0, "host": 0})
        total["dgemv"] += dgemv["offloaded"] + dgemv["host"]
        total["dgemv_offloaded"] += dgemv["offloaded"]
        total["fallbacks"] += report["fallbacks"]
        total["degraded"] += [entry for entry in report["degraded"] if entry not in total["degraded"]]
    return dict(total, reports=len(files))


def run(o, side, ranks, gpus, words, env=None):
    """The JSON lines of a job."""
    left, reports, more = o.end - time.monotonic(), os.path.join(o.out, "reports"), dict(env or {})
    if left < 10:
        raise Over
    cores = max(1, (os.cpu_count() or 1) // ranks)
    more.update({"OPENBLAS_NUM_THREADS": str(cores), "BENCH_THREADS": str(min(cores, 64))})
    libraries, inner = [LIB], list(map(str, words))
    if side == "plain":
        more["BENCH_WAKE"] = "0.1"
    elif side == "hand":
        libraries += toolkit_folders()
        more["GPUS"] = str(gpus)
    else:
        more.update(EAGER if side == "eager" else {})
        devices = f"sim:{gpus}" if SIMULATED else "cuda:" + ",".join(map(str, range(gpus)))
        inner = [semcache("ours"), "run", "--devices", devices, "--", *inner]
    if SIMULATED:
        # A rank that waits leaves its core to simulated devices.
        more.update({"BENCH_WAKE": "0.1", "OMPI_MCA_mpi_yield_when_idle": "1"})
    path = ":".join(filter(None, [*libraries, os.environ.get("LD_LIBRARY_PATH")]))
    shown = " ".join([*(f"{k}={v}" for k, v in sorted(more.items())), "mpirun", "-n", str(ranks), quoted(inner)])
    if side in ("semcache", "eager"):
        inner[2:2] = ["--report", os.path.join(reports, "%p.json")]
    # mpirun ends its ranks when the time is over; killed itself it would leave them.
    full = ["bash", "-c", '. "$0" && exec mpirun "$@"', os.path.join(HERE, "mpi", "env.sh"),
            "--timeout", str(int(left)), "-n", str(ranks), *inner]
    shutil.rmtree(reports, ignore_errors=True)
    os.makedirs(reports)
    clean = {k: v for k, v in os.environ.items() if side in ("semcache", "eager") or not k.startswith("SEMCACHE_")}
    begun = time.monotonic()
    done = subprocess.run(full, env=dict(clean, LD_LIBRARY_PATH=path, **more), capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          timeout=left + 60, check=False, errors="replace")
    took = time.monotonic() - begun
    print(f"{took:8.1f} s  {shown}", flush=True)
    if done.returncode:
        if o.end - time.monotonic() < 5:
            raise Over
        said = [l for l in done.stderr.splitlines() if l.strip() and not l.startswith("---")]
        raise RuntimeError(f"{shown}: status {done.returncode}: {' '.join(said)[:400]}")
    found = [dict(json.loads(line), side=side, ranks=ranks, gpus=gpus, took=round(took, 2), command=shown)
             for line in done.stdout.splitlines() if line.startswith("{")]
    if not found:
        raise RuntimeError(f"{shown}: printed nothing")
    if side in ("semcache", "eager"):
        counted = sums(reports)
        found = [dict(line, **counted) for line in found]
    shutil.rmtree(reports)
    with open(os.path.join(o.out, "mpi.jsonl"), "a", encoding="utf-8") as f:
        f.writelines(json.dumps(line) + "\n" for line in found)
    return found


def attempted(o, side, *words, **more):
    """As `run`; a failure is noted, and nothing comes back. Beside simulated devices there may be no GPU."""
    try:
        return run(o, side, *words, **more)
    except RuntimeError as error:
        if side == "hand" and SIMULATED and "no CUDA here" in str(error):
            return []
        o.failures.append(str(error))
    except subprocess.TimeoutExpired as error:
        o.failures.append(str(error)[:400])
    return []


def moved(line):
    """Megabytes per step: to GPUs, home, and written to the host by kernels."""
    if not line:
        return "-"
    text = f"{line['h2d'] / 1e6:.3f}, {line['d2h'] / 1e6:.3f}"
    return text + (f", {line['total_mapped'] / line['steps'] / (len(line['seconds']) + 1) / 1e6:.3f}" if "total_mapped" in line else "")


def share(line):
    """Of the calls of dgemv, those that GPUs computed."""
    return f"{line['dgemv_offloaded']} of {line['dgemv']}" if line else "-"


def compared(o, of):
    """All sides solve the same system."""
    first = next(iter(of.values()), None)
    for side, line in of.items():
        tolerance = 1e-9 if line["steps"] == first["steps"] else 1e-3
        if not abs(line["check"] - first["check"]) <= tolerance * abs(first["check"]):
            o.failures.append(f"{line['command']}: the check is {line['check']}, not {first['check']}")


def system(o, name):
    """Jacobi or conjugate gradients: the rows of the table."""
    rows, alone = [], {}
    for ranks, gpus in o.places:
        for n in o.sizes:
            of = {}
            for side in o.sides:
                steps, reps = o.few if side in ("eager", "plain") else (o.steps, o.reps)
                program = [f"{BIN}/peer_mpi", name] if side == "hand" else [f"{BIN}/mpi_{name}"]
                lines = attempted(o, side, ranks, gpus, [*program, n, steps, reps])
                if lines:
                    of[side] = min(lines, key=lambda line: line["step"])
            compared(o, of)
            step = {side: line["step"] for side, line in of.items()}
            ours, hand, eager = (of.get(side, {}) for side in ("semcache", "hand", "eager"))
            if ranks == gpus == 1:
                alone[n] = step.get("semcache")
            matrix = 8e-9 * n * n
            sent = ", ".join(f"{ours['total_' + key] / 1e9:.3f}" for key in ("h2d", "d2h", "mapped")) if ours else "-"
            rows.append([str(n), str(ranks), str(gpus), seconds(step.get("semcache")), seconds(step.get("hand")), hand.get("variant", "-"),
                         over(step.get("semcache"), step.get("hand")), seconds(step.get("eager")), over(step.get("eager"), step.get("semcache")),
                         seconds(step.get("plain")), over(step.get("plain"), step.get("semcache")), over(alone.get(n), step.get("semcache")),
                         moved(ours), moved(hand), moved(eager), f"{matrix:.3f}", sent, share(ours), share(eager), seconds(ours.get("first"))])
            save(o, name, table(o, name, rows))
    return table(o, name, rows)


def table(o, name, rows):
    head = ["n", "ranks", "GPUs", "semcache", "by hand", "its way", "semcache/by hand", "eager", "eager/semcache", "plain", "plain/semcache",
            "times one rank", "MB per step", "MB, by hand", "MB, eager", "GB of the matrix",
            "GB in all: to GPUs, home, mapped", "dgemv on GPUs", "eager: on GPUs", "first product"]
    title = {"jacobi": "Jacobi", "cg": "Conjugate gradients"}[name]
    few = f"{o.few[0]}, {o.few[1]} times, of eager and plain" if o.few != (o.steps, o.reps) else ""
    return [f"## {title}", "", f"Per step, the median of {o.reps} times {o.steps}{'; ' + few if few else ''}. A dense system of n rows, shared "
            "out among ranks. *By hand*: cuBLAS, the faster of two ways. *Eager*: SEMCACHE_GATE=eager. *Plain*: OpenBLAS with all cores, "
            "shared out among ranks. *MB per step*: of all ranks, to GPUs, home by copies, home by kernels that write to the host; *in "
            "all*: of the whole run, in which products of order 2048 start the GPUs. *First product*: sends the matrix.", "",
            markdown(head, rows)]


def pingpong(o):
    there = max([g for r, g in o.places if r == 2] or [min(o.there, 2)])
    times = {}
    for side in o.sides:
        program = [f"{BIN}/peer_mpi", "pingpong"] if side == "hand" else [f"{BIN}/mpi_pingpong"]
        env = {} if side in ("hand", "plain") else {"SEMCACHE_OFFLOAD": "always"}
        for line in attempted(o, side, 2, there, [*program, *([o.bytes] if o.bytes else [])], env=env):
            times[side, line["variant"], line["size"]] = line["us"]
    head = ["bytes", *(f"{side}: {variant}" for side, variant in COLUMNS), "sent/by hand", "both/by hand"]
    rows = []
    for size in sorted({size for _, _, size in times}):
        us = lambda side, variant: times.get((side, variant, size))
        rows.append([str(size), *(f"{us(*c):.1f}" if us(*c) is not None else "-" for c in COLUMNS),
                     over(us("semcache", "sent"), us("hand", "sent")), over(us("semcache", "both"), us("hand", "both"))])
    return ["## Messages", "", f"Microseconds of a message between two ranks on {there} GPU{'s' if there > 1 else ''}, half of there and "
            "back. *loop*: many in a row; *host*: each by itself; either in memory that no BLAS call uses. *sent*: a result of dgemm; "
            "*both*: into the memory of another. By hand: *sent* is copied home first, *both* copied to the other GPU, too; *d2h* and "
            "*h2d* are these copies alone, page-locked.", "", markdown(head, rows)]


def scalapack(o):
    """Products and factorizations on square grids: the rows of the table."""
    rows = []
    for ranks, gpus in o.places:
        if math.isqrt(ranks) ** 2 != ranks:
            continue
        for routine in ("pdgemm", "pdpotrf", "pdgetrf"):
            for n in o.sizes:
                step, tflops = {}, {}
                for side in (side for side in o.sides if side != "hand"):
                    reps = o.few[1] if side in ("eager", "plain") else o.reps
                    for line in attempted(o, side, ranks, gpus, [f"{BIN}/mpi_scalapack", routine, n, o.block, reps]):
                        step[side], tflops[side] = line["step"], line["tflops"]
                rows.append([routine, str(n), str(ranks), str(gpus), *(seconds(step.get(side)) for side in ("semcache", "eager", "plain")),
                             over(step.get("plain"), step.get("semcache")), over(step.get("eager"), step.get("semcache")),
                             f"{tflops['semcache']:.2f}" if "semcache" in tflops else "-"])
                save(o, "scalapack", scalapack_table(o, rows))
    return scalapack_table(o, rows)


def scalapack_table(o, rows):
    head = ["routine", "order", "ranks", "GPUs", "semcache", "eager", "plain", "plain/semcache", "eager/semcache", "Tflop/s"]
    return ["## ScaLAPACK", "", f"Blocks of {o.block}; the median of {o.reps} times ({o.few[1]} of eager and plain), with matrices that the "
            "CPU has just written. Products are compared exactly, factorizations by the solution of a system.", "", markdown(head, rows)]


COLUMNS = [(side, variant) for side in ("plain", "semcache", "eager") for variant in ("loop", "host", "sent", "both")] + [
    ("hand", variant) for variant in ("sent", "both", "d2h", "h2d")]


def save(o, mode, lines):
    """OUT/mpi.md, after each row: a run that is stopped leaves what it has."""
    o.parts[mode] = lines
    text = ["# MPI programs", "", machine(o), ""]
    for part in o.parts.values():
        text += [*part, ""]
    if o.failures:
        text += ["Failed:", "", *(f"* {failure}" for failure in o.failures), ""]
    with open(os.path.join(o.out, "mpi.md"), "w", encoding="utf-8") as f:
        f.write("\n".join(text))
    return text


def pair(text):
    first, *second = text.split(":")
    return int(first), int(second[0] if second else first)


def main():
    p = argparse.ArgumentParser(prog="gpu-bench.sh mpi", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out")
    p.add_argument("--sizes", default=[16384, 32768], type=numbers, help="rows of the systems (16384,32768)")
    p.add_argument("--ranks", default="1,2,4,2:1", help="RANKS or RANKS:GPUS (1,2,4,2:1)")
    p.add_argument("--steps", default=50, type=int, help="steps of a repetition (50)")
    p.add_argument("--reps", default=5, type=int, help="repetitions (5)")
    p.add_argument("--few", default=(10, 2), type=pair, help="steps and repetitions of eager and plain, which are slow (10:2)")
    p.add_argument("--sides", default=SIDES, type=lambda text: text.split(","), help="of " + ",".join(SIDES))
    p.add_argument("--block", default=256, type=int, help="order of ScaLAPACK's blocks (256)")
    p.add_argument("--bytes", help="sizes of messages (8 to 64 MiB)")
    p.add_argument("--budget", default=540, type=float, help="seconds in all (540)")
    p.add_argument("--modes", default="jacobi,cg,pingpong,scalapack", type=lambda text: text.split(","))
    o = p.parse_args()
    if not os.path.exists(os.path.join(HERE, "mpi", "env.sh")):
        sys.exit("gpu-bench: there is no MPI in this folder")
    o.name, o.failures, o.parts = "mpi", [], {}
    os.makedirs(o.out, exist_ok=True)
    unpack()
    o.end = time.monotonic() + o.budget
    # DEVICES=sim:2
    count = os.environ.get("DEVICES", "").rpartition(":")[2]
    o.there = (int(count) if count.isdigit() else 2) if SIMULATED else len(tell(["nvidia-smi", "-L"]).splitlines())
    if o.there == 0:
        sys.exit("gpu-bench: no GPU; DEVICES=sim:2 tries this script")
    o.places = [place for place in map(pair, o.ranks.split(",")) if place[1] <= o.there]
    for mode in o.modes:
        try:
            save(o, mode, {"pingpong": pingpong, "scalapack": scalapack}.get(mode, lambda o: system(o, mode))(o))
        except Over:
            o.failures.append(f"the time was over in {mode}")
            break
    print("\n".join(save(o, "", [])))
    return 1 if o.failures else 0


if __name__ == "__main__":
    sys.exit(main())
