"""Evaluation of two topology-aware heuristics on a level-3 BLAS library for multi-GPU platforms.

Gautier and Lima, PAW-ATM 2021: XKBlas. Its schedule (`scheduler=xkaapi`) and the library's own on a DGX-1 of 8 GPUs:

* six routines by order from the host (Fig. 5), with each heuristic off (Table II, Fig. 3), and with all data on devices (Fig. 4);
* what moves in a product and in dsyr2k (Fig. 6 and 7), and dtrsm with dgemm after it (Fig. 8 and 9).
"""

from experiments.virtual import Run

MACHINE = "dgx1"
ROUTINES = ["dgemm", "dsymm", "dsyrk", "dsyr2k", "dtrmm", "dtrsm"]
STUDIED = ["dgemm", "dsyr2k", "dtrsm"]
TILES = [1024, 2048, 4096]
OF_DEVICES = ["tasks", "h2d", "d2h", "p2p", "kernels", "uploads", "write_backs", "peers", "end"]
# Each policy as it is, which is the base of Table II, and with what the table's columns turn off.
XKAAPI = {"scheduler": "xkaapi", "peers": "any"}
POLICIES = {"XKaapi's policy": XKAAPI, "ours": {}}
OFF = {"no_heuristic": {"joins": "off"}, "no_topology": {"joins": "off", "peers": "unranked"}}


def orders(quick):
    return [2048, 4096] if quick else [4096, 8192, 12288, 16384, 20480, 24576, 28672, 32768, 36864, 40960, 45056, 49152]


def tiles(n):
    """A tile for each GPU at least, where the order allows it."""
    return [tile for tile in TILES if tile * 2 <= n]


def grid(n):
    """The paper's tile where data are on devices: 4 by GPU in a row."""
    return -(-n // 32)


def program(routine, n, calls=1):
    return f"{routine} {n} {calls} beta=1"


def profiled(quick):
    """Of Fig. 6 and 7."""
    return {"dgemm": orders(quick)[-1] if quick else 32768, "dsyr2k": orders(quick)[-1]}


def composed(quick):
    return 4096 if quick else 32768


def wanted(quick):
    kept = [Run(MACHINE, program(routine, n), **settings, tile=tile) for routine, n in profiled(quick).items()
            for settings in POLICIES.values() for tile in tiles(n)]
    found = []
    for name in "trsm-gemm", "dtrsm", "dgemm":
        found += [Run(MACHINE, program(name, composed(quick)), **settings, tile=tile) for settings in POLICIES.values()
                  for tile in (1024, 2048)]
    for n in orders(quick):
        for routine in ROUTINES:
            for settings in POLICIES.values():
                found += [Run(MACHINE, program(routine, n), **settings, tile=tile) for tile in tiles(n)]
                if routine in STUDIED:
                    found += [Run(MACHINE, program(routine, n), **{**settings, **off}, tile=tile)
                              for off in OFF.values() for tile in tiles(n)]
                    found += [Run(MACHINE, program(routine, n, calls), **settings, tile=tile)
                              for calls in (1, 2) for tile in [*tiles(n), grid(n)]]
            found.append(Run(MACHINE, program(routine, n)))
    # The file is part of the project: of all but a few, what each device did is not kept.
    needed = {run.key for run in kept}
    for run in found:
        run.devices = run.key in needed
    return kept + found
