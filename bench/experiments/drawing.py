"""Plots as small PNG files."""

import io

import matplotlib
import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from PIL import Image

matplotlib.use("Agg")
plt.rcParams.update({"font.size": 9, "axes.titlesize": 9.5, "axes.grid": True, "grid.color": "#dddddd", "axes.axisbelow": True,
                     "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False, "figure.constrained_layout.use": True})
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999"]
MARKERS = "osD^vPX*"
DPI, LARGEST = 110, 60_000


def save(figure, path):
    """With few colours, which keeps the file small."""
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=DPI, metadata={"Software": None})
    plt.close(figure)
    small = io.BytesIO()
    Image.open(drawn).convert("RGB").quantize(128, Image.Quantize.MAXCOVERAGE).save(small, "PNG", optimize=True)
    if small.tell() > LARGEST:
        raise RuntimeError(f"{path} has {small.tell()} bytes, {LARGEST} are the limit")
    with open(path, "wb") as f:
        f.write(small.getvalue())


def panels(count, height=3.0, width=3.4, share=False, rows=1):
    columns = -(-count // rows)
    figure, axes = plt.subplots(rows, columns, figsize=(max(5.0, width * columns), height * rows), sharey=share, squeeze=False)
    return figure, axes.flatten()


def sizes_on(axis, values):
    """A logarithmic axis with these values alone, large ones in multiples of 1024 and of 1024 * 1024."""
    def text(value, _):
        for unit, letter in (1 << 20, "Mi"), (1 << 10, "Ki"):
            if max(values) > 1 << 16 and value >= unit and round(value) % unit == 0:
                return f"{round(value) // unit} {letter}"
        return f"{value:g}"
    axis.set_ticks(sorted(values))
    axis.set_major_formatter(FuncFormatter(text))
    axis.set_minor_locator(NullLocator())


def curves(path, parts, x, y, log=(True, False), ticks=None, zero=False, share=False, height=3.2, rows=1, values=None):
    """Panels (title, [(label, points, style)]). A style has marker, line, colour (a number), ring (an x). `values` are marks of a
    logarithmic y axis."""
    figure, axes = panels(len(parts), height=height, share=share, rows=rows)
    for a, (title, series) in zip(axes, parts):
        for i, (label, points, style) in enumerate(series):
            colour = COLOURS[style.get("colour", i) % len(COLOURS)]
            a.plot(*zip(*points), label=label, color=colour, linestyle=style.get("line", "-"), linewidth=1.3,
                   marker=style.get("marker", MARKERS[style.get("colour", i) % len(MARKERS)]), markersize=4)
            if "ring" in style:
                a.plot([style["ring"]], [dict(points)[style["ring"]]], "o", color=colour, markersize=11, fillstyle="none")
        a.set_title(title)
        if a.get_subplotspec().is_last_row():
            a.set_xlabel(x)
        if log[0]:
            a.set_xscale("log", base=2)
        a.margins(y=0.08)
        if log[1]:
            a.set_yscale("log")
            a.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            a.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            a.yaxis.set_minor_locator(NullLocator())
        if ticks:
            sizes_on(a.xaxis, ticks if isinstance(ticks, list) else {p[0] for _, points, _ in series for p in points})
        if ticks and len(a.get_xticks()) > 6:
            a.tick_params(axis="x", labelrotation=60)
        if values:
            a.set_yticks(values, [f"{v:g}" for v in values])
    # When all panels are drawn, whose axes may be one.
    for a in axes if zero else []:
        a.set_ylim(bottom=0)
    for a in axes[::len(parts) // rows]:
        a.set_ylabel(y)
    axes[0].legend(fontsize=7.5)
    save(figure, path)


def boxes(path, parts, y, share=True, most=None):
    """Panels (title, [(label, values)]): a box from quartile to quartile with the median, whiskers to the 5th and 95th percentile,
    and all values beside it. Of values above `most` only the number is shown."""
    wide = max(len(groups) for _, groups in parts)
    figure, axes = panels(len(parts), height=3.4, width=10 / len(parts) if len(parts) > 2 else max(4.2, 0.9 * wide), share=share)
    above = most and any(v > most for _, groups in parts for _, values in groups for v in values)
    for a, (title, groups) in zip(axes, parts):
        for i, (label, values) in enumerate(groups):
            colour = COLOURS[i % len(COLOURS)]
            box = a.boxplot([values], positions=[i], widths=0.5, whis=(5, 95), showfliers=False, patch_artist=True)
            box["boxes"][0].set(facecolor=colour, alpha=0.35)
            box["medians"][0].set(color="black", linewidth=1.6)
            a.plot([i + 0.33 + 0.12 * (0.618 * j % 1) for j in range(len(values))], values, ".", color=colour, markersize=2.5)
            if above and (hidden := sum(v > most for v in values)):
                a.annotate(f"{hidden} above", (i + 0.28, most), ha="center", va="top", fontsize=7.5)
        a.set_xticks(range(len(groups)), [f"{label}\n({len(values)})" for label, values in groups], fontsize=8)
        a.axhline(0, color="#555555", linewidth=0.8)
        a.set_title(title)
        a.grid(axis="x", visible=False)
        if above:
            a.set_ylim(-100, most)
    axes[0].set_ylabel(y)
    save(figure, path)


def bars(path, parts, y, names):
    """Panels (title, [(label, heights)]) with a bar for each of the names, beside each other."""
    figure, axes = panels(len(parts), height=3.2, width=max(3.4, 10 / len(parts)))
    for a, (title, groups) in zip(axes, parts):
        width = 0.8 / len(names)
        for i, name in enumerate(names):
            a.bar([g + width * (i + 0.5) - 0.4 for g in range(len(groups))], [heights[i] for _, heights in groups], width * 0.92,
                  color=COLOURS[i], label=name)
        a.set_xticks(range(len(groups)), [label for label, _ in groups], fontsize=8)
        a.set_title(title)
        a.grid(axis="x", visible=False)
    axes[0].set_ylabel(y)
    axes[0].legend(fontsize=7.5)
    save(figure, path)
