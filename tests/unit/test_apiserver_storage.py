from __future__ import annotations

import pytest

from gcushare_playground.apiserver.objects import JsonObject, Key
from gcushare_playground.apiserver.storage import ChangeType, Collection, Expired, Storage


def _object(name: str, value: int = 0) -> JsonObject:
    return {"metadata": {"name": name, "namespace": "ns"}, "value": value}


def _put(collection: Collection, name: str, value: int = 0) -> int:
    return collection.put(Key("ns", name), _object(name, value)).version


@pytest.fixture
def storage() -> Storage:
    return Storage(history_limit=4)


@pytest.fixture
def pods(storage: Storage) -> Collection:
    return storage.collection("pods")


def test_changes_since_a_version_are_those_after_it_in_order(pods: Collection) -> None:
    _put(pods, "a")
    start = _put(pods, "b")
    _put(pods, "a", 1)
    pods.remove(Key("ns", "b"))
    found = [(change.type, change.revision.key.name, change.revision.version) for change in pods.changes_since(start)]
    assert found == [(ChangeType.MODIFIED, "a", 3), (ChangeType.DELETED, "b", 4)]


def test_a_version_before_the_bounded_history_is_expired_and_the_oldest_one_inside_is_not(pods: Collection) -> None:
    for value in range(6):
        _put(pods, "a", value)
    assert len(pods.changes_since(2)) == 4
    with pytest.raises(Expired, match=r"too old resource version: 1 \(2\)"):
        pods.changes_since(1)


def test_the_history_of_one_kind_is_not_consumed_by_another(storage: Storage, pods: Collection) -> None:
    _put(pods, "a")
    for value in range(20):
        _put(storage.collection("leases.coordination.k8s.io"), "l", value)
    assert len(pods.changes_since(0)) == 1


def test_a_view_of_an_earlier_version_undoes_every_kind_of_change(pods: Collection) -> None:
    _put(pods, "kept", 1)
    _put(pods, "removed", 1)
    moment = _put(pods, "changed", 1)
    _put(pods, "changed", 2)
    _put(pods, "added", 2)
    pods.remove(Key("ns", "removed"))
    then = {revision.key.name: revision.obj["value"] for revision in pods.view(moment).walk(None)}
    assert then == {"kept": 1, "removed": 1, "changed": 1}
    assert [r.key.name for r in pods.view().walk(None)] == ["added", "changed", "kept"]


def test_forgetting_the_history_expires_every_version_before_now(storage: Storage, pods: Collection) -> None:
    _put(pods, "a")
    storage.forget_history()
    assert pods.changes_since(1) == []
    with pytest.raises(Expired):
        pods.changes_since(0)
