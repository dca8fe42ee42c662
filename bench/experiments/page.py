"""A page of Markdown with tables and, if wanted, plots beside it."""

import math
import os
import statistics


def number(value, digits=3):
    """With that number of significant digits, without an exponent."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    return f"{value:.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"


def seconds(value):
    for unit, size in ("s", 1), ("ms", 1e-3), ("us", 1e-6):
        if abs(value) >= size:
            break
    return f"{number(value / size)} {unit}"


def percent(value, digits=1):
    """Of a share."""
    return f"{100 * value:+.{digits}f} %"


def geometric(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def rank(values, share):
    """The least value that this share of the values does not exceed."""
    return sorted(values)[max(1, math.ceil(share * len(values))) - 1]


def errors(pairs):
    """(predicted - measured) / measured."""
    return [predicted / measured - 1 for predicted, measured in pairs]


def error_cells(found):
    """Cells for a distribution of errors; ERROR_HEAD has their titles."""
    if not found:
        return ["0", "not measured", "", "", ""]
    off = [abs(e) for e in found]
    return [str(len(found)), percent(statistics.median(found)), f"{100 * statistics.median(off):.1f} %", f"{100 * rank(off, 0.9):.1f} %",
            f"{percent(min(found), 0)} to {percent(max(found), 0)}"]


ERROR_HEAD = ["times", "median error", "median of its size", "90th percentile of its size", "from, to"]


class Page:
    """What is written of one paper."""

    def __init__(self, folder, name, draw):
        self.folder, self.name, self.lines = folder, name, []
        # A module that draws, or none.
        self.draw = draw

    def text(self, *paragraphs):
        for paragraph in paragraphs:
            self.lines += [paragraph, ""]

    def heading(self, text, level=2):
        self.text("#" * level + " " + text)

    def items(self, *lines):
        self.lines += [*(f"* {line}" for line in lines), ""]

    def table(self, head, rows):
        if not rows:
            self.text("Not measured.")
            return
        self.lines += ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(row) + " |" for row in rows), ""]

    def said(self, paper, here, why):
        """What the paper says, what is measured here, and why they differ."""
        self.items(f"Paper: {paper}", f"Here: {here}", *([f"Why they differ: {why}"] if why else []))

    def plot(self, name, title, how, *arguments, **named):
        """A picture NAME-how.png, by a function of the module that draws."""
        if self.draw:
            file = f"{self.name}-{name}.png"
            getattr(self.draw, how)(os.path.join(self.folder, file), *arguments, **named)
            self.text(f"![{title}]({file})")

    def write(self):
        with open(os.path.join(self.folder, self.name + ".md"), "w", encoding="utf-8") as f:
            f.write("\n".join(self.lines).rstrip() + "\n")
