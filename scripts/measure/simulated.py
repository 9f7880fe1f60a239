"""Parts with the same result in each run: networks in simulated time, and audio quality."""

import re
import sys

from measure.tools import REPEATS, Rows, example, output, printed_tables, say


def tests(package, test, *words):
    """The output of the tests of a package."""
    return output("cargo", "test", "--locked", "-q", "-p", package, "--test", test, *words, "--", "--nocapture",
                  "--test-threads=1")


def claims():
    say("networks and drifting cards, in simulated time")
    rows = Rows()
    for line in example("tautline-sim", "claims").splitlines():
        what, wanted, found, verdict = line.split(" | ")
        rows.add(what, "", found, "", wanted, verdict == "met")
    return [rows.table()]


def depths():
    say("latency auto, in simulated time")
    return printed_tables(example("tautline-sim", "depths"))[-1:]


def distortion():
    say("distortion of the resampler")
    return printed_tables(tests("tautline-dsp", "resample", "distortion"))


def concealment():
    say("quality of concealment")
    return printed_tables(tests("tautline-dsp", "conceal_quality"))


def opus():
    """The libopus of the system, then the bundled one. Both runs print tables of the same shape."""
    runs = []
    for features in ((), ("--features", "bundled")):
        say(f"quality of {'the bundled' if features else 'the system’s'} libopus")
        runs.append(printed_tables(output("cargo", "run", "--locked", "-q", "--profile", "dist", "-p", "tautline-codec",
                                          "--example", "opus_quality", *features)))
    return [[*system, *bundled[1:]] for system, bundled in zip(*runs)]


WAYS = ("red:1", "fec:1", "red:2", "fec:2", "red:3", "fec:3", "red:8", "fec:8")


def redundancy():
    packets = 600_000 if REPEATS > 1 else 30_000
    say(f"redundancy, {packets} packets for each way")
    heading = re.compile(r"(?P<lost>.+), \d+ of \d+ lost; budget (?P<budget>\d+) ms, bound (?P<bound>\d+)")
    text = example("tautline-sim", "redundancy", str(packets))
    lines = [["lost, budget", "bound", *WAYS]]
    costs = []
    prices = {"bandwidth": 0, "ns to make, 10 ms": 4, "ns to use, 10 ms": 5}
    for head, (_, *found) in zip(heading.finditer(text), printed_tables(text)):
        found = {way: cells for way, *cells in found}
        share = lambda count: f"{100 * int(count) / packets:.2g}"
        lines.append([f"{head['lost']}, {head['budget']} ms", share(head["bound"]),
                      *[share(found[way][1].split()[0]) if way in found else "" for way in WAYS]])
        if (head["lost"], head["budget"]) == ("5 % random", "10"):
            costs = [[name, "", *[found[way][column] for way in WAYS]] for name, column in prices.items()]
    if not costs:
        sys.exit("bench: the example redundancy prints no table of 5 % random loss and 10 ms; see its headings")
    return [lines + costs]
