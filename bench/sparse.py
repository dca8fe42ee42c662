#!/usr/bin/env python3
"""Products of sparse matrices on GPUs, in a folder that `gpu-bench.sh build` made, against cuSPARSE by hand.

    sparse.py OUT [--rows 1000000,10000000] [--gpus 1,2,4] [--steps 50] [--reps 9] [--budget SECONDS] [--modes products,cg,out,scipy]

OUT/sparse.jsonl has a line per run (bench/spmv.c, cg.c, peer_csr.c, peer_cg.c and scipy_cg.py say of what), OUT/sparse.md the tables.
*products*: of four patterns with a vector, on one GPU. *cg*: conjugate gradients on as many GPUs as there are of those asked for. *out*: a
matrix of three times the memory that a GPU may use. *scipy*: its conjugate gradients, where Python has SciPy. SEMCACHE_* of the caller
hold; DEVICES=sim runs our side on simulated devices, to try this script. Exit status 1 when a run failed.
"""

import argparse
import importlib.util
import json
import os
import platform
import subprocess
import sys
import time

from run import BIN, HERE, LIB, markdown, quoted, semcache, tell, time_text, toolkit_folders, unpack

PATTERNS = ["laplace", "banded", "random", "power"]
SIMULATED = os.environ.get("DEVICES", "cuda").startswith("sim")


def run(o, command, gpus=None, env=None):
    """The JSON lines of one process: under the library with `gpus` of them, else by itself."""
    full, libraries, more = list(map(str, command)), [LIB], dict(env or {})
    report = os.path.join(o.out, "report.json")
    if gpus:
        devices = f"sim:{gpus}" if SIMULATED else "cuda:" + ",".join(map(str, range(gpus)))
        full = [semcache("ours"), "run", "--devices", devices, "--", *full]
    else:
        libraries += toolkit_folders()
    path = ":".join(filter(None, [*libraries, os.environ.get("LD_LIBRARY_PATH")]))
    shown = " ".join([*(f"{k}={v}" for k, v in more.items()), quoted(full)])
    if gpus:
        full[2:2] = ["--report", report]
    begun = time.monotonic()
    done = subprocess.run(full, env=dict(os.environ, LD_LIBRARY_PATH=path, **more), capture_output=True, text=True,
                          timeout=max(5, o.end - begun), check=False)
    print(f"{time.monotonic() - begun:8.1f} s  {shown}", flush=True)
    if done.returncode:
        raise RuntimeError(f"{shown}: status {done.returncode}: {done.stderr.strip()[-300:]}")
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if gpus:
        with open(report, encoding="utf-8") as f:
            counted = json.load(f)
        os.remove(report)
        for line in found:
            line.update({key: counted[key] for key in ("sparse", "sparse_host", "sparse_links", "fallbacks")})
    with open(os.path.join(o.out, o.name + ".jsonl"), "a", encoding="utf-8") as f:
        f.writelines(json.dumps(dict(line, command=shown)) + "\n" for line in found)
    return found


def peer(o, command, env=None):
    """As `run` without the library. Beside simulated devices it may have no GPU: then nothing."""
    try:
        return run(o, command, env=env)
    except RuntimeError as error:
        if SIMULATED and "no CUDA here" in str(error):
            return []
        raise


def ours(o, command, gpus, env=None):
    return run(o, command, gpus, env)[0]


def over(a, b):
    return f"{a / b:.2f}" if a and b else "-"


def seconds(s):
    return time_text(s) if s else "-"


def share(line):
    """Of the process's products, those that GPUs computed."""
    return f"{line['sparse']} of {line['sparse'] + line['sparse_host']}"


def mega(line, *keys):
    return f"{sum(line[key] for key in keys) / 1e6:.3f}"


def products(o):
    """One GPU."""
    rows = []
    for n in o.rows:
        for pattern in PATTERNS:
            line = ours(o, [f"{BIN}/spmv", pattern, n, o.reps], 1)
            hand = next(iter(peer(o, [f"{BIN}/peer_csr", pattern, n, o.reps])), {})
            if hand and hand["check"] != line["check"]:
                raise RuntimeError(f"{pattern}, {n} rows: the sum is {line['check']}, must be {hand['check']}")
            rows.append([pattern, str(line["rows"]), str(line["nnz"]), seconds(line["spmv"]), seconds(hand.get("spmv")),
                         over(line["spmv"], hand.get("spmv")), f"{line['GB_s']:.0f}", mega(line, "h2d", "d2h"), share(line),
                         seconds(line["first"]), seconds(hand.get("host"))])
    head = ["pattern", "rows", "entries", "semcache", "cuSPARSE", "semcache/cuSPARSE", "GB/s", "MB from and to the host", "on GPUs",
            "first product", "host, a loop"]
    return ["## Products with a vector", "", "Per product, each on the result of the one before, on one GPU. *First product*: sends the "
            "matrix. *GB/s*: 12 bytes for each entry and 20 for each row.", "", markdown(head, rows)]


def cg(o):
    """As many GPUs as there are."""
    there = max(o.gpus) if SIMULATED else len(tell(["nvidia-smi", "-L"]).splitlines())
    rows = []
    for n in o.rows:
        alone = None
        for gpus in (g for g in o.gpus if g <= there):
            line = ours(o, [f"{BIN}/cg", n, o.steps, o.reps], gpus)
            hands = peer(o, [f"{BIN}/peer_cg", n, o.steps, o.reps], {"GPUS": str(gpus)})
            alone = line["step"] if gpus == 1 else alone
            if any(abs(h["residual"] - line["residual"]) > 1e-4 * line["residual"] for h in hands):
                raise RuntimeError(f"cg, {n} rows: the residual is {line['residual']}, by hand {hands[0]['residual']}")
            hand = min(hands, key=lambda h: h["step"], default={})
            rows.append([str(line["rows"]), str(gpus), seconds(line["step"]), seconds(hand.get("step")),
                         over(line["step"], hand.get("step")), hand.get("variant", "-"), over(alone, line["step"]),
                         mega(line, "h2d", "d2h"), mega(line, "p2p"), mega(hand, "p2p") if hand else "-",
                         share(line), seconds(line["first"])])
    head = ["rows", "GPUs", "semcache", "by hand", "semcache/by hand", "its way", "times one GPU", "MB from and to the host",
            "between GPUs", "by hand between GPUs", "products on GPUs", "first"]
    return ["## Conjugate gradients", "", f"Per step, of {o.steps}; a Laplacian of 27 points. *By hand*: cuSPARSE and cuBLAS, the faster "
            "of two ways with scalars. *First*: a step of the first repetition, which sends the matrix.", "", markdown(head, rows)]


def out(o):
    """The matrix is three times as large as the memory."""
    rows = []
    for n in o.rows:
        k = round(n ** (1 / 3))
        k -= k ** 3 > n
        nnz = (3 * k - 2) ** 3
        matrix = 12 * nnz + 4 * (k ** 3 + 1)
        memory = matrix // 3
        line = ours(o, [f"{BIN}/spmv", "laplace", n, max(1, o.reps // 3)], 1, {"SEMCACHE_MEMORY": str(memory)})
        hand = next(iter(peer(o, [f"{BIN}/peer_csr", "laplace", n, o.reps, "copies"])), {})
        sent, rate = line["h2d"], hand.get("GB_s")
        least = sent / rate / 1e9 if rate else None
        rows.append([str(line["rows"]), f"{matrix / 1e9:.3f}", f"{memory / 1e9:.3f}", seconds(line["spmv"]), f"{sent / 1e9:.3f}",
                     f"{line['d2h'] / 1e9:.3f}", f"{sent / line['spmv'] / 1e9:.1f}", f"{rate:.1f}" if rate else "-",
                     over(line["spmv"], least), over(line["spmv"], hand.get("spmv")), share(line)])
    head = ["rows", "GB of the matrix", "GB of memory", "semcache", "GB to the GPU", "to the host", "GB/s", "GB/s of copies",
            "over its bytes' copies", "over copies of the matrix", "on GPUs"]
    return ["## A matrix of three times the memory", "", "Per product with a vector, a Laplacian of 27 points, SEMCACHE_MEMORY set. "
            "*Copies*: from page-locked memory, in pieces of 32 MiB, nothing else being done.", "", markdown(head, rows)]


def scipy(o):
    """Our side has `semcache.csr(A)` in place of A."""
    if importlib.util.find_spec("scipy") is None:
        return ["## SciPy", "", "Not measured: Python has no SciPy here."]
    rows = []
    program = [sys.executable, f"{HERE}/scipy_cg.py"]
    for n in o.rows:
        # SciPy's own products take 0.3 s each of 10 million rows.
        reps, steps = (2, min(o.steps, 20)) if n > 2000000 else (min(o.reps, 5), o.steps)
        plain = run(o, [*program, n, steps, reps, "scipy,free"], env={"PYTHONDONTWRITEBYTECODE": "1"})
        lines = run(o, [*program, n, steps, reps, "semcache,free"], 1, {"PYTHONDONTWRITEBYTECODE": "1"})
        step = {f"{line['variant']}{' with' if of is lines else ''}": line["step"] for of in (plain, lines) for line in of}
        rows.append([str(lines[0]["rows"]), str(steps), seconds(step["scipy"]), seconds(step["free"]), seconds(step["semcache with"]),
                     seconds(step["free with"]), over(step["semcache with"], step["free"]), over(step["scipy"], step["semcache with"])])
    head = ["rows", "steps", "SciPy", "products for nothing", "semcache.csr(A)", "under semcache, products for nothing",
            "semcache/nothing", "SciPy/semcache"]
    return ["## SciPy", "", "`scipy.sparse.linalg.cg`, per step, on one GPU. *Products for nothing*: the same loop, which "
            "gets the products of a run before.", "", markdown(head, rows)]


def machine(o):
    gpus = tell(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]).splitlines()
    cpu = next((l.split(":", 1)[1].strip() for l in open("/proc/cpuinfo", encoding="utf-8") if l.startswith("model name")), "?")
    words = [w for w in sys.argv[1:] if w != o.out]
    settings = [f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith("SEMCACHE_")]
    version = os.path.join(HERE, "version")
    lines = [f"* GPUs: {len(gpus)} x {gpus[0]}" if gpus else "* GPUs: none; simulated devices",
             f"* CPU: {cpu}, {os.cpu_count()} cores; Linux {platform.release()}",
             f"* command: `{' '.join(settings + ['gpu-bench.sh ' + o.name + ' OUT', *words])}`"]
    if os.path.exists(version):
        with open(version, encoding="utf-8") as f:
            lines.append(f"* the library: {f.read().strip()}")
    return "\n".join(lines)


def numbers(text):
    return [int(n) for n in text.split(",")]


def main():
    p = argparse.ArgumentParser(prog="gpu-bench.sh sparse", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out")
    p.add_argument("--rows", default=[1000000, 10000000], type=numbers, help="of the matrices (1000000,10000000)")
    p.add_argument("--gpus", default=[1, 2, 4], type=numbers, help="numbers of GPUs (1,2,4)")
    p.add_argument("--steps", default=50, type=int, help="of conjugate gradients (50)")
    p.add_argument("--reps", default=9, type=int, help="repetitions (9)")
    p.add_argument("--budget", default=540, type=float, help="seconds in all (540)")
    p.add_argument("--modes", default="products,cg,out,scipy", type=lambda text: text.split(","))
    o = p.parse_args()
    o.name = "sparse"
    os.makedirs(o.out, exist_ok=True)
    unpack()
    o.end = time.monotonic() + o.budget
    lines, failed = [], False
    for mode in o.modes:
        try:
            lines += {"products": products, "cg": cg, "out": out, "scipy": scipy}[mode](o) + [""]
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            lines += [f"{mode}: {error}", ""]
            failed = True
        with open(os.path.join(o.out, "sparse.md"), "w", encoding="utf-8") as f:
            f.write("\n".join(["# Sparse matrices", "", machine(o), "", *lines]))
    print("\n".join(lines))
    return failed


if __name__ == "__main__":
    sys.exit(main())
