#!/usr/bin/env python3
"""Measures programs that others have written, on our libgomp.so.1 and on GCC's, and prints the figures beside each other.

    python3 testing/omp/run_speed.py SUITE FOLDER --work FOLDER --library FOLDER [--modes libgomp,shared] [--threads 2,4] [--runs 5]

SUITE is `epcc` or `bots`; FOLDER has the programs (`epcc.sh` and `bots.sh` beside this prepare it). Every program runs in one mode after the
other, as often as `--runs` says, so what else the machine does meets all of them alike. Figures are medians of all runs, or with `--least`
the least: of EPCC the overhead of a construct in µs (in the least disturbed sample of a run), of BOTS seconds; then how many times the first
mode's. An overhead is what a construct takes less the same work without it: near zero it is noise, and has no ratio. What is expected to fail is listed in
expected/SUITE.txt with its reason. Ends with 1 if another program fails in ours, by its own verification or otherwise; never because of a figure.
"""

import json
import os
import re
import statistics
import subprocess
import sys

import suites

SECONDS = 120
#: Sizes of arrays in EPCC's `arraybench`.
ARRAYS = [1, 729, 59049]
#: An overhead below this many µs is noise.
NOISE = 0.01
#: Programs of BOTS, with how they begin to take some tenths of a second, or what the suite calls `test`.
BOTS = {
    "alignment": ["-f", "inputs/alignment/prot.20.aa"],
    "concom": ["-n", "20000", "-m", "10", "-l", "2000"],
    "fft": ["-n", "1048576"],
    "fib": ["-n", "27"],
    "floorplan": ["-f", "inputs/floorplan/input.15"],
    "health": ["-f", "inputs/health/small.input"],
    "knapsack": ["-f", "inputs/knapsack/knapsack-024.input"],
    "nqueens": ["-n", "11"],
    "sort": ["-n", "8388608"],
    "sparselu": ["-n", "40", "-m", "50"],
    "strassen": ["-n", "1024"],
    "uts": ["-f", "inputs/uts/test.input"],
}


def build_epcc(folder, work):
    """EPCC's programs, by name, with their arguments."""
    def build(name, sources, defines):
        program = work / name
        if not program.exists():
            words = ["gcc", "-O1", "-w", "-fopenmp", "-DOMPVER2", "-DOMPVER3", *defines, "-I", str(work / f"{name}.include")]
            words += ["-o", str(program), *(str(folder / source) for source in sources), "-lm"]
            subprocess.run(words, cwd=folder, check=True)
        return [str(program), "--outer-repetitions", "10", "--test-time", "1000"]

    programs = {name: build(name, [f"{name}.c", "common.c"], []) for name in ["syncbench", "taskbench"]}
    # The delay is as long as an iteration. With EPCC's 15 µs the schedules could not be told apart.
    programs["schedbench"] = build("schedbench", ["schedbench.c", "common.c"], ["-DSCHEDBENCH"]) + ["--delay-time", "0.5"]
    for size in ARRAYS:
        name = f"arraybench_{size}"
        header = work / f"{name}.include" / f"{name}.h"
        header.parent.mkdir(parents=True, exist_ok=True)
        defines = [f"-DIDA={size}", "-DOMPVER2", "-DOMPVER3"]
        subprocess.run(["cpp", "-P", *defines, str(folder / "arraybench.h"), "-o", str(header)], cwd=folder, check=True)
        programs[name] = build(name, ["arraybench.c", "common.c"], [f"-DIDA={size}"])
    return programs


def read_epcc(program, output):
    """The overheads that a program shows, in µs, and whether it was right. The least time of its samples is what counts, of the construct as of
    the same work without it: averages are what else the machine does."""
    found, least, reference = {}, 0.0, 0.0
    for line in output.splitlines():
        # The row of statistics comes first: samples, average, least, most, deviation, outliers.
        numbers = re.fullmatch(r"\s*\d+((\s+-?[\d.]+){4})\s+\d+\s*", line)
        if numbers:
            least = float(numbers[1].split()[1])
        elif line.startswith("reference") and " time     = " in line:
            reference = least
        elif " overhead = " in line:
            found[f"{program.split('_')[0]} {line.split(' overhead = ')[0]}"] = least - reference
    return found, None if found else "printed no figures"


def find_bots(folder):
    """The programs of BOTS that were built, by name, with their arguments."""
    programs = {}
    for file in sorted((folder / "bin").glob("*.gcc.*")):
        name, _, version = file.name.split(".")
        arguments = BOTS[name]
        kind = "-".join(part for part in version.split("-") if part not in ("omp", "tasks"))
        programs[f"{name} {kind or 'plain'}"] = [str(file), *arguments, "-c", "-o", "4", "-v", "0"]
    return programs


def read_bots(program, output):
    """The seconds that a program took, and whether it was right."""
    rows = [line.split(";") for line in output.splitlines() if line.count(";") > 6]
    if not rows:
        return {}, "printed no figures"
    result, seconds = rows[-1][5], rows[-1][6]
    # Some have nothing to compare with.
    return {program: float(seconds)}, None if result in ("successful", "n/a") else f"its verification says {result}"


def measure(options, programs, read, threads):
    """The figures of all runs by measure and mode, and what failed by mode."""
    figures, failures = {}, {mode: {} for mode in options.modes.split(",")}
    for _ in range(options.runs):
        for name, words in programs.items():
            for mode, failed in failures.items():
                if name in failed:
                    continue
                output, why = suites.run(words, options.folder, suites.program_environment(mode, options.library, threads), SECONDS)
                found, wrong = read(name, output)
                if why or wrong:
                    failed[name] = why or wrong
                    continue
                for measured, value in found.items():
                    figures.setdefault(measured, {}).setdefault(mode, []).append(value)
    return figures, failures


def table(figures, modes, unit, noise, typical):
    """The figures as lines of text; `typical` takes one out of those of all runs."""
    width = max(map(len, figures), default=0)
    yield f"{unit:{width}}" + "".join(f"{mode:>12}" for mode in modes) + "".join(f"{'/ ' + modes[0]:>12}" for mode in modes[1:])
    for name, by_mode in figures.items():
        values = [typical(by_mode[mode]) if mode in by_mode else None for mode in modes]
        line = f"{name:{width}}" + "".join(f"{'-' if value is None else f'{value:.4g}':>12}" for value in values)
        for value in values[1:]:
            known = value is not None and values[0] is not None and values[0] > noise
            line += f"{f'{value / values[0]:.2f}' if known else '-':>12}"
        yield line


def main():
    """Builds, runs, prints."""
    parser = suites.parser(__doc__, ["epcc", "bots"], f"{suites.PEER},shared", "2")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--least", action="store_true", help="the least of all runs in place of the median")
    options = parser.parse_args()
    options.folder, options.library = options.folder.resolve(), options.library.resolve()
    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    if options.suite == "epcc":
        programs, read, unit, noise = build_epcc(options.folder, work), read_epcc, "overhead in us", NOISE
    else:
        programs, read, unit, noise = find_bots(options.folder), read_bots, "seconds", 0.0
    programs = {name: words for name, words in programs.items() if options.only in name}
    wrong, results = 0, {}
    for threads in options.threads.split(","):
        figures, failures = measure(options, programs, read, threads)
        print(f"\n{threads} threads, {options.runs} runs, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
        print("\n".join(table(figures, options.modes.split(","), unit, noise, min if options.least else statistics.median)))
        for mode, failed in failures.items():
            count = suites.judge(options.suite, mode, failed, [name for name in programs if name not in failed])
            wrong += count if mode != suites.PEER else 0
        results[threads] = {"figures": figures, "failures": failures}
    if options.json:
        options.json.write_text(json.dumps({"unit": unit, "threads": results}, indent=1) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
