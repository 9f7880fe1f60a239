"""Experiments of `taut lab`, compared with the thesis (Sjöberg and Hammarström, Lund 2020). Both ends run on this machine. If
traffic is measured, they run in two network namespaces with a veth pair, because a loopback interface has both ends. Needs
root."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile

from measure.tools import REPEATS, ROOT, TAUT, say

NEAR, FAR = "taut-bench-near", "taut-bench-far"
# Addresses for network benchmarks (RFC 2544), which no machine has.
NEAR_IP, FAR_IP = "198.18.0.1/30", "198.18.0.2/30"
# Measured seconds of each row.
SECONDS = 1 if REPEATS == 1 else 5


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True)


@contextlib.contextmanager
def cable():
    """Two namespaces and a veth pair between them, removed at the end."""
    made = []
    try:
        for name in (NEAR, FAR):
            ip("netns", "add", name)
            made.append(name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("link", "add", "near", "netns", NEAR, "type", "veth", "peer", "name", "far", "netns", FAR)
        for name, end, address in ((NEAR, "near", NEAR_IP), (FAR, "far", FAR_IP)):
            ip("-n", name, "address", "add", address, "dev", end)
            ip("-n", name, "link", "set", end, "up")
        yield
    finally:
        for name in made:
            ip("netns", "delete", name)


def report_of(name, *arguments, inside=()):
    """The report of an experiment, and its command."""
    words = ["taut", "lab", name, *arguments]
    say(" ".join(words))
    with tempfile.TemporaryDirectory() as folder:
        kept = os.path.join(folder, "report.json")
        run = subprocess.run([*inside, TAUT, *words[1:], "--report", "none", "--report-file", kept])
        if not os.path.exists(kept):
            sys.exit(f"bench: `{' '.join(words)}` ended with {run.returncode} and no report; see its message above")
        with open(kept) as file:
            return json.load(file), f"`{' '.join(words)}`"


def experiment(name, *arguments, inside=()):
    """The rows of an experiment, and its command."""
    report, command = report_of(name, *arguments, inside=inside)
    return report["rows"], command


def over_cable(name, *arguments):
    if os.geteuid() != 0:
        say(f"{name}: skipped, namespaces need root")
        return None
    with cable():
        return experiment(name, *arguments, "--with", f"netns:{FAR}", inside=("ip", "netns", "exec", NEAR))


def quantity(nanos, digits=3, unit=1e6):
    return "–" if nanos is None else f"{nanos / unit:.{digits}f}"


def missed(row):
    return f"{row['missed']['missed']} of {row['missed']['due']}" if row["missed"] else "–"


def figure(row):
    """Measured latency and missed packets of a row, or why it is invalid."""
    if row["invalid"]:
        return f"invalid: {row['invalid']}"
    return f"{quantity(row['measured']['p50_ns'])} ± {quantity(row['uncertainty_ns'])}, {missed(row)}"


def published(row):
    return ", ".join(quantity(one["value_ns"], 0) for one in row["published"])


def spread(row):
    """Statistics of a row in microseconds, or why it is invalid."""
    keys = ("p50_ns", "stdev_ns", "p99_ns", "p999_ns", "max_ns")
    if row["invalid"]:
        return [f"invalid: {row['invalid']}", *([""] * (len(keys) - 1))]
    return [quantity(row["measured"][key], 1, 1e3) for key in keys]


def mouth_to_ear():
    """The paper's section "Mouth-to-Ear Latency Measurements", and its buffers."""
    rows, command = experiment("mouth-to-ear", "local", "--duration", f"{SECONDS}s")
    table = [[f"{command}: ms", "pTHINC", "other program on its device", "configured", "recording: measured, missed", "recording: p99",
              "call report", "lost, late", "near end, % of a core", "throttled, % of periods", "latency"]]
    for row in rows:
        theirs = {one["name"]: quantity(one["value_ns"], 0) for one in row["published"]}
        name = row["name"]
        if "recording_held_ns" in row:
            name += f" (device holds {quantity(row['recording_held_ns'], 0)} of {quantity(row['recording_asked_ns'], 0)})"
        table.append([name, theirs.get("pTHINC", ""), theirs.get("Skype on the device", ""),
                      quantity(row["configured_ns"], 2) if row["configured_ns"] else "", figure(row),
                      quantity(row["measured"]["p99_ns"]) if row["measured"] else "",
                      quantity(row["call_p50_ns"]) if row.get("call_p50_ns") else "",
                      f"{row['lost']}, {row['late']}" if "lost" in row else "", row.get("near_cpu_percent", ""),
                      row.get("throttled_percent", ""), row.get("verdict", "")])
    return [[[str(cell) for cell in line] for line in table]]


def ladder():
    """Tables 2.1, 3.3 and 3.4."""
    kinds = ("silent", "noisy", "unhandled")
    found = over_cable("latency-sweep", *(word for kind in kinds for word in ("--noise", kind)), "--duration", f"{SECONDS}s")
    if not found:
        return None
    rows, command = found
    kind = lambda row: "noisy" if "chatter_per_s" in row else "unhandled" if "multicast_mbit_per_s" in row else "silent"
    table = [[f"{command}: ms", "left for the network", "silent, thesis: A, B", "silent: measured, missed",
              "noisy, thesis: A, B", "noisy: measured, missed", "unhandled: measured, missed",
              "within a frame, ≤ 0.1 % missed"]]
    for row in rows:
        if kind(row) != "silent":
            continue
        # The other rows of a case begin with its name.
        others = {kind(other): other for other in rows if other["name"].startswith(row["name"] + ", ")}
        cases = [row, *others.values()]
        kept = [case.get("within_a_frame") and case["missed"] and 1000 * case["missed"]["missed"] <= case["missed"]["due"]
                for case in cases if not case["invalid"]]
        noisy, unhandled = others.get("noisy"), others.get("unhandled")
        table.append([
            row["name"], quantity(row.get("left_for_network_ns"), 2), published(row), figure(row),
            *((published(noisy), figure(noisy)) if noisy else ("", "")), figure(unhandled) if unhandled else "",
            "met" if len(kept) == len(kinds) and all(kept) else "**missed**"])
    return [table]


# Table 3.2: bytes in UDP and in IP, by bytes of audio.
THESIS_BYTES = {3840: (3860, 3920), 1920: (1940, 1980), 960: (980, 1000), 192: (212, 232)}


def network():
    """Tables 3.1 and 3.2."""
    found = over_cable("network", "--tcp-rate", "100Mbit", "--duration", f"{SECONDS}s")
    if not found:
        return None
    rows, command = found
    traffic = [[f"{command}: Mbit/s at", "in", "out", "thesis: in, out", "packets/s: in", "out"]]
    of_thesis = lambda row, key: quantity(row.get(key), 1, 1) if row.get(key) is not None else "–"
    for row in rows:
        if "in_mbit_per_s" not in row:
            continue
        thesis = [of_thesis(row, f"thesis_{way}_mbit_per_s") for way in ("in", "out")]
        traffic.append([row["name"], *(f"{row[f'{way}_mbit_per_s']:.2f}" for way in ("in", "out")),
                        ", ".join(thesis) if thesis != ["–", "–"] else "",
                        *(f"{row[f'{way}_packets_per_s']:.0f}" for way in ("in", "out"))])
    mixed = [["by protocol: Mbit/s", "in", "of all in", "out", "of all out", "packets/s: in", "out"]]
    for row in rows:
        if "tapped_in_mbit_per_s" in row:
            ways = [(row[f"tapped_{way}_mbit_per_s"], row[f"tapped_{way}_share"]) for way in ("in", "out")]
            mixed.append([row["name"], *(cell for rate, share in ways for cell in (f"{rate:.3f}", percent(share))),
                          *(f"{row[f'tapped_{way}_packets_per_s']:.1f}" for way in ("in", "out"))])
    kinds = ("ethernet", "ip", "transport", "payload", "sound")
    layered = [["by layer: Mbit/s", "Ethernet", "IP", "UDP, TCP", "payload", "sound", "overhead"]]
    for row in rows:
        if "sound_mbit_per_s" in row:
            layered.append([row["name"].removesuffix(", by layer"), *(f"{row[f'{kind}_mbit_per_s']:.3f}" for kind in kinds),
                            percent(row["layers_overhead_share"])])
    layers = ("payload", "rtp", "udp", "ip", "ethernet")
    sizes = [["bytes by layer", "sound", "RTP", "UDP", "IP", "Ethernet", "overhead", "thesis: UDP, IP, Ethernet", "overhead",
              "tapped: Ethernet", "overhead", "counted by the interface"]]
    for row in rows:
        if "ethernet_bytes" in row:
            tapped = "tapped_ethernet_bytes" in row
            sizes.append([row["name"], *(str(row[f"{layer}_bytes"]) for layer in layers),
                          percent(row["overhead_share"]),
                          ", ".join(map(str, (*THESIS_BYTES.get(row["payload_bytes"], ()), row["thesis_ethernet_bytes"]))),
                          percent(row["thesis_overhead_share"]),
                          f"{row['tapped_ethernet_bytes']:.0f}" if tapped else "–",
                          percent(row["tapped_overhead_share"]) if tapped else "–",
                          f"{row['counted_bytes']:.0f}" if "counted_bytes" in row else "–"])
    return [traffic, *(table for table in (mixed, layered) if len(table) > 1), sizes]


def percent(share):
    return f"{100 * share:.1f} %"


def kernel():
    """Figures 3.2 and 3.3."""
    # As many packets of 20 ms would take an hour. Percentiles that need more packets are left out.
    many, some = ("500", "50") if REPEATS == 1 else ("50000", "5000")
    runs = [("--ptime", "1ms", "--ptime", "5ms", "--packets", many), ("--ptime", "1ms", "--ptime", "20ms", "--packets", some)]
    tables = []
    for arguments in runs:
        report, command = report_of("kernel", *arguments)
        table = [[f"{command}: µs", "mean", "median", "stdev", "p99", "p99.9", "max", "packets", "thesis, noisy network: stdev; max"]]
        for row in report["rows"]:
            summary = row["measured"] or {}
            thesis = "; ".join(quantity(one["value_ns"], 0, 1e3) for one in row["published"])
            table.append([row["name"], quantity(summary.get("mean_ns"), 1, 1e3), *spread(row), str(summary.get("count", "")), thesis])
        tables.append(table)
        grown = [[note] for note in report["notes"] if "on average against" in note]
        tables += [[["packets of 20 ms against those of 1 ms"], *grown]] if grown else []
    return tables


def stages():
    """Figures 3.12 and 3.13."""
    found = over_cable("stages", "--duration", f"{2 * SECONDS}s")
    if not found:
        return None
    (row,), command = found
    table = [[f"{command}: µs", "median", "stdev", "p99", "p99.9", "max", "uncertainty"]]
    table += [[stage["name"], *spread({**row, "measured": stage["summary"]}),
               "one clock" if stage["uncertainty_ns"] is None else f"± {quantity(stage['uncertainty_ns'], 1, 1e3)}"]
              for stage in row["stages"]]
    table.append(["capture to DAC", *spread(row), f"± {quantity(row['uncertainty_ns'], 1, 1e3)}"])
    return [table]


# Values of vmstat(8) in the thesis, by their names in the lab.
READ = ("user_percent", "system_percent", "softirq_percent", "switches_per_s", "interrupts_per_s", "runnable",
        "blocked", "faults_per_s", "memory_used_mib")


def resources():
    """Figures 3.7 to 3.9."""
    kinds = ("silent", "noisy", "unhandled")
    found = over_cable("latency-sweep", *(word for kind in kinds for word in ("--noise", kind)), "--only", "test 1",
                       "--only", "test 10", "--duration", f"{4 * SECONDS}s")
    if not found:
        return None
    rows, command = found
    table = [[f"{command}: mean of"]]
    for row in rows:
        means = {one["key"]: (one["words"], [value for _, value in one["values"]]) for one in row["meanwhile"]}
        if len(table) == 1:
            table[0] += [means[key][0] for key in READ if key in means]
        table.append([row["name"], *(f"{sum(means[key][1]) / len(means[key][1]):.4g}" for key in READ
                                     if key in means and means[key][1])])
    return [table]


def schedulers():
    rows, command = experiment("schedulers", "--duration", f"{SECONDS}s")
    table = [[f"{command}: ms", "latency, missed", "xruns", "sender late: p50, p99", "receiver late: p50, p99"]]
    for row in rows:
        late = [", ".join(quantity(row.get(f"{end}_late_{share}_ns")) for share in ("p50", "p99")) for end in ("sender", "receiver")]
        table.append([row["name"], figure(row), str(row.get("xruns", "–")), *late])
    return [table]


# Both ends of a snd-aloop cable. The exact card has only this period.
PLAYS, CAPTURES = "alsa:hw:Loopback,0,0?format=S32_LE", "alsa:hw:Loopback,1,0?format=S32_LE"


def handover():
    """Figure 3.14."""
    found = [experiment("callback-jitter", "--device", "virtual:", "--duration", f"{2 * SECONDS}s")]
    with tempfile.TemporaryDirectory() as folder:
        words = ["callback-jitter", "--output", PLAYS, "--input", CAPTURES, "--duration", f"{2 * SECONDS}s"]
        say(f"taut lab {' '.join(words)}, in the lab guest")
        subprocess.run(["scripts/lab-vm", "--quiet", "--period", "48", "--out", folder, "--", TAUT, "lab", *words,
                        "--report", "none", "--report-file", "/lab/out/report.json"], cwd=ROOT)
        kept = os.path.join(folder, "report.json")
        if os.path.exists(kept):
            with open(kept) as file:
                found.append((json.load(file)["rows"], f"`taut lab {' '.join(words)}`, two loopback cards of the lab guest"))
        else:
            say("the lab guest is not available or failed; see its message above")
    tables = []
    for rows, command in found:
        table = [[f"{command}: µs", "median", "stdev", "p99", "p99.9", "max", "calls"]]
        for row in rows:
            summary = row["measured"] or {}
            table.append([row["name"], *spread(row), str(summary.get("count", ""))])
        tables.append(table)
    return tables


def overhead():
    rows, command = experiment("overhead", "--rounds", "1" if REPEATS == 1 else "16", "--duration", f"{SECONDS}s")
    table = [[f"{command}: µs of processor time for a period of 1 ms, both ends", "median", "added", "95 of 100",
              "of the stream's", "latency added, p50", "95 of 100: latency", "target", ""]]
    for row in rows:
        share, latency = row.get("added_percent"), row.get("latency_added_ns")
        judged = row["name"] == "every packet" and share is not None and latency is not None
        summary = row["measured"] or {"p50_ns": None, "mean_ns": None}
        table.append([row["name"] + (f": invalid, {row['invalid']}" if row["invalid"] else ""),
                      quantity(summary["p50_ns"] or summary["mean_ns"], 1, 1e3),
                      quantity(row.get("added_ns"), 1, 1e3), interval(row, "added"),
                      f"{share:+.1f} %" if share is not None else "", quantity(latency, 2, 1e3), interval(row, "latency_added"),
                      "≤ 2 %; ≤ 1 µs" if judged else "", judgement(row, rows[0]) if judged else ""])
        if "stall_monitor_ns" in row:
            table.append(["— stall monitor alone", "", quantity(row["stall_monitor_ns"], 1, 1e3), interval(row, "stall_monitor"),
                          "", "", "", "", ""])
    return [table]


def judgement(row, nothing):
    """Met or missed if the whole interval is on one side of the limit; otherwise open, because of noise."""
    limits = {"added": 0.02 * (nothing["measured"] or {"mean_ns": 0})["mean_ns"], "latency_added": 1000}
    ends = [[row.get(f"{key}_{end}_ns") for key in limits] for end in ("low", "high")]
    if any(end is None for end in sum(ends, [])):
        return "open"
    if all(high <= limit for high, limit in zip(ends[1], limits.values())):
        return "met"
    return "**missed**" if any(low > limit for low, limit in zip(ends[0], limits.values())) else "open"


def interval(row, key):
    ends = [quantity(row.get(f"{key}_{end}_ns"), 1, 1e3) for end in ("low", "high")]
    return "" if "–" in ends else " to ".join(ends)
