"""Measure the extender as kube-scheduler meets it: its own process, real HTTP with keep-alive, a busy cluster.

    python -m benchmarks.bench_extender            the whole table, some two minutes
    python -m benchmarks.bench_extender --quick    small clusters, to see that it works
    python -m benchmarks.bench_extender --policy expected-fill --nodes 5000    another policy, one size of cluster

Every figure of a row is from one run on this machine; the echo is a handler in the same server that only decodes the
names and sends them back. Binds go on at 100 per second during filter, echo and prioritize.
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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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

    def for_ever(self) -> None:
        """Bind at the steady rate until killed."""
        due = time.perf_counter()
        while True:
            self.once()
            due += 1 / BINDS_PER_S
            time.sleep(max(0.0, due - time.perf_counter()))


@contextmanager
def binds_going_on(bench: Bench) -> Iterator[None]:
    """Bind at the steady rate while the block runs, from a process of its own: no lock is shared with the measuring."""
    size = bench.size
    words = [bench.extender_port, size.nodes, size.cards, size.pods, size.waiting]
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
    """One line of the table; times in milliseconds."""

    what: str
    median_ms: float
    p99_ms: float
    note: str = ""

    def __str__(self) -> str:
        return f"| {self.what} | {self.median_ms:.3f} | {self.p99_ms:.3f} | {self.note} |"


def measure(what: str, count: int, once: Callable[[int], float], bench: Bench) -> Row:
    """Call ``once`` so often, after a few to warm up."""
    for number in range(WARM_UP):
        once(number)
    cpu = bench.cpu_s()
    taken = [once(number) for number in range(count)]
    cpu_ms = (bench.cpu_s() - cpu) / count * 1000
    return row(what, taken, f"CPU {cpu_ms:.2f} ms")


def measure_in_turns(calls: Sequence[dict[str, Callable[[int], float]]], count: int) -> list[Row]:
    """Call each in every turn, so that whatever else the machine does befalls all of them alike.

    Calls of one group follow each other, as they do in life; the groups come in another order each turn, for what ran
    before leaves its bytes in the processor's caches.
    """
    taken: dict[str, list[float]] = {what: [] for group in calls for what in group}
    rng = random.Random(2)
    for number in range(WARM_UP + count):
        for group in rng.sample(calls, len(calls)):
            for what, once in group.items():
                taken[what].append(once(number))
    return [row(what, times[WARM_UP:]) for what, times in taken.items()]


def row(what: str, taken: list[float], note: str = "") -> Row:
    """Median and 99th percentile of some times."""
    ordered = sorted(taken)
    return Row(what, statistics.median(ordered) * 1000, ordered[int(len(ordered) * 0.99)] * 1000, note)


def pods_of_sizes(size: Size) -> list[dict[str, object]]:
    """Waiting pods of three sizes: the last ones, which the binds that go on do not come to."""
    return [make_pod(size.pods + size.waiting - 1 - number, size, 0) for number in range(30)]


def measure_verbs(bench: Bench, count: int) -> list[Row]:
    """Filter, echo and prioritize at one size of cluster, while binds go on."""
    connection = Connection(bench.extender_port)
    names = bench.names()
    pods = pods_of_sizes(bench.size)
    whole = [filter_body(pod, names) for pod in pods]
    rng = random.Random(1)
    sampled = [filter_body(pod, rng.sample(names, max(1, len(names) // 10))) for pod in pods * 4]
    chosen = json.loads(connection.post(f"{PREFIX}/filter", whole[0])[1])["NodeNames"]
    few = [filter_body(pod, chosen) for pod in pods]
    nodes = f"{bench.size.nodes} nodes"

    def post(path: str, bodies: list[bytes]) -> Callable[[int], float]:
        return lambda number: connection.post(path, bodies[number % len(bodies)])[0]

    with binds_going_on(bench):
        rows = measure_in_turns(
            [
                {
                    f"filter, {nodes}, all names": post(f"{PREFIX}/filter", whole),
                    f"prioritize, {nodes}, the {len(chosen)} that filter named": post(f"{PREFIX}/prioritize", few),
                },
                {f"echo, {nodes}, all names": post("/echo", whole)},
                {f"prioritize, {nodes}, all names": post(f"{PREFIX}/prioritize", whole)},
                {f"filter, {nodes}, a tenth of the names, others each time": post(f"{PREFIX}/filter", sampled)},
            ],
            count,
        )
        cpu = measure(f"filter, {nodes}, all names, nothing else", count, post(f"{PREFIX}/filter", whole), bench)
    return [*rows, cpu]


def measure_binds(bench: Bench, count: int) -> list[Row]:
    """Bind beside what the API server alone takes for the same Binding over the same kind of connection."""
    api = Connection(bench.api_port)

    def post_binding(number: int) -> float:
        pod = make_pod(number, bench.size, 0)
        metadata = metadata_of(pod)
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": metadata["name"], "annotations": record_annotations(number // bench.size.nodes, 1, 1)},
            "target": {"kind": "Node", "name": node_name(number % bench.size.nodes)},
        }
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/binding"
        return api.post(path, json.dumps(binding).encode())[0]

    binds = Binds(bench.size, bench.extender_port, bench.size.pods + bench.size.waiting // 2)
    before = _bindings(bench)
    whole = measure("bind, from request to answer", count, lambda _: binds.once(), bench)
    requests = _bindings(bench) - before
    alone = measure("the API server's share of it (its Binding alone)", count, post_binding, bench)
    per_bind = requests / (count + WARM_UP)
    rest = Row("bind without the API server", whole.median_ms - alone.median_ms, whole.p99_ms - alone.p99_ms)
    return [whole, alone, rest, Row("Bindings sent per bound pod", per_bind, per_bind)]


def _bindings(bench: Bench) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{bench.api_port}/bindings") as answer:
        return int(answer.read())


def ratios(rows: list[Row]) -> list[str]:
    """Filter against echo, and what grows with the nodes."""
    medians = {row.what: row.median_ms for row in rows}
    lines = []
    for what, median in medians.items():
        if what.startswith("filter") and what.endswith(" all names"):
            echo = medians[what.replace("filter", "echo", 1)]
            lines.append(f"{what}: {median / echo:.2f} times the echo")
    alone = [median for what, median in medians.items() if what.endswith("nothing else")]
    lines.append(f"from 1,000 to 5,000 nodes filter takes {alone[2] / alone[1]:.2f} times as long")
    return lines


def say(text: str) -> None:
    """Print at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--answer", default="equal:20", help="the extender's --filter-answer")
    parser.add_argument("--policy", default="binpack", choices=sorted(POLICIES), help="the policy of nodes and cards")
    parser.add_argument("--nodes", type=int, action="append", choices=SIZES, help="repeatable; all by default")
    parser.add_argument("--count", type=int, default=1500)
    parser.add_argument("--only-bind", nargs=5, type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only_bind:
        port, *words = given.only_bind
        size = Size(*words)
        Binds(size, port, size.pods).for_ever()
    scale = 20 if given.quick else 1
    count = 100 if given.quick else given.count
    rows: list[Row] = []
    policies = [f"--{which}-policy={given.policy}" for which in ("node", "card")]
    say(f"--filter-answer {given.answer}, {given.policy}, {os.cpu_count()} CPUs, binds at {BINDS_PER_S}/s")
    say("| what | median ms | p99 ms | of the extender, binds included |\n|---|---|---|---|")
    sizes = tuple(given.nodes or SIZES)
    for nodes in sizes:
        size = Size(max(5, nodes // scale), CARDS, min(30_000, nodes * 20) // scale, 20_000)
        with running(size, f"--filter-answer={given.answer}", *policies) as bench:
            found = measure_verbs(bench, count)
            if nodes == 5000:
                found += measure_binds(bench, count)
            rows += found
            say("\n".join(map(str, found)))
    if sizes != SIZES:
        return
    say("\n".join(ratios(rows)))
    with running(Size(5000 // scale, CARDS, 50_000 // scale, 0)) as bench:
        peak = rss_mib(bench.extender_pid, "VmHWM")
        say(
            f"restart with {bench.size.nodes} nodes and {bench.size.pods} pods: ready after {bench.ready_s:.2f} s, "
            f"{bench.rss_mib:.0f} MiB resident, {peak:.0f} MiB at most"
        )


if __name__ == "__main__":
    main()
