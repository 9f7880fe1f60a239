"""The minimum latency without loss, for periods of 48, 32 and 16 frames, as a table."""

import sys

from lab.guest import Shape, chain, exact
from lab.judge import Wrong, expect, figure, nothing_lost, whole

# Frames per period and packet, the ptime, more options of recv.
RUNGS = [(48, "1ms", ()), (32, "667us", ()), (16, "334us", ()), (16, "334us", ("--resampler", "low-delay"))]
STEP_US = 100
TRY, CONFIRM = 10, 60
MOST_US = 5000


def climb(periods):
    """Raises the latency until nothing is lost. Begins one step below the minimum of taut: packing age and two periods."""
    print("| period | ptime | recv | min --latency | measured | CPU |")
    print("|---|---|---|---|---|---|", flush=True)
    failed = 0
    for period, ptime, options in RUNGS:
        if periods and str(period) not in periods:
            continue
        try:
            with exact(period):
                latency_us, row, reports = least(period, ptime, options)
        except Wrong as error:
            failed = 1
            print(f"| {period} | {ptime} | {' '.join(options)} | {error} |", flush=True)
            continue
        cpu = [f"{role} {100 * report['host']['cpu_ns'] / report['duration_ns']:.0f} %"
               for role, report in reports.items()]
        print(f"| {period} | {ptime} | {' '.join(options)} | {latency_us / 1000:.2f} ms | {figure(row)}"
              f" | {', '.join(cpu)} |", flush=True)
    return failed


def attempt(shape, latency_us, seconds):
    """The row, the reports, and whether the run passed."""
    row, reports = chain(shape, seconds)
    wrong = whole(row) or nothing_lost(reports) + expect(row, latency_us * 1000)
    print(f"{shape.period} frames, {latency_us} us, {seconds} s: {', '.join(wrong) or 'whole'}, {figure(row)}",
          file=sys.stderr, flush=True)
    return row, reports, not wrong


def least(period, ptime, options):
    for latency_us in range(3 * period * 1000 // 48 - STEP_US, MOST_US, STEP_US):
        shape = Shape(period, ptime, f"{latency_us}us", recv=options)
        if attempt(shape, latency_us, TRY)[2]:
            row, reports, good = attempt(shape, latency_us, CONFIRM)
            if good:
                return latency_us, row, reports
    raise Wrong(f"packets are lost even at {MOST_US} us")
