"""What the kubelet gave out counts, whoever has it and whatever we think of the request."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gcushare.core.cards import UnrecordedHolder
from gcushare.device_plugin.pods.reconciler import CHANGING_PERIOD_S
from gcushare.device_plugin.pods.store import PodStore
from gcushare.device_plugin.pods.unrecorded import OTHERS, PATIENCE_S, UnrecordedHolders
from gcushare.vendors import ENFLAME
from gcushare.wire.annotations.inventory import MAX_UNRECORDED
from gcushare.wire.objects import Pod
from tests.unit.plugin_pods import mirror, pod, store_of
from tests.unit.plugin_reconcile import reconcile

SIZES = {0: 16, 1: 16}
MEMORY, COUNT, WHOLE = ENFLAME.memory_resource, ENFLAME.count_resource, ENFLAME.whole_card_resource


def asking(name: str, limits: dict[str, str], **annotations: str) -> Pod:
    """A bound pod without a record, with these limits; annotations in short words."""
    keys = {"cards": "gcushare.io/cards", "policy": "gcushare.io/card-policy"}
    document: dict[str, Any] = {
        "metadata": {
            "name": name,
            "namespace": "d",
            "uid": f"uid-{name}",
            "annotations": {keys[word]: text for word, text in annotations.items()},
        },
        "spec": {"nodeName": "n", "containers": [{"name": "c0", "resources": {"limits": limits}}]},
    }
    return msgspec.json.decode(msgspec.json.encode(document), type=Pod)


@pytest.mark.parametrize(
    "refused",
    [
        pytest.param(asking("a", {MEMORY: "12", COUNT: "2"}), id="two cards counted"),
        pytest.param(asking("a", {MEMORY: "12"}, cards="5"), id="not to be divided"),
        pytest.param(asking("a", {MEMORY: "12"}, cards="none"), id="no number of cards"),
        pytest.param(asking("a", {MEMORY: "12"}, policy="mine"), id="no policy of ours"),
    ],
)
def test_a_pod_that_would_have_been_refused_is_recorded_with_what_the_kubelet_gave_it(refused: Pod) -> None:
    store = PodStore(ENFLAME)
    store.on_pod_update(refused)
    reconcile(store, {"d/a": {"c0": {1: 12}}})
    store.find_unrecorded(0.0)
    assert store.held_units(SIZES) == {1: 12}
    assert [(write.pod.name, write.cards) for write in store.writes({0: "u0", 1: "u1"}, SIZES, 1)] == [("a", (1,))]
    assert [each.pod.name for each in store.unreadable] == ["a"], "and why it would have been refused is still reported"
    assert store.unrecorded.lasting(PATIENCE_S) == ()


def test_what_no_record_can_tell_is_counted_at_once_and_published_when_it_lasts() -> None:
    both = asking("both", {MEMORY: "4", WHOLE: "1"})
    store = PodStore(ENFLAME)
    store.on_pod_update(both)
    assert store.entries == {}
    reconcile(store, {"d/both": {"c0": {0: 4}}, "d/unseen": {"c0": {0: 2}, "c1": {0: 1}}}, {"uid-both": {"c0": {1: 1}}})
    store.find_unrecorded(10.0)
    assert store.held_units(SIZES) == {0: 7, 1: 16}
    assert store.users_of(1, whole=True) == ["d/both"]
    assert store.unrecorded.is_young(10.0 + PATIENCE_S - 0.1)
    assert store.unrecorded.lasting(10.0 + PATIENCE_S - 0.1) == ()
    assert store.unrecorded.lasting(10.0 + PATIENCE_S) == (
        UnrecordedHolder(pod="d/both", units={0: 4}, whole=(1,)),
        UnrecordedHolder(pod="d/unseen", units={0: 3}),
    )
    assert not store.unrecorded.is_young(10.0 + PATIENCE_S)
    assert CHANGING_PERIOD_S >= PATIENCE_S, "the next look publishes it"


def test_a_pod_that_comes_or_ends_is_no_unrecorded_holder_any_more() -> None:
    store = PodStore(ENFLAME)
    store.on_pod_update(pod("c", 4, card=0))
    reconcile(store, {"d/a": {"c0": {0: 4}}, "d/b": {"c0": {0: 4}}, "d/c": {"c0": {0: 4}}})
    store.find_unrecorded(0.0)
    assert set(store.unrecorded.now) == {"d/a", "d/b"}
    store.on_pod_update(pod("a", 4))
    assert (set(store.unrecorded.now), store.held_units(SIZES)) == ({"d/b"}, {0: 12})
    store.on_pod_delete("uid-c", is_over=True)
    store.find_unrecorded(1.0)
    assert set(store.unrecorded.now) == {"d/b"}, "the kubelet may show a pod that has ended for a while"
    store.on_pod_delete("uid-a")
    store.find_unrecorded(2.0)
    assert set(store.unrecorded.now) == {"d/b"}, "one deleted by force closes its card instead"
    reconcile(store, {})
    store.find_unrecorded(3.0)
    assert store.held_units(SIZES) == {}


@pytest.mark.parametrize(("shown", "hidden"), [(4, True), (5, False)])
def test_a_static_pod_is_counted_once_and_a_forged_uid_hides_nothing_more_than_the_record_reports(
    shown: int, hidden: bool
) -> None:
    store = store_of(mirror())
    reconcile(store, {"hash": {"c0": {0: shown}}})
    store.find_unrecorded(0.0)
    assert (store.unrecorded.now == {}) is hidden


def test_of_very_many_holders_the_last_are_added_up() -> None:
    holders = {f"d/{n:03}": UnrecordedHolder(pod=f"d/{n:03}", units={0: 1}, whole=(n % 2 + 1,)) for n in range(200)}
    found = UnrecordedHolders()
    found.update(holders, 0.0)
    published = found.lasting(PATIENCE_S)
    assert len(published) == MAX_UNRECORDED
    assert published[-1].pod == OTHERS
    assert sum(holder.units[0] for holder in published) == 200
    assert published[-1].whole == (1, 2)
