"""A stream with adaptive latency, over a network with recorded delays."""

import contextlib
import json
import signal
import subprocess

from lab import guest
from lab.guest import write
from lab.judge import Wrong, micros
from lab.scenarios import scenario

RECORD = "/run/record.csv"
# Nanoseconds: a packet, the ring buffer, and 5 to 6 ms of delay, because packets leave within the milliseconds of the record.
# The maximum adds half of a band and the lateness of the relay.
MIN, MAX = 8e6, 12.3e6


@contextlib.contextmanager
def running(said, *arguments):
    """Runs taut and waits for a message. Afterwards the list has its report."""
    program = subprocess.Popen([guest.taut, *arguments, "--report", "json"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    report = []
    try:
        if not any(said in line for line in program.stderr):
            raise Wrong(f"no {said!r} from taut {arguments[0]}")
        yield report
    finally:
        program.send_signal(signal.SIGINT)
        out, rest = program.communicate()
    if program.returncode != 0:
        raise Wrong(f"taut {arguments[0]} ended with {program.returncode}: {rest.strip()}")
    report.append(json.loads(out))


@scenario("all")
def auto_latency_rises_with_spikes_and_comes_down_after_them():
    # Three seconds with a spike of 5 ms each half second, then none. The receiver remembers spikes for 10 to 12 s, and
    # lowers the latency afterwards.
    spikes = (6000 - 1000 * (milli % 500) if milli < 3000 else 0 for milli in range(20_000))
    write(RECORD, "delay_us every 1ms\n" + "".join(f"{max(spike, 1000)}\n" for spike in spikes))
    relay = ("lab", "impair", "--listen", "rtp://127.0.0.1:6004", "--to", "rtp://127.0.0.1:5004",
             "--trace", RECORD, "--once", "--back", "ideal")
    recv = ("recv", "--from", "rtp://127.0.0.1:5004", "--output", "null:", "--latency", "auto", "--no-stall-monitor")
    with running("taut: relaying ", *relay), running("taut: listening at ", *recv) as heard:
        subprocess.run([guest.taut, "send", "--input", "tone:997", "--to", "rtp://127.0.0.1:6004",
                        "--duration", "18s", "--report", "none", "--no-stall-monitor"], check=True,
                       stderr=subprocess.DEVNULL)
    stream = heard[0]["streams"][0]
    auto, counters = stream["latency"]["auto"], stream["counters"]
    result = f"{micros(auto['max_ns'])} at most, {auto['decreases']} decreases, {counters['late']} late"
    if not MIN <= auto["max_ns"] < MAX or auto["decreases"] < 1 or counters["lost"]:
        raise Wrong(result)
    return result
