"""Records of running pods that another program changes: every key that is ours comes back, whatever became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain, combinations

import pytest

from gcushare.core.requests import split_over_cards
from gcushare.device_plugin.pods.annotation_diff import RecordWrite
from gcushare.device_plugin.pods.store import PodStore
from gcushare.vendors import ALIYUN, ENFLAME, Vendor
from gcushare.wire.annotations import (
    CARD_MODE,
    CARD_UUID,
    CARDS,
    CORRECTED,
    RECORDED_UID,
    UNITS_BY_CARD,
    PodRecord,
    encode_record,
)
from gcushare.wire.objects import Pod
from tests.extender_objects import a_pod, as_whole
from tests.unit.plugin_pods import UNITS, UUIDS, reconcile, store_of, with_annotations, with_more

KINDS = {
    "memory": PodRecord(card_indexes=(1,), card_units=16, pod_units=6, assign_time_ns=5),
    "two cards": PodRecord(card_indexes=(1, 2), card_units=16, pod_units=6, assign_time_ns=5),
    "whole": as_whole(1, 2, when=5),
}


def served(vendor: Vendor, kind: str) -> tuple[PodStore, Pod]:
    """A store with one pod that has its cards, and the pod with its record as the plugin wrote it."""
    record = KINDS[kind]
    whole = len(record.card_indexes) if record.whole else 0
    asked = {CARDS: "2"} if kind == "two cards" else {}
    bound = a_pod("a", 6, vendor=vendor, node="n", record=record, annotations=asked, whole=whole)
    store = PodStore(vendor)
    store.pod_applied(bound)
    see(store, kind)
    return store, repaired(store, bound)


def see(store: PodStore, kind: str) -> None:
    record = KINDS[kind]
    held = {
        "default/a": {"main": split_over_cards(len(record.card_indexes) if record.whole else 6, record.card_indexes)}
    }
    reconcile(store, {} if record.whole else held, held if record.whole else {})


def writes(store: PodStore) -> list[RecordWrite]:
    return store.writes(UUIDS, UNITS, 99)


def repaired(store: PodStore, bound: Pod) -> Pod:
    """Write what is due, as the API server then shows the pod."""
    (write,) = writes(store)
    store.on_record_written(write)
    right = with_more(bound, write.annotations)
    store.pod_applied(right)
    assert writes(store) == []
    return right


def damage(right: Pod, changes: Mapping[str, str | None]) -> Pod:
    both = {**right.metadata.annotations, **changes}
    return with_annotations(right, {key: value for key, value in both.items() if value is not None})


def keys_of(vendor: Vendor, kind: str) -> tuple[str, ...]:
    return (*encode_record(vendor, KINDS[kind]), CARD_UUID)


@pytest.mark.parametrize("value", ["7", None, "", "many", "-1", "99999999999"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("vendor", [ENFLAME, ALIYUN], ids=lambda vendor: vendor.name)
def test_every_set_of_keys_comes_back_as_it_was(vendor: Vendor, kind: str, value: str | None) -> None:
    store, right = served(vendor, kind)
    keys = keys_of(vendor, kind)
    assert right.metadata.annotations[CARD_UUID] == ",".join(f"uuid-{i}" for i in KINDS[kind].card_indexes)
    for changed in chain.from_iterable(combinations(keys, count) for count in range(1, len(keys) + 1)):
        damaged = damage(right, dict.fromkeys(changed, value))
        store.pod_applied(damaged)
        after = repaired(store, damaged).metadata.annotations
        assert {key: after.get(key) for key in keys} == {key: right.metadata.annotations[key] for key in keys}, changed


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", ["7", None])
def test_after_a_restart_all_that_the_node_knows_comes_back(kind: str, value: str | None) -> None:
    _, right = served(ENFLAME, kind)
    time = ENFLAME.record.assign_time
    for key in keys_of(ENFLAME, kind):
        damaged = damage(right, {key: value})
        store = store_of(damaged)
        see(store, kind)
        if key == time and value:
            assert writes(store) == [], "another time may be true: nothing but the record says when"
            continue
        after = dict(repaired(store, damaged).metadata.annotations)
        after.pop(CORRECTED, None)
        assert after == {**right.metadata.annotations, **({time: "99"} if key == time else {})}


def test_keys_that_the_record_must_not_have_are_emptied() -> None:
    store, right = served(ENFLAME, "memory")
    damaged = damage(right, {CARD_MODE: "whole", UNITS_BY_CARD: "3,3"})
    store.pod_applied(damaged)
    after = repaired(store, damaged).metadata.annotations
    assert (after[CARD_MODE], after[UNITS_BY_CARD]) == ("", "")


def test_the_event_names_the_keys_and_the_first_confirmation_is_none() -> None:
    store = store_of(a_pod("a", 6, node="n", record=KINDS["memory"]))
    see(store, "memory")
    assert [write.repaired for write in writes(store)] == [""]
    store, right = served(ENFLAME, "memory")
    store.pod_applied(damage(right, {ENFLAME.record.pod_units: "7", CARD_UUID: None}))
    (write,) = writes(store)
    assert write.repaired == f"wrong or missing: {ENFLAME.record.pod_units}, {CARD_UUID}"


def test_a_record_has_the_uuid_of_the_card_that_the_pod_has_now_and_of_a_lost_one_what_it_had() -> None:
    store, right = served(ENFLAME, "memory")
    (write,) = store.writes({**UUIDS, 1: "uuid-new"}, UNITS, 99)
    assert (write.repaired, dict(write.exchanged)) == ("", {1: ("uuid-1", "uuid-new")})
    assert write.annotations[CARD_UUID] == "uuid-new"
    again = store_of(right)
    see(again, "memory")
    assert again.writes(UUIDS, UNITS, 99) == []
    assert again.writes({}, {}, 99) == []


@pytest.mark.parametrize("card", ["0", "1"], ids=["the card that it got", "another card"])
def test_the_record_of_another_life_is_replaced_and_is_no_correction(card: str) -> None:
    """Its manifest was exported with the annotations of the pod that it was then, and names the node."""
    keys = ENFLAME.record
    old = {
        keys.card_index: card, keys.assigned: "true", keys.assign_time: "7", CARD_UUID: "uuid-9", CARD_MODE: "whole",
        CORRECTED: "3->0", RECORDED_UID: "uid-then",
    }  # fmt: skip
    store = store_of(a_pod("a", 6, node="n", annotations=old))
    assert [each.card_indexes for each in store.candidates()] == [()], "no card is kept for it"
    reconcile(store, {"default/a": {"main": {0: 6}}})
    (write,) = writes(store)
    assert (write.corrected_from, write.repaired, write.placed_here) == ((), "", True)
    written = {keys.card_index: "0", keys.assign_time: "99", CARD_UUID: "uuid-0", CARD_MODE: "", CORRECTED: ""}
    assert {key: write.annotations[key] for key in written} == written
    assert write.annotations[RECORDED_UID] == "uid-a"


def test_a_correction_comes_back_when_it_is_removed_or_changed_and_none_is_invented() -> None:
    store = PodStore(ENFLAME)
    pod = a_pod("a", 6, node="n", record=KINDS["memory"])
    store.pod_applied(pod)
    reconcile(store, {"default/a": {"main": {2: 6}}})
    for is_restarted in (False, True):
        (write,) = writes(store)
        store.on_record_written(write)
        right = damage(pod, dict(write.annotations))
        assert right.metadata.annotations[CORRECTED] == "1->2"
        store.pod_applied(right)
        assert writes(store) == []
        for value in (None, "", "2->1", "x"):
            store.pod_applied(damage(right, {CORRECTED: value}))
            (again,) = writes(store)
            assert (again.annotations[CORRECTED], again.repaired) == ("1->2", f"wrong or missing: {CORRECTED}")
        if not is_restarted:
            changed = damage(right, {ENFLAME.record.pod_units: "9"})
            store = store_of(changed, memory={"default/a": {"main": {2: 6}}})


@pytest.mark.parametrize("release", ["before", "now"])
def test_a_correction_that_nobody_made_is_taken_away(release: str) -> None:
    record = replace(KINDS["memory"], uid="uid-a" if release == "now" else "")
    store = store_of(a_pod("a", 6, node="n", record=record))
    store.pod_applied(a_pod("a", 6, node="n", record=record, annotations={CORRECTED: "0->1"}))
    see(store, "memory")
    (write,) = writes(store)
    assert write.annotations[CORRECTED] == ""


def test_a_record_that_lacks_only_the_uid_stays_as_it_is() -> None:
    """Records of an earlier release: an upgrade writes on no pod that runs."""
    store, right = served(ENFLAME, "memory")
    store.pod_applied(damage(right, {RECORDED_UID: None}))
    assert writes(store) == []
