"""Packets that leave when they should: the rungs of the pacing ladder that only this kernel has."""

import array
import contextlib
import csv
import ctypes
import itertools
import json
import statistics
import struct
import subprocess
import time
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
# In the guest, of a program that is not optimized: all of a period at once have a deviation of 295.7 us, and a thread
# without real-time priority that sleeps until each departure (`sleep`) 25.9 to 26.7 us. Launched by `etf` 1.0 and
# 1.2 us, a 22nd of that; by `fq` 0.5 and 2.9 us, a ninth at the most: where the kernel's tick falls decides.
BETTER = 10
BETTER_THAN_TIMER = {"etf": 10, "fq": 4}
TO = {"AVTP": ("avtp://veth0/91:E0:F0:00:FE:01",), "RTP": ("rtp://239.69.1.1:5004?iface=veth0", "5004")}
LEDGER = "/run/ledger.csv"
# An optimized program has 0.3 us by `fq`, 0.3 to 0.6 us by `sleep`, 0.5 to 0.7 us by `etf`, and 4 to 7.4 us of p99.9 -
# p0.1; where the tick comes among the launches, 0.9 to 1.8 us and 26 to 35 us.
REGULAR, WIDE = 1000, 10_000


@contextlib.contextmanager
def queue(rung):
    """Two hosts, of which one's packets leave by such a queue."""
    with guest.network():
        for command in QUEUES[rung]:
            sh(command)
        yield


@contextlib.contextmanager
def tapped(*port, seconds=7):
    """Afterwards the list has the stamps of what arrived at the far end, within so long."""
    tap = subprocess.Popen(["ip", "netns", "exec", "far", "python3", TAP, "veth0", str(seconds), *port],
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    stamps = []
    try:
        if tap.stdout.readline() != b"listening\n":
            raise Wrong("nothing listens at the far end")
        yield stamps
    finally:
        told, said = tap.communicate()
    if tap.returncode != 0:
        raise Wrong(f"the tap says: {said.decode().strip()}")
    stamps += array.array("q", told)


@contextlib.contextmanager
def sending(to, pacing, *more, seconds=3):
    """taut sends packets of class A for so long; afterwards the list has the stream's report."""
    program = subprocess.Popen(["ip", "netns", "exec", "near", guest.taut, "send", "--input", "tone:997", "--to", to,
                                "--ptime", "125us", "--latency", "20ms", "--pacing", pacing, "--duration", f"{seconds}s",
                                "--no-stall-monitor", "--quiet", "--report", "json", *more],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    streams = []
    try:
        yield streams
    finally:
        out, said = program.communicate()
    if program.returncode != 0:
        raise Wrong(f"taut send ended with {program.returncode}: {said.strip()}")
    streams += json.loads(out)["streams"]


def sounding(packets, patience=30):
    """Returns when so many left: how long a program takes to begin depends on who else reads from the host's disk."""
    until = time.monotonic() + patience
    while True:
        shown = subprocess.run("ip -n near -s -j link show dev veth0".split(), check=True, capture_output=True)
        if json.loads(shown.stdout)[0]["stats64"]["tx"]["packets"] >= packets:
            return
        if time.monotonic() > until:
            raise Wrong(f"no {packets} packets left within {patience} s")
        time.sleep(0.01)


def looping(pacing, period=48, seconds=3):
    """The stamps of packets of class A that a bare loop sends for so long; all are to arrive."""
    with tapped(seconds=seconds + 4) as stamps:
        sh(f"ip netns exec near {guest.taut} lab loop --to {TO['AVTP'][0]} --pacing {pacing} --format l24 --channels 2 "
           f"--rate 48000 --ptime 125us --period {period} --duration {seconds}s --packet-log {LEDGER} --scheduler fifo:69",
           stdout=subprocess.DEVNULL)
    if len(stamps) != 8000 * seconds:
        raise Wrong(f"{len(stamps)} of {8000 * seconds} packets of the loop arrived by {pacing}")
    return stamps


def arrivals(pacing, *more, seconds=3):
    """Of packets of class A; all are to arrive."""
    with tapped(seconds=seconds + 4) as stamps, sending(TO["AVTP"][0], pacing, *more, seconds=seconds) as streams:
        pass
    counters, unlaunched = streams[0]["counters"], streams[0]["pacing"]["dropped_by_queue"]
    sent, errors = counters["packets_sent"], counters.get("send_errors", 0)
    if unlaunched or errors or len(stamps) != sent or sent < 8000 * seconds - 100:
        raise Wrong(f"{len(stamps)} of {sent} packets arrived by {pacing}, {unlaunched} unlaunched, {errors} refused")
    return stamps


def intervals(stamps):
    """Without the first half second."""
    return [after - before for before, after in itertools.pairwise(stamps[4000:])]


def deviation(pacing, *more):
    return statistics.pstdev(intervals(arrivals(pacing, *more)))


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
        at_once, by_timer = deviation("batch"), deviation("sleep", "--scheduler", "other")
    told = f"{micros(launched)}, by a timer {micros(by_timer)}, all of a period at once {micros(at_once)}"
    if launched * BETTER > at_once or launched * BETTER_THAN_TIMER[rung] > by_timer:
        raise Wrong(told)
    return told


def spread(stamps):
    """Deviation, and p99.9 - p0.1, of intervals in nanoseconds."""
    apart = sorted(intervals(stamps))
    least, most = (apart[int(len(apart) * part)] for part in (0.001, 0.999))
    return statistics.pstdev(apart), most - least


@scenario("all", each=("sleep", *QUEUES))
def packets_leave_nearly_as_regularly_as_those_of_a_bare_loop_by(rung):
    """In the middle of three: the loop's phase to the kernel's tick is another each time, and so is that of a rung that
    sleeps, by how late its thread was before the stream."""
    ours, bare = [], []
    with queue(rung) if rung in QUEUES else guest.network():
        for _ in range(3):
            bare.append(spread(looping(rung)))
            ours.append(spread(arrivals(rung, "--period", "48")))
    told = "; ".join(f"{micros(own[0])} and {micros(own[1])}, the loop {micros(loop[0])} and {micros(loop[1])}"
                     for own, loop in zip(ours, bare))
    deviations, spreads = zip(*ours)
    if statistics.median(deviations) > REGULAR or statistics.median(spreads) > WIDE:
        raise Wrong(told)
    return told


def set_tai(seconds):
    """What TAI is ahead of UTC (ADJ_TAI of adjtimex(2), by its struct of 64 bits). Python has no name for it."""
    asked = ctypes.create_string_buffer(208)
    struct.pack_into("I44xq", asked, 0, 0x80, seconds)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.adjtimex(asked) < 0:
        raise OSError(ctypes.get_errno(), "TAI cannot be set")


@scenario("all", each=tuple(TO))
def what_an_etf_drops_is_counted_and_named_by(protocol):
    """TAI is set a second forward, eight times. What the queue holds is too late at once, and dropped when it is to
    leave. What is handed over until the program reads the clock again, within 10 ms, the queue refuses. Nothing else
    is lost."""
    to, *port = TO[protocol]
    try:
        with queue("etf"):
            with tapped(*port, seconds=20) as stamps, sending(to, "etf", "--packet-log", LEDGER) as streams:
                sounding(4000)
                for ahead in range(38, 46):
                    set_tai(ahead)
                    # No whole number of packets: at some of these instants the queue holds one.
                    time.sleep(0.15003)
            shown = subprocess.run("tc -n near -s -j qdisc show dev veth0".split(), check=True, capture_output=True)
    finally:
        set_tai(0)
    # Of those that it drops, an etf counts the ones that it had taken as over its limits.
    etf = next(queue for queue in json.loads(shown.stdout) if queue["kind"] == "etf")
    dropped, missed = etf["drops"], etf["overlimits"]
    counters, unlaunched = streams[0]["counters"], streams[0]["pacing"]["dropped_by_queue"]
    sent, errors = counters["packets_sent"], counters.get("send_errors", 0)
    with open(LEDGER) as ledger:
        lines = list(csv.DictReader(ledger))
    named = [line for line in lines if line["dropped_by_queue"] == "1"]
    left = sum(line["left"] != "" for line in named)
    told = (f"{dropped} of {sent} packets dropped, {missed} of them after they were taken; {unlaunched} counted, "
            f"{len(named)} of {len(lines)} lines named; {len(stamps)} arrived, {errors} refused, {left} both")
    if not 0 < missed < dropped or unlaunched != dropped or len(named) != dropped or left or errors:
        raise Wrong(told)
    if len(lines) != sent or len(stamps) + dropped != sent:
        raise Wrong(told)
    return told
