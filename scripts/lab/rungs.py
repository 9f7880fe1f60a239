"""Intervals of packets of class A in each pacing mode, compared with a bare loop: tables of docs/performance.md."""

import json
import statistics

from lab import guest
from lab.pacing import QUEUES, arrivals, intervals, looping, queue

DUE = 125_000
# The software timer of December 2018 (docs/internals/pacing.md): a thread without priority that sleeps.
TIMER = ("sleep", "--scheduler", "other")
# Periods in frames: 8 and 40 packets each.
SHORT, LONG = 48, 240
PARTS = (("p0.1", 0.001), ("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999))
WITHIN = (0.1, 0.25, 0.5, 1, 2, 5, 10, 50)
HEAD = ["packets", "period", "mode", "mean", "stdev", "min", "max", "range", *(name for name, _ in PARTS), "p99.9 - p0.1"]
SHARES = ["packets", "period", "mode", *(f"within {within} us" for within in WITHIN)]


def figures(apart):
    apart = sorted(apart)
    at = [apart[min(int(len(apart) * part), len(apart) - 1)] for _, part in PARTS]
    return [f"{statistics.fmean(apart):.1f}", f"{statistics.pstdev(apart):.0f}",
            *map(str, (apart[0], apart[-1], apart[-1] - apart[0], *at, at[3] - at[0]))]


def shares(apart):
    """Per cent of the intervals within each distance."""
    off = [abs(one - DUE) for one in apart]
    return [f"{sum(one <= within * 1000 for one in off) * 100 / len(off):.3f}" for within in WITHIN]


def measured(seconds):
    """The intervals of each case, in turn."""
    def ours(period, pacing, *more):
        return intervals(arrivals(pacing, "--period", str(period), *more, seconds=seconds))

    def loop(period, pacing):
        return intervals(looping(pacing, period, seconds))

    with guest.network():
        yield SHORT, "`batch`", ours(SHORT, "batch")
        yield SHORT, "`sleep` without priority", ours(SHORT, *TIMER)
        yield SHORT, "`sleep`", ours(SHORT, "sleep")
        yield SHORT, "`sleep`, bare loop", loop(SHORT, "sleep")
        yield LONG, "`batch`", ours(LONG, "batch")
    for rung in QUEUES:
        with queue(rung):
            for period in (SHORT, LONG):
                yield period, f"`{rung}`", ours(period, rung)
                yield period, f"`{rung}`, bare loop", loop(period, rung)


def tell(seconds):
    """Prints one line of JSON for each case."""
    for period, by, apart in measured(int(seconds)):
        case = [str(len(apart) + 1), str(period), by]
        print(json.dumps([case + figures(apart), case + shares(apart)]), flush=True)
