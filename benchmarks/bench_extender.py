"""Measure the extender as kube-scheduler calls it: its own process, real HTTP with keep-alive, a busy cluster.

    python -m benchmarks.bench_extender            the whole table, some three minutes
    python -m benchmarks.bench_extender --quick    small clusters, to see that it works
    python -m benchmarks.bench_extender --nodes 5000 --against ../before    compared with another checkout's extender
    python -m benchmarks.bench_extender --nodes 5000 --against-policy binpack    compared with another policy

kube-scheduler asks about the nodes that pass its own filters. Of more than 100 nodes it takes a sample, another one for
each pod; sixteen goroutines write the list, so even the same nodes come in another order each time.

All figures of one cluster size come from one run on this machine. The echo is a handler in the same server that only
decodes the names and sends them back. Binds go on at 100 per second during filter, echo and prioritize.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measured_extender import Bench, Connection, filter_body, rss_mib, running
from benchmarks.streaming_api import Size, make_pod, node_name, record_annotations
from gcushare.core.placement import POLICIES

PREFIX = "/gcushare-scheduler"
BINDS_PER_S = 100
CARDS = 8
SIZES = (100, 1000, 5000)
"""Nodes of the clusters."""
WARM_UP = 20
BODIES = 120
"""Requests of one kind; each has its own list of nodes."""

Call = Callable[[int], float]
"""Makes the call of this number; returns the seconds that it took."""


def count_asked(nodes: int) -> int:
    """How many of ``nodes`` nodes kube-scheduler looks for by default, when all of them pass its own filters.

    Source: `numFeasibleNodesToFind` in kube-scheduler's schedule_one.go.
    """
    percent = max(5, 50 - nodes // 125)
    return min(nodes, max(100, nodes * percent // 100))


class Binds:
    """Binds waiting pods, one at a time."""

    def __init__(self, size: Size, port: int, first: int) -> None:
        self._size = size
        self._connection = Connection(port)
        self._next = first
        self._rng = random.Random(5)

    def once(self) -> float:
        """Bind the next waiting pod; returns the seconds it took, without those of its filter."""
        size = self._size
        if self._next >= size.pods + size.waiting:
            raise RuntimeError("no pod is waiting any more: make more of them wait")
        pod = make_pod(self._next, size, 0)
        metadata = metadata_of(pod)
        self._next += 1
        node = node_name(self._rng.randrange(size.nodes))
        self._connection.post(f"{PREFIX}/filter", filter_body(pod, [node]))
        body = {
            "PodName": metadata["name"],
            "PodNamespace": metadata["namespace"],
            "PodUID": metadata["uid"],
            "Node": node,
        }
        taken, answer = self._connection.post(f"{PREFIX}/bind", json.dumps(body).encode())
        if answer != b'{"Error":""}':
            raise RuntimeError(f"bind answered {answer[:300]!r}")
        return taken

    def run(self, per_s: int) -> None:
        """Bind at a steady rate until killed."""
        due = time.perf_counter()
        while True:
            self.once()
            due += 1 / per_s
            time.sleep(max(0.0, due - time.perf_counter()))


@contextmanager
def binds_going_on(bench: Bench, per_s: int) -> Iterator[None]:
    """Bind at a steady rate while the block runs, in a process of its own, which shares no lock with the measuring."""
    size = bench.size
    words = [per_s, bench.extender_port, size.nodes, size.cards, size.pods, size.waiting]
    command = [sys.executable, "-m", "benchmarks.bench_extender", "--only-bind", *map(str, words)]
    process = subprocess.Popen(command, cwd=Path(__file__).parent.parent)
    try:
        before = _bindings(bench)
        while _bindings(bench) < before + 10:
            time.sleep(0.02)
        yield
        if process.poll() is not None:
            raise RuntimeError("the binds ended early")
    finally:
        process.kill()
        process.wait()


def metadata_of(pod: dict[str, object]) -> dict[str, str]:
    """A pod's metadata."""
    metadata = pod["metadata"]
    assert isinstance(metadata, dict)
    return metadata


@dataclass(frozen=True)
class Row:
    """One line of the table; times in milliseconds. ``before``: the same calls to the other checkout's extender."""

    what: str
    median_ms: float
    p99_ms: float
    before: Row | None = None

    def __str__(self) -> str:
        before = self.before
        other = "" if before is None else f" {before.median_ms:.3f} / {before.p99_ms:.3f} |"
        ratio = "" if before is None else f" {self.median_ms / before.median_ms:.2f} |"
        return f"| {self.what} | {self.median_ms:.3f} / {self.p99_ms:.3f} |{other}{ratio}"


def row(what: str, taken: list[float], *, before: Row | None = None) -> Row:
    """Median and 99th percentile of some times."""
    ordered = sorted(taken)
    median_ms, p99_ms = statistics.median(ordered) * 1000, ordered[int(len(ordered) * 0.99)] * 1000
    return Row(what, median_ms, p99_ms, before)


def measure_in_turns(groups: Sequence[Mapping[str, Sequence[Call]]], count: int) -> list[Row]:
    """Call each in every turn, so that whatever else the machine does affects all of them alike.

    A group holds calls that follow each other in life, each to one or two extenders. Groups and extenders come in
    another order each turn, because what ran before leaves its bytes in the processor's caches.
    """
    extenders = len(next(iter(groups[0].values())))
    taken: dict[tuple[str, int], list[float]] = {
        (what, which): [] for group in groups for what in group for which in range(extenders)
    }
    rng = random.Random(2)
    turns = [(group, which) for group in groups for which in range(extenders)]
    for number in range(WARM_UP + count):
        for group, which in rng.sample(turns, len(turns)):
            for what, calls in group.items():
                taken[what, which].append(calls[which](number))
    rows = []
    for what in (what for group in groups for what in group):
        before = row(what, taken[what, 1][WARM_UP:]) if extenders > 1 else None
        rows.append(row(what, taken[what, 0][WARM_UP:], before=before))
    return rows


class Bodies:
    """Requests of filter about one cluster: pods of three sizes, the last ones, to which the binds do not come."""

    def __init__(self, bench: Bench) -> None:
        size = bench.size
        self._names = bench.names()
        self._rng = random.Random(1)
        self._pods = [make_pod(size.pods + size.waiting - 1 - number, size, 0) for number in range(30)]

    def about(self, count: int) -> list[bytes]:
        """Requests about so many nodes, others or in another order each time."""
        return [
            filter_body(self._pods[number % len(self._pods)], self._rng.sample(self._names, count))
            for number in range(BODIES)
        ]

    def same(self, count: int) -> list[bytes]:
        """Requests about so many nodes, each time the same list."""
        return [filter_body(pod, self._names[:count]) for pod in self._pods]

    def unknown(self, count: int) -> list[bytes]:
        """Requests about so many nodes that the extender does not know: the answer refuses every one."""
        pods = [self._pods[number % len(self._pods)] for number in range(BODIES)]
        return [
            filter_body(pod, [f"unknown-{number}-{place:05d}.cluster.local" for place in range(count)])
            for number, pod in enumerate(pods)
        ]


def measure_verbs(benches: Sequence[Bench], count: int) -> list[Row]:
    """Filter, echo and prioritize at one size of cluster, while binds go on."""
    nodes = benches[0].size.nodes
    connections = [Connection(bench.extender_port) for bench in benches]
    asked, bodies = count_asked(nodes), Bodies(benches[0])
    sampled, whole, same = bodies.about(asked), bodies.about(nodes), bodies.same(nodes)
    answers = [json.loads(connections[0].post(f"{PREFIX}/filter", body)[1]) for body in sampled]
    named = [
        filter_body(json.loads(body)["Pod"], answer["NodeNames"]) for body, answer in zip(sampled, answers, strict=True)
    ]

    def post(path: str, bodies: list[bytes]) -> list[Call]:
        def to(connection: Connection) -> Call:
            return lambda number: connection.post(path, bodies[number % len(bodies)])[0]

        return [to(connection) for connection in connections]

    def verb(name: str, bodies: list[bytes]) -> list[Call]:
        return post(f"{PREFIX}/{name}", bodies)

    of = f"{asked} of {nodes:,} nodes"
    groups: list[dict[str, list[Call]]] = [
        {
            f"filter, {of}": verb("filter", sampled),
            f"prioritize, those that filter named, {of}": verb("prioritize", named),
        },
        {f"filter that refuses every node, {of}": verb("filter", bodies.unknown(asked))},
        {f"prioritize, {of}": verb("prioritize", sampled)},
        {f"echo, {of}": post("/echo", sampled)},
    ]
    if asked < nodes:
        of = f"all {nodes:,} nodes"
        groups += [
            {f"filter, {of}": verb("filter", whole)},
            {f"prioritize, {of}": verb("prioritize", whole)},
            {f"echo, {of}": post("/echo", whole)},
        ]
    groups.append({f"filter, all {nodes:,} nodes, the same bytes each time": verb("filter", same)})
    rows: list[Row] = []
    with ExitStack() as binding:
        for bench in benches:
            binding.enter_context(binds_going_on(bench, BINDS_PER_S // len(benches)))
        rows += measure_in_turns(groups, count)
    return rows


def measure_cpu(bench: Bench, count: int) -> str:
    """Filter as kube-scheduler calls it with nothing else going on, and the CPU that it takes."""
    bodies = Bodies(bench).about(count_asked(bench.size.nodes))
    connection = Connection(bench.extender_port)
    before_s = bench.cpu_s()
    taken = [connection.post(f"{PREFIX}/filter", bodies[number % len(bodies)])[0] for number in range(count)]
    cpu_ms = (bench.cpu_s() - before_s) / count * 1000
    median_ms = statistics.median(taken) * 1000
    return f"filter, {bench.size.nodes:,} nodes, nothing else ({bench.label}): {median_ms:.3f} ms, CPU {cpu_ms:.2f} ms"


def measure_binds(benches: Sequence[Bench], count: int) -> list[Row]:
    """Measure bind, and the same Binding sent directly to the API server over the same kind of connection."""
    size = benches[0].size

    def post_binding(api: Connection) -> Call:
        def post(number: int) -> float:
            metadata = metadata_of(make_pod(number, size, 0))
            annotations = record_annotations(number // size.nodes, 1, 1)
            binding = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": metadata["name"], "annotations": annotations},
                "target": {"kind": "Node", "name": node_name(number % size.nodes)},
            }
            path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/binding"
            return api.post(path, json.dumps(binding).encode())[0]

        return post

    def bind(bench: Bench) -> Call:
        # One more than were bound: the process that bound them may have been killed during a bind.
        binds = Binds(size, bench.extender_port, size.pods + _bindings(bench) + 1)
        return lambda _: binds.once()

    sent = [_bindings(bench) for bench in benches]
    (whole,) = measure_in_turns([{"bind, from request to answer": [bind(bench) for bench in benches]}], count)
    sent = [_bindings(bench) - before for bench, before in zip(benches, sent, strict=True)]
    calls = [post_binding(Connection(bench.api_port)) for bench in benches]
    (alone,) = measure_in_turns([{"the API server's share of it (its Binding alone)": calls}], count)
    per_bind = sent[0] / (count + WARM_UP)
    rest = Row("bind without the API server", whole.median_ms - alone.median_ms, whole.p99_ms - alone.p99_ms)
    return [whole, alone, rest, Row("Bindings sent per bound pod", per_bind, per_bind)]


def _bindings(bench: Bench) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{bench.api_port}/bindings") as answer:
        return int(answer.read())


def ratios(rows: list[Row]) -> list[str]:
    """Filter against echo, and what grows with the nodes."""
    medians = {row.what: row.median_ms for row in rows}
    lines = [
        f"{what.replace('echo', 'filter', 1)}: {median / echo:.2f} times the echo"
        for what, echo in medians.items()
        if what.startswith("echo") and (median := medians.get(what.replace("echo", "filter", 1))) is not None
    ]
    sampled = [row.median_ms for row in rows if row.what.startswith("filter,") and " of " in row.what]
    if len(sampled) == len(SIZES):
        lines.append(f"from 1,000 to 5,000 nodes filter takes {sampled[2] / sampled[1]:.2f} times as long")
    return lines


def say(text: str) -> None:
    """Print at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--answer", default="equal:20", help="the extender's --filter-answer")
    parser.add_argument(
        "--policy", default="expected-fill", choices=sorted(POLICIES), help="the policy of nodes and cards"
    )
    parser.add_argument("--nodes", type=int, action="append", choices=SIZES, help="repeatable; all by default")
    parser.add_argument("--count", type=int, default=1500)
    parser.add_argument(
        "--against", type=Path, metavar="FOLDER", help="another checkout: a second column, and the ratio"
    )
    parser.add_argument("--against-policy", choices=sorted(POLICIES), help="another policy: likewise")
    parser.add_argument("--only-bind", nargs=6, type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def options_of(policy: str, answer: str) -> list[str]:
    """The flags of an extender that is measured."""
    return [f"--filter-answer={answer}", f"--node-policy={policy}", f"--card-policy={policy}"]


def main() -> None:
    """Measure and print."""
    given = parse_arguments()
    if given.only_bind:
        per_s, port, *words = given.only_bind
        size = Size(*words)
        Binds(size, port, size.pods).run(per_s)
    scale = 20 if given.quick else 1
    count = 100 if given.quick else given.count
    rows: list[Row] = []
    here = Path(__file__).parent.parent
    measured: list[tuple[Path, str]] = [(here, given.policy)]
    if given.against or given.against_policy:
        measured.append((given.against or here, given.against_policy or given.policy))
    say(f"--filter-answer {given.answer}, {given.policy}, {os.cpu_count()} CPUs, binds at {BINDS_PER_S}/s")
    before = (f" before, {measured[-1][1]}: median / p99 ms | ratio |", "---|---|") if measured[1:] else ("", "")
    say(f"| what | median / p99 ms |{before[0]}\n|---|---|{before[1]}")
    sizes = tuple(given.nodes or SIZES)
    for nodes in sizes:
        size = Size(max(5, nodes // scale), CARDS, min(30_000, nodes * 20) // scale, 20_000)
        with ExitStack() as started:
            benches = [
                started.enter_context(running(size, *options_of(policy, given.answer), folder=folder))
                for folder, policy in measured
            ]
            found = measure_verbs(benches, count)
            if nodes == max(SIZES):
                found += measure_binds(benches, count)
            rows += found
            say("\n".join(map(str, found)))
            idle = [measure_cpu(bench, count) for bench in benches]
        say("\n".join(idle))
    say("\n".join(ratios(rows)))
    if sizes == SIZES and not measured[1:]:
        measure_restart(Size(5000 // scale, CARDS, 50_000 // scale, 0))


def measure_restart(size: Size) -> None:
    """Print how long the extender takes until it is ready, and its memory then."""
    with running(size) as bench:
        peak = rss_mib(bench.extender_pid, "VmHWM")
        say(
            f"restart with {bench.size.nodes} nodes and {bench.size.pods} pods: ready after {bench.ready_s:.2f} s, "
            f"{bench.rss_mib:.0f} MiB resident, {peak:.0f} MiB at most"
        )


if __name__ == "__main__":
    main()
