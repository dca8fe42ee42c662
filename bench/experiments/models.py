"""The curves of the models alone, on the machines of their papers or on any that `semcache predict` knows."""

import os

from experiments.page import number, percent, seconds
from experiments.predictions import EXPLICIT, MAPPED, PREDICTORS, STREAMS, Problem

# Square products, and the vectors of as many elements as van Werkhoven's grids.
SIZES, TILES = [4096, 8192, 12288, 16384], [512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192]
VECTORS, GRID = [1 << i for i in range(10, 27, 2)], 1024 * 1024 * 42
ENGINES = ["streams, 1 engine, implicit sync", "streams, 1 copy engine", STREAMS]


def rates_file(path, comment, sections):
    """A file of rates with what a paper's tables say."""
    with open(path, "w", encoding="utf-8") as f:
        f.write(f"# {comment}\nversion = 1\n")
        for name, keys in sections.items():
            f.write(f"\n[{name}]\n" + "".join(f"{k} = {v!r}\n" for k, v in keys.items()))
    return path


def testbeds(name, paper, folder):
    """Title -> a file of rates in a folder."""
    found = {}
    if name == "cocopelia":
        for testbed, about in paper["testbed"].items():
            sections = {f"device.{d}": {"latency_s": t["latency_s"], "bytes_per_s": t["bytes_per_s"], "bid_slowdown": t["slowdown"]}
                        for d, t in paper["transfers"][testbed].items()}
            sections.update({f"device.gemm.{letter}": {"peak_flops": peak} for letter, peak in about["peak_flops"].items()})
            title, file = f"testbed {testbed}, {about['gpu'].split()[-1]}", os.path.join(folder, f"{testbed}.toml")
            found[title] = rates_file(file, "Tables II and III", sections)
    else:
        sections = {f"device.{d}": {"latency_s": p["latency_ms"] / 1e3, "bytes_per_s": 1e3 / p["ms_per_byte"]}
                    for d, p in paper["parameters"].items()}
        found["Table I (PCIe 3.0)"] = rates_file(os.path.join(folder, "I.toml"), "Table I", sections)
    return found


# -- CoCoPeLia --------------------------------------------------------------------------------------------------------------------

def cocopelia(page, _paper, machines):
    wanted = [(n, t) for n in SIZES for t in TILES if 1.5 * t <= n]
    names = list(PREDICTORS)
    for machine in machines.values():
        machine.ask_all([(f"dgemm {n} {n} {n} hhh", t) for n, t in wanted])
    page.heading("dgemm by tile size")
    page.text("Square products, all operands at the host and page-locked, tiles of at most two thirds of n.")
    curves = []
    for title, machine in machines.items():
        def flops(n, t, name, machine=machine):
            call = f"dgemm {n} {n} {n} hhh"
            return Problem(call).flops / machine.ask(call, t).of(name) / 1e12
        series = []
        for n in SIZES:
            points = [(t, flops(n, t, "Eq. 5 (DR)")) for t in TILES if 1.5 * t <= n]
            series.append((f"n = {n}", points, {"ring": max(points, key=lambda p: p[1])[0]}))
        curves.append((f"Eq. 5 (DR), {title}", series))
    page.plot("tiles", "predicted TFLOP/s by tile size", "curves", curves, "tile (elements)", "TFLOP/s, predicted", ticks=TILES, zero=True)
    n = 8192
    call = f"dgemm {n} {n} {n} hhh"
    curves = []
    for title, machine in machines.items():
        series = [(name, [(t, 1e3 * machine.ask(call, t).of(name)) for t in TILES if 1.5 * t <= n], {}) for name in names]
        if machine.links:
            k = {t: machine.ask(call, t).pieces[PREDICTORS["Eq. 2"]] for t in TILES if 1.5 * t <= n}
            series.append(("CSO", [(t, 1e3 * machine.streams(call, pieces)) for t, pieces in k.items()], {}))
        curves.append((f"n = {n}, {title}", series))
    page.plot("predictors", "predicted time by tile size and predictor", "curves", curves, "tile (elements)", "ms, predicted", ticks=True,
              log=(True, True))
    rows = []
    for title, machine in machines.items():
        for n in SIZES:
            call = f"dgemm {n} {n} {n} hhh"
            tiles = [t for t in TILES if 1.5 * t <= n]
            chosen = {name: min(tiles, key=lambda t, name=name: machine.ask(call, t).of(name)) for name in names}
            best = machine.ask(call, chosen["Eq. 5 (DR)"]).of("Eq. 5 (DR)")
            gain = machine.ask(call, 2048).of("Eq. 5 (DR)") / best - 1
            rows.append([title, str(n), *(str(chosen[name]) for name in names), seconds(best), percent(gain)])
    page.text("The tile of those drawn that each predictor makes shortest, the time of DR with its own, and the gain over 2048:")
    page.table(["", "n", *names, "time", "gain"], rows)


# -- van Werkhoven et al. ---------------------------------------------------------------------------------------------------------

def werkhoven(page, paper, machines):
    page.heading("Copies in streams (Fig. 5 and 6)")
    page.text("16 MiB by the parameters of Table I: L + o + B G + g (n - 1).")
    parts = []
    for key, title in ("h2d", "host to device"), ("d2h", "device to host"):
        p = paper["parameters"][key]
        points = [(1 << i, p["latency_ms"] + (16 << 20) * p["ms_per_byte"] + p["gap_ms"] * ((1 << i) - 1)) for i in range(9)]
        parts.append((title, [("Table I", points, {})]))
    page.plot("streams", "time of 16 MiB by streams, Table I", "curves", parts, "streams", "ms", ticks=True, zero=True, share=True)
    page.table(["streams", *(title for title, _ in parts)],
               [[str(n), *(f"{dict(s[0][1])[n]:.2f} ms" for _, s in parts)] for n in (1, 16, 256)])
    page.heading("daxpy by strategy (Eq. 1 to 6)")
    names = {"explicit": EXPLICIT, "streams, Eq. 1, 2": ENGINES[0], "streams, Eq. 3, 4": ENGINES[1], "streams, Eq. 5": ENGINES[2],
             "mapped, Eq. 6": MAPPED}
    page.text("Vectors at the host and page-locked. Streams on GPUs with one copy engine and implicit synchronisation (Eq. 1, 2), with "
              "one engine "
              "(Eq. 3, 4) and with two (Eq. 5), with the best number of streams.")
    for machine in machines.values():
        machine.ask_all([(f"daxpy {n} hh", 0) for n in [*VECTORS, GRID]])
    curves = []
    for title, machine in machines.items():
        told = {n: machine.ask(f"daxpy {n} hh").predictors for n in VECTORS}
        curves.append((title, [(name, [(n, told[n][key] / min(told[n][k] for k in names.values())) for n in VECTORS], {})
                               for name, key in names.items()]))
    page.plot("strategies", "predicted time of daxpy over that of the fastest strategy", "curves", curves, "elements",
              "time / fastest, predicted", log=(True, False), ticks=VECTORS)
    rows = []
    for title, machine in machines.items():
        told = machine.ask(f"daxpy {GRID} hh")
        rows += [[title, name, f"{number(1e3 * told.predictors[key])} ms", str(told.pieces[key])] for name, key in names.items()]
    page.text(f"daxpy of {GRID} elements, as many as the paper's grid of 1024 x 1024 x 42 points has:")
    page.table(["", "strategy", "time", "streams"], rows)
    page.text("The paper's kernels are not in it, whose times it does not print: of `state`, which also uses each element once, it "
              "predicts and "
              "measures mapped memory as the fastest on all of its GPUs (section VII), as Eq. 6 does here.")
