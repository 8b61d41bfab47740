#!/usr/bin/python3
"""A farm of SPARQL engines: rank 0 is the master, all others are workers, on whatever nodes they are.

After Slavov, Rao, Barenkala and Paturi, "Performance of RDF Query Processing on the Intel SCC" (MARC 2012), with Oxigraph
as the engine and MPI as the way between ranks:

  --mode task  Every worker has all of the graph. The master hands out queries, one at a time, to whoever is free.
  --mode data  Every worker has a part of the graph. Each query goes to all of them, and their answers are united. A join
               that reaches from one part into another is missed, as in the paper: how much of each answer was found is
               reported as its completeness.

The master reads the file and sends it to the others, so no node but its own needs it. What the workers answer is compared
with what one engine says that has the whole graph; the time that one takes on the master's node is what speed-up is
counted from.

  tombolo mpirun -n 3 python3 examples/mpi/rdf_farm.py Brick.ttl
  tombolo mpirun --on host:2,arm0:1 python3 examples/mpi/rdf_farm.py Brick.ttl --mode data --json

Needs mpi4py and pyoxigraph. Status 1: an answer in task mode differs from the engine's that is alone; 2: usage.
"""

import argparse
import collections
import hashlib
import json
import os
import sys
import time

import pyoxigraph
from mpi4py import MPI

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.rank, WORLD.size
TASK, ANSWER, END = 1, 2, 3
# The master looks this often for answers, so that it does not take a worker's processor for waiting.
LOOK_S = 0.0005

# About Brick, a vocabulary of what is in buildings; small ones first, as the paper sorts them.
PREFIXES = """
PREFIX brick: <https://brickschema.org/schema/Brick#>
PREFIX owl: <http://www.w3.org/2002/07/owl#>
PREFIX rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#>
PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>
PREFIX sh: <http://www.w3.org/ns/shacl#>
PREFIX skos: <http://www.w3.org/2004/02/skos/core#>
"""
BRICK_QUERIES = {
    "kinds-of-ahu": "SELECT ?c WHERE { ?c rdfs:subClassOf brick:AHU }",
    "tags-of-sensors": "SELECT ?c ?t WHERE { ?c rdfs:subClassOf brick:Sensor ; brick:hasAssociatedTag ?t }",
    "defined-quantities": "SELECT ?q ?d WHERE { ?q a brick:Quantity ; skos:definition ?d }",
    "below-equipment": "SELECT ?c ?l WHERE { ?c rdfs:subClassOf+ brick:Equipment ; rdfs:label ?l }",
    "same-tags": "SELECT ?a ?b WHERE { ?a rdfs:subClassOf brick:Temperature_Sensor ; brick:hasAssociatedTag ?t ."
    " ?b rdfs:subClassOf brick:Pressure_Sensor ; brick:hasAssociatedTag ?t }",
    "points-and-substances": "SELECT ?c ?s ?q WHERE { ?c rdfs:subClassOf* brick:Point ; brick:hasSubstance ?s ;"
    " brick:hasQuantity ?q }",
    "rules": "SELECT ?c ?o WHERE { ?c sh:rule ?r . ?r sh:predicate brick:hasTag ; sh:object ?o }",
    "siblings-two-up": "SELECT ?a ?b WHERE { ?a rdfs:subClassOf ?p . ?p rdfs:subClassOf ?g . ?q rdfs:subClassOf ?g ."
    " ?b rdfs:subClassOf ?q . FILTER(?a != ?b && ?p != ?q) }",
}


def arguments():
    parser = argparse.ArgumentParser(prog="rdf_farm.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="an RDF file: .ttl, .nt, .rdf, .nq, .trig, .n3")
    parser.add_argument("--mode", choices=("task", "data"), default="task")
    parser.add_argument("--queries", metavar="FOLDER", help="files .rq in place of the queries about Brick")
    parser.add_argument("--repeat", type=int, default=20, metavar="N", help="how often each query is in the pool (20)")
    parser.add_argument("--json", action="store_true", help="one line of JSON in place of the table")
    options = None
    try:
        options = parser.parse_args() if RANK == 0 else None
    except SystemExit as end:
        WORLD.bcast(("end", end.code), root=0)
        raise
    if RANK == 0:
        problem = problem_with(options)
        if problem:
            WORLD.bcast(("end", 2), root=0)
            print(f"rdf_farm.py: {problem}", file=sys.stderr)
            sys.exit(2)
    verdict, value = WORLD.bcast(("go", options), root=0)
    if verdict == "end":
        sys.exit(value)
    return value


def problem_with(options):
    if SIZE < 2:
        return "there must be a master and a worker: start two ranks or more (tombolo mpirun -n 2 ...)"
    if options.repeat < 1:
        return "--repeat must be 1 or more"
    if format_of(options.file) is None:
        return f"the suffix of {options.file} says no format of RDF"
    if not os.access(options.file, os.R_OK):
        return f"cannot read {options.file}"
    if options.queries and not os.path.isdir(options.queries):
        return f"{options.queries} is no folder"
    return None


def format_of(path):
    return pyoxigraph.RdfFormat.from_extension(os.path.splitext(path)[1].lstrip("."))


def queries_of(options):
    """The names and texts of the queries."""
    if not options.queries:
        return {name: PREFIXES + text for name, text in BRICK_QUERIES.items()}
    queries = {}
    for entry in sorted(os.listdir(options.queries)):
        if entry.endswith(".rq"):
            with open(os.path.join(options.queries, entry), encoding="utf-8") as file:
                queries[entry[:-3]] = file.read()
    return queries


def spelled(term):
    """A term as text. Blank nodes have other names in each engine, so they all are one."""
    return "_" if term is None or isinstance(term, pyoxigraph.BlankNode) else str(term)


def rows_of(store, query):
    """The answer to a query as a set of rows of text."""
    answer = store.query(query)
    if isinstance(answer, pyoxigraph.QueryBoolean):
        return {(str(bool(answer)),)}
    return {tuple(spelled(term) for term in row) for row in answer}


def digest_of(rows):
    """The same for the same rows, in whatever order."""
    return sum(int.from_bytes(hashlib.blake2b("\t".join(row).encode(), digest_size=8).digest(), "little") for row in rows) % 2**64


def store_of(triples):
    store = pyoxigraph.Store()
    store.bulk_extend(pyoxigraph.Quad(s, p, o) for s, p, o in triples)
    return store


def parse(data, path):
    return [(quad.subject, quad.predicate, quad.object) for quad in pyoxigraph.parse(data, format=format_of(path))]


def partition(triples, parts):
    """Cuts a graph in `parts` of about as many triples, along as few edges as growing them from a seed gives. A triple whose
    ends lie in two parts is in both."""
    neighbours = collections.defaultdict(list)
    for subject, predicate, value in triples:
        # Types and literals tell nothing of what belongs together.
        if predicate.value.endswith("#type") or isinstance(value, pyoxigraph.Literal):
            neighbours[subject]
        else:
            neighbours[subject].append(value)
            neighbours[value].append(subject)
    weight = collections.Counter(subject for subject, _, _ in triples)
    share = len(triples) / parts
    part_of, part, filled = {}, 0, 0
    for seed in neighbours:
        queue = collections.deque([seed])
        while queue:
            node = queue.popleft()
            if node in part_of:
                continue
            part_of[node] = part
            filled += weight[node]
            if filled >= share and part + 1 < parts:
                part, filled = part + 1, 0
                queue.clear()
            # Hubs would pull everything into one part.
            if len(neighbours[node]) < 200:
                queue.extend(near for near in neighbours[node] if near not in part_of)
    pieces = [[] for _ in range(parts)]
    for triple in triples:
        subject, _, value = triple
        home = part_of[subject]
        pieces[home].append(triple)
        away = part_of.get(value, home)
        if away != home:
            pieces[away].append(triple)
    return pieces


def as_lines(triples):
    return pyoxigraph.serialize((pyoxigraph.Triple(*triple) for triple in triples), format=pyoxigraph.RdfFormat.N_TRIPLES)


def spread(options):
    """Gives each worker its graph. The master gets the whole store; workers get theirs."""
    if RANK == 0:
        with open(options.file, "rb") as file:
            data = file.read()
        triples = parse(data, options.file)
        if options.mode == "task":
            WORLD.bcast(data, root=0)
        else:
            for worker, piece in enumerate(partition(triples, SIZE - 1), start=1):
                WORLD.send(as_lines(piece), dest=worker)
        return store_of(triples), len(triples)
    if options.mode == "task":
        triples = parse(WORLD.bcast(None, root=0), options.file)
    else:
        triples = parse(WORLD.recv(source=0), "part.nt")
    return store_of(triples), len(triples)


def work(store, queries, mode):
    """A worker: answers queries until it is told to end."""
    status = MPI.Status()
    while True:
        name = WORLD.recv(source=0, status=status)
        if status.tag == END:
            return
        start = time.perf_counter()
        rows = rows_of(store, queries[name])
        busy_s = time.perf_counter() - start
        WORLD.send((name, digest_of(rows) if mode == "task" else rows, busy_s), dest=0, tag=ANSWER)


def next_answer():
    status = MPI.Status()
    while not WORLD.Iprobe(tag=ANSWER, status=status):
        time.sleep(LOOK_S)
    return status.source, WORLD.recv(source=status.source, tag=ANSWER)


class Tally:
    """What the workers did."""

    def __init__(self):
        self.answered = collections.Counter()
        self.busy_s = collections.Counter()

    def note(self, worker, busy_s):
        self.answered[worker] += 1
        self.busy_s[worker] += busy_s


def farm_tasks(pool, expected):
    """Hands queries to whoever is free. Returns what they did, and the names of queries with another answer than expected."""
    waiting, tally, wrong = collections.deque(pool), Tally(), set()
    for worker in range(1, min(SIZE, len(pool) + 1)):
        WORLD.send(waiting.popleft(), dest=worker, tag=TASK)
    for _ in pool:
        worker, (name, digest, busy_s) = next_answer()
        tally.note(worker, busy_s)
        if digest != expected[name]:
            wrong.add(name)
        if waiting:
            WORLD.send(waiting.popleft(), dest=worker, tag=TASK)
    return tally, sorted(wrong)


def farm_data(pool):
    """Asks all workers each query. Returns what they did, and the united answers."""
    tally, united = Tally(), {}
    for name in pool:
        for worker in range(1, SIZE):
            WORLD.send(name, dest=worker, tag=TASK)
        rows = set()
        for _ in range(1, SIZE):
            worker, (_, part, busy_s) = next_answer()
            tally.note(worker, busy_s)
            rows |= part
        united[name] = rows
    return tally, united


def master(options, store, triples, queries, places):
    pool = [name for _ in range(options.repeat) for name in queries]
    for query in queries.values():  # so that neither side pays for the first time
        rows_of(store, query)
    start = time.perf_counter()
    whole = {name: rows_of(store, queries[name]) for name in pool}
    alone_s = time.perf_counter() - start
    WORLD.Barrier()
    start = time.perf_counter()
    wrong, completeness = [], {}
    if options.mode == "task":
        tally, wrong = farm_tasks(pool, {name: digest_of(rows) for name, rows in whole.items()})
    else:
        tally, united = farm_data(pool)
        # Rows that only a part could answer, such as counts, do not count as found.
        completeness = {name: len(united[name] & rows) / len(rows) if rows else 1.0 for name, rows in whole.items()}
    farm_s = time.perf_counter() - start
    for worker in range(1, SIZE):
        WORLD.send(None, dest=worker, tag=END)
    report = {
        "mode": options.mode,
        "file": os.path.basename(options.file),
        "triples": triples,
        "queries": len(pool),
        "workers": [
            {"rank": rank, "node": place, "triples": held, "answered": tally.answered[rank], "busy_s": round(tally.busy_s[rank], 6)}
            for rank, (place, held) in enumerate(places)
            if rank > 0
        ],
        "alone_s": round(alone_s, 6),
        "farm_s": round(farm_s, 6),
        "speed_up": round(alone_s / farm_s, 3),
        "wrong": wrong,
        "completeness": {name: round(part, 4) for name, part in completeness.items()},
    }
    if options.json:
        print(json.dumps(report))
    else:
        show(report, whole)
    return 1 if wrong else 0


def show(report, whole):
    print(f"{report['file']}: {report['triples']} triples; {report['queries']} queries, {report['mode']}-parallel")
    print(f"{'worker':<28}{'triples':>9}{'answered':>10}{'busy':>10}")
    for worker in report["workers"]:
        place = f"{worker['rank']} on {worker['node']}"
        print(f"{place:<28}{worker['triples']:>9}{worker['answered']:>10}{worker['busy_s']:>8.2f} s")
    print(f"one engine alone {report['alone_s']:.2f} s, the farm {report['farm_s']:.2f} s: speed-up {report['speed_up']:.2f}")
    if report["mode"] == "task":
        print("all answers are those of the engine alone" if not report["wrong"] else f"wrong: {', '.join(report['wrong'])}")
        return
    print(f"{'query':<28}{'rows':>9}{'found':>10}")
    for name, part in report["completeness"].items():
        print(f"{name:<28}{len(whole[name]):>9}{part:>9.1%}")


def main():
    options = arguments()
    queries = WORLD.bcast(queries_of(options) if RANK == 0 else None, root=0)
    if not queries:
        if RANK == 0:
            print(f"rdf_farm.py: {options.queries} has no files .rq", file=sys.stderr)
        return 2
    store, triples = spread(options)
    places = WORLD.gather((MPI.Get_processor_name(), triples), root=0)
    if RANK == 0:
        code = master(options, store, triples, queries, places)
    else:
        for query in queries.values():
            rows_of(store, query)
        WORLD.Barrier()
        work(store, queries, options.mode)
        code = 0
    return WORLD.bcast(code, root=0)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, SyntaxError, ValueError) as error:
        # A file that is not RDF, or an invalid query. The other ranks wait for this one: abort them too.
        print(f"rdf_farm.py: rank {RANK}: {error}", file=sys.stderr)
        sys.stderr.flush()
        WORLD.Abort(1)
