"""What the benches of the crates and simulated time say."""

import os
import re
import shutil
import statistics
import subprocess
import sys

from measure.tools import REPEATS, ROOT, cargo_bench, divan_cases, row, say, spread


def machines():
    say("packets through the machines")
    cases = divan_cases("tautline-proto", "packet")
    titles = {
        "handle_and_pull": "one packet of 48 stereo frames taken and its frames given out",
        "place_and_pull": "of that the playout buffer",
        "push": "one packet of 48 stereo frames packed",
    }
    for (group, name), values in cases.items():
        if group == "second_of_drift_and_loss":
            share = statistics.median(values) / 1e9
            row(f"a stereo stream at 48-frame periods, card 200 ppm off, 5 % lost, {name}", "",
                f"{spread([value / 1e6 for value in values])} ms a second", f"{100 * share:.2f} % of a core", "≤ 1 %", share <= 0.01)
        if group not in titles:
            continue
        coding, _, stamps = name.strip("()").partition(", ")
        stamps = {"true": ", with the sender's instants", "false": ", plain", "": ""}[stamps]
        value = statistics.median(values)
        target = 250 if group == "handle_and_pull" else None
        row(
            f"{titles[group]}, {coding}{stamps}", "",
            f"{spread(values, 0)} ns", f"{value / 250:.2f}" if target else "",
            "≤ 250 ns" if target else "", value <= target if target else None,
        )


def resampler():
    say("resampling")
    for (group, quality), values in divan_cases("tautline-dsp", "resample").items():
        if group == "stereo":
            share = statistics.median(values) / 1e6  # of the millisecond that 48 frames last
            row(f"48 stereo frames resampled, {quality}", "", f"{spread(values, 0)} ns", f"{100 * share:.2f} % of a core",
                "≤ 0.3 %", share <= 0.003)


def claims():
    say("networks and drifting cards, in simulated time")
    run = subprocess.run(["cargo", "run", "--locked", "-q", "--release", "-p", "tautline-sim", "--example", "claims"],
                         cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if run.returncode != 0:
        sys.exit("bench: the simulated claims failed; their message is above")
    for line in run.stdout.splitlines():
        what, wanted, found, verdict = line.split(" | ")
        row(what, "simulated, 10 minutes", found, "", wanted, verdict == "met")


def packets():
    say("packets per core against a bare loop")
    found = {}
    for _ in range(REPEATS):
        for line in cargo_bench("tautline-engine", "packets").splitlines():
            case = re.match(r"(send|recv) +(\d+) (streams|senders): taut +(\S+) ns, bare +(\S+) ns", line)
            if case:
                direction, streams, heard, ours, bare = case.groups()
                found.setdefault((direction, heard, int(streams)), []).append((float(ours), float(bare)))
    for (direction, heard, streams), pairs in sorted(found.items(), reverse=True):
        if (direction, heard) == ("send", "senders"):
            continue  # they send as those to ports of their own do
        ratios = [bare / ours for ours, bare in pairs]
        way = "sent" if direction == "send" else "received"
        name = "1 stream" if streams == 1 else f"{streams} streams"
        one = heard == "senders"
        target = 1.0 if one and streams > 1 else 0.8
        row(
            f"packet {way}, 1 ms stereo L16, {name}{' at one port' if one else ''}",
            f"bare loop{' of a socket each' if one else ''} {spread([bare / 1e3 for _, bare in pairs])} µs",
            f"{spread([ours / 1e3 for ours, _ in pairs])} µs",
            spread(ratios), f"≥ {target}", statistics.median(ratios) >= target,
        )


def instructions():
    if not shutil.which("valgrind"):
        say("no valgrind here, and no instructions: scripts/setup bench installs it")
        return
    say("instructions of a period")
    titles = {
        "copied": ("with everything on, copied", 3000),
        "unmeasured": ("without measurement and redundancy, copied", None),
        "carried": ("with everything on, copied, its packets carry one earlier each", None),
        "resampled": ("with everything on, resampled, low-delay", None),
    }
    run = subprocess.run([os.path.join(ROOT, "scripts/instructions"), "--totals"], stdout=subprocess.PIPE, text=True)
    if run.returncode != 0:
        sys.exit("bench: scripts/instructions failed; its message is above")
    for scene, count in re.findall(r"(\w+): (\d+) instructions", run.stdout):
        title, target = titles[scene]
        row(f"the mixer's period of 48 frames, a stereo stream of L24 {title}", "",
            f"{count} instructions", f"{int(count) / target:.2f}" if target else "",
            f"≤ {target}" if target else "", int(count) <= target if target else None)


def memory_of_an_hour():
    say("an hour's packets through a receiver")
    line = cargo_bench("tautline-engine", "memory")
    before, after = map(int, re.search(r"(\d+) kB before, (\d+) kB after", line).groups())
    row("memory of a receiver and its books after 3.6 million packets more", f"{before / 1e3:.1f} MB before",
        f"{after / 1e3:.1f} MB", f"{after - before:+} kB", "flat", after - before < 100)
