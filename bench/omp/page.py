#!/usr/bin/env python3
"""Puts the figures of a run of `tombolo bench omp --json` into a page of Markdown, between its two marks.

    python3 bench/omp/page.py docs/results/omp/zen5.json docs/results/omp/README.md

What is around the marks stays: who ran it, where, and how to read it.
"""

import json
import sys

BEGIN, END = "<!-- figures -->\n", "<!-- end of figures -->\n"
TITLES = {
    "constructs": "Constructs, overhead of one",
    "schedules": "Loops of 128 iterations of 0.1 µs for each worker, overhead of the loop",
    "tasks": "Tasks, overhead of one",
    "start": "Start (figure 7.1)",
    "sharing": "Memory that the master wrote, until all workers have read it (figure 7.2)",
    "regions": "An empty region (figure 7.3)",
    "matmul": "Matrices multiplied on this host (figure 7.4)",
    "nodes": "Matrices multiplied by unlike processors at once (figure 7.5)",
}


def time(microseconds):
    """Three digits, in the unit that suits."""
    if microseconds is None:
        return ""
    for limit, unit, factor in ((1, "ns", 1e3), (1e3, "µs", 1), (1e6, "ms", 1e-3)):
        if abs(microseconds) < limit:
            return f"{microseconds * factor:.3g} {unit}"
    return f"{microseconds * 1e-6:.3g} s"


def table(rows):
    """One section: a line for each metric and number of workers, a column for each stack."""
    stacks = list(dict.fromkeys(row["stack"] for row in rows))
    cells = {}
    for row in rows:
        cells.setdefault((row["metric"], row["threads"]), {})[row["stack"]] = row
    limited = any(row["limit_us"] is not None for row in rows)
    heads = ["", "workers", *stacks, *(["limit"] if limited else [])]
    lines = ["| " + " | ".join(heads) + " |", "|---|---:|" + "---:|" * (len(heads) - 2)]
    for (metric, threads), found in cells.items():
        line = [metric, str(threads), *(time(found[stack]["p50_us"]) if stack in found else "" for stack in stacks)]
        if limited:
            line.append(time(next((row["limit_us"] for row in found.values() if row["limit_us"] is not None), None)))
        lines.append("| " + " | ".join(line) + " |")
    return lines


def page(report):
    """All sections, what is promised, and what is not there."""
    host, limit = report["host"], report["limit"]
    lines = [
        f"{host['cpu_model']}, {host['cores']} processors, Linux {host['kernel']}; Tombolo {report['version']}, {report['rounds']} rounds, medians. A bare cache",
        f"line takes {limit['line_ns']:.0f} ns one way, and one processor copies {limit['copy_gb_s']:.1f} GB/s. Matrices have {report['size']} rows and columns.",
        "",
    ]
    lines += [f"- *{stack['stack']}*: {stack['about']}" for stack in report["stacks"]] + [""]
    for section, title in TITLES.items():
        rows = [row for row in report["rows"] if row["section"] == section]
        if rows:
            lines += [f"## {title}", "", *table(rows), ""]
    lines += ["## What is promised", "", "| what | workers | ratio | promise | |", "|---|---:|---:|---|---|"]
    for target in report["targets"]:
        judged = ("met" if target["met"] else "**missed**") + (", doubtful" if target["doubtful"] else "")
        what = f"{target['section']}: {target['metric']}, {target['what']}"
        lines.append(f"| {what} | {target['threads']} | {target['ratio']:.2f} | at most {target['at_most']} | {judged} |")
    if report["absent"]:
        lines += ["", "Not measured:", ""]
        lines += [f"- {absent['stack']}{': ' if absent['what'] else ''}{', '.join(absent['what'])}: {absent['why']}" for absent in report["absent"]]
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
