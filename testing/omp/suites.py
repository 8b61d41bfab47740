"""What the runners of other people's programs share: the modes that programs run in, and what is expected to fail."""

import argparse
import fnmatch
import os
import pathlib
import re
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
#: GCC's own library, to compare with.
PEER = "libgomp"


def parser(text, suites, modes, threads):
    """The arguments that all runners take."""
    made = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("suite", choices=suites)
    made.add_argument("folder", type=pathlib.Path)
    made.add_argument("--work", type=pathlib.Path, required=True)
    made.add_argument("--library", type=pathlib.Path, required=True)
    made.add_argument("--modes", default=modes)
    made.add_argument("--threads", default=threads)
    made.add_argument("--only", default="")
    made.add_argument("--json", type=pathlib.Path)
    return made


def environment_of(mode, library, threads):
    """What a program sees that runs in a mode."""
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
    if mode != PEER:
        environment.update(LD_LIBRARY_PATH=str(library), OMP_TOMBOLO=mode)
    return environment


def run(words, folder, environment, seconds, log=None):
    """What a program printed, and why it failed, if it did. The file `log` then has everything that it printed."""
    try:
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired as ended:
        if log:
            log.write_bytes((ended.stdout or b"") + (ended.stderr or b""))
        return "", f"did not end within {seconds} s"
    output = done.stdout.decode(errors="replace")
    if done.returncode == 0:
        return output, None
    if log:
        log.write_bytes(done.stdout + done.stderr)
    lines = (done.stdout + done.stderr).decode(errors="replace").strip().splitlines()
    # What `tombolo run` adds is known already: the status.
    said = [line for line in lines if not re.match(r"error: domain \S+ on \S+ ended with status", line)]
    return output, f"ended with {done.returncode}" + (f": {said[-1][:150]}" if said else "")


def expected_of(suite):
    """What is expected to fail: patterns, modes, reasons."""
    lines = (HERE / "expected" / f"{suite}.txt").read_text().splitlines()
    rows = [[part.strip() for part in line.split("|", 2)] for line in lines if line.strip() and not line.startswith("#")]
    return [(pattern, modes.split(","), reason) for pattern, modes, reason in rows]


def kind(mode):
    """What is listed of a mode: all that have workers on nodes are alike, but for whether devices copy."""
    if "@" not in mode:
        return mode
    return "copies" if mode.endswith("/copy") else "nodes"


def judge(suite, mode, failures, passed):
    """Says what is not as expected; how much that is."""
    wrong = 0
    listed = expected_of(suite)
    for name, why in failures.items():
        reasons = [reason for pattern, modes, reason in listed if kind(mode) in modes and fnmatch.fnmatchcase(name, pattern)]
        print(f"{mode}: {name}: {why}" + (f" (expected: {reasons[0]})" if reasons else ""))
        wrong += not reasons
    for name in passed:
        for pattern, modes, reason in listed:
            if kind(mode) in modes and fnmatch.fnmatchcase(name, pattern) and not reason.startswith("sometimes"):
                print(f"{mode}: {name}: passes, but is listed: {reason}")
                wrong += 1
    return wrong
