"""Cards, hosts, streams and marks inside the lab guest (docs/internals/lab-guest.md)."""

import contextlib
import glob
import json
import signal
import subprocess
import time

from lab.judge import Wrong

# Path of the program under test, set by scripts/lab-scenarios.
taut = None
# Ends of virtual cables on two cards: the second captures the audio that the first plays.
CABLE = ("alsa:hw:Loopback,0,0", "alsa:hw:Loopback,1,0")
FAR_CABLE = ("alsa:hw:Loopback,0,1", "alsa:hw:Loopback,1,1")
OTHER = "Loopback_1"
OTHER_CARD = ("alsa:hw:Loopback_1,0,0", "alsa:hw:Loopback_1,1,0")
ADDRESSES = {"near": "10.9.0.1", "far": "10.9.0.2"}
# The measuring program may be late: its buffers are long, and marks are timed at the converters.
ENDS = ["--periods", "8", "--scheduler", "fifo:60"]


def sh(command, **more):
    return subprocess.run(command.split(), check=True, **more)


def read(path):
    with open(path) as file:
        return file.read()


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def wait_until(true, otherwise, seconds=10):
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            raise Wrong(otherwise)
        time.sleep(0.02)


@contextlib.contextmanager
def exact(period, *others):
    """Cards with periods of exactly `period` frames. Each has the timer of a dummy card that plays, so their periods
    begin at different instants. Their rates are equal, because the kernel refuses a timer that differs by a nanosecond."""
    with contextlib.ExitStack() as clocks:
        for number, card in enumerate(("Loopback", *others)):
            clocks.enter_context(clock(card, number, period))
        yield


@contextlib.contextmanager
def clock(card, number, period):
    # All cards stop if this program underruns, so its buffer is long.
    buffer = period * (4096 // period)
    source = f"/proc/asound/{card}/timer_source"
    timer = subprocess.Popen(
        ["aplay", "-q", "-D", f"hw:Dummy,0,{number}", f"--period-size={period}", f"--buffer-size={buffer}",
         "-f", "S16_LE", "-c", "2", "-r", "48000", "-t", "raw", "/dev/zero"], stderr=subprocess.DEVNULL)
    try:
        # Timers are numbered by substreams of both directions, playback first.
        write(source, f"hw:Dummy,0,{2 * number}")
        status = f"/proc/asound/Dummy/pcm0p/sub{number}/status"
        wait_until(lambda: "RUNNING" in read(status), f"{status} does not say RUNNING")
        yield
    finally:
        timer.terminate()
        timer.wait()
        write(source, "\n")


@contextlib.contextmanager
def network(*qdisc):
    """Two hosts and a cable, with an optional queue discipline at both ends: clocks cannot measure a delay that differs
    between the directions."""
    hosts = ["ip netns add near", "ip netns add far",
             "ip link add veth0 netns near type veth peer name veth0 netns far"]
    for host, address in ADDRESSES.items():
        hosts += [f"ip -n {host} addr add {address}/24 dev veth0", f"ip -n {host} link set veth0 up"]
        if qdisc:
            hosts.append(f"tc -n {host} qdisc add dev veth0 root {' '.join(qdisc)}")
    try:
        for command in hosts:
            sh(command)
        yield
    finally:
        sh("ip netns del near")
        sh("ip netns del far")


class Shape:
    """Settings of a stream."""

    def __init__(self, period, ptime, latency, send=(), recv=()):
        self.period, self.ptime, self.latency, self.more = period, ptime, latency, {"send": send, "recv": recv}


@contextlib.contextmanager
def stream(shape, begin, end, port=5004):
    """taut sends audio from a device at one host to a device at another; each end is a pair of host and device. The
    sender's standard input accepts changes. Afterwards the dictionary has the reports."""
    address = f"rtp://{ADDRESSES[end[0]]}:{port}"
    common = ["--period", str(shape.period), "--no-stall-monitor", "--report", "json"]
    commands = {
        "recv": [end[0], taut, "recv", "--from", address, "--output", end[1]],
        "send": [begin[0], taut, "send", "--input", begin[1], "--to", address, "--ptime", shape.ptime,
                 "--latency", shape.latency, "--control"],
    }
    running, reports = {}, {}
    try:
        for role, command in commands.items():
            running[role] = subprocess.Popen(
                ["ip", "netns", "exec", *command, *common,
                 *(word.replace("$PORT", str(port)) for word in shape.more[role])],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        yield reports, running["send"].stdin
    finally:
        for role in reversed(list(running)):
            running[role].send_signal(signal.SIGINT)
            out, said = running[role].communicate()
            if running[role].returncode != 0 or not out:
                raise Wrong(f"taut {role} ended with {running[role].returncode}: {said.strip()}")
            reports[role] = json.loads(out)


def delay(output, input, period, seconds, settle=3, cards=4):
    """Plays marks on one device and finds them on another. Also returns the cable ends that restarted meanwhile, and the
    expected number of ends."""
    command = [taut, "lab", "delay", "--output", output, "--input", input, "--period", str(period),
               "--settle", f"{settle}s", "--duration", f"{seconds}s", "--report", "json", *ENDS]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(settle)
    before = starts()
    # Reading the states takes time; later xruns show in the marks.
    time.sleep(seconds - 0.5)
    after = {path: started(path) for path in before}
    out, said = run.communicate()
    if not out:
        raise Wrong(said.strip())
    row = json.loads(out)["rows"][0]
    row["started_anew"] = [card for card in before if after[card] != before[card]]
    row.update(seconds=seconds, cards=len(before), cards_meant=cards)
    return row


def starts():
    """Start time of each card. An xrun restarts a card. Closing a card on this CPU makes another one underrun, so the
    counters at the end of a run are less exact."""
    paths = glob.glob("/proc/asound/Loopback*/pcm*/sub*/status")
    return {path: at for path in paths if (at := started(path))}


def started(path):
    status = read(path)
    return status.partition("trigger_time:")[2].partition("\n")[0] if "RUNNING" in status else None


def chain(shape, seconds, qdisc=(), settle=3):
    """One way: player, cable, taut send, taut recv, cable, recorder."""
    with network(*qdisc), stream(shape, ("near", CABLE[1]), ("far", FAR_CABLE[0])) as (reports, _):
        row = delay(CABLE[0], FAR_CABLE[1], shape.period, seconds, settle)
    return row, reports


def round_trip(shape, seconds, settle=3, changes=()):
    """Both directions: the far host plays to its card, captures the same audio, and sends it back. Both senders get the
    changes after the first second. Returns the row, the reports of both directions, and the measured interval on the
    monotonic clock."""
    with network(), \
            stream(shape, ("near", CABLE[1]), ("far", OTHER_CARD[0])) as (there, change_there), \
            stream(shape, ("far", OTHER_CARD[1]), ("near", FAR_CABLE[0]), port=5014) as (back, change_back):
        time.sleep(1)
        for change in changes:
            for sender in (change_there, change_back):
                print(change, file=sender, flush=True)
        begin = time.monotonic_ns() + (settle + 1) * 10**9
        row = delay(CABLE[0], FAR_CABLE[1], shape.period, seconds, settle, cards=6)
        end = begin + (seconds - 2) * 10**9
    named = [("there", there), ("back", back)]
    return row, {f"{role} {way}": report for way, reports in named for role, report in reports.items()}, (begin, end)
