#!/usr/bin/env python3
"""Runs MPICH's own tests (test/mpi) that scripts beside this have built, each through `tombolo mpirun`, and says what became of them.

    python3 testing/mpi/run_mpich.py BUILT [--modes host,user,vm,tcp] [--folders pt2pt,coll] [--only WORD] [--json FILE]

BUILT is the folder that `testing/mpi/mpich.sh` built the tests in. A mode says where ranks run: `host` all on this host, `user` every
second one under qemu-user, `vm` every second one on the Arm virtual machine, each with Tombolo's provider. Two modes have MPICH's
own mpiexec start all on this host: `hydra` with Tombolo's provider, and `tcp` with the one for TCP that comes with MPICH, to compare
with. What is expected to fail is listed in expected/mpich.txt with its
reason. Ends with 1 if another test fails, or if one that is listed passes.
"""

import argparse
import fnmatch
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
FOLDERS = ["pt2pt", "coll", "datatype", "comm", "init", "info", "group", "attr", "topo", "rma", "spawn", "threads/pt2pt",
           "threads/coll", "threads/comm", "threads/init", "threads/rma", "threads/spawn"]
#: More ranks than this take longer on two processors than they tell.
MOST_RANKS = 4
#: Seconds that a test has. Emulated processors are slower.
SECONDS = {"host": 60, "hydra": 60, "tcp": 60, "user": 120, "vm": 180}
NODES = {"user": "host,arm-user", "vm": "host,arm0"}
MACHINE = """name = "{name}"

[[node]]
name = "host"
kind = "host"
"""
USER = """
[[node]]
name = "arm-user"
kind = "user"
isa = "aarch64"
files = ["kit:mpi/aarch64"]
"""
VM = """
[[node]]
name = "arm0"
kind = "vm"
isa = "aarch64"
memory_mib = 1536
processors = 2
window_mib = 256
files = ["kit:mpi/aarch64"]
"""


class Test:
    """A line of a testlist."""

    def __init__(self, folder, line):
        words = line.split()
        self.folder, self.name, self.ranks = folder, words[0], int(words[1]) if len(words) > 1 else 1
        self.arguments, self.environment, self.options = [], {}, {}
        for word in words[2:]:
            key, _, value = word.partition("=")
            if key == "arg":
                self.arguments.append(value)
            elif key == "env":
                variable, _, value = value.partition("=")
                self.environment[variable] = value
            else:
                self.options[key] = value
        settings = [f"{name}={value}" for name, value in self.environment.items()]
        self.key = " ".join([f"{folder}/{self.name}", str(self.ranks), *self.arguments, *settings])

    def reason_not_to_run(self, built):
        """Returns the reason not to run it, or None."""
        if "mem" in self.options:
            return f"wants {self.options['mem']} GB of memory"
        if self.ranks > MOST_RANKS:
            return f"wants {self.ranks} ranks"
        if "xfail" in self.options:
            return f"MPICH expects it to fail: {self.options['xfail']}"
        if not (built / self.folder / self.name).is_file():
            return "was not built"
        return None


def read_tests(options):
    for folder in options.folders:
        # Testlists written by configure, and those of the sources.
        paths = [place / folder / "testlist" for place in (options.built, options.source)]
        path = next((path for path in paths if path.is_file()), None)
        if path is None:
            print(f"{folder}: has no testlist", file=sys.stderr)
            continue
        for line in path.read_text().splitlines():
            line = line.split("#")[0].strip()
            if line and not line.startswith("@"):
                try:
                    test = Test(folder, line)
                except ValueError:
                    continue
                if all(word in test.key for word in options.only) and not any(word in test.key for word in options.leave_out):
                    yield test


def read_expected(path):
    """Lines of `PATTERN | MODES | REASON`."""
    expected = []
    for line in path.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            pattern, modes, reason = (part.strip() for part in line.split("|"))
            expected.append((pattern, modes.split(","), reason))
    return expected


def reason_for(expected, key, mode):
    for pattern, modes, reason in expected:
        if mode in modes and fnmatch.fnmatchcase(key, pattern):
            return reason
    return None


def command(options, test, mode):
    if mode in ("hydra", "tcp"):
        return [options.mpi / "bin/mpiexec.hydra", "-n", str(test.ranks), f"./{test.name}", *test.arguments]
    words = [str(options.tombolo), "-q", "mpirun", "-n", str(test.ranks)]
    if mode in NODES:
        words += ["--on", NODES[mode], *shlex.split(options.round_robin)]
    for name, value in test.environment.items():
        words += ["--env", f"{name}={value}"]
    return [*words, f"./{test.name}.tbi", *test.arguments]


def run(options, test, mode, environment):
    """Runs a test; returns `ok` or the reason of the failure, the seconds that it took, and the end of its output."""
    seconds = SECONDS[mode] * options.patience
    if "timeLimit" in test.options:
        seconds = max(seconds, min(int(test.options["timeLimit"]), 300))
    test_environment = dict(environment)
    if mode in ("hydra", "tcp"):
        test_environment.update(FI_PROVIDER="tcp" if mode == "tcp" else "tombolo", MPIR_CVAR_CH4_NETMOD="ofi", MPIR_CVAR_NOLOCAL="1")
        test_environment.update(test.environment, FI_PROVIDER_PATH=str(options.mpi / "fi"))
        test_environment.update(TOMBOLO_TOMBOLOD=str(options.tombolo) + "d", TOMBOLO_MACHINE="local")
    start = time.monotonic()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command(options, test, mode), cwd=options.built / test.folder, env=test_environment,
                                   stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            status = None
            stop(process)
        seconds_taken = time.monotonic() - start
        output.seek(0)
        text = output.read(1 << 20).decode("utf-8", "replace")
    return verdict(test, status, text, seconds), seconds_taken, text[-1500:]


def stop(process):
    """Ends a job: its launcher ends the ranks, and is killed if it does not."""
    for signal_number, timeout in ((signal.SIGTERM, 15), (signal.SIGKILL, 15)):
        try:
            os.killpg(process.pid, signal_number)
            process.wait(timeout)
            return
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue


def verdict(test, status, text, seconds):
    kind = test.options.get("resultTest", "TestNormal")
    if status is None:
        return f"took more than {seconds:.0f} s"
    if kind in ("TestStatus", "TestErrFatal"):
        return "ok" if status != 0 else "ended with 0, and should not have"
    succeeded = any(words in text.lower() for words in ("no errors", "test skipped"))
    if status != 0:
        return f"ended with {status}"
    return "ok" if succeeded else "did not say `No Errors`"


def start_machine(options, environment):
    """Starts a separate machine for the tests."""
    name = f"mpi-tests-{os.getpid()}"
    file = pathlib.Path(tempfile.mkdtemp(prefix="tombolo-mpi-")) / f"{name}.toml"
    parts = [part for mode, part in (("user", USER), ("vm", VM)) if mode in options.modes]
    file.write_text(MACHINE.format(name=name) + "".join(parts))
    subprocess.run([options.tombolo, "up", file], check=True, env=environment)
    return name


def table(options, results):
    rows = [["folder", *options.modes]]
    for folder in options.folders:
        row = [folder]
        for mode in options.modes:
            mine = [result for result in results if result["mode"] == mode and result["folder"] == folder]
            count = {kind: sum(result["kind"] == kind for result in mine) for kind in ("passed", "expected", "failed", "not run")}
            text = f"{count['passed']} passed"
            for kind, words in (("failed", "FAILED"), ("expected", "expected to fail"), ("not run", "not run")):
                if count[kind]:
                    text += f", {count[kind]} {words}"
            row.append(text if mine else "")
        rows.append(row)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("built", type=pathlib.Path)
    parser.add_argument("--tombolo", default="tombolo", help="the command")
    parser.add_argument("--modes", default="host,user,vm,tcp", type=lambda text: text.split(","))
    parser.add_argument("--folders", default=",".join(FOLDERS), type=lambda text: text.split(","))
    parser.add_argument("--only", action="append", default=[], help="only tests whose line has this word; may be repeated")
    parser.add_argument("--leave-out", action="append", default=[], help="no tests whose line has this word; may be repeated")
    parser.add_argument("--source", type=pathlib.Path, help="the tests' sources [default: ../source/test/mpi beside BUILT]")
    parser.add_argument("--patience", type=float, default=1, help="times the seconds that each test has")
    parser.add_argument("--mpi", type=pathlib.Path, required=True, help="where MPI is: TARGET/kit/mpi/ISA/opt/tombolo/mpi")
    parser.add_argument("--round-robin", default="--map round-robin", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=pathlib.Path, help="where all of it goes")
    options = parser.parse_args()
    options.built = options.built.resolve()
    options.mpi = options.mpi.resolve()
    options.source = options.source or options.built.parent / "source/test/mpi"
    wrong = [mode for mode in options.modes if mode not in SECONDS]
    if wrong:
        parser.error(f"there is no mode {wrong[0]}: there are {', '.join(SECONDS)}")
    return options


def main():
    options = parse()
    expected = read_expected(HERE / "expected/mpich.txt")
    tests = list(read_tests(options))
    if not tests:
        sys.exit("no test has that name")
    environment = dict(os.environ)
    machine = None
    if set(options.modes) - {"hydra", "tcp"}:
        machine = start_machine(options, environment)
        environment["TOMBOLO_MACHINE"] = machine
    results = []
    try:
        for mode in options.modes:
            for number, test in enumerate(tests, 1):
                results.append(run_and_judge(options, (test, mode), expected, environment))
                result = results[-1]
                print(f"{mode:4} {number:4}/{len(tests)}  {test.key}: {result['said']}", flush=True)
                # The output may explain the failure.
                if result["kind"] == "failed" and result["output"].strip():
                    print("    " + "\n    ".join(result["output"].strip().splitlines()[-6:]), flush=True)
    except KeyboardInterrupt:
        print("interrupted: this is as far as it got")
    finally:
        if machine:
            subprocess.run([options.tombolo, "-q", "--machine", machine, "down"], check=False)
    sys.exit(report(options, results))


def run_and_judge(options, test_and_mode, expected, environment):
    test, mode = test_and_mode
    result = {"test": test.key, "folder": test.folder, "mode": mode, "ranks": test.ranks}
    missing = test.reason_not_to_run(options.built)
    if missing:
        return {**result, "kind": "not run", "said": f"not run: {missing}", "output": ""}
    outcome, seconds_taken, output = run(options, test, mode, environment)
    reason = reason_for(expected, test.key, mode)
    if outcome == "ok":
        kind, said = "passed", "ok" if reason is None else f"ok, though it is expected to fail: {reason}"
    elif reason is not None:
        kind, said = "expected", f"{outcome}, as expected: {reason}"
    else:
        kind, said = "failed", f"FAILED: {outcome}"
    # A test that is listed with "sometimes" may pass.
    surprise = outcome == "ok" and reason is not None and not reason.startswith("sometimes")
    return {**result, "kind": kind, "said": f"{said} ({seconds_taken:.1f} s)", "seconds": round(seconds_taken, 2), "surprise": surprise,
            "output": "" if outcome == "ok" else output}


def report(options, results):
    print("\n" + table(options, results))
    failed = [result for result in results if result["kind"] == "failed"]
    surprises = [result for result in results if result.get("surprise")]
    for result in failed + surprises:
        print(f"{result['mode']}: {result['test']}: {result['said']}")
    if options.json:
        options.json.write_text(json.dumps({"modes": options.modes, "results": results}, indent=1) + "\n")
        print(f"all of it is in {options.json}")
    return 1 if failed or surprises else 0


if __name__ == "__main__":
    main()
