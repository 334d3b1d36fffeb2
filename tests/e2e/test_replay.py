"""What a simulated cluster and a real control plane make of the same schedule: the same, after every action."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import msgspec
import pytest
import pytest_asyncio
from simulation.invariants import Picture
from simulation.replay import make_replay, pictures_of
from simulation.schedule import Action

from gcushare.core.cards import Health
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import NODES, PODS
from gcushare.vendors import ENFLAME
from gcushare.wire.nodes import decode_inventory, encode_inventory
from gcushare_playground.picture import node_of
from tests.e2e.assets import need_binaries
from tests.e2e.control_plane import ControlPlane
from tests.e2e.objects import JsonObject, card_of, find_overcommitted, node, pod
from tests.e2e.scheduling import Scheduling


@pytest_asyncio.fixture(loop_scope="module")
async def scheduling(control_plane: ControlPlane) -> AsyncIterator[Scheduling]:
    need_binaries("kube-scheduler")
    async with Scheduling(control_plane, ("--no-leader-elect", "--filter-answer", "best:1")) as running:
        await running.start_all()
        yield running


@pytest.mark.parametrize("seed", range(3))
async def test_a_schedule_ends_alike_in_the_simulation_and_on_a_control_plane(
    scheduling: Scheduling, seed: int
) -> None:
    schedule = make_replay(seed)
    pictures = pictures_of(schedule)
    await scheduling.create_nodes(_node(number, sizes) for number, sizes in enumerate(schedule.settings.nodes))
    before: Picture = {}
    for action, expected in zip(schedule.actions, pictures, strict=True):
        await _act(scheduling, action, before)
        await scheduling.pods.until(
            lambda expected=expected: _picture(scheduling) == expected,  # type: ignore[misc]
            f"after {action.words()} it is {expected}",
            deadline_s=180,
            shown=lambda: str(_picture(scheduling)),
        )
        assert not find_overcommitted(scheduling.pods.objects.values(), scheduling.nodes.objects.values())
        before = expected
    assert any(where for where, _ in before.values()), "nothing was bound in the end"


def _node(number: int, sizes: tuple[int, ...]) -> JsonObject:
    made = node(f"node-{number}", *sizes)
    made["metadata"]["labels"]["zone"] = "a" if number % 2 == 0 else "b"
    return made


def _picture(scheduling: Scheduling) -> Picture:
    pods = [each for each in scheduling.pods.objects.values() if each["metadata"]["namespace"] == "default"]
    return {each["metadata"]["name"]: (node_of(each), card_of(each) or ()) for each in pods}


async def _act(scheduling: Scheduling, action: Action, before: Picture) -> None:
    args, client = action.args, scheduling.client
    name = f"node-{args.get('node')}"
    match action.kind:
        case "create":
            selector = {"zone": args["zone"]} if args["zone"] else {}
            await scheduling.create_pods([pod(args["name"], args["units"][0], nodeSelector=selector)])
        case "delete":
            if before:
                victim = sorted(before)[int(args["which"] * len(before))]
                await client.delete(PODS, victim, namespace="default", grace_s=0)
        case "relabel":
            await client.patch(NODES, name, Patch(PatchKind.MERGE, {"metadata": {"labels": {"zone": args["zone"]}}}))
        case "cordon node" | "uncordon node":
            is_closed = True if action.kind == "cordon node" else None
            await client.patch(NODES, name, Patch(PatchKind.MERGE, {"spec": {"unschedulable": is_closed}}))
        case "sick card" | "heal card":
            await _set_health(scheduling, name, args["card"], is_sick=action.kind == "sick card")
        case other:
            raise ValueError(f"a control plane knows no {other!r}")


async def _set_health(scheduling: Scheduling, name: str, card: int, *, is_sick: bool) -> None:
    """Publish what the node's plugin would."""
    found = await scheduling.client.get(NODES, name)
    inventory = decode_inventory(found.metadata.annotations[ENFLAME.inventory_annotation])
    health = Health.UNHEALTHY if is_sick else Health.HEALTHY
    cards = tuple(
        msgspec.structs.replace(each, health=health, reason="XID 79" if is_sick else "") if each.index == card else each
        for each in inventory.cards
    )
    text = encode_inventory(replace(inventory, cards=cards))
    await scheduling.client.patch_node_annotations(name, {ENFLAME.inventory_annotation: text})
