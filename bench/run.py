#!/usr/bin/env python3
"""Runs the benchmarks of a folder that `gpu-bench.sh build` made, and writes the table.

    run.py OUT [--quick] [--only NAMES] [--gpus N] [--budget SECONDS] [--reps N]

OUT/bench.jsonl has one line per measurement, OUT/bench.md the table. NAMES is a comma-separated list of
limits, abac, dgemm, resident, jacobi, chain, readback, numpy; a name may have sizes: abac:16384. Only when
named: fork (MiB after a colon: fork:8192); families: every level-3 routine, resident (size 8192) and refilled
(16384); dsymm and its like after a colon choose routines, the complex ones included: families:16384:dtrmm:zherk.
DEVICES (default cuda) is what `semcache run --devices` gets. Variables SEMCACHE_* go to our side and are named
in the table. Exit status 1 when a number was wrong, or when one of our side did not run.
"""

import argparse
import glob
import json
import lzma
import os
import platform
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BIN = os.path.join(HERE, "bin")
LIB = os.path.join(HERE, "lib")
NAMES = ["limits", "abac", "dgemm", "resident", "jacobi", "chain", "readback", "numpy"]
FAMILIES = ["dgemm", "dsymm", "dsyrk", "dsyr2k", "dtrmm", "dtrsm"]
COMPLEX_FAMILIES = ["zhemm", "zherk", "zher2k"]


def toolkit_folders():
    """Where pip and the toolkit put CUDA's libraries."""
    found = []
    for path in sys.path:
        found += glob.glob(os.path.join(path, "nvidia", "cu1[23]", "lib"))
        found += glob.glob(os.path.join(path, "nvidia", "c*", "lib"))
    found += ["/usr/local/cuda/lib64", "/usr/local/cuda/targets/x86_64-linux/lib"]
    return [f for f in dict.fromkeys(found) if os.path.isdir(f)]


def semcache(side):
    """The command of the library under test, or of the base library: either lies in the `lib` beside its `bin`."""
    return os.path.join(HERE, *(["base"] if side == "base" else []), "bin", "semcache")


def choose_kernels():
    """OPENBLAS_CORETYPE, unless it is set. OpenBLAS 0.3.21 does not know processors of later years: on Xeons with AVX-512 of 2024 its
    dgemm took six times as long as with these kernels."""
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        flags = next((l.split() for l in f if l.startswith("flags")), [])
    if core := next((name for flag, name in (("avx512f", "SkylakeX"), ("avx2", "Haswell")) if flag in flags), None):
        os.environ.setdefault("OPENBLAS_CORETYPE", core)


def unpack():
    """The packed OpenBLAS becomes a file, at the first use of the folder, and its kernels are chosen."""
    choose_kernels()
    openblas = os.path.join(LIB, "libopenblas.so.0")
    if not os.path.exists(openblas):
        with lzma.open(openblas + ".xz") as f, open(openblas, "wb") as g:
            shutil.copyfileobj(f, g)


def quoted(command):
    return " ".join(shlex.quote(os.path.relpath(w, HERE) if w.startswith(HERE + "/") else w) for w in command)


class Bench:
    RAW, MODE = "bench.jsonl", "w"

    def __init__(self, options):
        self.o = options
        self.devices = os.environ.get("DEVICES", "cuda")
        self.settings = {k: v for k, v in sorted(os.environ.items())
                         if k.startswith("SEMCACHE_") and k not in ("SEMCACHE_MAIN_PID",)}
        self.lines, self.notes, self.bad = [], [], False
        unpack()
        self.end = time.monotonic() + options.budget
        self.raw = open(os.path.join(options.out, self.RAW), self.MODE, encoding="utf-8")
        self.wanted, self.families = {}, []
        for word in (options.only or ",".join(NAMES)).split(","):
            name, *sizes = word.split(":")
            if name not in NAMES + ["fork", "families"]:
                sys.exit(f"gpu-bench: no benchmark {name!r}; there are {' '.join(NAMES)} fork families")
            if name == "families":
                self.families += [s for s in sizes if not s.isdigit()]
                if unknown := set(self.families) - set(FAMILIES + COMPLEX_FAMILIES):
                    sys.exit(f"gpu-bench: no family {' '.join(unknown)}; there are {' '.join(FAMILIES + COMPLEX_FAMILIES)}")
                sizes = [s for s in sizes if s.isdigit()]
            self.wanted[name] = [int(s) for s in sizes]
        if self.devices == "cuda" and options.gpus:
            self.devices = "cuda:" + ",".join(str(g) for g in range(options.gpus))

    def want(self, name, size=None):
        if name not in self.wanted:
            return False
        return size is None or not self.wanted[name] or size in self.wanted[name]

    # -- running -------------------------------------------------------------------------------------------

    def run(self, who, command, timeout, env=None, key=None, label=None):
        """Runs one program and takes its JSON lines. `who` is ours, peer, or blas (plain); the key names a
        program that may stay away without the table being wrong."""
        left = self.end - time.monotonic()
        name = label or os.path.basename(command[0])
        if left < 5:
            self.note(f"not run, the time is over: {who} {quoted(command)}")
            self.bad |= who == "ours"
            return []
        environment = {k: v for k, v in os.environ.items() if not k.startswith("SEMCACHE_")}
        report = None
        if who in ("ours", "base"):
            report = tempfile.mktemp(suffix=".json")
            full = [semcache(who), "run", "--devices", self.devices, "--report", report, "--", *command]
            environment.update(self.settings)
            libraries = [LIB]
        else:
            full = list(command)
            libraries = [LIB] + (toolkit_folders() if who == "peer" else [])
            if who == "peer" and self.o.gpus:
                environment["GPUS"] = str(self.o.gpus)
        before = environment.get("LD_LIBRARY_PATH")
        environment["LD_LIBRARY_PATH"] = ":".join(libraries + ([before] if before else []))
        if self.o.quick:
            environment.setdefault("BENCH_WAKE", "0.05")
        environment.update(env or {})
        began = time.monotonic()
        process = subprocess.Popen(full, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
                                   start_new_session=True, errors="replace")
        # With --quick the times have no meaning, so a slow machine gets more time.
        limit, late = min(timeout * (10 if self.o.quick else 1), left), False
        try:
            out, err = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            late = True
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
        wall = time.monotonic() - began
        taken = []
        for line in out.splitlines():
            if line.startswith("{"):
                entry = json.loads(line)
                entry.update(who=who, command=quoted(command), status=process.returncode)
                if label:
                    entry["label"] = label
                taken.append(entry)
        said = [l for l in err.splitlines() if l.strip()]
        if report and os.path.exists(report):
            with open(report, encoding="utf-8") as f:
                full_report = json.load(f)
            os.unlink(report)
            calls = full_report.get("calls", {})
            summary = {k: full_report.get(k) for k in ("bytes", "faults", "cache", "fallbacks", "degraded")}
            summary["calls"] = calls
            off = sum(c["offloaded"] for c in calls.values())
            host = sum(c["host"] for c in calls.values())
            for entry in taken:
                entry["offloaded"] = f"{off}/{off + host}"
                entry["bytes"] = full_report.get("bytes", {})
            self.write({"report": quoted(command), "said": said[-3:], "env": env or {}, **summary})
        for entry in taken:
            self.write(entry)
        if late:
            self.note(f"{who} {name}: stopped after {limit:.0f} s: {quoted(command)}")
            self.bad |= who == "ours"
        elif process.returncode:
            last = said[-1] if said else "nothing said"
            if wrong := [l for l in said if l.startswith("WRONG")]:
                last = wrong[0]
                self.bad = True
            if who == "ours":
                last = " / ".join(said[-3:])
                self.bad = True
            self.note(f"{who} {name}: status {process.returncode}: {last}")
        print(f"  {wall:6.1f} s  {who:5} {' '.join(f'{k}={v}' for k, v in (env or {}).items())} {quoted(command)}"
              + (f"  status {process.returncode}" if process.returncode else ""), flush=True)
        # The times of a program that found a wrong number are not used.
        good = [] if any(l.startswith("WRONG") for l in said) else taken
        self.lines += good
        return good

    def write(self, entry):
        self.raw.write(json.dumps(entry) + "\n")
        self.raw.flush()

    def note(self, text):
        print("  note: " + text, flush=True)
        self.notes.append(text)
        self.write({"note": text})


# -- figures -----------------------------------------------------------------------------------------------------

def find(lines, variant, bench=None, size=None, who=None, **more):
    """All seconds of the lines that match."""
    out = []
    for line in lines:
        if line["variant"] == variant and (bench is None or line["bench"] == bench) and (
                size is None or line["size"] == size) and (who is None or line["who"] == who) and all(
                line.get(k) == v for k, v in more.items()):
            out.append(line)
    if not out:
        return None
    joined = dict(out[0])
    for key in ("seconds", "call", "read", "copy"):
        if isinstance(joined.get(key), list):
            joined[key] = [v for line in out for v in line.get(key, [])]
    return joined if joined["seconds"] else None


def markdown(head, rows):
    """A table."""
    return "\n".join("| " + " | ".join(x) + " |" for x in [head, ["---"] * len(head), *rows])


def notes_text(notes):
    """The lines of a page's section of notes; none without notes."""
    return ["Notes:", "", *(f"* {n}" for n in notes), ""] if notes else []


def time_text(s):
    return f"{s:.4f} s" if s >= 0.1 else f"{s * 1e3:.3f} ms" if s >= 1e-3 else f"{s * 1e6:.2f} us"


def figure(line, key="seconds"):
    if not line or not line.get(key):
        return "-"
    v = line[key]
    return f"{time_text(statistics.median(v))} ({time_text(min(v))} .. {time_text(max(v))})" if len(v) > 1 else time_text(v[0])


def med(line, key="seconds"):
    return statistics.median(line[key]) if line and line.get(key) else None


class Table:
    def __init__(self, judged):
        self.rows, self.judged = [], judged

    def row(self, bench, size, ours, peer_name, peer, target="", limit=None, value=None, name=None, against=None, key="seconds"):
        """`value` must be at most `limit`; without a value it is ours / peer (ratio)."""
        a, b = med(ours, key), against if against is not None else med(peer, key)
        ratio = a / b if a and b else None
        if value is None:
            value = ratio
        met = "" if not target else "?" if value is None else "-" if not self.judged else "yes" if value <= limit else "NO"
        self.rows.append([bench, str(size), name or (ours["variant"] if ours else "-"), figure(ours, key), peer_name,
                          figure(peer, key) if peer else (time_text(against) if against is not None else "-"),
                          f"{ratio:.3f}" if ratio else "-", target, met, (ours or {}).get("offloaded", "")])

    def amount(self, bench, size, name, ours, peer_name, peer, target, limit, line):
        """Bytes instead of times."""
        met = "-" if not self.judged else "yes" if ours <= peer * limit else "NO"
        self.rows.append([bench, str(size), name, f"{ours / 1e6:.2f} MB", peer_name, f"{peer / 1e6:.2f} MB",
                          f"{ours / peer:.4f}", target, met, line.get("offloaded", "")])

    def text(self):
        head = ["benchmark", "size", "variant", "ours: median (min .. max)", "peer", "peer: median (min .. max)", "ours/peer",
                "target", "met?", "offloaded"]
        lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        return "\n".join(lines + ["| " + " | ".join(r) + " |" for r in self.rows])


# -- the benchmarks ------------------------------------------------------------------------------------------------

PEERS = [("hand-written pipeline", "hand"), ("hand-written pipeline, D piece by piece in the last 4 chunks", "hand4"),
         ("hand-written, serial", "serial"), ("cuBLASXt, registered, best block", "xt"), ("managed memory", "managed")]


def product(b, table, bench, terms, sizes):
    reps = str(b.o.reps)
    gpus = 1
    for n in sizes:
        if not b.want(bench, n):
            continue
        small = n <= 8192
        N, T = str(n), str(terms)
        lines = []
        take = lambda *a, **k: lines.extend(b.run(*a, **k))
        variants = "resident,inplace,realloc" if bench == "abac" else "inplace,realloc"
        take("ours", [f"{BIN}/abac", N, T, variants, reps], 90)
        if bench == "abac":
            for _ in range(5 if n >= 16384 else 2):
                take("ours", [f"{BIN}/abac", N, T, "cold", "1"], 40)
            if n >= 16384 or b.o.quick:
                take("ours", [f"{BIN}/abac", N, T, "first", "1"], 40)
            if n >= 16384:
                take("ours", [f"{BIN}/abac", N, T, "resident,inplace", reps, "1"], 60, label="1 reader")
        kinds = "hand,hand4,serial,xt" if bench == "abac" else "hand,serial,xt"
        take("peer", [f"{BIN}/peer_abac", N, T, kinds, reps], 120)
        if n == 8192 and bench == "abac" or b.o.quick:
            take("peer", [f"{BIN}/peer_abac", N, T, "managed", reps], 60)
        if n >= 16384 and bench == "abac":
            take("peer", [f"{BIN}/peer_abac", N, T, "hand", reps, "1"], 60, label="1 reader")
        if bench == "abac" and n != 4096:
            for pin in (0, 1):
                nvblas(b, lines, N, T, pin)
        if small:
            take("blas", [f"{BIN}/abac", N, T, "inplace", "3" if n >= 8192 else reps], 90)
        for line in lines:
            gpus = max(gpus, line.get("gpus", 1))

        get = lambda v, who, **k: find(lines, v, bench, n, who, label=k.pop("label", None), **k)
        hand, xt = get("hand", "peer"), get("xt", "peer")
        judge = n == 16384 and bench == "abac"
        per = 1.25 if gpus >= 2 else 1.10
        if bench == "abac":
            r = get("resident", "ours")
            if judge and gpus == 1:
                table.row(bench, n, r, PEERS[0][0], hand, "at most 0.33 s", 0.33, med(r) or None)
            else:
                table.row(bench, n, r, PEERS[0][0], hand)
            for v in ("cold", "first"):
                if v == "first" and not get(v, "ours"):
                    continue
                table.row(bench, n, get(v, "ours"), PEERS[0][0], hand, "at most 2 x" if judge and v == "cold" else "", 2.0)
        for v in ("inplace", "realloc"):
            ours = get(v, "ours")
            shown = "refilled, " + ("in place" if v == "inplace" else "free + malloc")
            for title, kind in PEERS:
                if v == "realloc" and kind != ("hand" if bench == "abac" else "xt"):
                    continue
                peer = get(kind, "peer")
                if not peer and kind in ("managed", "hand4"):
                    continue
                if kind == "xt" and peer and "block" in peer:
                    title = f"cuBLASXt, registered, block {peer['block']}"
                target, limit = "", None
                if judge and kind == "hand":
                    target, limit = f"at most {per:g} x", per
                if bench == "dgemm" and kind == "xt":
                    target, limit = "at most 0.5 x", 0.5
                table.row(bench, n, ours, title, peer, target, limit, name=shown)
            for pin in (0, 1) if v == "inplace" else ():
                peer = find(lines, "inplace", bench, n, "peer", label=f"nvblas pin {pin}")
                if peer:
                    table.row(bench, n, ours, "NVBLAS" + (", autopin" if pin else ""), peer, name=shown)
            if v == "inplace" and (peer := get("inplace", "blas")):
                table.row(bench, n, ours, "OpenBLAS", peer, name=shown)
            if bench == "dgemm" and n == 4096:
                table.row(bench, n, ours, "-", None, "at most 0.012 s", 0.012, med(ours) or None, name=shown)
        for v in ("resident", "inplace"):
            if line := get(v, "ours", label="1 reader"):
                table.row(bench, n, line, PEERS[0][0], get("hand", "peer", label="1 reader"), name=f"{v}, D read by 1 thread")


def nvblas(b, lines, N, T, pin):
    """The same program with NVBLAS preloaded instead of us."""
    with tempfile.TemporaryDirectory() as d:
        log = os.path.join(d, "nvblas.log")
        gpus = "ALL" if not b.o.gpus else " ".join(str(g) for g in range(b.o.gpus))
        with open(os.path.join(d, "nvblas.conf"), "w", encoding="utf-8") as f:
            f.write(f"NVBLAS_LOGFILE {log}\nNVBLAS_CPU_BLAS_LIB {LIB}/libopenblas.so.0\nNVBLAS_GPU_LIST {gpus}\n")
            f.write("NVBLAS_TILE_DIM 2048\n" + ("NVBLAS_AUTOPIN_MEM_ENABLED\n" if pin else ""))
        name = next((p for f in toolkit_folders() for v in (13, 12)
                     if os.path.exists(p := os.path.join(f, f"libnvblas.so.{v}"))), "libnvblas.so.13")
        if not os.path.exists(name) and b.devices != "cuda" and not b.devices.startswith("cuda:"):
            b.note(f"peer NVBLAS: no CUDA here: no {name}")
            return
        lines += b.run("peer", [f"{BIN}/abac", N, T, "inplace", "3"], 45,
                       {"LD_PRELOAD": name, "NVBLAS_CONFIG_FILE": os.path.join(d, "nvblas.conf")}, label=f"nvblas pin {pin}")
        if os.path.exists(log):
            with open(log, encoding="utf-8", errors="replace") as f:
                text = f.read()
            b.write({"nvblas": pin, "log": text[-600:]})


def limits(b, _table):
    if not b.want("limits"):
        return
    args = ["16", "256", "2"] if b.o.quick else ["1024", "8192", "5"]
    b.run("peer", [f"{BIN}/peer_limits", *args], 60)


def resident(b, table):
    sizes = [s for s in ([256, 512] if b.o.quick else [2048, 4096, 8192, 16384]) if b.want("resident", s)]
    if not sizes:
        return
    text = ",".join(map(str, sizes))
    lines = b.run("ours", [f"{BIN}/resident", text, "10", str(b.o.reps)], 90)
    lines = lines + b.run("peer", [f"{BIN}/peer_resident", "gemm", text, "10", str(b.o.reps)], 90)
    for n in sizes:
        table.row("resident dgemm", n, find(lines, "resident", size=n), "cuBLAS on device memory", find(lines, "cublas", size=n),
                  "at most 1/0.98 x" if n == 8192 else "", 1 / 0.98, name="per call, 10 calls")


def jacobi(b, table):
    if not b.want("jacobi"):
        return
    n, steps = (512, 20) if b.o.quick else (32768, 50)
    lines = b.run("ours", [f"{BIN}/jacobi", str(n), str(steps), str(b.o.reps)], 90)
    lines = lines + b.run("peer", [f"{BIN}/peer_resident", "jacobi", str(n), str(steps), str(b.o.reps)], 90)
    table.row("jacobi", n, find(lines, "iteration"), "A resident, x up, y down", find(lines, "cublas"), "at most 1.03 x", 1.03,
              name=f"per iteration, {steps} iterations")


def chain(b, table):
    if not b.want("chain"):
        return
    # Vectors of 1 MiB also in the quick run: semcache would not offload smaller ones.
    args = ["131072", "100" if b.o.quick else "10000", str(b.o.reps)]
    peer = b.run("peer", [f"{BIN}/peer_chain", *args], 60)
    for offload in ("auto", "always"):
        ours = b.run("ours", [f"{BIN}/chain", *args], 60, {"SEMCACHE_OFFLOAD": offload}, label=offload)
        for op in ("cycle", "daxpy", "ddot", "dgemv", "read"):
            a, p = find(ours, op), find(peer, "cublas", op=op)
            over = med(a) - med(p) if a and p else None
            table.row("chain", args[0], a, "cuBLAS on device memory", p, "at most 3 us over" if op == "cycle" else "", 3e-6, over,
                      name=f"{'8 elements read after each call' if op == 'read' else op}, {offload}"
                           + (f": {over * 1e6:+.2f} us per call" if over is not None else ""))
    plain = b.run("blas", [f"{BIN}/chain", args[0], str(int(args[1]) // 10), "3"], 60)
    for op in ("cycle",):
        table.row("chain", args[0], find(ours, op), "OpenBLAS", find(plain, op), name=f"{op}, always")


def readback(b, table):
    if not b.want("readback"):
        return
    n, k = (512, 64) if b.o.quick else (16384, 2048)
    for readers in ("1", "8"):
        args = [str(n), str(k), str(b.o.reps), readers]
        ours = b.run("ours", [f"{BIN}/readback", *args], 60)
        peer = b.run("peer", [f"{BIN}/peer_readback", *args], 60)
        for variant, text in (("settled", "reading, begun when the call is done"), ("whole", "call and reading")):
            a, p = find(ours, variant), find(peer, "cublas-" + variant)
            judged = variant == "settled"
            table.row("readback", n, a, "copy to registered memory, reading" if judged else "kernel, copy, reading", p,
                      "at most 1.1 x" if judged else "", 1.1, name=f"{text}, {readers} thread{'s' * (readers != '1')}")
            if a and p and judged:
                less = dict(a, seconds=[w - r for w, r in zip(a["seconds"], a["read"])])
                copy = dict(p, seconds=p["copy"])
                table.row("readback", n, less, "the bare copy", copy,
                          name=f"less the reading of plain memory, {readers} thread{'s' * (readers != '1')}")


def fork(b, table):
    if "fork" not in b.wanted:
        return
    for size in b.wanted["fork"] or ([16] if b.o.quick else [8192]):
        args = [f"{BIN}/fork", str(size), str(b.o.reps)]
        ours, plain = b.run("ours", args, 200), b.run("blas", args, 200)
        for variant in ("clean", "dirty", "again"):
            a, p = find(ours, variant), find(plain, variant)
            # Results whose newest bytes are on the device are written back before the fork: no target for that variant.
            target = () if variant == "dirty" else ("at most 3 x", 3)
            table.row("fork", size, a, "plain", p, *target, name=f"fork, {variant}")
            if a and p:
                had = [f"{x['own_mib']:.0f} MiB of its own, {x['rss_mib']:.0f} mapped, {x['tables_mib']:.1f} of tables, "
                       f"{x['huge_mib']:.0f} huge, the next product {x['next_s']:.3f} s" for x in (a, p)]
                more = a["own_mib"] - p["own_mib"], a["rss_mib"] - 1.1 * p["rss_mib"]
                b.note(f"fork:{size}, {variant}: the child has {had[0]}; plain {had[1]}: "
                       + ("as wanted" if max(more) <= 64 else "TOO MUCH"))


def numpy(b, table):
    if not b.want("numpy"):
        return
    n, reps = ("256", "2") if b.o.quick else ("8192", "3")
    with tempfile.TemporaryDirectory() as d:
        files = {}
        lines = {}
        for who in ("blas", "ours"):
            files[who] = os.path.join(d, who + ".json")
            lines[who] = b.run(who, [sys.executable, f"{HERE}/numpy_script.py", n, reps, files[who]], 150)
        if not all(os.path.exists(f) for f in files.values()):
            b.note("numpy: no results to compare")
            b.bad = True
            return
        values = {}
        for who, file in files.items():
            with open(file, encoding="utf-8") as f:
                values[who] = json.load(f)
        for name, plain in values["blas"].items():
            scale = max(abs(v) for v in plain[:-1])
            off = max(abs(x - y) for x, y in zip(plain[:-1], values["ours"][name][:-1])) / scale
            off = max(off, abs(plain[-1] - values["ours"][name][-1]) / plain[-1])
            b.write({"numpy": name, "difference": off})
            if not off <= 1e-10:
                b.note(f"WRONG: numpy {name}: differs from plain by {off:.2e}, more than 1e-10")
                b.bad = True
        for line in lines["ours"]:
            table.row("numpy", n, line, f"plain wheel, {os.cpu_count()} cores", find(lines["blas"], line["variant"]))


def families(b, table):
    chosen = b.families or FAMILIES
    # Small products would run on the host BLAS.
    env = {"SEMCACHE_OFFLOAD": "always"} if b.o.quick else {}

    def rate(line):
        return f" ({line['operations'] / med(line) / 1e12:.1f} TFLOP/s)" if line else ""

    n = 300 if b.o.quick else 8192
    if b.want("families", 8192):
        args = ["resident", str(n), "10", str(b.o.reps), ",".join(chosen)]
        ours = b.run("ours", [f"{BIN}/families", *args], 120, env)
        peers = b.run("peer", [f"{BIN}/peer_families", *args], 120)
        for r in chosen:
            line = find(ours, "resident", bench=r)
            found = [p for p in (find(peers, v, bench=r) for v in ("cublas", "cublas-apart")) if p]
            peer = min(found, key=med) if found else None
            apart = peer and peer["variant"] == "cublas-apart"
            table.row("families", n, line, "cuBLAS on device memory" + (", into a matrix of its own" if apart else ""), peer,
                      "at most 1/0.9 x", 1 / 0.9, name=f"{r}, resident, per call{rate(line)}")
    n = 515 if b.o.quick else 16384
    if b.want("families", 16384):
        # The peer keeps its registered memory for all families; semcache has a process, and so a report, for each.
        blocks = "128,256" if b.o.quick else "2048,4096,8192"
        peers = []
        for part in ([r for r in chosen if r in FAMILIES], [r for r in chosen if r in COMPLEX_FAMILIES]):
            if part:
                peers += b.run("peer", [f"{BIN}/peer_families", "refilled", str(n), str(b.o.reps), ",".join(part), blocks], 200)
        for r in chosen:
            line = find(b.run("ours", [f"{BIN}/families", "refilled", str(n), str(b.o.reps), r], 60, env), "refilled", bench=r)
            peer = find(peers, "xt", bench=r)
            title = f"cuBLASXt, registered, block {peer['block']}" if peer else "cuBLASXt"
            table.row("families", n, line, title, peer, "at most 1/1.5 x", 1 / 1.5, name=f"{r}, refilled{rate(line)}")
            if not line:
                continue
            if peer:
                less = [dict(x, seconds=[w - again for w, again in zip(x["seconds"], x["read"])]) for x in (line, peer)]
                table.row("families", n, less[0], title, less[1], name=f"{r}, refilled, less the reading of plain memory")
            moved = (line["bytes"]["h2d"] + line["bytes"]["d2h"]) / line["calls"]
            table.amount("families", n, f"{r}, refilled: moved per call", moved, "compulsory traffic", line["compulsory"],
                         "at most 1.03 x", 1.03, line)


# -- the page ------------------------------------------------------------------------------------------------------

def tell(command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def machine(b):
    cpu = next((l.split(":", 1)[1].strip() for l in open("/proc/cpuinfo", encoding="utf-8") if l.startswith("model name")), "?")
    memory = next((int(l.split()[1]) for l in open("/proc/meminfo", encoding="utf-8") if l.startswith("MemTotal")), 0)
    gpus = tell(["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]).splitlines()
    lines = [f"* GPUs: {len(gpus)} x {gpus[0]}" if gpus else f"* GPUs: none; devices {b.devices}",
             f"* CPU: {cpu}, {os.cpu_count()} cores, {memory / 2**20:.0f} GiB at the end",
             f"* host BLAS: OpenBLAS 0.3.21 of Debian 12, OPENBLAS_CORETYPE={os.environ.get('OPENBLAS_CORETYPE', '')}",
             f"* Linux {platform.release()}, glibc {platform.libc_ver()[1]}, Python {platform.python_version()}",
             f"* ours: `semcache run --devices {b.devices} --` the program" + (
                 ", " + " ".join(f"{k}={v}" for k, v in b.settings.items()) if b.settings else ""),
             f"* command: `gpu-bench.sh run OUT {quoted([w for w in sys.argv[1:] if w != b.o.out])}`"]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(prog="gpu-bench.sh run", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does everything run?")
    parser.add_argument("--only", help="comma-separated names, NAME or NAME:SIZE[:SIZE...]")
    parser.add_argument("--gpus", type=int, default=0, help="number of GPUs to use; default all")
    parser.add_argument("--budget", type=float, default=460, help="seconds in all (460)")
    parser.add_argument("--reps", type=int, default=0, help="timed repetitions (5)")
    o = parser.parse_args()
    o.reps = o.reps or (3 if o.quick else 5)
    os.makedirs(o.out, exist_ok=True)
    b = Bench(o)
    if b.devices.startswith("cuda") and not tell(["nvidia-smi", "-L"]):
        print("gpu-bench: no GPU here (DEVICES=sim:1 runs our side on simulated ones)", file=sys.stderr)
        return 1
    table = Table(not o.quick)
    begun = time.monotonic()
    if not o.quick:
        # A small virtual machine gets its memory as it uses it; that must not happen while times are measured.
        subprocess.run([f"{BIN}/touch", "14"], check=True)
        print(f"  {time.monotonic() - begun:6.1f} s  memory touched", flush=True)
    limits(b, table)
    product(b, table, "abac", 2, [256] if o.quick else [16384])
    product(b, table, "dgemm", 1, [256] if o.quick else [4096, 8192, 16384])
    for f in (resident, jacobi, chain, readback, numpy, fork, families):
        f(b, table)
    if not o.quick:  # last: no target depends on these
        product(b, table, "abac", 2, [8192, 4096])
    text = ["# Benchmarks" + (" (quick: sizes that show nothing but that everything runs)" if o.quick else ""), "", machine(b), ""]
    rates = [l for l in b.lines if l["bench"] == "limits" and "rate" in l]
    if rates:
        text += ["What the machine can do:", "", "| what | rate | median (min .. max) |", "|---|---|---|"]
        text += [f"| {l['variant']} | {l['rate']:.1f} {l['unit']} | {figure(l)} |" for l in rates] + [""]
    text += ["Times are medians with their spread. *resident*: inputs untouched since the last call; *refilled*: the CPU rewrote them,",
             "in place or in memory freed and allocated again, before each call; *cold*: first call on new memory; *first*: first call",
             "of the process, the start of the GPU included. D is read entirely by the CPU (8 threads unless said), on both sides.", "",
             table.text(), ""]
    text += notes_text(b.notes)
    text += [f"In all {time.monotonic() - begun:.0f} s.", ""]
    with open(os.path.join(o.out, "bench.md"), "w", encoding="utf-8") as f:
        f.write("\n".join(text))
    print(table.text())
    return 1 if b.bad else 0


if __name__ == "__main__":
    sys.exit(main())
