"""Packet intervals in each pacing mode, in the lab guest (scripts/lab/rungs.py)."""

import json
import subprocess
import sys

from measure.tools import REPEATS, ROOT, TAUT, say

sys.path.insert(0, f"{ROOT}/scripts")
from lab.rungs import HEAD, SHARES  # noqa: E402

# A second in the guest takes two to four seconds.
SECONDS = 3 if REPEATS == 1 else 60


def rungs():
    say(f"each pacing mode for {SECONDS} s, in the lab guest")
    run = subprocess.run(["scripts/lab-vm", "--quiet", "--timeout", "14400", "--", "python3", "scripts/lab-scenarios", TAUT,
                          "rungs", str(SECONDS)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    lines = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("[[")]
    if run.returncode != 0 or not lines:
        return say("the lab guest is not available or failed; see its message above")
    return tables(lines)


def tables(lines):
    """Both tables. Each pacing mode comes before its bare loop and gets the ratios to it."""
    figures = [line for line, _ in lines]
    ratios = [times(ours, loop) if loop and "bare loop" in loop[2] else ["", ""]
              for ours, loop in zip(figures, [*figures[1:], None])]
    return [[[*HEAD, "stdev ÷ bare loop", "p99.9 - p0.1 ÷ bare loop"], *(line + ratio for line, ratio in zip(figures, ratios))],
            [SHARES, *(shares for _, shares in lines)]]


def times(ours, loop):
    return [f"{float(ours[at]) / float(loop[at]):.2f}" for at in (HEAD.index("stdev"), HEAD.index("p99.9 - p0.1"))]
