"""Cost of whole processes, compared with GStreamer's."""

import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from measure.tools import REPEATS, TAUT, Rows, say, spread

SETTLE, WINDOW = 2.0, 4.0  # seconds before and during a measurement
MISSING = 'GStreamer is not installed: "make test" installs it'


def processor(pid):
    """Processor time of all threads of a process, in seconds (proc(5), schedstat)."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/schedstat") as stat:
                total += int(stat.read().split()[0])
        except OSError:
            pass  # the thread has ended
    return total / 1e9


def resident(pid):
    with open(f"/proc/{pid}/status") as status:
        fields = dict(re.findall(r"(Vm(?:RSS|HWM)):\s+(\d+) kB", status.read()))
    return int(fields["VmRSS"]) / 1e3, int(fields["VmHWM"]) / 1e3


def pair(receiver, sender, settle=SETTLE, window=WINDOW):
    """Runs both. Returns the processor time of (sender, receiver) in % of a core, and (resident, peak, growth) of the
    receiver in MB."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    one = subprocess.Popen(receiver, **quiet)
    time.sleep(0.3)
    other = subprocess.Popen(sender, **quiet)
    try:
        time.sleep(settle)
        began, start = time.monotonic(), (processor(other.pid), processor(one.pid))
        before = resident(one.pid)[0]
        time.sleep(window)
        took, end = time.monotonic() - began, (processor(other.pid), processor(one.pid))
        memory = resident(one.pid)
    except OSError:
        sys.exit(f"bench: `{' '.join(sender)}` or `{' '.join(receiver)}` ended early; run both by hand")
    finally:
        for process in (other, one):
            process.terminate()
        for process in (other, one):
            process.wait()
    shares = [100 * (b - a) / took for a, b in zip(start, end)]
    return shares, (*memory, memory[0] - before)


def free_port():
    """A free even UDP port."""
    while True:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
        if port % 2 == 0 and port < 65535:
            return port


def taut_pair(period, ptime, latency, *more, coding="l16", settle=SETTLE, window=WINDOW):
    address = f"rtp://127.0.0.1:{free_port()}"
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        common = ["--period", str(period), "--latency", latency, "--report", "none", *more]
        receiver = [TAUT, "recv", "--from", address, "--output", "null:", "--format", coding, *common]
        sender = [TAUT, "send", "--input", "virtual:?tone=440", "--to", address, "--format", coding,
                  "--ptime", ptime, *common]
        shares, memory = pair([*receiver, "--report-file", report], sender, settle, window)
        with open(report) as file:
            return shares, memory, json.load(file)


def gstreamer_pair(period, ptime, latency):
    port, nanos = free_port(), int(ptime * 1e6)
    caps = ("application/x-rtp,media=audio,clock-rate=48000,encoding-name=L16,"
            "encoding-params=(string)2,channels=2,payload=96")
    sender = ["gst-launch-1.0", "-q", "audiotestsrc", "is-live=true", f"samplesperbuffer={period}", "!",
              "audio/x-raw,format=S16BE,rate=48000,channels=2", "!", "queue", "!", "rtpL16pay",
              f"min-ptime={nanos}", f"max-ptime={nanos}", "!", "udpsink", "host=127.0.0.1", f"port={port}"]
    receiver = ["gst-launch-1.0", "-q", "udpsrc", f"port={port}", f"caps={caps}", "!",
                "rtpjitterbuffer", f"latency={latency}", "!", "rtpL16depay", "!", "queue", "!",
                "fakesink", "sync=true"]
    return pair(receiver, sender)[0]


CASES = (  # period in frames, ptime in ms, latency in ms, whether GStreamer is the goal
    (240, 5, 20, True),
    (240, 1, 20, True),
    (48, 1, 5, False),
)


def processes():
    """Two lines for each case: stall monitor off and on. GStreamer's pair runs in between."""
    lines = [["period, packet, latency", "sender, of a core", "GStreamer", "ratio", "receiver", "GStreamer", "ratio",
              "measured − configured latency", "both below GStreamer"]]
    for period, ptime, latency, wanted in CASES:
        say(f"whole processes, periods of {period} frames and packets of {ptime} ms")
        runs = {"": [], ", stall monitor on": []}
        theirs, excesses = [], []
        for _ in range(REPEATS):
            shares, _, report = taut_pair(period, f"{ptime}ms", f"{latency}ms", "--no-stall-monitor")
            runs[""].append(shares)
            measured = report["streams"][0]["latency"]["measured"]["p50_ns"]
            if measured is not None:
                excesses.append(measured / 1e6 - latency)
            if shutil.which("gst-launch-1.0"):
                theirs.append(gstreamer_pair(period, ptime, latency))
            runs[", stall monitor on"].append(taut_pair(period, f"{ptime}ms", f"{latency}ms")[0])
        for which, ours in runs.items():
            cells, less = [], []
            for side in (0, 1):
                mine, gst = [shares[side] for shares in ours], [shares[side] for shares in theirs]
                ratio = statistics.median(mine) / statistics.median(gst) if gst else None
                cells += [f"{spread(mine)} %", f"{spread(gst)} %" if gst else MISSING, f"{ratio:.2f}" if gst else ""]
                less.append(gst and ratio < 1)
            beyond = f"{spread(excesses, 3)} ms" if excesses and not which else ""
            lines.append([f"{period / 48:g} ms, {ptime} ms, {latency} ms{which}", *cells, beyond,
                          ("met" if all(less) else "**missed**") if wanted and theirs else ""])
    return [lines]


def short_packets():
    say("short packets")
    rows = Rows()
    for ptime, period in (("125us", 48), ("125us", 256), ("1ms", 256)):
        shares = [taut_pair(period, ptime, "20ms", "--no-stall-monitor", coding="l24")[0][0] for _ in range(REPEATS)]
        rows.add(f"sender's share of a core, stereo L24, packets of {ptime.replace('u', ' µ').replace('m', ' m')}, periods of {period} frames",
                 "", f"{spread(shares)} %")
    return [rows.table()]


def size():
    """Size of the program as packages have it."""
    say("size of the program")
    with tempfile.TemporaryDirectory() as folder:
        stripped = os.path.join(folder, "taut")
        subprocess.run(["strip", "--strip-unneeded", "-o", stripped, TAUT], check=True)
        rows = Rows()
        taken = os.path.getsize(stripped) / 1e6
        rows.add("the program as packaged, stripped", f"as built {os.path.getsize(TAUT) / 1e6:.1f} MB",
                 f"{taken:.1f} MB", f"{taken / 8:.2f}", "≤ 8 MB", taken <= 8)
    return [rows.table()]


def anonymous(pid):
    """Anonymous memory of a process in MB: heap and stacks, without files."""
    with open(f"/proc/{pid}/status") as status:
        return int(re.search(r"RssAnon:\s+(\d+) kB", status.read())[1]) / 1e3


def memory_of_calls(count=4):
    """Memory of `taut serve` in MB without calls, and the part that each of `count` calls adds in ten seconds."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.PIPE}
    with tempfile.TemporaryDirectory() as home:
        quiet["env"] = {**os.environ, "TAUT_HOME": home, "XDG_RUNTIME_DIR": home}
        address = f"127.0.0.1:{free_port()}"
        ends = ["--output", "null:", "--report", "none"]
        serve = [TAUT, "serve", "--listen", address, "--input", "tone:440", "--max-callers", str(count), *ends]
        processes = [subprocess.Popen(serve, **quiet)]
        try:
            time.sleep(2)
            idle = anonymous(processes[0].pid)
            call = [TAUT, "call", address, "--input", "tone:500", *ends]
            processes += [subprocess.Popen(call, **quiet) for _ in range(count)]
            time.sleep(10)
            if any(process.poll() is not None for process in processes):
                sys.exit(f"bench: `{' '.join(serve)}` or `{' '.join(call)}` ended early; run both by hand")
            return idle, (anonymous(processes[0].pid) - idle) / count
        finally:
            for process in reversed(processes):
                process.terminate()
                process.wait()


def memory_of_a_process():
    rows = Rows()
    idle, each = memory_of_calls()
    rows.add("memory that each of four calls adds to taut serve", f"{idle:.1f} MB without calls", f"{each:.1f} MB",
             f"{each / 5:.2f}", "≤ 5 MB", each <= 5)
    say("memory of taut recv")
    # By then each ring buffer has wrapped, and all pages are in use.
    settle = window = 5 if REPEATS == 1 else 30
    _, (now, peak, growth), _ = taut_pair(48, "1ms", "5ms", settle=settle, window=window)
    rows.add("resident memory of taut recv", "", f"{now:.1f} MB (peak {peak:.1f})", f"{now / 10:.2f}", "≤ 10 MB",
        max(now, peak) <= 10)
    # The seconds of a quick run are too few for an hour's growth.
    if REPEATS > 1:
        hour = now + growth * (3600 - window) / window
        rows.add(f"— its growth in {window} s after the first {settle}", "", f"{growth * 1e3:+.0f} kB", "",
                 f"flat; {hour:.1f} MB after an hour at that", hour <= 10)
    return [rows.table()]


def starts():
    rows = Rows()
    say("start")
    helps = []
    for _ in range(20 * REPEATS):
        began = time.monotonic()
        subprocess.run([TAUT, "--help"], stdout=subprocess.DEVNULL)
        helps.append((time.monotonic() - began) * 1e3)
    middle = statistics.median(helps)
    rows.add("start of taut --help", "", f"{middle:.1f} ms (least {min(helps):.1f})", "", "≤ 10 ms", middle <= 10)
    ready = [until_ready() for _ in range(10 * REPEATS)]
    middle = statistics.median(ready)
    rows.add("taut recv from start to bound and playing", "", f"{middle:.1f} ms (least {min(ready):.1f})", "",
        "≤ 50 ms", middle <= 50)
    return [rows.table()]


def until_ready():
    """Milliseconds until the UDP port is bound and the device's thread runs."""
    port = free_port()
    began = time.monotonic()
    process = subprocess.Popen(
        [TAUT, "recv", "--from", f"rtp://127.0.0.1:{port}", "--output", "null:", "--rate", "48000",
         "--channels", "2", "--report", "none"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        bound = f":{port:04X} "
        while time.monotonic() - began < 5:
            with open("/proc/net/udp") as sockets:
                if bound in sockets.read() and "taut-device" in threads(process.pid):
                    break
        return (time.monotonic() - began) * 1e3
    finally:
        process.terminate()
        process.wait()


def threads(pid):
    names = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/comm") as comm:
                names.append(comm.read().strip())
    except OSError:
        pass  # the thread has ended
    return names
