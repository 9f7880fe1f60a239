#!/usr/bin/env python3
"""Tests of the page, tables and figures that scripts/bench makes: each edit by hand is reported."""

import csv
import io
import os
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from measure import charts, page, scoreboard  # noqa: E402
from measure.tools import Rows, printed_tables  # noqa: E402


def part(what, measured, **changes):
    rows = Rows()
    rows.add(what, "", measured)
    return {"date": "2026-11-20", "commit": "d2adca1", "machine": "2 cores", "load": "0.4", "repeats": 3, "seconds": 90,
            "tables": [rows.table()], **changes}


FIGURES = "\n".join(f"![](figures/{name}.svg)" for name in charts.FIGURES)
TEXT = f"""# Speed

{page.SCOREBOARD}

{FIGURES}

On {{machine}}, {{minutes}} minutes.
<!-- figures: one -->

<!-- figures: two three -->
"""
HAND = "a period,2 µs,1 µs,2026-11-20,829dbc2,scripts/bench-alsa"
BY_HAND = f"{','.join(page.HAND_HEAD)}\n{HAND}\n"
PARTS = {"one": part("a packet", "480 ns"), "two": part("a stream", "5 %"), "three": part("a start", "2 ms")}


class Page(unittest.TestCase):
    def test_edited_line_is_reported(self):
        made = page.page(TEXT, PARTS)
        self.assertEqual(page.differences("it", made, made), [])
        for old, new in (("2026-11-20", "2026-11-21"), ("`d2adca1`", "`829dbc2`"), ("# Speed", "# Haste"), ("not measured", "1 ns")):
            reported = page.differences("it", made.replace(old, new, 1), made)
            self.assertEqual(len(reported), 1)
            self.assertIn(new, reported[0])

    def test_added_or_removed_line_is_reported(self):
        made = page.page(TEXT, PARTS)
        for edited in (made + "faster\n", made.rsplit("\n", 2)[0] + "\n"):
            self.assertIn("lines", page.differences("it", edited, made)[0])

    def test_missing_file_is_reported(self):
        self.assertEqual(page.differences("a.csv", None, "1\n"), ["a.csv is missing"])

    def test_each_part_has_a_line_with_its_run(self):
        newer = part("a stream", "4 %", date="2026-11-21", commit="68e774e")
        made = page.page(TEXT, {**PARTS, "two": newer})
        self.assertIn("[two.csv](performance/two.csv): 2026-11-21, `68e774e`, 3 runs, load 0.4: `scripts/bench two`\n", made)
        self.assertIn("[three.csv](performance/three.csv): 2026-11-20, `d2adca1`, 3 runs", made)

    def test_unmeasured_part_is_named(self):
        made = page.page(TEXT, {"one": PARTS["one"]})
        self.assertIn("- `two`: not measured yet.\n- `three`: not measured yet.\n", made)
        self.assertNotIn("- `one`", made)

    def test_rare_machine_is_named(self):
        made = page.page(TEXT, {**PARTS, "one": part("a packet", "480 ns", machine="8 cores")})
        self.assertIn("On 2 cores, 4 minutes", made)
        self.assertIn("load 0.4, 8 cores: `scripts/bench one`", made)

    def test_typed_table_is_refused(self):
        self.assertEqual(page.wrong(TEXT, PARTS, PARTS, BY_HAND), [])
        typed = TEXT.replace("minutes.\n", "minutes.\n| a packet | 100 ns |\n")
        self.assertEqual(len(page.wrong(typed, PARTS, PARTS, BY_HAND)), 1)

    def test_row_by_hand_needs_day_commit_and_command(self):
        for lacking in ("2026-11-20", "829dbc2", "scripts/bench-alsa"):
            reported = page.wrong(TEXT, PARTS, PARTS, BY_HAND.replace(HAND, HAND.replace(lacking, "")))
            self.assertEqual(len(reported), 1, lacking)
            self.assertIn("day, commit or command is missing", reported[0])

    def test_each_part_has_one_place(self):
        for text, parts, known in (
                (TEXT, PARTS, {**PARTS, "four": None}), (TEXT, PARTS, {"one": None, "two": None}),
                (TEXT + "<!-- figures: one -->\n", PARTS, PARTS)):
            self.assertNotEqual(page.wrong(text, parts, known, BY_HAND), [])

    def test_scoreboard_and_figures_need_a_place(self):
        for lacking in (page.SCOREBOARD, "(figures/loss.svg)"):
            self.assertEqual(len(page.wrong(TEXT.replace(lacking, ""), PARTS, PARTS, BY_HAND)), 1, lacking)


class Tables(unittest.TestCase):
    def test_empty_columns_are_left_out(self):
        self.assertEqual(page.shown(PARTS["one"]["tables"][0]), "| what | measured |\n| --- | --- |\n| a packet | 480 ns |\n")

    def test_sheet_has_plain_cells_and_distinct_columns(self):
        table = [["`taut lab x --to a`: ms", "p99", "p99", ""], ["`fq`", "1", "2, 3", "**missed**"]]
        rows = list(csv.reader(io.StringIO(page.sheet(table))))
        self.assertEqual(rows, [["case (ms)", "p99", "p99 (2)", "result"], ["fq", "1", "2, 3", "missed"]])

    def test_further_tables_of_a_part_are_numbered(self):
        two = part("a", "1", tables=[[["a"], ["1"]], [["b"], ["2"]]])
        self.assertEqual(page.sheets("x", two), {"x.csv": "a\n1\n", "x-2.csv": "b\n2\n"})

    def test_printed_tables_are_found_in_test_output(self):
        printed = "running 1 test\ntest it ... | a | b |\n|---|---|\n| 1 | 2 |\nok\n\n| c |\n|---|\n| 3 |\n"
        self.assertEqual(printed_tables(printed), [[["a", "b"], ["1", "2"]], [["c"], ["3"]]])


class Scoreboard(unittest.TestCase):
    def starts(self, share, wait="250us", load="0.3"):
        row = [f"96000 Hz, 210 frames (2.19 ms), window 1, 7 workers, wait {wait}", share]
        return {"capacity": {"date": "2026-11-20", "machine": "2 cores of a processor", "load": load, "tables": [[["rate", "usable"], row]]}}

    def test_result_follows_the_measured_table(self):
        for share, expected in (("90.5 %", scoreboard.MISSED), ("96.0 %", scoreboard.MET)):
            row = next(row for row in scoreboard.board(self.starts(share)) if "capacity" in row[4])
            self.assertEqual((row[1], row[3]), (share, expected))

    def test_row_names_place_and_day_and_marks_a_busy_machine(self):
        for load, busy in (("3.9", False), ("45.5", True)):
            row = next(row for row in scoreboard.board(self.starts("90.5 %", load=load)) if "capacity" in row[4])
            self.assertEqual(("network namespaces" in row[5], "2026-11-20" in row[5], "busy" in row[5]), (True, True, busy))

    def test_unmeasured_claim_stays_open(self):
        rows = scoreboard.board({})[1:]
        self.assertLessEqual(len(rows), scoreboard.MAX_ROWS)
        self.assertEqual({(row[1], row[3]) for row in rows}, {("not measured", "open")})

    def test_missing_row_is_reported(self):
        self.assertEqual(len(scoreboard.wrong(self.starts("90.5 %", wait="1ms"))), 1)
        self.assertEqual(scoreboard.wrong(self.starts("90.5 %")), [])

    def test_numbers_of_a_cell(self):
        self.assertEqual(scoreboard.numbers("+0.78 ± 0.05 µs, −3.6 %"), [0.78, 0.05, -3.6])
        self.assertEqual(scoreboard.micros("769ns, 2.941us"), [0.769, 2.941])


if __name__ == "__main__":
    unittest.main()
