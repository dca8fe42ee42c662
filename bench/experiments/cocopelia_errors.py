"""How far the predictors are off on CoCoPeLia's calls (Fig. 4 and 5), and the tile sizes that they choose (Fig. 6)."""

import os
import statistics

from experiments.measurements import Measured, path_of
from experiments.page import ERROR_HEAD, error_cells, errors, percent, seconds
from experiments.predictions import PREDICTORS, Problem

SHOWN = ["CSO", *PREDICTORS]


def fits(call, tile):
    """The tile sizes that section V-B considers."""
    return 1.5 * tile <= min(Problem(call).sizes)


def predicted(machine, call, tile, name):
    """With this tile size; 0 is the library's own choice."""
    answer = machine.ask(call, tile)
    if name == "CSO":
        return machine.streams(call, answer.pieces[PREDICTORS["Eq. 4 (BTS)"]])
    return answer.of(name)


class Tiles:
    """The library's times with fixed tile sizes."""

    def __init__(self, measured):
        self.of = {}
        for (setting, call, _), series in measured.calls.items():
            if setting.startswith("tile "):
                self.of.setdefault(call, {})[int(setting.split()[1])] = series.median

    def pairs(self):
        return [(call, tile, t) for call, some in self.of.items() for tile, t in some.items()]


def distributions(e, tiles):
    """Name of a group -> [(call, tile, measured seconds)]."""
    xt = [(call, block, s.median) for (call, block), s in e.measured.of("xt").items() if fits(call, block)]
    auto = [(call, 0, s.median) for (call, _), s in e.measured.of("auto").items() if call.startswith("dgemm")]
    return {"cuBLASXt dgemm": xt, "dgemm, fixed tile": tiles.pairs(), "dgemm, own tile": auto}


def vectors(e):
    """Name of a group -> [(elements, places, pieces, measured seconds)] of daxpy."""
    found = {"managed memory": [], "the library, one piece": [], "CUDA streams": []}
    for (call, part), s in e.measured.of("managed").items():
        p = Problem(call)
        found["managed memory"].append((p.sizes[0], p.places, part, s.median))
    for (call, _), s in e.measured.of("always").items():
        p = Problem(call)
        found["the library, one piece"].append((p.sizes[0], p.places, 1, s.median))
    if os.path.exists(path_of(e.measured.folder, "werkhoven")):
        other = Measured(e.measured.folder, "werkhoven")
        # As large as the vectors of the paper.
        least = 1 if other.quick else 1 << 22
        found["CUDA streams"] = [(s["n"], "hh", s["streams"], s["time"].median) for s in other.strategies
                                 if s["routine"] == "daxpy" and s["strategy"] == "streams" and s["n"] >= least]
    return found


def write(e):
    e.page.heading("Errors of the predictors (Fig. 4 and 5)")
    tiles = Tiles(e.measured)
    groups = distributions(e, tiles)
    e.machine.ask_all([w for some in groups.values() for call, tile, _ in some for w in ((call, tile), (call, 0))])
    found = {g: {n: errors([(predicted(e.machine, call, tile, n), t) for call, tile, t in some]) for n in SHOWN} for g, some in groups.items()}
    e.page.text(
        "(predicted - measured) / measured. BTS is Eq. 4, DR is Eq. 5, CSO is Eq. 5 of van Werkhoven et al. with as many streams as "
        "there are "
        "sub-problems; the *timeline* is the library's own. All come from `semcache predict` with the rates of this machine and the tile "
        "or "
        "block that was measured, of memory that is page-locked already. The measured times include that the CPU reads the result, which "
        "no predictor has.")
    daxpy_part(e)
    gemm_part(e, found)
    chosen(e, tiles)


def medians(by_name, names):
    """In words."""
    return " and ".join(f"{percent(statistics.median(by_name[n]))} ({n.split(' (')[-1].rstrip(')')})" for n in names if by_name[n])


def daxpy_part(e):
    rows, parts, here = [], [], []
    for group, some in vectors(e).items():
        both = {"CSO": errors([(e.machine.streams(f"daxpy {n} {places}", k), t) for n, places, k, t in some]),
                "BTS": errors([(e.machine.pieces(n, places, k), t) for n, places, k, t in some])}
        rows += [[group, name, *error_cells(values)] for name, values in both.items()]
        if not some:
            continue
        parts.append((group, list(both.items())))
        here.append(f"{group} {medians(both, ['BTS', 'CSO'])}")
    f = e.paper["fig4"]["daxpy"]
    e.page.text("daxpy, in as many pieces as were measured (CUDA streams: registered memory, 2 to 64 streams, from the data of the other "
                "experiment; only vectors from 4 Mi elements on):")
    e.page.table(["", "predictor", *ERROR_HEAD], rows)
    if parts:
        shown = [(group, [(n, [100 * v for v in some]) for n, some in both]) for group, both in parts]
        e.page.plot("fig4-daxpy", "errors of CSO and BTS on daxpy", "boxes", shown, "error (%)", most=150)
    e.page.said(f"medians of {f['BTS'][0]} to {f['BTS'][1]} % (BTS) and {f['CSO'][0]} to {f['CSO'][1]} % (CSO), for the paper's own "
                "library, "
                "which copies page-locked memory in pieces (section V-C).", f"medians: {'; '.join(here) or 'not measured'}.",
                "the models know copies of page-locked memory, as the CUDA streams have. Managed memory moves by pages, with the "
                "driver's work "
                "for each. The library computes on whole vectors with one kernel, and its result comes to the host by page faults or "
                "behind the "
                "call, which the models do not know either.")


def gemm_part(e, found):
    rows = []
    for group, by_name in found.items():
        rows += [[group, name, *error_cells(values)] for name, values in by_name.items() if values or name == "CSO"]
    e.page.text("dgemm, by cuBLASXt (blocks of up to two thirds of the smallest dimension), and by the library with fixed tiles and with "
                "its own:")
    e.page.table(["", "predictor", *ERROR_HEAD], rows)
    shown = {"cuBLASXt dgemm": ["CSO", "Eq. 4 (BTS)"], "dgemm, fixed tile": ["CSO", "Eq. 5 (DR)", "timeline"],
             "dgemm, own tile": ["CSO", "Eq. 5 (DR)", "timeline"]}
    parts = [(group, [(n.split(" (")[-1].rstrip(")"), [100 * v for v in found[group][n]]) for n in names])
             for group, names in shown.items() if found[group]["CSO"]]
    if parts:
        e.page.plot("fig4-5", "errors of the predictors on dgemm", "boxes", parts, "error (%)", most=150)
    four, five = e.paper["fig4"]["gemm"], e.paper["fig5"]["gemm"]
    e.page.said(
        f"for cuBLASXt's sgemm and dgemm medians of {four['BTS'][0]} to {four['BTS'][1]} % (BTS) and {four['CSO'][0]} to "
        f"{four['CSO'][1]} % (CSO); "
        f"for its own library {five['DR'][0]} to {five['DR'][1]} % (DR) and {five['CSO'][0]} to {five['CSO'][1]} % (CSO) (section V-C).",
        "medians: " + ("; ".join(f"{group} {medians(found[group], names[::-1])}" for group, names in shown.items() if found[group]["CSO"])
                       or "not measured") + ".",
        "CSO knows neither tiles nor the lower rate of their kernels. BTS uploads a tile of all three operands for each sub-problem, and "
        "cuBLASXt not always. DR and the timeline know neither the CPU's reading of results nor what the library does about memory that "
        "the CPU "
        "writes to between calls, which the paper's library leaves to its caller.")


def chosen(e, tiles):
    """Fig. 6."""
    e.page.heading("Choice of the tile (Fig. 6)")
    static = e.paper["fig6"]["static_tile"]
    if e.measured.quick:
        static = min((t for _, t, _ in tiles.pairs()), default=static)
    several = {call: some for call, some in tiles.of.items() if static in some and len(some) > 1}
    gains = {"best": [some[static] / min(some.values()) - 1 for some in several.values()]}
    e.machine.ask_all([(call, tile) for call, some in several.items() for tile in some])
    for name in SHOWN:
        gains[name] = []
        for call, some in several.items():
            tile = min(some, key=lambda t, call=call, name=name: predicted(e.machine, call, t, name))
            gains[name].append(some[static] / some[tile] - 1)
    longer = [e.own(call).median / min(some.values()) - 1 for call, some in several.items() if e.own(call)]
    own = {call: some[static] / e.own(call).median - 1 for call, some in tiles.of.items() if static in some and e.own(call)}
    gains["own choice"] = list(own.values())
    paper = e.paper["fig6"]["dgemm"]
    said = {"best": paper["best_median"], **{name: paper[name.split(" (")[0]] for name in SHOWN if name.split(" (")[0] in paper}}
    rows = []
    for name, some in gains.items():
        cells = [percent(statistics.median(some)), f"{percent(min(some), 0)} to {percent(max(some), 0)}"] if some else ["not measured", ""]
        rows.append([name, str(len(some)), *cells, f"{said[name]:+g} %" if name in said else ""])
    measured = sorted({t for _, t, _ in tiles.pairs()})
    e.page.text(
        f"By how much the time with a tile of {static} exceeds that with the best of the measured tiles, and with the one that a "
        "predictor makes "
        f"shortest. Measured tiles: {', '.join(map(str, measured)) or 'none'}; {len(several)} calls have more than one. *own choice* is "
        "the "
        "library without a fixed tile: its tiles need not be square, nor among the measured ones.")
    e.page.table(["tile", "calls", "median", "from, to", "paper, testbed II, median"], rows)
    if longer:
        e.page.text(f"The library's own choice takes {percent(statistics.median(longer))} longer than the best of the measured tiles in the "
                    f"median of {len(longer)} calls, {percent(max(longer))} at most.")
    if len(several) < len(tiles.of):
        e.page.text(f"Not measured: a second tile for {len(tiles.of) - len(several)} calls" + (
            ", so that only the library's own choice can be compared." if not several else "."))
    shown = [(n.split(" (")[0].replace(" choice", "\nchoice"), [100 * v for v in some]) for n, some in gains.items() if some]
    if shown:
        e.page.plot("fig6", f"gain over tiles of {static}", "boxes", [(f"dgemm, against tiles of {static}", shown)], "gain (%)")
    peaks = e.machine.rates["device"]["gemm"]["d"]["peak_flops"], e.paper["testbed"]["II"]["peak_flops"]["d"]
    ours, theirs = (seconds(2 * static**3 / peak) for peak in peaks)
    e.page.said(f"on testbed II the best tile gains {paper['best_median']} % in the median, up to {paper['best_most']} %, and that of DR "
                f"{paper['Eq. 5']} %, of Eq. 1 {paper['Eq. 1']} %; CSO chooses tiles that are too small (section V-D).", "the table.",
                f"a product of tiles of {static} takes {ours} at this GPU's peak and {theirs} at that of testbed II, so that latencies, "
                "launches "
                "and the CPU's time to queue a task count for more.")
