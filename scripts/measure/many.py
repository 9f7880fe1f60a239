"""What a receiver of many streams takes."""

import json
import os
import resource
import statistics
import subprocess
import tempfile
import time

from measure.processes import SETTLE, WINDOW, free_port, processor, resident
from measure.tools import REPEATS, TAUT, row, say


class Many:
    """One receiver of so many streams of one sender, on a card that listens to itself."""

    def __init__(self, streams, ptime, latency="20ms", sounds=True, cores=(None, None), witness=False):
        pin = lambda core: [] if core is None else ["taskset", "-c", str(core)]
        self.folder = tempfile.TemporaryDirectory()
        self.report = os.path.join(self.folder.name, "report.json")
        ports = set()
        while len(ports) < streams:
            ports.add(free_port())
        addresses = [f"rtp://127.0.0.1:{port}" for port in sorted(ports)]
        common = ["--format", "l16", "--period", "240", "--latency", latency, "--report", "none"]
        common += [] if witness else ["--no-witness"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "preexec_fn": open_files(4 * streams + 100)}
        each = lambda option: [word for address in addresses for word in (option, address)]
        self.receiver = subprocess.Popen(
            [*pin(cores[0]), TAUT, "recv", *each("--from"), "--output", "virtual:", "--rate", "48000",
             "--channels", "2", *common, "--report-file", self.report], **quiet)
        time.sleep(0.5 + streams / 200)
        self.sender = sounds and subprocess.Popen(
            [*pin(cores[1]), TAUT, "send", "--input", "virtual:?tone=440", "--ptime", ptime, *each("--to"), *common], **quiet)

    def share(self):
        """Per cent of a core that the receiver takes, and its resident memory in MB."""
        time.sleep(SETTLE)
        began, start = time.monotonic(), processor(self.receiver.pid)
        time.sleep(WINDOW)
        share = 100 * (processor(self.receiver.pid) - start) / (time.monotonic() - began)
        return share, resident(self.receiver.pid)[0]

    def stop(self):
        """Seconds until the receiver has reported and ended, and its report with its size in bytes."""
        began = time.monotonic()
        self.receiver.terminate()
        self.receiver.wait()
        took = time.monotonic() - began
        if self.sender:
            self.sender.terminate()
            self.sender.wait()
        with self.folder, open(self.report) as file:
            text = file.read()
        return took, json.loads(text), len(text)


def open_files(wanted):
    """Lets a child open so many files, if the user may."""
    def allow():
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard) if hard >= 0 else wanted, hard))
    return allow


def many_streams():
    def measured(streams, ptime, sounds=True):
        say(f"a receiver of {streams} streams, packets of {ptime}")
        found = []
        for _ in range(REPEATS):
            many = Many(streams, ptime, sounds=sounds)
            share, memory = many.share()
            took, _, size = many.stop()
            found.append((share, memory, took, size))
        return [statistics.median(values) for values in zip(*found)]

    for ptime in ("5ms", "1ms"):
        fixed, empty, _, _ = measured(1, ptime, sounds=False)
        one = measured(1, ptime)[0] - fixed
        row(f"one stream in a receiver, packets of {ptime}, beside its fixed {fixed:.2f} %", "", f"{one:.2f} %", "", "", None)
        for streams in (10, 100):
            share, memory, took, size = measured(streams, ptime)
            ratio = (share - fixed) / streams / one
            row(f"{streams} streams mixed, packets of {ptime}, of a core", f"{streams} × {one:.2f} %", f"{share:.1f} %",
                f"{ratio:.2f}", "≤ 1.2", ratio <= 1.2)
            if streams == 100:
                each = (memory - empty) / streams
                row("— memory of one of them at 20 ms", "", f"{each:.2f} MB", "", "≤ 1.5 MB", each <= 1.5)
                row(f"— from stop to the end of the report ({size / 1e3:.0f} kB)", "", f"{took:.2f} s", "", "≤ 0.5 s", took <= 0.5)


def most_streams():
    """How many streams of 1 ms one core bears: 50 more at a time, until the first step in which a packet is
    late or lost or the card starves. What others on the machine do is not ours: what the host did by
    standing still is left out, and a step ends it that is not clean at any of three tries."""
    cores = (os.cpu_count() - 1, 0) if os.cpu_count() > 1 else (None, None)

    def flaw(streams):
        """What spoilt a step, if anything did, and the share of a core that it took."""
        say(f"{streams} streams of 1 ms on one core")
        many = Many(streams, "1ms", cores=cores, witness=True)
        share, _ = many.share()
        counted = [stream["counters"] for stream in many.stop()[1]["streams"]]
        missed = sum(c["late"] + c["lost"] for c in counted)
        came = sum(c["packets_received"] for c in counted)
        # Xruns are the card's, and the report of each stream says them, and what was the host's of all.
        xruns = max(c["xruns"] for c in counted)
        clean = came and missed + sum(c["xruns"] for c in counted) <= sum(c["host_stalled"] for c in counted)
        told = f"{streams}: {missed} of {came + missed} packets late or lost, {xruns} xruns, {share:.0f} %"
        return None if clean else told, share

    borne, ended = "none", "no step was spoilt"
    for streams in range(50, 1001, 50):
        for _ in range(3):
            spoilt, share = flaw(streams)
            if not spoilt:
                break
        if spoilt:
            ended = spoilt
            break
        borne = f"{streams} ({share:.0f} %)"
    row("streams of 1 ms that one core bears before a packet is late or the card starves", ended, borne, "", "", None)
