"""A virtual cable: taut at one end, a player of a tone or a recorder at the other."""

import contextlib
import csv
import json
import math
import subprocess
from array import array

from lab import guest
from lab.guest import read, wait_until
from lab.judge import Wrong

WAYS = ("capture", "playback")
# Frames of S16_LE, stereo.
TONE, RECORDED = "/run/tone.raw", "/run/recorded.raw"
HEARD = "/run/heard.wav"
LEDGER = "/run/{}.csv"


class Cable:
    def __init__(self, way, number, card="Loopback"):
        """The card's device 1 captures the audio that its device 0 plays."""
        near = WAYS[::-1].index(way)
        self.way, self.number = way, number
        self.near, self.far = (f"hw:{card},{device},{number}" for device in (near, 1 - near))
        self.status = f"/proc/asound/{card}/pcm{near}{way[0]}/sub{number}/status"

    def device(self, options=""):
        """The device of taut, in the format of the other end."""
        return f"alsa:{self.near}?format=S16_LE{options}"

    def runs(self):
        with contextlib.suppress(OSError):
            return "RUNNING" in read(self.status)
        return False

    @contextlib.contextmanager
    def far_end(self, period):
        """Plays a tone or records with an ordinary program. Its buffer is long, so that it has no xruns."""
        write_tone()
        program = ["aplay", TONE] if self.way == "capture" else ["arecord", RECORDED]
        command = [program[0], "-q", "-D", self.far, f"--period-size={period}",
                   f"--buffer-size={16384 // period * period}", "-f", "S16_LE", "-c", "2", "-r", "48000", "-t", "raw",
                   program[1]]
        other = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            yield
        finally:
            other.terminate()
            said = other.communicate()[1]
        if "run" in said:
            raise Wrong(f"{program[0]}: {said.strip()}")


def write_tone(seconds=20):
    """Writes 997 Hz at a quarter of full scale: whole periods in each second."""
    second = array("h")
    for frame in range(48000):
        second.extend([round(8192 * math.sin(2 * math.pi * 997 * frame / 48000))] * 2)
    with open(TONE, "wb") as file:
        for _ in range(seconds):
            second.tofile(file)


class Carried:
    """Results of a run."""

    def __init__(self):
        self.reports, self.met, self.late = {}, [], 0

    def subject(self, way):
        """The report of the program that used the card."""
        return self.reports["send" if way == "capture" else "recv"]

    def counters(self, way):
        return self.subject(way)["streams"][0]["counters"]


@contextlib.contextmanager
def carried(cable, shape, seconds, options=""):
    """taut sends audio from the cable to a file, or a tone to the cable. Afterwards the yielded value has the results."""
    result, programs = Carried(), {}
    address = f"rtp://127.0.0.1:{5900 + 2 * cable.number + 20 * WAYS.index(cable.way)}"
    from_card = cable.way == "capture"
    common = ["--period", str(shape.period), "--no-stall-monitor", "--report", "json"]
    card = cable.device(options)
    recv = ["--from", address, "--output", f"file:{HEARD}" if from_card else card, "--rate", "48000", "--channels",
            "2", "--overwrite", "--exit-on-bye", *shape.more["recv"]]
    send = ["--input", card if from_card else "tone:997", "--to", address, "--ptime", shape.ptime, "--latency",
            shape.latency, "--duration", f"{seconds}s", *shape.more["send"]]
    for role, arguments in (("recv", recv), ("send", send)):
        programs[role] = subprocess.Popen(
            [guest.taut, role, *arguments, *common, "--packet-log", LEDGER.format(role)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(cable.runs, f"{cable.status} does not say RUNNING")
        yield result, programs["send" if from_card else "recv"]
        for role in ("send", "recv"):
            out, said = programs[role].communicate(timeout=60)
            if programs[role].returncode != 0 or not out:
                raise Wrong(f"taut {role} ended with {programs[role].returncode}: {said.strip()}")
            result.reports[role] = json.loads(out)
    finally:
        for program in programs.values():
            program.kill()
            program.wait()
    result.met, result.late = met("send", "capture") if from_card else met("recv", "dac")


def met(role, column):
    """When each packet was at the card's converter, as (frame, instant), and the number of late packets, from the packet
    log."""
    with open(LEDGER.format(role)) as ledger:
        lines = list(csv.DictReader(ledger))
    # RTP timestamps begin at any 32-bit value.
    first = int(lines[0]["rtp_timestamp"]) if lines else 0
    in_time = [line for line in lines if line.get("late", "0") == "0"]
    found = [((int(line["rtp_timestamp"]) - first + 2**31) % 2**32 - 2**31, int(line[column])) for line in in_time]
    return sorted(found), len(lines) - len(found)


def spans(high_bytes):
    """Stretches of audio, as (first frame, last frame). A millisecond of silence ends a stretch."""
    found = []
    for frame, value in enumerate(high_bytes):
        if value > 4 or value < -4:
            if found and frame - found[-1][1] < 48:
                found[-1][1] = frame
            else:
                found.append([frame, frame])
    return found


def recorded():
    """Stretches of audio in the recording."""
    with open(RECORDED, "rb") as file:
        return spans(array("b", file.read()[1::4]))


def heard():
    """Stretches of audio in the WAV file of taut recv, which has 24 bits and the data in the second chunk."""
    with open(HEARD, "rb") as file:
        content = file.read()
    begin = content.index(b"data") + 8
    return spans(array("b", content[begin + 2::6]))
