"""Results of the benches of the crates."""

import re
import shutil
import statistics
import subprocess

from measure.tools import REPEATS, ROOT, Rows, cargo_bench, divan_cases, output, say, spread


TAKEN = 250  # nanoseconds


def machines():
    say("packet code without I/O")
    cases = divan_cases("tautline-proto", "packet")
    groups = {"handle_and_pull": "receive and play out", "place_and_pull": "playout alone", "push": "packetize"}
    found = {group: {} for group in groups}
    for (group, name), values in cases.items():
        if group in groups:
            found[group][name.strip("()")] = values
    cell = lambda values: f"{spread(values, 0)} ns" if values else ""
    lines = [["48 stereo frames", *groups.values(), f"receive ≤ {TAKEN} ns"]]
    for name, taken in sorted(found["handle_and_pull"].items()):
        coding, _, stamped = name.partition(", ")
        met = statistics.median(taken) <= TAKEN
        lines.append([coding + (", with the sender's timestamps" if stamped == "true" else ", plain"), cell(taken),
                      cell(found["place_and_pull"].get(coding)), cell(found["push"].get(name)), "met" if met else "**missed**"])
    seconds = {name: values for (group, name), values in cases.items() if group == "second_of_drift_and_loss"}
    shares = [f"{statistics.median(values) / 1e7:.2f} % of a core" for values in seconds.values()]
    met = all(statistics.median(values) <= 1e7 for values in seconds.values())
    whole = [["a stream at 48-frame periods, card 200 ppm off, 5 % lost", *seconds, "target", ""],
             ["packets, servo, resampler and concealment", *shares, "≤ 1 %", "met" if met else "**missed**"]]
    return [lines, whole]


def micros(values):
    return f"{statistics.median(values) / 1e3:.3g} µs"


def resampler():
    say("resampling")
    cases = divan_cases("tautline-dsp", "resample")
    qualities = ("low-delay", "balanced", "best")
    lines = [["48 frames at +100 ppm", *qualities, "copied", "target", ""]]
    for channels, group in ((2, "stereo"), (8, "eight_channels"), (64, "sixty_four_channels")):
        found = [cases[group, quality] for quality in qualities]
        copied = cases.get((f"{group}_copied", f"{group}_copied"))
        # 0.3 % of the millisecond that 48 frames last.
        met = all(statistics.median(values) <= 3000 for values in found)
        goal = ["≤ 3 µs: 0.3 % of a core", "met" if met else "**missed**"] if channels == 2 else ["", ""]
        lines.append([f"{channels} channels", *map(micros, found), micros(copied) if copied else "", *goal])
    return [lines]


def conceal():
    say("concealment")
    cases = divan_cases("tautline-dsp", "conceal")
    columns = {"sound_that_passes": "no loss", "hole_that_begins": "first millisecond of a gap",
               "hole_that_goes_on": "each further millisecond"}
    lines = [["channels", *columns.values(), "every 20th packet lost"]]
    for channels in sorted({int(name) for _, name in cases}):
        second = statistics.median(cases["second_with_five_percent_lost", str(channels)]) / 1e9
        lines.append([str(channels), *(micros(cases[group, str(channels)]) for group in columns), f"{100 * second:.2f} % of a core"])
    return [lines]


def marks():
    say("finding time marks")
    cases = divan_cases("tautline-dsp", "timecode")
    rows = Rows()
    for name in ("clear_marks", "marks_below_other_sound", "voice_marks_below_other_sound", "sound_without_marks"):
        values = [100 * nanos / 1e9 for nanos in cases[name, name]]
        rows.add(f"a second of one channel at 48 kHz: {name.replace('_', ' ')}", "", f"{spread(values, 2)} % of a core", "",
                 "≤ 1 %", statistics.median(values) <= 1)
    return [rows.table()]


def alsa():
    say("a stream through ALSA, in the lab guest")
    run = subprocess.run(["scripts/bench-alsa"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    found = re.search(r"taut send (\S+) us, bare loop (\S+) us: (\S+) times", run.stdout)
    if not found:
        return say("the lab guest is not available or failed; see its message above")
    ours, bare, times = found.groups()
    rows = Rows()
    rows.add("a period of 48 stereo frames captured from ALSA and sent, one emulated CPU of 500 MIPS", f"bare loop {bare} µs",
             f"{ours} µs", f"{times} times", "≤ 1.3 times", float(times) <= 1.3)
    return [rows.table()]


def packets():
    rows = Rows()
    say("packets compared with a bare loop")
    found = {}
    for _ in range(REPEATS):
        for line in cargo_bench("tautline-engine", "packets").splitlines():
            case = re.match(r"(send|recv) +(\d+) (streams|senders): taut +(\S+) ns, bare +(\S+) ns", line)
            if case:
                direction, streams, heard, ours, bare = case.groups()
                found.setdefault((direction, heard, int(streams)), []).append((float(ours), float(bare)))
    for (direction, heard, streams), pairs in sorted(found.items(), reverse=True):
        if (direction, heard) == ("send", "senders"):
            continue  # the same as with one port for each stream
        ratios = [bare / ours for ours, bare in pairs]
        way = "sent" if direction == "send" else "received"
        name = "1 stream" if streams == 1 else f"{streams} streams"
        one = heard == "senders"
        sent = 0.9 if streams == 1 else 1.0
        target = sent if direction == "send" else 1.0 if one and streams > 1 else 0.8
        rows.add(
            f"packet {way}, 1 ms stereo L16, {name}{' at one port' if one else ''}",
            f"bare loop{' of a socket each' if one else ''} {spread([bare / 1e3 for _, bare in pairs])} µs",
            f"{spread([ours / 1e3 for ours, _ in pairs])} µs",
            spread(ratios), f"≥ {target}", statistics.median(ratios) >= target,
        )
    return [rows.table()]


def launched():
    rows = Rows()
    say("packets with launch times compared with a bare loop")
    found = {}
    for _ in range(REPEATS):
        for line in cargo_bench("tautline-engine", "launched").splitlines():
            case = re.match(r"(rtp|avtp)(?:, (wire threads))?: taut (\S+) ns, bare (.*?)(\S+) ns", line)
            if case:
                by = (case[1].upper(), "I/O threads" if case[2] else "--io-thread no", case[4].strip())
                found.setdefault(by, []).append((float(case[3]), float(case[5])))
    for (wire, way, loop), pairs in found.items():
        ratios = [ours / bare for ours, bare in pairs]
        rows.add(f"packet of {wire} with a launch time, 125 µs of 8 channels, 8 streams, {way}",
                 f"bare loop{loop and f', {loop},'} {spread([bare / 1e3 for _, bare in pairs])} µs",
                 f"{spread([ours / 1e3 for ours, _ in pairs])} µs",
                 f"{spread(ratios)} times", "≤ 1.3 times", statistics.median(ratios) <= 1.3)
    return [rows.table()]


OFFLOADED_CASE = re.compile(r"(\d+) workers, (direct|ringed): +(\S+) us a worker and block, bare +(\S+) us, ratio \S+; "
                  r"callback p50 +(\S+) us, p99 +(\S+) us, bare +(\S+) us, +(\S+) us;")


COPIES_CASE = re.compile(r"(\d+) workers, bare with copies: +(\S+) us, of bare (\S+)")


def offloaded():
    rows = Rows()
    say("offloaded plugins compared with a bare exchange")
    found, copies = {}, {}
    for _ in range(REPEATS):
        for line in cargo_bench("tautline-engine", "offloaded").splitlines():
            if case := COPIES_CASE.match(line):
                copies.setdefault(int(case[1]), []).append((float(case[2]), float(case[3])))
            if case := OFFLOADED_CASE.match(line):
                found.setdefault((int(case[1]), case[2]), []).append([float(case[at]) for at in range(3, 9)])
    called = [["the host's callback, µs", "p50", "bare", "p99", "bare", "added at p99", "target", ""]]
    for workers, runs in copies.items():
        took, ratios = zip(*runs)
        rows.add(f"{workers} worker{'s' * (workers > 1)}: the bare exchange with four copies of each block", "bare exchange",
                 f"{spread(took)} µs", f"{spread(ratios)} times", "", None)
    for (workers, link), runs in found.items():
        ours, bare, *calls = zip(*runs)
        ratios = [one / other for one, other in zip(ours, bare)]
        name = f"{workers} worker{'s' * (workers > 1)}, {'direct link' if link == 'direct' else 'link with I/O thread'}"
        rows.add(f"{name}: processor time a worker and block", f"bare exchange {spread(bare)} µs", f"{spread(ours)} µs",
                 f"{spread(ratios)} times", "≤ 1.2 times", statistics.median(ratios) <= 1.2)
        added = statistics.median(one - other for one, other in zip(calls[1], calls[3]))
        p50, p99, bare_p50, bare_p99 = (f"{statistics.median(one):.1f}" for one in calls)
        goal = ["p99 ≤ 30", "met" if float(p99) <= 30 else "**missed**"] if workers == 1 else ["", ""]
        called.append([name, p50, bare_p50, p99, bare_p99, f"{added:+.1f}", *goal])
    return [rows.table(), called]


def instructions():
    if not shutil.which("valgrind"):
        return say("instructions: skipped, valgrind is not installed (scripts/setup bench)")
    say("instructions of a period")
    titles = {
        "copied": ("copied, everything on", 3000),
        "carried": ("copied, everything on, each packet repeats the one before", None),
        "resampled": ("resampled, low-delay, everything on, a card 50 ppm off", None),
        "unmeasured": ("copied, without measurement and redundancy", None),
    }
    found = dict(re.findall(r"(\w+): (\d+) instructions", output("scripts/instructions", "--totals")))
    # Simulated caches take minutes with 100 streams.
    lost = output("scripts/instructions", "--misses") if REPEATS > 1 else ""
    misses = {scene: lines for scene, *lines in re.findall(r"(\w+): (\S+) lines .+ 32 kB, (\S+) in 2 MB", lost)}
    floor = int(found["floor"])
    lines = [["one stream", "instructions", "floor", "× the floor", "target", "", "cache misses (32 kB), each of 100 streams", "cache misses (2 MB)"]]
    for scene, (title, target) in titles.items():
        count = int(found[scene])
        goal = [f"≤ {target}", "met" if count <= target else "**missed**"] if target else ["", ""]
        lines.append([title, str(count), str(floor), f"{count / floor:.1f}", *goal, *misses.get(scene, ["", ""])])
    return [lines]


def memory_of_an_hour():
    rows = Rows()
    say("an hour of packets to a receiver")
    line = cargo_bench("tautline-engine", "memory")
    before, after = map(int, re.search(r"(\d+) kB before, (\d+) kB after", line).groups())
    rows.add("memory of a receiver and its statistics after another 3.6 million packets", f"{before / 1e3:.1f} MB before",
        f"{after / 1e3:.1f} MB", f"{after - before:+} kB", "flat", after - before < 100)
    return [rows.table()]
