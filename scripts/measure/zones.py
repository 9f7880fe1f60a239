"""Zones of a building: announcements and their skew."""

import re

from measure.tools import REPEATS, Rows, output, say

WHOLE = REPEATS > 1
P50_US, P999_US = 100, 500
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


def zones():
    rows = Rows()
    say("simulated zones")
    simulated(rows)
    return [rows.table()]
