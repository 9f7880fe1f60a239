"""A building of three machines on loopback cards: music, a page, a message, the schedule and volumes in six zones."""

import contextlib
import json
import math
import os
import re
import struct
import subprocess
import time
import wave

from lab import guest
from lab.guest import sh, write
from lab.judge import Wrong
from lab.scenarios import scenario

RATE = 48000
FILE = "crates/cli/src/cmd/demo/building.toml"
MACHINES = {"cellar": 5, "gym": 2, "office": 2}
# Zone, machine, first channel and volume in decibels, as in the file.
ZONES = {"hall": ("cellar", 0, 0), "corridor": ("cellar", 2, -6), "library": ("cellar", 3, -12), "yard": ("cellar", 4, 0),
         "gym": ("gym", 0, 0), "office": ("office", 0, -6)}
MUSIC_DB, TONE_DB, DUCK_DB = -20, -18, -20
# From a command to its effect on this slow machine.
SOON_S = 60


def describe(bell):
    """The building of the demo with cards, and a message at a time of today."""
    with open(FILE) as file:
        text = file.read()
    for number, machine in enumerate(MACHINES):
        text = re.sub(rf'"virtual:\?[^"]*taut-PID-{machine}[^"]*"', f'"alsa:hw:Loopback,0,{number}"', text)
    text = re.sub(r"period = 96\nperiods = 8", "period = 480\nperiods = 4", text)
    text = text.replace('latency = "60ms"', 'latency = "150ms"').replace("21:55", bell)
    if "virtual:" in text or bell not in text:
        raise Wrong(f"{FILE} changed: a card or the time of the schedule was not found")
    return text


def tone(path, hertz, db, seconds):
    with wave.open(path, "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        samples = (10 ** (db / 20) * math.sin(math.tau * hertz * at / RATE) for at in range(int(RATE * seconds)))
        file.writeframes(b"".join(struct.pack("<h", round(32767 * sample)) for sample in samples))


def on(machine, *words):
    return ["ip", "netns", "exec", machine, "env", f"TAUT_HOME=/run/{machine}", *words]


def taut(machine, *words):
    return subprocess.run(on(machine, guest.taut, *words), cwd=f"/run/{machine}", capture_output=True, text=True)


def furnish(bell):
    for machine in MACHINES:
        os.makedirs(f"/run/{machine}", exist_ok=True)
    run = taut("cellar", "srtp-key", "building.key")
    if run.returncode != 0:
        raise Wrong(f"taut srtp-key: {run.stderr.strip()}")
    keys = {machine: taut(machine, "id").stdout.split()[-1] for machine in MACHINES}
    for machine in MACHINES:
        write(f"/run/{machine}/building.toml", describe(bell))
        if machine != "cellar":
            sh(f"cp -p /run/cellar/building.key /run/{machine}")
        tone(f"/run/{machine}/music.wav", 300, MUSIC_DB, 2)
        tone(f"/run/{machine}/sport.wav", 500, MUSIC_DB, 2)
        tone(f"/run/{machine}/chime.wav", 1500, MUSIC_DB, 2)
        for other, key in keys.items():
            if other != machine and taut(machine, "trust", other, key).returncode != 0:
                raise Wrong(f"{machine} cannot trust {other}")


@contextlib.contextmanager
def network():
    steps = ["ip netns add switch", "ip -n switch link add switch type bridge forward_delay 0 mcast_snooping 0",
             "ip -n switch link set switch up"]
    for number, machine in enumerate(MACHINES):
        steps += [f"ip netns add {machine}", f"ip -n switch link add {machine} type veth peer name eth0 netns {machine}",
                  f"ip -n switch link set {machine} master switch up", f"ip -n {machine} link set lo up",
                  f"ip -n {machine} address add 10.0.0.{11 + number}/24 dev eth0", f"ip -n {machine} link set eth0 up",
                  f"ip -n {machine} route add 224.0.0.0/4 dev eth0"]
    try:
        for step in steps:
            sh(step)
        yield
    finally:
        for name in ("switch", *MACHINES):
            subprocess.run(["ip", "netns", "del", name])


@contextlib.contextmanager
def nodes():
    running = {}
    try:
        for machine in MACHINES:
            log = open(f"/run/{machine}/node.log", "w")
            running[machine] = subprocess.Popen(on(machine, guest.taut, "node"), cwd=f"/run/{machine}", stdout=log, stderr=log)
        yield
    finally:
        for node in running.values():
            node.terminate()
        for machine, node in running.items():
            if node.wait() != 0:
                raise Wrong(f"the node of {machine} ended with {node.returncode}: {guest.read(f'/run/{machine}/node.log')}")


def states():
    """Zones by name, as a machine without the cards of most of them sees them."""
    out = taut("office", "zones", "--report", "json").stdout
    return {zone["zone"]: zone for node in json.loads(out or '{"nodes": []}')["nodes"] for zone in node["zones"]}


def eventually(true, otherwise):
    until = time.monotonic() + SOON_S
    while not true():
        if time.monotonic() > until:
            raise Wrong(f"{otherwise}: {states()}")


class Sound:
    """What the far ends of the cables captured meanwhile."""

    def __enter__(self):
        self.running = {}
        for number, (machine, channels) in enumerate(MACHINES.items()):
            command = f"arecord -q -D hw:Loopback,1,{number} -f S32_LE -c {channels} -r {RATE} -t raw /run/{machine}/card.raw"
            self.running[machine] = subprocess.Popen(command.split(), stderr=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_):
        self.samples = {}
        for machine, run in self.running.items():
            run.terminate()
            said = run.communicate()[1]
            with open(f"/run/{machine}/card.raw", "rb") as file:
                raw = file.read()
            frame = 4 * MACHINES[machine]
            self.samples[machine] = memoryview(raw[:len(raw) // frame * frame]).cast("i")
            if not self.samples[machine]:
                raise Wrong(f"nothing was recorded of the card of {machine}: {said}")

    def levels(self, zone, hertz):
        """Peak level of a frequency in each 50 ms, in decibels of full scale, by a Goertzel filter."""
        machine, channel, _ = ZONES[zone]
        samples = self.samples[machine][channel::MACHINES[machine]]
        window = RATE // 20
        turn = 2 * math.cos(math.tau * hertz / RATE)
        for first in range(0, len(samples) - window, window):
            one = two = 0.0
            for sample in samples[first:first + window]:
                one, two = sample / 2**31 + turn * one - two, one
            power = (one * one + two * two - turn * one * two) * 4 / window**2
            yield 10 * math.log10(max(power, 1e-12))


def near(level, db):
    return abs(level - db) < 1.5


def check_announced(sound, hertz, db, zones):
    """The announcement plays at the volume of each zone, over music that is 20 dB quieter."""
    for zone in zones:
        volume = ZONES[zone][2]
        played, music = list(sound.levels(zone, hertz)), list(sound.levels(zone, 300))
        both = [at for at, level in enumerate(played) if near(level, db + volume)]
        ducked = [at for at in both if near(music[at], MUSIC_DB + DUCK_DB + volume)]
        if len(ducked) < 20 or not near(music[0], MUSIC_DB + volume):
            raise Wrong(f"zone {zone}: {hertz} Hz at {[round(level) for level in played]} dB over music at "
                        f"{[round(level) for level in music]} dB")


def announce(*words, hertz, db):
    with Sound() as sound:
        time.sleep(1)
        run = taut(*words)
        time.sleep(1)
    if run.returncode != 0:
        raise Wrong(f"taut {' '.join(words[1:])} ended with {run.returncode}: {run.stderr.strip()}")
    check_announced(sound, hertz, db, ZONES)


@scenario("building")
def six_zones_on_loopback_cards_play_music_a_page_a_message_and_the_schedule():
    # The next full minute after the other checks.
    bell_at = (time.time() + 240) // 60 * 60
    bell = time.strftime("%H:%M", time.gmtime(bell_at))
    furnish(bell)
    with network(), nodes():
        eventually(lambda: [zone["state"] for zone in states().values()] == ["playing"] * len(ZONES), "not all zones play")
        announce("office", "play", "all", "chime", "--no-chime", hertz=1500, db=MUSIC_DB)
        announce( "office", "page", "all", "--no-chime", "--duration", "3s", hertz=880, db=TONE_DB)
        for words in (("zone", "gym", "volume", "-10dB"), ("zone", "office", "mute")):
            if (run := taut("cellar", *words)).returncode != 0:
                raise Wrong(f"taut {' '.join(words)} ended with {run.returncode}: {run.stderr.strip()}")
        with Sound() as sound:
            time.sleep(1)
        levels = {zone: list(sound.levels(zone, 300))[-1] for zone in ("gym", "office", "hall")}
        if not (near(levels["gym"], MUSIC_DB - 10) and near(levels["hall"], MUSIC_DB) and levels["office"] < -90):
            raise Wrong(f"levels after the changes: {levels}")
        open_zones = [zone for zone in ZONES if zone not in ("gym", "office")]
        time.sleep(max(0, bell_at - time.time() - 3))
        with Sound() as sound:
            time.sleep(8)
        check_announced(sound, 1500, MUSIC_DB, open_zones)
    return f"levels {', '.join(f'{zone} {level:.1f} dB' for zone, level in levels.items())}, bell at {bell}"
