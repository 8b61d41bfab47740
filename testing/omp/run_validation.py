#!/usr/bin/env python3
"""Compiles tests of OpenMP that others have written, runs them on a libgomp.so.1, and says what became of them.

    python3 testing/omp/run_validation.py SUITE FOLDER --work FOLDER --library FOLDER [--modes shared,libgomp] [--threads 4]

SUITE is `uh` or `vv`; FOLDER has the tests (`uh.sh` and `vv.sh` beside this prepare it). A mode is what programs run on: `shared` and
`exclusive` are ours, and `libgomp` is GCC's, to compare with. What is expected to fail is listed in expected/SUITE.txt with its
reason. Ends with 1 if another test fails in ours, or if one that is listed passes.
"""

import concurrent.futures
import json
import subprocess
import sys

import suites

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
    """Why it failed, if it did."""
    return suites.run([str(program)], folder, suites.environment_of(mode, library, threads), SECONDS)[1]


def main():
    """Compiles, runs, judges."""
    parser = suites.parser(__doc__, ["uh", "vv"], "shared", "4")
    parser.add_argument("--jobs", type=int, default=2)
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
            count = suites.judge(options.suite, mode, failures, [name for name, why in found.items() if not why])
            if mode != suites.PEER:
                wrong += count
            print(f"{mode}: {len(ready) - len(failures)} of {len(ready)} pass")
            results[mode] = found
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
