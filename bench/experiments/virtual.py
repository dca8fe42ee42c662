"""Runs of bench/virtual.c on simulated machines, in virtual time: nothing is moved or computed, so that a run takes less than a second.

FOLDER/reproduce-NAME.jsonl has a line for the library and one for each finished run, so that an interrupted command goes on where it
ended. Runs of another library are made again. An experiment NAME has in NAME.py `wanted(quick)`, the list of all its runs, and in
NAME_page.py `write(page, runs, paper)`, which gets them: `runs.get("tesla:4", "dgemm 8192 2", tile=2048).seconds`. If NAME.py has a list
OF_DEVICES, only these figures of each device are kept, since the file is part of the project.
"""

import collections
import concurrent.futures
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BENCH = os.path.dirname(HERE)
# Runs at a time, and seconds that one may take: the longest take several.
AT_ONCE, LIMIT = 2, 600
SETTINGS = {"offload": "always", "pin": "off", "rates": "off"}

# Of a device: bytes, seconds of its kernels and of its copies from the host, to the host and from other devices, and when the last of
# these is complete.
COUNTS, TIMES = ["tasks", "h2d", "d2h", "p2p"], ["kernels", "uploads", "write_backs", "peers", "end"]
Device = collections.namedtuple("Device", COUNTS + TIMES, defaults=[None] * len(COUNTS + TIMES))
# Of a run: when all copies and kernels are complete, bytes, and the devices in their order.
Ran = collections.namedtuple("Ran", "seconds h2d d2h p2p devices")


def flops(routine, n):
    """Of a call of a routine of level 3 on square matrices."""
    return (2 if routine in ("dgemm", "dsymm", "dsyr2k") else 1) * n ** 3


def tasks(ran):
    """Of all devices."""
    return sum(d.tasks for d in ran.devices)


class Run:
    """A run that is wanted: the machine (a preset, one with the number of its devices, or a number), the words of virtual.c as a list
    or a string, and SEMCACHE_ variables, without that prefix and in lower case. `sim` comes after "hollow"."""

    # Whether figures of its devices are kept.
    devices = True

    def __init__(self, machine, program, **settings):
        self.machine = str(machine)
        self.program = program if isinstance(program, str) else " ".join(map(str, program))
        self.settings = {name: str(value) for name, value in sorted(settings.items())}

    @property
    def key(self):
        return " ".join([self.machine + ":", self.program, *(f"{k}={v}" for k, v in self.settings.items())])

    def environment(self):
        given = {"SEMCACHE_" + k.upper(): v for k, v in {**SETTINGS, **self.settings}.items()}
        plain = {k: v for k, v in os.environ.items() if not k.startswith("SEMCACHE_")}
        sim = ",".join(["hollow", *([self.settings["sim"]] if "sim" in self.settings else [])])
        return {**plain, **given, "SEMCACHE_DEVICES": f"sim:{self.machine}", "SEMCACHE_SIM": sim, "OPENBLAS_NUM_THREADS": "1"}


def line_of(run, report, of_devices):
    """The line of a run, from its report."""
    bytes_, ns = report["bytes"], report.get("virtual_time", {}).get("ns", 0)
    host = {name: calls["host"] for name, calls in report["calls"].items() if calls["host"]}
    host.update({"sparse": n for n in [report["sparse_host"]] if n})
    if ns <= 0 or not any(calls["offloaded"] for calls in report["calls"].values()) or host or report["fallbacks"]:
        raise RuntimeError(f"{run.key}: {ns} ns of virtual time, {report['fallbacks']} fallbacks, calls on the host: {host or 'none'}")

    def figure(device, name):
        # Times in microseconds; a device without work has none.
        return device[name] if name in COUNTS else round(device.get("virtual_time", {}).get(name + "_ns", 0) / 1e3)
    line = {"run": run.key, "ns": ns, "bytes": [bytes_[k] for k in ("h2d", "d2h", "p2p")]}
    if not (of_devices and run.devices):
        return line
    return {**line, "devices": [[figure(d, name) for name in of_devices] for d in report["devices"]]}


def ran_of(line, of_devices):
    def device(figures):
        return Device(**{name: value / 1e6 if name in TIMES else value for name, value in zip(of_devices, figures)})
    return Ran(line["ns"] / 1e9, *line["bytes"], [device(d) for d in line.get("devices", [])])


def commit():
    """The last one that changes the library."""
    def git(*words):
        where = ["--", ":/libsemcache", ":/blas-shim"]
        return subprocess.run(["git", "-C", BENCH, *words, *where], capture_output=True, text=True, check=False).stdout.strip()
    return git("log", "-1", "--format=%h") + ("-dirty" if git("status", "--porcelain") else "")


def head_of(semcache, quick, of_devices):
    """What the runs depend on, and what is kept of their devices."""
    # The library that the command takes.
    beside = os.path.dirname(os.path.realpath(semcache))
    library = next(filter(os.path.exists, (os.path.join(beside, d, "libsemcache_blas.so") for d in (".", "../lib"))))
    mark = hashlib.sha256()
    for path in library, os.path.join(BENCH, "virtual.c"):
        with open(path, "rb") as f:
            mark.update(f.read())
    return {"semcache": commit() or "?", "mark": mark.hexdigest()[:16], "quick": bool(quick), "of_devices": list(of_devices)}


class Progress:
    """How many runs are finished, on stderr."""

    def __init__(self, name, total):
        self.name, self.total, self.done, self.start, self.told = name, total, 0, time.monotonic(), 0.0

    def step(self, key):
        self.done += 1
        now = time.monotonic()
        # On a terminal one line that changes.
        terminal = sys.stderr.isatty()
        if terminal or now - self.told > 5 or self.done == self.total:
            self.told, left = now, (now - self.start) / self.done * (self.total - self.done)
            text = f"[{self.done}/{self.total}] {self.name}: {left:.0f} s left; {key}"
            print(f"\r\033[K{text[:110]}" if terminal else text, end="" if terminal and self.done < self.total else "\n", file=sys.stderr,
                  flush=True)


class Runs:
    """The runs of an experiment, with what is kept of them."""

    def __init__(self, semcache, folder, name, quick=False):
        self.semcache, self.folder, self.name, self.quick = semcache, folder, name, quick
        self.path, self.lines, self.head = os.path.join(folder, f"reproduce-{name}.jsonl"), {}, None
        if os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as f:
                # Without the last line of an interrupted command, if it is not whole.
                self.head, *rest = (json.loads(line) for line in f if line.endswith("\n"))
            self.lines = {line["run"]: line for line in rest}

    def make(self, wanted, of_devices=Device._fields):
        """Makes all runs that are not kept from the same library."""
        head = head_of(self.semcache, self.quick, of_devices)
        if self.head is None or any(self.head.get(k) != head[k] for k in ("mark", "quick", "of_devices")):
            self.lines = {}
        self.head = head
        wanted = list({run.key: run for run in wanted}.values())
        todo = [run for run in wanted if run.key not in self.lines]
        os.makedirs(self.folder, exist_ok=True)
        self.write(self.lines.values())
        with tempfile.TemporaryDirectory() as folder, open(self.path, "a", encoding="utf-8") as kept:
            program, progress = compiled(folder), Progress(self.name, len(todo))
            pool = concurrent.futures.ThreadPoolExecutor(AT_ONCE)
            try:
                waiting = [pool.submit(self.run, run, program, os.path.join(folder, f"{i}.json")) for i, run in enumerate(todo)]
                for finished in concurrent.futures.as_completed(waiting):
                    line = finished.result()
                    self.lines[line["run"]] = line
                    kept.write(json.dumps(line, separators=(",", ":")) + "\n")
                    kept.flush()
                    progress.step(line["run"])
            finally:
                pool.shutdown(cancel_futures=True)
        self.lines = {run.key: self.lines[run.key] for run in wanted}
        self.write(self.lines.values())

    def keep(self, folder):
        """Writes what is kept of the runs there, too. From then on they are quick if those that are kept are."""
        self.path, self.quick = os.path.join(folder, os.path.basename(self.path)), self.head["quick"]
        self.write(self.lines.values())

    def write(self, lines):
        with open(self.path, "w", encoding="utf-8") as f:
            f.writelines(json.dumps(line, separators=(",", ":")) + "\n" for line in [self.head, *lines])

    def run(self, run, program, report):
        command = [self.semcache, "run", "--report", report, "--", program, *run.program.split()]
        done = subprocess.run(command, env=run.environment(), capture_output=True, text=True, timeout=LIMIT, check=False)
        if done.returncode or not os.path.exists(report):
            raise RuntimeError(f"{run.key}: exit status {done.returncode}: {done.stderr.strip()}")
        if warned := [t for t in done.stderr.splitlines() if t.startswith("semcache: ") and "ran on devices" not in t]:
            raise RuntimeError(f"{run.key}: {' '.join(warned)}")
        with open(report, encoding="utf-8") as f:
            found = json.load(f)
        os.unlink(report)
        return line_of(run, found, self.head["of_devices"])

    def get(self, machine, program, **settings):
        """A run of wanted()."""
        key = Run(machine, program, **settings).key
        if key not in self.lines:
            raise KeyError(f"{self.name}: no run {key}: wanted() does not have it, or it was not made")
        return ran_of(self.lines[key], self.head["of_devices"])


def compiled(folder):
    """The program that all runs are of."""
    program = os.path.join(folder, "virtual")
    sources = [os.path.join(BENCH, name) for name in ("virtual.c", "common.c")]
    subprocess.run(["gcc", "-O2", "-o", program, *sources, "-lblas", "-lpthread", "-lm"], check=True)
    return program
