"""Pods over several cards whose init containers hold more than podresources shows, and calls that name no pod."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import pytest

from gcushare.core.cards import InventoryCard
from gcushare.core.errors import Refused
from gcushare.core.matching import Candidate
from gcushare.core.requests import CardRequest, CardSelection, ContainerKind, ContainerRequest, PodRequest
from gcushare.device_plugin.allocation.card_choice import choose_ids
from gcushare.device_plugin.pods.allocations import KubeletAllocations
from gcushare.device_plugin.pods.pod import PodState
from gcushare.device_plugin.pods.store import PodStore
from gcushare.node.pods import CardCounts
from gcushare.vendors import ENFLAME
from gcushare.wire.kubelet.device_ids import decode_whole_card_id, device_ids_of_card, encode_whole_card_id
from gcushare.wire.kubelet.plugin_messages import DeviceIds, PreferredRequest, device_ids
from gcushare.wire.objects import Pod
from tests.builders import pod as ref
from tests.unit.plugin_pods import UNITS, UUIDS, pod, store_of, whole_pod, with_annotations

CARDS = {i: InventoryCard(index=i, uuid=f"u{i}", memory_bytes=16 << 30, units=16, model="S60") for i in range(3)}


def spread(name: str, *amounts: tuple[str, int], cards: str = "0,1", assigned: bool = False) -> Pod:
    """A bound pod over two cards; each container is an init container, a sidecar or an app container."""
    bound = with_annotations(
        pod(name, 1),
        {
            "gcushare.io/cards": "2",
            "enflame.com/gcu-device-id": cards,
            "enflame.com/gcu-device-assigned": str(assigned).lower(),
            "enflame.com/gcu-device-assign-time": "7",
        },
    )
    plain = msgspec.to_builtins(bound)
    made: dict[str, list[object]] = {"initContainers": [], "containers": []}
    for number, (kind, amount) in enumerate(amounts):
        container = {"name": f"{kind}{number}", "resources": {"limits": {"enflame.com/gcu-memory": amount}}}
        restart = {"restartPolicy": "Always"} if kind == "sidecar" else {}
        made["containers" if kind == "app" else "initContainers"].append(container | restart)
    plain["spec"] |= {"initContainers": made["initContainers"], "containers": made["containers"]}
    return msgspec.convert(plain, type=Pod)


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
    found = KubeletAllocations("podresources", {"d/p": later})
    if checkpoint is not None and store.partly_shown_in(found.pods):
        found.add_missing(KubeletAllocations("checkpoint", {"uid-p": dict(checkpoint)}), ["uid-p"])
    store.on_kubelet_read(found)


@pytest.mark.parametrize("has_checkpoint", [True, False])
@pytest.mark.parametrize("restarts", [True, False])
@pytest.mark.parametrize(("shape", "held"), SHAPES)
def test_the_record_keeps_both_cards_and_equal_parts(
    shape: tuple[tuple[str, int], ...], held: Mapping[str, CardCounts], *, restarts: bool, has_checkpoint: bool
) -> None:
    store = store_of(spread("p", *shape))
    if not restarts:
        for name, counts in held.items():
            store.on_allocate("uid-p", name, counts, 0.0)
    read(store, held if has_checkpoint else None, held)
    entry = store.entries["uid-p"]
    assert entry.state is PodState.SERVED
    half = entry.request.total_units // 2
    assert (entry.taken_cards, entry.units_by_card()) == ((0, 1), {0: half, 1: half})
    assert store.held_units() == {0: half, 1: half}
    (write,) = store.writes(UUIDS, UNITS, 1)
    assert (write.cards, write.corrected_from, write.assigned) == ((0, 1), (), True)
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
    assert [write.assigned for write in store.writes(UUIDS, UNITS, 1)] == [True]


@pytest.mark.parametrize(("shape", "held"), SHAPES)
def test_the_checkpoint_corrects_a_record_of_other_cards(
    shape: tuple[tuple[str, int], ...], held: Mapping[str, CardCounts]
) -> None:
    store = store_of(spread("p", *shape, cards="0,2", assigned=True))
    read(store, held, held)
    (write,) = store.writes(UUIDS, UNITS, 1)
    assert (write.cards, write.corrected_from) == ((0, 1), (0, 2))


def test_a_sidecar_that_is_shown_does_not_end_what_a_later_init_container_was_given() -> None:
    store = store_of(spread("p", ("sidecar", 4), ("init", 16), ("app", 6)))
    store.on_allocate("uid-p", "sidecar0", {0: 2, 1: 2}, 0.0)
    store.on_allocate("uid-p", "init1", {0: 8, 1: 8}, 0.0)
    store.on_kubelet_read(KubeletAllocations("podresources", {"d/p": {"sidecar0": {0: 2, 1: 2}}}))
    (candidate,) = store.candidates()
    assert (candidate.next_container, dict(candidate.held)) == ("app2", {0: 10, 1: 10})


def test_all_calls_of_two_equal_pods_that_were_taken_for_each_other_change_hands() -> None:
    first, second = (with_annotations(spread(name, ("init", 4), ("app", 2)), {}) for name in "pq")
    store = store_of(first, second)
    store.on_allocate("uid-p", "init0", {0: 4}, 0.0)
    store.on_allocate("uid-p", "app1", {0: 2}, 0.0)
    store.on_allocate("uid-q", "init0", {1: 4}, 1.0)
    store.on_kubelet_read(KubeletAllocations("podresources", {"d/q": {"app1": {0: 2}}}))
    assert store.entries["uid-q"].state is PodState.SERVED
    assert (store.entries["uid-p"].state, store.entries["uid-p"].held) == (PodState.PARTLY_SERVED, {"init0": {1: 4}})


def test_equal_containers_of_a_pod_that_was_taken_for_another_are_told_apart_by_their_names() -> None:
    shape = ("sidecar", 2), ("init", 2), ("app", 2)
    store = store_of(*(with_annotations(spread(name, *shape), {}) for name in "pq"))
    for number, (kind, amount) in enumerate(shape):
        store.on_allocate("uid-p", f"{kind}{number}", {0: amount}, 0.0)
    store.on_kubelet_read(KubeletAllocations("podresources", {"d/q": {"sidecar0": {0: 2}, "app2": {0: 2}}}))
    assert (store.pending_allocations, store.doubtful(2)) == (0, [])
    assert [store.entries[f"uid-{name}"].served for name in "pq"] == [0, 3]


@pytest.mark.parametrize("names", [("p", "q"), ("q", "p")], ids="".join)
def test_equal_containers_of_pods_that_were_taken_for_each_other_change_them_once(names: tuple[str, str]) -> None:
    """Both pods have a sidecar of the same size on the same card; only the last container says which pod is which."""
    first, second = names
    shape = ("sidecar", 2), ("init", 6), ("app", 4)
    store = store_of(*(with_annotations(spread(name, *shape), {}) for name in names))
    for number, (kind, amount) in enumerate(shape):
        store.on_allocate(f"uid-{first}", f"{kind}{number}", {1: amount}, float(number))
    store.on_allocate(f"uid-{second}", "sidecar0", {1: 2}, 3.0)
    of_second = {"sidecar0": {1: 2}, "app2": {1: 4}}
    shown: dict[str, Mapping[str, CardCounts]] = {f"d/{first}": {"sidecar0": {1: 2}}, f"d/{second}": of_second}
    store.on_kubelet_read(KubeletAllocations("podresources", shown))
    assert [store.entries[f"uid-{name}"].served for name in names] == [1, 3]


def given(store: PodStore, uid: str, container: str, *ids: str, at_s: float = 0.0, whole: bool = False) -> None:
    packed = device_ids(ids)
    counts = dict.fromkeys(map(decode_whole_card_id, ids), 1) if whole else packed.count_by_card()
    store.on_allocate(uid, container, counts, at_s, whole=whole, ids=packed)


FIRST, SECOND = [device_ids_of_card(index, 16) for index in (0, 1)]


def test_ids_that_are_given_out_again_name_the_pod_whose_init_container_has_them() -> None:
    """No scheduler placed the two: the first call was taken for the other pod's."""
    store = store_of(spread("p", ("init", 4), ("sidecar", 2), ("app", 2), cards=""), spread("q", ("app", 4), cards=""))
    given(store, "uid-q", "app0", *FIRST[:2], *SECOND[:2])
    (found,) = store.find_reusing(device_ids(SECOND[:2]), 2)
    assert (found.pod.uid, found.next_container, found.card_indexes) == ("uid-p", "sidecar1", (0, 1))
    assert [store.entries[f"uid-{name}"].served for name in "pq"] == [1, 0]


def test_all_calls_in_a_row_are_of_that_pod() -> None:
    """Its sidecar took ids of the first init container again, its last container some of the second one's."""
    shape = ("init", 2), ("sidecar", 4), ("init", 6), ("app", 2)
    store = store_of(*(with_annotations(spread(name, *shape), {}) for name in "pq"), pod("r", 2), pod("s", 4))
    given(store, "uid-r", "c0", *FIRST[:2])
    given(store, "uid-s", "c0", *FIRST[:4], at_s=1.0)
    given(store, "", "", *FIRST[4:10], at_s=2.0)
    found = store.find_reusing(device_ids(FIRST[8:10]), 2)
    assert [each.pod.uid for each in found] == ["uid-p", "uid-q"], "either may be asked for"
    assert [store.entries[f"uid-{name}"].served for name in "pqrs"] == [3, 0, 0, 0]


def test_the_pod_that_explains_more_of_the_calls_is_the_likely_one() -> None:
    """The second call was taken for a sidecar's, which gives no ids to later containers."""
    shapes = {"p": (("init", 4), ("sidecar", 4), ("init", 8)), "q": (("init", 4), ("init", 4), ("app", 4))}
    store = store_of(*(with_annotations(spread(name, *shape), {}) for name, shape in shapes.items()))
    given(store, "uid-p", "init0", *FIRST[:4])
    given(store, "uid-p", "sidecar1", *FIRST[:4], at_s=1.0)
    found = store.find_reusing(device_ids(FIRST[:4]), 4)
    assert [(each.pod.uid, each.next_container) for each in found] == [("uid-q", "app2"), ("uid-p", "init0")]


def test_a_container_that_the_kubelet_shows_already_is_not_one_of_the_calls() -> None:
    store = store_of(with_annotations(spread("p", ("init", 4), ("sidecar", 2), ("app", 2)), {}), pod("q", 4))
    given(store, "uid-q", "c0", *FIRST[:4])
    store.on_kubelet_read(KubeletAllocations("podresources", {"d/p": {"sidecar1": {0: 2}}}))
    (found,) = store.find_reusing(device_ids(FIRST[2:4]), 2)
    assert (found.next_container, store.entries["uid-q"].served) == ("app2", 0)


def test_a_whole_card_that_is_given_out_again_names_its_pod() -> None:
    store = store_of(whole_pod("p", 1, init=2), whole_pod("q", 2))
    cards = [encode_whole_card_id(index) for index in (0, 2)]
    given(store, "uid-q", "c0", *cards, whole=True)
    (found,) = store.find_reusing(device_ids(cards[1:]), 1, whole=True)
    assert (found.pod.uid, found.next_container) == ("uid-p", "c0")
    assert store.find_reusing(device_ids(cards[1:]), 1) == [], "no memory was given out"


def test_a_pod_that_runs_is_not_asked_for_again() -> None:
    shape = ("init", 2), ("init", 6), ("app", 2)
    store = store_of(*(with_annotations(spread(name, *shape), {}) for name in "pq"))
    store.on_kubelet_read(KubeletAllocations("podresources", {"d/p": {"app2": {0: 2}}}))
    given(store, "uid-q", "init0", *SECOND[:2])
    assert [each.pod.uid for each in store.find_reusing(device_ids(SECOND[:2]), 6)] == ["uid-q"]


@pytest.mark.parametrize("is_refused", [True, False], ids=["refused", "gone"])
def test_ids_of_a_pod_that_was_not_admitted_are_new_ones_for_the_next(*, is_refused: bool) -> None:
    store = store_of(*(with_annotations(spread(name, ("init", 4), ("app", 2)), {}) for name in "pq"), pod("r", 4))
    given(store, "uid-r", "c0", *FIRST[:4])  # It was p's, and may still be stored as another one's.
    if is_refused:
        with pytest.raises(Refused), store.one_call():
            raise Refused("no card has room")
    else:
        store.pod_deleted("uid-p", is_over=True)
    assert store.find_reusing(device_ids(FIRST[:2]), 2) == []


@pytest.mark.parametrize("owner", ["uid-p", "uid-q", ""])
def test_equal_init_containers_in_a_row_are_counted(owner: str) -> None:
    store = store_of(with_annotations(spread("p", ("init", 4), ("init", 4), ("app", 4)), {}), pod("q", 4))
    given(store, owner, "init0", *FIRST[:4])
    given(store, owner, "init1", *FIRST[:4], at_s=1.0)
    (found,) = store.find_reusing(device_ids(FIRST[:4]), 4)
    assert (found.pod.uid, found.next_container) == ("uid-p", "app2")


def test_no_pod_goes_on_after_a_refusal() -> None:
    """The pod that was refused was another one, or this one, which is not admitted."""
    store = store_of(pod("p", 2, 4), pod("q", 2, 4, card=1))
    given(store, "uid-p", "c0", *SECOND[:2])
    with pytest.raises(Refused), store.one_call():
        raise Refused("no card has room")
    assert [(each.pod.uid, each.served) for each in store.candidates()] == [("uid-p", 0), ("uid-q", 0)]
    assert store.unconfirmed_units() == {1: 2}, "the ids are counted until the kubelet was read"


def test_of_two_calls_with_the_same_ids_the_last_counts() -> None:
    """The first one's pod was refused by the kubelet itself, which the plugin has not seen."""
    store = store_of(with_annotations(spread("p", ("init", 4), ("app", 2)), {}), pod("q", 4), pod("r", 4))
    given(store, "uid-q", "c0", *FIRST[:4])
    given(store, "uid-r", "c0", *FIRST[:4], at_s=1.0)
    (found,) = store.find_reusing(device_ids(FIRST[:2]), 2)
    assert found.pod.uid == "uid-p"
    assert [store.entries[f"uid-{name}"].served for name in "pqr"] == [1, 1, 0]


@pytest.mark.parametrize(
    ("ids", "amount"), [((), 2), (FIRST[4:6], 2), (FIRST[:2], 3)], ids=["none", "new ones", "of no such pod"]
)
def test_ids_that_name_no_pod_change_nothing(ids: Sequence[str], amount: int) -> None:
    store = store_of(with_annotations(spread("p", ("init", 4), ("app", 2)), {}), pod("q", 4))
    given(store, "uid-q", "c0", *FIRST[:4])
    assert store.find_reusing(device_ids(ids), amount) == []
    assert [store.entries[f"uid-{name}"].served for name in "pq"] == [0, 1]


def candidate(name: str, *amounts: int, cards: tuple[int, ...] = (), per_pod: int = 1, **other: object) -> Candidate:
    containers = tuple(ContainerRequest(f"c{n}", ContainerKind.APP, units) for n, units in enumerate(amounts))
    request = PodRequest(containers, CardRequest(sum(amounts) // per_pod, per_pod))
    return Candidate(ref(name), request, cards, **other)  # type: ignore[arg-type]


def ask(size: int, *, must: list[str] | None = None, free: Mapping[int, int] | None = None) -> PreferredRequest:
    amounts = free or dict.fromkeys(CARDS, 16)
    ids = [each for index, count in amounts.items() for each in device_ids_of_card(index, 16)[16 - count :]]
    return PreferredRequest(device_ids(sorted({*ids, *(must or [])})), device_ids(must or []), size)


def chosen(request: PreferredRequest, *candidates: Candidate) -> CardCounts:
    return DeviceIds(b"".join(choose_ids(request, candidates, {}, CARDS).entries)).count_by_card()


def test_ids_of_an_init_container_from_one_card_do_not_draw_the_rest_from_it() -> None:
    going_on = candidate("p", 4, 6, cards=(0, 1), per_pod=2, served=1, held={0: 2, 1: 2})
    assert chosen(ask(6, must=device_ids_of_card(0, 2)), going_on) == {0: 4, 1: 2}, "the pod then has 4 of each"


class TestAnAnswerIsRightForEveryPodThatACallMayBeFor:
    def test_a_card_that_all_allow_is_chosen_although_another_is_recorded(self) -> None:
        free = candidate("free", 4, cards=(1,))
        first = candidate("first", 4, cards=(0,), selection=CardSelection(("0",)))
        assert chosen(ask(4), free, first) == {0: 4}
        assert chosen(ask(4), candidate("x", 4, cards=(0,), selection=CardSelection((), ("0",)))) == {1: 4}

    def test_pods_that_exclude_each_others_cards_are_refused_by_name(self) -> None:
        one = candidate("one", 4, cards=(0,), selection=CardSelection(("0",)))
        other = candidate("other", 4, cards=(1,), selection=CardSelection(("1",)))
        with pytest.raises(
            Refused, match=r"not allowed by the pod's annotations.*which of default/one, default/other it is for"
        ):
            chosen(ask(4), one, other)

    def test_pods_over_one_card_and_over_two_are_refused_by_name(self) -> None:
        with pytest.raises(Refused, match=r"which of default/one, default/two asks for 4 units"):
            chosen(ask(4), candidate("one", 4, cards=(0,)), candidate("two", 4, cards=(0, 1), per_pod=2))

    def test_a_pod_that_is_being_deleted_decides_nothing_while_another_waits(self) -> None:
        leaving = candidate("leaving", 4, cards=(0, 1), per_pod=2, is_ending=True)
        assert chosen(ask(4), leaving, candidate("one", 4, cards=(2,))) == {2: 4}
        assert chosen(ask(4), leaving) == {0: 2, 1: 2}


def test_equal_requests_with_other_rules_do_not_inherit_each_others_cards() -> None:
    plain, choosy = pod("plain", 4, card=0), pod("choosy", 4, card=1)
    choosy = with_annotations(choosy, choosy.metadata.annotations | {"gcushare.io/use-cards": "1"})
    store = store_of(plain, choosy)
    store.on_kubelet_read(KubeletAllocations("podresources", {"d/plain": {"c0": {1: 4}}}))
    assert store.entries["uid-choosy"].promise == (1,)
    assert store_of(plain).entries["uid-plain"].rules == (store.entries["uid-plain"].request.cards, None, 0)
    assert ENFLAME.multi_card_runtime
