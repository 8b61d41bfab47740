"""Packs the wheel of the package `tombolo`.

As a program it packs what `cargo xtask dist` has laid out. As a build backend (PEP 517; `pip install` of this folder) it has that
command build and lay out everything, so that there is one way in which wheels are made.

usage: wheel_builder.py --version VERSION --tag TAG --parts FOLDER --output FOLDER

The folder of parts has `package` (files beside the modules of `python/tombolo`), `prefix` (what goes below the prefix of the
environment: `bin` and `lib`) and `licences`.
"""

import argparse
import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import time
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
NAME = "tombolo"


class Wheel:
    """A wheel that is being written: an archive, and the list of all that it has."""

    def __init__(self, path, version):
        self.info = f"{NAME}-{version}.dist-info"
        self.data = f"{NAME}-{version}.data"
        self.record = []
        # The oldest time that such an archive can say is in 1980.
        epoch = max(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())), 315532800)
        self.time = time.gmtime(epoch)[:6]
        self.archive = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)

    def add(self, name, data, executable=False):
        entry = zipfile.ZipInfo(name, self.time)
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = (0o100755 if executable else 0o100644) << 16
        self.archive.writestr(entry, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(data)}")

    def add_folder(self, folder, name):
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                executable = bool(path.stat().st_mode & 0o111)
                self.add(f"{name}/{path.relative_to(folder).as_posix()}", path.read_bytes(), executable)

    def close(self):
        name = f"{self.info}/RECORD"
        self.record.append(f"{name},,")
        self.add(name, ("\n".join(self.record) + "\n").encode())
        self.archive.close()


def metadata(version):
    """METADATA out of pyproject.toml, read without a library: Python before 3.11 has none for it."""
    text = (HERE / "pyproject.toml").read_text()
    field = lambda key: re.search(rf'^{key} = "(.*)"$', text, re.MULTILINE)[1]  # noqa: E731
    classifiers = re.findall(r'^    "(.* :: .*)",$', text, re.MULTILINE)
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {NAME}",
        f"Version: {version}",
        f"Summary: {field('description')}",
        f"Requires-Python: {field('requires-python')}",
        "License: Apache-2.0 OR MIT",
        *(f"Classifier: {classifier}" for classifier in classifiers),
    ]
    return "\n".join(lines) + "\n"


def pack(version, tag, parts, output):
    """Packs a wheel and returns its name."""
    name = f"{NAME}-{version}-{tag}.whl"
    draft = output / f".{name}.{os.getpid()}"
    try:
        wheel = Wheel(draft, version)
        wheel.add_folder(HERE / "python" / NAME, NAME)
        wheel.add_folder(parts / "package", NAME)
        wheel.add_folder(parts / "prefix" / "bin", f"{wheel.data}/scripts")
        wheel.add_folder(parts / "prefix" / "lib", f"{wheel.data}/data/lib")
        wheel.add_folder(parts / "licences", f"{wheel.info}/licenses")
        wheel.add(f"{wheel.info}/METADATA", metadata(version).encode())
        about = f"Wheel-Version: 1.0\nGenerator: tombolo\nRoot-Is-Purelib: false\nTag: {tag}\n"
        wheel.add(f"{wheel.info}/WHEEL", about.encode())
        wheel.close()
        draft.replace(output / name)
    finally:
        draft.unlink(missing_ok=True)
    return name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Called by pip: builds what is missing in the source tree, and packs it with the kit that there is."""
    output = pathlib.Path(wheel_directory).resolve()
    before = set(output.iterdir())
    command = ["cargo", "xtask", "dist", "--isa", "native", "--only", "wheel", "--kit-as-it-is", "--output", str(output)]
    environment = {**os.environ, "TOMBOLO_PYTHON": sys.executable}
    subprocess.run(command, cwd=HERE.parent.parent, env=environment, stdout=sys.stderr, check=True)
    (made,) = (path.name for path in set(output.iterdir()) - before if path.suffix == ".whl")
    return made


def build_sdist(sdist_directory, config_settings=None):
    """Called by pip: the sources are the whole tree, not this folder."""
    raise RuntimeError("the package is built in a source tree of Tombolo, not out of a source distribution")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--version", required=True)
    parser.add_argument("--tag", required=True)
    parser.add_argument("--parts", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    options = parser.parse_args()
    print(pack(options.version, options.tag, options.parts, options.output))


if __name__ == "__main__":
    main()
