#!/usr/bin/env python3
"""Compares the sums of a trace, as Perfetto's trace processor reads it, with the report of the same process.

sums.py TRACE REPORT [ASSERTION...]   bytes, calls and faults are equal; what was dropped is in the trace's summary and counts
sums.py --large TRACE REPORT [ASSERTION...]   the same, of a file too large for the trace processor: from its packets; ASSERTION
                                      can be calls, ops, faults and dropped only
sums.py --part TRACE [ASSERTION...]   of a process that was killed, and so has no report: the trace can be read

ASSERTION is NAME (above zero) or NAME==N, where NAME is one of calls, ops, untimed (operations without times), faults, evictions,
dropped (events of any kind), threads, kernel_ns, unlinked (operations whose cause is neither a call nor a fault)."""

import json
import sys

import packets
from processor import opened


def counted(rows):
    return {key: value for key, value in rows}


def read(trace):
    """The sums of a trace, and the numbers of its summary."""
    arg = "extract_arg(arg_set_id, 'debug.{}')".format
    summary = counted(
        trace.rows(
            "select substr(key, 7) as key, int_value as value from args join slice using (arg_set_id)"
            " where slice.name = 'summary' and key like 'debug.%'"
        )
    )
    copies = counted(
        trace.rows(f"select name, sum({arg('bytes')}) as bytes from slice where category = 'copy' group by name")
    )
    calls = counted(
        trace.rows(
            f"select {arg('side')} as side, count(*) as calls from slice"
            " where category = 'call' and name != 'decision' group by side"
        )
    )
    faults = counted(trace.rows("select name, count(*) as n from slice where category = 'fault' group by name"))
    one = lambda query: trace.rows(query)[0][0] or 0
    operations = "category in ('copy', 'kernel')"
    return {
        **totals(copies, calls, faults, summary),
        "ops": one(f"select count(*) as n from slice where {operations}"),
        "untimed": one(f"select count(*) as n from slice where {operations} and {arg('queued_ns')} is null"),
        "kernel_ns": one("select sum(dur) as n from slice where category = 'kernel'"),
        "evictions": one("select count(*) as n from slice where name = 'evict'"),
        "threads": one(
            "select count(distinct utid) as n from thread_track join slice on slice.track_id = thread_track.id"
            " where category = 'call'"
        ),
        "unlinked": one(
            f"select count(*) as n from slice where {operations} and {arg('cause')} not in (select {arg('cause')}"
            " from slice where category in ('call', 'fault') and name != 'decision')"
        ),
        # Each fault names the thread that waited for it, which is not the thread that served it.
        "threadless": one(
            f"select count(*) as n from slice join thread_track on slice.track_id = thread_track.id join thread using (utid)"
            f" where category = 'fault' and coalesce({arg('tid')}, 0) in (0, thread.tid)"
        ),
        # What the trace processor itself could not understand.
        "errors": trace.rows("select name, value from stats where value > 0 and severity in ('error', 'data_loss')"),
    }


def totals(copies, calls, faults, summary):
    """What the report has, too: from the events, and from the summary's counts of what has no event."""
    dropped = lambda kind, what="dropped": summary.get(f"{what}_{kind}", 0)
    copied = lambda name: copies.get(name, 0) + dropped(name, "dropped_bytes")
    of_host = sum(n for key, n in summary.items() if key.startswith("host_"))
    return {
        "h2d": copied("upload"),
        "d2h": copied("download"),
        "p2p": copied("peer"),
        "offloaded": calls.get("devices", 0) + calls.get("replayed", 0) + dropped("offloaded"),
        "host": calls.get("host", 0) + of_host + dropped("host"),
        "read": faults.get("load fault", 0) + dropped("fault_read"),
        "write": faults.get("store fault", 0) + dropped("fault_write"),
        "calls": sum(calls.values()),
        "faults": sum(faults.values()),
        "dropped": sum(n for key, n in summary.items() if key.startswith("dropped_") and "bytes" not in key),
    }


def read_large(path):
    *counts, ops = packets.read(path)
    return {**totals(*counts), "ops": ops, "errors": [], "threadless": 0}


def main(arguments):
    report = None
    option = arguments.pop(0) if arguments[0].startswith("--") else None
    path, *assertions = arguments
    if option != "--part":
        report, *assertions = assertions
    if option == "--large":
        sums = read_large(path)
    else:
        with opened(path) as trace:
            sums = read(trace)
    wrong = [f"Perfetto: {sums['errors']}"] if sums["errors"] else []
    if sums["threadless"]:
        wrong.append(f"{sums['threadless']} faults without the thread that waited")
    if report:
        # REPORT:PID is one process of the report.
        report, _, pid = report.partition(":")
        with open(report) as file:
            report = json.load(file)
        if pid:
            report = next(process for process in report["processes"] if process["pid"] == int(pid))
        calls = report["calls"].values()
        told = {
            **{key: report["bytes"][key] for key in ("h2d", "d2h", "p2p")},
            **{key: report["faults"][key] for key in ("read", "write")},
            **{key: sum(c[key] for c in calls) for key in ("offloaded", "host")},
        }
        wrong += [f"{key} {sums[key]} in the trace, {n} in the report" for key, n in told.items() if sums[key] != n]
    for assertion in assertions:
        name, _, number = assertion.partition("==")
        if not (sums[name] == int(number) if number else sums[name] > 0):
            wrong.append(f"{assertion}: {sums[name]}")
    if wrong:
        sys.exit(f"{path}: " + "; ".join(wrong))


main(sys.argv[1:])
