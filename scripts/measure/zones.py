"""Zones of a building: announcements, their skew, dead stations, and cost."""

import re

from measure.tools import REPEATS, Rows, cargo_bench, output, say

WHOLE = REPEATS > 1
ZONES, PAGES = (50, 20) if WHOLE else (4, 2)
FAN_OUT = 200
PRESS_MS, DEAD_MS, P50_US, P999_US, TIMES, BUSY_PERCENT = 50, 500, 100, 500, 1.3, 10
QUANTILES = re.compile(r"(\w+): (\d+) times, (\d+) missed, p50 (\S+) us, p99 (\S+) us, p99.9 (\S+) us, maximum (\S+) us")
SIMULATED = re.compile(r"(start|duck|restore): p50 (\S+), p99.9 (\S+), maximum (\S+) of (\d+)")
UNITS = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}


def micros(text):
    value, unit = re.fullmatch(r"([\d.]+)([a-z]+)", text).groups()
    return float(value) * UNITS[unit]


def skew(rows, what, among, p50, p999, count):
    rows.add(f"skew of {what} between zones, {among}", "", f"p50 {p50:.0f} µs, p99.9 {p999:.0f} µs, {count} pairs", "",
             f"p50 ≤ {P50_US} µs, p99.9 ≤ {P999_US} µs", p50 <= P50_US and p999 <= P999_US)


def simulated(rows):
    """The test fails if an announcement is lost or doubled."""
    name = "announcements_of_1000_runs_are" if WHOLE else "announcements_are"
    said = output("cargo", "test", "--locked", "-q", "--profile", "soak", "-p", "tautline-sim", "--test", "scenarios", name, "--",
                  *(["--ignored"] if WHOLE else []), "--nocapture")
    turns, faults = re.search(r"(\d+) turns, (\d+) under faults", said).groups()
    runs = 1000 if WHOLE else 40
    rows.add(f"announcements lost or doubled in {runs} simulated runs, half of them with partitions, deaths and restarts",
             f"{turns} turns, {faults} under faults", "0", "", "0", True)
    for what, p50, p999, _, count in SIMULATED.findall(said):
        skew(rows, what, "simulated clocks ±50 ppm", micros(p50), micros(p999), count)


def quantiles(case, *numbers):
    """The lines of a case of the bench: name, times, missed, p50, p99, p99.9 and maximum in microseconds."""
    said = cargo_bench("tautline-lab", "zones", case, *map(str, numbers))
    return [(name, int(times), int(missed), *map(float, found)) for name, times, missed, *found in QUANTILES.findall(said)]


def zones():
    rows = Rows()
    say("simulated zones")
    simulated(rows)
    say(f"{ZONES} zones, {PAGES} pages")
    for _, times, missed, p50, p99, *_ in quantiles("press", ZONES, PAGES):
        rows.add(f"from the first captured frame to the sound in {ZONES} zones, link offset 20 ms", f"{times} starts, {missed} missed",
                 f"p50 {p50 / 1e3:.2f} ms, p99 {p99 / 1e3:.2f} ms", "", f"p99 ≤ {PRESS_MS} ms", p99 <= PRESS_MS * 1e3 and not missed)
    say("skew between zones, and dead stations")
    for what, times, missed, p50, _, p999, _ in quantiles("skew", 4, PAGES):
        skew(rows, what, "4 zones on impaired paths, cards ±50 ppm", p50, p999, f"{times}, {missed} missed")
    for _, times, missed, p50, _, p999, _ in quantiles("switch", 4, PAGES):
        skew(rows, "a switch of the source", "4 zones on impaired paths, cards ±50 ppm", p50, p999, f"{times}, {missed} missed")
    for _, times, missed, p50, *_, maximum in quantiles("dead", PAGES // 2):
        rows.add("from the last frame of a dead station to the return of the program", f"{times} zones, {missed} missed",
                 f"p50 {p50 / 1e3:.1f} ms, maximum {maximum / 1e3:.1f} ms", "", f"≤ {DEAD_MS} ms", maximum <= DEAD_MS * 1e3 and not missed)
    say(f"a stream to {FAN_OUT} zones")
    said = cargo_bench("tautline-engine", "packets", "fan-out", str(FAN_OUT))
    ours, bare, ratio = map(float, re.search(r"taut +(\S+) ns, bare +(\S+) ns, ratio (\S+)", said).groups())
    rows.add(f"packet of 5 ms to one of {FAN_OUT} zones by unicast", f"bare `sendmmsg` {bare / 1e3:.2f} µs", f"{ours / 1e3:.2f} µs",
             f"{ratio:.2f} times", f"≤ {TIMES} times", ratio <= TIMES)
    say("a zone with 16 announcements")
    said = cargo_bench("tautline-lab", "zones", "busy", "10" if WHOLE else "2")
    share, bare, idle = map(float, re.search(r"zone (\S+) %, bare (\S+) %, without announcements (\S+) %", said).groups())
    rows.add("a zone that receives 16 announcements in packets of 1 ms, of a core", f"bare loop {bare:.1f} %, without announcements {idle:.1f} %",
             f"{share:.1f} %", f"{share / bare:.1f} times", f"≤ {BUSY_PERCENT} %", share <= BUSY_PERCENT)
    return [rows.table()]
