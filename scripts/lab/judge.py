"""What is wrong with what was measured: values in, sentences out. scripts/lab/judge_test.py shows that each
can be said."""

import csv
from typing import NamedTuple

FRAME = 1e9 / 48000

class Bound(NamedTuple):
    """What a measurement may be unsure by: more would agree with anything. And what a single mark may be off
    by that has its own uncertainty: a report has the median of these, and the greatest."""
    median: float
    greatest: float
    mark: float


# A frame for each of the two cards, and what the lines through their readings may be off by.
EXACT = Bound(2.5 * FRAME, 3 * FRAME, 3.5 * FRAME)
# A card that moves in steps of 4 ms says less, and now and then less still: 81 and 222 us were seen in ten
# minutes, and marks 101 us off. Why is not proven. Runs of 60 to 90 s at 500 MIPS differ: 15 to 90 us; one at
# 1000 had 6 to 8, one at 250 had 34 to 85. That may be what all cards have to do at one tick, one after the other.
COARSE = Bound(5 * FRAME, 16 * FRAME, 6 * FRAME)
# Marks come every 10 ms; the first and the last may be beyond the ends.
MARKS_PER_SECOND, MARKS_AT_ENDS = 100, 12


class Wrong(Exception):
    """What a scenario found."""


def micros(nanos):
    return f"{nanos / 1e3:.1f} us"


def figure(row):
    measured = row["measured"]
    if not measured["count"]:
        return "no mark was heard"
    return (f"{micros(measured['p50_ns'])} ± {micros(row['uncertainty_ns'])}, "
            f"{micros(measured['min_ns'])} to {micros(measured['max_ns'])}, {measured['count']} marks")


def whole(row):
    """Every mark that these seconds have room for was heard once, nothing between any two was dropped or
    repeated, and no card was started anew."""
    kinds = ("marks_missed", "marks_repeated", "dropped_frames", "repeated_frames")
    wrong = [f"{row[kind]} {kind.replace('_', ' ')}" for kind in kinds if row[kind]]
    wrong += [f"{card} had an xrun" for card in row["started_anew"]]
    if row["cards"] != row["cards_meant"]:
        wrong.append(f"{row['cards']} ends of cables ran, not {row['cards_meant']}")
    least = MARKS_PER_SECOND * row["seconds"] - MARKS_AT_ENDS
    if row["measured"]["count"] < least:
        wrong.append(f"{row['measured']['count']} marks were heard, less than {least}")
    return wrong


def nothing_lost(reports):
    """The same by the word of taut itself. A resync that can be heard marks tell, too; one before they count
    is none."""
    wrong = []
    for role, report in reports.items():
        counters = report["streams"][0]["counters"]
        wrong += [f"{counters[kind]} {kind} at {role}" for kind in ("lost", "late", "underrun_discarded")
                  if counters[kind]]
    return wrong


def expect(row, configured_ns, bound=EXACT):
    """The median is what was configured, within a frame and what it may be wrong by; no single mark is
    further off than its bound; and all may be wrong by little enough to mean something."""
    wrong = []
    for name, most in (("uncertainty_ns", bound.median), ("uncertainty_max_ns", bound.greatest)):
        if row[name] > most:
            wrong.append(f"unsure by {micros(row[name])}, more than {micros(most)}")
    near = FRAME + min(row["uncertainty_ns"], bound.median)
    for name, mark, kept in (("median", "p50_ns", near), ("least", "min_ns", bound.mark),
                             ("greatest", "max_ns", bound.mark)):
        off = row["measured"][mark] - configured_ns
        if abs(off) > kept:
            wrong.append(f"the {name} {micros(off)} off, more than {micros(kept)}")
    return wrong


def carried(ledger, begin, end, step):
    """By the receiver's line for each packet: of those that arrived from one instant to another none was
    late, none is missing, and each went through the resampler."""
    rows = [line for line in csv.DictReader(ledger) if begin <= int(line["arrival"] or 0) < end]
    late = sum(line["late"] != "0" for line in rows)
    copied = sum(line["resample_ns"] == "0" for line in rows)
    # They begin anywhere in 32 bits.
    first = int(rows[0]["rtp_timestamp"]) if rows else 0
    stamps = sorted((int(line["rtp_timestamp"]) - first + 2**31) % 2**32 for line in rows)
    lost = sum(b - a != step for a, b in zip(stamps, stamps[1:]))
    meant = (end - begin) / 1e9 * 48000 / step
    wrong = [f"{count} packets {what}" for count, what in
             ((late, "late"), (lost, "lost before others"), (copied, "not resampled")) if count]
    return wrong + [f"{len(rows)} packets, not {meant:.0f}"] * (abs(len(rows) - meant) > 4)


def gaps(met, step):
    """Between packets of so many frames, as (frame, nanosecond) at which each met the card: those that do not
    follow each other, as (frames, nanoseconds) from the end of one to the begin of the next."""
    found = []
    for (frame, at), (next_frame, next_at) in zip(met, met[1:]):
        frames, nanos = next_frame - frame - step, next_at - at - step * FRAME
        if frames or abs(nanos) > step * FRAME / 2:
            found.append((frames, nanos))
    return found


def kept_time(found):
    """A stream tells of a gap what passed, to two frames: or all after it would be played at another time."""
    return [f"{frames} frames of {micros(nanos)} are told" for frames, nanos in found
            if abs(frames * FRAME - nanos) > 2 * FRAME]


def one_hole(lengths, stood_ns, period):
    """A program that stood still lacks that time and two periods more: one to start in, one until it is ready.
    What its buffer held when it stopped is heard, or not."""
    if len(lengths) != 1:
        return [f"{len(lengths)} holes, not one"]
    more = lengths[0] - stood_ns
    least, most = -3 * period * FRAME, 2 * period * FRAME
    return [] if least <= more <= most else [f"{micros(more)} more than it stood still, not up to {micros(most)}"]


def packets(met, late, meant):
    """As many as there were to be, but for a few at either end."""
    wrong = [f"{late} packets late"] * (late > 0)
    return wrong + [f"{len(met)} packets, not {meant}"] * (not 0.99 * meant <= len(met) <= meant + 1)


def sounds(spans, *least):
    """So many stretches of sound, as (first frame, last frame), each at least so many seconds long."""
    lengths = [(last - first) / 48000 for first, last in spans]
    good = len(lengths) == len(least) and all(length >= most for length, most in zip(lengths, least))
    return [] if good else [f"sound of {', '.join(f'{length:.3f}' for length in lengths) or 'no'} s, "
                            f"not of {', '.join(str(length) for length in least)}"]


def near(readings, configured, most):
    """None of at least a dozen is further off."""
    wrong = [f"{len(readings)} readings"] * (len(readings) < 12)
    off = [reading for reading in readings if abs(reading - configured) > most]
    return wrong + [f"{off} are more than {most} off {configured}"] * bool(off)


def apart(row, ppm, within=15):
    """The cards did run at different rates: or nothing was proven."""
    drift = row["drift_ppm"] or 0
    return [] if abs(drift - ppm) <= within else [f"the cards were {drift:.1f} ppm apart, not {ppm}"]


def verdict(row, wrong):
    if wrong:
        raise Wrong(f"{', '.join(wrong)} ({figure(row)})")
    return figure(row)
