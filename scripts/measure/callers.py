"""Cost of a server with many callers."""

import json
import os
import statistics
import subprocess
import tempfile
import time

from measure.many import open_files
from measure.processes import processor, resident
from measure.tools import REPEATS, TAUT, Rows, say, spread

CALLERS, SOUNDING = 100, 20  # calls, and those of them with audio
PERIOD = "120"  # frames: 2.5 ms
SECONDS = 5 if REPEATS == 1 else 30


def wait_for(path, text, times=1):
    """Waits until a file has a text `times` times."""
    until = time.monotonic() + 120
    while True:
        with open(path) as file:
            if file.read().count(text) >= times:
                return
        if time.monotonic() > until:
            raise SystemExit(f"bench: {text!r} did not appear {times} times; run taut serve and taut call by hand")
        time.sleep(0.05)


class Called:
    """A server on one core and its callers on the others. All are in calls; some have audio."""

    def __init__(self, callers, sounding):
        self.folder = tempfile.TemporaryDirectory()
        self.at = lambda name: os.path.join(self.folder.name, name)
        cores = os.cpu_count() or 1
        here, there = ("0", f"1-{cores - 1}") if cores > 1 else ("0", "0")
        self.environment = {**os.environ, "TAUT_HOME": self.at("home")}
        line = ["serve", "--listen", "127.0.0.1:0", "--input", "tone:440", "--output", "null:", "--max-callers", str(callers),
                "--report", "none", "--period", PERIOD]
        self.server = self.start(here, line, "server", limit=8 * callers + 200)
        wait_for(self.at("server"), "listening for calls at ")
        with open(self.at("server")) as said:
            address = said.read().split("listening for calls at ")[1].split()[0]
        self.callers = []
        call = ["call", address, "--input", "tone:1000", "--output", "null:", "--report", "none", "--no-stall-monitor", "--period", PERIOD]
        for caller in range(callers):
            more = [] if caller < sounding else ["--hold", "--control"]
            self.callers.append(self.start(there, [*call, *more], "callers"))
            # One after the other, as real callers.
            wait_for(self.at("server"), " calls: ", caller + 1)

    def start(self, core, line, said, limit=1000):
        with open(self.at(said), "a") as file:
            return subprocess.Popen(["taskset", "-c", core, TAUT, *line], stdin=subprocess.PIPE, stdout=file, stderr=file,
                                    env=self.environment, preexec_fn=open_files(limit))

    def counted(self):
        """Counters until now: xruns, packets received, packets late or lost."""
        shown = subprocess.run([TAUT, "top", "--once", "--report", "json"], env=self.environment, stdout=subprocess.PIPE, text=True)
        streams = [stream["counters"] for program in json.loads(shown.stdout)["programs"] if program["pid"] == self.server.pid
                   for stream in program["streams"]]
        total = lambda name: sum(counts[name] for counts in streams)
        # The device has the xruns. Each stream counts since its start, so the oldest stream has all of them.
        return max(counts["xruns"] for counts in streams), total("packets_received"), total("late") + total("lost")

    def stop(self):
        with self.folder:
            for process in [*self.callers, self.server]:
                process.terminate()
            for process in [*self.callers, self.server]:
                process.wait()


def flaws_of(servers, watched=lambda: None):
    """Counters of each server while all run together: xruns, packets received, packets late or lost."""
    time.sleep(2)
    before = [called.counted() for called in servers]
    begin = watched()
    time.sleep(SECONDS)
    end = watched()
    after = [called.counted() for called in servers]
    return [[b - a for a, b in zip(*counts)] for counts in zip(before, after)], begin, end


def callers():
    """Measures a server with one caller alone first, then one on the same core next to the server with many callers. The
    host disturbs all of them alike."""
    rows = Rows()
    say(f"{CALLERS} callers, {SOUNDING} with audio")
    shares, memories, threads, flaws, quiet = [], [], [], [], []
    for _ in range(REPEATS):
        single = Called(1, 1)
        quiet.append(flaws_of([single])[0][0][0])
        single.stop()
        servers = [Called(1, 1), Called(CALLERS, SOUNDING)]
        many = servers[1].server.pid
        counts, began, ended = flaws_of(servers, lambda: (time.monotonic(), processor(many)))
        flaws.append(counts)
        shares.append(100 * (ended[1] - began[1]) / (ended[0] - began[0]))
        memories.append(resident(many)[0])
        threads.append(len(os.listdir(f"/proc/{many}/task")))
        for called in servers:
            called.stop()
    alone, xruns = (statistics.median(flaw[which][0] for flaw in flaws) for which in (0, 1))
    came, spoilt = (statistics.median(flaw[1][which] for flaw in flaws) for which in (1, 2))
    share = statistics.median(shares)
    rows.add(f"taut serve on one core: {CALLERS} callers, {SOUNDING} of them with audio both ways (L24, packets of 2.5 ms)", "",
             f"{spread(shares, 1)} % of the core", "", "≤ 100 %", share <= 100)
    # Interruptions hit the two at different instants, so either may have a few more by chance.
    before = statistics.median(quiet)
    most = max(before, alone)
    rows.add(f"— its xruns in {SECONDS} s",
             f"one caller: {before:g} alone; {alone:g} at the same time on the same core",
             f"{xruns:g}", "", "no more than with one", xruns <= most + 2 * most ** 0.5)
    rows.add("— packets late or lost", f"{came:g} received", f"{spoilt:g} ({100 * spoilt / came:.2f} %)")
    rows.add("— resident memory, threads", "", f"{spread(memories, 1)} MB, {statistics.median(threads):g}")
    return [rows.table()]
