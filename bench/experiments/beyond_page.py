"""The page of what no machine of the papers has."""

from experiments.beyond import POLICIES, ROUTINES, SLOWER, THREE, Sizes
from experiments.page import number, seconds
from experiments.virtual import flops, tasks

# Seconds for which the one thread that queues works on a task, in virtual time.
TASK = 40e-6


def gb(value):
    return number(value / 1e9)


class Experiment:
    """What the parts of the page share."""

    def __init__(self, page, runs):
        self.page, self.runs, self.sizes = page, runs, Sizes(runs.quick)

    def ran(self, devices, routine, n, **settings):
        return self.runs.get(devices, f"{routine} {n} 1", **self.sizes.limit, **settings)


def scaling(e):
    s = e.sizes
    e.page.heading("Scaling to many devices")
    e.page.text("One call, data at the host, on devices `sim:N`: each as fast as an H200, 4 GiB of memory, links of its own to the host "
                f"and to all others. Three matrices of order {s.fits} ({gb(8 * s.fits ** 2)} GB each) need several devices, those of order "
                f"{s.large} ({gb(8 * s.large ** 2)} GB each) fit none of these machines.")
    parts, rows = [], []
    for n in s.fits, s.large:
        series = []
        for r in ROUTINES:
            times = {d: e.ran(d, r, n).seconds for d in s.devices}
            one, last = times[s.devices[0]], s.devices[-1]
            series.append((r, [(d, one / t) for d, t in times.items()], {}))
            rate = flops(r, n) / times[last] / last / 1e12
            rows.append([str(n), r, "planned", *map(seconds, times.values()), f"{one / times[last]:.1f}", number(rate)])
            if n == s.fits:
                best = [min(e.ran(d, r, n, tile=t).seconds for t in s.tiles) for d in s.devices]
                rows.append([str(n), r, "best tile", *map(seconds, best), f"{one / best[-1]:.1f}", ""])
        series.append(("linear", [(d, d) for d in s.devices], {"line": ":", "marker": "", "colour": 6}))
        parts.append((f"order {n}, planned", series))
    e.page.plot("scaling", "speedup over one device", "curves", parts, "devices", "speedup", log=(True, True), ticks=s.devices, share=True)
    last = s.devices[-1]
    e.page.table(["order", "", "", *(f"{d}" for d in s.devices), f"speedup on {last}", f"TFLOP/s of each of {last}"], rows)
    late = [(n, r, d) for n in (s.fits, s.large) for r in ROUTINES for d in s.devices
            if TASK * tasks(e.ran(d, r, n)) > 0.9 * e.ran(d, r, n).seconds]
    e.page.text(f"*Best tile*: the shortest with a tile of {', '.join(map(str, s.tiles))}. The library queues tasks on one thread, 40 us "
                f"each: {len(late)} of {2 * len(ROUTINES) * len(s.devices)} planned calls take no longer than a tenth more than that" +
                (": " + "; ".join(f"{r} {n} on {d}" for n, r, d in late) if late else "") + f". Of {last} devices, these numbers work in "
                f"dgemm of order {s.fits}: " +
                ", ".join(f"{sum(x.tasks > 0 for x in e.ran(last, 'dgemm', s.fits, tile=t).devices)} with tile {t}" for t in s.tiles) + ".")
    policies(e)


def policies(e):
    s = e.sizes
    ways = {"planned": {}, "planned, copies from the host alone": {"peers": "off"}, **{p: {"scheduler": p} for p in POLICIES[1:]}}
    e.page.text(f"dgemm of order {s.large} by policy: the library's own, and those of the papers (`SEMCACHE_SCHEDULER`).")
    series = [(way, [(d, e.ran(d, "dgemm", s.large, **how).seconds) for d in s.many], {}) for way, how in ways.items()]
    one = e.ran(s.devices[0], "dgemm", s.large).seconds
    series.append(("linear", [(d, one / d) for d in s.many], {"line": ":", "marker": "", "colour": 6}))
    e.page.plot("policies", "time of dgemm by devices and policy", "curves", [(f"dgemm, order {s.large}", series)], "devices", "seconds",
                log=(True, True), ticks=s.many, height=3.6)
    rows = []
    for way, how in ways.items():
        for d in s.many:
            r = e.ran(d, "dgemm", s.large, **how)
            most, least = (f(x.tasks for x in r.devices) for f in (max, min))
            rows.append([way, str(d), seconds(r.seconds), gb(r.h2d), gb(r.p2p), str(tasks(r)), f"{least} to {most}",
                         seconds(TASK * tasks(r))])
    e.page.table(["", "devices", "time", "GB from the host", "GB from devices", "tasks", "of a device", "queueing"], rows)
    e.page.text("*Queueing*: 40 us for each task, which no call can be shorter than.")


def memory(e):
    s = e.sizes
    e.page.heading("Matrices larger than the memory")
    e.page.text(f"Order {s.large}, data at the host, on the preset `h200x8`, whose devices may use so much memory each "
                "(`SEMCACHE_MEMORY`):")
    found = {r: [(m, e.runs.get("h200x8", f"{r} {s.large} 1", memory=m)) for m in s.memory] for r in THREE}
    rows = []
    for r, some in found.items():
        operands = {"dgemm": 2, "dsyrk": 1, "dtrsm": 1.5}[r] * 8 * s.large ** 2
        rows += [[r, m, seconds(x.seconds), gb(x.h2d), f"{x.h2d / operands:.2f}", gb(x.p2p), gb(x.d2h)] for m, x in some]
    series = [(r, [(bytes_of(m) / (1 << 30), x.seconds) for m, x in some], {}) for r, some in found.items()]
    e.page.plot("memory", "time by the memory of each device", "curves", [(f"order {s.large}, eight devices", series)],
                "GiB of each device", "seconds", ticks=True, zero=True)
    e.page.table(["", "memory", "time", "GB from the host", "of its inputs", "GB from devices", "GB to the host"], rows)
    longer = [f"{r} with {m} ({seconds(x.seconds)}) than with {before} ({seconds(y.seconds)})" for r, some in found.items()
              for (before, y), (m, x) in zip(some, some[1:]) if x.seconds > 1.01 * y.seconds]
    if longer:
        e.page.text(f"More memory takes longer: {'; '.join(longer)}.")


def bytes_of(size):
    return int(size[:-3]) << {"M": 20, "G": 30}[size[-3]]


def unequal(e):
    s = e.sizes
    n, devices = s.fits, s.on[-1]
    e.page.heading("Unequal devices")
    e.page.text(f"dgemm of order {n} on {devices} devices, of which one takes longer for kernels than the library knows, by a factor "
                "(`SEMCACHE_SIM=slow=0:`). *In a window*: three tasks are queued ahead of each device (`SEMCACHE_WINDOW=3`), not all at "
                "once. *Ideal*: the time of one device that computes as fast as all together.")
    whole = e.runs.get(1, f"dgemm {n} 1").seconds
    found = {way: [e.runs.get(devices, f"dgemm {n} 1", sim=f"slow=0:{f}", **how).seconds for f in SLOWER] for way, how in s.ways.items()}
    found["without the slow one"] = [e.runs.get(devices - 1, f"dgemm {n} 1").seconds] * len(SLOWER)
    found["ideal"] = [whole / (devices - 1 + 1 / f) for f in SLOWER]
    styles = {"ideal": {"line": ":", "marker": "", "colour": 6}}
    series = [(way, list(zip(SLOWER, times)), styles.get(way, {})) for way, times in found.items()]
    e.page.plot("slow", "time by how slow one device is", "curves", [(f"dgemm, order {n}, {devices} devices", series)], "times as slow",
                "seconds", ticks=SLOWER, zero=True, height=3.8)
    e.page.table(["", *(f"{f} times" for f in SLOWER)], [[way, *map(seconds, times)] for way, times in found.items()])
    e.page.text(f"dgemm of order {n // 2} on Makalu of BLASX, two K40 and two TITAN X whose double precision is a seventh of theirs, which "
                "the library knows:")
    rows = []
    for title, machine, how in [(p, "makalu", {"scheduler": p}) for p in POLICIES] + [("planned, on the K40 alone", "makalu:2", {})]:
        r = e.runs.get(machine, f"dgemm {n // 2} 1", **how)
        rows.append([title, seconds(r.seconds), ", ".join(str(d.tasks) for d in r.devices), gb(r.h2d), gb(r.p2p)])
    e.page.table(["", "time", "tasks of each", "GB from the host", "GB from devices"], rows)


def links(e):
    s = e.sizes
    e.page.heading("Links of other rates")
    e.page.text(f"Order {s.fits}, data at the host, all links of the devices at the same rate (`SEMCACHE_SIM=link=`):")
    parts, rows = [], []
    for d in s.on:
        found = {r: [(link, e.runs.get(d, f"{r} {s.fits} 1", sim=f"link={link}")) for link in s.links] for r in THREE}
        parts.append((f"{d} device" + "s" * (d > 1), [(r, [(link, x.seconds) for link, x in some], {}) for r, some in found.items()]))
        rows += [[str(d), r, *(seconds(x.seconds) for _, x in some)] for r, some in found.items()]
        rows += [[str(d), f"{r}, GB moved", *(gb(x.h2d + x.p2p + x.d2h) for _, x in some)] for r, some in found.items()]
    e.page.plot("links", "time by the rate of the links", "curves", parts, "GB/s", "seconds", log=(True, True), ticks=s.links, share=True)
    e.page.table(["devices", "", *(f"{link} GB/s" for link in s.links)], rows)


def write(page, runs, _paper):
    e = Experiment(page, runs)
    scaling(e)
    memory(e)
    unequal(e)
    links(e)
