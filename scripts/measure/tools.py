"""What the parts of scripts/bench share: repeats, rows, and the benches of the crates."""

import os
import re
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TAUT = os.path.join(ROOT, os.environ.get("CARGO_TARGET_DIR") or "target", "release/taut")
REPEATS = 1 if "--quick" in sys.argv else 3

rows = []  # (what, compared with, measured, ratio or share, target, verdict)


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def spread(values, digits=2):
    """The median and, where there are several, the range."""
    middle = f"{statistics.median(values):.{digits}f}"
    if len(values) == 1:
        return middle
    return f"{middle} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def row(what, floor, measured, ratio, target, met):
    verdict = "" if met is None else "met" if met else "**missed**"
    rows.append((what, floor, measured, ratio, target, verdict))


def cargo_bench(package, bench, *arguments):
    command = ["cargo", "bench", "--locked", "-q", "-p", package, "--bench", bench, "--", *arguments]
    run = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if run.returncode != 0:
        sys.exit(f"bench: `{' '.join(command)}` failed; its message is above")
    return run.stdout


NANOS = {"ps": 1e-3, "ns": 1.0, "µs": 1e3, "ms": 1e6}


def divan_cases(package, bench):
    """Medians of a bench's cases, by group and name, in nanoseconds; one of each repeat."""
    cases = {}
    for _ in range(REPEATS):
        group = ""
        for line in cargo_bench(package, bench).splitlines():
            head = re.match(r"[├╰]─ (\w+)", line)
            group = head.group(1) if head else group
            case = re.match(r"[│ ]  [├╰]─ (.+?)  +\S+ \S+ +│ \S+ \S+ +│ (\S+) (\S+) ", line)
            if case:
                name, value, unit = case.groups()
                cases.setdefault((group, name), []).append(float(value) * NANOS[unit])
    return cases
