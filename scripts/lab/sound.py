"""Scenarios of audio over cards and a network inside the guest."""

import subprocess

from lab import scenarios
from lab.guest import CABLE, OTHER, Shape, chain, delay, exact, round_trip
from lab.judge import (COARSE, Wrong, apart, carried, expect, figure, micros, nothing_lost, verdict,
                       whole)
from lab.scenarios import scenario


@scenario("short", "all")
def a_virtual_cable_delays_nothing():
    with exact(48):
        row = delay(*CABLE, 48, min(scenarios.seconds, 10), settle=1, cards=2)
    return verdict(row, whole(row) or expect(row, 0))


@scenario("short", "all")
def five_milliseconds_configured_are_five_measured_and_nothing_is_lost():
    with exact(48):
        row, reports = chain(Shape(48, "1ms", "5ms"), scenarios.seconds)
    return verdict(row, whole(row) or expect(row, 5e6) + nothing_lost(reports))


@scenario("all")
def two_milliseconds_at_32_frames_are_two_measured_and_nothing_is_lost():
    with exact(32):
        row, reports = chain(Shape(32, "667us", "2ms"), 10)
    return verdict(row, whole(row) or expect(row, 2e6) + nothing_lost(reports))


@scenario("all")
def one_millisecond_at_16_frames_is_one_measured_and_nothing_is_lost():
    with exact(16):
        row, reports = chain(Shape(16, "334us", "1ms"), 10)
    return verdict(row, whole(row) or expect(row, 1e6) + nothing_lost(reports))


# Goal for both directions with drift correction.
ROUND_MS = 2.667


@scenario("round")
def there_and_back_at_16_frames_with_drift_correction_is_below_2667_us():
    """The cards have the same rate, so a change of latency makes the servo resample for forty seconds. Packets that are late
    before the measured interval do not count, because five programs start on one CPU."""
    wrong = []
    with exact(16, OTHER):
        more = ("--resampler", "low-delay", "--packet-log", "/run/$PORT.csv")
        row, reports, (begin, end) = round_trip(
            Shape(16, "334us", "1400us", recv=more), 20, settle=8, changes=("latency 1300us",))
    for way, port in (("there", 5004), ("back", 5014)):
        with open(f"/run/{port}.csv") as ledger:
            wrong += [f"{found} {way}" for found in carried(ledger, begin, end, 16)]
    greatest = row["measured"]["max_ns"]
    if not wrong and greatest + row["uncertainty_ns"] > ROUND_MS * 1e6:
        wrong.append(f"{micros(greatest)} ± {micros(row['uncertainty_ns'])} is not below {ROUND_MS} ms")
    return verdict(row, whole(row) or expect(row, 2 * 1.3e6) + wrong)


@scenario("all")
def a_network_that_takes_two_milliseconds_changes_nothing_in_the_latency():
    with exact(48):
        row, reports = chain(Shape(48, "1ms", "10ms"), 10, ("netem", "delay", "2ms"))
    return verdict(row, whole(row) or expect(row, 10e6) + nothing_lost(reports))


@scenario("all")
def of_a_network_that_loses_one_packet_in_fifty_nothing_is_heard():
    with exact(48):
        shape = Shape(48, "1ms", "10ms", send=("--redundancy", "red:3"))
        row, reports = chain(shape, 10, ("netem", "loss", "2%"))
    repaired = reports["recv"]["streams"][0]["counters"]["repaired"]
    return verdict(row, whole(row) or expect(row, 10e6) + ["no packet was repaired"] * (not repaired))


@scenario("all")
def what_a_network_loses_without_redundancy_is_found():
    """Shows that the other scenarios can fail: the loss must be found."""
    with exact(48):
        row, reports = chain(Shape(48, "1ms", "10ms"), 5, ("netem", "loss", "2%"))
    missed = [sentence for sentence in whole(row) if "marks missed" in sentence]
    if not missed or not nothing_lost(reports):
        raise Wrong(f"packets were lost, but found: {whole(row) + nothing_lost(reports)} ({figure(row)})")
    return f"{missed[0]}, {nothing_lost(reports)[0]}"


@scenario("all", "soak")
def two_cards_100_ppm_apart_drop_and_repeat_nothing():
    # Both ends of the far cable; a card with steps of 4 ms.
    control = "iface=PCM,name='PCM Rate Shift 100000',device=1,subdevice=1"
    subprocess.run(["amixer", "-q", "-c", "Loopback", "cset", control, "100010"], check=True)
    try:
        row, reports = chain(Shape(480, "5ms", "80ms"), scenarios.seconds, settle=10)
    finally:
        subprocess.run(["amixer", "-q", "-c", "Loopback", "cset", control, "100000"], check=True)
    wrong = whole(row) or expect(row, 80e6, COARSE) + nothing_lost(reports) + apart(row, -100)
    return verdict(row, wrong)
