"""The page of the experiments of BLASX: what the paper has, and what its policy and the library do on the same machines."""

import os
import re
import statistics

from experiments import blasx
from experiments.blasx import POLICIES, ROUTINES, TILE, program
from experiments.page import number, percent
from experiments.virtual import flops, tasks

PAPERS, OURS = POLICIES
GPUS = 3
# GFLOP/s of dgemm of the GPUs of the preset machines, in their order.
EVEREST, MAKALU = 1250.0, [1250.0, 1250.0, 190.0, 190.0]
MAKALU_SINGLE = [3200.0, 3200.0, 5800.0, 5800.0]
MOST, WITHIN = 13.0, 0.10
# Of these pages those that exist; they are in OCTAVE_FOLDER.
OCTAVE = ["h200-x1-octave.md", "h100-x1-octave.md", "h100-x4-octave.md"]
OCTAVE_FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "results")
# Rows of these pages, in the order of Table VI.
SCRIPTS = ["A*B, single, one element read", "A*B, double, one element read", "non-negative factorisation", "varimax rotation",
           "least squares of"]


def rate(routine, n, ran):
    """In GFLOP/s."""
    return flops(routine, n) / ran.seconds / 1e9


def share(value):
    return f"{100 * value:.1f} %"


def told(paper):
    return ", ".join(f"{name} {value:g}" for name, value in paper.items())


class Page:
    """What all parts need."""

    def __init__(self, page, runs, paper):
        self.page, self.runs, self.paper, self.quick = page, runs, paper, runs.quick
        self.orders, self.volume = list(blasx.orders(runs.quick)), blasx.volume(runs.quick)

    def everest(self, routine, n, settings, gpus=GPUS):
        return self.runs.get(f"everest:{gpus}", program(routine, n), **settings)

    def at_volume(self, routine, settings):
        return self.runs.get("everest", program(routine, self.volume), **settings)


def introduction(page):
    page.text(f"*{PAPERS}* is `SEMCACHE_SCHEDULER=blasx` with the paper's tile of {TILE}: GPUs take tiles of the result from one queue "
              "into stations, steal when they have none, and prefer those whose inputs they hold. Copies, caches and write-backs are the "
              "library's. *Ours* is the library as it is without settings, which chooses tiles itself. Everest and Makalu are the presets "
              "of those names. All operands are at the host before the call and all results after it; beta is 1. Page-locking has no "
              "time, as in the paper.")


def kernels(e):
    """Table I."""
    page, paper = e.page, e.paper["table1"]
    page.heading("GEMM in the other routines (Table I)")
    rows = []
    for routine, percents in paper["gemm_percent"].items():
        for name, said in zip(paper["orders"], percents):
            n = paper["orders"][name]
            side = n // TILE
            # Of the n / T tiles in a row: products by dgemm, and kernels of the routine's own.
            products = side * side * (side - 1) // (1 if routine in ("dsyr2k", "dsymm") else 2)
            own = side * side
            counted = tasks(e.runs.get("everest", program(routine, n), tile=TILE))
            if counted != products + own:
                raise RuntimeError(f"{routine} of {n}: {counted} tasks, not {products} + {own}")
            rows.append([routine, name, f"{said:g} %", share((side - 1) / side), share(products / counted), str(counted)])
    page.table(["", "N", "paper", "here, of the operations", "here, of the kernels", "kernels"], rows)
    page.said("it does not say what it counts.", f"tiles of {TILE}. Each tile off the diagonal is a product, each on it a kernel of the "
              "routine; a kernel on the diagonal has half a product's operations in dsyrk, dtrmm and dtrsm. The number of tasks is that "
              "of the reports.",
              "all of the paper's shares are below those of operations: it may count time, of which a kernel on the diagonal takes more, "
              "or have larger tiles. Its 5K is taken as 5120.")


def efficiency(e):
    """Table III and Fig. 7."""
    page, paper = e.page, e.paper
    page.heading("Six routines on 1, 2 and 3 GPUs (Table III, Fig. 7)")
    parts, rows = [], []
    for routine in ROUTINES:
        series, cells = [], []
        for name, settings in POLICIES.items():
            at = {g: {n: e.everest(routine, n, settings, g) for n in e.orders} for g in range(1, GPUS + 1)}
            for g in range(1, GPUS + 1):
                # The dashed ones are not in the legend, for which there is little room.
                label = f"{g} GPU" + "s" * (g > 1) if name == OURS else f"_{g}"
                series.append((label, [(n / 1024, rate(routine, n, at[g][n])) for n in e.orders],
                               {"line": "-" if name == OURS else "--", "marker": "", "colour": g - 1}))
            each = {g: statistics.fmean(at[1][n].seconds / g / at[g][n].seconds for n in e.orders) for g in (2, 3)}
            cells += [share(each[2]), share(each[3]), share(statistics.fmean(each.values()))]
        said = paper["efficiency"][routine]
        rest = ", ".join(f"{k} {v:g}" for k, v in said.items() if k != "blasx")
        rows.append([routine, f"{said['blasx']:g} %", *cells, rest])
        parts.append((routine, series))
    page.plot("fig7", "GFLOP/s of six routines by order", "curves", parts, "N (multiples of 1024)", "GFLOP/s", log=(False, False),
              zero=True, rows=2, height=3.0)
    heads = [f"{name}, {what}" for name in POLICIES for what in ("2 GPUs", "3 GPUs", "mean")]
    page.text(f"Solid: ours; dashed: {PAPERS}. Average parallel efficiency, T1 / (p Tp), N from {e.orders[0]} to {e.orders[-1]} by 1024:")
    page.table(["", "paper, BLASX", *heads, "paper, others (%)"], rows)
    page.said("efficiencies as above, without the numbers of GPUs that they are means of; dsyrk and dsyr2k have the same ones.",
              "as the table says.",
              "in virtual time equal kernels take equal times, and a call takes none besides 40 us a task to queue. What is lost is lost "
              "where a small matrix has too few tiles for three GPUs, and at the ends of a call, which no kernels overlap.")
    ends(e)


def ends(e):
    """What the text says of Fig. 7."""
    page, said = e.page, e.paper["fig7"]
    rows = []
    for name, settings in POLICIES.items():
        alone = [rate("dgemm", n, e.everest("dgemm", n, settings, 1)) / EVEREST for n in e.orders]
        beyond = [v for n, v in zip(e.orders, alone) if n > said["plateau"]] or alone
        n = e.volume
        speedups = [e.everest("dsyr2k", n, settings, 1).seconds / e.everest("dsyr2k", n, settings, g).seconds for g in (2, 3)]
        rows.append([f"here, {name}", share(statistics.fmean(alone)), share(statistics.fmean(beyond)), *(f"{s:.2f}" for s in speedups)])
    paper = [[f"paper, {name}", f"{said['one_gpu'][name]:g} %", "", *(f"{s:.2f}" for s in said["speedup"].get(name, ["", ""]) if s)]
             for name in said["one_gpu"]]
    page.table(["", "dgemm on 1 GPU, of the GPU's rate, mean of all N", f"of N above {said['plateau']}",
                f"dsyr2k of {e.volume}, 2 GPUs over 1",
                "3 GPUs over 1"], [row + [""] * (5 - len(row)) for row in paper] + rows)
    page.text("Of the paper, the first column is of cuBLAS's rate with all data on the GPU; here of what the preset has for large "
              f"products, {EVEREST:g} GFLOP/s.")


def mb(value):
    return f"{value / 1e6:.0f}"


def volumes(e):
    """Tables IV and V."""
    page, paper = e.page, e.paper
    page.heading("What moves (Tables IV and V)")
    t = paper["throughput"]
    page.text(f"Table IV, average rates of copies in GB/s: {t['host']:g} between host and GPU, {t['gpus']:g} between GPUs. The preset has "
              "the same; its second and third GPU share 10 GB/s to and from the host, and only they copy from each other, as in the "
              "paper.")
    kinds = {PAPERS: POLICIES[PAPERS], f"ours, tiles of {TILE}": blasx.OURS_TILED, OURS: POLICIES[OURS]}
    rows, bars, sums = [], [], {}
    for routine in ROUTINES:
        said, other = paper["volume"]["blasx"][routine], paper["volume"]["others"].get(routine)
        total = {"paper, BLASX": sum(said["host"] + said["p2p"]) / 1e3}
        rows.append([routine, "paper, BLASX", *cells(zip(said["host"], said["p2p"])), number(total["paper, BLASX"])])
        for name, mbs in ("cuBLAS-XT", paper["volume"]["cublasxt"][routine]), *([(other["name"], other["mb"])] if other else []):
            total[name] = sum(mbs) / 1e3
            rows.append([routine, f"paper, {name}", *map(str, mbs), number(sum(mbs) / 1e3)])
        for name, settings in kinds.items():
            ran = e.at_volume(routine, settings)
            each = [((d.h2d + d.d2h) / 1e6, d.p2p / 1e6) for d in ran.devices]
            total[name] = sum(map(sum, each)) / 1e3
            rows.append([routine, f"here, {name}", *cells(each), number(total[name])])
        sums[routine] = total
        bars.append((routine, [total[name] for name in ("cuBLAS-XT", "paper, BLASX", *kinds)]))
    page.plot("table5", "GB that a call moves", "bars", [(f"N = {e.volume}", bars)], "GB", ["cuBLAS-XT, paper", "BLASX, paper", *kinds])
    page.text(f"MB at N = {e.volume}: with the host in both directions + from other GPUs, which only the second and the third do.")
    page.table(["", "", "GPU 1", "GPU 2", "GPU 3", "together, GB"], rows)
    targets(e, sums["dgemm"])
    mine, theirs, policy = (statistics.fmean(t[k] for t in sums.values()) for k in (OURS, "paper, BLASX", PAPERS))
    c, inputs = 16 * e.volume ** 2 / 1e9, GPUS * 16 * e.volume ** 2 / 1e9
    paper_inputs, here_inputs = sums["dgemm"]["paper, BLASX"] - c, sums["dgemm"][PAPERS] - c
    mean = paper["volume"]["mean"]
    page.said(f"GPU 1, which has no partner, moves most with the host, but for dtrsm; on average {mean['blasx']} MB a GPU, "
              f"{mean['cublasxt']} under cuBLAS-XT.", f"as the table says: over the six routines {mine:.1f} GB a call, {theirs:.1f} in the "
              f"paper, {policy:.1f} under {PAPERS}.",
              f"in dgemm C is {c:.1f} GB in both directions, and A and B on all GPUs are {inputs:.1f}. Of A and B the paper moves "
              f"{paper_inputs:.1f}, so it fetches some tiles again; here the policy moves {here_inputs:.1f}, and ours "
              f"{sums['dgemm'][OURS] - c:.1f}, since each GPU has a connected part of C. In dtrsm the paper's GPUs drop a tile of the "
              "solution when it is written (section IV-B), and have to read it again; the library keeps it.")


def cells(each):
    return [f"{host:.0f}" + (f" + {p2p:.0f}" if p2p else "") for host, p2p in each]


def targets(e, total):
    """Of dgemm, in GB."""
    said = total["paper, BLASX"]
    rows = [[PAPERS, number(total[PAPERS]), f"{said:.1f} within {100 * WITHIN:.0f} %", met(abs(total[PAPERS] / said - 1) <= WITHIN)],
            *([name, number(total[name]), f"at most {MOST:g}", met(total[name] <= MOST)] for name in total if name.lower().startswith("ours"
                                                                                                                                      ))]
    e.page.text("dgemm against what is to be reached:")
    e.page.table(["", "GB", "target", ""], rows)


def met(reached):
    return "**met**" if reached else "**missed**"


def profile(e):
    """Fig. 8."""
    page, said, rows, means = e.page, e.paper["fig8"], [], []
    page.heading("What each GPU does (Fig. 8)")
    panels = []
    for name, settings in POLICIES.items():
        apart, idle, bars = {}, {}, []
        for routine in ROUTINES:
            ran = e.at_volume(routine, settings)
            ends = [t.end for t in ran.devices]
            rest = [ran.seconds - t.kernels for t in ran.devices]
            apart[routine], idle[routine] = max(ends) - min(ends), statistics.fmean(rest)
            copies = [t.uploads + t.write_backs + t.peers for t in ran.devices]
            rows.append([routine, name, number(ran.seconds), *(f"{t.kernels:.2f} + {r:.2f}" for t, r in zip(ran.devices, rest)),
                         number(apart[routine], 2), " / ".join(f"{c:.2f}" for c in copies)])
            bars.append((routine, [*(t.kernels for t in ran.devices), ran.seconds]))
        panels.append((name, bars))
        means.append([name, f"{statistics.fmean(apart.values()):.3f}", f"{apart['dgemm']:.3f}", f"{statistics.fmean(idle.values()):.3f}"])
    page.plot("fig8", "seconds of each GPU", "bars", panels, "seconds", ["kernels of GPU 1", "of GPU 2", "of GPU 3", "the call"])
    page.text(f"Seconds at N = {e.volume}: of each GPU those in which a kernel runs + the rest of the call, in which it waits for copies "
              "or has no work; between the first and the last GPU to be done; and how long copies to and from each GPU take, most of it "
              "beside kernels.")
    page.table(["", "", "call", "GPU 1", "GPU 2", "GPU 3", "apart", "copies of GPU 1 / 2 / 3"], rows)
    page.text("Means over the six routines, in seconds:")
    paper = [[f"paper, {name}", f"{v:g}", number(said["dgemm_difference"].get(name, 0)) if name in said["dgemm_difference"] else "",
              f"{said['communication'][name]:g} (communication alone)"] for name, v in said["difference"].items()]
    page.table(["", "between the fastest and the slowest GPU", "of dgemm", "without a kernel"], paper + means)
    page.said(f"bars without numbers. Seconds between the fastest and the slowest GPU against MAGMA: {told(said['magma_difference'])}; of "
              f"dgemm against PaRSEC: {told(said['dgemm_difference'])}. Of which routines the means are is not said.", "as the tables "
              "say. The reports do not tell waiting for copies from having no work, so there is one number for both.",
              "here a call begins with the first tiles' copies and ends with the last ones', which are in the numbers; of the paper's it "
              "is not said.")


def heap(e):
    """Fig. 5."""
    e.page.heading("Allocation (Fig. 5)")
    e.page.said(e.paper["fig5"]["says"] + " (a curve without numbers).", "allocation has no virtual time. The library, too, takes a GPU's "
                "memory in a few large pieces and divides them itself (`libsemcache/src/transfer/pool.rs`); it is not compared with one "
                "`cudaMalloc` a tile.", None)


def host(e):
    """Fig. 9."""
    e.page.heading("The host's part (Fig. 9)")
    e.page.said(f"curves without numbers; on Makalu the processor's part of dgemm is {e.paper['fig9']['gain']} % faster under BLASX than "
                "under cuBLAS-XT with its best share.",
                "calls on the host BLAS have no virtual time, so `SEMCACHE_HOST_SHARE` is not measured here.", None)


def tiles(e):
    """Fig. 10."""
    page, parts, rows = e.page, [], []
    page.heading("Tiles (Fig. 10)")
    for n in blasx.tiled(e.quick):
        series = []
        for name, settings in POLICIES.items():
            ran = {t: e.runs.get("everest", program("dgemm", n), **{**settings, "tile": t}) for t in blasx.TILES}
            # A tile with which there were too many tasks is doubled.
            doubled = {t for t in ran if 2 * t in ran and tasks(ran[t]) == tasks(ran[2 * t])}
            found = [(t, rate("dgemm", n, r)) for t, r in ran.items() if t not in doubled]
            series.append((name, found, {"line": "-" if name == OURS else "--"}))
            rows.append([str(n), name, *("" if t in doubled else number(dict(found)[t]) for t in ran)])
        parts.append((f"dgemm, N = {n}, 3 GPUs", series))
    page.plot("fig10", "GFLOP/s by tile", "curves", parts, "tile", "GFLOP/s", log=(True, False), ticks=blasx.TILES, zero=True)
    page.text("GFLOP/s of dgemm on Everest. Where there is none, there were too many tasks, and the library doubles the tile:")
    page.table(["N", "", *map(str, blasx.TILES)], rows)
    page.said(f"{e.paper['fig10']['says']} (curves without numbers); it takes {e.paper['fig10']['tile']}.", "as the table says.",
              "a task takes 40 us to queue, which bounds small tiles; of large ones there are too few for three GPUs to share evenly.")


def makalu(e):
    """Section V: linear speed-up where GPUs differ."""
    page, rows, parts = e.page, [], []
    page.heading("GPUs of two speeds (section V, Makalu)")
    sums = [sum(MAKALU[:g]) / MAKALU[0] for g in range(1, 5)]
    for name, settings in POLICIES.items():
        series = []
        for n in blasx.scaled(e.quick):
            each = [e.runs.get(f"makalu:{g}", program("dgemm", n), **settings).seconds for g in range(1, 5)]
            series.append((f"N = {n}", [(g + 1, each[0] / t) for g, t in enumerate(each)], {}))
            rows.append([name, str(n), number(rate("dgemm", n, e.runs.get("makalu:1", program("dgemm", n), **settings))),
                         *(f"{each[0] / t:.2f} ({share(each[0] / t / s)})" for t, s in zip(each[1:], sums[1:]))])
        parts.append((name, [*series, ("sum of the speeds", list(enumerate(sums, 1)), {"line": "--", "marker": "", "colour": 6})]))
    page.plot("makalu", "speed-up of dgemm by the number of GPUs", "curves", parts, "GPUs (2 K40c, then 2 TITAN X)", "times one K40c",
              log=(False, False), zero=True, share=True)
    page.text("dgemm by the number of GPUs, the K40c first: times as fast as one, and that over the sum of the speeds "
              f"({', '.join(f'{s:.2f}' for s in sums[1:])}; the preset's TITAN X has {MAKALU[2]:g} GFLOP/s, a K40c {MAKALU[0]:g}):")
    page.table(["", "N", "GFLOP/s, 1 GPU", "2 GPUs", "3 GPUs", "4 GPUs"], rows)
    page.said("linear speed-up on Makalu, without a table or figure of it.", "as the table says.",
              "a TITAN X takes nearly seven times as long for a tile as a K40c: where the policy by demand falls behind, it is the last "
              "one to be done.")


def network(e):
    """Section V-C."""
    page, said, rows = e.page, e.paper["applications"]["caffe"], []
    page.heading(f"A network of {blasx.NETWORK.replace(',', '-')} (section V-C)")
    for n in blasx.samples(e.quick):
        for cpu in False, True:
            for name, settings in POLICIES.items():
                one, all_ = (e.runs.get(m, blasx.network(n, cpu), **settings).seconds for m in blasx.NETWORKS)
                rows.append([str(n), "on the CPU" if cpu else "none", name, number(1e3 * one), number(1e3 * all_), f"{one / all_:.2f}"])
    speeds = sum(MAKALU_SINGLE) / MAKALU_SINGLE[0]
    page.text(f"Of the preset, all GPUs have {speeds:.2f} times the single-precision rate of the first. Times are in ms: of a forward and "
              "a backward pass, all products of single precision, with the weights at the host before and their derivatives there after "
              "it, on Makalu. *Between layers*: whether the CPU reads and writes every page of what each layer has computed.")
    page.table(["samples", "between layers", "", "1 GPU", "4 GPUs", "1 over 4"], rows)
    page.said(f"{said['gpu']:g} times as fast as Caffe on one GPU, {said['cpu']:g} times as fast as Caffe on the CPU; the number of "
              "samples is not said.", "as the table says; Caffe is not run.", "the CPU's work between the products has no virtual time.")


def measured(name):
    """The machine's GPUs, and the cells of its table by workload, n and column."""
    with open(os.path.join(OCTAVE_FOLDER, name), encoding="utf-8") as f:
        lines = f.read().splitlines()
    count, model = next(m for line in lines if (m := re.match(r"\* GPUs: (\d+) x NVIDIA (\w+)", line))).groups()
    table = [[c.strip() for c in line.strip("| ").split("|")] for line in lines if line.startswith("|")]
    begin = next(i for i, row in enumerate(table) if row[0] == "workload")
    cells = {(row[0], row[1], h): c for row in table[begin + 1:] for h, c in zip(table[begin], row)}
    return f"{count} {model}", cells


def octave(e):
    """Table VI."""
    page = e.page
    page.heading("MATLAB and Octave (Table VI)")
    names = [name for name in OCTAVE if os.path.exists(os.path.join(OCTAVE_FOLDER, name))]
    machines, columns, rows = dict(map(measured, names)), ["OpenBLAS/ours", "best NVBLAS/ours"], []
    for said, script in zip(e.paper["table6"], SCRIPTS):
        title, n = next((title, n) for cells in machines.values() for title, n, _ in cells if title.startswith(script))
        gains = [cells.get((title, n, column), "-") for cells in machines.values() for column in columns]
        rows.append([said["function"], f"{said['speedup']:g} x", f"{title}, n = {n}", *("not measured" if g == "-" else g for g in gains)])
    heads = [f"{machine}, against {peer}" for machine in machines for peer in ("OpenBLAS", "NVBLAS")]
    page.table(["paper", "paper, against the CPU", "here, in Octave", *heads], rows)
    page.said("MATLAB on Everest; sizes and the CPU's library are not said.", "measured on GPUs, not simulated: "
              f"{', '.join(f'[{name}](../{name})' for name in names)}. Of NVBLAS with and without autopin, the faster where both are "
              "measured. Octave has no `nnmf`, `rotatefactors` and `lsqlin`: scripts do the same work.",
              "other GPUs, other CPUs, other sizes. On the H200 OpenBLAS chose its kernels itself, elsewhere they are those for SkylakeX.")


def write(page, runs, paper):
    e = Page(page, runs, paper)
    introduction(page)
    kernels(e)
    efficiency(e)
    volumes(e)
    heap(e)
    profile(e)
    host(e)
    tiles(e)
    makalu(e)
    network(e)
    octave(e)
