"""Processor time that encryption adds to a packet."""

import os
import re
import statistics
import subprocess
import tempfile
import time

from measure.processes import SETTLE, free_port, processor
from measure.tools import REPEATS, TAUT, cargo_bench, say, spread

RUNS = 2 if REPEATS == 1 else 20
WINDOWS, WINDOW = 8, 1.0  # windows of a run, and their length in seconds
MAX = 5.0  # % that encryption may add
CASES = ((48, "1ms", 1e-3, 328), (120, "2.5ms", 2.5e-3, 760))  # period in frames, packets, their bytes of RTP


class Pair:
    """A sender and its receiver."""

    def __init__(self, period, ptime, *more):
        address = f"rtp://127.0.0.1:{free_port()}"
        common = ["--period", str(period), "--latency", "10ms", "--format", "l24", "--report", "none", "--no-stall-monitor", *more]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        receiver = [TAUT, "recv", "--from", address, "--output", "null:", *common]
        sender = [TAUT, "send", "--input", "virtual:?tone=440", "--to", address, "--ptime", ptime, *common]
        self.ends = [subprocess.Popen(sender, **quiet), subprocess.Popen(receiver, **quiet)]

    def processor(self):
        return [processor(end.pid) for end in self.ends]

    def stop(self):
        for end in self.ends:
            end.terminate()
        for end in self.ends:
            end.wait()


def alone():
    """Microseconds to encrypt and to decrypt a packet, once a millisecond, by size in bytes."""
    lines = cargo_bench("tautline-api", "seal").split("once a millisecond")[1].splitlines()
    found = (re.match(r" +(\d+)  SRTP \S+ +(\d+) ns +(\d+) ns", line) for line in lines)
    return {int(row[1]): (int(row[2]) / 1e3, int(row[3]) / 1e3) for row in found if row}


def doubt(values):
    """The standard error of a median, from the median absolute deviation."""
    middle = statistics.median(values)
    return 1.2533 * 1.4826 * statistics.median(abs(value - middle) for value in values) / len(values) ** 0.5


def sealed():
    """Whole processes on loopback, clear and encrypted at the same time, so that other load hits both alike: cost of a
    packet in all threads, window by window. Also the cost of encryption alone, once a millisecond in one thread."""
    itself = alone()
    lines = [["packet and period", "end", "clear, per packet", "encrypted (AEAD_AES_256_GCM)",
              "added per packet, median of windows", f"≤ {MAX:g} %, ≤ 5 µs", "encrypt or decrypt alone"]]
    with tempfile.TemporaryDirectory() as folder:
        key = os.path.join(folder, "key")
        subprocess.run([TAUT, "srtp-key", key], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for period, ptime, seconds, size in CASES:
            say(f"packets of {ptime}, clear and encrypted")
            windows = []
            for run in range(RUNS):
                # Both start first equally often.
                options = [[], ["--srtp-key-file", key]][:: 1 if run % 2 else -1]
                pairs = sorted(((bool(more), Pair(period, ptime, *more)) for more in options), key=lambda pair: pair[0])
                try:
                    time.sleep(SETTLE)
                    for _ in range(WINDOWS):
                        began, before = time.monotonic(), [pair.processor() for _, pair in pairs]
                        time.sleep(WINDOW)
                        packets = (time.monotonic() - began) / seconds
                        after = [pair.processor() for _, pair in pairs]
                        # Microseconds per packet, for each pair and each end.
                        windows.append([[(b - a) / packets * 1e6 for a, b in zip(*ends)] for ends in zip(before, after)])
                finally:
                    for _, pair in pairs:
                        pair.stop()
            for side, end in enumerate(("sender", "receiver")):
                clear, full = ([window[which][side] for window in windows] for which in (0, 1))
                more = [after - before for before, after in zip(clear, full)]
                micros, part = statistics.median(more), 100 / statistics.median(clear)
                percent, own = part * micros, itself[size][side]
                met = percent <= MAX and micros <= 5
                lines.append([ptime.replace("ms", " ms"), end, f"{spread(clear)} µs", f"{spread(full)} µs",
                              f"{micros:+.2f} ± {doubt(more):.2f} µs, {percent:+.1f} %", "met" if met else "**missed**",
                              f"{own:.2f} µs, {part * own:.1f} %"])
    return [lines]
