#!/usr/bin/env python3
"""Counts code: lines that are neither blank, nor comment, nor test, over all crates, their build scripts and data tables.

    scripts/count.py [--functions N] [REVISION]

Prints a line per folder and the total, of the working tree or of a revision; with --functions, also each function of more
than N lines. Tests are the folders tests/ and benches/, files of the name tests.rs, what `#[cfg(test)]` stands before, and
testkit/ but for its oracle, which the doctor uses, too.
"""

import argparse
import collections
import os
import re
import subprocess

CRATES = ("libsemcache/", "blas-shim/", "api/", "cli/", "standin/", "fuzz/", "testkit/", "glibc-versions/")
STRING = re.compile(r'[bc]?r(#*)".*?"\1|[bc]?"(?:\\.|[^"\\])*"|b?\'(?:\\.[^\']*|[^\'\\])\'', re.S)


def is_test(path):
    parts = path.split("/")
    if parts[0] == "testkit" and parts[-1] != "oracle.rs":
        return True
    return "tests" in parts or "benches" in parts or parts[-1] == "tests.rs"


def without_comments(text):
    """The text with comments and the contents of strings gone, lines kept."""
    out, at = [], 0
    while at < len(text):
        if text.startswith("//", at):
            at = text.find("\n", at)
            if at < 0:
                break
        elif text.startswith("/*", at):
            depth, end = 1, at + 2
            while depth and end < len(text):
                if text.startswith("/*", end):
                    depth, end = depth + 1, end + 2
                elif text.startswith("*/", end):
                    depth, end = depth - 1, end + 2
                else:
                    end += 1
            out.append("\n" * text.count("\n", at, end))
            at = end
        elif text[at] in "\"'bcr" and (found := STRING.match(text, at)) and (at == 0 or not (text[at - 1].isalnum() or text[at - 1] == "_")):
            lines = found.group().split("\n")
            out.append("\n".join('""' if line.strip() or len(lines) == 1 else "" for line in lines))
            at = found.end()
        else:
            out.append(text[at])
            at += 1
    return "".join(out)


def end_of_item(text, at):
    """Where the item ends that begins at `at`: behind its braces, or behind a semicolon."""
    depth = 0
    while at < len(text):
        if text[at] in "([{":
            depth += 1
        elif text[at] in ")]}":
            depth -= 1
            if depth == 0 and text[at] == "}":
                return at + 1
        elif text[at] == ";" and depth == 0:
            return at + 1
        at += 1
    return at


def without_tests(text):
    while found := re.search(r"#\[cfg\(test\)\]\s*", text):
        end = end_of_item(text, found.end())
        text = text[: found.start()] + "\n" * text.count("\n", found.start(), end) + text[end:]
    return text


def test_modules(path, text):
    """How the paths of modules begin that are tests in files of their own."""
    folder, name = os.path.split(path)
    inside = folder if name in ("lib.rs", "main.rs", "mod.rs") else path.removesuffix(".rs")
    for found in re.finditer(r"#\[cfg\(test\)\]\s*mod (\w+);", text):
        yield f"{inside}/{found.group(1)}.rs"
        yield f"{inside}/{found.group(1)}/"


def functions(text):
    """Name, first line and lines of each function."""
    for found in re.finditer(r"\bfn (\w+)", text):
        end = end_of_item(text, found.end())
        first = text.count("\n", 0, found.start())
        yield found.group(1), first + 1, text.count("\n", 0, end) - first + 1


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].strip())
    parser.add_argument("revision", nargs="?")
    parser.add_argument("--functions", type=int, metavar="N")
    options = parser.parse_args()
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    git = lambda *words: subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout
    if options.revision:
        files = git("ls-tree", "-r", "--name-only", options.revision).split("\n")
        read = lambda path: git("show", f"{options.revision}:{path}")
    else:
        files = [f for f in git("ls-files", "-co", "--exclude-standard").split("\n") if os.path.isfile(f)]
        read = lambda path: open(path, encoding="utf-8").read()
    folders, long = collections.Counter(), []
    files = [f for f in files if f.startswith(CRATES) and not is_test(f) and f.endswith((".rs", ".txt"))]
    sources = {f: without_comments(read(f)) for f in files if f.endswith(".rs")}
    tests = tuple(module for f, text in sources.items() for module in test_modules(f, text))
    for path in files:
        if path.startswith(tests):
            continue
        if path in sources:
            text = without_tests(sources[path])
            count = sum(bool(line.strip()) for line in text.split("\n"))
            long += [(lines, f"{path}:{first} {name}") for name, first, lines in functions(text)]
        else:
            count = sum(bool(line.strip()) and not line.startswith("#") for line in read(path).split("\n"))
        folders[os.path.dirname(path)] += count
    for folder, count in sorted(folders.items()):
        print(f"{count:7} {folder}")
    print(f"{sum(folders.values()):7} total")
    for lines, name in sorted(long, reverse=True):
        if options.functions and lines > options.functions:
            print(f"{lines:7} lines: {name}")


if __name__ == "__main__":
    main()
