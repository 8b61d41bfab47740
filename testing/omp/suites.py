"""Shared by the runners of third-party programs: modes, and expected failures."""

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
    """Returns a parser for the arguments of all runners."""
    argument_parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    argument_parser.add_argument("suite", choices=suites)
    argument_parser.add_argument("folder", type=pathlib.Path)
    argument_parser.add_argument("--work", type=pathlib.Path, required=True)
    argument_parser.add_argument("--library", type=pathlib.Path, required=True)
    argument_parser.add_argument("--modes", default=modes)
    argument_parser.add_argument("--threads", default=threads)
    argument_parser.add_argument("--only", default="")
    argument_parser.add_argument("--json", type=pathlib.Path)
    return argument_parser


def program_environment(mode, library, threads):
    """Returns the environment of a program that runs in a mode."""
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
    if mode != PEER:
        environment.update(LD_LIBRARY_PATH=str(library), OMP_TOMBOLO=mode)
    return environment


def run(words, folder, environment, seconds, log=None):
    """Runs a program; returns its output and the reason of its failure, or None. If it failed, the file `log` receives all output."""
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
    # Without the line of `tombolo run`, which repeats the status.
    errors = [line for line in lines if not re.match(r"error: domain \S+ on \S+ ended with status", line)]
    return output, f"ended with {done.returncode}" + (f": {errors[-1][:150]}" if errors else "")


def read_expected(suite):
    """Reads the expected failures: patterns, modes, reasons."""
    lines = (HERE / "expected" / f"{suite}.txt").read_text().splitlines()
    rows = [[part.strip() for part in line.split("|", 2)] for line in lines if line.strip() and not line.startswith("#")]
    return [(pattern, modes.split(","), reason) for pattern, modes, reason in rows]


def mode_kind(mode):
    """Returns the word for a mode in lists of expected failures: modes with workers on nodes differ only in whether devices copy."""
    if "@" not in mode:
        return mode
    return "copies" if mode.endswith("/copy") else "nodes"


def judge(suite, mode, failures, passed):
    """Prints unexpected results and returns their number."""
    wrong = 0
    listed = read_expected(suite)
    for name, why in failures.items():
        reasons = [reason for pattern, modes, reason in listed if mode_kind(mode) in modes and fnmatch.fnmatchcase(name, pattern)]
        print(f"{mode}: {name}: {why}" + (f" (expected: {reasons[0]})" if reasons else ""))
        wrong += not reasons
    for name in passed:
        for pattern, modes, reason in listed:
            if mode_kind(mode) in modes and fnmatch.fnmatchcase(name, pattern) and not reason.startswith("sometimes"):
                print(f"{mode}: {name}: passes, but is listed: {reason}")
                wrong += 1
    return wrong
