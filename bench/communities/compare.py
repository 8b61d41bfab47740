#!/usr/bin/env python3
"""The main job beside what people use for the same: igraph's multilevel (Louvain) and Leiden, and leidenalg.

    python bench/communities/compare.py --job PROGRAM [--tombolo PROGRAM --image FILE] [--runs N] [--json FILE] [--page FILE]

All search the same graphs: two that the job generates, the same on every machine, and the dependencies of this machine's Debian
packages. Each is run once for every seed, in turns, so that what disturbs the machine disturbs all; figures are medians, with the
least and the most. Modularity is computed by igraph from the communities that each has found, whatever the searches say of
themselves. Times are of the search alone: neither reading the graph nor starting workers counts; sending the graph to workers
does. `make bench-communities` installs the peers and runs this.
"""

import argparse
import json
import os
import pathlib
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time

import igraph
import leidenalg

#: What the job is given, and what the graph is called.
GRAPHS = {
    "lfr": (["--lfr", "18"], "LFR: generated, with known communities"),
    "rmat": (["--rmat", "18"], "R-MAT: generated, degrees as uneven as the web's"),
    "packages": (["--debian"], "dependencies of this machine's Debian packages"),
}

#: A search that had its processor for less of its time than this was disturbed.
UNDISTURBED_SHARE = 0.95


def main():
    options = parse()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        graphs = [measure(name, options, folder) for name in options.graphs]
    result = {"machine": machine(load, graphs), "versions": versions(options), "runs": options.runs, "graphs": graphs}
    print(table(result))
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")
    if options.page:
        put_into_page(options.page, table(result))


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--job", required=True, help="the program `communities` of this host")
    parser.add_argument("--tombolo", help="the command `tombolo`, with a machine that is up: workers on its nodes are measured too")
    parser.add_argument("--image", help="the image of the job, for all nodes of that machine")
    parser.add_argument("--graphs", nargs="+", choices=GRAPHS, default=list(GRAPHS))
    parser.add_argument("--runs", type=int, default=5, help="runs of each search, with as many seeds (default 5)")
    parser.add_argument("--json", type=pathlib.Path, help="write all figures there")
    parser.add_argument("--page", type=pathlib.Path, help="put the tables into this page, below its line <!-- figures -->")
    options = parser.parse_args()
    if options.runs < 1:
        parser.error("--runs: expected 1 or more")
    if bool(options.tombolo) != bool(options.image):
        parser.error("--tombolo and --image belong together")
    return options


def measure(name, options, folder):
    """All searches of one graph."""
    source, title = GRAPHS[name]
    edges = folder / f"{name}.txt"
    described = job([options.job, "--workers", "none", "--edges", str(edges)], source, folder)[0]
    graph = igraph.Graph(n=described["vertices"], edges=read_edges(edges))
    if graph.ecount() != described["edges"]:
        sys.exit(f"compare.py: {name}: the job has {described['edges']} edges, and wrote {graph.ecount()}")
    searches = ours(options, source, folder) | peers(graph)
    runs = {search: [] for search in searches}
    for seed in range(1, options.runs + 1):
        for search, run in searches.items():
            seconds, membership, details = run(seed)
            found = graph.modularity(membership)
            runs[search].append(
                {"seed": seed, "seconds": seconds, "modularity": found, "communities": len(set(membership)), **details}
            )
            print(f"{name}: {search}, seed {seed}: {seconds:.2f} s, {found:.6f}", file=sys.stderr)
    return {
        "name": name,
        "title": title,
        "vertices": graph.vcount(),
        "edges": graph.ecount(),
        "searches": [{"search": search, **summary(of), "runs": of} for search, of in runs.items()],
    }


def read_edges(path):
    with open(path, encoding="ascii") as lines:
        return [tuple(map(int, line.split())) for line in lines]


def job(command, source, folder, seed=1):
    """Runs the job; its report, and the community of each vertex."""
    labels = folder / "labels"
    command = [*command, "--seed", str(seed), "--top", "0", "--json", "--output", str(labels), *source]
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if run.returncode != 0:
        sys.exit(f"compare.py: {' '.join(command)} ended with status {run.returncode}:\n{run.stderr}")
    with open(labels, encoding="utf-8") as lines:
        return json.loads(run.stdout), [int(line.rsplit("\t", 1)[1]) for line in lines]


def ours(options, source, folder):
    """The job with each set of workers."""

    def search(*command):
        def run(seed):
            report, membership = job(command, source, folder, seed)
            details = {key: report[key] for key in ("rounds", "spread_seconds")}
            return report["search_seconds"], membership, details

        return run

    searches = {"Tombolo, one thread": search(options.job, "--workers", "none")}
    if options.tombolo:
        start = (options.tombolo, "run", "--on", "host", options.image, "--", "--workers")
        searches["Tombolo, 2 workers on the host"] = search(*start, "host:2")
        searches["Tombolo, host and emulated Arm"] = search(*start, "host:1,arm0:1")
    return searches


def peers(graph):
    """What other libraries have, each in one thread with its default options."""

    def timed(find):
        def run(seed):
            random.seed(seed)
            wall, cpu = time.perf_counter(), time.process_time()
            membership = find(seed).membership
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            return wall, membership, {"processor_share": cpu / wall}

        return run

    return {
        "igraph, multilevel": timed(lambda _: graph.community_multilevel()),
        "igraph, Leiden": timed(lambda _: graph.community_leiden("modularity", n_iterations=2)),
        "leidenalg": timed(
            lambda seed: leidenalg.find_partition(graph, leidenalg.ModularityVertexPartition, n_iterations=2, seed=seed)
        ),
    }


def summary(runs):
    result = {}
    for key in ("seconds", "modularity", "communities"):
        values = [run[key] for run in runs]
        result[key] = {"median": statistics.median(values), "least": min(values), "most": max(values)}
    return result


def machine(load, graphs):
    """What this was measured on, and whether something else ran meanwhile."""
    shares = [
        run["processor_share"]
        for graph in graphs
        for search in graph["searches"]
        for run in search["runs"]
        if "processor_share" in run
    ]
    model = next(
        (line.split(":")[1].strip() for line in open("/proc/cpuinfo", encoding="utf-8") if line.startswith("model name")),
        platform.machine(),
    )
    return {
        "cpu_model": model,
        "processors": os.cpu_count(),
        "kernel": platform.release(),
        "load_before": load,
        "least_processor_share": min(shares),
        "disturbed": min(shares) < UNDISTURBED_SHARE,
    }


def versions(options):
    found = {"igraph": igraph.__version__, "leidenalg": leidenalg.version, "python": platform.python_version()}
    if options.tombolo:
        told = subprocess.run([options.tombolo, "--version"], stdout=subprocess.PIPE, text=True, check=True)
        found["tombolo"] = told.stdout.split()[1]
    return found


def table(result):
    """The figures as text: Markdown."""
    host, versions_ = result["machine"], result["versions"]
    lines = [
        f"{host['cpu_model']}, {host['processors']} processors, Linux {host['kernel']}; igraph {versions_['igraph']}, "
        f"leidenalg {versions_['leidenalg']}. Medians of {result['runs']} seeds, with the least and the most.",
    ]
    if host["disturbed"]:
        lines += [
            "",
            f"**The machine was busy with other things**: a search had a processor for {host['least_processor_share']:.0%} of its "
            f"time at least, and the load before was {host['load_before']:.1f}. Modularity does not depend on that; times do.",
        ]
    for graph in result["graphs"]:
        lines += [
            "",
            f"## {graph['title'][0].upper()}{graph['title'][1:]}",
            "",
            f"{graph['vertices']:,} vertices, {graph['edges']:,} edges.",
            "",
            "| | search | | modularity | | communities |",
            "|---|---:|---|---:|---|---:|",
        ]
        for search in graph["searches"]:
            seconds, found = search["seconds"], search["modularity"]
            lines.append(
                f"| {search['search']} | {seconds['median']:.2f} s | {seconds['least']:.2f} to {seconds['most']:.2f} "
                f"| {found['median']:.5f} | {found['least']:.5f} to {found['most']:.5f} "
                f"| {search['communities']['median']:,.0f} |"
            )
    return "\n".join(lines)


def put_into_page(page, text):
    marker = "<!-- figures -->\n"
    head, found, _ = page.read_text().partition(marker)
    if not found:
        sys.exit(f"compare.py: {page} has no line {marker.strip()}")
    page.write_text(f"{head}{marker}\n{text}\n")


if __name__ == "__main__":
    main()
