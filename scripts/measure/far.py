"""Calls on a long, lossy path: UDP compared with TCP, adaptive latency."""

import json
import os
import shlex
import subprocess
import tempfile

from measure.experiments import quantity
from measure.tools import REPEATS, ROOT, TAUT, say

TRIPS, LOSSES = ((20,), (0, 1)) if REPEATS == 1 else ((2, 20, 100), (0, 1, 5))
SECONDS, SETTLE = (2, 1) if REPEATS == 1 else (6, 3)
ASKED = ["lab", "mouth-to-ear", "netns:far", "--only", "latency auto", "--duration", f"{SECONDS}s", "--settle", f"{SETTLE}s"]
# Timeout of a guest in seconds; a run takes a third of it.
MAX = 600
# Both ends in the guest. Each side of the cable adds half of the round trip, and the loss.
SCRIPT = """
export TAUT_HOME=/tmp/far-home XDG_RUNTIME_DIR=/tmp/far-run
mkdir -pm 700 "$TAUT_HOME" "$XDG_RUNTIME_DIR"
taut=$1 trip=$2 loss=$3
shift 3
"$taut" trust self "$("$taut" id | awk '{ print $NF }')" &&
ip link set lo up && ip netns add far && ip link add near type veth peer name far netns far &&
ip address add 198.18.0.1/30 dev near && ip link set near up &&
ip -n far address add 198.18.0.2/30 dev far && ip -n far link set far up && ip -n far link set lo up &&
way="netem delay $((trip * 500))us loss $loss% limit 10000" &&
tc qdisc add dev near root $way && ip netns exec far tc qdisc add dev far root $way &&
exec "$taut" "$@" --report none --report-file /lab/out/report.json
"""


def cell(trip, loss):
    """The rows of one round trip and loss, via UDP and TCP; None if the guest is not available."""
    with tempfile.TemporaryDirectory() as folder:
        guest = ["scripts/lab-vm", "--quiet", "--mips", "1000", "--timeout", str(MAX), "--out", folder]
        run = subprocess.run([*guest, "--", "bash", "-c", SCRIPT, "far", TAUT, str(trip), str(loss), *ASKED], cwd=ROOT)
        report = os.path.join(folder, "report.json")
        if not os.path.exists(report):
            say(f"calls_far: {trip} ms, {loss} %: the guest ended with {run.returncode} and no report")
            return None
        with open(report) as file:
            return json.load(file)["rows"]


def figure(row):
    """Median, 99th percentile, and missing windows."""
    if row["invalid"]:
        return [f"invalid: {row['invalid']}", "", ""]
    found, due = row["measured"], row["missed"]
    return [quantity(found["p50_ns"], 1), quantity(found["p99_ns"], 1), f"{due['missed']} of {due['due']}"]


def calls_far():
    """Searches windows of 4 ms of the ear's channel in the mouth's channel, within 20 ms of the latency."""
    head = [f"`taut {shlex.join(ASKED)}`: round trip, loss each way"]
    for link in ("UDP", "TCP"):
        head += [f"{link}: ms, median", f"{link}: p99", f"{link}: missing"]
    lines = [head]
    for trip in TRIPS:
        for loss in LOSSES:
            say(f"calls_far: {trip} ms, {loss} %")
            rows = cell(trip, loss)
            if not rows:
                return None
            by = {row["name"].rsplit(", ", 1)[1]: row for row in rows}
            lines.append([f"{trip} ms, {loss} %", *figure(by["UDP"]), *figure(by["TCP"])])
    return [lines]
