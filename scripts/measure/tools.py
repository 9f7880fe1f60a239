"""Shared by the parts of scripts/bench: repeats, tables, and running programs of the crates."""

import os
import re
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TAUT = os.path.join(ROOT, os.environ.get("CARGO_TARGET_DIR") or "target", "dist/taut")
REPEATS = 1 if "--quick" in sys.argv else 3


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def spread(values, digits=2):
    """The median, and the range of several values."""
    middle = f"{statistics.median(values):.{digits}f}"
    if len(values) == 1:
        return middle
    return f"{middle} ({min(values):.{digits}f}–{max(values):.{digits}f})"


class Rows:
    """A table in the form that is stored, with one shape for most parts."""

    HEAD = ["what", "compared with", "measured", "ratio", "target", ""]

    def __init__(self):
        self.lines = []

    def add(self, what, floor, measured, ratio="", target="", met=None):
        verdict = "" if met is None else "met" if met else "**missed**"
        self.lines.append([what, floor, measured, ratio, target, verdict])

    def table(self):
        return [self.HEAD, *self.lines]


def printed_tables(text):
    """The Markdown tables in the output of a program, each a list of lines of cells."""
    tables, inside = [], False
    for line in text.splitlines():
        if "|" not in line:
            inside = False
            continue
        cells = [cell.strip() for cell in line[line.index("|"):].strip().strip("|").split("|")]
        if not inside:
            tables.append([])
        inside = True
        if not all(re.fullmatch(r":?-+:?", cell) for cell in cells):
            tables[-1].append(cells)
    return tables


def output(*command):
    """The output of a command in the tree. Exits if the command fails."""
    run = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if run.returncode != 0:
        sys.exit(f"bench: `{' '.join(command)}` failed; its message is above")
    return run.stdout


def example(package, name, *arguments):
    return output("cargo", "run", "--locked", "-q", "--profile", "dist", "-p", package, "--example", name, "--", *arguments)


def cargo_bench(package, bench, *arguments):
    return output("cargo", "bench", "--locked", "-q", "-p", package, "--bench", bench, "--", *arguments)


NANOS = {"ps": 1e-3, "ns": 1.0, "µs": 1e3, "ms": 1e6}


def divan_cases(package, bench):
    """Medians of the cases of a bench, by group and name, in nanoseconds; one for each repeat."""
    cases = {}
    for _ in range(REPEATS):
        group = ""
        for line in cargo_bench(package, bench).splitlines():
            head = re.match(r"[├╰]─ (\w+)", line)
            group = head.group(1) if head else group
            case = re.match(r"(?:[│ ]  )?[├╰]─ (.+?)  +\S+ \S+ +│ \S+ \S+ +│ (\S+) (\S+) ", line)
            if case:
                name, value, unit = case.groups()
                cases.setdefault((group, name), []).append(float(value) * NANOS[unit])
    return cases
