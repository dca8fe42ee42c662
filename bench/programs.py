#!/usr/bin/env python3
"""Runs whole programs from a folder that `gpu-programs.sh build` made: plainly, under the base library, under the new one.

    programs.py OUT [PROGRAM...] [--quick] [--rounds N] [--sides SIDES] [--budget SECONDS] [--limit SECONDS]

OUT/programs.md gets the table, OUT/programs.jsonl a line per run. The programs are unmodified, with as many threads as they
take; nothing is set but SEMCACHE_* of the caller and DEVICES=..., which becomes SEMCACHE_DEVICES. Exit status 1 when a
result was wrong, or when a run failed.
"""

import argparse
import glob
import json
import os
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

import pairs
from run import choose_kernels, markdown, notes_text, tell, toolkit_folders

HERE = os.path.dirname(os.path.abspath(__file__))
# Key: title in the table, the command, and that of --quick.
PROGRAMS = {
    "fronts": ("300 fronts, one arena", ["fronts", "300"], ["fronts", "40", "300", "8"]),
    "arena": ("1000 small fronts, one arena", ["fronts", "1000", "256", "16"], ["fronts", "100", "128", "4"]),
    "temporary": ("300 products, new blocks each", ["unpaid", "blocks"], ["unpaid", "blocks"]),
    "mumps": ("MUMPS, 40^3", ["mumps", "40"], ["mumps", "16"]),
    "mumps_large": ("MUMPS, 63^3", ["mumps", "63"], ["mumps", "20"]),
    "hpl": ("HPL, 3000", ["xhpl", "3000"], ["xhpl", "1000"]),
    "hpl_large": ("HPL, 20000", ["xhpl", "20000"], ["xhpl", "1500"]),
    "lu": ("dgetrf of LAPACK, 4096", ["lu", "4096"], ["lu", "700"]),
    "lu_10000": ("dgetrf of LAPACK, 10000", ["lu", "10000"], ["lu", "1000"]),
    "lu_20000": ("dgetrf of LAPACK, 20000", ["lu", "20000"], ["lu", "1200"]),
    "nwchem": ("NWChem, CCSD of two water molecules", ["nwchem.openmpi", "ccsd.nw"], ["nwchem.openmpi", "ccsd.nw"]),
}
# Clients whose computation is all that they do. Interpreters are the machine's, if it has them.
INTERPRETERS = {
    "numpy": [sys.executable, os.path.join(HERE, "numpy_script.py")],
    "octave-cli": ["octave-cli", "--norc", "--quiet", "--no-history", os.path.join(HERE, "octave.m")],
    # The program behind the shell script R.
    "R": ["/usr/lib/R/bin/exec/R", "--vanilla", "--no-echo", "-e"],
}
R_CODE = "n <- {}; set.seed(1); a <- matrix(runif(n * n), n); for (i in 1:{}) b <- crossprod(a, a %*% a); print(c(sum(b), sum(solve(a, b))))"
CLIENTS = {
    **{f"numpy_{n}": (f"NumPy, {n}", ["numpy", str(n), str(times)], ["numpy", "64", "2"])
       for n, times in ((64, 2000), (256, 300), (1024, 20), (2048, 6), (4096, 3))},
    **{f"octave_{n}": (f"Octave, A\\b of {n} x {n // 4}", ["octave-cli", "mldivide", str(n), str(times), "1", "60"],
                       ["octave-cli", "mldivide", "64", "2", "1", "60"]) for n, times in ((1024, 40), (2048, 8), (4096, 3))},
    "octave_product": ("Octave, A*B of 512", ["octave-cli", "product", "512", "40", "1", "60"], ["octave-cli", "product", "64", "2", "1", "60"]),
    **{f"r_{n}": (f"R, {n}", ["R", R_CODE.format(n, times)], ["R", R_CODE.format(64, 2)]) for n, times in ((256, 100), (1024, 4))},
    "armadillo": ("Armadillo", ["armadillo"], ["armadillo"]),
    "eigen": ("Eigen with a BLAS", ["eigen"], ["eigen"]),
    "cholmod": ("CHOLMOD, 16^3", ["cholmod"], ["cholmod", "8"]),
    "cholmod_40": ("CHOLMOD, 40^3", ["cholmod", "40"], ["cholmod", "9"]),
    "caffe": ("Caffe's calls, LeNet", ["caffe", "lenet", "64"], ["caffe", "lenet", "4"]),
    "caffe_mlp": ("Caffe's calls, 768-4096-4096-10", ["caffe", "mlp", "4", "64"], ["caffe", "mlp", "64", "4"]),
    "jacobi": ("Jacobi, 1000", ["jacobi", "1000", "300"], ["jacobi", "100", "20"]),
    "jacobi_4000": ("Jacobi, 4000", ["jacobi", "4000", "300"], ["jacobi", "100", "20"]),
    "cg": ("CG, 1000", ["cg", "1000", "300"], ["cg", "100", "20"]),
    "cg_4000": ("CG, 4000", ["cg", "4000", "300"], ["cg", "100", "20"]),
    "abac": ("AB + AC, 1000", ["abac", "1000"], ["abac", "100"]),
}
PROGRAMS.update(CLIENTS)
PLACES = ["malloc", "static", "common", "member", "arena", "part"]
SIDES = ["plain", "base", "new"]
# The program without the library; the second is run when asked for, to see what a ratio to the first is worth.
PLAIN = ["plain", "control"]
HPL_INPUT = """HPLinpack benchmark input file
what
HPL.out
8
1
{n}
1
192
0
1
1
1
16.0
1
2
1
4
1
2
1
1
1
1
1
1
2
64
0
0
1
8
"""


NUMBER = re.compile(r"(?<![\w.])[-+]?\d+\.?\d*(?:[eE][-+]?\d+)?")


def differ(one, other):
    """Whether what a client printed differs beyond the rounding of what it prints."""
    return len(one) != len(other) or any(abs(a - b) > 1e-6 * max(abs(a), abs(b), 1.0) for a, b in zip(one, other))


def read_json(out):
    return next((json.loads(l) for l in out.splitlines() if l.startswith("{")), None)


class Runner:
    def __init__(self, options, home):
        self.o, self.home = options, home
        self.settings = {k: v for k, v in sorted(os.environ.items()) if k.startswith("SEMCACHE_")}
        if devices := os.environ.get("DEVICES"):
            self.settings["SEMCACHE_DEVICES"] = devices
        self.raw = open(os.path.join(options.out, "programs.jsonl"), "a", encoding="utf-8")
        self.end = time.monotonic() + options.budget
        self.notes, self.bad = [], False
        self.kernels_given = "OPENBLAS_CORETYPE" in os.environ
        choose_kernels()

    def note(self, text, bad=False):
        print("  note: " + text, flush=True)
        self.notes.append(text)
        self.bad |= bad

    def environment(self, side, folder, awake, lapack, timed=False):
        libraries = ([os.path.join(self.home, "reference")] if lapack else []) + [os.path.join(self.home, "lib")]
        known = [d for d in os.environ.get("LD_LIBRARY_PATH", "").split(":") if d]
        e = {k: v for k, v in os.environ.items() if not k.startswith(("SEMCACHE_", "LD_"))}
        e.update(LD_LIBRARY_PATH=":".join(libraries + known + toolkit_folders() + ["/usr/lib/R/lib"]), LC_ALL="C", OPAL_PREFIX=os.path.join(self.home, "mpi"),
                 OPAL_PKGDATADIR=os.path.join(self.home, "mpi", "share"),
                 OMPI_MCA_mca_base_component_path=os.path.join(self.home, "mpi", "lib"), OMPI_MCA_ess_singleton_isolated="1",
                 OMPI_MCA_btl="self", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                 R_HOME="/usr/lib/R", NWCHEM_BASIS_LIBRARY=os.path.join(self.home, "nwchem") + "/")
        preload = [os.path.join(self.home, "lib", "libawake.so")] if awake or timed else []
        if not awake:
            e["AWAKE"] = "0"
        if side not in PLAIN:
            preload.insert(0, os.path.join(HERE, side, "libsemcache_blas.so"))
            e.update(self.settings, SEMCACHE_REPORT=os.path.join(folder, "%p.report"))
        if self.o.quick:
            e.setdefault("AWAKE", "0.3")
        if preload:
            e["LD_PRELOAD"] = ":".join(preload)
        return e

    def run(self, key, side, words, awake=False, settings=None):
        """The JSON line of one run, or None."""
        with tempfile.TemporaryDirectory(prefix="program-") as d:
            environment = self.environment(side, d, awake, words[0] == "lu", timed=key in CLIENTS)
            environment.update(settings or {} if side not in PLAIN else {})
            if words[0] == "numpy" and not self.kernels_given:
                # Its own OpenBLAS is a newer one.
                environment.pop("OPENBLAS_CORETYPE", None)
            command = [os.path.join(self.home, "bin", words[0]), *words[1:]]
            if words[0] == "xhpl":
                with open(os.path.join(d, "hpccinf.txt"), "w", encoding="utf-8") as f:
                    f.write(HPL_INPUT.format(n=words[1]))
            if words[0] in INTERPRETERS:
                command = [*INTERPRETERS[words[0]], *words[1:]] + ([os.path.join(d, "results")] if words[0] == "numpy" else [])
            if words[0] == "nwchem.openmpi":
                command[1] = os.path.join(self.home, "nwchem", words[1])
            limit = max(5.0, min(self.o.limit, self.end - time.monotonic()))
            begun = time.monotonic()
            late = False
            with open(os.path.join(d, "said"), "w+", encoding="utf-8", errors="replace") as said:
                process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True, env=environment, cwd=d,
                                           start_new_session=True, errors="replace")
                try:
                    out, _ = process.communicate(timeout=limit)
                except subprocess.TimeoutExpired:
                    late = True
                    os.killpg(process.pid, signal.SIGKILL)
                    out, _ = process.communicate()
                wall = time.monotonic() - begun
                said.seek(0)
                words_said = [l.rstrip() for l in said if l.strip()]
            if os.path.exists(table := os.path.join(d, "hpccoutf.txt")):
                with open(table, encoding="utf-8") as f:
                    out += f.read()
            entry = {"program": key, "side": side, "command": " ".join(words), "awake": awake, "status": process.returncode,
                     "wall": round(wall, 4), "settings": {**self.settings, **(settings or {})} if side not in PLAIN else {}}
            if os.path.exists(results := os.path.join(d, "results")):
                with open(results, encoding="utf-8") as f:
                    out = f.read()
            # Programs that it starts say so, too, and end before it.
            ran = next((float(m[1]) for l in reversed(words_said) if (m := re.match(r"ran ([\d.]+) s", l))), None)
            entry.update(self.measured(words, out, ran if key in CLIENTS else None) or {})
            if start := next((re.match(r"awake after ([\d.]+) s(, not faster)?", l) for l in words_said if l.startswith("awake")), None):
                entry["start"] = float(start[1])
                if start[2] and side not in PLAIN:
                    entry["not_faster"] = True
            words_said = [l for l in words_said if not l.startswith(("awake", "ran", "["))]
            if words_said:
                entry["said"] = words_said[-4:]
            if reports := glob.glob(os.path.join(d, "*.report")):
                entry.update(offloaded=0, host=0, h2d=0, d2h=0, saved=0, read_faults=0, write_faults=0, devices=[], calls={}, degraded=[])
            for report in reports:
                with open(report, encoding="utf-8") as f:
                    full = json.load(f)
                entry["devices"] += [x["name"] for x in full["devices"]]
                for routine, c in full["calls"].items():
                    entry["offloaded"] += c["offloaded"]
                    entry["host"] += c["host"]
                    if c["offloaded"]:
                        entry["calls"][routine] = entry["calls"].get(routine, 0) + c["offloaded"]
                for k in ("h2d", "d2h", "saved"):
                    entry[k] += full["bytes"][k]
                entry["read_faults"] += full["faults"]["read"]
                entry["write_faults"] += full["faults"]["write"]
                entry["degraded"] += full.get("degraded", [])
        self.raw.write(json.dumps(entry) + "\n")
        self.raw.flush()
        why = f"stopped after {limit:.0f} s" if late else f"status {process.returncode}" if process.returncode else ""
        if not why and "seconds" not in entry and "places" not in entry:
            why = "no result in what it printed: " + " / ".join(out.splitlines()[-2:])
        print(f"  {wall:7.2f} s  {key:12} {side:5} {'awake ' if awake else ''}{entry.get('seconds', '')} {entry.get('offloaded', '')} {why}", flush=True)
        if why:
            self.note(f"{side}, {' '.join(words)}{', awake' if awake else ''}: {why}: {' / '.join(words_said[-3:])}", bad=True)
            return None
        return entry

    @staticmethod
    def measured(words, out, ran):
        """What the program printed: seconds, and what must be equal or small. `ran`: the seconds of main, of a client."""
        if ran is not None:
            # Octave's workloads print their own times first.
            printed = out.partition('"checks"')[2] or out
            return {"seconds": ran, "numbers": [float(x) for x in NUMBER.findall(printed)]}
        if words[0] == "xhpl":
            line = re.search(r"^W\S+ +(\d+) +\d+ +\d+ +\d+ +([\d.]+) +(\S+)", out, re.M)
            residual = re.search(r"^\|\|Ax-b\|\|.*= *(\S+) \.+ (\w+)", out, re.M)
            if not line or not residual or residual[2] != "PASSED":
                return None
            n = float(line[1])
            # The printed time has two decimals; the rate has four digits.
            return {"seconds": round((2 / 3 * n**3 + 1.5 * n**2) / (float(line[3]) * 1e9), 5), "check": residual[1]}
        if words[0] == "nwchem.openmpi":
            energy = re.search(r"CCSD total energy / hartree += +(\S+)", out)
            wall = re.search(r"Total times +cpu: +\S+ +wall: +([\d.]+)s", out)
            return {"seconds": float(wall[1]), "check": f"{float(energy[1]):.6f}"} if energy and wall else None
        if words[0] == "placement":
            got = {m[0]: float(m[1]) for m in re.findall(r"(CG|abac|Jacobi) ([\d.]+)", out)}
            total = re.search(r"sum (\S+)", out)
            return {"places": got, "check": total[1]} if total else None
        line = read_json(out)
        if line and words[0] in ("fronts", "unpaid"):
            line["check"] = out.split()[0]
        return line


def cell(values, digits=3):
    values = [v for v in values if v is not None]
    if not values:
        return "-"
    text = f"{statistics.median(values):.{digits}f}"
    return text + (f" ({min(values):.{digits}f} .. {max(values):.{digits}f})" if len(values) > 1 else "")


def ratio(ours, plain):
    """The ratio of medians, and of several rounds its 95 % interval."""
    if not ours or not plain:
        return "-"
    text = f"{statistics.median(ours) / statistics.median(plain):.3f}"
    _, low, high = pairs.interval([a / b for a, b in zip(ours, plain)])
    return text + (f" ({low:.3f} .. {high:.3f})" if min(len(ours), len(plain)) > 2 else "")


def whole_programs(r, chosen, sides):
    rows = []
    for key in chosen:
        title, words, quick = PROGRAMS[key]
        if words[0] in INTERPRETERS and not shutil.which(INTERPRETERS[words[0]][0]):
            r.note(f"not run, as this machine has no {words[0]}: {key}")
            continue
        if r.o.quick:
            title, words = f"{title} (smaller)", quick
        runs = {side: [] for side in sides}
        awake = {side: [] for side in sides}
        rounds, done = r.o.rounds or 3, 0
        while done < rounds:
            begun = time.monotonic()
            for side in sides:
                if r.end - time.monotonic() < 2:
                    r.note(f"not run, the time is over: {side}, {key}, round {done + 1}")
                    continue
                runs[side].append(r.run(key, side, words))
                if side not in PLAIN and not r.o.cold:
                    awake[side].append(r.run(key, side, words, awake=True))
            done += 1
            if not r.o.rounds and time.monotonic() - begun > 60:
                break
        plain = [e for e in runs.get("plain", []) if e]
        for side in sides:
            as_is, warm = ([e for e in x[side] if e] for x in (runs, awake))
            checks = sorted({e["check"] for e in as_is + warm if "check" in e}, key=str)
            # The checks of fronts and products are whole numbers, NWChem's energy has six places; the other programs
            # check their residuals themselves.
            if plain and words[0] in ("fronts", "unpaid", "nwchem.openmpi") and any(c != plain[0]["check"] for c in checks):
                r.note(f"WRONG: {side}, {key}: {checks}, plain {plain[0]['check']}", bad=True)
            if plain and any("numbers" in e and differ(e["numbers"], plain[0]["numbers"]) for e in as_is + warm):
                r.note(f"WRONG: {side}, {key}: other numbers than plain", bad=True)
            last = (warm or as_is or [{}])[-1]
            walls, seconds, warmed = ([e[k] for e in x] for x, k in ((as_is, "wall"), (as_is, "seconds"), (warm, "seconds")))
            base = [e["wall"] for e in plain], [e["seconds"] for e in plain]
            moved = f"{last['h2d'] / 1e6:.0f} / {last['d2h'] / 1e6:.0f}" if "h2d" in last else "-"
            rows.append([title if side == sides[0] else "", side, cell(walls), cell(seconds), cell(warmed), ratio(walls, base[0]),
                         ratio(seconds, base[1]), ratio(warmed, base[1]),
                         f"{as_is[-1]['offloaded']}, {last['offloaded']} of {last['offloaded'] + last['host']}" if as_is and "offloaded" in last else "-",
                         moved, f"{last['read_faults']} / {last['write_faults']}" if "read_faults" in last else "-",
                         ", ".join(str(c) for c in checks[:2]) + (", ..." if len(checks) > 2 else "")])
            if side not in PLAIN and warm and all(e.get("not_faster") for e in warm):
                r.note(f"{side}, {key}: no device became fast in the time given to it")
    return markdown(["program", "side", "wall, s", "computation, s", "computation, devices awake, s", "wall / plain", "computation / plain",
                  "awake / plain", "calls offloaded: as is, awake", "MB in / out", "faults r / w", "result"], rows)


def placement(r, sides, settings):
    rows = []
    for n in (256,) if r.o.quick else (1000, 4096):
        for where in PLACES:
            got = {side: [] for side in sides}
            for _ in range(r.o.rounds or 2):
                for side in sides:
                    if r.end - time.monotonic() < 5:
                        r.note(f"not run, the time is over: {side}, placement {where} {n}")
                    elif e := r.run("placement", side, ["placement", where, str(n), "15"], awake=side not in PLAIN, settings=settings):
                        got[side].append(e)
            checks = {e["check"] for x in got.values() for e in x}
            if len(checks) > 1:
                r.note(f"WRONG: placement {where} {n}: {sorted(checks)}", bad=True)
            row = [where, str(n)]
            for what in ("CG", "Jacobi", "abac"):
                row += [", ".join(f"{e['places'][what]:.4g}" for e in got[side] if what in e["places"]) or "-" for side in sides]
            rows.append(row)
    head = ["where", "n"] + [f"{what}: {side}" for what in ("CG, us", "Jacobi, us", "products, ms") for side in sides]
    return markdown(head, rows)


def main():
    known = list(PROGRAMS) + ["placement", "placement_always"]
    parser = argparse.ArgumentParser(prog="gpu-programs.sh run", description=__doc__, formatter_class=argparse.RawTextHelpFormatter,
                                     epilog="Programs: " + ", ".join(f"{k} ({PROGRAMS[k][0]})" if k in PROGRAMS else k for k in known))
    parser.add_argument("out")
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help="if none is named, all but the clients")
    parser.add_argument("--quick", action="store_true", help="small sizes: does everything run?")
    parser.add_argument("--rounds", type=int, default=0, help="3 unless said, 1 where a round takes more than a minute; placement 2")
    parser.add_argument("--sides", default=",".join(SIDES), help="plain,base,new; control: plain again")
    parser.add_argument("--cold", action="store_true", help="no runs that wait for the devices before main")
    parser.add_argument("--budget", type=float, default=570, help="seconds in all (570)")
    parser.add_argument("--limit", type=float, default=180, help="seconds for one run (180)")
    o = parser.parse_args()
    chosen = o.programs or [k for k in known if k not in CLIENTS]
    if unknown := set(chosen) - set(known):
        sys.exit(f"gpu-programs: no program {' '.join(unknown)}; there are {' '.join(known)}")
    sides = [s for s in o.sides.split(",") if s in PLAIN or os.path.exists(os.path.join(HERE, s, "libsemcache_blas.so"))]
    os.makedirs(o.out, exist_ok=True)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="programs-") as d:
        with tarfile.open(os.path.join(HERE, "programs.tar.xz")) as t:
            t.extractall(d)  # a trusted archive, made by build
        print(f"  {time.monotonic() - begun:7.2f} s  unpacked", flush=True)
        r = Runner(o, os.path.join(d, "programs"))
        if not o.quick:
            # On a virtual machine that gets its memory as it uses it, the first program would pay for that.
            subprocess.run([os.path.join(r.home, "bin", "touch"), "16"], check=True, env=r.environment("plain", d, False, False))
            print(f"  {time.monotonic() - begun:7.2f} s  memory touched", flush=True)
        versions = []
        for side in sides:
            if os.path.exists(version := os.path.join(HERE, side, "version")):
                with open(version, encoding="utf-8") as f:
                    versions.append(f"{side}: {f.read().strip()}")
        parts = []
        if whole := [k for k in chosen if k in PROGRAMS]:
            parts += [whole_programs(r, whole, sides), ""]
        for key, settings in (("placement", {}), ("placement_always", {"SEMCACHE_OFFLOAD": "always"})):
            if key in chosen:
                parts += ["Where the data lie" + (f", {', '.join(f'{k}={v}' for k, v in settings.items())}" if settings else "")
                          + " (medians of 15 rounds, devices awake):", "",
                          placement(r, [s for s in sides if s not in PLAIN or not settings], settings), ""]
    gpus = tell(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]).splitlines()
    cpu = next((l.split(":", 1)[1].strip() for l in open("/proc/cpuinfo", encoding="utf-8") if l.startswith("model name")), "?")
    words = [w for w in sys.argv[1:] if w != o.out]
    text = ["# Whole programs" + (" (quick: sizes that show nothing but that everything runs)" if o.quick else ""), "",
            f"* GPUs: {len(gpus)} x {gpus[0]}" if gpus else f"* GPUs: none; devices {os.environ.get('DEVICES', 'unset')}",
            f"* CPU: {cpu}, {os.cpu_count()} cores; Linux {platform.release()}; OPENBLAS_CORETYPE {os.environ.get('OPENBLAS_CORETYPE', 'unset')}",
            "* settings: " + (", ".join(f"{k}={v}" for k, v in r.settings.items()) or "none"),
            *[f"* {v}" for v in versions], f"* command: `gpu-programs.sh run OUT {' '.join(words)}`", "",
            "Medians of the rounds, the sides in turn, with the spread. *Wall* is the whole process. *Computation* is what the program",
            "itself measures (HPL: from its rate; NWChem: all of it, to 0.1 s; MUMPS: factorisation and solution). *Awake*: before main",
            "products of the process's own have waited until the device computes, so that the start of CUDA is not in the figure; moved",
            "bytes and faults are of such a run, its first products included. 16 GiB of the machine's memory are touched before.", "", *parts]
    text += notes_text(r.notes)
    text += [f"In all {time.monotonic() - begun:.0f} s.", ""]
    with open(os.path.join(o.out, "programs.md"), "a", encoding="utf-8") as f:
        f.write("\n".join(text) + "\n")
    print("\n".join(parts))
    return 1 if r.bad else 0


if __name__ == "__main__":
    sys.exit(main())
