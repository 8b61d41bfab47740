#!/usr/bin/env python3
"""Puts the figures of a run of `tombolo bench omp --json` into a page of Markdown, between its two marks.

    python3 bench/omp/page.py docs/results/omp/zen5.json docs/results/omp/README.md

What is around the marks stays: who ran it, where, and how to read it.
"""

import json
import sys

BEGIN, END = "<!-- figures -->\n", "<!-- end of figures -->\n"
def time(nanoseconds):
    """Three digits, in the unit that suits."""
    if nanoseconds is None:
        return ""
    for limit, unit, factor in ((1e3, "ns", 1), (1e6, "µs", 1e-3), (1e9, "ms", 1e-6)):
        if abs(nanoseconds) < limit:
            return f"{nanoseconds * factor:.3g} {unit}"
    return f"{nanoseconds * 1e-9:.3g} s"


def table(rows, sizes):
    """One group: a line for each metric and size, a column for each stack."""
    stacks = list(dict.fromkeys(row["stack"] for row in rows))
    cells = {}
    for row in rows:
        cells.setdefault((row["metric"], row["size"]), {})[row["stack"]] = row
    limited = any(row["limit"] is not None for row in rows)
    heads = ["", sizes, *stacks, *(["limit"] if limited else [])]
    lines = ["| " + " | ".join(heads) + " |", "|---|---:|" + "---:|" * (len(heads) - 2)]
    for (metric, size), found in cells.items():
        line = [metric, str(size), *(time(found[stack]["p50"]) if stack in found else "" for stack in stacks)]
        if limited:
            line.append(time(next((row["limit"] for row in found.values() if row["limit"] is not None), None)))
        lines.append("| " + " | ".join(line) + " |")
    return lines


def judged(target):
    """A line of what is promised."""
    bound = f"at most {target['at_most']}" if "at_most" in target else f"at least {target['at_least']}"
    verdict = {"missed": "**missed**", "not_measured": "not measured"}.get(target["verdict"], target["verdict"])
    found = "" if target["found"] is None else f"{target['found']:.2f}"
    return f"| {target['what']} | {found} | {bound} | {verdict} |"


def page(report):
    """All groups, what is promised, and what is not there."""
    host, limit = report["host"], report["limit"]
    lines = [
        f"{host['cpu_model']}, {host['cores']} processors, Linux {host['kernel']}; Tombolo {report['version']}; medians of {report['how']}. A bare cache",
        f"line takes {limit['line_ns']:.0f} ns one way, and one processor copies {limit['copy_gb_s']:.1f} GB/s.",
        "",
    ]
    lines += [f"- *{stack['name']}*: {stack['about']}" for stack in report["stacks"]] + [""]
    for group in report["groups"]:
        rows = [row for row in report["rows"] if row["group"] == group["name"]]
        if rows:
            lines += [f"## {group['title'].capitalize()}", "", *table(rows, report["sizes"]), ""]
    lines += ["## What is promised", "", "| what | ratio | promise | |", "|---|---:|---|---|"]
    lines += map(judged, report["targets"])
    if report["absent"]:
        lines += ["", "Not measured:", ""]
        lines += [f"- {absent['peer']}: {absent['why']}" for absent in report["absent"]]
    return "\n".join(lines) + "\n"


def main():
    """Reads the report, and writes the page anew."""
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    with open(sys.argv[1], encoding="utf-8") as file:
        report = json.load(file)
    with open(sys.argv[2], encoding="utf-8") as file:
        before, rest = file.read().split(BEGIN)
    after = rest.split(END)[1]
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(before + BEGIN + "\n" + page(report) + "\n" + END + after)
    return 0


if __name__ == "__main__":
    sys.exit(main())
