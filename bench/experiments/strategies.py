"""The strategies of van Werkhoven et al. as bench/peer_strategies.c measures them, and what their equations say of each."""

from experiments.equations import Links, Way
from experiments.predictions import EXPLICIT, MAPPED, STREAMS, Problem

# Each element used once, as by the paper's `state`, or x again and again, as `buoydiff` uses its inputs.
ROUTINES = {"daxpy": "daxpy", "dgemv-n": "dgemv", "dgemv-t": "dgemv, A transposed"}
STRATEGIES = ["explicit", "streams", "mapped", "hybrid"]


def problem(routine, n):
    return Problem(f"daxpy {n} hh" if routine == "daxpy" else f"dgemv {n} {n} hhh" + (" t" if routine == "dgemv-t" else ""))


def of_tables(measured, both):
    """Links as the paper has them: Tables I and II, as they are measured here. None if something is missing."""
    if not all(d.complete for d in both.values()):
        return None
    mapped = {key: d.mapped(measured, key) for key, d in both.items()}
    if not all(m for found in mapped.values() for m in found.values()):
        return None
    return Links(*(Way(d.latency, d.gap, d.mean_byte, d.both_mean_byte, mapped[key]["mapped"], mapped[key]["mapped both"])
                   for key, d in both.items()))


def hybrid(links, p, used, kernel):
    """Copies of some operands before and behind Eq. 6 for the `used` ones: one stream, as it is measured. (The paper's hybrid has
    streams, and is predicted by Eq. 5.) The result is the last operand; of daxpy it is also read."""
    letters = "xy" if p.routine == "daxpy" else "axy"
    here = [b if letter in used else 0.0 for letter, b in zip(letters, p.bytes)]
    copied = [b - h for b, h in zip(p.bytes, here)]
    return links.explicit(sum(copied[:2]), copied[-1], links.mapped(sum(here[:2]), here[-1], kernel))


def predict(machine, links, routine, n, name, streams):
    """Seconds of a line of peer_strategies."""
    p = problem(routine, n)
    kernel = machine.kernel(p.call)
    if name == "explicit":
        return links.explicit(*p.moved, kernel)
    if name == "mapped":
        return links.mapped(*p.moved, kernel)
    return hybrid(links, p, name.split("-")[1], kernel) if name.startswith("hybrid") else links.streams(*p.moved, kernel, streams)


def check(machine, routine, n):
    """The equations here and those of `semcache predict` are the same."""
    p = problem(routine, n)
    answer = machine.ask(p.call)
    for key, name in (EXPLICIT, "explicit"), (STREAMS, "streams"), (MAPPED, "mapped"):
        if abs(predict(machine, machine.links, routine, n, name, answer.pieces[key]) / answer.predictors[key] - 1) > 1e-6:
            raise RuntimeError(f"{p.call}: semcache predict and this script have different equations of {name}")


class Times:
    """What was measured from the host: (routine, n) -> {(name, streams): seconds}."""

    def __init__(self, measured):
        self.of = {}
        for s in measured.strategies:
            if s["place"] == "host" and s["routine"] in ROUTINES:
                self.of.setdefault((s["routine"], s["n"]), {})[s["strategy"], s["streams"]] = s["time"].median

    def sizes(self, routine):
        return sorted(n for r, n in self.of if r == routine)


def best(some):
    """Of {(name, streams): seconds}, the fastest variant of each of the paper's strategies: (seconds, name, streams)."""
    found = {}
    for (name, streams), t in some.items():
        kind = name.split("-")[0]
        if kind not in found or t < found[kind][0]:
            found[kind] = t, name, streams
    return {kind: found[kind] for kind in STRATEGIES if kind in found}


def winner(found):
    return min(found, key=lambda kind: found[kind][0])
