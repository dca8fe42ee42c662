"""Equations of the models for a given number of streams, of pieces, or with other parameters than a file of rates has. What `semcache
predict` prints, too, is compared with it (`strategies.check`, `Machine.streams`); docs/model.md has all equations.
"""

# The gap between copies of two streams as a share of the latency, to and from the device: Table I of van Werkhoven et al.
GAP = {"h2d": 0.002503 / 0.009420, "d2h": 0.002674 / 0.009023}


class Way:
    """Parameters of one direction: seconds of L + o, of g, and of a byte that is copied alone, that is copied against a copy, and that
    a kernel reads or writes alone or in both directions."""

    def __init__(self, latency, gap, copied, against=None, mapped=None, mapped_both=None):
        self.latency, self.gap, self.copied = latency, gap, copied
        self.against, self.mapped, self.mapped_both = against or copied, mapped or copied, mapped_both or copied

    def all(self, seconds, streams=1):
        """T(n): when the last of n streams has copied its part. `seconds` are all bytes times the inverse bandwidth."""
        return self.latency + seconds + self.gap * (streams - 1) if seconds else 0.0

    def one(self, seconds, streams):
        """t(n): when one of n streams has copied its part."""
        return self.latency + seconds / streams if seconds else 0.0


class Links:
    """Both directions. `to` and `back` are bytes to the device and to the host, `kernel` is t_E."""

    def __init__(self, hd, dh):
        self.hd, self.dh = hd, dh

    @classmethod
    def of_rates(cls, rates):
        """Of a file of rates, as `semcache predict` has them: the same seconds for every byte."""
        def way(key):
            # A device gets no more than what all of them get together.
            rate = min([rates["device"][key]["bytes_per_s"], *rates.get(key + "_all", [])[:1]])
            latency = rates["device"][key]["latency_s"]
            return Way(latency, GAP[key] * latency, 1 / rate)
        return cls(way("h2d"), way("d2h"))

    def explicit(self, to, back, kernel):
        """Zero overlap."""
        return self.hd.all(to * self.hd.copied) + kernel + self.dh.all(back * self.dh.copied)

    def overlapped(self, to, back):
        """Seconds of all bytes in either direction, at the lower rate while the other one is busy, too."""
        to_s, back_s = to * self.hd.against, back * self.dh.against
        if to_s >= back_s:
            return back_s + (to_s - back_s) / self.hd.against * self.hd.copied, back_s
        return to_s, to_s + (back_s - to_s) / self.dh.against * self.dh.copied

    def streams(self, to, back, kernel, n):
        """Eq. 5 of van Werkhoven et al."""
        hd_s, dh_s = self.overlapped(to, back)
        return max(self.hd.all(hd_s, n) + kernel / n + self.dh.one(dh_s, n),
                   self.hd.one(hd_s, n) + kernel + self.dh.one(dh_s, n),
                   self.hd.one(hd_s, n) + kernel / n + self.dh.all(dh_s, n))

    def mapped(self, to, back, kernel):
        """Eq. 6. A kernel that writes hardly anything reads at the rate of one direction."""
        both = min(to, back) > max(to, back) / 10
        ways = [(w, b * (w.mapped_both if both else w.mapped)) for w, b in ((self.hd, to), (self.dh, back)) if b]
        return sum(w.latency for w, _ in ways) + max([kernel, *(s for _, s in ways)])

    def pieces(self, to, back, inputs, kernel, k, slowdown):
        """Eq. 3 and 4 of CoCoPeLia for k equal pieces with that number of inputs; bytes and kernel are those of one piece."""
        come = inputs * self.hd.latency + to * self.hd.copied
        go = self.dh.all(back * self.dh.copied)
        slow_in, slow_out = slowdown[0] * come, slowdown[1] * go
        over = slow_out + (slow_in - slow_out) / slowdown[0] if slow_in >= slow_out else slow_in + (slow_out - slow_in) / slowdown[1]
        return max(kernel, over) * (k - 1) + come + kernel + go
