"""Parameters of links, fitted to measured transfers as either paper does."""

import math
import statistics


def points(measured, variant, direction, streams=None):
    """(bytes, or streams; seconds), medians."""
    some = [t for t in measured.transfers if t["variant"] == variant and t["direction"] == direction]
    return sorted((t["streams"] if streams else t["size"], t["time"].median) for t in some)


def latency(measured, direction):
    """Of one byte, or none."""
    some = points(measured, "latency", direction)
    return some[0][1] if some else None


def slope(some, start):
    """Least squares through (0, start): seconds per byte, and the residual standard error. CoCoPeLia, section IV-A."""
    byte = sum(b * (t - start) for b, t in some) / sum(b * b for b, _ in some)
    residual = sum((t - start - b * byte) ** 2 for b, t in some)
    return byte, math.sqrt(residual / max(1, len(some) - 1))


def mean_byte(some, start):
    """G of van Werkhoven et al., section V-A: what the sums of times and bytes give."""
    return (sum(t for _, t in some) - len(some) * start) / sum(b for b, _ in some)


def gap(some):
    """g: what each further stream adds to the time of one, by least squares. The paper does not say how it is measured."""
    (_, one), *more = some
    return sum((n - 1) * (t - one) for n, t in more) / sum((n - 1) ** 2 for n, _ in more)


class Direction:
    """The parameters of one direction, or none of those that are not measured."""

    def __init__(self, measured, direction):
        self.latency = latency(measured, direction)
        alone, both, streams = (points(measured, v, direction, v == "streams") for v in ("alone", "both", "streams"))
        self.alone, self.both, self.streams = alone, both, streams
        self.complete = self.latency is not None and len(alone) > 1 and len(both) > 1 and len(streams) > 1
        if not self.complete:
            return
        self.byte, self.error = slope(alone, self.latency)
        self.both_byte, self.both_error = slope(both, self.latency)
        self.slowdown = self.both_byte / self.byte
        self.mean_byte, self.both_mean_byte = mean_byte(alone, self.latency), mean_byte(both, self.latency)
        self.gap = gap(streams)

    def mapped(self, measured, direction):
        """Seconds per byte of: a kernel that uses host memory, the same against copies, copies against such a kernel."""
        found = {}
        for variant in "mapped", "mapped both", "against mapped":
            some = points(measured, variant, direction)
            found[variant] = statistics.fmean((t - self.latency) / b for b, t in some) if some and self.latency else None
        return found
