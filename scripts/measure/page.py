"""The files that scripts/bench makes: docs/performance.md, the tables in docs/performance/*.csv and the figures in docs/figures.

The page is the text of docs/performance.in.md. `<!-- scoreboard -->` marks the place of the scoreboard, and
`<!-- figures: PART… -->` that of the lines that link the tables of these parts. docs/performance.json has the results of the
last run of each part."""

import csv
import io
import json
import os
import re

from measure import charts, scoreboard
from measure.tools import ROOT

PAGE, TEXT, STORE = (os.path.join(ROOT, "docs/performance" + end) for end in (".md", ".in.md", ".json"))
TABLES, FIGURES = os.path.join(ROOT, "docs/performance"), os.path.join(ROOT, "docs/figures")
MAX_LINES = 350
PLACE = re.compile(r"<!-- figures: (\w+(?: \w+)*) -->")
SCOREBOARD = "<!-- scoreboard -->"
COMMAND = re.compile(r"^(`[^`]+`(?:, [^:]+)?): ")
# Edited by hand: before and after of changes, and measurements that need other machines.
BY_HAND = "by-hand.csv"
HAND_HEAD = ["what", "before", "after", "day", "commit", "command"]
HAND = {"day": r"\d{4}-\d\d-\d\d", "commit": r"[0-9a-f]{7,8}", "command": r"\S.*"}
MADE = "<!-- Made by `scripts/bench --make` from performance.in.md and performance.json: edit the text there. -->\n\n"


def read(path):
    with open(path, newline="") as file:
        return file.read()


def stored():
    return json.loads(read(STORE)) if os.path.exists(STORE) else {}


def store(parts):
    """One line of the file for each line of a table, so that a diff shows the changes."""
    line = lambda value: json.dumps(value, ensure_ascii=False)
    kept = []
    for name, part in sorted(parts.items()):
        tables = ",\n".join("   [" + ",\n    ".join(map(line, table)) + "]" for table in part["tables"])
        run = "".join(f"  {line(key)}: {line(value)},\n" for key, value in part.items() if key != "tables")
        kept.append(f" {line(name)}: {{\n{run}  \"tables\": [\n{tables}\n  ]\n }}")
    with open(STORE, "w") as file:
        file.write("{\n" + ",\n".join(kept) + "\n}\n")


def used(lines):
    """A table without its empty columns."""
    keep = [any(cells) for cells in zip(*lines[1:])]
    return [[cell for cell, use in zip(line, keep) if use] for line in lines]


def shown(lines):
    """A table as Markdown."""
    head, *rest = used(lines)
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, ["---"] * len(head), *rest))


def sheet(lines):
    """A table as CSV: plain cells, a name for each column, the command of the first heading left to the page."""
    (first, *others), *rest = used(lines)
    name = COMMAND.sub("", first)
    head = [f"case ({name})" if name != first else first, *(other or "result" for other in others)]
    head = [one if head.index(one) == at else f"{one} ({head[:at].count(one) + 1})" for at, one in enumerate(head)]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([[cell.replace("**", "").replace("`", "") for cell in line] for line in (head, *rest)])
    return text.getvalue()


def sheets(name, part):
    """The CSV files of a part, by name."""
    return {f"{name}{f'-{at}' if at > 1 else ''}.csv": sheet(table) for at, table in enumerate(part["tables"], 1)}


def run(part, machine):
    """When, where and how often a part was measured."""
    repeats = "1 run" if part["repeats"] == 1 else f"{part['repeats']} runs"
    elsewhere = "" if part["machine"] == machine else f", {part['machine']}"
    return f"{part['date']}, `{part['commit']}`, {repeats}, load {part['load']}{elsewhere}"


def figures(names, parts, machine):
    """The tables of parts as Markdown, for the terminal."""
    return "\n".join(f"`scripts/bench {name}`: {run(parts[name], machine)}\n\n"
                     + "\n".join(map(shown, parts[name]["tables"])) for name in names if name in parts)


def links(names, parts, machine):
    """One line for each part: its tables, its run, and the commands that repeat it."""
    lines = []
    for name in names:
        if name not in parts:
            lines.append(f"- `{name}`: not measured yet.\n")
            continue
        files = ", ".join(f"[{file}](performance/{file})" for file in sheets(name, parts[name]))
        inside = [found[1] for table in parts[name]["tables"] if (found := COMMAND.match(table[0][0]))]
        asked = "; ".join(dict.fromkeys([f"`scripts/bench {name}`", *inside]))
        lines.append(f"- {files}: {run(parts[name], machine)}: {asked}\n")
    return "".join(lines)


def page(text, parts):
    machines = [part["machine"] for part in parts.values()]
    machine = max(machines, key=machines.count, default="no machine yet")
    known = [part["seconds"] for part in parts.values() if part["seconds"] is not None]
    values = {"{machine}": machine, "{minutes}": str(round(sum(known) / 60)), "{timed}": str(len(known))}
    for name, value in values.items():
        text = text.replace(name, value)

    def made(line):
        if line == SCOREBOARD:
            return shown(scoreboard.board(parts))
        return links(found[1].split(), parts, machine) if (found := PLACE.fullmatch(line)) else line + "\n"

    return MADE + "".join(map(made, text.splitlines()))


def made(text, parts):
    """Each file that is made, by path, with its text."""
    files = {PAGE: page(text, parts)}
    for name, part in parts.items():
        files |= {os.path.join(TABLES, file): content for file, content in sheets(name, part).items()}
    return files | {os.path.join(FIGURES, f"{name}.svg"): svg for name, svg in charts.drawn(parts).items()}


def leftover(files):
    """Tables in the folder that no part has any more."""
    there = os.listdir(TABLES) if os.path.isdir(TABLES) else []
    return [path for file in sorted(there) if file != BY_HAND and (path := os.path.join(TABLES, file)) not in files]


def write(files):
    os.makedirs(TABLES, exist_ok=True)
    for path, content in files.items():
        with open(path, "w", newline="") as file:
            file.write(content)
    for path in leftover(files):
        os.remove(path)


def wrong(text, parts, known, by_hand):
    """Defects of the text and of the tables kept by hand: one sentence each."""
    places = [name for names in PLACE.findall(text) for name in names.split()]
    found = [f"the text has a place for {name!r}, which is not a part" for name in places if name not in known]
    found += [f"the part {name!r} needs exactly one place in the text" for name in known if places.count(name) != 1]
    found += [f"performance.json has results of {name!r}, which is not a part" for name in parts if name not in known]
    found += [f"the text lacks {SCOREBOARD}"] * (text.splitlines().count(SCOREBOARD) != 1)
    found += [f"the text lacks the figure {name}.svg" for name in charts.FIGURES if f"(figures/{name}.svg)" not in text]
    found += [f"a measured table is typed into the text: {line}" for line in text.splitlines() if line.startswith("|")]
    found += scoreboard.wrong(parts)
    head, *rows = list(csv.reader(io.StringIO(by_hand))) or [[]]
    found += [f"{BY_HAND}: the columns must be {', '.join(HAND_HEAD)}"] * (head != HAND_HEAD)
    return found + [f"{BY_HAND}: day, commit or command is missing: {','.join(row)}" for row in rows if not by_hand_row(row)]


def by_hand_row(row):
    cells = dict(zip(HAND_HEAD, row))
    return len(row) == len(HAND_HEAD) and all(re.fullmatch(pattern, cells[name]) for name, pattern in HAND.items())


def differences(name, has, wants):
    """The first line in which a file differs from the text that would be made."""
    if has is None:
        return [f"{name} is missing"]
    has, wants = has.splitlines(), wants.splitlines()
    for number, (one, other) in enumerate(zip(has, wants), 1):
        if one != other:
            return [f"{name}: line {number} is {one!r}, must be {other!r}"]
    return [] if len(has) == len(wants) else [f"{name} has {len(has)} lines, must have {len(wants)}"]


def check(text, parts, known):
    """All defects of the page, its tables and its figures."""
    by_hand = os.path.join(TABLES, BY_HAND)
    if found := wrong(text, parts, known, read(by_hand) if os.path.exists(by_hand) else ""):
        return found
    try:
        files = made(text, parts)
    except scoreboard.Unknown as missing:
        return [f"a figure cannot be drawn: {missing}"]
    for path, wants in files.items():
        found += differences(os.path.relpath(path, ROOT), read(path) if os.path.exists(path) else None, wants)
    found += [f"{os.path.relpath(path, ROOT)} belongs to no part" for path in leftover(files)]
    lines = files[PAGE].count("\n")
    return found + [f"docs/performance.md has {lines} lines, at most {MAX_LINES} are allowed"] * (lines > MAX_LINES)
