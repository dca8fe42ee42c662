"""What the experiments share where they are measured: a file of what is finished, so that a run goes on where the last one ended.

OUT/reproduce-NAME.jsonl has one line for the machine, one per measured call or line of a program, and one per finished program.
"""

import json
import os
import sys
import time

from run import BIN, HERE, Bench, tell

# Seconds that a program may need to end, after its own limit.
MARGIN = 15


def digits(seconds):
    """Four significant digits."""
    return [float(f"{s:.4g}") for s in seconds]


def here():
    """The machine, as far as measurements of two runs must agree on it."""
    gpus = tell(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]).splitlines()
    cpu = next((l.split(":", 1)[1].strip() for l in open("/proc/cpuinfo", encoding="utf-8") if l.startswith("model name")), "?")
    return {"gpu": gpus[0] if gpus else "none", "cpu": cpu, "cores": os.cpu_count()}


class Session(Bench):
    """The measurements of one experiment."""

    MODE = "a"

    def __init__(self, options, name):
        self.RAW = f"reproduce-{name}.jsonl"
        options.only, options.reps, options.gpus = None, 0, 1
        path = os.path.join(options.out, self.RAW)
        self.finished, machine = set(), None
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                for line in map(json.loads, f):
                    machine = line.get("machine", machine)
                    if "call" in line:
                        self.finished.add((line["set"], line["call"], line["part"]))
                    self.finished.add(line.get("finished"))
        super().__init__(options)
        self.path, self.name = os.path.join(options.out, name + ".calls"), name
        self.rates = {"SEMCACHE_RATES": os.path.abspath(options.rates)} if options.rates else {}
        self.step, self.steps, self.unfinished = 0, 0, 0
        rates = None
        if options.rates:
            with open(options.rates, encoding="utf-8") as f:
                rates = f.read()
        now = {**here(), "devices": self.devices, "quick": options.quick, "rates": rates}
        if machine is None:
            with open(os.path.join(HERE, "version"), encoding="utf-8") as f:
                self.line({"machine": now, "semcache": f.read().strip(), "settings": self.settings})
        elif machine != now:
            differ = ", ".join(k for k in now if machine.get(k) != now[k])
            sys.exit(f"reproduce: what {path} has was measured with another {differ}")

    def write(self, entry):
        """Bench's lines about reports and notes; those with measurements are written when the whole program is known to be right."""
        if "note" in entry:
            self.line(entry)
        elif "report" in entry:
            self.line({"report": self.title, **{k: entry[k] for k in ("bytes", "faults", "fallbacks", "degraded")}})

    def line(self, entry):
        self.raw.write(json.dumps(entry, separators=(",", ":")) + "\n")
        self.raw.flush()

    def left(self):
        return self.end - time.monotonic() - MARGIN

    def begin(self, title, open_):
        """Whether there is time for the next step, of which `open_` measurements are not finished."""
        self.step += 1
        self.title = title
        late = open_ and self.left() < MARGIN
        self.unfinished += open_ if late else 0
        state = "finished" if not open_ else f"{open_} left, no time" if late else f"{open_} to measure, {self.left():.0f} s left"
        print(f"[{self.step}/{self.steps}] {self.name}: {title}: {state}", flush=True)
        return open_ and not late

    def calls(self, step):
        """Measures what is not finished of a list of calls."""
        todo = [(call, part) for call, part in step.calls if (step.setting, call, part) not in self.finished]
        if not self.begin(step.title, len(todo)):
            return
        with open(self.path, "w", encoding="utf-8") as f:
            f.writelines(f"{call} {part}\n" for call, part in todo)
        command = [f"{BIN}/{step.program}", self.path, str(step.repetitions), f"{self.left():.0f}"]
        env = {**self.rates, **step.env} if step.who == "ours" else {}
        measured = self.run(step.who, command, self.left() + MARGIN, env)
        for line in measured:
            call = " ".join([line["routine"], *map(str, line["sizes"]), line["from"]])
            entry = {"set": step.setting, "call": call, "part": line["part"], "s": digits(line["seconds"])}
            # Where the result comes home after the call, the call's own part of the time.
            if step.who == "ours" and line["from"].endswith("h"):
                entry["c"] = digits(line["call"])
            self.line(entry)
            # Another step may have the same call.
            self.finished.add((step.setting, call, line["part"]))
        os.unlink(self.path)
        self.unfinished += len(todo) - len(measured)

    def whole(self, step):
        """Runs a program of which all lines are wanted together."""
        open_ = 0 if step.title in self.finished else 1
        if not self.begin(step.title, open_):
            return
        measured = self.run("peer", [f"{BIN}/{step.command[0]}", *step.command[1:]], self.left() + MARGIN)
        for line in measured:
            if "seconds" in line:
                line["seconds"] = digits(line["seconds"])
            self.line({k: v for k, v in line.items() if k not in ("who", "command", "status")})
        if measured and not measured[-1]["status"]:
            self.line({"finished": step.title})
        else:
            self.unfinished += 1

    def measure(self, steps):
        """Takes all steps in their order. 1 if a number was wrong or our side did not run, 3 if anything else is not measured."""
        self.steps = len(steps)
        for step in steps:
            step.take(self)
        if self.unfinished:
            print(f"reproduce: {self.name}: {self.unfinished} measurements are left: the same command goes on with them", flush=True)
        return 1 if self.bad else 3 if self.unfinished else 0


class Calls:
    """Calls of dgemm and daxpy, each a line of problem.h without its last number, which is `part`."""

    def __init__(self, title, setting, who, calls, env=None, repetitions=2):
        self.title, self.setting, self.who, self.calls, self.env, self.repetitions = title, setting, who, calls, env or {}, repetitions
        self.program = "peer_places" if who == "peer" else "places"

    def take(self, session):
        session.calls(self)


class Program:
    """A program that is run once."""

    def __init__(self, title, command):
        self.title, self.command = title, command

    def take(self, session):
        session.whole(self)
