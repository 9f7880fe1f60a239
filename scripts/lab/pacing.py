"""Packets that leave when they should: the rungs of the pacing ladder that only this kernel has."""

import contextlib
import itertools
import statistics
import subprocess
from pathlib import Path

from lab import guest
from lab.guest import sh
from lab.judge import Wrong, micros
from lab.scenarios import scenario

TAP = str(Path(__file__).with_name("tap.py"))
# For the priority of class A (3) alone: at the root it would drop what has no launch time.
BELOW = "tc -n near qdisc add dev veth0 root handle 1: prio bands 3 priomap 1 1 1 0 1 1 1 1 1 1 1 1 1 1 1 1"
QUEUES = {
    "etf": (BELOW, "tc -n near qdisc add dev veth0 parent 1:1 handle 10: etf clockid CLOCK_TAI delta 300000"),
    "fq": ("tc -n near qdisc add dev veth0 root fq",),
}
# All of a period at once have a deviation of 294 us; launched, 0.5 to 3 us of an optimized program, and 5 to 8 us of one
# that is not, by where the kernel's tick falls.
BETTER = 10


@contextlib.contextmanager
def queue(rung):
    """Two hosts, of which one's packets leave by such a queue."""
    with guest.network():
        for command in QUEUES[rung]:
            sh(command)
        yield


def deviation(pacing):
    """Of the intervals between packets of class A, without the first half second."""
    tap = subprocess.Popen(["ip", "netns", "exec", "far", "python3", TAP, "veth0"], stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE, text=True)
    if tap.stdout.readline() != "listening\n":
        raise Wrong("nothing listens at the far end")
    subprocess.run(["ip", "netns", "exec", "near", guest.taut, "send", "--input", "tone:997", "--to",
                    "avtp://veth0/91:E0:F0:00:FE:01", "--ptime", "125us", "--latency", "20ms", "--pacing", pacing,
                    "--duration", "3s", "--no-witness", "--quiet"], check=True)
    stamps = [int(line) for line in tap.communicate()[0].split()][4000:]
    if len(stamps) < 19_000:
        raise Wrong(f"{len(stamps)} packets of the last 20 000 arrived by {pacing}")
    return statistics.pstdev(after - before for before, after in itertools.pairwise(stamps))


@scenario("short", "all")
def packets_without_launch_times_pass_by_an_etf():
    with queue("etf"):
        told = deviation("batch")
    return f"all arrived, {micros(told)}"


@scenario("short", "all", each=tuple(QUEUES))
def packets_leave_at_their_launch_times_by(rung):
    with queue(rung):
        launched = deviation(rung)
    with guest.network():
        at_once = deviation("batch")
    told = f"{micros(launched)}, all of a period at once {micros(at_once)}"
    if launched * BETTER > at_once:
        raise Wrong(told)
    return told
