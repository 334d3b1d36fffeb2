"""bind and the watches against an API server that misbehaves: the ledger ends as the cluster is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from gcushare.vendors import ENFLAME
from gcushare_playground.apiserver import DropAfter, FailBefore, Fault
from tests.extender_objects import Document, node_document, pod_document
from tests.protocol.extender_rig import ExtenderRig, until

CARD = ENFLAME.record.card_index
BINDING = r"/binding(\?|$)"


@pytest.fixture
async def rig() -> AsyncIterator[ExtenderRig]:
    async with ExtenderRig() as running:
        yield running


def in_annotations(rig: ExtenderRig) -> dict[tuple[str, int], int]:
    """Units per (node, card), counted from the pods' annotations alone."""
    used: dict[tuple[str, int], int] = {}
    for pod in rig.api.store.list("pods"):
        annotations, node = pod["metadata"].get("annotations", {}), pod["spec"].get("nodeName")
        if node and CARD in annotations and pod["status"].get("phase") not in ("Succeeded", "Failed"):
            place = node, int(annotations[CARD])
            used[place] = used.get(place, 0) + int(annotations[ENFLAME.record.pod_units])
    return used


def in_ledger(rig: ExtenderRig) -> dict[tuple[str, int], int]:
    used: dict[tuple[str, int], int] = {}
    for held in rig.replica.held().values():
        for grant in held.grants:
            used[held.node, grant.index] = used.get((held.node, grant.index), 0) + grant.units
    return used


async def until_true(rig: ExtenderRig) -> None:
    """Wait until the ledger is what the annotations say, with no reservation left."""
    ledger = rig.replica.extender.states[0].ledger
    await until(lambda: not ledger.reserved and in_ledger(rig) == in_annotations(rig))


# 120 pods over real HTTP; tests/simulation plays more of them.
@pytest.mark.slow
async def test_120_pods_at_once_end_within_every_card_with_the_ledger_true(rig: ExtenderRig) -> None:
    names = [f"node-{number}" for number in range(5)]
    await rig.add_nodes(*(node_document(name, *[16] * 4) for name in names))
    pods = await rig.add_pods(*(pod_document(f"p{number}", 1 + number % 7) for number in range(120)))
    rig.api.faults.on(Fault(DropAfter(), BINDING, "POST", count=10))
    rig.api.faults.on(Fault(FailBefore(409, "Conflict"), BINDING, "POST", count=10))
    for _ in range(2):
        # The second time for those that were refused room which bindings in doubt held for a while.
        waiting = [pod for pod in pods if not is_bound(rig, pod)]
        await asyncio.gather(*(take_through(rig, pod, names) for pod in waiting))
        await until_true(rig)

    used = in_annotations(rig)
    assert all(units <= 16 for units in used.values())
    largest_gap = max(16 - used.get((name, index), 0) for name in names for index in range(4))
    waiting_units = [1 + number % 7 for number, pod in enumerate(pods) if not is_bound(rig, pod)]
    assert waiting_units, "they ask for 477 of 320 units"
    assert all(units > largest_gap for units in waiting_units)

    await asyncio.gather(*(delete(rig, f"p{number}") for number in range(120)))
    await until(lambda: rig.replica.held() == {})


def is_bound(rig: ExtenderRig, pod: Document) -> bool:
    return bool(rig.pod(pod["metadata"]["name"])["spec"].get("nodeName"))


async def take_through(rig: ExtenderRig, pod: Document, names: list[str]) -> bool:
    """Filter and bind until bound or refused everywhere, as a scheduler that tries again."""
    answer: Document = {}
    for _ in range(50):
        fitting = await filter_in_the_end(rig, pod, names)
        if not fitting:
            return False
        _, answer = await rig.bind(pod, fitting[0])
        if not answer.get("Error", "not answered"):
            return True
    raise AssertionError(f"pod {pod['metadata']['name']} was bound nowhere after 50 attempts: {answer}")


async def filter_in_the_end(rig: ExtenderRig, pod: Document, names: list[str]) -> list[str]:
    """The nodes that fit; on a busy machine the extender turns calls away for a while."""
    async with asyncio.timeout(60):
        while True:
            answer = await rig.filter(pod, names)
            if "NodeNames" in answer:
                nodes: list[str] = answer["NodeNames"]
                return nodes
            await asyncio.sleep(0.1)


async def delete(rig: ExtenderRig, name: str) -> None:
    async with rig.http.delete(f"{rig.api.url}/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=0") as answer:
        assert answer.status == 200
