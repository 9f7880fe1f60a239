"""docs/performance.md, as it is made: the text of docs/performance.in.md, and for each line
`<!-- figures: PART -->` what docs/performance.json keeps of the part's last run."""

import json
import os
import re

from measure.tools import ROOT

PAGE, TEXT, STORE = (os.path.join(ROOT, "docs/performance" + end) for end in (".md", ".in.md", ".json"))
PLACE = re.compile(r"<!-- figures: (\w+(?: \w+)*) -->")
BY_HAND = "## Measured by hand"
# The last cells of its lines: a day, a commit, what repeats it.
HAND = re.compile(r"\|.*\| \d{4}-\d\d-\d\d \| `[0-9a-f]{7}` \| `[^`|]+` \|")
MADE = "<!-- Made by `scripts/bench --write` of performance.in.md and performance.json: edit the text there. -->\n\n"


def read(path):
    with open(path) as file:
        return file.read()


def stored():
    return json.loads(read(STORE)) if os.path.exists(STORE) else {}


def store(parts):
    """A line of a table is a line of the file, so that a diff shows what has changed."""
    line = lambda value: json.dumps(value, ensure_ascii=False)
    kept = []
    for name, part in sorted(parts.items()):
        tables = ",\n".join("   [" + ",\n    ".join(map(line, table)) + "]" for table in part["tables"])
        run = "".join(f"  {line(key)}: {line(value)},\n" for key, value in part.items() if key != "tables")
        kept.append(f" {line(name)}: {{\n{run}  \"tables\": [\n{tables}\n  ]\n }}")
    with open(STORE, "w") as file:
        file.write("{\n" + ",\n".join(kept) + "\n}\n")


def shown(lines):
    """A table without the columns in which nothing stands."""
    used = [any(cells) for cells in zip(*lines[1:])]
    head, *rest = [[cell for cell, use in zip(line, used) if use] for line in lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, ["---"] * len(head), *rest))


def run(part, machine):
    """When, where and how often a part was measured."""
    repeats = "once" if part["repeats"] == 1 else f"median of {part['repeats']} (least–greatest)"
    elsewhere = "" if part["machine"] == machine else f", {part['machine']}"
    return f"{part['date']}, `{part['commit']}`, {repeats}, load {part['load']}{elsewhere}"


def figures(names, parts, machine):
    """What is known of parts that have one place: one of them its tables, several one table of all rows."""
    command = f"`scripts/bench {' '.join(names)}`"
    known = [parts[name] for name in names if name in parts]
    lacking = [f"`{name}`" for name in names if name not in parts]
    lacking = [f"Not measured yet: {', '.join(lacking)}.\n"] if lacking else []
    if len(names) == 1:
        return "\n".join([f"*{run(part, machine)}: {command}.*\n" for part in known]
                         + [shown(table) for part in known for table in part["tables"]] + lacking)
    lines = [[*line, run(part, machine)] for part in known for table in part["tables"] for line in table[1:]]
    tables = [shown([[*known[0]["tables"][0][0], "measured on"], *lines])] if known else []
    return "\n".join([f"{command}:\n", *tables, *lacking])


def page(text, parts):
    machines = [part["machine"] for part in parts.values()]
    machine = max(machines, key=machines.count, default="no machine yet")
    known = [part["seconds"] for part in parts.values() if part["seconds"] is not None]
    told = {"{machine}": machine, "{minutes}": str(round(sum(known) / 60)), "{timed}": str(len(known))}
    for name, value in told.items():
        text = text.replace(name, value)
    lines = [figures(match[1].split(), parts, machine) if (match := PLACE.fullmatch(line)) else line + "\n"
             for line in text.splitlines()]
    return MADE + "".join(lines)


def wrong(text, parts, known):
    """What keeps the text from being one whose figures can be repeated: a sentence each."""
    says, places = [], [name for names in PLACE.findall(text) for name in names.split()]
    says += [f"there is no part {name!r} for its place in the text" for name in places if name not in known]
    says += [f"the part {name!r} has no place in the text" for name in known if places.count(name) != 1]
    says += [f"figures are kept of {name!r}, which is no part" for name in parts if name not in known]
    measured, _, by_hand = text.partition(BY_HAND)
    says += [f"typed in by hand above {BY_HAND!r}: {line}" for line in measured.splitlines() if line.startswith("|")]
    _, _, *by_hand = [line for line in by_hand.splitlines() if line.startswith("|")] or ["", ""]
    says += [f"without its day, commit and command: {line}" for line in by_hand if not HAND.fullmatch(line)]
    return says


def differences(has, wants):
    """The first line in which the page is not as it is made."""
    has, wants = has.splitlines(), wants.splitlines()
    for number, (one, other) in enumerate(zip(has, wants), 1):
        if one != other:
            return [f"line {number} is {one!r}, and would be made {other!r}"]
    return [] if len(has) == len(wants) else [f"it has {len(has)} lines, and would be made with {len(wants)}"]
