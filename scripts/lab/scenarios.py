"""The list of scenarios, and how they are run: a line each."""

import subprocess
from functools import partial

from lab.judge import Wrong

# For how long those that say so measure.
seconds = None
listed = []  # (kinds, name, function)


class Skipped(Exception):
    """What a scenario lacks, and of what kind that is, as the tests of the crates say it."""

    def __init__(self, kind, lacks):
        super().__init__(lacks)
        self.kind = kind


def scenario(*kinds, each=()):
    """Lists a function by its name; where there are several cases of it, each by its own."""
    def add(function):
        name = function.__name__.replace("_", " ")
        if each:
            listed.extend((kinds, f"{name}, {case}", partial(function, case)) for case in each)
        else:
            listed.append((kinds, name, function))
        return function
    return add


def run(kind, words):
    """Those of a kind, or those of which the name has all the words; how many failed."""
    failed = 0
    for kinds, name, function in listed:
        if not (all(word in name for word in words) if words else kind in kinds):
            continue
        try:
            print(f"ok      {name}: {function()}", flush=True)
        except Skipped as lacks:
            print(f"SKIPPED ({lacks.kind}): {name}: {lacks}", flush=True)
        except (Wrong, subprocess.SubprocessError, OSError, KeyError, ValueError) as error:
            failed += 1
            print(f"FAILED  {name}: {type(error).__name__}: {error}", flush=True)
    return failed
