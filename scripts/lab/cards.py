"""Scenarios of settings that a card refuses, and the card tests of the crate."""

import contextlib
import os
import re
import subprocess

from lab import guest
from lab.cable import WAYS, Cable
from lab.guest import wait_until
from lab.judge import Wrong
from lab.scenarios import scenario


@contextlib.contextmanager
def taken(cable, rate):
    """Another program uses the other end of the cable, which fixes its rate and format."""
    program = ["aplay", "/dev/zero"] if cable.way == "capture" else ["arecord", "/dev/null"]
    other = subprocess.Popen(
        [program[0], "-q", "-D", cable.far, "--period-size=4410", "--buffer-size=17640", "-f", "S16_LE", "-c", "2",
         "-r", str(rate), "-t", "raw", program[1]], stderr=subprocess.DEVNULL)
    try:
        wait_until(Cable(other_way(cable.way), cable.number).runs, f"{program[0]} does not run")
        yield other
    finally:
        other.terminate()
        other.wait()


def other_way(way):
    return WAYS[1 - WAYS.index(way)]


def refusal_of(way, device, *options, words):
    """The message of taut if it cannot open its device: one line with these words."""
    roles = {"capture": ["send", "--to", "rtp://127.0.0.1:5990", "--input"],
             "playback": ["recv", "--from", "rtp://127.0.0.1:5992", "--output"]}
    command = [guest.taut, *roles[way], device, "--no-stall-monitor", "--report", "none", "--duration", "2s", *options]
    run = subprocess.run(command, capture_output=True, text=True)
    said = run.stderr.strip()
    missing = [word for word in words if word not in said]
    if run.returncode != 3 or missing or said.count("\n"):
        raise Wrong(f"status {run.returncode}, without {missing}: {said}")
    return said


STEREO_48K = ("--rate", "48000", "--channels", "2")


@scenario("all", "cards", each=WAYS)
def a_card_that_is_taken_says_by_whom(way):
    cable = Cable(way, 2)
    with taken(Cable(other_way(way), 2), 44100) as other:
        return refusal_of(way, f"alsa:{cable.near}", *STEREO_48K, words=("taken by a", str(other.pid)))


@scenario("all", "cards", each=WAYS)
def a_card_with_one_rate_and_format_names_them(way):
    cable = Cable(way, 2)
    fewer = {"capture": "--channels 2", "playback": "--map 1,2"}[way]
    with taken(cable, 44100):
        card = f"alsa:{cable.near}"
        said = refusal_of(way, card, *STEREO_48K, words=("only at 44100 Hz", "--rate 44100", "alsa:plughw:"))
        refusal_of(way, card, "--rate", "44100", "--channels", "4", words=("2 channels", fewer))
        refusal_of(way, f"{card}?format=S32_LE", "--rate", "44100", "--channels", "2", words=("format=S16_LE",))
        free = f"alsa:{Cable(way, 3).near}"
        refusal_of(way, free, *STEREO_48K, "--period", "1", words=("frames long", "--period 8"))
    return said


@scenario("short", "all", "cards")
def the_tests_of_the_crate_with_the_cards_pass_where_there_are_cards():
    programs = os.environ.get("CARD_TESTS", "").split()
    if not programs:
        raise Wrong("CARD_TESTS names no programs; run scripts/lab-test")
    passed = 0
    for program in programs:
        run = subprocess.run([program, "--test-threads", "1"], capture_output=True, text=True)
        if run.returncode != 0 or "no loopback card" in run.stderr:
            raise Wrong(f"{program}: {run.stdout}{run.stderr}")
        passed += sum(int(count) for count in re.findall(r"(\d+) passed", run.stdout))
    if not passed:
        raise Wrong("no test ran")
    return f"{passed} passed"
