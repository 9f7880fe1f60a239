"""How regularly packets arrive by each rung of the pacing ladder, in the lab guest (scripts/lab/rungs.py)."""

import json
import subprocess
import sys

from measure.tools import REPEATS, ROOT, TAUT, say

sys.path.insert(0, f"{ROOT}/scripts")
from lab.rungs import HEAD, SHARES  # noqa: E402

# A second in the guest takes two to four here.
SECONDS = 3 if REPEATS == 1 else 60


def rungs():
    say(f"each rung of the pacing ladder for {SECONDS} s, in the lab guest")
    run = subprocess.run(["scripts/lab-vm", "--quiet", "--timeout", "14400", "--", "python3", "scripts/lab-scenarios", TAUT,
                          "rungs", str(SECONDS)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    lines = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("[[")]
    if run.returncode != 0 or not lines:
        return say("there is no guest here, or it failed; its message is above")
    return tables(lines)


def tables(lines):
    """With how many times the loop's deviation and spread those of a rung are, which comes before it."""
    figures = [line for line, _ in lines]
    ratios = [times(ours, loop) if loop and "bare loop" in loop[2] else ["", ""]
              for ours, loop in zip(figures, [*figures[1:], None])]
    return [[[*HEAD, "stdev ÷ the loop's", "spread ÷ the loop's"], *(line + ratio for line, ratio in zip(figures, ratios))],
            [SHARES, *(shares for _, shares in lines)]]


def times(ours, loop):
    return [f"{float(ours[at]) / float(loop[at]):.2f}" for at in (HEAD.index("stdev"), HEAD.index("p99.9 - p0.1"))]
