#!/usr/bin/env python3
"""Compiles tests of OpenMP that others have written, runs them on a libgomp.so.1, and says what became of them.

    python3 testing/omp/run_validation.py SUITE FOLDER --work FOLDER --library FOLDER [--modes shared,libgomp] [--threads 4]

SUITE is `uh` or `vv`; FOLDER has the tests (`uh.sh` and `vv.sh` beside this prepare it). A mode is what programs run on: `shared` and
`exclusive` and `hybrid` are ours, and `libgomp` is GCC's, to compare with. `hybrid@arm0`, or `exclusive@arm0,arm-user` as
`exclusive@arm0+arm-user`, has workers on those nodes of a machine that is up (TOMBOLO_MACHINE says which), with images by `tombolo ompcc`;
`hybrid@arm0/copy` has devices copy what is mapped. What is expected to fail is listed in expected/SUITE.txt with its
reason. Ends with 1 if another test fails in ours, or if one that is listed passes.
"""

import concurrent.futures
import json
import subprocess
import sys

import suites

SECONDS = 60
#: Parts of OpenMP_VV that GCC 12 has nothing to do with, and those that want a device.
VV_LATER = ["/6.0/", "/5.2/"]
VV_DEVICES = ["target", "device"]


def tests_of(suite, folder, devices):
    """The tests, by name."""
    if suite == "uh":
        # Programs whose names begin with `ctest` or `orph_ctest` are to fail: they check the checks.
        files = sorted(folder.glob("bin/c/test_*.c")) + sorted(folder.glob("bin/c/orph_test_*.c"))
        return {file.stem: file for file in files}
    files = sorted((folder / "tests").rglob("*.c"))
    wants = {file: any(word in str(file.relative_to(folder)) for word in VV_DEVICES) for file in files}
    kept = [file for file in files if wants[file] == devices and not any(word in str(file) for word in VV_LATER)]
    return {str(file.relative_to(folder / "tests").with_suffix("")): file for file in kept}


def compile_test(suite, folder, work, name, source, compiler=("gcc", "-foffload=disable"), end=""):
    """The program, or None if it is not compiled."""
    program = work / (name.replace("/", "-") + end)
    if program.exists() and program.stat().st_mtime > source.stat().st_mtime:
        return program
    words = [*compiler, "-O1", "-w", "-fopenmp", "-o", str(program), str(source)]
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


def run_on_nodes(options, folder, work, tests, mode):
    """Why each test failed, if it did, with workers on nodes; of those that compile for all of them. Images are large, so each goes when
    it was run."""
    tombolo = str(options.library.resolve().parents[2] / "release" / "tombolo")
    how, nodes = mode.split("@")
    nodes, _, target = nodes.partition("/")
    variables = [f"OMP_TOMBOLO_TARGET={target or 'share'}", f"OMP_TOMBOLO={how}", f"OMP_TOMBOLO_NODES={nodes.replace('+', ',')}", f"OMP_NUM_THREADS={options.threads}"]
    words = [tombolo, "run", "--on", "host", *(word for variable in variables for word in ("--env", variable))]

    def one(name):
        image = compile_test(options.suite, folder, work, name, tests[name], (tombolo, "ompcc"), ".tbi")
        if not image:
            return "is not compiled for all nodes"
        try:
            return suites.run([*words, str(image)], folder, suites.environment_of(suites.PEER, "", options.threads), SECONDS)[1]
        finally:
            image.unlink()

    return {name: one(name) for name in tests}


def main():
    """Compiles, runs, judges."""
    parser = suites.parser(__doc__, ["uh", "vv"], "shared", "4")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--devices", action="store_true", help="OpenMP_VV's tests that want a device, in place of the others")
    options = parser.parse_args()
    folder, work, library = options.folder.resolve(), options.work.resolve(), options.library.resolve()
    work.mkdir(parents=True, exist_ok=True)
    tests = {name: file for name, file in tests_of(options.suite, folder, options.devices).items() if options.only in name}
    wrong, results = 0, {}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        programs = dict(zip(tests, pool.map(lambda name: compile_test(options.suite, folder, work, name, tests[name]), tests)))
        ready = [name for name, program in programs.items() if program]
        print(f"{len(ready)} of {len(tests)} tests compile")
        for mode in options.modes.split(","):
            if "@" in mode:
                found = run_on_nodes(options, folder, work, {name: tests[name] for name in ready}, mode)
            else:
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
