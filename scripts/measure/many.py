"""Cost of a receiver with many streams."""

import json
import os
import resource
import statistics
import subprocess
import tempfile
import time

from measure.processes import SETTLE, WINDOW, free_port, processor, resident
from measure.tools import REPEATS, TAUT, Rows, say


class Many:
    """A sender and a receiver with a number of streams, on a virtual card with the stall monitor off by default."""

    def __init__(self, streams, ptime, latency="20ms", sounds=True, cores=(None, None), witness=False):
        pin = lambda core: [] if core is None else ["taskset", "-c", str(core)]
        self.folder = tempfile.TemporaryDirectory()
        self.report = os.path.join(self.folder.name, "report.json")
        ports = set()
        while len(ports) < streams:
            ports.add(free_port())
        addresses = [f"rtp://127.0.0.1:{port}" for port in sorted(ports)]
        common = ["--format", "l16", "--period", "240", "--latency", latency, "--report", "none"]
        common += [] if witness else ["--no-stall-monitor"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "preexec_fn": open_files(4 * streams + 100)}
        each = lambda option: [word for address in addresses for word in (option, address)]
        self.receiver = subprocess.Popen(
            [*pin(cores[0]), TAUT, "recv", *each("--from"), "--output", "virtual:", "--rate", "48000",
             "--channels", "2", *common, "--report-file", self.report], **quiet)
        time.sleep(0.5 + streams / 200)
        self.sender = sounds and subprocess.Popen(
            [*pin(cores[1]), TAUT, "send", "--input", "virtual:?tone=440", "--ptime", ptime, *each("--to"), *common], **quiet)

    def share(self):
        """Processor time of the receiver in % of a core, and its resident memory in MB."""
        time.sleep(SETTLE)
        began, start = time.monotonic(), processor(self.receiver.pid)
        time.sleep(WINDOW)
        share = 100 * (processor(self.receiver.pid) - start) / (time.monotonic() - began)
        return share, resident(self.receiver.pid)[0]

    def stop(self):
        """Seconds until the receiver has reported and ended, its report, and the size of the report in bytes."""
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
    """Raises the limit of open files in a child as far as the user may."""
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

    lines = [["packets", "no stream", "one stream", "10 streams", "100 streams", "each of 10; 100 ÷ one", "memory per stream",
              "stop to report", "report size", "≤ 1.2 × one, 1.5 MB, 0.5 s"]]
    for ptime in ("5ms", "1ms"):
        fixed, empty, _, _ = measured(1, ptime, sounds=False)
        one, ten, hundred = (measured(streams, ptime) for streams in (1, 10, 100))
        share, memory, took, size = hundred
        alone, each = one[0] - fixed, (memory - empty) / 100
        ratios = [(found[0] - fixed) / streams / alone for found, streams in ((ten, 10), (hundred, 100))]
        met = max(ratios) <= 1.2 and each <= 1.5 and took <= 0.5
        shares = [f"{share:.2f} %" for share in (fixed, one[0], ten[0], share)]
        lines.append([ptime.replace("ms", " ms"), *shares, "; ".join(f"{ratio:.2f}" for ratio in ratios), f"{each:.2f} MB",
                      f"{took:.2f} s", f"{size / 1e3:.0f} kB", "met" if met else "**missed**"])
    return [lines]


def max_streams():
    """The max number of streams of 1 ms on one core: adds 50 at a time until a step fails three times. A step fails if a
    packet is late or lost or the card has an xrun, except during stalls of the host."""
    rows = Rows()
    cores = (os.cpu_count() - 1, 0) if os.cpu_count() > 1 else (None, None)

    def flaw(streams):
        """The defect of a step, if any, and its share of a core."""
        say(f"{streams} streams of 1 ms on one core")
        many = Many(streams, "1ms", cores=cores, witness=True)
        share, _ = many.share()
        counted = [stream["counters"] for stream in many.stop()[1]["streams"]]
        missed = sum(c["late"] + c["lost"] for c in counted)
        came = sum(c["packets_received"] for c in counted)
        # The card has the xruns, so the report of each stream has the same number. host_stalled covers all kinds.
        xruns = max(c["xruns"] for c in counted)
        clean = came and missed + sum(c["xruns"] for c in counted) <= sum(c["host_stalled"] for c in counted)
        defect = f"{streams}: {missed} of {came + missed} packets late or lost, {xruns} xruns, {share:.0f} %"
        return None if clean else defect, share

    borne, ended = "none", "no step failed"
    for streams in range(50, 1001, 50):
        for _ in range(3):
            spoilt, share = flaw(streams)
            if not spoilt:
                break
        if spoilt:
            ended = spoilt
            break
        borne = f"{streams} ({share:.0f} %)"
    rows.add("streams of 1 ms packets on one core without late packets or xruns", ended, borne, "", "", None)
    return [rows.table()]
