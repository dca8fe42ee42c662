"""What reproduce --measure wrote, and the compact form in which it is kept: of more than three samples the least, the median and
the greatest, their number as "of", and no part of a call's time. Either form is read.
"""

import json
import os
import re
import statistics

KEPT = 200_000  # bytes of a file, at most


def path_of(folder, name):
    return os.path.join(folder, f"reproduce-{name}.jsonl")


def shorter(samples):
    """Least, median and greatest."""
    some = sorted(samples)
    return some if len(some) <= 3 else [some[0], float(f"{statistics.median(some):.4g}"), some[-1]]


def compact(line):
    """A line as it is kept."""
    if "machine" in line:
        # Folders of the machine are no part of what was measured.
        settings = {k: os.path.basename(v) for k, v in line["settings"].items()}
        rates = line["machine"]["rates"]
        if rates:
            rates = re.sub(r'(command = "semcache calibrate).*"', r'\1"', rates)
        return {**line, "machine": {**line["machine"], "rates": rates}, "settings": settings}
    line = {k: v for k, v in line.items() if k != "c"}
    key = "s" if "s" in line else "seconds"
    if key in line:
        line.setdefault("of", len(line[key]))
        line[key] = shorter(line[key])
    return line


class Series:
    """Samples of one time, or of what is kept of them."""

    def __init__(self, samples, number):
        self.number = number
        self.least, self.median, self.most = min(samples), statistics.median(samples), max(samples)


class Measured:
    """All that was measured of an experiment."""

    def __init__(self, folder, name):
        path = path_of(folder, name)
        with open(path, encoding="utf-8") as f:
            self.lines = [compact(json.loads(line)) for line in f]
        self.folder, self.name = folder, name
        self.machine, self.build, self.settings = {}, "?", {}
        self.calls, self.transfers, self.strategies = {}, [], []
        self.finished, self.notes, self.reports = set(), [], {}
        for line in self.lines:
            self.take(line)
        if not self.machine:
            raise ValueError(f"{path} does not say on which machine it was measured")

    def take(self, line):
        if "machine" in line:
            self.machine, self.build, self.settings = line["machine"], line["semcache"], line["settings"]
        elif "call" in line:
            self.calls[line["set"], line["call"], line["part"]] = Series(line["s"], line["of"])
        elif line.get("bench") == "transfers":
            self.transfers.append({**line, "time": Series(line["seconds"], line["of"])})
        elif "routine" in line:
            self.strategies.append({**line, "time": Series(line["seconds"], line["of"])})
        elif "finished" in line:
            self.finished.add(line["finished"])
        elif "note" in line:
            self.notes.append(line["note"])
        elif "report" in line:
            self.reports[line["report"]] = line

    @property
    def quick(self):
        return bool(self.machine["quick"])

    def time(self, setting, call, part=0):
        """The series of a call, or none."""
        return self.calls.get((setting, call, part))

    def of(self, setting):
        """The series of a setting, by call and part."""
        return {(call, part): series for (s, call, part), series in self.calls.items() if s == setting}

    def progress(self, steps):
        """How much of each step is measured: its title, what is measured, and how many measurements it has."""
        for step in steps:
            if hasattr(step, "calls"):
                yield step.title, sum((step.setting, c, p) in self.calls for c, p in step.calls), len(step.calls)
            else:
                yield step.title, int(step.title in self.finished), 1

    def keep(self, folder):
        """Writes the compact form, unless it is where it was read."""
        path = path_of(folder, self.name)
        if os.path.exists(path) and os.path.samefile(folder, self.folder):
            return
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in self.lines)
        if len(text) > KEPT:
            print(f"reproduce: {path} has {len(text)} bytes, more than the {KEPT} that are kept")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
