"""Pods over several cards whose init containers hold more than podresources shows."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gcushare.core.errors import Refused
from gcushare.device_plugin.pods.allocations import KubeletAllocations
from gcushare.device_plugin.pods.pod import PodState
from gcushare.device_plugin.pods.store import PodStore
from gcushare.node.pods import CardCounts
from gcushare.wire.objects import Pod
from tests.unit.plugin_pods import MEMORY, UNITS, UUIDS, bound, pod, recorded, store_of, with_annotations, with_more


def spread(name: str, *amounts: tuple[str, int], cards: str = "0,1", assigned: bool = False) -> Pod:
    """A bound pod over two cards; each container is an init container, a sidecar or an app container."""
    made: dict[bool, list[object]] = {False: [], True: []}
    for number, (kind, amount) in enumerate(amounts):
        container = {"name": f"{kind}{number}", "resources": {"limits": {MEMORY: amount}}}
        made[kind == "app"].append(container | ({"restartPolicy": "Always"} if kind == "sidecar" else {}))
    annotations = recorded(cards, assigned=assigned) | {"gcushare.io/cards": "2"}
    return bound(name, annotations=annotations, initContainers=made[False], containers=made[True])


SHAPES = [
    pytest.param((("init", 20), ("app", 2)), {"init0": {0: 10, 1: 10}, "app1": {1: 2}}, id="one later container"),
    pytest.param(
        (("init", 12), ("app", 2), ("app", 4)),
        {"init0": {0: 6, 1: 6}, "app1": {0: 2}, "app2": {0: 3, 1: 1}},
        id="two of unequal parts",
    ),
    pytest.param(
        (("sidecar", 4), ("init", 16), ("app", 6)),
        {"sidecar0": {0: 2, 1: 2}, "init1": {0: 8, 1: 8}, "app2": {0: 6}},
        id="with a sidecar",
    ),
]


def read(store: PodStore, checkpoint: Mapping[str, CardCounts] | None, held: Mapping[str, CardCounts]) -> None:
    """The plugin reads podresources, and what it asks the checkpoint for if that can be read."""
    later = {name: counts for name, counts in held.items() if not name.startswith("init")}
    found = KubeletAllocations("podresources", {"d/p": later} if later else {})
    hidden = store.hidden_in(found)
    if checkpoint is not None:
        found.add_missing(KubeletAllocations("checkpoint", {"uid-p": dict(checkpoint)}), hidden)
    store.on_kubelet_read(found)


@pytest.mark.parametrize("restarts", [True, False])
@pytest.mark.parametrize(("shape", "held"), SHAPES)
def test_the_record_keeps_both_cards_and_equal_parts(
    shape: tuple[tuple[str, int], ...], held: Mapping[str, CardCounts], *, restarts: bool
) -> None:
    store = store_of(spread("p", *shape))
    if not restarts:
        for name, counts in held.items():
            store.on_allocate("uid-p", name, counts, 0.0)
    read(store, held, held)
    entry = store.entries["uid-p"]
    assert entry.state is PodState.SERVED
    half = entry.request.total_units // 2
    assert (entry.taken_cards, entry.units_by_card()) == ((0, 1), {0: half, 1: half})
    assert store.held_units() == {0: half, 1: half}
    (write,) = store.writes(UUIDS, UNITS, 1)
    assert (write.cards, write.corrected_from) == ((0, 1), ())
    assert "gcushare.io/units-by-card" not in write.annotations


@pytest.mark.parametrize("guessed", [True, False])
@pytest.mark.parametrize(("shape", "held"), SHAPES)
def test_a_container_that_the_checkpoint_does_not_name_yet_is_served(
    shape: tuple[tuple[str, int], ...], held: Mapping[str, CardCounts], *, guessed: bool
) -> None:
    """The kubelet shows what it gave out before it writes its checkpoint, and no other read comes soon."""
    store = store_of(spread("p", *shape))
    for name, counts in held.items():
        store.on_allocate("uid-p" if guessed else "", name if guessed else "", counts, 0.0)
    read(store, dict(list(held.items())[:-1]), held)
    assert (store.entries["uid-p"].state, store.pending_allocations) == (PodState.SERVED, 0)
    assert [write.cards for write in store.writes(UUIDS, UNITS, 1)] == [(0, 1)]


@pytest.mark.parametrize(("shape", "held"), SHAPES)
def test_the_checkpoint_corrects_a_record_of_other_cards(
    shape: tuple[tuple[str, int], ...], held: Mapping[str, CardCounts]
) -> None:
    store = store_of(spread("p", *shape, cards="0,2", assigned=True))
    read(store, held, held)
    (write,) = store.writes(UUIDS, UNITS, 1)
    assert (write.cards, write.corrected_from) == ((0, 1), (0, 2))


@pytest.mark.parametrize(("shape", "held"), SHAPES)
def test_a_pod_is_not_recorded_before_its_init_containers_are_known_and_the_checkpoint_is_read_once_for_them(
    shape: tuple[tuple[str, int], ...], held: Mapping[str, CardCounts]
) -> None:
    store = store_of(spread("p", *shape, cards="0,2"))
    read(store, None, held)
    assert (store.entries["uid-p"].state, store.writes(UUIDS, UNITS, 1)) == (PodState.UNCONFIRMED, [])
    assert store.cards_in_doubt() == set(store.entries["uid-p"].taken_cards)
    read(store, held, held)
    found = KubeletAllocations("podresources", {"d/p": {k: v for k, v in held.items() if not k.startswith("init")}})
    assert store.hidden_in(found) == []
    assert store.cards_in_doubt() == frozenset()
    store.on_kubelet_read(found)
    assert [write.cards for write in store.writes(UUIDS, UNITS, 1)] == [(0, 1)], "an earlier read has shown them"


def test_the_checkpoint_is_read_once_for_a_pod_that_nothing_was_given_to() -> None:
    store = store_of(spread("p", ("init", 4), ("app", 2)), pod("q", 4))
    nothing = KubeletAllocations("podresources")
    assert store.hidden_in(nothing) == ["uid-p"], "it may run, and its record was never written"
    store.on_kubelet_read(nothing)
    assert store.hidden_in(nothing) == []
    store.on_allocate("uid-q", "c0", {0: 4}, 0.0)
    assert store.hidden_in(nothing) == ["uid-p"], "the call may have been for its init container"


def test_calls_of_pods_that_were_taken_for_each_other_are_each_confirmed_where_they_were() -> None:
    """Both pods have a sidecar of the same size on the same card; the kubelet asked for q first."""
    shape = ("sidecar", 2), ("init", 6), ("app", 4)
    store = store_of(*(with_annotations(spread(name, *shape), {}) for name in "pq"))
    for number, (kind, amount) in enumerate(shape):
        store.on_allocate("uid-p", f"{kind}{number}", {1: amount}, float(number))
    store.on_allocate("uid-q", "sidecar0", {1: 2}, 3.0)
    found = KubeletAllocations(
        "podresources", {"d/p": {"sidecar0": {1: 2}}, "d/q": {"sidecar0": {1: 2}, "app2": {1: 4}}}
    )
    hidden = store.hidden_in(found)
    assert hidden == ["uid-p", "uid-q"]
    every = {"uid-p": {"sidecar0": {1: 2}}, "uid-q": {"sidecar0": {1: 2}, "init1": {1: 6}, "app2": {1: 4}}}
    found.add_missing(KubeletAllocations("checkpoint", dict(every)), hidden)
    store.on_kubelet_read(found)
    assert ([store.entries[f"uid-{name}"].served for name in "pq"], store.pending_allocations) == ([1, 3], 0)


def test_no_pod_goes_on_after_a_refusal() -> None:
    """The pod that was refused was another one, or this one, which is not admitted."""
    store = store_of(pod("p", 2, 4), pod("q", 2, 4, card=1))
    store.on_allocate("uid-p", "c0", {1: 2}, 0.0)
    with pytest.raises(Refused), store.one_call():
        raise Refused("no card has room")
    assert [(each.pod.uid, each.served) for each in store.candidates()] == [("uid-p", 0), ("uid-q", 0)]
    assert store.unconfirmed_units() == {1: 2}, "the ids are counted until the kubelet was read"


def test_equal_requests_with_other_rules_do_not_inherit_each_others_cards() -> None:
    store = store_of(pod("plain", 4, card=0), with_more(pod("choosy", 4, card=1), {"gcushare.io/use-cards": "1"}))
    store.on_kubelet_read(KubeletAllocations("podresources", {"d/plain": {"c0": {1: 4}}}))
    assert store.entries["uid-choosy"].promise == (1,)
