"""SemCache++: Semantics-Aware Caching for Efficient Multi-GPU Offloading.

Al-Saber and Kulkarni, ICS 2015. Run on the machines kepler and tesla, of which the library has presets:

* D = A B + A C by two products and a daxpy, by number of GPUs, with what devices have reused, and copied at every call with several
  tiles (Fig. 6, 7 and 8);
* one product, in the same ways (section 5.1);
* Jacobi iterations by products with a matrix and vectors that stay on devices, and with a matrix that is sent each time (Fig. 9);
* conjugate gradients with a symmetric tridiagonal matrix in compressed rows, in single precision (Fig. 10).
"""

from experiments.virtual import Run

OF_DEVICES = []
GPUS = list(range(1, 9))
WAYS = ["reused", "copied"]
# Tiles, of each device.
FEW = 12
# Iterations after those in which the matrix is sent.
FIRST, MORE = 2, 10


def sizes(quick):
    """Of Fig. 6, of Fig. 8, of Fig. 9, and the tiles of what is copied at every call."""
    if quick:
        return [256, 512], [512], [512, 1024], [128, 256]
    return [6144, 11264], [2048, 4096, 8192, 11264], [4096, 8192, 16384, 20480], [1024, 2048, 4096]


def orders(quick):
    """Of Fig. 10, and the largest that one GPU holds."""
    if quick:
        return [100_000, 400_000], 1_000_000
    return [250_000, 1_000_000, 2_000_000, 4_000_000, 16_000_000, 64_000_000], 100_000_000


def gradients(gpus, n, steps):
    """Pages of vectors of any size are protected."""
    return Run(machine("kepler", gpus), f"cg {n} {steps}", memory="100%", own="64KiB")


def machine(name, gpus):
    return f"{name}:{gpus}"


def sums(n, way, calls=1):
    """The words of the program for AB + AC."""
    return f"abac-daxpy {n} {calls} " + ("read=1" if way == "reused" else "host read=1")


def product(n, way):
    return f"dgemm {n} 1 " + ("read=1" if way == "reused" else "host read=1")


def settings(tile, few=False):
    """All of the devices' memory, since the paper's largest matrices fill it, or that of a few tiles. Without a tile the library plans;
    with one, tiles go to the devices in turn."""
    memory = f"{FEW * tile * tile * 8 >> 10}KiB" if few else "100%"
    return {"memory": memory, **({"tile": tile, "scheduler": "static"} if tile else {})}


def wanted(quick):
    two, many, vectors, tiles = sizes(quick)
    found = []
    for name, gpus, some in ("kepler", [1, 2], two), ("tesla", GPUS, many):
        for n in some:
            for g in gpus:
                on = machine(name, g)
                # Kernels alone: the third call has all data on devices, and so has the second, after which nothing is written back.
                found += [Run(on, f"abac-daxpy {n} {calls}", **settings(0)) for calls in (2, 3)]
                for program in sums, product:
                    found += [Run(on, program(n, way), **settings(0)) for way in WAYS]
                    found += [Run(on, program(n, "copied"), **settings(tile)) for tile in tiles]
                if name == "kepler":
                    found += [Run(on, sums(n, "copied"), **settings(tile, True)) for tile in tiles]
    for n in vectors:
        found += [Run(machine("tesla", g), f"jacobi {n} {k}") for g in GPUS for k in (FIRST, FIRST + MORE)]
        found += [Run(machine("tesla", g), f"jacobi {n} {k} host read=1") for g in GPUS for k in (1, 2)]
    some, largest = orders(quick)
    of = [(g, n) for g in (1, 2) for n in some] + [(1, largest), (2, 2 * largest)]
    found += [gradients(g, n, k) for g, n in of for k in (FIRST, FIRST + MORE)]
    return found
