"""The page of CoCoPeLia's experiments: what its paper has, and what is measured here."""

import statistics

from experiments import cocopelia, cocopelia_errors
from experiments.fits import Direction
from experiments.page import geometric, number, percent, seconds
from experiments.predictions import Problem

# The least that the library is to gain, in percent.
TARGETS = {"dgemm, full": 33, "dgemm, partial": 16, "daxpy": 20}
SCENARIOS = [("square, A and B on the GPU", "ddh", 0), ("square, all at the host", "hhh", 0), ("M = N = K / 8, all at the host", "hhh", 8)]


class Best:
    """The fastest of several ways in which a peer ran a call: a block of cuBLASXt, or a number of pieces of managed memory."""

    def __init__(self, measured, setting):
        self.ways, self.by_call = set(), {}
        for (call, part), series in measured.of(setting).items():
            self.ways.add(part)
            self.by_call.setdefault(call, {})[part] = series

    def part(self, call):
        some = self.by_call.get(call, {})
        return min(some, key=lambda p: some[p].median) if some else None

    def time(self, call):
        part = self.part(call)
        return None if part is None else self.by_call[call][part]

    def number(self, call):
        return len(self.by_call.get(call, {}))


class Gain:
    """The gain over a peer on some calls."""

    def __init__(self, calls, own, peer):
        both = [(own(c), peer(c), c) for c in calls]
        both = [(a, b, c) for a, b, c in both if a and b]
        self.ratios = {c: b.median / a.median for a, b, c in both}
        self.least = [b.least / a.least for a, b, _ in both]

    def __len__(self):
        return len(self.ratios)

    @property
    def mean(self):
        return geometric(self.ratios.values()) - 1

    def cells(self):
        if not self.ratios:
            return ["0", "", "not measured", "", ""]
        worst, best = min(self.ratios.values()) - 1, max(self.ratios.values()) - 1
        return [str(len(self)), str(sum(r > 1 for r in self.ratios.values())), percent(self.mean),
                percent(geometric(self.least) - 1), f"{percent(worst, 0)} to {percent(best, 0)}"]


GAIN_HEAD = ["calls", "faster", "gain", "by the shortest times", "from, to"]


class Experiment:
    """What the parts of the page share."""

    def __init__(self, page, measured, paper, machine):
        self.page, self.measured, self.paper, self.machine = page, measured, paper, machine
        self.steps = cocopelia.steps(measured.quick)
        self.xt, self.managed = Best(measured, "xt"), Best(measured, "managed")
        self.names = {k: self.calls(k) for k in ("dgemm", "daxpy")}

    def calls(self, routine):
        """All calls of a routine that either side measures, and whether each is of the validation set."""
        found = {}
        for step in self.steps:
            for call, _ in getattr(step, "calls", []):
                if call.startswith(routine):
                    found[call] = found.get(call, False) or "validation set" in step.title
        return found

    def own(self, call, setting="auto"):
        return self.measured.time(setting, call)

    def gain(self, routine, wanted=lambda p: True, setting="auto", validation=False):
        peer = self.xt if routine == "dgemm" else self.managed
        some = [c for c, valid in self.names[routine].items() if (valid or not validation) and wanted(Problem(c))]
        return Gain(some, lambda c: self.own(c, setting), peer.time)


def met(gain, target):
    if not gain:
        return "not measured"
    return ("**met**" if 100 * gain.mean >= target else "**missed**") + f" ({target} %)"


def gains(e):
    """Table IV."""
    e.page.heading("Gain over other libraries (Table IV)")
    e.page.text(
        "By how much the time of the other library exceeds the library's, geometric means over calls, as in the paper. *full*: all "
        "operands "
        "at the host before each call; *partial*: some of them on the GPU. The other library of dgemm is cuBLASXt with its best block of "
        f"those measured ({', '.join(map(str, sorted(e.xt.ways))) or 'none'}) for each call, that of daxpy managed memory with prefetches, "
        f"in the better of {' and '.join(map(str, sorted(e.managed.ways))) or 'no'} pieces. BLASX and sgemm are not measured. A time is "
        "the "
        "median of those of one call; *by the shortest times* takes the shortest one on both sides. The CPU writes to every page of the "
        "operands at the host before each call, and reads every page of a result at the host within the time.")
    paper = e.paper["improvement"]
    rows = []
    for routine in "dgemm", "daxpy":
        for scope in "full", "partial":
            gain = e.gain(routine, lambda p, scope=scope: p.full == (scope == "full"))
            target = TARGETS.get(f"{routine}, {scope}", TARGETS.get(routine))
            rows.append([f"{routine}, {scope}", *gain.cells(), *(f"{paper[t][routine][scope]:+g} %" for t in ("I", "II")), met(gain, target)])
    whole = e.gain("daxpy")
    rows.append(["daxpy, both", *whole.cells(), "", "", met(whole, TARGETS["daxpy"])])
    e.page.table(["", *GAIN_HEAD, "paper, testbed I", "paper, testbed II", "target"], rows)
    counts = ", ".join(f"{len(e.gain(r))} of {n} calls of {r}" for r, n in e.paper["improvement"]["problems"].items())
    e.page.text(f"Of the calls that the paper takes these means of, here are {counts}. cuBLASXt: {block_counts(e)}. "
                f"Repetitions of a call on the library's side: {repetitions(e)}.")
    kinds(e)
    daxpy(e)


def block_counts(e):
    numbers = [e.xt.number(c) for c in e.xt.by_call]
    if not numbers:
        return "no block is measured"
    wanted = len({p for s in e.steps for c, p in getattr(s, "calls", []) if s.setting == "xt"})
    return f"{min(numbers)} to {max(numbers)} blocks a call, of the {wanted} that the paper's search and this one have"


def repetitions(e):
    numbers = sorted(s.number for (_, _), s in e.measured.of("auto").items())
    few = sum(n <= 2 for n in numbers)
    return (f"{numbers[0]} to {numbers[-1]} after one that is not counted (the paper has 100)" +
            (f"; {few} calls have two or fewer, so that what the library learns in its second call is in some medians" if few else "")
            if numbers else "none")


def shape(p):
    m, _, k = p.sizes
    return "square" if m == k else "flat (K < M = N)" if k < m else "deep (K > M = N)"


def kinds(e):
    """Where dgemm gains and loses."""
    kinds_ = [(f"full, {name}", lambda p, name=name: p.full and shape(p) == name)
              for name in ("square", "flat (K < M = N)", "deep (K > M = N)")]
    kinds_ += [(f"partial, {places}", lambda p, places=places: p.places == places) for places in cocopelia.PLACES[1:]]
    rows = []
    for name, wanted in kinds_:
        gain = e.gain("dgemm", wanted)
        off = [e.own(c).median / e.machine.ask(c).seconds for c in gain.ratios]
        rows.append([name, *gain.cells(), f"{statistics.median(off):.2f}" if off else ""])
    e.page.text("dgemm by shape, and by the places of A, B and C (h: host, d: GPU), with the median of the library's time over what it "
                "predicts:")
    e.page.table(["", *GAIN_HEAD, "time / predicted"], rows)
    would = {}
    for scope in "full", "partial":
        calls = e.gain("dgemm", lambda p, scope=scope: p.full == (scope == "full")).ratios
        if calls:
            would[scope] = percent(geometric([e.xt.time(c).median / e.machine.ask(c).seconds for c in calls]) - 1)
    if would:
        e.page.text("If the library took what it predicts, its gain would be " + " and ".join(f"{g} ({s})" for s, g in would.items()) + ".")


def daxpy(e):
    """The ways in which the library runs daxpy."""
    rows = []
    for setting, says in ("auto", "where the library decides"), ("always", "always on the GPU"):
        for scope in "full", "partial":
            gain = e.gain("daxpy", lambda p, scope=scope: p.full == (scope == "full"), setting)
            rows.append([says, scope, *gain.cells()])
    e.page.text("daxpy by where the library runs it:")
    e.page.table(["", "", *GAIN_HEAD], rows)
    sent = {s: sum(r["bytes"]["h2d"] for t, r in e.measured.reports.items() if t.startswith("daxpy") and ("always" in t) == (s == "always"))
            for s in ("auto", "always")}
    if all(sent.values()):
        e.page.text(f"Where it decides, it uploads {sent['auto'] / 1e9:.1f} GB in all these calls, and {sent['always'] / 1e9:.1f} GB "
                    "when all "
                    "run on the GPU: of vectors that the CPU rewrites, and whose result it reads, most calls stay on the host BLAS, which "
                    "needs no link. That is the gain; the paper's library runs every call on the GPU.")


def link(e):
    """Table II."""
    e.page.heading("Transfers (Table II)")
    rows = []
    for testbed, gpu in ("I", "K40, PCIe 2.0 x8"), ("II", "V100, PCIe 3.0 x16"):
        for d, t in e.paper["transfers"][testbed].items():
            rows.append([f"paper, {gpu}", d, seconds(t["latency_s"]), f"{t['bytes_per_s'] / 1e9:.2f}", seconds(t["rse_s"]),
                         f"{t['both_bytes_per_s'] / 1e9:.2f}", seconds(t["both_rse_s"]), f"{t['slowdown']:.2f}"])
    lacking = []
    for d in "h2d", "d2h":
        found = Direction(e.measured, d)
        if found.complete:
            rows.append(["here", d, seconds(found.latency), f"{1e-9 / found.byte:.2f}", seconds(found.error), f"{1e-9 / found.both_byte:.2f}",
                         seconds(found.both_error), f"{found.slowdown:.2f}"])
        else:
            lacking.append(d)
    e.page.table(["", "", "latency", "GB/s alone", "RSE", "GB/s in both directions", "RSE", "slowdown"], rows)
    if lacking:
        e.page.text(f"Not measured here: {', '.join(lacking)}.")
    e.page.text("Least squares through the latency of one byte, as in section IV-A; RSE is the residual standard error. Here the copies "
                "are of "
                "up to 1 GiB, in the paper of up to half of the GPU's memory. Why they differ: the link is PCIe 5.0 x16. Why its latency "
                "is longer is "
                "not measured. Copies in the opposite direction slow those to the GPU down more here, and those to the host more in the "
                "paper.")


def blocks(e):
    """Fig. 1."""
    e.page.heading("Blocks of cuBLASXt (Fig. 1)")
    series, rows = [], []
    static = e.paper["fig1"]["static_tile"]
    squares = [Problem(c) for c in e.xt.by_call if c.startswith("dgemm") and e.names["dgemm"].get(c)]
    for problem in sorted((p for p in squares if p.full and len(set(p.sizes)) == 1), key=lambda p: p.sizes):
        call = problem.call
        some = e.xt.by_call[call]
        best = e.xt.part(call)
        points = sorted((part, problem.flops / s.median / 1e12) for part, s in some.items())
        series.append((f"n = {problem.sizes[0]}", points, {"ring": best}))
        loss = f"{100 * (some[static].median / some[best].median - 1):.1f} %" if static in some else "not measured"
        rows.append([str(problem.sizes[0]), str(len(some)), str(best), number(problem.flops / some[best].median / 1e12), loss])
    if rows:
        e.page.plot("fig1", "TFLOP/s of cuBLASXt by block", "curves", [("cublasXtDgemm, all operands at the host", series)], "block (elements)",
                    "TFLOP/s", log=(True, False), ticks=sorted(e.xt.ways), zero=True)
    e.page.table(["n", "blocks measured", "best block", "TFLOP/s", f"time lost with blocks of {static}"], rows)
    f = e.paper["fig1"]
    e.page.said(f"curves without numbers for four sizes on either testbed; blocks of {static}, the best on average, take up to "
                f"{f['loss_percent']['I']} % (I) and {f['loss_percent']['II']} % (II) longer than the best (section II-A).",
                f"{len(rows)} sizes; rings mark the best block of each.", faster(e))


def faster(e):
    """This machine against testbed II."""
    flops = e.machine.rates["device"]["gemm"]["d"]["peak_flops"] / e.paper["testbed"]["II"]["peak_flops"]["d"]
    link_ = e.machine.rates["device"]["h2d"]["bytes_per_s"] / e.paper["transfers"]["II"]["h2d"]["bytes_per_s"]
    return (f"products are {flops:.1f} times as fast as the peak of testbed II and copies to the GPU {link_:.1f} times, so that a block must be "
            f"{flops / link_:.1f} times as large to compute for as long as its copies take.")


def sizes(e):
    """Fig. 7."""
    e.page.heading("dgemm by size (Fig. 7)")
    parts, rows = [], []
    for title, places, deep in SCENARIOS:
        ours, theirs, told = [], [], []
        for call in e.names["dgemm"]:
            p = Problem(call)
            m, n, k = p.sizes
            if p.places != places or m != n or round(k / m) != max(1, deep) or (not deep and m != k):
                continue
            side = round((m * n * k) ** (1 / 3) / 512) * 512 or m
            told.append((side / 1024, p.flops / e.machine.ask(call).seconds / 1e12))
            for found, series in (ours, e.own(call)), (theirs, e.xt.time(call)):
                if series:
                    found.append((side / 1024, p.flops / series.median / 1e12))
        guess = [(x, t) for x, t in sorted(told) if x in dict(ours)]
        parts.append((title, [("semcache", sorted(ours), {}), ("cuBLASXt, best block", sorted(theirs), {}),
                              ("semcache, predicted", guess, {"line": "--", "marker": "", "colour": 0})]))
        common = sorted(set(dict(ours)) & set(dict(theirs)))
        rows += [[title, f"{x:g} x 1024", number(dict(ours)[x]), number(dict(theirs)[x]), percent(dict(ours)[x] / dict(theirs)[x] - 1, 0)]
                 for x in common]
    if rows:
        e.page.plot("fig7", "TFLOP/s of dgemm by size", "curves", [p for p in parts if any(s for _, s, _ in p[1])],
                    "cube root of M N K (multiples of 1024)", "TFLOP/s", log=(False, False), zero=True, share=True, height=3.0)
    e.page.table(["", "cube root of M N K", "semcache, TFLOP/s", "cuBLASXt, TFLOP/s", "gain"], rows)
    e.page.said(f"curves without numbers; {e.paper['fig7']['says']} (section V-E).",
                "the table, and that of gains by shape above; dashed: what the library predicts.",
                "the paper's library gets page-locked buffers and leaves them page-locked. This one is called through the BLAS: it has "
                "to notice "
                "the CPU's writes between calls, and its reading of the result, in ordinary memory, which is not in the predictions.")


def write(page, measured, paper, machine):
    e = Experiment(page, measured, paper, machine)
    gains(e)
    link(e)
    blocks(e)
    cocopelia_errors.write(e)
    sizes(e)
