"""Scenarios of packet intervals, with pacing modes that need the guest's kernel."""

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
# Only for the priority of class A (3): at the root, etf drops packets without a launch time.
BELOW = "tc -n near qdisc add dev veth0 root handle 1: prio bands 3 priomap 1 1 1 0 1 1 1 1 1 1 1 1 1 1 1 1"
QUEUES = {
    "etf": (BELOW, "tc -n near qdisc add dev veth0 parent 1:1 handle 10: etf clockid CLOCK_TAI delta 300000"),
    "fq": ("tc -n near qdisc add dev veth0 root fq",),
}
# Deviations in the guest with an unoptimized program: 295.7 us with all packets of a period together, 25.9 to 26.7 us with
# `sleep` without real-time priority, 1.0 and 1.2 us with `etf`, 0.5 and 2.9 us with `fq`, depending on the kernel's tick.
BETTER = 10
BETTER_THAN_TIMER = {"etf": 10, "fq": 4}
TO = {"AVTP": ("avtp://veth0/91:E0:F0:00:FE:01",), "RTP": ("rtp://239.69.1.1:5004?iface=veth0", "5004")}
LEDGER = "/run/ledger.csv"
# Nanoseconds. An optimized program has deviations of 0.3 us with `fq`, 0.3 to 0.6 us with `sleep`, 0.5 to 0.7 us with `etf`,
# and a p99.9 - p0.1 of 4 to 7.4 us. With the tick among the launches: 0.9 to 1.8 us and 26 to 35 us.
REGULAR, WIDE = 1000, 10_000


@contextlib.contextmanager
def queue(rung):
    """Two hosts; the packets of one leave via this queue."""
    with guest.network():
        for command in QUEUES[rung]:
            sh(command)
        yield


@contextlib.contextmanager
def tapped(*port, seconds=7):
    """Afterwards the list has the timestamps of the frames that arrived at the far end within `seconds`."""
    tap = subprocess.Popen(["ip", "netns", "exec", "far", "python3", TAP, "veth0", str(seconds), *port],
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    stamps = []
    try:
        if tap.stdout.readline() != b"listening\n":
            raise Wrong("the tap at the far end does not start")
        yield stamps
    finally:
        stamped, said = tap.communicate()
    if tap.returncode != 0:
        raise Wrong(f"tap: {said.decode().strip()}")
    stamps += array.array("q", stamped)


@contextlib.contextmanager
def sending(to, pacing, *more, seconds=3):
    """taut sends packets of class A for `seconds`. Afterwards the list has the stream's report."""
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
    """Waits until `packets` have left. The start of a program takes longer while other programs read from the host's disk."""
    until = time.monotonic() + patience
    while True:
        shown = subprocess.run("ip -n near -s -j link show dev veth0".split(), check=True, capture_output=True)
        if json.loads(shown.stdout)[0]["stats64"]["tx"]["packets"] >= packets:
            return
        if time.monotonic() > until:
            raise Wrong(f"no {packets} packets left within {patience} s")
        time.sleep(0.01)


def looping(pacing, period=48, seconds=3):
    """Timestamps of packets of class A that a bare loop sends for `seconds`. All must arrive."""
    with tapped(seconds=seconds + 4) as stamps:
        sh(f"ip netns exec near {guest.taut} lab loop --to {TO['AVTP'][0]} --pacing {pacing} --format l24 --channels 2 "
           f"--rate 48000 --ptime 125us --period {period} --duration {seconds}s --packet-log {LEDGER} --scheduler fifo:69",
           stdout=subprocess.DEVNULL)
    if len(stamps) != 8000 * seconds:
        raise Wrong(f"{len(stamps)} of {8000 * seconds} packets of the loop arrived with {pacing}")
    return stamps


def arrivals(pacing, *more, seconds=3):
    """Timestamps of packets of class A from taut. All must arrive."""
    with tapped(seconds=seconds + 4) as stamps, sending(TO["AVTP"][0], pacing, *more, seconds=seconds) as streams:
        pass
    counters, dropped = streams[0]["counters"], streams[0]["pacing"]["dropped_by_queue"]
    sent, errors = counters["packets_sent"], counters.get("send_errors", 0)
    if dropped or errors or len(stamps) != sent or sent < 8000 * seconds - 100:
        raise Wrong(f"{len(stamps)} of {sent} packets arrived with {pacing}, {dropped} dropped, {errors} refused")
    return stamps


def intervals(stamps):
    """Intervals without the first half second."""
    return [after - before for before, after in itertools.pairwise(stamps[4000:])]


def deviation(pacing, *more):
    return statistics.pstdev(intervals(arrivals(pacing, *more)))


@scenario("short", "all")
def packets_without_launch_times_pass_by_an_etf():
    with queue("etf"):
        spread_of_all = deviation("batch")
    return f"all arrived, {micros(spread_of_all)}"


@scenario("short", "all", each=tuple(QUEUES))
def packets_leave_at_their_launch_times_by(rung):
    with queue(rung):
        launched = deviation(rung)
    with guest.network():
        at_once, by_timer = deviation("batch"), deviation("sleep", "--scheduler", "other")
    result = f"{micros(launched)}, with a timer {micros(by_timer)}, all of a period back to back {micros(at_once)}"
    if launched * BETTER > at_once or launched * BETTER_THAN_TIMER[rung] > by_timer:
        raise Wrong(result)
    return result


def spread(stamps):
    """Standard deviation and p99.9 - p0.1 of intervals, in nanoseconds."""
    apart = sorted(intervals(stamps))
    least, most = (apart[int(len(apart) * part)] for part in (0.001, 0.999))
    return statistics.pstdev(apart), most - least


@scenario("all", each=("sleep", *QUEUES))
def packets_leave_nearly_as_regularly_as_those_of_a_bare_loop_by(rung):
    """Judges the median of three runs, because the phase to the kernel's tick differs in each."""
    ours, bare = [], []
    with queue(rung) if rung in QUEUES else guest.network():
        for _ in range(3):
            bare.append(spread(looping(rung)))
            ours.append(spread(arrivals(rung, "--period", "48")))
    result = "; ".join(f"{micros(own[0])} and {micros(own[1])}, the loop {micros(loop[0])} and {micros(loop[1])}"
                     for own, loop in zip(ours, bare))
    deviations, spreads = zip(*ours)
    if statistics.median(deviations) > REGULAR or statistics.median(spreads) > WIDE:
        raise Wrong(result)
    return result


def set_tai(seconds):
    """Sets the offset of TAI from UTC (ADJ_TAI of adjtimex(2), with its 64-bit struct). Python has no function for it."""
    asked = ctypes.create_string_buffer(208)
    struct.pack_into("I44xq", asked, 0, 0x80, seconds)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.adjtimex(asked) < 0:
        raise OSError(ctypes.get_errno(), "cannot set TAI")


@scenario("all", each=tuple(TO))
def what_an_etf_drops_is_counted_and_named_by(protocol):
    """Sets TAI one second forward, eight times. Packets in the queue are then too late, and the queue drops them at
    their departure. The queue refuses packets that arrive until the program reads the clock again, within 10 ms. No other
    packets are lost."""
    to, *port = TO[protocol]
    try:
        with queue("etf"):
            with tapped(*port, seconds=20) as stamps, sending(to, "etf", "--packet-log", LEDGER) as streams:
                sounding(4000)
                for ahead in range(38, 46):
                    set_tai(ahead)
                    # Not a multiple of the packet interval, so the queue sometimes holds a packet.
                    time.sleep(0.15003)
            shown = subprocess.run("tc -n near -s -j qdisc show dev veth0".split(), check=True, capture_output=True)
    finally:
        set_tai(0)
    # etf counts accepted packets that it drops later as overlimits.
    etf = next(queue for queue in json.loads(shown.stdout) if queue["kind"] == "etf")
    dropped, missed = etf["drops"], etf["overlimits"]
    counters, counted = streams[0]["counters"], streams[0]["pacing"]["dropped_by_queue"]
    sent, errors = counters["packets_sent"], counters.get("send_errors", 0)
    with open(LEDGER) as ledger:
        lines = list(csv.DictReader(ledger))
    named = [line for line in lines if line["dropped_by_queue"] == "1"]
    left = sum(line["left"] != "" for line in named)
    result = (f"{dropped} of {sent} packets dropped, {missed} of them after they were accepted; {counted} counted, "
            f"{len(named)} of {len(lines)} lines named; {len(stamps)} arrived, {errors} refused, {left} both")
    if not 0 < missed < dropped or counted != dropped or len(named) != dropped or left or errors:
        raise Wrong(result)
    if len(lines) != sent or len(stamps) + dropped != sent:
        raise Wrong(result)
    return result
