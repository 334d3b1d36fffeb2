from __future__ import annotations

import asyncio

import pytest

from gcushare_playground.apiserver.objects import JsonObject, Key
from gcushare_playground.apiserver.storage import Change, ChangeType, Collection, Expired, Storage


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


def test_every_write_has_a_version_of_its_own_across_kinds(storage: Storage) -> None:
    versions = [_put(storage.collection(name), "a") for name in ("pods", "nodes", "pods")]
    assert versions == [1, 2, 3]


def test_changes_since_a_version_are_those_after_it_in_order(pods: Collection) -> None:
    _put(pods, "a")
    start = _put(pods, "b")
    _put(pods, "a", 1)
    pods.remove(Key("ns", "b"))
    found = [(change.type, change.revision.key.name, change.revision.version) for change in pods.changes_since(start)]
    assert found == [(ChangeType.MODIFIED, "a", 3), (ChangeType.DELETED, "b", 4)]


def test_a_deletion_shows_the_last_object_at_the_version_of_the_deletion(pods: Collection) -> None:
    _put(pods, "a", 7)
    removed = pods.remove(Key("ns", "a"))
    assert removed.obj["value"] == 7
    assert removed.obj["metadata"]["resourceVersion"] == str(removed.version) == "2"


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


def test_a_view_walks_one_namespace_from_a_key_on(storage: Storage) -> None:
    pods = storage.collection("pods")
    for namespace in ("a", "b", "c"):
        for name in ("x", "y"):
            pods.put(Key(namespace, name), {"metadata": {"name": name, "namespace": namespace}})
    assert [r.key for r in pods.view().walk("b")] == [Key("b", "x"), Key("b", "y")]
    assert [r.key for r in pods.view().walk(None, Key("b", "x"))] == [Key("b", "y"), Key("c", "x"), Key("c", "y")]
    assert pods.view().count(None, Key("b", "x")) == 3
    assert pods.view().count("a", Key("b", "x")) == 0


def test_forgetting_the_history_expires_every_version_before_now(storage: Storage, pods: Collection) -> None:
    _put(pods, "a")
    storage.forget_history()
    assert pods.changes_since(1) == []
    with pytest.raises(Expired):
        pods.changes_since(0)


def test_observers_hear_every_write(storage: Storage, pods: Collection) -> None:
    heard: list[Change] = []
    storage.observers.append(heard.append)
    _put(pods, "a")
    _put(pods, "a", 1)
    assert [(change.collection, change.type) for change in heard] == [("pods", "ADDED"), ("pods", "MODIFIED")]


def test_what_tests_read_is_a_copy(storage: Storage, pods: Collection) -> None:
    _put(pods, "a", 1)
    found = storage.get("pods", "a", "ns")
    assert found is not None
    assert (found["kind"], found["apiVersion"]) == ("Pod", "v1")
    found["value"] = 2
    assert storage.list("pods", "ns")[0]["value"] == 1


async def test_until_returns_what_a_later_write_makes_true(storage: Storage, pods: Collection) -> None:
    waiting = asyncio.create_task(storage.until(lambda: storage.get("pods", "a", "ns")), name="waiting")
    await asyncio.sleep(0)
    _put(pods, "b")
    await asyncio.sleep(0)
    assert not waiting.done()
    _put(pods, "a")
    found = await waiting
    assert found is not None
    assert found["metadata"]["name"] == "a"


async def test_until_gives_up_in_time(storage: Storage) -> None:
    with pytest.raises(TimeoutError):
        await storage.until(lambda: False, timeout_s=0.01)
