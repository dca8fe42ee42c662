"""The page of the experiments of van Werkhoven et al.: what the paper has, and what is measured here."""

from experiments.fits import Direction
from experiments.page import ERROR_HEAD, error_cells, errors, number, percent, seconds
from experiments.strategies import ROUTINES, STRATEGIES, Times, best, check, of_tables, predict, problem, winner

# Within this of the fastest, a strategy is as good.
ALIKE = 0.03


def parameters(page, measured, paper, both):
    """Tables I and II."""
    page.heading("Parameters of the link (Tables I and II)")
    rows = []
    for key, title in ("h2d", "host to device"), ("d2h", "device to host"):
        p = paper["parameters"][key]
        rows.append(["paper, PCIe 3.0, GTX Titan", title, seconds(p["latency_ms"] / 1e3), f"{p['ms_per_byte']:.3e}",
                     number(1e-6 / p["ms_per_byte"]), seconds(p["gap_ms"] / 1e3), f"{p['gap_ms'] / p['latency_ms']:.2f}"])
    for key, title in ("h2d", "host to device"), ("d2h", "device to host"):
        d = both[key]
        rows.append(["here", title, seconds(d.latency), f"{1e3 * d.mean_byte:.3e}", number(1e-9 / d.mean_byte), seconds(d.gap),
                     f"{d.gap / d.latency:.2f}"])
    page.table(["", "", "L + o", "G (ms per byte)", "1 / G (GB/s)", "g", "g / (L + o)"], rows)
    page.text("L + o is the time of one byte; G what the sums of times and bytes of copies of up to 1 GiB give (section V-A); g is "
              "fitted to "
              "16 MiB in 1 to 256 streams. `semcache predict` takes g as the paper's share of the latency that the rates have. Why they "
              "differ: "
              "PCIe 5.0 has four times the rate of PCIe 3.0, while what a copy costs besides its bytes is nearly what it was.")
    rows = [["paper, " + line["what"], *(f"{line[k]:.3e} ({number(1e-6 / line[k])})" for k in ("h2d", "d2h")), ""] for line in paper["both"]]
    alone = {k: both[k].mean_byte for k in both}
    more = {k: both[k].mapped(measured, k) for k in both}
    kinds = [("copies, nothing against them", alone), ("copies against copies", {k: both[k].both_mean_byte for k in both}),
             ("a mapped kernel, nothing against it", {k: more[k]["mapped"] for k in both}),
             ("a mapped kernel against copies", {k: more[k]["mapped both"] for k in both}),
             ("copies against a mapped kernel", {k: more[k]["against mapped"] for k in both})]
    for what, g in kinds:
        if all(g.values()):
            rows.append(["here, " + what, *(f"{1e3 * g[k]:.3e} ({number(1e-9 / g[k])})" for k in ("h2d", "d2h")),
                         ", ".join(f"{g[k] / alone[k]:.2f}" for k in ("h2d", "d2h"))])
        else:
            rows.append(["here, " + what, "not measured", "not measured", ""])
    page.table(["G in ms per byte (GB/s)", "host to device", "device to host", "times alone"], rows)
    page.text("Copies against a kernel that uses the host's memory in the other direction take several times as long, while the kernel "
              "loses "
              "nothing. The paper sees that, too (section VIII), but to a lesser degree: 1.4 and 1.9 times on PCIe 3.0. Why they differ "
              "is not "
              "measured; the GPU has many more requests to the host under way at once.")


def transfers(page, paper, both):
    """Fig. 5 and 6."""
    page.heading("Copies in streams (Fig. 5 and 6)")
    parts, rows = [], []
    for key, title in ("h2d", "host to device"), ("d2h", "device to host"):
        d = both[key]
        told = {n: d.latency + (16 << 20) * d.mean_byte + d.gap * (n - 1) for n, _ in d.streams}
        real, model = [(n, 1e3 * t) for n, t in d.streams], [(n, 1e3 * told[n]) for n, _ in d.streams]
        parts.append((f"16 MiB, {title}", [("measured", real, {}), ("L + o + B G + g (n - 1)", model, {"line": "--", "marker": ""})]))
        off = errors([(told[n], t) for n, t in d.streams])
        rows.append([title, seconds(dict(d.streams)[1]), seconds(d.streams[-1][1]), percent(min(off)), percent(max(off))])
    page.plot("fig5-6", "time of 16 MiB by the number of streams", "curves", parts, "streams", "ms", log=(True, False), ticks=True, zero=True,
              share=True)
    page.table(["16 MiB", "1 stream", f"{both['h2d'].streams[-1][0]} streams", "largest underestimation", "largest overestimation"], rows)
    five, six = paper["fig5"], paper["fig6"]
    page.said(f"curves without numbers; for 16 MiB to 1 GiB the model's largest error is an underestimation of {five['most_under']} % to "
              "the device, "
              f"an overestimation of {six['most_over']} % and an underestimation of {six['most_under']} % to the host.", "as the table says.",
              "16 MiB take less than a quarter of the time, so that gaps count for more, and the gap is not the same for all numbers of "
              "streams: "
              "to the host it is larger from 128 streams on.")


class Compared:
    """One routine and size: the fastest of each strategy as measured and as predicted."""

    def __init__(self, machine, models, routine, n, some):
        self.routine, self.n, self.some = routine, n, some
        self.real = best(some)
        self.fastest = winner(self.real)
        self.each = {m: {way: predict(machine, links, routine, n, *way) for way in some} for m, links in models.items()}
        self.told = {m: best(each) for m, each in self.each.items()}

    def cost(self, model):
        """The measured time of the strategy that is predicted to be the fastest over that of the fastest."""
        return self.real[winner(self.told[model])][0] / self.real[self.fastest][0]

    def ratios(self, found):
        least = found[winner(found)][0]
        return {kind: t / least for kind, (t, _, _) in found.items()}


def label(real, kind):
    if kind not in real:
        return "not measured"
    t, name, streams = real[kind]
    more = str(streams) if kind == "streams" else name.partition("-")[2]
    return number(1e6 * t) + (f" ({more})" if more else "")


def spoken(found):
    _, name, streams = found[winner(found)]
    return f"{streams} streams" if name.startswith("streams") else name


def strategies(page, measured, paper, machine, both):
    """Fig. 8 to 10."""
    page.heading("Explicit copies, streams, mapped memory, hybrids (Fig. 8 to 10)")
    times, tables = Times(measured), of_tables(measured, both)
    models = {"by the rates": machine.links, **({"by Tables I and II": tables} if tables else {})}
    page.text("daxpy uses each element once, as the paper's `state` does; dgemv uses x again and again, as `buoydiff` does its inputs. "
              "All operands "
              "are at the host, registered, and the result is wanted there. Of streams (2 to 64) the fastest number counts; a hybrid "
              "copies some operands and lets the kernel use the others at the host, on one stream.",
              "*By the rates* is what `semcache predict` says (its equations, for the numbers of streams that are measured). *By Tables "
              "I and II* "
              "are the same equations with the parameters of the two tables above, as the paper has them: copies in both directions at "
              "once are slower, and so are kernels that use the host's memory. The time of the kernel is that of `semcache predict`.")
    if not tables:
        page.text("Not measured: all of Tables I and II.")
    machine.ask_all([(problem(r, n).call, 0) for r, n in times.of])
    if missing := [routine for routine in ROUTINES if not times.sizes(routine)]:
        page.text(f"Not measured: {', '.join(missing)}.")
    if not times.of:
        return
    for routine, n in times.of:
        check(machine, routine, n)
    found = {r: [Compared(machine, models, r, n, times.of[r, n]) for n in times.sizes(r)] for r in ROUTINES if times.sizes(r)}
    largest(page, paper, {r: some[-1] for r, some in found.items()}, models)
    by_size(page, found, models)
    winners = "; ".join(f"`{k}`: " + ", ".join(f"{v} on the {g}" for g, v in by.items()) for k, by in paper["winners"].items())
    page.said(f"bars without numbers. Fastest: {winners}. The model predicts all six.",
              f"the strategy that is predicted to be the fastest is, or takes at most {100 * ALIKE:.0f} % longer than the fastest, " +
              "; ".join(f"{m}, for " + ", ".join(f"{sum(c.cost(m) <= 1 + ALIKE for c in some)} of {len(some)} sizes of {r}"
                                                 for r, some in found.items()) for m in models) + ".",
              "this GPU has at least two copy engines and no implicit synchronisation, as the K20 has, so that a hybrid adds nothing to "
              "streams. "
              "The models know nothing of what it takes to queue each copy and launch, which decides for small operands, and they count "
              "each "
              "element of mapped memory once: kernels of dgemv use x once for many rows or columns, and its small transposed products take "
              "several times as long when x or A is mapped.")


def largest(page, paper, last, models):
    names = ["measured", *models]
    rows, bars = [], []
    for routine, c in last.items():
        bars.append((f"{ROUTINES[routine]}, n = {c.n}", [(k, [1e3 * c.real[k][0], *(1e3 * c.told[m][k][0] for m in models)]) for k in c.real]))
        for k in c.real:
            cells = [f"{number(1e3 * c.told[m][k][0])} ({percent(c.told[m][k][0] / c.real[k][0] - 1)})" for m in models]
            rows.append([f"{routine}, n = {c.n}", k, number(1e3 * c.real[k][0]), *cells])
    page.plot("fig8-10", "time of each strategy at the largest size", "bars", bars, "ms", names)
    page.text("The largest sizes, in ms:")
    page.table(["", "strategy", *names], rows)
    page.text("Errors of all variants and numbers of streams at these sizes:")
    rows = []
    for k in STRATEGIES:
        for m in models:
            off = errors([(t, c.some[way]) for c in last.values() for way, t in c.each[m].items() if way[0].split("-")[0] == k])
            rows.append([k, m, *error_cells(off), f"{paper['errors'][k]} %"])
    page.table(["", "", *ERROR_HEAD, "paper, largest"], rows)


def by_size(page, found, models):
    parts = {"measured": lambda c: c.real, **{m: lambda c, m=m: c.told[m] for m in models}}
    panels = []
    for what, of in parts.items():
        for routine, some in found.items():
            series = [(k, [(c.n, c.ratios(of(c))[k]) for c in some if k in of(c)], {"line": "-" if what == "measured" else "--"})
                      for k in STRATEGIES if any(k in of(c) for c in some)]
            panels.append((f"{ROUTINES[routine]}, {what}", series))
    page.plot("winners", "time of each strategy by size, over that of the fastest", "curves", panels, "n (elements, or order of A)",
              "time / fastest", log=(True, True), ticks=True, rows=len(parts), height=2.2, share=True, values=[1, 1.2, 1.5, 2, 3, 5])
    rows = []
    for routine, some in found.items():
        for c in some:
            told = [cell for m in models for cell in (spoken(c.told[m]), f"{c.cost(m):.2f}")]
            rows.append([routine, str(c.n), *(label(c.real, k) for k in STRATEGIES), spoken(c.real), *told])
    page.text("By size, in us, with the fastest variant or number of streams; *cost* is the measured time of the strategy that is "
              "predicted to be the "
              "fastest over that of the fastest:")
    page.table(["", "n", *STRATEGIES, "fastest", *(cell for m in models for cell in (m, "cost"))], rows)


def write(page, measured, paper, machine):
    both = {key: Direction(measured, key) for key in ("h2d", "d2h")}
    if all(d.complete for d in both.values()):
        parameters(page, measured, paper, both)
        transfers(page, paper, both)
    else:
        page.text("Not measured: transfers (Tables I and II, Fig. 5 and 6).")
    strategies(page, measured, paper, machine, both)
