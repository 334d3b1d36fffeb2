"""What each pod uses of each card, from the cards' processes and whose they are."""

from __future__ import annotations

import pytest

from gcushare.core.units import GIB
from gcushare.device_plugin.pods.store import PodStore
from gcushare.node.pod_use import divide_use, granted_bytes
from gcushare.wire.objects import Pod
from gcushare.wire.pods import MACHINE_UID, MIRROR
from tests.builders import card, inventory
from tests.unit.plugin_pods import being_deleted, pod, reconcile, store_of, whole_pod, with_more


@pytest.fixture
def store() -> PodStore:
    """Pod a has 4 units of card 0, w has two whole cards; b waits."""
    made = store_of(pod("a", 4), whole_pod("w", 2, "1,2"), pod("b", 4))
    reconcile(made, {"d/a": {"c0": {0: 4}}}, {"d/w": {"c0": {1: 1, 2: 1}}})
    return made


def test_a_pod_with_cards_is_reported_for_each_and_one_that_waits_is_not(store: PodStore) -> None:
    found = divide_use({0: {}, 1: {7: 3}, 2: {}}, {7: "uid-w"}, store.entries.values(), {0: {}})
    assert found.by_pod == {"uid-a": {0: 0}, "uid-w": {1: 3, 2: 0}}
    assert found.utilization == {"uid-a": {0: 0.0}}, "its card is sampled, and it has no process"


def mirror(uid: str, name: str) -> Pod:
    """A pod that says that it is the mirror of the static pod of this uid."""
    return with_more(pod(name, 4), {MACHINE_UID: uid, MIRROR: uid})


def test_a_static_pods_processes_carry_its_manifests_uid() -> None:
    store = store_of(mirror("hash", "static"))
    assert divide_use({0: {7: 3}}, {7: "hash"}, store.everyone.values()).by_pod == {"uid-static": {0: 3}}


def test_no_mirror_takes_the_processes_of_another_pod_or_of_another_mirror() -> None:
    store = store_of(pod("a", 4), mirror("uid-a", "thief"), mirror("hash", "static"), mirror("hash", "twin"))
    found = divide_use({0: {7: 3, 8: 2}}, {7: "uid-a", 8: "hash"}, store.everyone.values())
    assert (found.by_pod, found.unattributed) == ({"uid-a": {0: 3}}, {0: 2})
    store.pod_applied(being_deleted(mirror("hash", "twin"), ended_s=0))
    found = divide_use({0: {8: 2}}, {8: "hash"}, store.everyone.values())
    assert found.unattributed == {0: 0}, "the kubelet deletes false mirrors at once"


def test_a_pod_may_use_its_units_and_one_with_a_whole_card_also_what_no_unit_stands_for(store: PodStore) -> None:
    odd = [card(index, 14, memory_bytes=15 * GIB + GIB // 2, reserved_units=1) for index in range(3)]
    shared, whole = store.entries["uid-a"], store.entries["uid-w"]
    assert granted_bytes(shared, inventory(*odd)) == {0: 4 * GIB}
    assert granted_bytes(shared, None) == {}
    assert granted_bytes(whole, inventory(*odd)) == dict.fromkeys((1, 2), odd[0].memory_bytes)
