"""Scenarios of JACK's own tools, on a host that is never late."""

import contextlib
import re
import shutil
import signal
import subprocess
import time

from lab import guest
from lab.guest import read, wait_until
from lab.judge import Wrong, near
from lab.scenarios import Skipped, scenario

# 0.1 ms, in frames: what jack_iodelay may read beside what was configured.
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


@scenario("all", "cards")
def jack_iodelay_reads_the_latency_that_was_configured_within_a_tenth_of_a_millisecond():
    if not shutil.which("jackd") or not shutil.which("jack_iodelay"):
        raise Skipped("package", "JACK is not installed: apt-get install jackd2")
    address, common = "rtp://127.0.0.1:5980", ["--channels", "1", "--latency", f"{CONFIGURED_MS}ms", "--no-witness"]
    recv = [guest.taut, "recv", "--from", address, "--rate", "48000", "--output", "jack:hears?connect=jack_delay:in"]
    send = [guest.taut, "send", "--input", "jack:sends?connect=jack_delay:out", "--to", address]
    said = {"stdout": subprocess.DEVNULL}
    with started(["jackd", "-R", "-P", "70", "-d", "dummy", "-r", "48000", "-p", "48"], **said):
        # It says much while there is no server yet.
        subprocess.run(["jack_wait", "--wait", "--timeout", "20"], check=True, stderr=subprocess.STDOUT, **said)
        with open(READ, "w") as out, started(["stdbuf", "-oL", "jack_iodelay"], stdout=out):
            wait_until(lambda: "new capture latency" in read(READ), "jack_iodelay says nothing")
            with started([*recv, *common], **said), started([*send, *common], **said):
                wait_until(readings, "jack_iodelay hears nothing")
                # Four a second; the first of them hold what was before there was a way.
                time.sleep(5)
                found = readings()[4:]
    wrong = near(found, 48 * CONFIGURED_MS, NEAR)
    if wrong:
        raise Wrong(f"{', '.join(wrong)}: {found}")
    return f"{min(found)} to {max(found)} frames of {48 * CONFIGURED_MS}, {len(found)} readings"


def readings():
    return [float(frames) for frames in re.findall(r"([0-9.]+) frames +[0-9.]+ ms total", read(READ))]
