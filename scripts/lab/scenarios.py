"""The list of scenarios, and the function that runs them. Each prints one line."""

import subprocess
from functools import partial

from lab.judge import Wrong

# Duration of scenarios that use it.
seconds = None
listed = []  # (kinds, name, function)


class Skipped(Exception):
    """A missing requirement of a scenario and its kind, as in the tests of the crates."""

    def __init__(self, kind, lacks):
        super().__init__(lacks)
        self.kind = kind


def scenario(*kinds, each=()):
    """Lists a function by its name, and each of its cases."""
    def add(function):
        name = function.__name__.replace("_", " ")
        if each:
            listed.extend((kinds, f"{name}, {case}", partial(function, case)) for case in each)
        else:
            listed.append((kinds, name, function))
        return function
    return add


def run(kind, words):
    """Runs the scenarios of a kind, or those whose names have all words. Returns the number of failures."""
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
