#!/usr/bin/env python3
"""Runs the quick tests of fabtests over Tombolo's provider on this host, and says what became of them.

    python3 testing/mpi/run_fabtests.py BUILT [--target FOLDER] [--provider NAME] [--json FILE]

BUILT is the folder that `testing/mpi/fabtests.sh` built the tests in. Addresses are exchanged beside libfabric (`-b`), since the
provider's are no addresses of the internet. What is expected to fail, or not to run, is listed in expected/fabtests.txt with its
reason. Ends with 1 if another test fails or does not run, or if one that is listed passes.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from run_mpich import MACHINE, read_expected, reason_for

HERE = pathlib.Path(__file__).resolve().parent
RESULT = re.compile(r"^(fi_\S.*?):\s+(Pass|Fail|Notrun|Excluded)\b")

# The script kills every process of the host whose name begins with `fi_`; and of a server that is left only
# the shell that waits for it, so that the server keeps the port. The replacement kills only processes of its
# own session.
ENDINGS = [(re.compile(r"^.*\bps -eo comm,pid\b.*\bkill -9\b.*$", re.MULTILINE), 2),
           (re.compile(r"\bkill -9 \$s_pid\b"), 3)]
END_OWN = "pkill -KILL -s $$ '^fi_'"

# What reasons begin with of tests that say themselves that they cannot run.
NOT_RUN = "not run"


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("built", type=pathlib.Path)
    parser.add_argument("--target", type=pathlib.Path, default=pathlib.Path("target"))
    parser.add_argument("--provider", default="tombolo")
    parser.add_argument("--seconds", type=int, default=60, help="that each test has")
    parser.add_argument("--json", type=pathlib.Path, help="where all of it goes")
    return parser.parse_args()


def write_restricted_script(binaries):
    """Writes the script of fabtests, changed to end only processes that it started."""
    text = (binaries / "runfabtests.sh").read_text()
    for ending, times in ENDINGS:
        text, found = ending.subn(lambda _: END_OWN, text)
        if found != times:
            sys.exit(f"{binaries}/runfabtests.sh is not that of fabtests 1.17: it ends processes in another way, which is not looked through")
    script = binaries / "run-own-fabtests.sh"
    script.write_text(text)
    script.chmod(0o755)
    return script


def start_machine(tombolo):
    """Starts a separate machine: the one of a plain host may be another program's, or end between two tests."""
    name = f"fabtests-{os.getpid()}"
    with tempfile.TemporaryDirectory(prefix="tombolo-fabtests-") as folder:
        file = pathlib.Path(folder) / f"{name}.toml"
        file.write_text(MACHINE.format(name=name))
        subprocess.run([tombolo, "-q", "up", file], check=True)
    return name


def main():
    options = parse()
    tombolo = options.target.resolve() / "release/tombolo"
    script = write_restricted_script(options.built.resolve() / "bin")
    machine = start_machine(tombolo)
    try:
        status = run(options, script, machine)
    finally:
        subprocess.run([tombolo, "-q", "--machine", machine, "down"], check=False)
    sys.exit(status)


def run(options, script, machine):
    binaries = script.parent
    environment = dict(os.environ)
    fi = options.target.resolve() / "kit/mpi" / os.uname().machine / "opt/tombolo/mpi/fi"
    environment.update(FI_PROVIDER_PATH=str(fi), TOMBOLO_MACHINE=machine)
    words = [script, "-b", "-t", "quick", "-T", str(options.seconds), "-p", binaries, options.provider]
    # The script writes its files to the current folder.
    process = subprocess.Popen(words, env=environment, cwd=binaries, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace", start_new_session=True)
    expected = read_expected(HERE / "expected/fabtests.txt")
    results = []
    try:
        for line in process.stdout:
            found = RESULT.match(line)
            if found:
                results.append(judge(expected, " ".join(found[1].split()), found[2]))
                print(f"{len(results):4}  {results[-1]['test']}: {results[-1]['said']}", flush=True)
    finally:
        if process.poll() is None:
            # Processes that it started have process groups of their own, and the same session.
            subprocess.run(["pkill", "-KILL", "-s", str(process.pid)], check=False)
        process.wait()
    if not results:
        sys.exit("fabtests said nothing")
    return report(options, results)


def judge(expected, name, outcome):
    # Without the name of the provider.
    key = re.sub(r' -p "\S+"$', "", name)
    reason = reason_for(expected, key, "host")
    if outcome == "Pass":
        surprise = reason is not None and not reason.startswith("sometimes")
        return {"test": key, "kind": "passed", "surprise": surprise,
                "said": f"ok, though it is expected to fail: {reason}" if surprise else "ok"}
    if outcome in ("Notrun", "Excluded"):
        if reason is None:
            return {"test": key, "kind": "failed", "said": "NOT RUN, though it could be"}
        return {"test": key, "kind": "not run", "said": reason if reason.startswith(NOT_RUN) else f"{NOT_RUN}: {reason}"}
    if reason is not None and not reason.startswith(NOT_RUN):
        return {"test": key, "kind": "expected", "said": f"failed, as expected: {reason}"}
    return {"test": key, "kind": "failed", "said": "FAILED"}


def report(options, results):
    count = {kind: sum(result["kind"] == kind for result in results) for kind in ("passed", "expected", "failed", "not run")}
    print(f"\n{count['passed']} passed, {count['failed']} FAILED, {count['expected']} expected to fail, {count['not run']} not run")
    wrong = [result for result in results if result["kind"] == "failed" or result.get("surprise")]
    for result in wrong:
        print(f"{result['test']}: {result['said']}")
    if options.json:
        options.json.write_text(json.dumps({"provider": options.provider, "results": results}, indent=1) + "\n")
        print(f"all of it is in {options.json}")
    return 1 if wrong else 0


if __name__ == "__main__":
    main()
