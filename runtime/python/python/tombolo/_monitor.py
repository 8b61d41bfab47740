"""Finds the monitor that was installed together with this package."""

import os
import pathlib
import sysconfig

VARIABLE = "TOMBOLO_TOMBOLOD"


def installed():
    """Returns the path of `tombolod` in the scripts folder of the installation scheme of this package, or None."""
    packages = pathlib.Path(__file__).resolve().parent.parent
    for scheme in sysconfig.get_scheme_names():
        paths = sysconfig.get_paths(scheme)
        if os.path.realpath(paths["platlib"]) == str(packages):
            program = pathlib.Path(paths["scripts"], "tombolod")
            if program.is_file():
                return str(program)
    return None


def set_default():
    """Sets the monitor that this process starts, and its children inherit, unless the user named another one."""
    if VARIABLE not in os.environ:
        program = installed()
        if program is not None:
            os.environ[VARIABLE] = program
