"""The figures of docs/performance.md: SVG drawn from docs/performance.json.

Each figure brings its own background, so that it is readable on a light and on a dark page. The viewer's colour scheme selects
the colours. Colour is never the only mark: each series has a shape of its own."""

import math
import re
from html import escape

from measure.scoreboard import CARD_NS, TIMER_NS, Table, number, runs

WIDTH = 720
STYLE = """
  text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: #1f2328 }
  .title { font-size: 15px; font-weight: 600 }
  .small { font-size: 11px; fill: #59636e }
  .back { fill: #ffffff } .grid { stroke: #d8dee4 } .axis { stroke: #59636e } .guide { stroke: #59636e; stroke-dasharray: 5 4 }
  .a { stroke: #0969da; fill: #0969da } .b { stroke: #bc4c00; fill: #bc4c00 }
  .c { stroke: #1a7f37; fill: #1a7f37 } .d { stroke: #8250df; fill: #8250df }
  .line { fill: none; stroke-width: 1.8 } .dot { stroke-width: 1.6 } .open { fill: #ffffff }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .small { fill: #9198a1 }
    .back { fill: #0d1117 } .grid { stroke: #2b323b } .axis { stroke: #9198a1 } .guide { stroke: #9198a1 }
    .a { stroke: #58a6ff; fill: #58a6ff } .b { stroke: #f0883e; fill: #f0883e }
    .c { stroke: #3fb950; fill: #3fb950 } .d { stroke: #bc8cff; fill: #bc8cff }
    .line { fill: none } .open { fill: #0d1117 }
  }
"""
SHAPES = {"a": "circle", "b": "square", "c": "triangle", "d": "diamond"}


def shape(kind, x, y, style, size=4.0):
    """A mark of a series."""
    s = size
    if kind == "circle":
        return f'<circle class="dot {style}" cx="{x:.1f}" cy="{y:.1f}" r="{s:.1f}"/>'
    points = {"square": ((-s, -s), (s, -s), (s, s), (-s, s)), "triangle": ((0, -1.2 * s), (1.1 * s, s), (-1.1 * s, s)),
              "diamond": ((0, -1.3 * s), (1.3 * s, 0), (0, 1.3 * s), (-1.3 * s, 0))}[kind]
    return f'<polygon class="dot {style}" points="{" ".join(f"{x + a:.1f},{y + b:.1f}" for a, b in points)}"/>'


class Log:
    """A logarithmic axis; values up to `zero` are drawn at the lower end."""

    def __init__(self, low, high, begin, end, zero=0.0):
        self.low, self.high, self.begin, self.end, self.zero = low, high, begin, end, zero

    def __call__(self, value):
        part = 0.0 if value <= self.zero else math.log(value / self.low) / math.log(self.high / self.low)
        return self.begin + part * (self.end - self.begin)


class Drawing:
    def __init__(self, height, title, description):
        self.height, self.parts = height, []
        self.head = f"<title>{escape(title)}</title>\n<desc>{escape(description)}</desc>"
        self.text(16, 26, title, "title")

    def add(self, *parts):
        self.parts += parts

    def text(self, x, y, words, style="", anchor="start", turn=False):
        turned = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turn else ""
        named = f' class="{style}"' if style else ""
        self.add(f'<text{named} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{turned}>{escape(words)}</text>')

    def line(self, style, *points):
        self.add(f'<polyline class="{style}" fill="none" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>')

    def axes(self, x, y, ticks_x, ticks_y, name_x, name_y, labels_y=True):
        """Grid, ticks and names; ticks are pairs of value and label."""
        for value, label in ticks_x:
            self.line("grid", (x(value), y.begin), (x(value), y.end))
            self.text(x(value), y.begin + 17, label, "small", "middle")
        for value, label in ticks_y:
            self.line("grid", (x.begin, y(value)), (x.end, y(value)))
            if labels_y:
                self.text(x.begin - 7, y(value) + 4, label, "small", "end")
        self.line("axis", (x.begin, y.end), (x.begin, y.begin), (x.end, y.begin))
        self.text((x.begin + x.end) / 2, y.begin + 37, name_x, anchor="middle")
        if name_y:
            self.text(16, (y.begin + y.end) / 2, name_y, anchor="middle", turn=True)

    def series(self, style, points, open_=False, line=True):
        if line:
            self.line(f"line {style}", *points)
        for x, y in points:
            self.add(shape(SHAPES[style], x, y, f"{style} open" if open_ else style))

    def legend(self, x, y, entries, step=18):
        """Entries are style (`a` to `d`, `a open`, or `guide`) and words, one below the other."""
        for at, (style, words) in enumerate(entries):
            line = y + at * step
            if style == "guide":
                self.line("guide", (x - 10, line - 4), (x + 10, line - 4))
            else:
                self.add(shape(SHAPES[style[0]], x, line - 4, style))
            self.text(x + 16, line, words)

    def svg(self):
        body = "\n".join(self.parts)
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" width="{WIDTH}" height="{self.height}" '
                f'role="img">\n{self.head}\n<style>{STYLE}</style>\n'
                f'<rect class="back" width="{WIDTH}" height="{self.height}"/>\n{body}\n</svg>\n')


def same(*values):
    return [(value, f"{value:g}") for value in values]


def latency(parts):
    """Configured latency against measured latency, tautline next to the thesis."""
    table = Table(parts, "ladder")
    drawing = Drawing(420, "Latency: configured and measured",
                      "Measured latency over configured latency, from 3 to 100 ms. All runs of tautline lie on the diagonal; "
                      "the thesis's pipeline lies 5 to 20 ms above it.")
    x, y = Log(2.5, 150, 74, 470), Log(2.5, 150, 368, 48)
    ticks = same(3, 5, 10, 20, 30, 50, 100)
    drawing.axes(x, y, ticks, ticks, "configured latency (ms)", "measured latency (ms)")
    drawing.line("guide", (x(2.5), y(2.5)), (x(150), y(150)))
    published = [column for column, head in enumerate(table.lines[0]) if "thesis" in head]
    points = {(number(line[0]), float(value)) for line in table.rows() for column in published
              for value in re.findall(r"\d+", line[column])}
    drawing.series("b", [(x(configured), y(measured)) for configured, measured in sorted(points)], line=False)
    ours = [(configured, measured) for configured, measured, *_ in runs(table.rows())]
    drawing.series("a", [(x(configured), y(measured)) for configured, measured in ours], line=False)
    worst = max(abs(measured - configured) for configured, measured in ours)
    uncertainty = max(float(found) for line in table.rows() for cell in line for found in re.findall(r"± ([\d.]+),", cell))
    drawing.legend(498, 66, [("a", f"tautline: {len(ours)} runs"), ("b", "thesis (Lund 2020)"), ("guide", "measured = configured")])
    for at, words in enumerate((f"Tautline differs by {worst:.3f} ms", "at most; each value has an", f"uncertainty of {uncertainty:.3f} ms.",
                                "Silent and noisy networks.", "The thesis ran GStreamer", "on two embedded computers.")):
        drawing.text(488, 140 + 17 * at, words, "small")
    return drawing.svg()


NOTHING = 0.00005  # per cent: below one packet of the 600 000


def loss(parts):
    """Packets that stay missing with each kind of redundancy, against the added latency."""
    table = Table(parts, "redundancy")
    drawing = Drawing(420, "Loss: packets missing after repair",
                      "Per cent of packets of 1 ms that stay missing, over the latency that repair may add, for three kinds of loss. "
                      "With 20 ms or more, redundancy repairs nearly all random loss.")
    y = Log(NOTHING, 30, 336, 74, NOTHING)
    ticks = [(0, "0"), *((value, f"{value:g} %") for value in (0.001, 0.01, 0.1, 1, 10))]
    kinds = (("5 % random", 5), ("5 % in bursts of 3", 5), ("20 % in bursts of 3", 20))
    ways = (("a", "fec:8"), ("b", "fec:3"), ("c", "fec:1"), ("d", "red:1"))
    for at, (kind, lost) in enumerate(kinds):
        left = 84 + at * 214
        x = Log(2.4, 50, left, left + 190)
        rows = sorted((number(line[0].rsplit(", ", 1)[1]), line) for line in table.rows(rf"^{kind}, \d+ ms$"))
        drawing.axes(x, y, same(3, 10, 20, 40), ticks, "repair within (ms)", "" if at else "packets missing in the sound", labels_y=not at)
        drawing.text(left + 95, 62, f"network: {kind}", anchor="middle")
        drawing.line("guide", (x.begin, y(lost)), (x.end, y(lost)))
        for nth, (style, way) in enumerate(ways):
            column, aside = table.column(way), 4 * nth - 6  # so that equal values stay visible
            drawing.series(style, [(x(budget) + aside, y(float(line[column]))) for budget, line in rows if line[column]])
    entries = [("guide", "without repair"), *((style, f"{way} ({cost(table, way)} bandwidth)") for style, way in ways)]
    for at, entry in enumerate(entries):
        drawing.legend(94 + at % 3 * 214, 394 + at // 3 * 18, [entry])
    return drawing.svg()


def cost(table, way):
    return table.row("^bandwidth$")[table.column(way)].replace("× ", "×")


def intervals(parts):
    """How far packet intervals spread in each pacing mode."""
    table = Table(parts, "rungs")
    mode, period = table.column("mode"), table.column("period")
    ours = [line for line in table.rows() if "bare loop" not in line[mode]]
    height = 104 + 30 * len(ours) + 62
    drawing = Drawing(height, "Packet intervals by pacing mode: spread around 125 µs",
                      "Standard deviation and the range from the 0.1st to the 99.9th percentile of packet intervals, for each pacing mode; "
                      "next to them the standard deviation of a bare loop and published values.")
    bottom = 104 + 30 * len(ours)
    x, y = Log(10, 1e7, 216, 696), Log(1, 10, bottom, 86)
    drawing.axes(x, y, [(10 ** power, words) for power, words in
                        enumerate(("10 ns", "100 ns", "1 µs", "10 µs", "100 µs", "1 ms", "10 ms"), 1)], [], "spread of the interval", "")
    for value, words in ((CARD_NS, "card with launch times"), (TIMER_NS, "software timer")):
        drawing.line("guide", (x(value), y.begin), (x(value), y.end))
        drawing.text(x(value), 80, words, "small")
    stdev, spread = table.column("stdev"), table.column("p99.9 - p0.1")
    for at, line in enumerate(ours):
        row = 104 + 30 * at
        name = line[mode].replace("`", "")
        drawing.text(208, row + 4, f"{name}, {line[period]} frames", anchor="end")
        drawing.line("line a", (x(float(line[stdev])), row), (x(float(line[spread])), row))
        for bare in table.rows():
            if bare[mode] == f"{line[mode]}, bare loop" and bare[period] == line[period]:
                drawing.add(shape("square", x(float(bare[stdev])), row, "b open", 6.5))
        drawing.add(shape("circle", x(float(line[stdev])), row, "a"), shape("diamond", x(float(line[spread])), row, "d"))
    for at, entry in enumerate((("a", "standard deviation"), ("d", "0.1st to 99.9th percentile"), ("b open", "bare loop, deviation"),
                                ("guide", "AAF plugin, 2018"))):
        drawing.legend(26 + (0, 150, 345, 520)[at], 54, [entry])
    return drawing.svg()


def cpu(parts):
    """Processor time of a receiver, against the number of its streams."""
    table, processes = Table(parts, "many_streams"), Table(parts, "processes")
    drawing = Drawing(420, "CPU: one receiver, by its streams",
                      "Processor time of a receiver with 1, 10 and 100 streams of packets of 1 ms and of 5 ms, in per cent of a core; "
                      "next to it GStreamer with one stream.")
    x, y = Log(0.7, 140, 74, 470), Log(1, 100, 368, 48)
    drawing.axes(x, y, same(1, 10, 100), [(value, f"{value:g} %") for value in (1, 2, 5, 10, 20, 50, 100)],
                 "streams at one receiver", "processor time (% of a core)")
    entries = []
    for style, packets, case in (("a", "1 ms", "5 ms, 1 ms, 20 ms"), ("b", "5 ms", "5 ms, 5 ms, 20 ms")):
        row = table.row(rf"^{packets}$")
        counts = ((1, "one stream"), (10, "10 streams"), (100, "100 streams"))
        drawing.series(style, [(x(count), y(number(row[table.column(name)]))) for count, name in counts])
        theirs = number(processes.row(rf"^{case}$")[processes.column("GStreamer", 1)])
        drawing.series(style, [(x(1), y(theirs))], open_=True, line=False)
        entries += [(style, f"tautline, packets of {packets}"), (f"{style} open", f"GStreamer, packets of {packets}")]
    base = number(table.row("^1 ms$")[table.column("one stream")])
    drawing.line("guide", (x(1), y(base)), (x(100 / base), y(100)))
    drawing.legend(498, 66, [*entries, ("guide", "in proportion")])
    for at, words in enumerate(("Periods of 5 ms, latency 20 ms,", "stereo, stall monitor off.", "Cost of 100 streams, each",
                                "compared with one alone:", "see many_streams.csv.")):
        drawing.text(488, 176 + 17 * at, words, "small")
    return drawing.svg()


FIGURES = {"latency": (latency, ("ladder",)), "loss": (loss, ("redundancy",)), "intervals": (intervals, ("rungs",)),
           "cpu": (cpu, ("many_streams", "processes"))}


def drawn(parts):
    """Each figure whose parts were measured, by name."""
    return {name: draw(parts) for name, (draw, needs) in FIGURES.items() if all(need in parts for need in needs)}
