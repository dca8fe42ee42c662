#!/usr/bin/env python3
"""What commands print as JSON, and reports, against the schemas, which are for users.

schemas.py COMMAND SCHEMAS REPORTS    COMMAND: semcache; SCHEMAS: docs/schema; REPORTS: a folder with reports of schemas.sh"""

import copy
import json
import math
import os
import pathlib
import re
import subprocess
import sys

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

COMMAND, SCHEMAS, REPORTS = (pathlib.Path(word) for word in sys.argv[1:])
GONE = object()


def check(holds, *what):
    if not holds:
        raise SystemExit("schemas.py: " + " ".join(map(str, what)))


def equal(got, wanted, *what):
    check(got == wanted, *what, f"is {got!r}, not {wanted!r}")


def run(*arguments, **variables):
    """Runs the command without the user's settings, on one thread of the host BLAS."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SEMCACHE_") and name != "LD_PRELOAD"}
    environment = {**kept, "OPENBLAS_NUM_THREADS": "1", **variables}
    return subprocess.run([COMMAND, *arguments], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)


def parsed(text, *what):
    """JSON that names no key twice, with numbers that JSON has."""

    def members(pairs):
        keys = [key for key, _ in pairs]
        check(len(set(keys)) == len(keys), *what, "names a key twice:", keys)
        return dict(pairs)

    try:
        return json.loads(text, object_pairs_hook=members, parse_constant=lambda word: check(False, *what, "has the number", word))
    except ValueError as error:
        check(False, *what, "is no JSON:", error, text[:1000])


def printed(*arguments, **variables):
    """The JSON that the command prints, and nothing else; and what it prints without `--json`, with the same status and stderr."""
    plain = run(*arguments, **variables)
    output = run(*arguments, "--json", **variables)
    equal(output.returncode, plain.returncode, "the status of", *arguments)
    equal(output.stderr, plain.stderr, "stderr of", *arguments)
    return parsed(output.stdout, *arguments), plain


def alike(one, other):
    """Whether two documents are the same; numbers that are not whole may differ in their last digits."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    return math.isclose(one, other) if isinstance(one, float) and isinstance(other, float) else one == other


def squeezed(text):
    """A text with one space between words, as a table and its cells have them alike."""
    return " ".join(text.split())


def problem(validator, document):
    """Why a document is refused; `None` if it is accepted. Of several reasons the deepest: those above follow from it."""
    errors = sorted(validator.iter_errors(document), key=lambda error: len(error.absolute_path))
    error = best_match(errors[-1:])
    return error and f"{error.json_path}: {error.message[:500]}"


class Schema:
    """A schema of docs/schema. It is open to keys that are added later; here it is closed, so that each key must be in it."""

    def __init__(self, command):
        self.name = f"docs/schema/{command}.schema.json"
        self.documents = []
        self.root = parsed((SCHEMAS / f"{command}.schema.json").read_text(), self.name)
        wrong = problem(Draft202012Validator(Draft202012Validator.META_SCHEMA), self.root)
        check(not wrong, self.name, "is no schema:", wrong)
        self.open = Draft202012Validator(copy.deepcopy(self.root))
        self.close(self.root)
        self.validator = Draft202012Validator(self.root)

    def close(self, schema):
        """Forbids all keys of objects that their schema does not list, and checks that each that it lists is described."""
        if isinstance(schema, dict):
            # Without either the keys are those of a condition.
            if "type" in schema or "required" in schema:
                for key, of in schema.get("properties", {}).items():
                    check("description" in of, self.name, "says nothing of", key)
            if "type" in schema and ("properties" in schema or "allOf" in schema):
                # As `additionalProperties`, but keys that `allOf` lists count.
                schema["unevaluatedProperties"] = False
        for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else []:
            self.close(part)

    def accepts(self, document, *what):
        wrong = problem(self.validator, document)
        check(not wrong, *(what or ["what is printed"]), f"does not follow {self.name}:", wrong)
        self.documents.append(document)

    def refuses_altered(self, document, altered):
        """Each of these documents, which differ from an accepted one in a key or a value, is refused; `more` is a key of a later version,
        which the schema as it is accepts."""
        self.accepts(document)
        for pointer, value in altered + [(f"/{key}", GONE) for key in document] + [("/more", 1)]:
            other = at = copy.deepcopy(document)
            *path, key = (int(step) if step.isdigit() else step for step in pointer.split("/")[1:])
            for step in path:
                at = at[step]
            check(key == "more" or key in (at if isinstance(at, dict) else range(len(at))), "nothing to alter at", pointer)
            if value is GONE:
                del at[key]
            else:
                at[key] = value
            what = "is gone" if value is GONE else f"is {value!r}"
            check(problem(self.validator, other), f"{self.name} accepts a document in which {pointer} {what}")
            wrong = key == "more" and problem(self.open, other)
            check(not wrong, f"{self.name} refuses a document with the new key {pointer}: {wrong}")

    def parts(self, schema):
        """A schema, and those that it refers to for the same value."""
        yield schema
        if "$ref" in schema:
            yield from self.parts(self.root["$defs"][schema["$ref"].removeprefix("#/$defs/")])
        for part in schema.get("allOf", []) + schema.get("anyOf", []):
            yield from self.parts(part)

    def keys(self, schema=None, values=None, path=""):
        """Each key that is listed: its path, its schema, and its values in the documents that were accepted."""
        schema, values = schema or self.root, self.documents if values is None else values
        objects = [value for value in values if isinstance(value, dict)]
        for part in self.parts(schema):
            for key, of in part.get("properties", {}).items():
                there = [value[key] for value in objects if key in value]
                yield path + key, of, there
                yield from self.keys(of, there, f"{path}{key}.")
            if "additionalProperties" in part:
                yield from self.keys(part["additionalProperties"], [of for value in objects for of in value.values()], f"{path}*.")
            if "items" in part:
                yield from self.keys(part["items"], [of for value in values if isinstance(value, list) for of in value], f"{path}*.")

    def is_used(self):
        """Each key that is listed was in a document: where several places refer to one list, in one of them."""
        unused = {}
        for path, of, values in self.keys():
            unused.setdefault(id(of), [path]).extend(values)
        paths = [path for path, *values in unused.values() if not values]
        check(not paths, f"{self.name} lists keys that no document has:", *paths)


def doctor():
    schema = Schema("doctor")
    found, _ = printed("doctor")
    altered = [
        ("/version", 2),
        ("/works", "yes"),
        ("/findings", []),
        ("/findings/0/ok", None),
        ("/findings/0/advice", 1),
        ("/findings/0", {"ok": True}),
    ]
    schema.refuses_altered(found, altered)
    # A library that is not there is told with advice, and by the exit status. No GPU is visible: what is timed as it comes up
    # differs from run to run.
    found, shown = printed("doctor", SEMCACHE_LIB="/nowhere", SEMCACHE_HOST_BLAS="/nowhere", CUDA_VISIBLE_DEVICES="")
    equal(shown.returncode, 1, "the status without a library")
    schema.accepts(found)
    equal(found["works"], False, "works")
    library = found["findings"][0]
    equal((library["what"], library["ok"]), ("library", False), "the first finding")
    equal(library["advice"], "build it: cargo build --release", "the advice")
    # The text says the same.
    rows = ""
    for finding in found["findings"]:
        equal(finding["ok"], finding["advice"] is None, "ok, beside advice,")
        rows += f"{'ok' if finding['ok'] else 'warn'} {finding['what']} {finding['found']} "
        rows += f"-> {finding['advice']} " if finding["advice"] else ""
    equal(squeezed(shown.stdout), squeezed(rows), "the text of doctor")
    schema.is_used()


def env():
    schema = Schema("env")
    found, shown = printed("env", SEMCACHE_TILE="5\n12", SEMCACHE_LIB="/nowhere")
    altered = [
        ("/version", "1"),
        ("/variables/0/name", "PATH"),
        ("/variables/0/value", 5),
        ("/presets/0/title", None),
        ("/presets/0", "dgx1"),
    ]
    schema.refuses_altered(found, altered)
    values = {variable["name"]: variable["value"] for variable in found["variables"]}
    for name, value in ("SEMCACHE_TILE", "5\n12"), ("SEMCACHE_LIB", "/nowhere"), ("SEMCACHE_DEVICES", None):
        equal(values[name], value, name)
    # The text says the same.
    for variable in found["variables"]:
        for key in "name", "doc", "values", "default":
            check(variable[key] in shown.stdout, "the text of env lacks", variable[key])
    # Each preset is a machine that devices can be had of.
    for preset in found["presets"]:
        check(preset["title"] in shown.stdout, "the text of env lacks", preset["title"])
        equal(run("machine", "--devices", f"sim:{preset['name']}").returncode, 0, "the status of the preset", preset["name"])
    schema.is_used()


def machine():
    schema = Schema("machine")
    found, shown = printed("machine", "--devices", "none")
    altered = [
        ("/version", 0),
        ("/devices", None),
        ("/figures/0/values", []),
        ("/figures/0/values/0", "55 GB/s"),
        ("/figures/0/unit", "GB/s"),
        ("/figures/0/model", 0),
    ]
    schema.refuses_altered(found, altered)
    equal(found["devices"], "no devices are wanted (SEMCACHE_DEVICES)", "devices")
    # The text has the same lines and figures.
    first, *lines = shown.stdout.splitlines()
    equal(first, found["devices"], "the first line")
    equal(len(lines), len(found["figures"]), "the number of lines")
    for line, figure in zip(lines, found["figures"]):
        check(line.startswith(figure["key"]) and line.endswith(figure["source"]), line, "is not the figure", figure)
    path = REPORTS / "rates.toml"
    path.write_text("version = 1\nh2d_all = [5e10]\n")
    found, _ = printed("machine", "--devices", "sim:dgx1", path)
    schema.accepts(found)
    figure = found["figures"][0]
    equal((figure["key"], figure["unit"]), ("h2d_all", "B/s"), "the first figure")
    equal((figure["values"][0], figure["source"]), (5e10, str(path)), "the figure of a file")
    found, _ = printed("machine", "--devices", "sim:2", SEMCACHE_RATES="off")
    schema.accepts(found)
    equal(found["file"], "no file of rates is wanted (SEMCACHE_RATES)", "file")
    # What is refused is a line on stderr, and stdout is empty.
    names = "SEMCACHE_DEVICES=sim:foo names no machine that can be simulated; the presets are dgx1, "
    for devices, line in ("foo", "SEMCACHE_DEVICES=foo is not one of auto, none, cuda"), ("sim:foo", names):
        output = run("machine", "--json", "--devices", devices)
        check(output.stderr.startswith(f"semcache: {line}") and output.stderr.count("\n") == 1, "stderr is", output.stderr)
        equal((output.returncode, output.stdout), (125, ""), "status and stdout with --devices", devices)
    schema.is_used()


def predict():
    schema = Schema("predict")
    found, _ = printed(*"predict dgemm 16384 16384 16384 --machine h200x8 --devices 2".split())
    altered = [
        ("/version", 2),
        ("/sizes/0", 1.5),
        ("/to", "nowhere"),
        ("/decision", {"on": "host"}),
        ("/host_s", "17 s"),
        ("/host_s", -1),
        ("/devices", {}),
        ("/devices/bound", "luck"),
        ("/devices/busy/0/what", "luck"),
        ("/devices/predictors/0/pieces", 0.5),
        ("/devices/timeline/operations/0/lane", "luck"),
        ("/devices/timeline/operations/0/start_s", None),
    ]
    schema.refuses_altered(found, altered)
    for arguments in (
        "daxpy 100",
        "dgemv 2000 1000 --machine h200",
        "dsyrk 8192 4096 --machine everest --from a=device,c=host --to device",
        "strsm 8000 3000 --side right --machine makalu",
        # Devices have no room for it.
        "zgemm 20000 20000 20000 --machine kepler --memory 1MiB",
    ):
        found, _ = printed("predict", *arguments.split())
        schema.accepts(found, "predict", arguments)
    schema.is_used()


def documented():
    """What `report --keys` says of each name, by the title of its table."""
    tables = re.split(r"^## (.*)$", run("report", "--keys").stdout, flags=re.MULTILINE)[1:]
    rows = (re.findall(r"^\| `(.*?)` \| (.*) \|$", table, re.MULTILINE) for table in tables[1::2])
    return dict(zip(tables[::2], map(dict, rows)))


def report():
    schema = Schema("report")

    def read(*names):
        """A report's file, and the same by the command; of several files their sum, by the command."""
        paths = [REPORTS / name for name in names]
        found, _ = printed("report", *paths)
        schema.accepts(found, "report --json", *names)
        files = [parsed(path.read_text(), path) for path in paths]
        for document, path in zip(files, paths):
            schema.accepts(document, path)
            lost = [process for process in document["processes"] if not any(alike(process, other) for other in found["processes"])]
            check(not lost, "report --json lacks processes of", path, *lost)
        return found, *files

    found, file = read("faults.json")
    check(alike(found, file), "report --json prints of one process", found, "and its file has", file)
    altered = [
        ("/version", 2),
        ("/version", "3"),
        ("/node", None),
        ("/refused", -1),
        ("/fallbacks", "0"),
        ("/bytes/h2d", "1 MB"),
        ("/bytes/h2d", 0.5),
        ("/bytes/saved", None),
        ("/faults/p50_us", "1 us"),
        ("/degraded", {"mpi": 1}),
        ("/devices/0/kind", "tpu"),
        ("/devices/0/left_out", {"slower": "often"}),
        ("/calls/dgemm", 30),
        ("/calls/dgemm/offloaded", "30"),
        ("/calls/dgemm/why_host", ["small"]),
        ("/calls/dgemm/why_host", {"small": 0}),
        ("/time/blas_s", -1),
        ("/time/routines/dgemm/kernels_s", "1 s"),
        ("/sites/0/offset", "0x10"),
        ("/sites/0/does", None),
        ("/matrices/0/rows", 0.5),
        ("/matrices/0/first", "main"),
        ("/processes/0/pid", "1"),
        ("/processes/0/ended", 1),
        ("/processes/0/processes", 0),
        ("/processes/0/bytes/h2d", "1 MB"),
    ]
    # Every object in it, the first of each list: without a key that it must have, and with another one.
    for path in (
        "/bytes/h2d /faults/p99_us /cache/closes /window/left /gate/scans /host/pinned /virtual_time/ns /sampled/kernels /devices/0/p2p"
        " /calls/dgemm/why_host /time/wall_s /time/untimed_calls /time/routines/dgemm/host_s /sites/0/object /sites/0/does"
        " /matrices/0/first /matrices/0/first/offset /processes/0/parent /processes/0/calls /processes/0/sites/0/seconds"
    ).split():
        altered += [(path, GONE), (path.rpartition("/")[0] + "/more", 1)]
    schema.refuses_altered(found, altered)

    found, _ = read("none.json")
    equal((found["calls"], found["processes"], found["sites"], found["matrices"]), ({}, [], [], []), "a run without BLAS calls")
    found, _ = read("fork.json")
    equal(len(found["processes"]), 2, "the processes of a fork")
    equal(found["calls"]["dgemm"], {"offloaded": 5, "host": 7, "why_host": {"forked": 7}}, "the calls of a fork")
    found, first, second = read("first.json", "second.json")
    equal([len(part["processes"]) for part in (found, first, second)], [2, 1, 1], "the processes of a sum")
    equal(found["calls"]["dgemm"]["offloaded"], 12, "the calls of a sum")
    equal(found["bytes"]["h2d"], first["bytes"]["h2d"] + second["bytes"]["h2d"], "the bytes of a sum")
    for name in "places.json", "rank.json", "never.json", "shares.json":
        if (REPORTS / name).exists():
            read(name)
    schema.is_used()

    # What it says of numbers is what `report --keys` says, and all names in reports are explained there.
    tables = documented()
    listed = {path: of for path, of, _ in schema.keys()}
    for name, meaning in tables["Numbers"].items():
        check(name in listed, schema.name, "lacks", name)
        equal(listed[name]["description"], meaning.replace("`", ""), f"what {schema.name} says of {name}")
    for path, of in listed.items():
        number = of.get("type") in ("integer", "number") and "*" not in path
        check(not number or path in tables["Numbers"] or path == "refused", "report --keys does not explain", path)
    for path, _, values in schema.keys():
        key = path.rpartition(".")[2]
        table = {"why_host": "Reasons in `why_host`", "left_out": "Reasons in `left_out`", "degraded": "Features in `degraded`"}.get(key)
        unknown = {name for value in values for name in value} - tables[table].keys() if table else ()
        check(not unknown, "report --keys does not explain", path, *unknown)


for test in doctor, env, machine, predict, report:
    test()
    print(f"  {test.__name__}", flush=True)
