"""The least latency that loses nothing, for periods of 48, 32 and 16 frames: a table."""

import sys

from lab.guest import OTHER, Shape, chain, exact, round_trip
from lab.judge import Wrong, expect, figure, nothing_lost, whole

LOW_DELAY = ("--resampler", "low-delay")
# The way of the sound, frames per period and packet, the ptime, more options of recv.
RUNGS = [
    ("one way", 48, "1ms", ()), ("one way", 32, "667us", ()), ("one way", 16, "334us", ()),
    ("round", 32, "667us", LOW_DELAY), ("round", 16, "334us", LOW_DELAY),
]
STEP_US = 50
TRY, CONFIRM = 10, 60


def climb(periods):
    """From one step less than taut grants, which is the packing age and two periods, until nothing is lost."""
    print("| way | period | ptime | recv | least --latency | measured there | CPU |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for way, period, ptime, options in RUNGS:
        if periods and str(period) not in periods and way not in periods:
            continue
        with exact(period, *[OTHER] * (way == "round")):
            latency_us, row, reports = least(Rung(way, period, ptime, options))
        cpu = [f"{role} {100 * report['host']['cpu_ns'] / report['duration_ns']:.0f} %"
               for role, report in reports.items()]
        print(f"| {way} | {period} | {ptime} | {' '.join(options)} | {latency_us / 1000:.2f} ms"
              f" | {figure(row)} | {', '.join(cpu)} |", flush=True)
    return 0


class Rung:
    def __init__(self, way, period, ptime, options):
        self.carry, self.ways = (round_trip, 2) if way == "round" else (chain, 1)
        self.name = f"{way}, {period} frames"
        self.period, self.ptime, self.options = period, ptime, options

    def try_at(self, latency_us, seconds):
        """The row and the reports, and whether all of it was whole."""
        shape = Shape(self.period, self.ptime, f"{latency_us}us", recv=self.options)
        row, reports, *_ = self.carry(shape, seconds)
        wrong = whole(row) or nothing_lost(reports) + expect(row, self.ways * latency_us * 1000)
        print(f"{self.name}, {latency_us} us, {seconds} s: {', '.join(wrong) or 'whole'}, {figure(row)}",
              file=sys.stderr, flush=True)
        return row, reports, not wrong


def least(rung):
    latency = 3 * rung.period * 1000 // 48 - STEP_US
    while latency < 5000:
        if rung.try_at(latency, TRY)[2]:
            row, reports, good = rung.try_at(latency, CONFIRM)
            if good:
                return latency, row, reports
        latency += STEP_US
    raise Wrong(f"{rung.name}: something is lost even at 5 ms")
