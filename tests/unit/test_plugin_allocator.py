"""The kubelet's two calls: which card they are answered with, for which pod, why they fail, and what the log says."""

from __future__ import annotations

import asyncio
import json
import logging
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gcushare.core.errors import Refused, RemoteContractError
from gcushare.device_plugin.allocation.allocator import CardAllocator
from gcushare.device_plugin.plugin_settings import GrantMode
from gcushare.node.container_environment import CONTAINER_BYTES
from gcushare.node.mps.limits import MpsLimiter
from gcushare.node.mps.state import MpsFolders
from gcushare.node.node_settings import Fallback
from gcushare.wire.annotations import COMPUTE_SHARE, MEMORY_LIMIT
from gcushare.wire.kubelet.device_ids import device_ids_of_card, encode_whole_card_id
from gcushare.wire.kubelet.plugin_messages import DeviceIds, PreferredRequest, device_ids
from gcushare.wire.objects import Pod
from gcushare.wire.protos import deviceplugin_pb2 as pb
from tests.builders import card, inventory
from tests.unit.node_agent_rig import Rig, make_rig
from tests.unit.plugin_pods import pod, whole_pod, with_annotations, with_more


def units(index: int, count: int, *, start: int = 0) -> list[str]:
    return device_ids_of_card(index, 16)[start : start + count]


def ask(size: int, *ids: Sequence[str], must: Sequence[str] = ()) -> PreferredRequest:
    """GetPreferredAllocation for ``size`` units of these free ones."""
    return PreferredRequest(device_ids([each for some in ids for each in some]), device_ids(must), size)


def ask_whole(size: int, *cards: int) -> PreferredRequest:
    return PreferredRequest(device_ids([encode_whole_card_id(card) for card in cards]), device_ids([]), size)


def chosen(entries: Sequence[bytes]) -> dict[int, int]:
    return DeviceIds(b"".join(entries)).count_by_card()


def chosen_whole(entries: Sequence[bytes]) -> list[str]:
    return list(pb.ContainerPreferredAllocationResponse.FromString(b"".join(entries)).deviceIDs)


def rig_of(*pods: Pod, **options: Any) -> Rig:
    """Three cards of 16 units, given by units and whole, and these pods."""
    made = make_rig(mode=GrantMode.BOTH, **options)
    made.see(16, 16, 16)
    for each in pods:
        made.agent.pod_applied(each)
    return made


@pytest.fixture
def rig() -> Rig:
    return rig_of()


def taken(rig: Rig) -> dict[str, Sequence[int]]:
    """The cards that each pod was given."""
    return {entry.ref.name: entry.taken_cards for entry in rig.parts.store.entries.values()}


async def test_without_cards_both_calls_say_that_the_pod_can_be_created_again() -> None:
    allocator = make_rig().parts.allocator
    text = r"^the plugin has not found this node's cards yet; the pod can be created again in a moment$"
    with pytest.raises(Refused, match=text):
        await allocator.prefer(ask(4, units(0, 16)))
    with pytest.raises(Refused, match=text):
        await allocator.allocate(device_ids(units(0, 4)))


async def test_the_pods_recorded_card_is_preferred_to_a_fuller_one_and_left_for_another_if_it_is_full(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "gcushare")
    rig.agent.pod_applied(pod("a", 4, card=2))
    assert chosen(await rig.parts.allocator.prefer(ask(4, units(0, 5), units(2, 16)))) == {2: 4}
    assert caplog.messages == []
    assert chosen(await rig.parts.allocator.prefer(ask(4, units(0, 5), units(2, 3)))) == {0: 4}
    line = "the recorded card has no room, another is used pod=d/a size=4 recorded=(2,) card=(0,)"
    assert caplog.messages == [line]


async def test_a_pod_without_a_record_takes_no_room_that_is_kept_for_others() -> None:
    rig = rig_of(pod("memory", 12, card=0), whole_pod("whole", 1, "1"))
    # Card 0 keeps 12 of its 16 units and card 1 all of them, so the emptiest card is the only one left.
    entries = await rig.parts.allocator.prefer(ask(5, units(0, 15), units(1, 14), units(2, 16)))
    assert chosen(entries) == {2: 5}


async def test_no_further_container_runs_on_a_card_that_its_pod_excludes(rig: Rig) -> None:
    """The first one got its card in a call that was taken for another pod's."""
    rig.agent.pod_applied(with_annotations(pod("a", 2, 4, card=None), {"gcushare.io/avoid-cards": "0"}))
    rig.parts.store.on_allocate("uid-a", "c0", {0: 2}, 0.0, ids=device_ids(units(0, 2)))
    with pytest.raises(Refused, match=r"^card 0 was taken, which the annotations of pod d/a exclude: "):
        await rig.parts.allocator.allocate(device_ids(units(0, 4, start=2)))


async def test_a_pod_that_appears_between_the_two_calls_is_not_the_one_that_was_preferred(rig: Rig) -> None:
    rig.agent.pod_applied(pod("b", 4, card=0))
    entries = await rig.parts.allocator.prefer(ask(4, units(0, 16)))
    rig.agent.pod_applied(pod("a", 4, card=0))
    await rig.parts.allocator.allocate(DeviceIds(b"".join(entries)))
    assert taken(rig) == {"a": (), "b": (0,)}
    rig.agent.pod_applied(pod("c", 3, card=0))
    await rig.parts.allocator.prefer(ask(3, units(0, 16)))
    rig.parts.store.pod_deleted("uid-c")
    await rig.parts.allocator.allocate(device_ids(units(0, 3)))
    assert rig.parts.store.pending_allocations == 2, "the pod is gone, and the units are given out all the same"


async def test_what_was_given_out_is_in_use_before_the_kubelet_shows_it(rig: Rig) -> None:
    rig.agent.pod_applied(pod("a", 4, card=0))
    await rig.parts.allocator.allocate(device_ids(units(0, 4)))
    await rig.parts.whole_allocator.allocate(device_ids([encode_whole_card_id(1)]))
    (given,) = rig.parts.store.fresh_ids()
    assert given.text() == units(0, 4), "whole cards have no units of memory"


async def test_a_preference_that_the_kubelet_did_not_follow_says_nothing_of_the_next_call() -> None:
    rig = rig_of(pod("a", 4, card=0), pod("b", 4, card=1))
    await rig.parts.allocator.prefer(ask(4, units(1, 16)))
    await rig.parts.allocator.allocate(device_ids(units(0, 4)))
    await rig.parts.allocator.allocate(device_ids(units(1, 4)))
    assert taken(rig) == {"a": (0,), "b": (1,)}


async def test_a_pod_of_two_cards_gets_units_of_two_and_not_of_three(rig: Rig) -> None:
    over_two = with_annotations(
        pod("a", 8, card=None),
        {"gcushare.io/cards": "2", "enflame.com/gcu-device-id": "0,1", "enflame.com/gcu-device-assigned": "false"},
    )
    rig.agent.pod_applied(over_two)
    assert chosen(await rig.parts.allocator.prefer(ask(8, units(0, 16), units(1, 16), units(2, 16)))) == {0: 4, 1: 4}
    with pytest.raises(Refused, match=r"8 units were taken from 3 cards .*, and d/a gets 2: "):
        await rig.parts.allocator.allocate(device_ids([*units(0, 4), *units(1, 2), *units(2, 2)]))
    answer = await rig.parts.allocator.allocate(device_ids([*units(0, 4), *units(1, 4)]))
    assert answer.envs["ENFLAME_VISIBLE_DEVICES"] == "0,1"


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        pytest.param([], "^the kubelet asked to allocate no device ids; nothing was granted$", id="none"),
        pytest.param(units(5, 2), r"^card 5 is not on this node any more; its cards are \[0, 1, 2\]$", id="gone"),
        pytest.param(["GPU-1-_-0"], "Aliyun's gpushare", id="of another layout"),
    ],
)
async def test_ids_that_name_no_card_are_refused(rig: Rig, ids: list[str], text: str) -> None:
    with pytest.raises((Refused, RemoteContractError), match=text):
        await rig.parts.allocator.allocate(device_ids(ids))


async def test_a_card_that_was_lost_since_the_kubelet_chose_it_is_refused(rig: Rig) -> None:
    await rig.parts.allocator.prefer(ask(4, units(1, 16)))
    rig.see(16, 16, 16, sick={1: "it fell off the bus"})
    text = r"^card 1 is not healthy any more: it fell off the bus; the pod must be scheduled again$"
    with pytest.raises(Refused, match=text):
        await rig.parts.allocator.allocate(device_ids(units(1, 4)))
    with pytest.raises(Refused, match=text):
        await rig.parts.whole_allocator.allocate(device_ids([encode_whole_card_id(1)]))


async def test_a_card_in_the_other_use_is_refused_with_its_pods(rig: Rig) -> None:
    rig.agent.pod_applied(whole_pod("whole", 1, "1"))
    await rig.parts.whole_allocator.allocate(device_ids([encode_whole_card_id(1)]))
    text = r"^card 1 is in use as a whole by d/whole, so no memory of it can be given; the pod must be scheduled again$"
    with pytest.raises(Refused, match=text):
        await rig.parts.allocator.allocate(device_ids(units(1, 2)))
    await rig.parts.allocator.allocate(device_ids(units(0, 2)))
    text = r"^card 0 is shared: a pod of this node uses memory of it, so it cannot be given whole; the pod must be "
    with pytest.raises(Refused, match=text):
        await rig.parts.whole_allocator.allocate(device_ids([encode_whole_card_id(0)]))


async def test_the_pods_sum_is_said_only_if_every_pod_that_it_can_be_for_has_the_same(rig: Rig) -> None:
    rig.agent.pod_applied(pod("a", 4, 2, card=0))
    answer = await rig.parts.allocator.allocate(device_ids(units(0, 4)))
    assert (answer.envs["ENFLAME_COM_GCU_MEM_POD"], answer.envs["ENFLAME_COM_GCU_MEM_CONTAINER"]) == ("6", "4")
    rig.agent.pod_applied(pod("b", 5, 2, card=1))
    rig.agent.pod_applied(pod("c", 5, 3, card=1))
    answer = await rig.parts.allocator.allocate(device_ids(units(1, 5)))
    assert answer.envs["ENFLAME_COM_GCU_MEM_POD"] == "5", "b and c are equal candidates with other sums"


async def begin(allocator: CardAllocator, request: PreferredRequest) -> asyncio.Task[Sequence[bytes]]:
    """A call that waits for its pod."""
    asking = asyncio.create_task(allocator.prefer(request), name="prefer")
    await asyncio.sleep(0)
    assert not asking.done()
    return asking


async def test_a_call_waits_for_a_pod_that_the_watch_shows_later(caplog: pytest.LogCaptureFixture) -> None:
    rig = rig_of(wait_s=60.0)
    asking = await begin(rig.parts.allocator, ask(4, units(0, 5), units(1, 16)))
    rig.agent.pod_applied(pod("another-size", 3, card=0))
    await asyncio.sleep(0)
    assert not asking.done()
    rig.agent.pod_applied(pod("a", 4, card=1))
    assert chosen(await asking) == {1: 4}
    assert caplog.messages == [], "the pod was found in time"


async def test_a_call_for_whole_cards_waits_for_a_pod_whose_cards_are_free() -> None:
    rig = rig_of(pod("memory", 1, card=0), wait_s=60.0)
    asking = await begin(rig.parts.whole_allocator, ask_whole(1, 0, 1))
    rig.agent.pod_applied(whole_pod("a", 1, "1"))
    assert chosen_whole(await asking) == [encode_whole_card_id(1)]


async def test_a_pod_whose_card_is_taken_does_not_end_the_wait() -> None:
    rig = rig_of(pod("a", 4, card=0), wait_s=60.0)
    asking = await begin(rig.parts.allocator, ask(4, units(0, 3), units(1, 16)))
    rig.agent.pod_applied(pod("b", 4, card=1))
    assert chosen(await asking) == {1: 4}


async def test_a_call_that_may_continue_another_pod_waits_until_the_kubelet_shows_which() -> None:
    rig = rig_of(pod("a", 4, 4, card=0), pod("b", 4, 4, card=1), wait_s=60.0)
    await rig.parts.allocator.allocate(device_ids(units(1, 4)))
    # It may be the second container of either pod.
    asking = await begin(rig.parts.allocator, ask(4, units(0, 16), units(1, 12, start=4)))
    rig.hold(b=units(1, 4))
    assert chosen(await asking) == {1: 4}


async def test_a_wait_is_bounded_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "gcushare")
    assert chosen(await rig_of(wait_s=0.01).parts.allocator.prefer(ask(4, units(0, 5), units(1, 16)))) == {1: 4}
    assert "no bound pod with room on its card asks for this size size=4 whole=False waited_s=0.01" in caplog.text


async def test_a_container_may_use_its_request_and_what_its_pods_limit_adds() -> None:
    async def usable(*pods: Pod) -> str:
        return (await rig_of(*pods).parts.allocator.allocate(device_ids(units(0, 4)))).envs[CONTAINER_BYTES]

    def limit(name: str, units: str) -> Pod:
        return with_more(pod(name, 4, card=0), {MEMORY_LIMIT: units})

    assert await usable(limit("burst", "12")) == str(12 << 30)
    assert await usable(limit("burst", "12"), limit("same", "12")) == str(12 << 30)
    assert await usable(limit("burst", "12"), pod("plain", 4, card=0)) == str(4 << 30), "the call may be for either"
    with pytest.raises(Refused, match="annotations of pod d/large exclude"):
        await usable(limit("large", "99"))


def limited(*pods: Pod, problem: str = "", fallback: Fallback = Fallback.REFUSE) -> CardAllocator:
    """An allocator of two cards whose memory MPS limits."""
    limiter = MpsLimiter(MpsFolders(Path("/run/mps")), fallback)
    limiter.daemon_problem, limiter.is_awaited = problem, False
    return rig_of(*pods, limiter=limiter).parts.allocator


def proportional(name: str, size: int) -> Pod:
    return with_more(pod(name, size, card=0), {COMPUTE_SHARE: "proportional"})


async def test_threads_are_unlimited_if_any_pod_that_the_call_can_be_for_did_not_ask() -> None:
    assert "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" not in (await limited().allocate(device_ids(units(1, 4)))).envs
    allocator = limited(proportional("a", 4), pod("b", 4, card=0))
    assert "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" not in (await allocator.allocate(device_ids(units(0, 4)))).envs


async def test_a_tiny_share_still_gets_one_percent_of_the_threads() -> None:
    allocator = limited(proportional("a", 4))
    allocator.set_inventory(inventory(card(0, 1000, memory_bytes=1000 << 20), unit="MiB"))
    answer = await allocator.allocate(device_ids(device_ids_of_card(0, 1000)[:4]))
    assert answer.envs["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "1"
    assert answer.envs["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "uuid-0=4M"


async def test_memory_that_cannot_be_limited_is_refused_or_given_without_a_limit() -> None:
    allocator = limited(problem="the daemon is gone")
    text = r"^memory cannot be limited \(card 0: the daemon is gone\); --limit-fallback unlimited lets pods start"
    with pytest.raises(Refused, match=text):
        await allocator.allocate(device_ids(units(0, 4)))
    allocator = limited(problem="the daemon is gone", fallback=Fallback.UNLIMITED)
    answer = await allocator.allocate(device_ids(units(0, 4)))
    assert (answer.envs["ENFLAME_COM_GCU_MEM_CONTAINER"], list(answer.mounts)) == ("4", [])
    assert "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT" not in answer.envs


async def test_the_line_of_a_grant_explains_its_pod(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "gcushare")
    rig = rig_of(pod("a", 4, card=0))
    rig.hold(a=units(0, 4))
    rig.agent.pod_applied(with_more(pod("b", 8, card=0), {"example.com/password": "hunter2"}))
    await rig.parts.allocator.allocate(device_ids(units(0, 8, start=4)))
    assert "allocating count=8 ids=004,005," in caplog.text
    *_, line = (found.getMessage() for found in caplog.records if found.getMessage().startswith("allocated "))
    facts = dict(word.split("=", 1) for word in shlex.split(line.removeprefix("allocated ")))
    old, new = json.loads(facts["old_annotations"]), json.loads(facts["new_annotations"])
    assert line.startswith(
        "allocated pod=d/b uid=uid-b container=c0 card=0 card_uuid=u0 units=8 whole=False card_pods=d/a:4 old_ann"
    )
    assert (old["enflame.com/gcu-device-assigned"], new["enflame.com/gcu-device-assigned"]) == ("false", "true")
    assert "hunter2" not in caplog.text
    rig.hold(a=units(0, 4), b=units(0, 8, start=4))
    (write,) = [each for each in rig.parts.store.writes({0: "u0"}, {0: 16}, 7) if each.pod.name == "b"]
    assert old | dict(write.annotations) == new, "the line says what is written once the kubelet shows the grant"
