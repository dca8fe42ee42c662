"""The page of the experiments of XKBlas: what the paper has, and what its policy and the library do on the same machine."""

from experiments import xkblas
from experiments.page import number, percent
from experiments.virtual import flops
from experiments.xkblas import MACHINE, OFF, POLICIES, ROUTINES, STUDIED, grid, program, tiles

PAPERS, OURS = POLICIES
# TFLOP/s of dgemm of the preset's 8 GPUs together.
PEAK = 8 * 7.0
# By how much a cost may differ from the paper's.
WITHIN = 1 / 3
# Of a device's times.
KINDS = {"kernels": "kernels", "from the host": "uploads", "from GPUs": "peers", "to the host": "write_backs"}
COLUMNS = {"on_devices": "data on devices", "no_heuristic": "no heuristic", "no_topology": "no heuristic, no topology"}


class Best:
    """The shortest time over the tiles of one order, in seconds."""

    def __init__(self, e, routine, n, settings, on_devices=False):
        some = [(e.seconds(routine, n, settings, tile, on_devices), tile) for tile in [*tiles(n), *([grid(n)] if on_devices else [])]]
        self.seconds, self.tile = min(some)
        self.tflops = flops(routine, n) / self.seconds / 1e12


class Page:
    def __init__(self, page, runs, paper):
        self.page, self.runs, self.paper, self.quick = page, runs, paper, runs.quick
        self.orders = xkblas.orders(runs.quick)
        self.kept = {}

    def seconds(self, routine, n, settings, tile, on_devices=False):
        """A call from the host; or one more call on the same matrices."""
        first = self.runs.get(MACHINE, program(routine, n), **settings, tile=tile).seconds if not on_devices else 0
        if not on_devices:
            return first
        one, two = (self.runs.get(MACHINE, program(routine, n, calls), **settings, tile=tile).seconds for calls in (1, 2))
        return two - one

    def best(self, routine, n, settings, on_devices=False):
        key = routine, n, str(settings), on_devices
        if key not in self.kept:
            self.kept[key] = Best(self, routine, n, settings, on_devices)
        return self.kept[key]

    def curve(self, routine, settings, on_devices=False):
        return [(n / 1024, self.best(routine, n, settings, on_devices).tflops) for n in self.orders]

    def default(self, routine):
        return [(n / 1024, flops(routine, n) / self.runs.get(MACHINE, program(routine, n)).seconds / 1e12) for n in self.orders]


def introduction(e):
    e.page.text(f"*{PAPERS}* is `SEMCACHE_SCHEDULER=xkaapi SEMCACHE_PEERS=any`: a tile of the result stays on the GPU where it began, an "
                "idle GPU steals the oldest one, and bytes come from any GPU that has them. Copies, caches and write-backs are the "
                f"library's. *Ours* is the library's own schedule. Both with the best of the tiles {', '.join(map(str, xkblas.TILES))} for "
                "each order, as in the paper; *ours, own tile* is the library as it is without settings. The machine is the preset "
                "`dgx1`, whose links are those of the paper's Fig. 2. Operands are at the host before a call and results after it; beta "
                "is 1. Page-locking has no time, as in the paper.")


def heuristics(e):
    """Table II and Fig. 3."""
    page, table, rows = e.page, e.paper["table2"], []
    page.heading("What each heuristic is worth (Table II, Fig. 3)")
    orders = [n for n in e.orders if n >= table["least"]] or e.orders
    hits = {name: 0 for name in POLICIES}
    for routine in STUDIED:
        for column, title in COLUMNS.items():
            said = table[routine][column] / 100
            cells = []
            for name, settings in POLICIES.items():
                change = {n: changed(e, routine, n, settings, column) / e.best(routine, n, settings).tflops - 1 for n in orders}
                pick = max if column == "on_devices" else min
                found, at = pick((v, n) for n, v in change.items())
                hit = abs(found - said) <= WITHIN * abs(said)
                hits[name] += hit
                cells += [f"{percent(found)} (N = {at})", percent(change[orders[-1]])]
                if name == PAPERS:
                    cells.append("**met**" if hit else "**missed**")
            rows.append([routine, title, percent(said), *cells])
    page.text(f"The largest loss or gain of TFLOP/s for N from {orders[0]} to {orders[-1]} against the policy as it is. *No heuristic*: a "
              "GPU does not wait for bytes that are on their way to another one (`SEMCACHE_JOINS=off`). *No topology*: besides, of "
              "several GPUs that have them any is the source (`SEMCACHE_PEERS=unranked`). *Data on devices*: the second of two calls on "
              "the same matrices. Met is what is within a third of the paper's number.")
    page.table(["", "", "paper", PAPERS, f"N = {orders[-1]}", "", OURS, f"N = {orders[-1]}"], rows)
    page.said(f"Fig. 3 has curves without numbers; {e.paper['fig3']['says']}.", f"{hits[PAPERS]} of {len(rows)} within a third under "
              f"{PAPERS}, {hits[OURS]} under ours.", "the results stay on the GPUs until the process ends, and go back only then, where "
              "the paper's library sends each tile when it is computed: the base from the host is slower, so that data on devices gain "
              "more where the host's links bound the call.")
    parts = []
    for name, settings in POLICIES.items():
        for routine in STUDIED:
            parts.append((f"{routine}, {name}", [("as it is", e.curve(routine, settings), {}), *(
                (COLUMNS[column], e.curve(routine, {**settings, **off}), {"line": "--"}) for column, off in OFF.items())]))
    page.plot("fig3", "TFLOP/s with heuristics off", "curves", parts, "N (multiples of 1024)", "TFLOP/s", log=(False, False), zero=True,
              rows=2, height=2.6)


def changed(e, routine, n, settings, column):
    if column == "on_devices":
        return e.best(routine, n, settings, True).tflops
    return e.best(routine, n, {**settings, **OFF[column]}).tflops


def on_devices(e):
    """Fig. 4."""
    page, said, rows, parts = e.page, e.paper["fig4"], [], []
    page.heading("Data on devices (Fig. 4)")
    for routine in STUDIED:
        series = []
        for i, (name, settings) in enumerate(POLICIES.items()):
            here, there = e.curve(routine, settings), e.curve(routine, settings, True)
            series += [(f"{name}, from the host", here, {"colour": i, "line": "--"}), (f"{name}, on devices", there, {"colour": i})]
            for n in e.orders:
                if n in (8192, 12288, 24576, e.orders[-1]):
                    a, b = e.best(routine, n, settings), e.best(routine, n, settings, True)
                    rows.append([routine, str(n), name, number(a.tflops), str(a.tile), number(b.tflops), str(b.tile)])
        parts.append((routine, series))
    page.plot("fig4", "TFLOP/s with data at the host and on devices", "curves", parts, "N (multiples of 1024)", "TFLOP/s",
              log=(False, False), zero=True)
    page.text("On devices, the tile N / 32, which the paper takes there, is among those that the best is of.")
    page.table(["", "N", "", "TFLOP/s from the host", "tile", "on devices", "tile"], rows)
    page.said(f"curves without numbers; about {said['on_devices']['tflops']} TFLOP/s for orders of about {said['on_devices']['n']} with "
              f"data on devices; {said['says']}.", f"the table; the preset's 8 GPUs have {PEAK:g} TFLOP/s together.", "the second call "
              "begins with what the first one left on each GPU, not with a block-cyclic distribution.")


def routines(e):
    """Fig. 5."""
    page, said, rows, parts = e.page, e.paper["fig5"], [], []
    page.heading("Six routines (Fig. 5)")
    for routine in ROUTINES:
        curves = {**{name: e.curve(routine, settings) for name, settings in POLICIES.items()}, "ours, own tile": e.default(routine)}
        parts.append((routine, [(name, points, {"line": "--" if name == "ours, own tile" else "-"}) for name, points in curves.items()]))
        for x in sorted({min(said["dgemm"]["n"] // 4096 * 4096 + 4096, e.orders[-1]), e.orders[-1]}):
            rows.append([routine, str(x), *(number(dict(points)[x / 1024]) for points in curves.values())])
    page.plot("fig5", "TFLOP/s of six routines by order", "curves", parts, "N (multiples of 1024)", "TFLOP/s", log=(False, False),
              zero=True, rows=2, height=2.6)
    page.text("TFLOP/s from the host:")
    page.table(["", "N", *POLICIES, "ours, own tile"], rows)
    peaks = ", ".join(f"{max(v for _, v in e.curve('dgemm', settings)):.1f} ({name})" for name, settings in POLICIES.items())
    page.said(f"curves without numbers. dgemm reaches {said['dgemm_peak']} TFLOP/s, and about {said['dgemm']['tflops']} at about "
              f"{said['dgemm']['n']}; at most as many times as fast as other libraries as follows: "
              f"{', '.join(f'{k} {v:g}' for k, v in said['faster'].items())}. {said['says']}.", f"at most {peaks}.",
              f"the preset's GPU has 7 TFLOP/s, {PEAK:g} together; the paper's have {e.paper['peak']:g} each at peak. Results go back "
              "after the last kernel, and each pair of GPUs shares 12.4 GB/s to and from the host.")


def moved(e):
    """Fig. 6 and 7."""
    page, times, gigabytes, panels = e.page, [], [], []
    six, seven = e.paper["fig6"], e.paper["fig7"]
    page.heading("Transfers and balance (Fig. 6 and 7)")
    for routine, n in xkblas.profiled(e.quick).items():
        for name, settings in reversed(POLICIES.items()):
            tile = e.best(routine, n, settings).tile
            ran = e.runs.get(MACHINE, program(routine, n), **settings, tile=tile)
            kernels, copies = (sum(f(t) for t in ran.devices) for f in (lambda t: t.kernels, lambda t: t.uploads + t.write_backs + t.peers))
            times.append([f"{routine}, {n}", name, str(tile), number(ran.seconds), f"{100 * copies / (copies + kernels):.1f} %",
                          *(spread([getattr(t, k) for t in ran.devices], 2) for k in [*KINDS.values(), "end"])])
            gigabytes.append([f"{routine}, {n}", name, spread([d.tasks for d in ran.devices], 0),
                              *(spread([getattr(d, k) / 1e9 for d in ran.devices], 1) for k in ("h2d", "p2p", "d2h"))])
            panels.append((f"{routine}, {n}, {name}", [(what, [(i, getattr(d, k)) for i, d in enumerate(ran.devices, 1)], {"line": ":"})
                                                       for what, k in KINDS.items()]))
    # Room for the legend, by a point that is not drawn.
    panels[0][1].append(("_", [(1, 1.7 * max(y for _, points, _ in panels[0][1] for _, y in points))], {"line": "", "marker": ""}))
    page.plot("fig6-7", "seconds of each GPU", "curves", panels, "GPU", "seconds", log=(False, False), zero=True, rows=2, height=2.8)
    page.text("Seconds, the least and the most of the 8 GPUs. *Transfers* is the share of copies in the sum of the times of kernels and "
              "copies of all GPUs, which run beside each other; *end* is when a GPU's last operation is complete.")
    page.table(["", "", "tile", "call", "transfers", "kernels", "from the host", "from GPUs", "to the host", "end"], times)
    page.text("Tasks, and GB:")
    page.table(["", "", "tasks", "from the host", "from GPUs", "to the host"], gigabytes)
    page.said(f"Fig. 6: transfers are about {', '.join(f'{v} % ({k})' for k, v in six['transfers'].items())} of the execution of dgemm of "
              f"{six['n']}. Fig. 7, dsyr2k of {seven['n']}, has bars without numbers: {seven['says']}.", "as the tables say.",
              "a copy that shares a link with others, or meets one in the other direction, counts with the longer time that it then "
              "takes; of the paper's profiler that is not said.")


def spread(values, digits):
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}"


def composition(e):
    """Fig. 8 and 9."""
    page, said, rows = e.page, e.paper["fig8"], []
    n = xkblas.composed(e.quick)
    page.heading("One routine after another (Fig. 8 and 9)")
    work = flops("dtrsm", n) + flops("dgemm", n)
    for name, settings in POLICIES.items():
        for tile in 1024, 2048:
            both, trsm, gemm = (e.runs.get(MACHINE, program(p, n), **settings, tile=tile).seconds for p in ("trsm-gemm", "dtrsm", "dgemm"))
            rows.append([name, str(tile), number(work / both / 1e12), number(work / (trsm + gemm) / 1e12),
                         number(flops("dgemm", n) / gemm / 1e12), f"{(trsm + gemm) / both:.2f}"])
    page.text(f"TFLOP/s of dtrsm and then dgemm with its result, N = {n}: both calls in one process, each in a process of its own, and "
              "dgemm alone.")
    page.table(["", "tile", "together", "separately", "dgemm alone", "separately / together"], rows)
    page.said(f"{', '.join(f'{v} ({k})' for k, v in said['composed'].items())} TFLOP/s together, and "
              f"{', '.join(f'{v} ({k})' for k, v in said['dgemm'].items())} for dgemm alone, tile {said['tile']}. Fig. 9 is a chart of "
              "both calls.",
              "as the table says; the chart is not drawn.", "what dgemm reads of dtrsm's result is on the GPUs in both, so the calls "
              "together save its copies; but both results go to the host after the last kernel.")


def write(page, runs, paper):
    e = Page(page, runs, paper)
    introduction(e)
    heuristics(e)
    on_devices(e)
    routines(e)
    moved(e)
    composition(e)
