"""Checks fragments of Python of the book without running them: syntax, names, and what is taken from `tombolo`.

The argument is a list, one fragment a line: page, line, names that are given, file; with tabs between.
"""

import ast
import builtins
import sys

import tombolo
from tombolo.interfaces import kv

MODULES = {"tombolo": tombolo, "kv": kv}


def bound_names(tree):
    """Yields the names that a fragment binds."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                yield (alias.asname or alias.name).split(".")[0]


def find_mistakes(tree, known):
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in known:
            yield node.lineno, f"`{node.id}` is made nowhere on the page"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = MODULES.get(node.value.id)
            if module is not None and not hasattr(module, node.attr):
                yield node.lineno, f"{node.value.id} has no `{node.attr}`"


def main():
    known, failed = {}, False
    for line in open(sys.argv[1], encoding="utf-8"):
        page, first, given, file = line.rstrip("\n").split("\t")
        names = known.setdefault(page, set(dir(builtins)) | {"__name__"})
        names.update(name.strip() for name in given.split(","))
        try:
            tree = ast.parse(open(file, encoding="utf-8").read())
        except SyntaxError as error:
            print(f"{page}:{int(first) + (error.lineno or 0)}: {error.msg}")
            failed = True
            continue
        names.update(bound_names(tree))
        for line_offset, mistake in find_mistakes(tree, names):
            print(f"{page}:{int(first) + line_offset}: {mistake}")
            failed = True
    return failed


sys.exit(main())
