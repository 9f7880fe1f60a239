"""The scoreboard of docs/performance.md: one row for each claim, computed from docs/performance.json.

A row names its parts, so that its command repeats it. Its result comes from the stored tables and is never typed. Goals are
published figures or limits of the project; each names its source."""

import re

MAX_ROWS = 15
HEAD = ["Claim", "Result", "Goal", "", "Command", "Conditions"]
FRAME_MS = 1000 / 48000
MAX_MISSED = 1 / 1000
# aes67-linux-daemon, README: 5.999 ms on loopback with packets of 1 ms.
WIRED_MS = 5
# Guedes, alsa-devel, 8 December 2018: intervals of the AAF plugin by a software timer, and by a card that launches packets.
TIMER_NS, CARD_NS = 1154, 18
# Morales, pTHINC 2009: mouth to ear by UDP; another program on the same handheld had 190 ms.
PTHINC_MS, ON_DEVICE_MS = 292, 190
# Lago and Kon 2003, figure 8: seven workers, 96 kHz, window of one period.
OFFLOAD_PERCENT = 96
MET, MISSED = "met", "**missed**"


class Unknown(Exception):
    """A part lacks the row or column that the scoreboard reads."""


class Table:
    """A stored table, read by the names of its rows and columns."""

    def __init__(self, parts, part, at=0):
        self.part, self.lines = part, parts[part]["tables"][at]

    def column(self, name, nth=0):
        found = [at for at, head in enumerate(self.lines[0]) if head == name]
        if len(found) <= nth:
            raise Unknown(f"{self.part}: no column {name!r}")
        return found[nth]

    def rows(self, pattern="", column=0):
        found = [line for line in self.lines[1:] if re.search(pattern, line[column])]
        if not found:
            raise Unknown(f"{self.part}: no row {pattern!r}")
        return found

    def row(self, pattern, column=0):
        found = self.rows(pattern, column)
        if len(found) != 1:
            raise Unknown(f"{self.part}: {len(found)} rows {pattern!r}")
        return found[0]


def numbers(text):
    return [float(found) for found in re.findall(r"[-+−]?\d+(?:\.\d+)?", text.replace("−", "-"))]


def number(text):
    """The first number of a cell; the others are its range or its unit."""
    if not numbers(text):
        raise Unknown(f"no number in {text!r}")
    return numbers(text)[0]


def micros(text):
    """The durations of a cell, such as `1.038us at most, 46.8us at the step`, in microseconds."""
    unit = {"ns": 1e-3, "us": 1.0, "ms": 1e3}
    return [float(value) * unit[name] for value, name in re.findall(r"(\d+(?:\.\d+)?)(ns|us|ms)", text)]


def verdict(met):
    return MET if met else MISSED


def all_met(rows, column):
    """Met if a part judged all of these rows so, from figures that were not rounded."""
    return all(row[column] == MET for row in rows)


def runs(lines):
    """The runs of lines of the ladder: configured and measured latency and its uncertainty in ms, missed and due packets."""
    for line in lines:
        configured = number(line[0])
        for cell in line:
            if found := re.fullmatch(r"([\d.]+) ± ([\d.]+), (\d+) of (\d+)", cell):
                yield configured, float(found[1]), float(found[2]), int(found[3]), int(found[4])


def accuracy(parts):
    worst, error = max((abs(measured - configured), error) for configured, measured, error, *_ in runs(Table(parts, "ladder").rows()))
    return f"{worst:.3f} ± {error:.3f} ms at most", worst <= FRAME_MS


def packets_kept(parts):
    lines = Table(parts, "ladder").rows(r"\(test \d+\)")
    kept = [all(missed <= MAX_MISSED * due for *_, missed, due in runs([line])) for line in lines]
    return f"{sum(kept)} of {len(kept)} settings", all(kept)


def wired(parts):
    table = Table(parts, "ladder")
    row = table.row(rf"^{WIRED_MS}ms: .*packets of 1ms")
    found = re.search(r"([\d.]+) ± ([\d.]+), (\d+) of (\d+)", row[table.column("silent: measured, missed")])
    measured, error, missed, due = found.groups()
    return f"{measured} ± {error} ms, {missed} of {due} packets missed", float(measured) <= WIRED_MS + FRAME_MS and missed == "0"


def claim(parts, pattern):
    table = Table(parts, "claims")
    row = table.row(pattern)
    return row[table.column("measured")], row[-1] == MET


def loss(parts):
    cell, met = claim(parts, r"^5 % random loss")
    longest, lost, packets = numbers(cell)[:3]
    return f"{lost:.0f} of {packets:.0f} packets missing, longest gap {longest:.0f} frames", met


def step(parts):
    cell, met = claim(parts, r"a card steps by 100 ppm")
    return f"{micros(cell)[0]:.1f} µs", met


def apart(parts):
    rows = [claim(parts, rf"^{network}: two receivers") for network in ("switch-under-load", "wired")]
    p50, p999 = (max(micros(cell)[at] for cell, _ in rows) for at in (0, 1))
    return f"{p50:.1f} µs (p50), {p999:.1f} µs (p99.9)", all(met for _, met in rows)


def paced(parts):
    table = Table(parts, "rungs")
    mode, stdev = table.column("mode"), table.column("stdev")
    found = {name: max(number(row[stdev]) for row in table.rows(rf"^`{name}`$", mode)) for name in ("etf", "fq", "sleep")}
    return ", ".join(f"`{name}` {value:.0f}" for name, value in found.items()) + " ns", max(found.values()) <= TIMER_NS


def gstreamer(parts):
    table = Table(parts, "processes")
    rows = table.rows("stall monitor on")
    ratios = [number(row[table.column("ratio", nth)]) for row in rows for nth in (0, 1)]
    return f"{min(ratios):.2f} to {max(ratios):.2f} times", max(ratios) < 1


def received(parts):
    table = Table(parts, "packets")
    rows = table.rows(r"^packet received, .* streams?$")
    ratios = [number(row[table.column("ratio")]) for row in rows]
    return f"{min(ratios):.2f} to {max(ratios):.2f} times its rate", all_met(rows, -1)


def streams(parts):
    table = Table(parts, "many_streams")
    ratios = [max(numbers(row[table.column("each of 10; 100 ÷ one")])) for row in table.rows()]
    return f"{max(ratios):.2f} times one stream's", all_met(table.rows(), -1)


def memory(parts):
    table = Table(parts, "memory_of_a_process")
    row = table.row("^resident memory of taut recv")
    growth = table.row("its growth")
    return f"{row[table.column('measured')]}, {growth[table.column('measured')]} in 30 s", all_met([row, growth], -1)


def calls(parts):
    table = Table(parts, "mouth_to_ear")
    row = table.row("latency auto, UDP")
    measured = number(row[table.column("recording: measured, missed")])
    return f"{measured:.1f} ms", measured <= PTHINC_MS and measured <= ON_DEVICE_MS


def offload(parts):
    table = Table(parts, "capacity")
    share = number(table.row(r"^96000 Hz, 210 frames .*window 1, 7 workers, wait 250us$")[table.column("usable")])
    return f"{share:.1f} %", share >= OFFLOAD_PERCENT


def offload_cost(parts):
    table = Table(parts, "offloaded")
    rows = table.rows("direct link")
    ratios = [number(row[table.column("ratio")]) for row in rows]
    return f"{min(ratios):.2f} to {max(ratios):.2f} times", all_met(rows, table.column(""))


def encryption(parts):
    table = Table(parts, "sealed")
    added = [numbers(row[table.column("added per packet, median of windows")]) for row in table.rows()]
    percent, micros = max((found[-1], found[0]) for found in added)
    return f"{percent:.1f} %, {micros:.2f} µs at most", all_met(table.rows(), table.column("≤ 5 %, ≤ 5 µs"))


# Where the figures of a part hold; docs/performance.md has the details.
PLACES = {
    "ladder": "virtual cards, one clock, veth",
    "claims": "simulated time",
    "rungs": "virtual card, veth, lab guest",
    "processes": "loopback",
    "packets": "loopback",
    "many_streams": "loopback",
    "memory_of_a_process": "loopback",
    "mouth_to_ear": "virtual cards, one clock, latency auto",
    "capacity": "timed plugins, network namespaces, 250 µs wait",
    "offloaded": "workers in another process",
    "sealed": "loopback",
}


# Claim, part, goal with its source, and the function that reads the result and judges it.
CLAIMS = (
    ("Measured and configured latency differ by at most one frame", "ladder", "≤ 0.021 ms, one frame ([Lund](#sources): 5 to 20 ms more)", accuracy),
    ("At the thesis's ten settings, packets arrive in time", "ladder", "10 of 10 with ≤ 0.1 % missed on each network", packets_kept),
    ("5 ms over a veth with virtual cards, without loss", "ladder", "5 ms, 0 missed ([aes67-linux-daemon](#sources): 6.0 ms)", wired),
    ("5 % random loss leaves no gap, within 10 ms", "claims", "no gap over one packet ([JackTrip](#sources)'s loss)", loss),
    ("Playout error ten seconds after the rate of a card jumps by 100 ppm", "claims", "< 50 µs (project)", step),
    ("Two receivers play at the same instant", "claims", "< 100 µs, < 500 µs ([Snapcast](#sources): < 200 µs)", apart),
    ("Packet intervals are regular: standard deviation", "rungs", f"≤ {TIMER_NS} ns ([AAF plugin](#sources); with its card: {CARD_NS} ns)", paced),
    ("A stream takes less processor time than GStreamer's", "processes", "< 1 time (project)", gstreamer),
    ("Receiving a packet costs little more than a bare loop", "packets", "≥ 0.8 times its rate (project)", received),
    ("Each of 100 streams costs no more than one alone", "many_streams", "≤ 1.2 times, 1.5 MB, 0.5 s (project)", streams),
    ("`taut recv` needs little memory", "memory_of_a_process", "≤ 10 MB in an hour (project)", memory),
    ("Calls, from mouth to ear", "mouth_to_ear", f"≤ {ON_DEVICE_MS} ms ([pTHINC](#sources): {PTHINC_MS} ms)", calls),
    ("Plugins on seven workers can use the period", "capacity", f"≥ {OFFLOAD_PERCENT} % ([Lago and Kon](#sources))", offload),
    ("Offload costs little more than a bare exchange", "offloaded", "≤ 1.2 times (project)", offload_cost),
    ("Encryption costs little", "sealed", "≤ 5 %, ≤ 5 µs a packet (project)", encryption),
)


def is_busy(part):
    """Whether other work than the measurement's can have taken every core."""
    return float(part["load"]) > 2 * number(part["machine"])


def conditions(parts, part):
    """Where and when a part was measured."""
    if part not in parts:
        return PLACES[part]
    measured = parts[part]
    busy = ": **busy machine, measure again**" if is_busy(measured) else ""
    return f"{PLACES[part]}; {measured['date']}, load {measured['load']}{busy}"


def board(parts):
    """The rows: claim, result, goal, met or missed, command, conditions."""
    lines = []
    for name, part, goal, judge in CLAIMS:
        result, met = judge(parts) if part in parts else ("not measured", None)
        lines.append([name, result, goal, "open" if met is None else verdict(met), f"`scripts/bench {part}`", conditions(parts, part)])
    return [HEAD, *lines]


def wrong(parts):
    """Defects of the scoreboard: one sentence each."""
    found = [f"the scoreboard has {len(CLAIMS)} rows, more than {MAX_ROWS}"] if len(CLAIMS) > MAX_ROWS else []
    for name, part, _, judge in CLAIMS:
        try:
            if part in parts:
                judge(parts)
        except Unknown as missing:
            found.append(f"the scoreboard cannot read {name!r}: {missing}")
    return found
