#!/usr/bin/env python3
"""Tests of scripts/lab/judge.py: good values pass, and each defect is reported. Needs no guest; scripts/lab-test runs it
first."""

import copy
import sys
import unittest

sys.dont_write_bytecode = True
import judge  # noqa: E402

GOOD = {
    "measured": {"count": 499, "p50_ns": 5_015_700, "min_ns": 5_015_600, "max_ns": 5_015_800},
    "uncertainty_ns": 46_000, "uncertainty_max_ns": 46_100, "drift_ppm": 100.0,
    "marks_missed": 0, "marks_repeated": 0, "dropped_frames": 0, "repeated_frames": 0,
    "started_anew": [], "cards": 4, "cards_meant": 4, "seconds": 5,
}
LOST = {"recv": {"streams": [{"counters": {"lost": 0, "late": 0, "underrun_discarded": 0}}]}}


def bad(**changes):
    """The good row with changes, also of its measured values."""
    row = copy.deepcopy(GOOD)
    for name, value in changes.items():
        (row["measured"] if name in row["measured"] else row)[name] = value
    return row


class Judge(unittest.TestCase):
    def says(self, wrong, *words):
        self.assertEqual(len(wrong), len(words), wrong)
        for sentence, word in zip(wrong, words):
            self.assertIn(word, sentence)

    def test_what_is_good_is_called_good(self):
        self.says(judge.whole(GOOD) + judge.expect(GOOD, 5e6) + judge.apart(GOOD, 100) + judge.nothing_lost(LOST))
        self.assertIn("499 marks", judge.verdict(GOOD, []))

    def test_a_sound_that_is_not_whole_is_told(self):
        for kind in ("marks_missed", "marks_repeated", "dropped_frames", "repeated_frames"):
            self.says(judge.whole(bad(**{kind: 1})), f"1 {kind.replace('_', ' ')}")
        self.says(judge.whole(bad(started_anew=["pcm0p"])), "pcm0p had an xrun")

    def test_a_run_in_which_little_happened_proves_nothing(self):
        self.says(judge.whole(bad(count=487)), "487 marks were found, less than 488")
        self.says(judge.whole(bad(cards=0)), "0 ends of cables ran, not 4")

    def test_every_mark_is_held_not_only_the_middle_one(self):
        # A frame and 46 us are 66.8 us.
        self.says(judge.expect(GOOD, 4.9e6), "median", "least", "greatest")
        self.says(judge.expect(bad(p50_ns=5_067_000), 5e6), "median 67.0 us off")
        # Three frames and a half are 72.9 us.
        self.says(judge.expect(bad(min_ns=4_927_000), 5e6), "least -73.0 us off")
        self.says(judge.expect(bad(max_ns=5_073_000), 5e6), "greatest 73.0 us off")
        self.says(judge.expect(bad(min_ns=4_928_000, max_ns=5_072_000), 5e6))
        self.says(judge.expect(bad(max_ns=5_126_000), 5e6, judge.COARSE), "greatest 126.0 us off")

    def test_an_uncertainty_that_covers_everything_proves_nothing(self):
        everything = bad(uncertainty_ns=10_000_000, uncertainty_max_ns=10_000_000, p50_ns=5_080_000)
        self.says(judge.expect(everything, 5e6), "uncertainty 10000.0 us, more than 52.1 us",
                  "uncertainty 10000.0 us, more than 62.5 us", "median 80.0 us off")
        self.says(judge.expect(bad(uncertainty_ns=53_000), 5e6), "uncertainty 53.0 us")
        self.says(judge.expect(bad(uncertainty_max_ns=63_000), 5e6), "uncertainty 63.0 us")
        self.says(judge.expect(bad(uncertainty_ns=105_000), 5e6, judge.COARSE), "uncertainty 105.0 us")
        self.says(judge.expect(bad(uncertainty_max_ns=334_000), 5e6, judge.COARSE), "uncertainty 334.0 us")

    def test_cards_that_keep_the_same_time_prove_nothing_of_two_that_do_not(self):
        for drift in (0.0, None, -100.0, 84.0):
            self.says(judge.apart(bad(drift_ppm=drift), 100), "ppm apart, not 100")

    def test_what_taut_itself_says_was_lost_is_told(self):
        for kind in ("lost", "late", "underrun_discarded"):
            reports = copy.deepcopy(LOST)
            reports["recv"]["streams"][0]["counters"][kind] = 2
            self.says(judge.nothing_lost(reports), f"2 {kind} at recv")

    def test_a_packet_that_was_late_or_lost_or_copied_is_told(self):
        def ledger(late="0", resample="250000", without=None):
            rows = [f"{(2**32 - 160 + 16 * n) % 2**32},{n * 333_333},{late if n == 7 else 0},"
                    f"{resample if n == 9 else 250000}" for n in range(40) if n != without]
            return ["rtp_timestamp,arrival,late,resample_ns", *rows]

        span = (0, 13_000_000, 16)
        self.says(judge.carried(ledger(), *span))
        self.says(judge.carried(ledger(late="1"), *span), "1 packets late")
        self.says(judge.carried(ledger(resample="0"), *span), "1 packets not resampled")
        self.says(judge.carried(ledger(without=20), *span), "1 packets lost before others")
        self.says(judge.carried(ledger(), 0, 26_000_000, 16), "40 packets, not 78")

    def test_of_packets_those_are_found_that_do_not_follow_each_other(self):
        met = [(48 * n, n * 10**6) for n in range(20)]
        self.assertEqual(judge.gaps(met, 48), [])
        later = met[:5] + [(frame, at + 600_000) for frame, at in met[5:]]
        self.assertEqual([frames for frames, _ in judge.gaps(later, 48)], [0])
        less = judge.gaps(met[:5] + met[8:], 48)
        self.assertEqual(less, [(144, 3_000_000)])
        self.says(judge.kept_time(less))
        self.says(judge.kept_time([(144, 3_042_000)]), "144 frames of 3042.0 us")

    def test_a_hole_is_as_long_as_a_program_stood_still(self):
        for more in (-3e6, 0, 2e6):
            self.says(judge.one_hole([200e6 + more], 200e6, 48))
        self.says(judge.one_hole([202.1e6], 200e6, 48), "2100.0 us more")
        self.says(judge.one_hole([196.9e6], 200e6, 48), "-3100.0 us more")
        self.says(judge.one_hole([], 200e6, 48), "0 holes")
        self.says(judge.one_hole([200e6, 2e6], 200e6, 48), "2 holes")

    def test_packets_and_sound_are_counted(self):
        met = [(480 * n, n * 10**7) for n in range(800)]
        self.says(judge.packets(met, 0, 800))
        self.says(judge.packets(met, 3, 800), "3 packets late")
        self.says(judge.packets(met[:791], 0, 800), "791 packets, not 800")
        self.says(judge.packets(met, 0, 798), "800 packets, not 798")
        self.says(judge.sounds([[0, 96_000], [100_000, 196_000]], 1.5, 2))
        self.says(judge.sounds([[0, 96_000]], 2.1), "sound of 2.000 s, not of 2.1")
        self.says(judge.sounds([[0, 96_000]], 1, 1), "sound of 2.000 s, not of 1, 1")
        self.says(judge.sounds([], 1), "sound of no s")

    def test_every_reading_is_held(self):
        self.says(judge.near([240.0] * 11 + [244.7], 240, 4.8))
        self.says(judge.near([240.0] * 11, 240, 4.8), "11 readings")
        self.says(judge.near([240.0] * 11 + [235.1], 240, 4.8), "[235.1] are more than 4.8 off 240")

    def test_what_is_wrong_ends_a_scenario(self):
        with self.assertRaisesRegex(judge.Wrong, r"1 lost \(5015.7 us"):
            judge.verdict(GOOD, ["1 lost"])
        self.assertEqual(judge.figure(bad(count=0)), "no mark was found")


if __name__ == "__main__":
    unittest.main(verbosity=0)
