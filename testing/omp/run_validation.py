#!/usr/bin/env python3
"""Compiles tests of OpenMP that others have written, runs them on a libgomp.so.1, and says what became of them.

    python3 testing/omp/run_validation.py SUITE FOLDER --work FOLDER --library FOLDER [--modes shared,libgomp] [--threads 4]

SUITE is `uh` or `vv`; FOLDER has the tests (`uh.sh` and `vv.sh` beside this prepare it). A mode is what programs run on: `shared` and
`exclusive` are ours, and `libgomp` is GCC's, to compare with. What is expected to fail is listed in expected/SUITE.txt with its
reason. Ends with 1 if another test fails in ours, or if one that is listed passes.
"""

import argparse
import concurrent.futures
import fnmatch
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SECONDS = 60
#: Parts of OpenMP_VV that GCC 12 or a host without devices has nothing to do with.
VV_WITHOUT = ["target", "device", "/6.0/", "/5.2/"]


def tests_of(suite, folder):
    """The tests, by name."""
    if suite == "uh":
        # Programs whose names begin with `ctest` or `orph_ctest` are to fail: they check the checks.
        files = sorted(folder.glob("bin/c/test_*.c")) + sorted(folder.glob("bin/c/orph_test_*.c"))
        return {file.stem: file for file in files}
    files = sorted((folder / "tests").rglob("*.c"))
    kept = [file for file in files if not any(word in str(file) for word in VV_WITHOUT)]
    return {str(file.relative_to(folder / "tests").with_suffix("")): file for file in kept}


def compile_test(suite, folder, work, name, source):
    """The program, or None if GCC does not compile it."""
    program = work / name.replace("/", "-")
    if program.exists() and program.stat().st_mtime > source.stat().st_mtime:
        return program
    words = ["gcc", "-O1", "-w", "-fopenmp", "-foffload=disable", "-o", str(program), str(source)]
    if suite == "uh":
        words += ["-I", str(folder), "-I", str(folder / "c")]
    else:
        words += ["-I", str(folder / "ompvv"), str(folder / "ompvv/libompvv.c")]
    words.append("-lm")
    done = subprocess.run(words, cwd=folder, capture_output=True, check=False)
    return program if done.returncode == 0 else None


def run_test(folder, program, mode, library, threads):
    """Whether it passed, and why not."""
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
    if mode != "libgomp":
        environment.update(LD_LIBRARY_PATH=str(library), OMP_TOMBOLO=mode)
    try:
        done = subprocess.run([str(program)], cwd=folder, env=environment, capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"did not end within {SECONDS} s"
    if done.returncode == 0:
        return None
    lines = (done.stdout + done.stderr).decode(errors="replace").strip().splitlines()
    return f"ended with {done.returncode}" + (f": {lines[-1][:150]}" if lines else "")


def expected_of(suite):
    """What is expected to fail: patterns, modes, reasons."""
    lines = (HERE / "expected" / f"{suite}.txt").read_text().splitlines()
    rows = [[part.strip() for part in line.split("|", 2)] for line in lines if line.strip() and not line.startswith("#")]
    return [(pattern, modes.split(","), reason) for pattern, modes, reason in rows]


def judge(suite, mode, failures, passed):
    """Says what is not as expected; how much that is."""
    wrong = 0
    listed = expected_of(suite)
    for name, why in failures.items():
        reasons = [reason for pattern, modes, reason in listed if mode in modes and fnmatch.fnmatchcase(name, pattern)]
        print(f"{mode}: {name}: {why}" + (f" (expected: {reasons[0]})" if reasons else ""))
        wrong += not reasons
    for name in passed:
        for pattern, modes, reason in listed:
            if mode in modes and fnmatch.fnmatchcase(name, pattern) and not reason.startswith("sometimes"):
                print(f"{mode}: {name}: passes, but is listed: {reason}")
                wrong += 1
    return wrong


def main():
    """Compiles, runs, judges."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", choices=["uh", "vv"])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--library", type=pathlib.Path, required=True)
    parser.add_argument("--modes", default="shared")
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    folder, work, library = options.folder.resolve(), options.work.resolve(), options.library.resolve()
    work.mkdir(parents=True, exist_ok=True)
    tests = {name: file for name, file in tests_of(options.suite, folder).items() if options.only in name}
    wrong, results = 0, {}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        programs = dict(zip(tests, pool.map(lambda name: compile_test(options.suite, folder, work, name, tests[name]), tests)))
        ready = [name for name, program in programs.items() if program]
        print(f"{len(ready)} of {len(tests)} tests compile")
        for mode in options.modes.split(","):
            found = dict(zip(ready, pool.map(lambda name: run_test(folder, programs[name], mode, library, options.threads), ready)))
            failures = {name: why for name, why in found.items() if why}
            count = judge(options.suite, mode, failures, [name for name, why in found.items() if not why])
            if mode != "libgomp":
                wrong += count
            print(f"{mode}: {len(ready) - len(failures)} of {len(ready)} pass")
            results[mode] = found
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
