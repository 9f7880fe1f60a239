"""Plugins on other hosts (docs/reference/offload.md): the usable share of a period, compared with Lago and Kon, "A Middleware
System for Distributed Real-Time Multimedia Processing", 2003. Needs root for namespaces."""

import shutil

from measure.experiments import percent, report_of, quantity
from measure.tools import REPEATS, say

# A quick run makes fewer and shorter attempts.
SHORT = ("--attempt", "100ms", "--step", "500us", "--fine", "250us") if REPEATS == 1 else ()
# One block of a thousand: on a shared virtual machine, something takes a core that often, also from a local plugin. Without
# this allowance no cost passes.
SPORADIC = ("--allow", "0.1%", "--hold", "4s", "--idle", "4s")
# The network of the paper was Fast Ethernet.
FAST_ETHERNET = ("--virtual-work", "--wait", "250us", "--link-rate", "100Mbit")
# JACK's dummy driver needs powers of two.
UNDER_JACK = ("--jack", "--virtual-work", "--wait", "250us", "--period", "256")


def usable(row):
    if row["invalid"]:
        return f"invalid: {row['invalid']}"
    return percent(row["usable_share"]) + ("" if row["result"] == "whole" else ", with misses")


def missed(row):
    """Missed and due blocks, and an upper bound of the share. Blocks missed during stalls of the host are separate."""
    one = row["missed"]
    apart = row["missed_in_stall"] + row["missed_after_stall"]
    host = f"; {apart} by stalls of the host" if apart else ""
    core = row.get("missed_of_a_core")
    text = f"{one['missed']} of {one['due']} (≤ {100 * one['at_most']:.2g} %"
    return text + (f"; {core} during a stall of a core" if core else "") + host + ")"


def published(row):
    period = row["configured_ns"]
    return ", ".join(f"{100 * one['value_ns'] / period:.0f} %" for one in row["published"])


def micros(row, *keys):
    return ", ".join(quantity(row.get(key), 0, 1e3) for key in keys)


def shares(report, command):
    """The usable share of the period."""
    table = [[f"{command}: rate, period, window, workers", "usable", "Lago and Kon", "local plugin", "missed",
              "slack, µs: p50, p1, p0.1", "idle exchange, µs: p50, p99, p99.9", "T − 1.2 × p99.9",
              "callback, µs: p50, p99"]]
    kind = lambda row: (row["configured_ns"], row["name"].endswith("real work"))
    here = {kind(row): row for row in report["rows"] if "idle_p50_ns" not in row}
    for row in report["rows"]:
        line = [row["name"], usable(row), published(row)]
        if row["invalid"]:
            table.append(line + [""] * (len(table[0]) - len(line)))
            continue
        alone = here.get(kind(row))
        away = "idle_p50_ns" in row
        floor = row.get("usable_by_idle_ns")
        table.append(line + [
            usable(alone) if away and alone else "", missed(row),
            *((micros(row, "slack_p50_ns", "slack_p99_ns", "slack_p999_ns"), micros(row, "idle_p50_ns", "idle_p99_ns", "idle_p999_ns"),
               percent(floor / row["configured_ns"]) if floor is not None else "–",
               micros(row, "held_call_p50_ns", "held_call_p99_ns")) if away else ("",) * 4)])
    return table


def processors(report):
    """Processor time of master and workers."""
    figure = lambda row, key, digits=0: f"{row[key]:.{digits}f}" if row.get(key) is not None else "–"
    table = [["rate, period, window, workers", "master, % of a core: user, system", "workers together: user, system", "interrupts: hard, soft, %",
              "packets/s", "MB/s", "idle: µs per block and worker", "bare exchange", "ratio",
              "idle callback, µs: p50, p99", "bare: p50"]]
    for row in report["rows"]:
        if row["invalid"] or "idle_p50_ns" not in row:
            continue
        pair = lambda *keys: ", ".join(figure(row, key) for key in keys)
        sent = row.get("bytes_out_per_s")
        table.append([row["name"], pair("master_user_percent", "master_system_percent"),
                      pair("workers_user_percent", "workers_system_percent"), ", ".join(
                          figure(row, key, 1) for key in ("irq_percent", "softirq_percent")),
                      figure(row, "packets_out_per_s"), f"{sent / 1e6:.2f}" if sent is not None else "–",
                      quantity(row.get("cpu_per_block_ns"), 1, 1e3), quantity(row.get("bare_cpu_per_block_ns"), 1, 1e3), figure(row, "cpu_ratio", 2),
                      micros(row, "call_p50_ns", "call_p99_ns"), micros(row, "bare_call_p50_ns")])
    return table


def detectors(report, command):
    """Missed blocks by our count, and xruns by a JACK server that calls the master."""
    table = [[f"{command}: rate, period, window, workers", "usable", "missed", "JACK xruns", "overload: missed",
              "overload: JACK xruns"]]
    for row in report["rows"]:
        found = lambda key: str(row[key]) if row.get(key) is not None else "–"
        table.append([row["name"], usable(row), *(
            ("", "", "", "") if row["invalid"] else
            (missed(row), found("jack_xruns"), found("too_much_missed"), found("too_much_jack_xruns")))])
    return table


def capacity():
    """The goals of tautline, the paper's network, and the comparison with JACK's xruns."""
    report, command = report_of("capacity", "--grid", "goals", *SPORADIC, *SHORT)
    slow, by = report_of("capacity", *FAST_ETHERNET, *SPORADIC, *SHORT)
    tables = [shares(report, command), shares(slow, by), processors({"rows": report["rows"] + slow["rows"]})]
    if shutil.which("jackd") is None:
        say("capacity: JACK rows skipped, jackd is not installed")
        return tables
    return [*tables, detectors(*report_of("capacity", *UNDER_JACK, *SPORADIC, *SHORT))]


def capacity_paper():
    """Figures 5 to 8."""
    report, command = report_of("capacity", "--grid", "paper", *SPORADIC, *SHORT)
    return [shares(report, command), processors(report)]
