#!/usr/bin/env python3
"""docs/performance.md is made whole from its text and what was measured: whatever else is in it is found."""

import os
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from measure import page  # noqa: E402
from measure.tools import Rows, printed_tables  # noqa: E402


def part(what, measured, **changes):
    rows = Rows()
    rows.add(what, "", measured)
    return {"date": "2026-11-20", "commit": "d2adca1", "machine": "2 cores", "load": "0.4", "repeats": 3, "seconds": 90,
            "tables": [rows.table()], **changes}


HAND = "| a period | 2 µs | 1 µs | 2026-11-20 | `829dbc2` | `scripts/bench-alsa` |"
TEXT = f"""# Speed

On {{machine}}, {{minutes}} minutes.
<!-- figures: one -->

<!-- figures: two three -->

{page.BY_HAND}

| what | before | after | day | commit | command |
| --- | --- | --- | --- | --- | --- |
{HAND}
"""
PARTS = {"one": part("a packet", "480 ns"), "two": part("a stream", "5 %"), "three": part("a start", "2 ms")}


class Page(unittest.TestCase):
    def test_a_figure_that_is_edited_by_hand_is_found(self):
        made = page.page(TEXT, PARTS)
        self.assertEqual(page.differences(made, made), [])
        for old, new in (("480 ns", "240 ns"), ("2026-11-20", "2026-11-21"), ("`d2adca1`", "`829dbc2`"), ("# Speed", "# Haste")):
            said = page.differences(made.replace(old, new, 1), made)
            self.assertEqual(len(said), 1)
            self.assertIn(new, said[0])

    def test_a_line_that_is_added_or_taken_away_is_found(self):
        made = page.page(TEXT, PARTS)
        for edited in (made + "faster\n", made.rsplit("\n", 2)[0] + "\n"):
            self.assertIn("lines", page.differences(edited, made)[0])

    def test_a_part_that_did_not_run_keeps_its_day_and_commit(self):
        newer = part("a stream", "4 %", date="2026-11-21", commit="68e774e")
        lines = page.page(TEXT, {**PARTS, "two": newer}).splitlines()
        for figure, run in (("480 ns", "2026-11-20, `d2adca1`"), ("| 4 % |", "2026-11-21, `68e774e`"), ("2 ms", "2026-11-20, `d2adca1`")):
            # Of one part they stand above its table, of several in the line itself.
            at = next(number for number, line in enumerate(lines) if figure in line)
            above = max(number for number in range(at + 1) if ", `" in lines[number])
            self.assertIn(run, lines[above], figure)

    def test_a_part_that_was_never_measured_is_named(self):
        made = page.page(TEXT, {"one": PARTS["one"]})
        self.assertIn("\n\nNot measured yet: `two`, `three`.\n", made)
        self.assertNotIn("`one`.", made)

    def test_another_machine_than_most_is_named(self):
        made = page.page(TEXT, {**PARTS, "one": part("a packet", "480 ns", machine="8 cores")})
        self.assertIn("On 2 cores, 4 minutes", made)
        self.assertIn("load 0.4, 8 cores: `scripts/bench one`", made)

    def test_a_table_typed_in_among_what_is_measured_is_refused(self):
        self.assertEqual(page.wrong(TEXT, PARTS, PARTS), [])
        typed = TEXT.replace("minutes.\n", "minutes.\n| a packet | 100 ns |\n")
        self.assertEqual(len(page.wrong(typed, PARTS, PARTS)), 1)

    def test_what_is_measured_by_hand_has_a_day_a_commit_and_a_command(self):
        for lacking in ("2026-11-20", "`829dbc2`", "`scripts/bench-alsa`"):
            said = page.wrong(TEXT.replace(HAND, HAND.replace(lacking, "")), PARTS, PARTS)
            self.assertEqual(len(said), 1, lacking)
            self.assertIn("without its day, commit and command", said[0])

    def test_each_part_has_one_place(self):
        for text, parts, known in (
                (TEXT, PARTS, {**PARTS, "four": None}), (TEXT, PARTS, {"one": None, "two": None}),
                (TEXT + "<!-- figures: one -->\n", PARTS, PARTS)):
            self.assertNotEqual(page.wrong(text, parts, known), [])

    def test_columns_in_which_nothing_stands_are_left_out(self):
        self.assertEqual(page.shown(PARTS["one"]["tables"][0]), "| what | measured |\n| --- | --- |\n| a packet | 480 ns |\n")

    def test_tables_are_read_from_among_what_a_test_prints(self):
        printed = "running 1 test\ntest it ... | a | b |\n|---|---|\n| 1 | 2 |\nok\n\n| c |\n|---|\n| 3 |\n"
        self.assertEqual(printed_tables(printed), [[["a", "b"], ["1", "2"]], [["c"], ["3"]]])


if __name__ == "__main__":
    unittest.main()
