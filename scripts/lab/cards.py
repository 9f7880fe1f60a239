"""Scenarios of one card: what it refuses, and what becomes of a stream when it stumbles."""

import contextlib
import json
import os
import re
import signal
import subprocess
import time

from lab import guest
from lab.guest import exact, read, wait_until, write
from lab.judge import Wrong
from lab.scenarios import scenario


def sends(*more, seconds=2):
    """taut sends what a card captures to where nobody listens, for so long: the process."""
    command = [guest.taut, "send", "--to", "rtp://127.0.0.1:5990", "--no-witness", "--report", "json",
               "--duration", f"{seconds}s", *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def report_of(program):
    out, said = program.communicate()
    if program.returncode != 0:
        raise Wrong(f"taut ended with {program.returncode}: {said.strip()}")
    return json.loads(out)


def refusal_of(sender, *words):
    """What it said that could not open its device: one sentence with these words."""
    _, said = sender.communicate()
    missing = [word for word in words if word not in said]
    if sender.returncode != 3 or missing or said.strip().count("\n"):
        raise Wrong(f"status {sender.returncode}, without {missing}: {said.strip()}")
    return said.strip()


@contextlib.contextmanager
def taken(device, rate):
    """Another program plays to the card."""
    player = subprocess.Popen(
        ["aplay", "-q", "-D", device, "--period-size=4410", "--buffer-size=17640", "-f", "S16_LE", "-c", "2",
         "-r", str(rate), "-t", "raw", "/dev/zero"], stderr=subprocess.DEVNULL)
    try:
        status = "/proc/asound/Loopback/pcm0p/sub2/status"
        wait_until(lambda: "RUNNING" in read(status), f"{status} does not say RUNNING")
        yield player
    finally:
        player.terminate()
        player.wait()


@scenario("all", "cards")
def a_card_that_is_taken_says_by_whom():
    with taken("hw:Loopback,0,2", 44100) as player:
        receiver = subprocess.Popen(
            [guest.taut, "recv", "--from", "rtp://127.0.0.1:5992", "--rate", "48000", "--channels", "2",
             "--output", "alsa:hw:Loopback,0,2"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        return refusal_of(receiver, "taken by aplay", str(player.pid))


@scenario("all", "cards")
def a_card_with_one_rate_and_format_names_them():
    with taken("hw:Loopback,0,2", 44100):
        card = "alsa:hw:Loopback,1,2"
        said = refusal_of(sends("--input", card, "--rate", "48000"), "only at 44100 Hz", "--rate 44100",
                          "alsa:plughw:")
        refusal_of(sends("--input", card, "--rate", "44100", "--channels", "4"), "2 channels", "--channels 2")
        refusal_of(sends("--input", f"{card}?format=S32_LE", "--rate", "44100"), "format=S16_LE")
        refusal_of(sends("--input", "alsa:hw:Loopback,1,3", "--period", "1"), "frames long", "--period 8")
    return said


@scenario("all", "cards")
def a_program_that_stood_still_counts_one_xrun_and_goes_on():
    with exact(48):
        sender = sends("--input", "alsa:hw:Loopback,1,4", "--period", "48", "--periods", "2", seconds=3)
        status = "/proc/asound/Loopback/pcm1c/sub4/status"
        wait_until(lambda: "RUNNING" in read(status), f"{status} does not say RUNNING")
        time.sleep(0.5)
        sender.send_signal(signal.SIGSTOP)
        time.sleep(0.2)
        sender.send_signal(signal.SIGCONT)
        report = report_of(sender)
    counters = report["streams"][0]["counters"]
    sent = counters["packets_sent"]
    if counters["xruns"] != 1 or not 2600 <= sent <= 2850:
        raise Wrong(f"{counters['xruns']} xruns, {sent} packets, {report['notes']}")
    return f"1 xrun, {sent} packets of 1 ms in 3 s with 0.2 s of standstill"


def pull_out():
    """The near card goes, and comes back once every program has let it go."""
    driver = "/sys/bus/platform/drivers/snd_aloop"
    # The driver waits until nobody has the card any more.
    puller = subprocess.Popen(["sh", "-c", f"echo snd_aloop.0 > {driver}/unbind"])
    try:
        wait_until(lambda: puller.poll() is not None, "taut does not let the card go")
    finally:
        write(f"{driver}/bind", "snd_aloop.0")


def gone_and_back(report, device):
    """What it said of a device that was pulled out: that it went, and that it is back."""
    notes = [note for note in report["notes"] if device in note]
    for words in ("not there any more", "it is back"):
        if not any(words in note for note in notes):
            raise Wrong(f"nothing of ‘{words}’ in {notes}")
    return notes[0]


@scenario("all", "cards")
def a_card_that_is_pulled_out_is_taken_back():
    sender = sends("--input", "alsa:hw:Loopback,1,5", "--period", "480", "--periods", "4", "--ptime", "10ms",
                   "--latency", "100ms", seconds=7)
    time.sleep(2)
    pull_out()
    return gone_and_back(report_of(sender), "Loopback,1,5")


@scenario("all", "cards")
def a_card_that_is_pulled_out_while_it_plays_is_taken_back_and_plays():
    address = "rtp://127.0.0.1:5994"
    receiver = subprocess.Popen(
        [guest.taut, "recv", "--from", address, "--output", "alsa:hw:Loopback,0,5", "--period", "480",
         "--periods", "4", "--no-witness", "--report", "json", "--until-bye"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    sender = subprocess.Popen(
        [guest.taut, "send", "--input", "tone:997", "--to", address, "--period", "480", "--ptime", "10ms",
         "--latency", "100ms", "--no-witness", "--duration", "8s", "--report", "none"],
        stderr=subprocess.PIPE, text=True)
    time.sleep(3)
    pull_out()
    status = "/proc/asound/Loopback/pcm0p/sub5/status"
    wait_until(lambda: os.path.exists(status) and "RUNNING" in read(status), f"{status} does not say RUNNING")
    if sender.wait() != 0:
        raise Wrong(f"taut send ended with {sender.returncode}: {sender.stderr.read().strip()}")
    return gone_and_back(report_of(receiver), "Loopback,0,5")


@scenario("all", "cards")
def a_timer_wakes_where_a_card_moves_in_steps_of_four_periods():
    sender = sends("--input", "alsa:hw:Loopback,1,6?wakeup=timer", "--period", "48", "--periods", "12", seconds=3)
    counters = report_of(sender)["streams"][0]["counters"]
    sent = counters["packets_sent"]
    if counters["xruns"] or not 2900 <= sent <= 3010:
        raise Wrong(f"{counters['xruns']} xruns, {sent} packets")
    return f"{sent} packets of 1 ms in 3 s"


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
        raise Wrong("none was run")
    return f"{passed} passed"
