"""What a server of many callers takes."""

import json
import os
import statistics
import subprocess
import tempfile
import time

from measure.many import open_files
from measure.processes import processor, resident
from measure.tools import REPEATS, TAUT, Rows, say, spread

CALLERS, SOUNDING = 100, 20
SECONDS = 5 if REPEATS == 1 else 30


def wait_for(path, text, times=1):
    """Until a file has a text so often."""
    until = time.monotonic() + 120
    while True:
        with open(path) as file:
            if file.read().count(text) >= times:
                return
        if time.monotonic() > until:
            raise SystemExit(f"bench: {text!r} was not said {times} times; run taut serve and taut call by hand")
        time.sleep(0.05)


class Called:
    """A server on one core, and its callers on the others: all are in a call, and some of them have sound."""

    def __init__(self, callers, sounding):
        self.folder = tempfile.TemporaryDirectory()
        self.at = lambda name: os.path.join(self.folder.name, name)
        self.report = self.at("report.json")
        cores = os.cpu_count() or 1
        here, there = ("0", f"1-{cores - 1}") if cores > 1 else ("0", "0")
        self.environment = {**os.environ, "TAUT_HOME": self.at("home")}
        line = ["serve", "--listen", "127.0.0.1:0", "--input", "tone:440", "--output", "null:", "--callers", str(callers),
                "--report", "none", "--report-file", self.report]
        self.server = self.start(here, line, "server", limit=8 * callers + 200)
        wait_for(self.at("server"), "listening for calls at ")
        with open(self.at("server")) as said:
            address = said.read().split("listening for calls at ")[1].split()[0]
        self.callers = []
        call = ["call", address, "--input", "tone:1000", "--output", "null:", "--report", "none"]
        for caller in range(callers):
            more = [] if caller < sounding else ["--hold", "--control"]
            self.callers.append(self.start(there, [*call, *more], "callers"))
            # One after the other, as those who call do.
            wait_for(self.at("server"), " calls: ", caller + 1)

    def start(self, core, line, said, limit=1000):
        with open(self.at(said), "a") as file:
            return subprocess.Popen(["taskset", "-c", core, TAUT, *line], stdin=subprocess.PIPE, stdout=file, stderr=file,
                                    env=self.environment, preexec_fn=open_files(limit))

    def stop(self):
        """What was reported of each direction, newest calls first ended."""
        for caller in self.callers:
            caller.terminate()
        for caller in self.callers:
            caller.wait()
        self.server.terminate()
        self.server.wait()
        with self.folder, open(self.report) as file:
            return json.load(file).get("directions", [])


def callers():
    rows = Rows()
    say(f"{CALLERS} callers, of whom {SOUNDING} sound")
    shares, memories, threads, flaws = [], [], [], []
    for _ in range(REPEATS):
        called = Called(CALLERS, SOUNDING)
        time.sleep(2)
        began, before = time.monotonic(), processor(called.server.pid)
        time.sleep(SECONDS)
        shares.append(100 * (processor(called.server.pid) - before) / (time.monotonic() - began))
        memories.append(resident(called.server.pid)[0])
        threads.append(len(os.listdir(f"/proc/{called.server.pid}/task")))
        counted = [stream["counters"] for way in called.stop() for stream in way["streams"]]
        total = lambda name: sum(counts.get(name, 0) for counts in counted)
        flaws.append((max(counts["xruns"] for counts in counted), total("host_stalled"), total("late") + total("lost"),
                      total("packets_received")))
    xruns, stalled = (statistics.median(flaw[which] for flaw in flaws) for which in (0, 1))
    spoilt, came = (statistics.median(flaw[which] for flaw in flaws) for which in (2, 3))
    rows.add(f"taut serve, {CALLERS} callers connected and {SOUNDING} of them with sound both ways (L24, packets of 2.5 ms)",
             "one core", f"{spread(shares, 1)} % of it", "", "≤ 100 %", statistics.median(shares) <= 100)
    rows.add(f"— xruns in {SECONDS} s", f"{stalled:g} spoilt by the host", f"{xruns:g}", "", "0", xruns <= stalled)
    rows.add("— late or lost of the packets that came", f"{came:g}", f"{spoilt:g}", "", "", None)
    rows.add("— resident memory", "", f"{spread(memories, 1)} MB, {statistics.median(threads):g} threads", "", "", None)
    return [rows.table()]
