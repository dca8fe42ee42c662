#!/usr/bin/env python3
"""Runs octave.m in the Octave of a folder that `gpu-octave.sh build` made: plainly, under NVBLAS, and under us.

    octave.py OUT [--quick] [--only WORKLOADS] [--budget SECONDS] [--limit SECONDS] [--reps N] [--loader WHICH]

OUT/octave.jsonl has one line per run, OUT/octave.md the table. WORKLOADS is a comma-separated list of the keys that
--help ends with. DEVICES (default cuda) is what `semcache run --devices` gets; variables SEMCACHE_* go to our side.
Octave starts through the loader packed with it, or, where no GPU can be used in that way, through the machine's.
Exit status 1 when a number differed, or when one of our side did not run.
"""

import argparse
import glob
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

import pairs
from run import choose_kernels, markdown, notes_text, quoted, semcache, tell, time_text, toolkit_folders

HERE = os.path.dirname(os.path.abspath(__file__))
# Key: octave.m's workload, title, size, size of the quick run, relative tolerance of the numbers, and of short ones the repetitions.
WORKLOADS = {
    "single": ("product single", "A*B, single, one element read", 8192, 512, 0),
    "double": ("product", "A*B, double, one element read", 8192, 512, 0),
    "read": ("product read", "A*B, double, all of it summed", 8192, 512, 0),
    "nnmf": ("nnmf", "non-negative factorisation, 10 updates, rank n/32", 8192, 512, 1e-7),
    "varimax": ("varimax", "varimax rotation of n x n/64, 5 steps", 32768, 1024, 1e-7),
    "lsq": ("reweighted", "least squares of n x n/8, reweighted 5 times", 16384, 512, 1e-6),
    "mldivide_1024": ("mldivide", "A\\b, A n x n/4", 1024, 128, 1e-7, 200),
    "mldivide_2048": ("mldivide", "A\\b, A n x n/4", 2048, 192, 1e-7, 200),
    "mldivide": ("mldivide", "A\\b, A n x n/4", 4096, 256, 1e-7, 200),
    "solve_1024": ("solve", "A\\b, square", 1024, 128, 1e-7, 100),
    "solve_2048": ("solve", "A\\b, square", 2048, 192, 1e-7, 50),
    "solve": ("solve", "A\\b, square", 8192, 256, 1e-6, 10),
    "definite": ("definite", "A\\b, positive definite", 8192, 256, 1e-7, 10),
    "factors": ("factors", "chol, inv and lu", 4096, 256, 1e-6, 10),
}
# A device is up after these seconds.
STARTED = 1.5
SIDES = ["OpenBLAS", "NVBLAS", "NVBLAS autopin", "ours"]


def driver_folders():
    """Where the machine's loader has libcuda."""
    found = [os.path.dirname(l.split("=>")[1].strip()) for l in tell(["ldconfig", "-p"]).splitlines() if "libcuda.so.1 " in l]
    found += [d for d in os.environ.get("LD_LIBRARY_PATH", "").split(":") if d]
    found += ["/usr/local/nvidia/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib64"]
    return [d for d in dict.fromkeys(found) if os.path.exists(os.path.join(d, "libcuda.so.1"))]


def awake(times):
    """The repetitions that began once the device was up; all but the first, if these are few."""
    began = [sum(times[:i]) for i in range(len(times))]
    later = [t for t, at in zip(times, began) if at >= STARTED]
    return later if len(later) >= 3 else times[1:] or times


class Runner:
    def __init__(self, options, home):
        self.o, self.home = options, home
        self.devices = os.environ.get("DEVICES", "cuda")
        self.settings = {k: v for k, v in sorted(os.environ.items()) if k.startswith("SEMCACHE_") and k != "SEMCACHE_MAIN_PID"}
        if options.quick:
            self.settings.setdefault("SEMCACHE_OFFLOAD", "always")
        self.raw = open(os.path.join(options.out, "octave.jsonl"), "w", encoding="utf-8")
        self.end = time.monotonic() + options.budget
        self.notes, self.bad, self.loader = [], False, None
        self.cuda = driver_folders() + toolkit_folders()

    def note(self, text):
        print("  note: " + text, flush=True)
        self.notes.append(text)

    def command(self, loader, words, preload=None):
        """Octave with these words; and its variables."""
        tree, variables = self.home, {}
        libraries = [os.path.join(tree, "lib"), *self.cuda]
        octave = [os.path.join(tree, "bin", "octave-cli"), "--norc", "--quiet", "--no-history", *words]
        if loader == "pack":
            # Not by LD_LIBRARY_PATH: other programs that Octave starts would load a libc that does not fit their
            # loader.
            start = [os.path.join(tree, "base", "ld-linux-x86-64.so.2"), "--library-path",
                     ":".join([os.path.join(tree, "base"), *libraries])]
            return start + (["--preload", preload] if preload else []) + octave, variables
        variables["LD_LIBRARY_PATH"] = ":".join(libraries)
        if preload:
            variables["LD_PRELOAD"] = preload
        return octave, variables

    def run(self, side, words, timeout, loader=None, env=None):
        """The JSON line of one run, or None."""
        report = None
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("SEMCACHE_", "LD_"))}
        environment.update(OCTAVE_HOME=self.home, OCTAVE_EXEC_HOME=self.home, LC_ALL="C")
        with tempfile.TemporaryDirectory() as d:
            preload = None
            if side.startswith("NVBLAS"):
                preload = next((p for f in self.cuda for v in (13, 12) if os.path.exists(p := os.path.join(f, f"libnvblas.so.{v}"))), None)
                if not preload:
                    return None
                environment["NVBLAS_CONFIG_FILE"] = os.path.join(d, "nvblas.conf")
                with open(environment["NVBLAS_CONFIG_FILE"], "w", encoding="utf-8") as f:
                    f.write(f"NVBLAS_LOGFILE {d}/nvblas.log\nNVBLAS_CPU_BLAS_LIB {self.home}/lib/libopenblas.so.0\nNVBLAS_GPU_LIST ALL\n"
                            "NVBLAS_TILE_DIM 2048\n" + ("NVBLAS_AUTOPIN_MEM_ENABLED\n" if "autopin" in side else ""))
            command, variables = self.command(loader or self.loader, words, preload)
            if side in ("ours", "base"):
                report = os.path.join(d, "report.json")
                command = [semcache(side), "run", "--devices", self.devices, "--report", report, "--",
                           *(["env", *(f"{k}={v}" for k, v in variables.items())] if variables else []), *command]
                environment.update(self.settings)
                variables = {}
            environment.update(variables)
            environment.update(env or {})
            # With --quick the times have no meaning, so a slow machine gets more time.
            limit = min(timeout * (10 if self.o.quick else 1), max(5.0, self.end - time.monotonic()))
            begun = time.monotonic()
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=d,
                                       start_new_session=True, errors="replace")
            late = False
            try:
                out, err = process.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                late = True
                os.killpg(process.pid, signal.SIGKILL)
                out, err = process.communicate()
            wall = time.monotonic() - begun
            line = next((json.loads(l) for l in out.splitlines() if l.startswith("{")), None)
            said = [l for l in err.splitlines() if l.strip() and "preparing to exit" not in l]
            entry = {"side": side, "command": quoted(command), "status": process.returncode, "wall": wall, "said": said[-4:]}
            if report and os.path.exists(report):
                with open(report, encoding="utf-8") as f:
                    full = json.load(f)
                calls = full.get("calls", {})
                entry.update(calls=calls, bytes=full.get("bytes"), faults=full.get("faults"), degraded=full.get("degraded"),
                             offloaded=sum(c["offloaded"] for c in calls.values()), host=sum(c["host"] for c in calls.values()))
            if side.startswith("NVBLAS") and os.path.exists(log := os.path.join(d, "nvblas.log")):
                with open(log, encoding="utf-8", errors="replace") as f:
                    entry["log"] = f.read()[-400:]
        if side.startswith("NVBLAS") and any("No Gpu available" in l or "No device selected" in l for l in said):
            line, said = None, ["it found no GPU"]
        entry.update(line or {})
        if line:
            entry["later"] = awake(line["times"])
        self.raw.write(json.dumps(entry) + "\n")
        self.raw.flush()
        why = f"stopped after {limit:.0f} s" if late else f"status {process.returncode}" if process.returncode else ""
        print(f"  {wall:6.1f} s  {side:16} {' '.join(words[1:])}  {why}", flush=True)
        if not line or process.returncode:
            self.note(f"{side}, {' '.join(words[1:])}: {why or 'no line'}: {' / '.join(said[-3:])}")
            self.bad |= side == "ours"
            return None
        return entry

    def choose_loader(self):
        """The first with which the devices can be used."""
        for loader in ("pack", "system") if self.o.loader == "auto" else (self.o.loader,):
            got = self.run("ours", [os.path.join(HERE, "octave.m"), "product", "512", "1", "1", "1"], 60, loader,
                           {"SEMCACHE_OFFLOAD": "always"})
            if got and got.get("offloaded"):
                self.loader = loader
                self.bad = False
                return True
            if got:
                self.note(f"the {loader} loader: no device was used: {' / '.join(got['said'])}")
        self.bad = True
        return False


def differ(a, b, tolerance):
    return len(a) != len(b) or any(not abs(x - y) <= tolerance * max(abs(x), 1e-300) for x, y in zip(a, b))


def cell(entry):
    if not entry:
        return "-"
    later = entry["later"]
    text = time_text(statistics.median(later))
    return text + (f" ({time_text(min(later))} .. {time_text(max(later))})" if len(later) > 1 else "")


def merged(entries):
    """One entry of several rounds: the first repetition of the first round, and the later ones of all."""
    entries = [e for e in entries if e]
    if not entries:
        return None
    return {**entries[-1], "times": entries[0]["times"], "later": [t for e in entries for t in e["later"]]}


def interval(ours, plain):
    """The ratio to plain of several rounds, with its 95 % interval."""
    ratios = [median(a) / median(b) for a, b in zip(ours, plain) if a and b]
    return "{:.3f} ({:.3f} .. {:.3f})".format(*pairs.interval(ratios)) if len(ratios) > 2 else "-"


def median(entry):
    return statistics.median(entry["later"]) if entry else None


def main():
    parser = argparse.ArgumentParser(prog="gpu-octave.sh run", description=__doc__, formatter_class=argparse.RawTextHelpFormatter,
                                     epilog="Workloads: " + ", ".join(f"{k} ({w[1]})" for k, w in WORKLOADS.items()).replace("%", "%%"))
    parser.add_argument("out")
    parser.add_argument("--quick", action="store_true", help="small sizes, everything offloaded: does everything run?")
    parser.add_argument("--only", help="comma-separated workloads")
    parser.add_argument("--budget", type=float, default=200, help="seconds in all (200)")
    parser.add_argument("--limit", type=float, default=4, help="no new repetition after this number of seconds; two at least on GPUs (4)")
    parser.add_argument("--rounds", type=int, default=1, help="processes per side, by turns (1)")
    parser.add_argument("--sides", default=",".join(SIDES), help=",".join(SIDES))
    parser.add_argument("--reps", type=int, default=3, help="repetitions, the first of which warms up (3)")
    parser.add_argument("--loader", choices=["auto", "pack", "system"], default="auto", help="what starts Octave")
    o = parser.parse_args()
    chosen = o.only.split(",") if o.only else list(WORKLOADS)
    if unknown := set(chosen) - set(WORKLOADS):
        sys.exit(f"gpu-octave: no workload {' '.join(unknown)}; there are {' '.join(WORKLOADS)}")
    os.makedirs(o.out, exist_ok=True)
    choose_kernels()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="octave-") as d:
        with tarfile.open(os.path.join(HERE, "octave.tar.xz")) as t:
            t.extractall(d)  # a trusted archive, made by build
        print(f"  {time.monotonic() - begun:6.1f} s  unpacked", flush=True)
        r = Runner(o, os.path.join(d, "octave"))
        rows = []
        if r.choose_loader():
            if not any(glob.glob(os.path.join(f, "libnvblas.so.1[23]")) for f in r.cuda):
                r.note("no NVBLAS on this machine")
            for key in chosen:
                workload, title, size, quick, tolerance, *most = WORKLOADS[key]
                n = quick if o.quick else size
                words = [os.path.join(HERE, "octave.m"), workload, str(n), str(*(most if most and not o.quick else [o.reps]))]
                rounds = {}
                for _ in range(o.rounds):
                    for side in reversed(o.sides.split(",")):  # semcache first, in case the time runs out
                        if r.end - time.monotonic() < 5:
                            r.note(f"not run, the time is over: {side}, {workload}, {n}")
                            r.bad |= side == "ours"
                            continue
                        # The first repetition on a GPU is a warm-up.
                        entry = r.run(side, [*words, "1" if side == "OpenBLAS" else "2", str(o.limit)], 60)
                        rounds.setdefault(side, []).append(entry)
                got = {side: merged(entries) for side, entries in rounds.items()}
                plain, ours = got.get("OpenBLAS"), got.get("ours")
                for side in SIDES[1:]:
                    if plain and got.get(side) and differ(plain["checks"], got[side]["checks"], tolerance):
                        r.note(f"WRONG: {side}, {workload}: {got[side]['checks']}, plain {plain['checks']}")
                        r.bad |= side == "ours"
                        got[side] = None
                if got.get("ours") is None:
                    ours = None
                peers = [m for s in SIDES[1:3] if (m := median(got.get(s)))]
                rows.append([title, str(n), *(cell(got.get(s)) for s in SIDES), time_text(ours["times"][0]) if ours else "-",
                             f"{median(plain) / median(ours):.2f} x" if plain and ours else "-",
                             interval(rounds.get("ours", []), rounds.get("OpenBLAS", [])),
                             f"{min(peers) / median(ours):.2f} x" if peers and ours else "-",
                             f"{ours['offloaded']}/{ours['offloaded'] + ours['host']}" if ours and "offloaded" in ours else "-"])
    gpus = tell(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]).splitlines()
    cpu = next((l.split(":", 1)[1].strip() for l in open("/proc/cpuinfo", encoding="utf-8") if l.startswith("model name")), "?")
    head = ["workload", "n", f"OpenBLAS, {os.cpu_count()} cores", *SIDES[1:], "ours, first", "OpenBLAS/ours", "ours/OpenBLAS (95 %)", "best NVBLAS/ours", "offloaded"]
    words = [w for w in sys.argv[1:] if w != o.out]
    text = ["# Octave" + (" (quick: sizes that show nothing but that everything runs)" if o.quick else ""), "",
            f"* GPUs: {len(gpus)} x {gpus[0]}" if gpus else f"* GPUs: none; devices {r.devices}",
            f"* CPU: {cpu}, {os.cpu_count()} cores; Linux {platform.release()}",
            f"* Debian's octave-cli with its libraries, started through the {'packed' if r.loader == 'pack' else 'machine' + chr(39) + 's'} loader",
            f"* ours: `semcache run --devices {r.devices} -- octave-cli octave.m ...`"
            + ("".join(f", {k}={v}" for k, v in r.settings.items())),
            f"* command: `gpu-octave.sh run OUT {quoted(words)}`", "",
            f"Times are medians of the repetitions that began {STARTED} s after the first, or else of all but the first, with their spread; *first* is",
            "the first, the start of the GPU included. The numbers that each workload prints are compared with those on plain OpenBLAS.", "", markdown(head, rows), ""]
    text += notes_text(r.notes)
    text += [f"In all {time.monotonic() - begun:.0f} s.", ""]
    with open(os.path.join(o.out, "octave.md"), "w", encoding="utf-8") as f:
        f.write("\n".join(text))
    print("\n".join(text))
    return 1 if r.bad else 0


if __name__ == "__main__":
    sys.exit(main())
