#!/usr/bin/env python3
"""Counts the lines of the small programs of the book, for the table in its API guidelines.

Blank lines, comments and lines of imports (`use`, `import`, `from`, `#include`) do not count, nor does what generates
stubs. A program is counted whole: both sides, `main` and error handling. With file names as arguments it counts those.
"""

import pathlib
import re
import sys

PAGE = pathlib.Path(__file__).parent.parent / "docs/book/src/small-programs.md"
COMMENT = {"rust": "//", "c": "//", "python": "#", "tbl": "//"}
IMPORT = {"rust": r"use |mod .*;", "c": r"#include", "python": r"import |from ", "tbl": r"use "}
LANGUAGES = {".rs": "rust", ".c": "c", ".cpp": "c", ".py": "python", ".proto": "tbl", ".tbl": "tbl"}


def count(text, language):
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    lines, in_import = 0, False
    for line in text.splitlines():
        line = line.strip()
        if in_import or re.match(IMPORT[language], line):
            in_import = language == "rust" and not line.endswith(";")
        elif line and not line.startswith(COMMENT[language]):
            lines += 1
    return lines


def main():
    for path in map(pathlib.Path, sys.argv[1:]):
        print(f"{count(path.read_text(), LANGUAGES[path.suffix]):4} {path}")
    if sys.argv[1:]:
        return
    blocks = re.findall(r"<!-- count: (\w+) (\w+) -->\n(?:<!--[^\n]*-->\n)*```(\w+)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for program, part, language, text in blocks:
        print(f"{count(text, language):4} {program} {part}")


main()
