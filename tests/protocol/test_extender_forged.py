"""Calls that kube-scheduler never made: nothing is written for them, and no one waits for them."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Coroutine
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from gcushare.vendors import ENFLAME
from gcushare.wire.extender_api import MAX_POD_BYTES
from gcushare.wire.objects import Pod
from gcushare_playground.apiserver import ADMIN
from tests.extender_objects import Document, filter_body, pod_document
from tests.protocol.extender_rig import ExtenderRig, eight_cards, extender_settings, quick_election, until

CONTAINERS = 90_000


@pytest.fixture
async def rig() -> AsyncIterator[ExtenderRig]:
    # Longer than a busy machine leaves a process without a turn.
    election = replace(quick_election(), lease_renew_deadline=40.0)
    async with ExtenderRig(extender_settings(election=election)) as running:
        await running.add_nodes(eight_cards())
        yield running


def writes(rig: ExtenderRig) -> list[tuple[str, str]]:
    """What was written, but for the Lease."""
    asked = [each.attributes for each in rig.api.requests.of(ADMIN.name)]
    return [(a.verb, a.resource) for a in asked if a.verb not in ("get", "list", "watch") and a.resource != "leases"]


def in_many_containers(pod: Document) -> bytes:
    """A filter of the pod as if it had very many containers: 6.3 MB."""
    container = {"name": "main", "resources": {"limits": {ENFLAME.memory_resource: "1"}}}
    return filter_body({**pod, "spec": {"containers": [container] * CONTAINERS}}, ["node-1"])


async def test_pods_that_do_not_exist_get_no_event_and_no_node(rig: ExtenderRig) -> None:
    rig.api.requests.clear()
    for number in range(40):
        ghost = pod_document(f"ghost-{number}", 1_000)
        assert "does not exist" in (await rig.filter(ghost, ["node-1"]))["Error"]
        assert "has not passed filter here lately" in (await rig.bind(ghost, "node-1", is_filtered=True))[1]["Error"]
    (real,) = await rig.add_pods(pod_document("real", 1_000))
    await rig.filter(real, ["node-1"])
    await until(lambda: bool(rig.events()))

    assert [event["involvedObject"]["name"] for event in rig.events()] == ["real"]
    assert set(writes(rig)) == {("create", "events")}


async def longest_turn(doing: Coroutine[Any, Any, tuple[int, Any]]) -> tuple[tuple[int, Any], float]:
    """What comes of it, and what the costliest turn of the loop takes of the CPU meanwhile (not of the machine)."""
    task = asyncio.create_task(doing, name="is measured")
    longest_s, last = 0.0, time.thread_time()
    while not task.done():
        await asyncio.sleep(0)
        now = time.thread_time()
        longest_s, last = max(longest_s, now - last), now
    return task.result(), longest_s


def cost_of_reading(text: bytes) -> float:
    started = time.thread_time()
    msgspec.json.decode(text, type=Pod)
    return time.thread_time() - started


@pytest.mark.slow
async def test_no_turn_of_the_loop_costs_more_for_a_body_as_large_as_may_be(rig: ExtenderRig) -> None:
    """Made of whatever takes longest to read: it is skipped, and never becomes containers."""
    (pod,) = await rig.add_pods(pod_document("a", 4))
    empty = filter_body({**pod, "spec": {"containers": []}}, ["node-1"])
    room = (MAX_POD_BYTES - len(empty)) // 3
    spec: Document = {"containers": [{}] * room}
    reading_s = cost_of_reading(msgspec.json.encode({"spec": spec}))
    (_, answer), longest_s = await longest_turn(rig.post("filter", filter_body({**pod, "spec": spec}, ["node-1"])))
    assert answer["NodeNames"] == ["node-1"]
    assert longest_s < reading_s


SENDER = """
import socket, sys, threading
port, path, length = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
body = sys.stdin.buffer.read(length)
head = f"POST {path} HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: {length}\\r\\n\\r\\n".encode()
codes = []
def send():
    for _ in range(2):
        with socket.create_connection(("127.0.0.1", port)) as connection:
            try:
                connection.sendall(head + body)
            except ConnectionError:
                pass  # Answered, and closed, before it was all sent.
            codes.append(connection.recv(100).split()[1].decode())
threads = [threading.Thread(target=send) for _ in range(16)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(*sorted(set(codes)))
"""


@pytest.mark.slow
async def test_the_lease_is_kept_and_pods_are_served_under_sixteen_large_senders(rig: ExtenderRig) -> None:
    (pod,) = await rig.add_pods(pod_document("a", 4))
    body, server = in_many_containers(pod), rig.replica.extender.server
    holder = rig.replica.extender.leadership.holder
    assert server is not None
    arguments = ["-c", SENDER, str(server.port), f"{rig.prefix}/filter", str(len(body))]
    pipe = asyncio.subprocess.PIPE
    # A process of its own: what sending costs is not the extender's.
    sender = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdin=pipe, stdout=pipe)
    sending = asyncio.create_task(sender.communicate(body), name="send")
    answered = []
    while not sending.done():
        status, answer = await rig.post("filter", filter_body(pod, ["node-1"]))
        answered.append((status, answer.get("NodeNames") or answer))
    codes, _ = sending.result()

    assert codes.split() == [b"413"]
    assert [each for each in answered if each != (200, ["node-1"])] == []
    assert rig.replica.extender.leadership.holder == holder
