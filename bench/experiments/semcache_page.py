"""The page of SemCache++'s experiments: what its paper says, and what the library's runs on its machines take in virtual time."""

import json
import subprocess

from experiments import semcache
from experiments.page import number, percent, seconds
from experiments.predictions import EXPLICIT

PLAIN = {"reused": "reused", "copied": "copied, own plan"}


class Explicit:
    """Explicit copies without overlap on one GPU of a machine, by `semcache predict`: what its papers call CUBLAS."""

    def __init__(self, command, machine):
        self.command, self.machine, self.asked = command, machine, {}

    def ask(self, *words):
        if words not in self.asked:
            command = [self.command, "predict", *map(str, words), "--machine", self.machine, "--devices", "1", "--locked", "--json"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
            told = json.loads(done.stdout)["devices"]["predictors"]
            self.asked[words] = next(p["seconds"] for p in told if p["name"] == EXPLICIT)
        return self.asked[words]

    def product(self, n, place, to="device"):
        """A product whose operands a=, b= are at that place, in the order of their letters, and that reads no C."""
        return self.ask("dgemm", n, n, n, "--from", "a={},b={},c=device".format(*place), "--to", to)

    def sums(self, n):
        """D = A B + A C: A, B and C are sent once, D comes back."""
        return self.product(n, ("host", "host")) + self.product(n, ("device", "host")) + self.ask("daxpy", n * n, "--from", "device")

    def kernels(self, n):
        device = ("device", "device")
        return 2 * self.product(n, device) + self.ask("daxpy", n * n, "--from", "device", "--to", "device")

    def copies(self, n):
        """Of one matrix to the GPU, and from it to the host."""
        device = self.product(n, ("device", "device"))
        return self.product(n, ("host", "device")) - device, self.product(n, ("device", "device"), "host") - device


class Experiment:
    """What the parts of the page share."""

    def __init__(self, page, runs, paper):
        self.page, self.runs, self.paper = page, runs, paper
        self.two, self.many, self.vectors, self.tiles = semcache.sizes(runs.quick)
        self.explicit = {name: Explicit(runs.semcache, name) for name in ("kepler", "tesla")}

    def ran(self, program, name, gpus, n, way, tile=0, few=False):
        return self.runs.get(semcache.machine(name, gpus), program(n, way), **semcache.settings(tile, few))

    def best(self, program, name, gpus, n, few=False):
        """The shortest of what is copied at every call with a given tile, and the tile."""
        return min((self.ran(program, name, gpus, n, "copied", tile, few).seconds, tile) for tile in self.tiles)

    def resident(self, name, gpus, n):
        """AB + AC with all data on the devices."""
        two, three = (self.runs.get(semcache.machine(name, gpus), f"abac-daxpy {n} {k}", **semcache.settings(0)) for k in (2, 3))
        return three.seconds - two.seconds

    def bound(self, name, gpus, n):
        """No program takes less that sends A to every GPU and its share of B and C, and that uses no peer link."""
        up, down = self.explicit[name].copies(n)
        return max(self.explicit[name].kernels(n) / gpus, up * (1 + 2 / gpus), down / gpus)


def kepler(e):
    """Fig. 6."""
    e.page.heading("AB + AC on one and two GPUs (Fig. 6)")
    e.page.text(
        "D = A B + A C on kepler (two K20 without a link between them), two dgemm and a daxpy. Speedups are over *one GPU without "
        "overlap*: A, B and C are sent, three kernels run, D comes back, one after the other, as `semcache predict` says (explicit "
        "copies); the paper's baseline is CUBLAS with unified memory.")
    e.page.items(
        "*reused*: an unmodified program with the library, the first calls of the process; the CPU reads D at the end",
        "*copied*: each call has matrices of its own, and the CPU reads its result before the next one, so that every call sends its "
        "operands and copies its result back. *Own plan*: cut as the library plans it; *tile*: with that tile, the devices get tiles of "
        "the result in turn (`SEMCACHE_SCHEDULER=static`), as in CUBLASXT, but keep what they have until the call ends; *few tiles*: "
        f"the same, each device having memory for {semcache.FEW} tiles",
        "*bound*: the longest of kernels at the rate of the machine's GPUs, all operands sent (A to each GPU, B and C in shares), and D's "
        "way back")
    rows, parts = [], []
    for n in e.two:
        base, groups = e.explicit["kepler"].sums(n), []
        rows.append([str(n), "1", "without overlap", seconds(base), "1.00"])
        for gpus in 1, 2:
            def time(way, tile=0, few=False, n=n, gpus=gpus):
                return e.ran(semcache.sums, "kepler", gpus, n, way, tile, few).seconds
            told = {PLAIN[way]: time(way) for way in semcache.WAYS}
            told.update({f"copied, tile {t}": time("copied", t) for t in e.tiles})
            told.update({f"copied, few tiles of {t}": time("copied", t, True) for t in e.tiles})
            told["bound"] = e.bound("kepler", gpus, n)
            rows += [[str(n), str(gpus), way, seconds(t), f"{base / t:.2f}"] for way, t in told.items()]
            best, few = (e.best(semcache.sums, "kepler", gpus, n, f)[0] for f in (False, True))
            shown = [told["reused"], told["copied, own plan"], best, few, told["bound"]]
            groups.append((f"{gpus} GPU" + "s" * (gpus > 1), [base / t for t in shown]))
        parts.append((f"n = {n}", groups))
    e.page.plot("fig6", "speedup of AB + AC over one GPU without overlap", "bars", parts, "speedup",
                ["reused", "copied, own plan", "copied, best tile", "copied, best of few tiles", "bound"])
    e.page.table(["n", "GPUs", "", "time", "speedup"], rows)
    products(e)


def products(e):
    """What the text around Fig. 6 says."""
    paper, n = e.paper["fig6"], e.two[-1]
    ours = {m: e.ran(semcache.sums, "kepler", 2, m, "reused").seconds for m in e.two}
    over, few = ([percent(e.best(semcache.sums, "kepler", 2, m, f)[0] / ours[m] - 1, 0) for m in e.two] for f in (False, True))
    one, tile = e.best(semcache.product, "kepler", 2, n)
    gain = one / e.ran(semcache.product, "kepler", 2, n, "reused").seconds - 1
    small = e.ran(semcache.sums, "kepler", 2, n, "copied", e.tiles[0]).seconds / e.ran(semcache.sums, "kepler", 1, n, "reused").seconds
    speedup = [f"{e.explicit['kepler'].sums(m) / ours[m]:.2f}" for m in e.two]
    least, most = paper["over_others_2_percent"]
    e.page.said(
        f"bars without numbers. {paper['gpus_1']}. On two GPUs SemCache++ is {paper['speedup_2']} times as fast as the baseline and "
        f"{least} to {most} % faster than CUBLASXT and StarPU; one product is {paper['one_product_percent']} % faster than CUBLASXT's at "
        f"the larger size; {paper['default_block']} (section 5.1).",
        f"on two GPUs {' and '.join(speedup)} times as fast as one without overlap; against the best tile of what is copied "
        f"{' and '.join(over)}, against the best of few tiles {' and '.join(few)}; one product of order {n} {percent(gain)} against tile "
        f"{tile}; tile {e.tiles[0]} on two GPUs takes {small:.2f} times what one GPU takes with reuse.",
        "unified memory moves by pages, slower than explicit copies, over which no program can be three times as fast here (bound). What "
        "is copied is cut, queued and overlapped as the library does it, not as CUBLASXT and StarPU do.")


def moved(e):
    """Fig. 7."""
    n = e.two[0]
    e.page.heading("Bytes moved (Fig. 7)")
    matrix = 8 * n * n
    rows = [[PLAIN[way], e.ran(semcache.sums, "kepler", 2, n, way)] for way in semcache.WAYS]
    rows += [[f"copied, {how} {t}", e.ran(semcache.sums, "kepler", 2, n, "copied", t, how != "tile")] for how in ("tile", "few tiles of")
             for t in e.tiles]

    def cell(matrices):
        return f"{matrices * matrix / 1e6:.0f} ({matrices:.1f})"
    cells = [[way, *(cell(b / matrix) for b in (r.h2d, r.d2h, r.h2d + r.d2h))] for way, r in rows]
    e.page.text(f"AB + AC of order {n} on two GPUs of kepler, MB, and in matrices. *Least*: A to both, half of B and C to each, D back.")
    e.page.table(["", "to the GPUs", "to the host", "together"], [*cells, ["least", cell(4), cell(1), cell(5)]])
    ours, best = (rows[i][1].h2d + rows[i][1].d2h for i in (0, 1))
    e.page.said(f"bars without numbers; {e.paper['fig7']['says']}.",
                f"{number(ours / matrix, 2)} matrices with reuse, {best / ours:.2f} times as much when every call copies.", None)


def scaling(e):
    """Fig. 8."""
    e.page.heading("AB + AC on up to eight GPUs (Fig. 8)")
    e.page.text("On tesla (eight M2090 in a chassis that share a connection to the host of 5.6 GB/s, and reach each other), over one GPU "
                "without overlap. *Kernels alone*: all data are on the devices.")
    ways = {"reused": lambda g, n: e.ran(semcache.sums, "tesla", g, n, "reused").seconds,
            "copied, best tile": lambda g, n: e.best(semcache.sums, "tesla", g, n)[0],
            "kernels alone": lambda g, n: e.resident("tesla", g, n)}
    base = {n: e.explicit["tesla"].sums(n) for n in e.many}
    parts = [(way, [(f"n = {n}", [(g, base[n] / t(g, n)) for g in semcache.GPUS], {}) for n in e.many]) for way, t in ways.items()]
    e.page.plot("fig8", "speedup of AB + AC by GPUs", "curves", parts, "GPUs", "speedup", log=(False, False), ticks=semcache.GPUS,
                zero=True, share=True)
    rows = [[str(n), way, seconds(base[n]), *(f"{base[n] / t(g, n):.2f}" for g in semcache.GPUS)]
            for n in e.many for way, t in ways.items()]
    e.page.table(["n", "", "1 GPU, no overlap", *(str(g) for g in semcache.GPUS)], rows)
    n, most = e.many[-1], semcache.GPUS[-1]
    faster = sum(ways["reused"](g, m) < ways["copied, best tile"](g, m) for m in e.many for g in semcache.GPUS)
    e.page.said(f"bars without numbers; {e.paper['fig8']['says']}.",
                f"with reuse faster than the best tile in {faster} of {len(e.many) * len(semcache.GPUS)} cases; order {n} on {most} GPUs: "
                f"{base[n] / ways['reused'](most, n):.2f} with reuse, {base[n] / ways['copied, best tile'](most, n):.2f} with copies.",
                "the library sends most tiles once over the shared connection and on from GPU to GPU, so that a slow connection limits it "
                "less. The preset's rates are estimates: the paper prints none.")


def jacobi(e):
    """Fig. 9."""
    e.page.heading("Jacobi iterations (Fig. 9)")
    e.page.text("On tesla: y = c - R x by dcopy and dgemv, x and y in turn, with data that stay on the devices, over one GPU to which each "
                "iteration sends R. The time of an iteration is the difference of runs with more and fewer iterations.")

    def iteration(n, g, way=""):
        few, many = (1, 2) if way else (semcache.FIRST, semcache.FIRST + semcache.MORE)
        times = [e.runs.get(semcache.machine("tesla", g), f"jacobi {n} {k}{way}").seconds for k in (few, many)]
        return (times[1] - times[0]) / (many - few) / 2
    base = {n: iteration(n, 1, " host read=1") for n in e.vectors}
    parts = [("R stays on the GPUs", [(f"n = {n}", [(g, base[n] / iteration(n, g)) for g in semcache.GPUS], {}) for n in e.vectors])]
    e.page.plot("fig9", "speedup of Jacobi iterations by GPUs", "curves", parts, "GPUs", "speedup", log=(False, False), ticks=semcache.GPUS,
                zero=True)
    rows = [[str(n), what, seconds(base[n]), *(number(base[n] / iteration(n, g, way)) for g in semcache.GPUS)]
            for n in e.vectors for what, way in (("stays", ""), ("is sent", " host read=1"))]
    e.page.table(["n", "R", "1 GPU, R is sent", *(str(g) for g in semcache.GPUS)], rows)
    n, least, last, paper = e.vectors[-1], e.vectors[0], semcache.GPUS[-1], e.paper["fig9"]
    e.page.said(
        f"curves without numbers; one GPU is {paper['speedup_1']} times as fast as the baseline; {paper['says']}; {paper['sent']}.",
        f"one GPU {base[n] / iteration(n, 1):.0f} times (order {n}), {last} GPUs {iteration(n, 1) / iteration(n, last):.1f} times one, "
        f"{iteration(least, 1) / iteration(least, last):.1f} at order {least}; where R is sent, two GPUs are "
        f"{base[n] / iteration(n, 2, ' host read=1'):.1f} times as fast as one, and {last} "
        f"{base[n] / iteration(n, last, ' host read=1'):.1f} times.",
        "one GPU's speedup is the ratio of its memory's rate to the link's, for which the preset has 130 and 3.0 GB/s, and the chassis "
        "5.6 GB/s for all; the paper prints none of them. Parts of x go from GPU to GPU in each iteration, and 40 us for each task are the "
        "library's own time, which small vectors do not pay for.")


def gradients(e):
    """Fig. 10."""
    e.page.heading("Conjugate gradients (Fig. 10)")
    e.page.text("On kepler: a symmetric tridiagonal matrix in compressed rows (`semcache_csr_multiply`), vectors by sdot, saxpy and sscal, "
                "single precision, data that stay on the devices. The time of a step is the difference of runs with more and fewer steps.")
    some, largest = semcache.orders(e.runs.quick)

    def run(gpus, n, steps):
        wanted = semcache.gradients(gpus, n, steps)
        return e.runs.get(wanted.machine, wanted.program, **wanted.settings)

    def step(gpus, n):
        few, many = (run(gpus, n, k).seconds for k in (semcache.FIRST, semcache.FIRST + semcache.MORE))
        return (many - few) / semcache.MORE
    part = [("two GPUs", [("conjugate gradients", [(n, step(1, n) / step(2, n)) for n in some], {})])]
    e.page.plot("fig10", "speedup of conjugate gradients on two GPUs", "curves", part, "order", "speedup", log=(True, False), zero=True)

    def between(n):
        few, many = (run(2, n, k) for k in (semcache.FIRST, semcache.FIRST + semcache.MORE))
        moved = [sum(getattr(many, way) - getattr(few, way) for way in ("h2d", "d2h", "p2p"))]
        return moved[0] / semcache.MORE / 1e6
    rows = [[str(n), seconds(step(1, n)), seconds(step(2, n)), f"{step(1, n) / step(2, n):.2f}", number(between(n), 3)] for n in some]
    e.page.table(["order", "a step on one GPU", "on two", "speedup", "MB moved by a step on two"], rows)
    paper = e.paper["fig10"]
    large = [n for n in some if n > paper["above"]] or some[-1:]
    mean = sum(step(1, n) / step(2, n) for n in large) / len(large)
    one, two = step(1, largest), step(2, 2 * largest)
    e.page.said(
        f"bars without numbers. One GPU takes {paper['overhead_1_percent']} % more than NVIDIA's hand-tuned program; two are "
        f"{paper['speedup_2']} times as fast on average for more than {paper['above']:,} unknowns; {paper['says']}. Two GPUs run the double "
        f"of the {paper['largest'][0]:,} unknowns that one holds.",
        f"two GPUs are {mean:.2f} times as fast as one on average above {paper['above']:,}; {2 * largest:,} unknowns on two GPUs take "
        f"{seconds(two)} a step, {largest:,} on one {seconds(one)}.",
        "the paper's library sends the whole vector to all GPUs before each product; here a GPU gets what its columns touch, which are two "
        "numbers. 40 us for each task are the library's own time, which small vectors do not pay for.")


def write(page, runs, paper):
    e = Experiment(page, runs, paper)
    kepler(e)
    moved(e)
    scaling(e)
    jacobi(e)
    gradients(e)
