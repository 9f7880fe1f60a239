"""The list of scenarios, and how they are run: a line each."""

import subprocess

from lab.judge import Wrong

# For how long those that say so measure.
seconds = None
listed = []  # (kinds, function)


def scenario(*kinds):
    def add(function):
        listed.append((kinds, function))
        return function
    return add


def run(kind, words):
    """Those of a kind, or those of which the name has all the words; how many failed."""
    failed = 0
    for kinds, function in listed:
        name = function.__name__.replace("_", " ")
        if not (all(word in name for word in words) if words else kind in kinds):
            continue
        try:
            print(f"ok      {name}: {function()}", flush=True)
        except (Wrong, subprocess.CalledProcessError, OSError, KeyError, ValueError) as error:
            failed += 1
            print(f"FAILED  {name}: {type(error).__name__}: {error}", flush=True)
    return failed
