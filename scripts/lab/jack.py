"""Scenarios of JACK's own tools, on a host that is never late."""

import contextlib
import json
import re
import shutil
import signal
import subprocess
import time

from lab import guest, scenarios
from lab.guest import read, wait_until
from lab.judge import Wrong, near
from lab.scenarios import Skipped, scenario

ADDRESS = "rtp://127.0.0.1:5980"
SAYS_NOTHING = {"stdout": subprocess.DEVNULL}
# Allowed deviation of jack_iodelay from the configured latency: 0.1 ms in frames.
NEAR = 4.8
CONFIGURED_MS = 5
READ = "/run/iodelay"


@contextlib.contextmanager
def started(command, **more):
    """A program, until the end of the block."""
    program = subprocess.Popen(command, stderr=subprocess.STDOUT, text=True, **more)
    try:
        yield program
    finally:
        program.send_signal(signal.SIGINT)
        try:
            program.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            program.kill()
            program.communicate()


@contextlib.contextmanager
def server(period):
    """A JACK server without a card, with cycles of `period` frames."""
    if not shutil.which("jackd") or not shutil.which("jack_iodelay"):
        fix = "apt-get install jackd2, and jack-example-tools if available"
        raise Skipped("package", f"JACK is not installed: {fix}")
    with started(["jackd", "-R", "-P", "70", "-d", "dummy", "-r", "48000", "-p", str(period)], **SAYS_NOTHING):
        # jack_wait prints many messages until the server runs.
        wait = ["jack_wait", "--wait", "--timeout", "20"]
        subprocess.run(wait, check=True, stderr=subprocess.STDOUT, **SAYS_NOTHING)
        yield


@scenario("all", "cards")
def jack_iodelay_reads_the_latency_that_was_configured_within_a_tenth_of_a_millisecond():
    common = ["--channels", "1", "--latency", f"{CONFIGURED_MS}ms", "--no-stall-monitor"]
    recv = [guest.taut, "recv", "--from", ADDRESS, "--rate", "48000", "--output", "jack:hears?connect=jack_delay:in"]
    send = [guest.taut, "send", "--input", "jack:sends?connect=jack_delay:out", "--to", ADDRESS]
    with server(48):
        with open(READ, "w") as out, started(["stdbuf", "-oL", "jack_iodelay"], stdout=out):
            wait_until(lambda: "new capture latency" in read(READ), "no output from jack_iodelay")
            with started([*recv, *common], **SAYS_NOTHING), started([*send, *common], **SAYS_NOTHING):
                wait_until(readings, "no reading from jack_iodelay")
                # Four readings a second; the first ones include the time before the connection.
                time.sleep(5)
                found = readings()[4:]
    wrong = near(found, 48 * CONFIGURED_MS, NEAR)
    if wrong:
        raise Wrong(f"{', '.join(wrong)}: {found}")
    return f"{min(found)} to {max(found)} frames of {48 * CONFIGURED_MS}, {len(found)} readings"


def readings():
    return [float(frames) for frames in re.findall(r"([0-9.]+) frames +[0-9.]+ ms total", read(READ))]


@scenario("all", each=("--latency 5.4ms --ptime 1334us", "defaults"))
def at_64_frames_no_packet_is_late_between_the_cards_of_one_server(case):
    """The minimum latency leaves 67 us here. Connected from card to card, because unconnected ports have less latency."""
    chosen = case.split() if case.startswith("--") else []
    seconds, common = min(scenarios.seconds, 10), ["--channels", "1", "--quiet", "--report", "json"]
    recv = [guest.taut, "recv", "--from", ADDRESS, "--output", "jack:hears?connect=system"]
    send = [guest.taut, "send", "--input", "jack:sends?connect=system", "--to", ADDRESS, "--duration", f"{seconds}s"]
    with server(64):
        hears = subprocess.Popen([*recv, *common, *chosen[:2], "--exit-on-bye"], stdout=subprocess.PIPE, text=True)
        try:
            sends = subprocess.run([*send, *common, *chosen], check=True, capture_output=True, text=True)
            out, _ = hears.communicate(timeout=20)
        finally:
            hears.kill()
            hears.wait()
    promised, kept = [json.loads(said)["streams"][0] for said in (sends.stdout, out)]
    packets = kept["counters"]
    promised, kept = [end["latency"]["configured_ns"] for end in (promised, kept)]
    result = f"{packets['late']} of {packets['packets_received']} late at {kept / 1e6:.1f} ms, {packets['xruns']} xruns"
    if packets["late"] or packets["packets_received"] < 700 * seconds or kept != promised:
        raise Wrong(f"{result}, {promised / 1e6:.1f} ms promised")
    return result
