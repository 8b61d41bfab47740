"""Finds the monitor that was installed together with this package."""

import os
import pathlib
import sysconfig

VARIABLE = "TOMBOLO_TOMBOLOD"


def installed():
    """The path of `tombolod` in the folder of scripts that belongs to the folder this package was installed into, or None."""
    packages = pathlib.Path(__file__).resolve().parent.parent
    for scheme in sysconfig.get_scheme_names():
        paths = sysconfig.get_paths(scheme)
        if os.path.realpath(paths["platlib"]) == str(packages):
            program = pathlib.Path(paths["scripts"], "tombolod")
            if program.is_file():
                return str(program)
    return None


def set_default():
    """Lets programs of this process start that monitor, unless the user named another one."""
    if VARIABLE not in os.environ:
        program = installed()
        if program is not None:
            os.environ[VARIABLE] = program
