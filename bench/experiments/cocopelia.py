"""CoCoPeLia: Communication-Computation Overlap Prediction for Efficient Linear Algebra on GPUs.

Anastasiadis, Papadopoulou, Goumas and Koziris, ISPASS 2021. What is measured, in the order of its worth:

* transfers for Table II;
* the validation set of section V-B, dgemm: four square sizes from seven places and six shapes of as many flops, in full on our side
  with its own tile (Table IV, Fig. 7) and with fixed ones (Fig. 5, 6), by cuBLASXt with ten blocks (Table IV, Fig. 1, 4, 7), the
  likely best ones first;
* daxpy of four sizes from three places, on our side and on managed memory with prefetches (Table IV, Fig. 4);
* what the set of section V-E has besides: 21 more sizes of dgemm and 7 of daxpy.

sgemm and BLASX are left out.
"""

from experiments.measuring import Calls, Program

PLACES = ["hhh", "dhh", "hdh", "ddh", "hhd", "dhd", "hdd"]
VECTOR_PLACES = ["hh", "dh", "hd"]
BLOCKS = [8192, 4096, 2048, 6144, 1024, 16384, 3072, 12288, 1536, 512]
TILES = [2048, 4096, 1024, 3072, 6144, 1536, 8192]
# Pieces of managed memory that overlap: one, as section V-E says no more than "prefetching", and what a careful program would do.
PIECES = [1, 16]


def squares(sizes):
    return [(f"dgemm {n} {n} {n}", places, (n, n, n)) for n in sizes for places in PLACES]


def shapes(sizes):
    """As many flops as the square of order n has: M = N = K r^3 / 8, and M = N = 8 K / r^3."""
    found = []
    for n in sizes:
        for r in 3, 4, 5:
            for long, deep in (n * r / 2, 4 * n / r**2), (2 * n / r, n * r**2 / 4):
                m, k = round(long), round(deep)
                found.append((f"dgemm {m} {m} {k}", "hhh", (m, m, k)))
    return found


def own(problems):
    return [(f"{call} {places}", 0) for call, places, _ in problems]


def blocked(problems, blocks):
    """Blocks of cuBLASXt that are no larger than the largest dimension; those of one size together."""
    return [(f"{call} {places}", block) for block in blocks for call, places, dims in problems if block <= max(dims)]


def tiled(problems, tile):
    """Those of which the tile is no more than two thirds of any dimension, as in section V-B."""
    return own([p for p in problems if 1.5 * tile <= min(p[2])])


def vectors(sizes, part):
    return [(f"daxpy {n} {places}", part) for n in sizes for places in VECTOR_PLACES]


def steps(quick):
    """All measurements, in the order in which they are made."""
    unit, million = (16, 1 << 6) if quick else (1 << 10, 1 << 20)
    tiles, blocks = ([24, 48], [64, 32]) if quick else (TILES, BLOCKS)
    forced = {"SEMCACHE_OFFLOAD": "always"}
    decided = forced if quick else {}

    def scaled(numbers):
        return [round(number * unit) for number in numbers]

    def compared(sizes, chosen, name):
        """dgemm of some sizes on both sides."""
        set_ = squares(sizes) + shapes(sizes)
        return [Calls(f"dgemm, {name}", "auto", "ours", own(set_), decided, 5),
                Calls(f"dgemm, {name}, cuBLASXt", "xt", "peer", blocked(set_, chosen))]

    def daxpy(sizes, name):
        elements = [n * million for n in sizes]
        return [Calls(f"daxpy, {name}", "auto", "ours", vectors(elements, 0), decided, 5),
                Calls(f"daxpy, {name}, always on the GPU", "always", "ours", vectors(elements, 0), forced, 5),
                Calls(f"daxpy, {name}, the host BLAS", "host", "blas", [(f"daxpy {n} hh", 0) for n in elements], None, 5),
                Calls(f"daxpy, {name}, managed memory", "managed", "peer", [c for p in PIECES for c in vectors(elements, p)], None, 5)]

    first = scaled([4, 8] if quick else [4, 8, 12, 16])
    set_ = squares(first) + shapes(first)
    likely = blocks[:3]
    found = [Program("transfers", ["peer_transfers", *(["16", "5", "60", "3"] if quick else ["1024", "30", "20"])])]
    found += compared(first, likely, "validation set")
    found += daxpy([8, 64] if quick else [8, 64, 128, 256], "validation set")
    by_tile = [Calls(f"dgemm, tile {t}", f"tile {t}", "ours", tiled(set_, t), {**forced, "SEMCACHE_TILE": str(t)}) for t in tiles]
    found += by_tile[:3]
    found += [Calls("dgemm, cuBLASXt by block", "xt", "peer", blocked([p for p in squares(first) if p[1] == "hhh"], blocks[3:]))]
    found += by_tile[3:]
    found += [Calls("dgemm, validation set, cuBLASXt, other blocks", "xt", "peer", blocked(set_, blocks[3:]))]
    more = [[6]] if quick else [[6, 10, 14], [5, 7, 9, 11, 13, 15], [n + 0.5 for n in range(4, 16)]]
    for sizes in more:
        found += compared(scaled(sizes), likely, "sizes " + " ".join(f"{n:g}" for n in sizes))
    return found + daxpy([1] if quick else [1, 2, 4, 16, 32, 512, 1024], "other sizes")
