#!/usr/bin/env python3
"""Compiles tests of OpenMP that others have written, runs them on a libgomp.so.1, and says what became of them.

    python3 testing/omp/run_validation.py SUITE FOLDER --work FOLDER --library FOLDER [--modes shared,libgomp] [--threads 4]

SUITE is `uh` or `vv`; FOLDER has the tests (`uh.sh` and `vv.sh` beside this prepare it). A mode is what programs run on: `shared` and
`exclusive` and `hybrid` are ours, and `libgomp` is GCC's, to compare with. `hybrid@arm0`, or `exclusive@arm0,arm-user` as
`exclusive@arm0+arm-user`, has workers on those nodes of a machine that is up (TOMBOLO_MACHINE says which), with images by `tombolo ompcc`;
`hybrid@arm0/copy` has devices copy what is mapped. What is expected to fail is listed in expected/SUITE.txt with its
reason. Ends with 1 if another test fails in ours, or if one that is listed passes. What a failed test printed, or the compiler of one that does not
compile, is in `TEST.MODE.log` of the working folder.
"""

import concurrent.futures
import json
import pathlib
import subprocess
import sys

import suites

SECONDS = 60
NOT_FOR_NODES = "is not compiled for all nodes"
#: Parts of OpenMP_VV that GCC 12 has nothing to do with, and those that want a device.
VV_LATER = ["/6.0/", "/5.2/"]
VV_DEVICES = ["target", "device"]
#: Declarations of OpenMP 5.1 that the header of GCC 12 lacks.
HEADER = pathlib.Path(__file__).resolve().parents[2] / "models/omp/gomp/tombolo_omp.h"


def find_tests(suite, folder, devices):
    """Returns the tests by name."""
    if suite == "uh":
        # Programs whose names begin with `ctest` or `orph_ctest` are to fail: they check the checks.
        files = sorted(folder.glob("bin/c/test_*.c")) + sorted(folder.glob("bin/c/orph_test_*.c"))
        return {file.stem: file for file in files}
    files = sorted((folder / "tests").rglob("*.c"))
    wants = {file: any(word in str(file.relative_to(folder)) for word in VV_DEVICES) for file in files}
    selected = [file for file in files if wants[file] == devices and not any(word in str(file) for word in VV_LATER)]
    return {str(file.relative_to(folder / "tests").with_suffix("")): file for file in selected}


def log_path(work, name, mode):
    """Returns the path of the log of a failed test."""
    return work / f"{name.replace('/', '-')}.{mode.replace('/', '-')}.log"


def compile_test(suite, folder, work, name, source, compiler=("gcc", "-foffload=disable"), end=""):
    """Compiles a test; returns the program, or None if it does not compile."""
    program = work / (name.replace("/", "-") + end)
    if program.exists() and program.stat().st_mtime > source.stat().st_mtime:
        return program
    words = [*compiler, "-O1", "-w", "-fopenmp", "-o", str(program), str(source)]
    if suite == "uh":
        words += ["-I", str(folder), "-I", str(folder / "c")]
    else:
        words += ["-include", str(HEADER), "-I", str(folder / "ompvv"), str(folder / "ompvv/libompvv.c")]
    words.append("-lm")
    done = subprocess.run(words, cwd=folder, capture_output=True, check=False)
    if done.returncode == 0:
        return program
    log_path(work, name, "tbi" if end else "gcc").write_bytes(done.stdout + done.stderr)
    return None


def run_test(folder, work, name, program, mode, library, threads):
    """Runs a test; returns the reason of its failure, or None."""
    environment = suites.program_environment(mode, library, threads)
    return suites.run([str(program)], folder, environment, SECONDS, log_path(work, name, mode))[1]


def node_command(tombolo, mode, threads):
    """Returns the command line for an image, with workers on the nodes of a mode."""
    placement, nodes = mode.split("@")
    nodes, _, target = nodes.partition("/")
    variables = {
        "OMP_TOMBOLO": placement,
        "OMP_TOMBOLO_NODES": nodes.replace("+", ","),
        "OMP_TOMBOLO_TARGET": target or "share",
        "OMP_NUM_THREADS": threads,
    }
    return [tombolo, "run", "--on", "host", *(word for pair in variables.items() for word in ("--env", "=".join(pair)))]


def run_on_nodes(options, folder, work, tests, modes):
    """Runs the tests in each mode with workers on nodes; returns the reasons of failures. Each test is compiled once, and its image,
    which is large, is removed after it ran in all modes."""
    tombolo = str(options.library.resolve().parents[2] / "release" / "tombolo")
    environment = suites.program_environment(suites.PEER, "", options.threads)
    found = {mode: {} for mode in modes}
    for name in tests if modes else []:
        image = compile_test(options.suite, folder, work, name, tests[name], (tombolo, "ompcc"), ".tbi")
        for mode in modes:
            if not image:
                found[mode][name] = NOT_FOR_NODES
                continue
            words = [*node_command(tombolo, mode, options.threads), str(image)]
            found[mode][name] = suites.run(words, folder, environment, SECONDS, log_path(work, name, mode))[1]
        if image:
            image.unlink()
    return found


def main():
    """Compiles and runs the tests and reports the results."""
    parser = suites.parser(__doc__, ["uh", "vv"], "shared", "4")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--devices", action="store_true", help="OpenMP_VV's tests that want a device, in place of the others")
    options = parser.parse_args()
    folder, work, library = options.folder.resolve(), options.work.resolve(), options.library.resolve()
    work.mkdir(parents=True, exist_ok=True)
    tests = {name: file for name, file in find_tests(options.suite, folder, options.devices).items() if options.only in name}
    wrong, results = 0, {}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        programs = dict(zip(tests, pool.map(lambda name: compile_test(options.suite, folder, work, name, tests[name]), tests)))
        ready = [name for name, program in programs.items() if program]
        print(f"{len(ready)} of {len(tests)} tests compile")
        modes = options.modes.split(",")
        on_nodes = run_on_nodes(options, folder, work, {name: tests[name] for name in ready}, [mode for mode in modes if "@" in mode])
        for mode in modes:
            found = on_nodes.get(mode) or dict(
                zip(ready, pool.map(lambda name: run_test(folder, work, name, programs[name], mode, library, options.threads), ready))
            )
            failures = {name: why for name, why in found.items() if why}
            count = suites.judge(options.suite, mode, failures, [name for name, why in found.items() if not why])
            if mode != suites.PEER:
                wrong += count
            compiled = len(ready) - list(failures.values()).count(NOT_FOR_NODES)
            print(f"{mode}: {len(ready) - len(failures)} of {compiled} that compile pass")
            results[mode] = found
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
