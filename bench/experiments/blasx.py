"""BLASX: a high performance level-3 BLAS library for heterogeneous multi-GPU computing.

Wang, Wu, Xu, Xiao and Yang, ICS 2016. Its schedule (`scheduler=blasx`) and the library's own on the paper's two machines:

* Everest: six routines by order on 1, 2 and 3 GPUs (Table III, Fig. 7), what moves at 16384 (Table V, Fig. 8), tiles (Fig. 10);
* Makalu: products on 1 to 4 GPUs of two speeds, and the network of section V-C.

Every run has its operands at the host at first and its results there at last, and reads what it updates.
"""

from experiments.virtual import Run

ROUTINES = ["dgemm", "dsymm", "dsyrk", "dsyr2k", "dtrmm", "dtrsm"]
# The paper's policy with the paper's tile, and the library as it is.
TILE = 1024
POLICIES = {"BLASX's policy": {"scheduler": "blasx", "tile": TILE}, "ours": {}}
# The same with the paper's tile.
OURS_TILED = {"tile": TILE}
VOLUME = 16384
# What the page needs of each device.
OF_DEVICES = ["tasks", "h2d", "d2h", "p2p", "kernels", "uploads", "write_backs", "peers", "end"]
TILES = [256, 512, 768, 1024, 1536, 2048, 3072, 4096]
TILED = [8192, 16384]
NETWORK = "3072,16384,16384,10"
SAMPLES = [100, 1000, 10000]


def orders(quick):
    return range(1024, 4097, 1024) if quick else range(1024, 39937, 1024)


def volume(quick):
    return 4096 if quick else VOLUME


def tiled(quick):
    return [2048, 4096] if quick else TILED


def scaled(quick):
    return [4096] if quick else [8192, 16384, 24576, 32768]


def samples(quick):
    return SAMPLES[:1] if quick else SAMPLES


def program(routine, n):
    return f"{routine} {n} 1 beta=1"


def network(n, cpu):
    return f"network {n} 1 layers={NETWORK}" + (" cpu=1" if cpu else "")


# Where the network runs: on the first GPU, on all of them.
NETWORKS = ["makalu:1", "makalu"]


def counted():
    """Runs whose tasks are counted (Table I)."""
    return [Run("everest", program(routine, n), tile=TILE) for routine in ROUTINES[1:] for n in (5120, 10240, 20480)]


def wanted(quick):
    kept = counted()
    for routine in ROUTINES:
        for settings in [*POLICIES.values(), OURS_TILED]:
            kept.append(Run("everest", program(routine, volume(quick)), **settings))
    for n in tiled(quick):
        for settings in POLICIES.values():
            kept += [Run("everest", program("dgemm", n), **{**settings, "tile": tile}) for tile in TILES]
    found = []
    for n in scaled(quick):
        for settings in POLICIES.values():
            found += [Run(f"makalu:{gpus}", program("dgemm", n), **settings) for gpus in range(1, 5)]
    found += [Run(machine, network(n, cpu), **settings) for n in samples(quick) for cpu in (False, True) for machine in NETWORKS
              for settings in POLICIES.values()]
    for n in orders(quick):
        for routine in ROUTINES:
            for settings in POLICIES.values():
                found += [Run(f"everest:{gpus}", program(routine, n), **settings) for gpus in range(1, 4)]
    # The file is part of the project: of these, what each device did is not kept.
    for run in found:
        run.devices = False
    return kept + found
