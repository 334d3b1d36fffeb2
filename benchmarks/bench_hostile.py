"""Measure how requests with expensive bodies affect other clients: filter at the same time, and the leadership.

    python -m benchmarks.bench_hostile             sixteen connections of each kind, some two minutes
    python -m benchmarks.bench_hostile --quick     a few seconds each, to see that it works
    python -m benchmarks.bench_hostile --minutes 20     whether memory and times stay flat

With ``--minutes`` each kind is sent for a quarter of every minute. Meanwhile waiting pods are created, filtered and
deleted, a hundred at a time, each with a name, a label and a shape of its own. A row is a minute; its last columns are
the resident memory, what C code holds of it, what glibc keeps of freed memory, and the objects of Python's allocator.

Each kind is sent without a pause over several connections by a process of its own, while filters of an ordinary pod go
on; the first row is without them. All of it shares the cores of this machine with the extender.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from benchmarks.bench_extender import PREFIX, metadata_of, row, say
from benchmarks.echoing_extender import Memory
from benchmarks.measured_extender import Bench, Connection, filter_body, rss_mib, running
from benchmarks.streaming_api import Size, churned_pod, make_pod, node_name

CONNECTIONS = 16
LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/gcushare-scheduler-extender"
SIZE = Size(1000, 8, 10_000, 2_000)
POD = SIZE.pods
CHURNED_AT_ONCE = 100


def many_containers(size: Size) -> bytes:
    """A waiting pod with 90,000 containers: 6.7 MB."""
    container = {"name": "main", "resources": {"limits": {"enflame.com/gcu-memory": "1"}}}
    return _filter(size, [container] * 90_000)


def dense(size: Size) -> bytes:
    """A waiting pod of 1.5 MB, all of it empty lists: the most that is read."""
    return _filter(size, [[]] * 520_000)


def made_up(size: Size) -> bytes:
    """A pod that the API server does not have."""
    pod = make_pod(POD, size, 0)
    metadata_of(pod)["uid"] = "made-up"
    return filter_body(pod, [node_name(0)])


def unknown_nodes(size: Size) -> bytes:
    """A waiting pod, and the largest accepted number of node names; no such node exists."""
    return filter_body(make_pod(POD, size, 0), [f"{'n' * 200}-{number}" for number in range(2 * size.nodes + 1000)])


def _filter(size: Size, containers: list[object]) -> bytes:
    pod = make_pod(POD, size, 0)
    pod["spec"] = {"containers": containers}
    return filter_body(pod, [node_name(0)])


KINDS: dict[str, Callable[[Size], bytes]] = {
    "a pod of 90,000 containers": many_containers,
    "a pod of 1.5 MB, dense": dense,
    "a pod that does not exist": made_up,
    "nodes that do not exist": unknown_nodes,
}


def send_for_ever(port: int, kind: str) -> None:
    """Send one kind over and over, on every connection, until killed."""
    body = KINDS[kind](SIZE)
    head = f"POST {PREFIX}/filter HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    request = head.encode() + body

    def send() -> None:
        while True:
            try:
                with socket.create_connection(("127.0.0.1", port)) as connection:
                    while True:
                        connection.sendall(request)
                        if not connection.recv(1 << 16):
                            break
            except OSError:
                continue  # The extender may cut the connection: open the next one.

    threads = [threading.Thread(target=send, daemon=True) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    say("sending")
    for thread in threads:
        thread.join()


@contextmanager
def sending(bench: Bench, kind: str) -> Iterator[None]:
    """Send one kind while the block runs."""
    command = [sys.executable, "-m", "benchmarks.bench_hostile", "--only-send", str(bench.extender_port), kind]
    process = subprocess.Popen(command, cwd=Path(__file__).parent.parent, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield
    finally:
        process.kill()
        process.wait()


class LeaseWatcher(threading.Thread):
    """Looks at the Lease on the API server: how long it was not renewed at most, and how often its holder changed."""

    def __init__(self, api_port: int) -> None:
        super().__init__(daemon=True)
        self._url = f"http://127.0.0.1:{api_port}{LEASE}"
        self._ends = threading.Event()
        self.longest_s = 0.0
        self.transitions: set[int] = set()

    def run(self) -> None:
        """Look until stopped."""
        renewed, since = "", time.monotonic()
        while not self._ends.wait(0.02):
            with urllib.request.urlopen(self._url) as answer:
                spec = json.load(answer)["spec"]
            self.transitions.add(spec.get("leaseTransitions", 0))
            if spec["renewTime"] != renewed:
                renewed, since = spec["renewTime"], time.monotonic()
            self.longest_s = max(self.longest_s, time.monotonic() - since)

    def stop(self) -> None:
        """Return when it has stopped."""
        self._ends.set()
        self.join()


class Churn(threading.Thread):
    """Creates, filters and deletes waiting pods that are never alike."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(daemon=True)
        self._bench = bench
        self._ends = threading.Event()
        self.pods = 0
        self.answered = 0

    def run(self) -> None:
        """Replace the pods once a second at most, until stopped."""
        names = [node_name(number) for number in range(self._bench.size.nodes)]
        request = urllib.request.Request(f"http://127.0.0.1:{self._bench.api_port}/churn?pods={CHURNED_AT_ONCE}", b"")
        while not self._ends.wait(1.0):
            with urllib.request.urlopen(request) as answer:
                first = int(answer.read())
            self.pods += CHURNED_AT_ONCE
            connection = Connection(self._bench.extender_port)
            for number in range(first, first + CHURNED_AT_ONCE):
                try:
                    connection.post(f"{PREFIX}/filter", filter_body(churned_pod(number, 1), names))
                    self.answered += 1
                except RuntimeError:
                    connection = Connection(self._bench.extender_port)

    def stop(self) -> None:
        """Return when it has stopped."""
        self._ends.set()
        self.join()


@dataclass(slots=True)
class FilterProbe:
    """What an ordinary pod's filter met: times in seconds, calls without an answer, and the Lease."""

    taken: list[float] = field(default_factory=list)
    refused: int = 0
    longest_lease_s: float = 0.0
    lost: int = 0

    def measure(self, bench: Bench, seconds: float) -> None:
        """Ask for an ordinary pod every few milliseconds."""
        connection = Connection(bench.extender_port)
        names = [node_name(number) for number in range(bench.size.nodes)]
        body = filter_body(make_pod(POD + 1, bench.size, 0), names)
        watcher = LeaseWatcher(bench.api_port)
        watcher.start()
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            try:
                self.taken.append(connection.post(f"{PREFIX}/filter", body)[0])
            except RuntimeError:
                self.refused += 1
                connection = Connection(bench.extender_port)
            time.sleep(0.002)
        watcher.stop()
        self.longest_lease_s = max(self.longest_lease_s, watcher.longest_s)
        self.lost += max(watcher.transitions) - min(watcher.transitions)

    def line(self, what: str) -> str:
        """A line of the table."""
        found = row(what, self.taken)
        return (
            f"| {what} | {found.median_ms:.2f} | {found.p99_ms:.2f} | {max(self.taken) * 1000:.1f} | {self.refused} | "
            f"{self.longest_lease_s:.2f} | {self.lost} |"
        )


def measure(bench: Bench, what: str, seconds: float) -> str:
    """Measure for ``seconds``; returns a line of the table."""
    probe = FilterProbe()
    probe.measure(bench, seconds)
    return probe.line(what)


def measure_minutes(bench: Bench, minutes: int) -> None:
    """Print a row for every minute of churn, with each kind of load in turn."""
    say(
        "| minute | median ms | p99 ms | longest ms | not answered | Lease not renewed for s | holders changed | MiB "
        "| C, used MiB | C, free MiB | Python objects |"
    )
    say("|---|---|---|---|---|---|---|---|---|---|---|")
    churn = Churn(bench)
    churn.start()
    for minute in range(1, minutes + 1):
        probe = FilterProbe()
        for kind in KINDS:
            with sending(bench, kind):
                probe.measure(bench, 60 / len(KINDS))
        _, answer = Connection(bench.extender_port).post("/memory", b"")
        memory = msgspec.json.decode(answer, type=Memory)
        say(
            f"{probe.line(str(minute))} {rss_mib(bench.extender_pid):.1f} | {memory.c_used / 2**20:.1f} | "
            f"{memory.c_free / 2**20:.1f} | {memory.python_blocks} |"
        )
    churn.stop()
    say(f"{churn.pods} pods created and deleted, {churn.answered} of them filtered")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--minutes", type=int, default=0, help="minutes of churn, with a row for each minute")
    parser.add_argument("--only-send", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only_send:
        send_for_ever(int(given.only_send[0]), given.only_send[1])
    seconds = 2.0 if given.quick else 20.0
    say(f"{CONNECTIONS} connections, {SIZE.nodes} nodes")
    if given.minutes:
        with running(SIZE) as bench:
            measure_minutes(bench, given.minutes)
        return
    say("| other load | median ms | p99 ms | longest ms | not answered | Lease not renewed for s | holders changed |")
    say("|---|---|---|---|---|---|---|")
    with running(SIZE) as bench:
        say(measure(bench, "nothing", seconds))
        for kind in KINDS:
            with sending(bench, kind):
                say(measure(bench, kind, seconds))


if __name__ == "__main__":
    main()
