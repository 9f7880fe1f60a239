"""The scenario of a building: three machines with cards play six zones in step."""

import contextlib
import json
import os
import subprocess
import time
import wave
from array import array

from lab import guest
from lab.cable import Cable
from lab.guest import exact, read, sh, wait_until, write
from lab.judge import Wrong
from lab.scenarios import scenario

RATE, PERIOD = 48000, 96
# Channels and address of each machine. The cards have one clock, so that recordings can be compared.
MACHINES = {"cellar": (5, "10.8.0.11"), "gym": (2, "10.8.0.12"), "office": (2, "10.8.0.13")}
# Node, first channel and volume of each zone.
ZONES = {"hall": ("cellar", [1, 2], 0), "corridor": ("cellar", [3], -6), "library": ("cellar", [4], -12),
         "yard": ("cellar", [5], 0), "gym": ("gym", [1, 2], 0), "office": ("office", [1, 2], -6)}
# The chime is louder than the music, which is lowered by 20 dB meanwhile.
MUSIC, SPORT, CHIME = 2000, 1000, 8000
# Cards change their position once a period.
IN_STEP_MS = 1000 * PERIOD / RATE
HOME = "/run/building"


def home(machine):
    return f"{HOME}/{machine}"


def run(machine, line, statuses=(0,)):
    command = ["ip", "netns", "exec", machine, guest.taut, *line.split()]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=home(machine),
                           env={**os.environ, "TAUT_HOME": home(machine)})
    if ended.returncode not in statuses:
        raise Wrong(f"{machine}: taut {line}: status {ended.returncode}: {ended.stdout}{ended.stderr}")
    return ended.stdout


def write_square(path, level, seconds):
    """Writes a mono square wave of 480 Hz: each half period has its level."""
    with wave.open(path, "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", None))
        file.writeframes(array("h", ([level] * 50 + [-level] * 50) * (480 * seconds)).tobytes())


def building():
    lines = ['epoch = 1', 'announcements = "239.255.77.1:5004"', 'latency = "60ms"', 'srtp-key-file = "building.key"',
             'timezone = "UTC"', 'schedule-clock = "any"', '[priorities]', 'page = 100']
    for number, (machine, (channels, address)) in enumerate(MACHINES.items()):
        device = Cable("playback", number).device()
        lines += [f'[node.{machine}]', f'host = "{address}"', f'[node.{machine}.card.main]', f'device = "{device}"',
                  f'channels = {channels}', f'period = {PERIOD}', 'periods = 8']
    for number, (name, machine) in enumerate((("music", "cellar"), ("sport", "gym")), 1):
        lines += [f'[source.{name}]', f'files = ["{HOME}/{name}.wav"]', f'node = "{machine}"',
                  f'address = "239.255.78.{number}:5004"']
    for number, (zone, (machine, channels, volume)) in enumerate(ZONES.items(), 1):
        lines += [f'[zone.{zone}]', f'number = {number}', f'node = "{machine}"', 'card = "main"',
                  f'channels = {channels}', f'volume = "{volume}dB"', 'source = "music"']
    lines += ['[group.all]', 'number = 100', f'members = {json.dumps(list(ZONES))}',
              '[station.reception]', 'node = "office"', 'input = "tone:880"', 'priority = "page"', 'rank = 1',
              'to = ["all"]', '[message.chime]', 'file = "chime.wav"',
              '[preset.evening]', 'all = { volume = "-20dB" }',
              '[schedule.closing]', 'at = "21:55"', 'zones = ["all"]', 'station = "reception"', 'message = "chime"']
    return "\n".join(lines) + "\n"


@contextlib.contextmanager
def machines():
    """Namespaces of the machines at a switch, with the building file, its recordings, and each other's keys."""
    sh("ip netns add switch")
    sh("ip -n switch link add br0 type bridge forward_delay 0 mcast_snooping 0")
    sh("ip -n switch link set br0 up")
    try:
        for machine, (_, address) in MACHINES.items():
            sh(f"mkdir -p {home(machine)}")
            sh(f"ip netns add {machine}")
            sh(f"ip -n switch link add {machine} type veth peer name eth0 netns {machine}")
            sh(f"ip -n switch link set {machine} master br0 up")
            for line in ("link set lo up", f"addr add {address}/24 dev eth0", "link set eth0 up",
                         "route add 224.0.0.0/4 dev eth0"):
                sh(f"ip -n {machine} {line}")
            write(f"{home(machine)}/building.toml", building())
            write_square(f"{home(machine)}/chime.wav", CHIME, 1)
        for name, level in (("music", MUSIC), ("sport", SPORT)):
            write_square(f"{HOME}/{name}.wav", level, 60)
        keys = {machine: run(machine, "id").split()[1] for machine in MACHINES}
        run("office", "srtp-key building.key")
        for machine in MACHINES:
            if machine != "office":
                sh(f"cp {home('office')}/building.key {home(machine)}/")
            for other, key in keys.items():
                if other != machine:
                    run(machine, f"trust {other} {key}")
        yield
    finally:
        for machine in (*MACHINES, "switch"):
            subprocess.run(["ip", "netns", "del", machine], check=False)


@contextlib.contextmanager
def nodes():
    started = []
    try:
        for machine in MACHINES:
            started.append(subprocess.Popen(
                ["ip", "netns", "exec", machine, guest.taut, "node"], cwd=home(machine),
                env={**os.environ, "TAUT_HOME": home(machine)}, stdout=subprocess.DEVNULL,
                stderr=open(f"{home(machine)}/log", "w")))
        yield
    except Wrong as wrong:
        raise Wrong(f"{wrong} {' '.join(read(f'{home(machine)}/log') for machine in MACHINES)}") from wrong
    finally:
        for node in started:
            node.terminate()
        for node in started:
            node.wait(30)


def states():
    # Status 1: the guest's clock is not synchronized, which is a fault.
    listed = json.loads(run("gym", "zones --report json", statuses=(0, 1)))
    return {zone["zone"]: zone for node in listed["nodes"] for zone in node.get("zones", [])}


def wait_for(sources):
    """Waits until each zone plays its source."""
    def playing():
        return {name: zone["source"] for name, zone in states().items() if zone["state"] == "playing"}
    wait_until(lambda: playing() == sources, f"the zones do not play {sources}", 60)


class Recorder:
    """Records the far end of each card."""

    def __init__(self):
        self.programs = {}
        for number, (machine, (channels, _)) in enumerate(MACHINES.items()):
            path = f"{HOME}/{machine}.raw"
            self.programs[machine] = subprocess.Popen(
                ["arecord", "-q", "-D", Cable("playback", number).far, f"--period-size={PERIOD}",
                 f"--buffer-size={32 * PERIOD}", "-f", "S16_LE", "-c", str(channels), "-r", str(RATE), "-t", "raw", path],
                stderr=subprocess.PIPE, text=True)
        for number in range(len(MACHINES)):
            wait_until(Cable("capture", number).runs, f"arecord {number} does not run")

    def end(self):
        """The samples of each zone, and the time of its first one in seconds."""
        found = {}
        for number, (machine, program) in enumerate(self.programs.items()):
            begin = float(guest.started(Cable("capture", number).status))
            program.terminate()
            said = program.communicate()[1]
            if "overrun" in said:
                raise Wrong(f"arecord at {machine}: {said.strip()}")
            samples = array("h")
            with open(f"{HOME}/{machine}.raw", "rb") as file:
                samples.frombytes(file.read())
            channels = MACHINES[machine][0]
            for zone, (node, used, _) in ZONES.items():
                if node == machine:
                    found[zone] = begin, samples[used[0] - 1::channels]
        return found


def level(samples):
    """Of a square wave: its median magnitude."""
    return sorted(map(abs, samples))[len(samples) // 2]


def expect_level(zone, found, expected):
    if not 0.8 * expected < found < 1.25 * expected:
        raise Wrong(f"{zone}: level {found}, not {expected}")


def gain(zone):
    return 10 ** (ZONES[zone][2] / 20)


@scenario("round")
def six_zones_of_three_machines_play_music_and_a_page_in_step():
    with exact(PERIOD), machines():
        said = run("office", "site check")
        with nodes():
            recorder = Recorder()
            wait_for({zone: "music" for zone in ZONES})
            begin = time.monotonic()
            time.sleep(1)
            run("office", "play all chime")
            run("office", "page hall,gym --duration 1s")
            run("office", "zone library volume -20dB")
            run("gym", "zone gym source sport")
            wait_for({zone: "sport" if zone == "gym" else "music" for zone in ZONES})
            # A switch takes 1.5 s and the latency.
            time.sleep(3)
            end = time.monotonic()
            recorded = recorder.end()
            run("office", "preset evening")
            after = states()
            coming = run("office", "schedule next 1")
    starts = {}
    for zone, (first, samples) in recorded.items():
        at = int((begin - first) * RATE)
        expect_level(zone, level(samples[at:at + RATE // 2]), MUSIC * gain(zone))
        # Louder than the music of any zone.
        threshold = 2 * MUSIC
        start = next((frame for frame in range(at, len(samples)) if abs(samples[frame]) > threshold * gain(zone)), None)
        if start is None:
            raise Wrong(f"{zone}: no chime")
        starts[zone] = first + start / RATE
        last = samples[int((end - first) * RATE) - RATE:int((end - first) * RATE) - RATE // 2]
        expected = {"gym": SPORT, "library": MUSIC * 0.1}.get(zone, MUSIC * gain(zone))
        expect_level(zone, level(last), expected)
    apart = 1000 * (max(starts.values()) - min(starts.values()))
    if apart > IN_STEP_MS:
        raise Wrong(f"the chime starts {apart:.3f} ms apart: {starts}")
    volumes = {zone["volume"] for zone in after.values()}
    if volumes != {"-20dB"} or "closing" not in coming:
        raise Wrong(f"volumes {volumes}, next {coming!r}; {said}")
    return f"the chime starts within {apart:.3f} ms"
