"""Packets that leave when they should: the rungs of the pacing ladder that only this kernel has."""

import contextlib
import json
import subprocess

from lab import guest
from lab.guest import sh
from lab.judge import Wrong, micros
from lab.scenarios import scenario

# For the priority of class A (3) alone: at the root it would drop what has no launch time.
BELOW = "tc -n near qdisc add dev veth0 root handle 1: prio bands 3 priomap 1 1 1 0 1 1 1 1 1 1 1 1 1 1 1 1"
QUEUES = {
    "etf": (BELOW, "tc -n near qdisc add dev veth0 parent 1:1 handle 10: etf clockid CLOCK_TAI delta 300000"),
    "fq": ("tc -n near qdisc add dev veth0 root fq",),
}
# All of a period at once have a deviation of some 300 us; launched, 0.1 to 3 us, by where the kernel's tick falls.
BETTER = 50


@contextlib.contextmanager
def queue(rung):
    """Two hosts, of which one's packets leave by such a queue."""
    with guest.network():
        # Its own stamps are measured by what it sends to itself.
        for command in ("ip -n near link set lo up", *QUEUES[rung]):
            sh(command)
        yield


@scenario("short", "all", each=tuple(QUEUES))
def packets_leave_at_their_launch_times_by(rung):
    with queue(rung):
        out = subprocess.run(
            ["ip", "netns", "exec", "near", guest.taut, "lab", "interval", "--rungs", "--pacing", "batch", "--pacing",
             rung, "--with", "netns:far", "--duration", "3s", "--report", "json"],
            check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    rows = {row["name"]: row for row in json.loads(out)["rows"]}
    void = [f"{name}: {row['void']}" for name, row in rows.items() if row["void"]]
    if void:
        raise Wrong("; ".join(void))
    at_once, launched = (rows[name]["stdev_ns"] for name in ("batch", rung))
    missed = rows[rung]["missed"]
    told = f"{micros(launched)}, all of a period at once {micros(at_once)}, missed {missed}"
    if launched * BETTER > at_once:
        raise Wrong(told)
    return told
