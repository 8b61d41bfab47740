"""Stubs compiled from interface files at import.

``from tombolo.interfaces import kv`` finds ``kv.tbl`` in one of :data:`folders`, in a folder of ``sys.path`` or in its
subfolder ``interfaces``, and compiles it. :func:`load` does so for a path. Both give what ``tombolo idl compile --lang
python`` writes ahead of time, for type checkers and for installations without the interface file.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from types import ModuleType
from typing import Optional, Sequence, Union

from .._native import compile_interface

#: Additional folders in which interface files are looked up, before those of ``sys.path``.
folders: list[str] = []

_loaded: dict[str, ModuleType] = {}


class _Loader(importlib.abc.InspectLoader):
    """Loader of modules whose source the interface compiler generates."""

    def __init__(self, path: str) -> None:
        self._path = path

    def get_source(self, fullname: str) -> str:
        return compile_interface(self._path)

    def get_filename(self, fullname: str) -> str:
        # Line numbers in tracebacks refer to the stubs, not to the interface file.
        return f"<stubs of {self._path}>"

    def exec_module(self, module: ModuleType) -> None:
        code = compile(self.get_source(module.__name__), self.get_filename(module.__name__), "exec")
        exec(code, module.__dict__)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds ``tombolo.interfaces.NAME`` as ``NAME.tbl``."""

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        package, _, name = fullname.rpartition(".")
        if package != __name__:
            return None
        places = [*folders, *(os.path.join(place, part) for place in sys.path for part in ("", "interfaces"))]
        for place in places:
            file = os.path.join(place, f"{name}.tbl")
            if os.path.isfile(file):
                return importlib.util.spec_from_loader(fullname, _Loader(os.path.abspath(file)), origin=file)
        return None


def load(path: Union[str, "os.PathLike[str]"]) -> ModuleType:
    """Returns the stubs of an interface file. The same path returns the same module.

    Raises :class:`Mistakes <tombolo.errors.Mistakes>`, whose text shows what is wrong and where, or ``OSError``.
    """
    file = os.path.realpath(os.fspath(path))
    module = _loaded.get(file)
    if module is None:
        stem = os.path.splitext(os.path.basename(file))[0]
        name = f"{__name__}.<{stem}-{len(_loaded)}>"
        spec = importlib.util.spec_from_loader(name, _Loader(file), origin=file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        # Dataclasses look up their module by name.
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
        _loaded[file] = module
    return module


sys.meta_path.append(_Finder())
