"""What no machine of the papers has: up to 64 devices, matrices of order 100,000 that fit no memory, devices and links of other speeds.

* scaling: six routines of level 3 on 1 to 64 devices with 4 GiB each, of an order that fits and of one that does not, as planned and with
  given tiles; dgemm by policy and without copies from other devices;
* memory: order 100,000 on eight devices by the memory that each may use;
* unequal devices: one of eight whose kernels take longer than the library knows, and Makalu, whose devices it knows to differ;
* links: by their rate.
"""

from experiments.virtual import Run

OF_DEVICES = ["tasks"]
ROUTINES = ["dgemm", "dsymm", "dsyrk", "dsyr2k", "dtrmm", "dtrsm"]
# Of which three are run where six are too many.
THREE = ["dgemm", "dsyrk", "dtrsm"]
POLICIES = ["planned", "static", "blasx", "xkaapi"]
SLOWER = [1, 2, 4, 8]


class Sizes:
    """What is run."""

    def __init__(self, quick):
        self.devices = [1, 2, 4] if quick else [1, 2, 4, 8, 16, 32, 64]
        self.many = self.devices[-2:] if quick else [8, 16, 32, 64]
        self.fits, self.large = (1024, 2048) if quick else (32768, 100000)
        self.memory = ["16MiB", "64MiB"] if quick else ["4GiB", "8GiB", "16GiB", "32GiB", "64GiB", "128GiB"]
        self.links = [4, 64] if quick else [4, 8, 16, 32, 64, 128, 256]
        self.on = [1, 4] if quick else [1, 8]
        self.tiles = [256, 512] if quick else [1024, 2048, 4096]
        self.limit = {"memory": "24MiB"} if quick else {}
        # How a call with one slow device is run.
        self.ways = {"planned": {}, "planned, in a window": {"window": 3},
                     f"planned, tile {self.tiles[1]}, in a window": {"window": 3, "tile": self.tiles[1]},
                     **{p: {"scheduler": p} for p in POLICIES[1:]}}

    def scaling(self):
        found = [Run(d, f"{r} {n} 1", **self.limit) for n in (self.fits, self.large) for r in ROUTINES for d in self.devices]
        return found + [Run(d, f"{r} {self.fits} 1", tile=t, **self.limit) for r in ROUTINES for d in self.devices for t in self.tiles]

    def policies(self):
        """dgemm by policy, and without copies from other devices."""
        found = [Run(d, f"dgemm {self.large} 1", scheduler=p, **self.limit) for p in POLICIES[1:] for d in self.many]
        return found + [Run(d, f"dgemm {self.large} 1", peers="off", **self.limit) for d in self.many]

    def unequal(self):
        n = self.fits
        found = [Run(self.on[-1], f"dgemm {n} 1", sim=f"slow=0:{f}", **how) for f in SLOWER for how in self.ways.values()]
        found += [Run(1, f"dgemm {n} 1"), Run(self.on[-1] - 1, f"dgemm {n} 1"), Run("makalu:2", f"dgemm {n // 2} 1")]
        return found + [Run("makalu", f"dgemm {n // 2} 1", scheduler=p) for p in POLICIES]


def wanted(quick):
    s = Sizes(quick)
    found = s.scaling() + s.policies() + s.unequal()
    found += [Run("h200x8", f"{r} {s.large} 1", memory=m) for r in THREE for m in s.memory]
    return found + [Run(d, f"{r} {s.fits} 1", sim=f"link={link}") for d in s.on for r in THREE for link in s.links]
