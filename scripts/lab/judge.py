"""Checks of measured values; each returns one sentence per defect. scripts/lab/judge_test.py tests that each can
fail."""

import csv
from typing import NamedTuple

FRAME = 1e9 / 48000

class Bound(NamedTuple):
    """Max uncertainty of a measurement, median and greatest of its marks, because a larger one agrees with any value; and the
    max deviation of a single mark."""
    median: float
    greatest: float
    mark: float


# A frame for each of the two cards, and the error of the lines through their readings.
EXACT = Bound(2.5 * FRAME, 3 * FRAME, 3.5 * FRAME)
# A card with steps of 4 ms is less exact: ten minutes had uncertainties of 81 and 222 us, and marks 101 us off. Runs of 60
# to 90 s at 500 MIPS had 15 to 90 us, one at 1000 MIPS 6 to 8 us, one at 250 MIPS 34 to 85 us. The cause is not known;
# it may be the work of all cards at one tick.
COARSE = Bound(5 * FRAME, 16 * FRAME, 6 * FRAME)
# Marks come every 10 ms; the first and the last may be beyond the ends.
MARKS_PER_SECOND, MARKS_AT_ENDS = 100, 12


class Wrong(Exception):
    """Failure of a scenario."""


def micros(nanos):
    return f"{nanos / 1e3:.1f} us"


def figure(row):
    measured = row["measured"]
    if not measured["count"]:
        return "no mark was found"
    return (f"{micros(measured['p50_ns'])} ± {micros(row['uncertainty_ns'])}, "
            f"{micros(measured['min_ns'])} to {micros(measured['max_ns'])}, {measured['count']} marks")


def whole(row):
    """Each mark of these seconds was found once, no frames between marks were dropped or repeated, and no card
    restarted."""
    kinds = ("marks_missed", "marks_repeated", "dropped_frames", "repeated_frames")
    wrong = [f"{row[kind]} {kind.replace('_', ' ')}" for kind in kinds if row[kind]]
    wrong += [f"{card} had an xrun" for card in row["started_anew"]]
    if row["cards"] != row["cards_meant"]:
        wrong.append(f"{row['cards']} ends of cables ran, not {row['cards_meant']}")
    least = MARKS_PER_SECOND * row["seconds"] - MARKS_AT_ENDS
    if row["measured"]["count"] < least:
        wrong.append(f"{row['measured']['count']} marks were found, less than {least}")
    return wrong


def nothing_lost(reports):
    """The same from the counters of taut. Resyncs are not checked: audible ones show in the marks."""
    wrong = []
    for role, report in reports.items():
        counters = report["streams"][0]["counters"]
        wrong += [f"{counters[kind]} {kind} at {role}" for kind in ("lost", "late", "underrun_discarded")
                  if counters[kind]]
    return wrong


def expect(row, configured_ns, bound=EXACT):
    """The median is the configured latency within a frame and its uncertainty, each mark is within its bound, and the
    uncertainties are small enough."""
    wrong = []
    for name, most in (("uncertainty_ns", bound.median), ("uncertainty_max_ns", bound.greatest)):
        if row[name] > most:
            wrong.append(f"uncertainty {micros(row[name])}, more than {micros(most)}")
    near = FRAME + min(row["uncertainty_ns"], bound.median)
    for name, mark, kept in (("median", "p50_ns", near), ("least", "min_ns", bound.mark),
                             ("greatest", "max_ns", bound.mark)):
        off = row["measured"][mark] - configured_ns
        if abs(off) > kept:
            wrong.append(f"the {name} {micros(off)} off, more than {micros(kept)}")
    return wrong


def carried(ledger, begin, end, step):
    """From the receiver's packet log: of the packets that arrived between two instants none is late, none is missing, and
    each was resampled."""
    rows = [line for line in csv.DictReader(ledger) if begin <= int(line["arrival"] or 0) < end]
    late = sum(line["late"] != "0" for line in rows)
    copied = sum(line["resample_ns"] == "0" for line in rows)
    # RTP timestamps begin at any 32-bit value.
    first = int(rows[0]["rtp_timestamp"]) if rows else 0
    stamps = sorted((int(line["rtp_timestamp"]) - first + 2**31) % 2**32 for line in rows)
    lost = sum(b - a != step for a, b in zip(stamps, stamps[1:]))
    meant = (end - begin) / 1e9 * 48000 / step
    wrong = [f"{count} packets {what}" for count, what in
             ((late, "late"), (lost, "lost before others"), (copied, "not resampled")) if count]
    return wrong + [f"{len(rows)} packets, not {meant:.0f}"] * (abs(len(rows) - meant) > 4)


def gaps(met, step):
    """Gaps between packets of `step` frames, as (frames, nanoseconds) from the end of one packet to the begin of the next. `met`
    has the (frame, nanosecond) at which each packet was at the card."""
    found = []
    for (frame, at), (next_frame, next_at) in zip(met, met[1:]):
        frames, nanos = next_frame - frame - step, next_at - at - step * FRAME
        if frames or abs(nanos) > step * FRAME / 2:
            found.append((frames, nanos))
    return found


def kept_time(found):
    """The timestamps of a gap match its duration within two frames. Otherwise all later audio would be shifted."""
    return [f"{frames} frames of {micros(nanos)} in the timestamps" for frames, nanos in found
            if abs(frames * FRAME - nanos) > 2 * FRAME]


def one_hole(lengths, stood_ns, period):
    """A stopped program loses that time and up to two periods: one to restart, one until it is ready. The audio in its buffer
    may be played or not."""
    if len(lengths) != 1:
        return [f"{len(lengths)} holes, not one"]
    more = lengths[0] - stood_ns
    least, most = -3 * period * FRAME, 2 * period * FRAME
    return [] if least <= more <= most else [f"{micros(more)} more than the stop, not up to {micros(most)}"]


def packets(met, late, meant):
    """The expected number of packets, except a few at either end."""
    wrong = [f"{late} packets late"] * (late > 0)
    return wrong + [f"{len(met)} packets, not {meant}"] * (not 0.99 * meant <= len(met) <= meant + 1)


def sounds(spans, *least):
    """Stretches of audio, as (first frame, last frame), each with a minimum length in seconds."""
    lengths = [(last - first) / 48000 for first, last in spans]
    good = len(lengths) == len(least) and all(length >= most for length, most in zip(lengths, least))
    return [] if good else [f"sound of {', '.join(f'{length:.3f}' for length in lengths) or 'no'} s, "
                            f"not of {', '.join(str(length) for length in least)}"]


def near(readings, configured, most):
    """At least a dozen readings, all within the limit."""
    wrong = [f"{len(readings)} readings"] * (len(readings) < 12)
    off = [reading for reading in readings if abs(reading - configured) > most]
    return wrong + [f"{off} are more than {most} off {configured}"] * bool(off)


def apart(row, ppm, within=15):
    """The cards ran at different rates; otherwise the run proves nothing."""
    drift = row["drift_ppm"] or 0
    return [] if abs(drift - ppm) <= within else [f"the cards were {drift:.1f} ppm apart, not {ppm}"]


def verdict(row, wrong):
    if wrong:
        raise Wrong(f"{', '.join(wrong)} ({figure(row)})")
    return figure(row)
