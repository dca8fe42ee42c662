#!/usr/bin/env python3
"""Tables of what bench/peer_strategies.c has measured.

    strategies.py FILE

FILE has its lines. A table for each routine and place: medians in us; of streams with the number that is fastest.
"""

import json
import statistics
import sys

from experiments.page import number


def series(path):
    """(routine, place) -> n -> strategy -> [(seconds, streams)]."""
    found = {}
    with open(path, encoding="utf-8") as f:
        for line in map(json.loads, f):
            if "routine" in line:
                sizes = found.setdefault((line["routine"], line["place"]), {})
                some = sizes.setdefault(line["n"], {}).setdefault(line["strategy"], [])
                some.append((statistics.median(line["seconds"]), line["streams"]))
    return found


def cell(some):
    seconds, streams = min(some)
    return number(1e6 * seconds) + (f" ({streams})" if len(some) > 1 else "")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for (routine, place), sizes in series(sys.argv[1]).items():
        strategies = list(dict.fromkeys(s for some in sizes.values() for s in some))
        print(f"{routine}, {place}:\n\n| n | {' | '.join(strategies)} | fastest |\n|{'---|' * (len(strategies) + 2)}")
        for n, some in sorted(sizes.items()):
            cells = [cell(some[s]) if s in some else "not measured" for s in strategies]
            print(f"| {n} | {' | '.join(cells)} | {min(some, key=lambda s: min(some[s]))} |")
        print()


if __name__ == "__main__":
    main()
