"""What each pod uses of each card, from the cards' processes and whose they are."""

from __future__ import annotations

from collections.abc import Mapping

from gcushare.core.cards import Inventory, InventoryCard
from gcushare.core.units import GIB, parse_memory_unit
from gcushare.device_plugin.pods.store import PodStore
from gcushare.node.pod_use import divide_use, granted_bytes
from gcushare.vendors import ENFLAME
from gcushare.wire.objects import Pod
from gcushare.wire.pods import MACHINE_UID, MIRROR
from tests.extender_objects import a_pod, as_whole, on_card
from tests.unit.plugin_pods import reconcile

NODE = "node-1"


def store_of(*held: tuple[str, int], annotations: Mapping[str, str] | None = None) -> PodStore:
    """Pods of 4 units by name and card, each with the uid that its name gives it."""
    store = PodStore(ENFLAME)
    for name, card in held:
        store.pod_applied(a_pod(name, node=NODE, record=on_card(card, 4), annotations=dict(annotations or {})))
    reconcile(store, {f"default/{name}": {"main": {card: 4}} for name, card in held})
    return store


def uid_of(store: PodStore, name: str) -> str:
    (uid,) = [uid for uid, entry in store.entries.items() if entry.ref.name == name]
    return uid


def test_a_pod_whose_card_is_sampled_and_that_has_no_process_uses_none_of_the_chip() -> None:
    store = store_of(("a", 0))
    assert divide_use({0: {}}, {}, store.entries.values(), {0: {}}).utilization == {uid_of(store, "a"): {0: 0.0}}


def test_a_pod_that_has_no_card_yet_and_no_process_is_not_reported() -> None:
    store = PodStore(ENFLAME)
    store.pod_applied(a_pod("waits", node=NODE, record=on_card(0, 4)))
    assert divide_use({0: {}}, {}, store.entries.values()).by_pod == {}


def test_a_pod_of_two_whole_cards_is_reported_for_each() -> None:
    store = PodStore(ENFLAME)
    store.pod_applied(a_pod("w", None, whole=2, node=NODE, record=as_whole(0, 1)))
    reconcile(store, {}, {"default/w": {"main": {0: 1, 1: 1}}})
    w = uid_of(store, "w")
    assert divide_use({0: {7: 3}, 1: {}}, {7: w}, store.entries.values()).by_pod == {w: {0: 3, 1: 0}}


def mirror(uid: str, name: str = "static", **more: str) -> Pod:
    """A pod that says that it is the mirror of the static pod of this uid."""
    return a_pod(name, node=NODE, record=on_card(0, 4), annotations={MACHINE_UID: uid, MIRROR: uid}, **more)


def test_a_static_pods_processes_carry_its_manifests_uid() -> None:
    store = PodStore(ENFLAME)
    store.pod_applied(mirror("hash"))
    (uid,) = store.everyone
    assert divide_use({0: {7: 3}}, {7: "hash"}, store.everyone.values()).by_pod == {uid: {0: 3}}


def test_no_mirror_takes_the_processes_of_another_pod_or_of_another_mirror() -> None:
    store = store_of(("a", 0))
    a = uid_of(store, "a")
    for each in (mirror(a, "thief"), mirror("hash"), mirror("hash", "twin")):
        store.pod_applied(each)
    found = divide_use({0: {7: 3, 8: 2}}, {7: a, 8: "hash"}, store.everyone.values())
    assert (found.by_pod, found.unattributed) == ({a: {0: 3}}, {0: 2})
    store.pod_applied(mirror("hash", "twin", deletionTimestamp="2026-01-01T00:00:00Z"))
    found = divide_use({0: {8: 2}}, {8: "hash"}, store.everyone.values())
    assert found.unattributed == {0: 0}, "the kubelet deletes false mirrors at once"


def test_a_pod_may_use_its_units_and_one_with_a_whole_card_also_what_no_unit_stands_for() -> None:
    memory_bytes = 15 * GIB + GIB // 2
    card = InventoryCard(index=0, uuid="u", memory_bytes=memory_bytes, units=14, reserved_units=1)
    inventory = Inventory(unit=parse_memory_unit("1"), cards=(card,))
    (shared,) = store_of(("a", 0)).entries.values()
    assert granted_bytes(shared, inventory) == {0: 4 * GIB}
    assert granted_bytes(shared, None) == {}
    store = PodStore(ENFLAME)
    store.pod_applied(a_pod("w", None, whole=1, node=NODE, record=as_whole(0)))
    reconcile(store, {}, {"default/w": {"main": {0: 1}}})
    (whole,) = store.entries.values()
    assert granted_bytes(whole, inventory) == {0: card.memory_bytes}
