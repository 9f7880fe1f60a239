"""Scenarios of streams during xruns and removals of a card, in both directions."""

import signal
import subprocess
import time

from lab.cable import WAYS, Cable, carried, heard, recorded
from lab.guest import Shape, exact, wait_until, write
from lab.judge import FRAME, Wrong, gaps, kept_time, micros, one_hole, packets, sounds
from lab.scenarios import scenario


def noted(report, device):
    """Checks the notes about a removed device: its removal and its return."""
    notes = [note for note in report["notes"] if device in note]
    return [f"no ‘{words}’ in {notes}" for words in ("the card was removed", "it is back")
            if not any(words in note for note in notes)]


def settled(wrong, good):
    if wrong:
        raise Wrong(", ".join(wrong))
    return good


@scenario("all", "cards", each=WAYS)
def a_program_that_stood_still_has_one_xrun_and_lacks_at_most_two_periods_more(way):
    # After the stop a receiver finds packets of 200 ms. With packets of 1 ms, this CPU takes longer than a period for all
    # of them, which causes a second xrun.
    cable, ptime = Cable(way, 4), {"capture": "1ms", "playback": "5ms"}[way]
    with exact(48), cable.far_end(48), carried(cable, Shape(48, ptime, "20ms"), 3) as (run, program):
        time.sleep(1)
        begin = time.monotonic_ns()
        program.send_signal(signal.SIGSTOP)
        time.sleep(0.2)
        stood = time.monotonic_ns() - begin
        program.send_signal(signal.SIGCONT)
    if way == "capture":
        found = gaps(run.met, 48)
        lengths, wrong = [nanos for _, nanos in found], kept_time(found)
    else:
        heard_there = recorded()
        lengths = [(begin - end) * FRAME for (_, end), (begin, _) in zip(heard_there, heard_there[1:])]
        wrong = sounds(heard_there, 0.8, 1.5)
    xruns = run.counters(way)["xruns"]
    wrong += [f"{xruns} xruns"] * (xruns != 1) + one_hole(lengths, stood, 48)
    return settled(wrong, f"1 xrun, a gap of {micros(sum(lengths))} for a stop of {micros(stood)}")


def pull_out():
    """Removes the near card, and returns it when all programs have closed it."""
    driver = "/sys/bus/platform/drivers/snd_aloop"
    # The driver waits until all programs have closed the card.
    puller = subprocess.Popen(["sh", "-c", f"echo snd_aloop.0 > {driver}/unbind"])
    try:
        wait_until(lambda: puller.poll() is not None, "taut does not close the card")
    finally:
        write(f"{driver}/bind", "snd_aloop.0")


@scenario("all", "cards", each=WAYS)
def a_card_that_is_pulled_out_is_taken_back(way):
    """A timer replaces the card: packets continue in time, and audio returns afterwards."""
    periods = ("--periods", "4")
    cable, shape = Cable(way, 5), Shape(480, "10ms", "100ms", send=periods, recv=periods)
    with carried(cable, shape, 8) as (run, _):
        with cable.far_end(480):
            time.sleep(2)
        pull_out()
        wait_until(cable.runs, f"{cable.status} does not say RUNNING")
        with cable.far_end(480):
            time.sleep(2)
    wrong = noted(run.subject(way), cable.near) + packets(run.met, run.late, 800)
    found = gaps(run.met, 480)
    wrong += [f"gaps of {found}"] * (len(found) > 2 or any(nanos > 2 * 480 * FRAME for _, nanos in found))
    wrong += sounds(heard(), 1.5, 1.5) if way == "capture" else sounds(recorded(), 1.5)
    return settled(wrong, f"{len(run.met)} packets of 10 ms in 8 s, and audio afterwards")


@scenario("all", "cards", each=WAYS)
def a_timer_wakes_where_a_card_moves_in_steps_of_four_periods(way):
    periods = ("--periods", "12")
    cable, shape = Cable(way, 6), Shape(48, "1ms", "40ms", send=periods, recv=periods)
    with cable.far_end(480), carried(cable, shape, 3, "&wakeup=timer") as (run, _):
        pass
    xruns = run.counters(way)["xruns"]
    wrong = [f"{xruns} xruns"] * xruns + packets(run.met, run.late, 3000)
    wrong += [f"gaps of {found}" for found in gaps(run.met, 48)]
    wrong += sounds(heard() if way == "capture" else recorded(), 2.9)
    return settled(wrong, f"{len(run.met)} packets of 1 ms in 3 s, and one stretch of audio")
