#!/usr/bin/env python3
"""Adds up semcache reports and checks what they must show.

    report_sum.py [--print KEY]... PATH... [ASSERTION]...

PATH is a JSON report or a directory of them. An ASSERTION is `KEY OP NUMBER` in one word, OP one of
> >= < <= == (quote it from the shell), or just `KEY`, which means `KEY>0`. Keys are the paths of the
report (bytes.h2d, cache.closes, faults.read, calls.dgemm.offloaded, calls.dgemm.why_host.small), and

    offloaded, host     calls of all routines
    faults              faults.read + faults.write
    moved               bytes.h2d + bytes.d2h
    per_call            what copying at every call would have moved: moved + bytes.saved
    reports             how many reports were read
    degraded.NAME       how many of them name it

Exit status 1 when an assertion does not hold, when there is no report, or when one cannot be read.
"""

import json
import operator
import os
import re
import sys

OPS = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
}
ASSERTION = re.compile(r"([A-Za-z][\w.]*?)\s*(>=|<=|==|>|<)\s*(-?[\d.eE+]+)")
KEY = re.compile(r"(offloaded|host|faults|moved|per_call|reports|fallbacks|host_parts|distributed|host_timed|"
                 r"(calls|bytes|faults|cache|window|gate|sampled|degraded)\.[\w.]+)")
EVERY = ["bytes", "faults", "cache", "window", "gate"]
NOT_SUMS = {"p50_us", "p99_us"}


def flatten(prefix, value, out):
    if isinstance(value, dict):
        for key, inner in value.items():
            flatten(f"{prefix}.{key}" if prefix else key, inner, out)
    elif isinstance(value, (int, float)) and prefix.rsplit(".", 1)[-1] not in NOT_SUMS:
        out[prefix] = out.get(prefix, 0) + value


def add(path, total):
    with open(path, encoding="utf-8") as f:
        report = json.load(f)
    if report.get("version") != 2:
        raise ValueError(f"version {report.get('version')}, expected 2")
    for group in EVERY:
        if group not in report:
            raise ValueError(f"no {group!r}")
        flatten(group, report[group], total)
    flatten("sampled", report.get("sampled", {}), total)
    for key in ("fallbacks", "host_parts", "distributed", "sparse", "sparse_host", "sparse_passed", "sparse_links", "host_timed"):
        total[key] = total.get(key, 0) + report.get(key, 0)
    flatten("calls", report.get("calls", {}), total)
    for name in report.get("degraded", []):
        total[f"degraded.{name}"] = total.get(f"degraded.{name}", 0) + 1
    for call in report.get("calls", {}).values():
        total["offloaded"] = total.get("offloaded", 0) + call["offloaded"]
        total["host"] = total.get("host", 0) + call["host"]
    total["reports"] = total.get("reports", 0) + 1


def finish(total):
    total["faults"] = total.get("faults.read", 0) + total.get("faults.write", 0)
    total["moved"] = sum(total.get(f"bytes.{way}", 0) for way in ("h2d", "d2h", "mapped"))
    total["per_call"] = total["moved"] + total.get("bytes.saved", 0)
    return total


def main(words):
    paths, assertions, shown = [], [], []
    words = list(words)
    while words:
        word = words.pop(0)
        if word == "--print":
            shown.append(words.pop(0))
        elif os.path.exists(word):
            paths.append(word)
        elif match := ASSERTION.fullmatch(word):
            assertions.append((match[1], match[2], float(match[3])))
        elif KEY.fullmatch(word):
            assertions.append((word, ">", 0.0))
        else:
            print(f"report_sum: {word}: neither a file nor an assertion", file=sys.stderr)
            return 1
    files = []
    for path in paths:
        if os.path.isdir(path):
            for top, _, names in os.walk(path):
                files += [os.path.join(top, n) for n in names if n.endswith(".json")]
        else:
            files.append(path)
    total = {}
    for file in sorted(files):
        try:
            add(file, total)
        except (ValueError, KeyError, OSError) as error:
            print(f"report_sum: {file}: {error}", file=sys.stderr)
            return 1
    if not files:
        print(f"report_sum: no reports in {' '.join(paths) or 'nothing'}", file=sys.stderr)
        return 1
    finish(total)
    if shown:
        print(*(format(total.get(key, 0), "g") if isinstance(total.get(key, 0), float)
                else total.get(key, 0) for key in shown))
    else:
        keys = ["reports", "offloaded", "host", "faults", "faults.false_sharing", "cache.closes",
                "cache.evictions", "moved", "bytes.p2p", "bytes.saved", "fallbacks"]
        print("  " + " ".join(f"{k}={total.get(k, 0)}" for k in keys)
              + "".join(f" {k}={v}" for k, v in total.items() if k.startswith("degraded.")))
    bad = 0
    for key, op, limit in assertions:
        value = total.get(key, 0)
        if not OPS[op](value, limit):
            print(f"report_sum: {key} = {value}, must be {op} {limit:g}", file=sys.stderr)
            bad = 1
    return bad


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
