"""The reflector against a server that cuts, stalls, forgets and lies: the sink's picture ends up true."""

from __future__ import annotations

import asyncio
import logging
import random
import re
from collections.abc import AsyncIterator, Callable

import msgspec
import pytest

from gcushare.core.backoff import BackoffPolicy
from gcushare.core.errors import RemoteContractError
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import SystemClock
from gcushare.kube.reflector import Reflector, ReflectorSettings
from gcushare.kube.resources import PODS
from gcushare.wire.objects import Pod
from tests.protocol.kube_collection import CollectionServer, collection
from tests.protocol.reflector_rig import DECODER, FAST, NotingClock, Picture, Running, following, streaming


@pytest.fixture
async def server() -> AsyncIterator[CollectionServer]:
    async with collection() as running:
        await running.put("a")
        await running.put("b")
        yield running


@pytest.fixture
async def running(server: CollectionServer) -> AsyncIterator[Running]:
    """A reflector that has listed the two, and whose watch is open."""
    async with streaming(server) as found:
        yield found


def decode_unbroken(raw: msgspec.Raw) -> Pod:
    """Decode a pod unless an annotation says that it is broken."""
    pod = DECODER.decode(raw)
    if "broken" in pod.metadata.annotations:
        raise RemoteContractError("cannot be read")
    return pod


async def test_a_list_is_followed_by_its_changes(server: CollectionServer) -> None:
    async with following(server) as running:
        await running.picture.shows("a", "b")
        await running.reflector.synced.wait()
        await server.put("c")
        await server.delete("a")
        await running.picture.shows("b", "c")
        await server.put("b", note="changed")
        await running.picture.until(lambda picture: picture.pods["uid-b"].metadata.annotations == {"note": "changed"})
        assert len(server.lists) == 1


async def test_the_selector_goes_with_lists_and_watches(server: CollectionServer) -> None:
    async with streaming(server):
        assert server.lists[0]["fieldSelector"] == server.watches[0]["fieldSelector"] == "spec.nodeName=n1"


async def test_synced_comes_only_with_the_last_page(server: CollectionServer) -> None:
    for name in "cde":
        await server.put(name)
    async with following(server) as running:
        assert not running.reflector.synced.is_set()
        assert running.reflector.age_s is None
        await running.reflector.synced.wait()
        assert running.picture.names == list("abcde")
        assert running.picture.retained_count == 1
        assert [each.get("continue") for each in server.lists] == [None, "1:2", "1:4"]
        assert running.reflector.age_s is not None


async def test_a_list_is_the_newest_state_unless_the_owner_accepts_a_cache(server: CollectionServer) -> None:
    async with following(server) as running:
        await running.reflector.synced.wait()
    cached = ReflectorSettings(from_cache=True, backoff=FAST)
    async with following(server, settings=cached) as running:
        await running.reflector.synced.wait()
    assert [each.get("resourceVersion") for each in server.lists] == [None, "0"]


async def test_a_cut_stream_is_resumed_where_it_broke(server: CollectionServer, running: Running) -> None:
    await server.put("c")
    await running.picture.shows("a", "b", "c")
    seen = running.reflector.version
    server.cut_streams()
    await server.put("d")
    await running.picture.shows("a", "b", "c", "d")
    assert len(server.lists) == 1
    assert server.watches[-1]["resourceVersion"] == seen
    # Nothing was reported twice: two listed, c and d watched.
    assert running.picture.applied_count == 4


async def test_a_stream_that_the_server_ends_is_resumed_and_no_failure(
    server: CollectionServer, running: Running
) -> None:
    await server.put("c")
    await running.picture.shows("a", "b", "c")
    await server.end_streams()
    await running.until(lambda: running.reflector.counters["watches"] == 2)
    assert running.reflector.counters["failures"] == 0
    assert len(server.lists) == 1


async def test_a_bookmark_moves_the_version_of_the_next_resume(server: CollectionServer, running: Running) -> None:
    await server.bookmark()
    await running.until(lambda: running.reflector.counters["bookmarks"] == 1)
    server.cut_streams()
    await running.until(lambda: len(server.watches) == 2)
    assert server.watches[1]["resourceVersion"] == str(server.version)
    assert running.picture.applied_count == 2


async def test_after_410_a_new_list_drops_what_went_away_meanwhile(server: CollectionServer, running: Running) -> None:
    server.silent = True
    server.forget("a")
    await server.put("c")
    server.compact()
    server.silent = False
    server.cut_streams()
    await running.picture.shows("b", "c")
    assert running.reflector.counters["gone"] == 1
    assert running.reflector.counters["lists"] == 2
    assert running.picture.deleted_count == 0


@pytest.mark.parametrize(
    ("refusals", "lists", "failures"),
    [
        pytest.param([(410, "Expired")], 2, 1, id="the version has gone: it lists again"),
        pytest.param([(503, "ServiceUnavailable")] * 4, 1, 4, id="away for a while: it asks again"),
        pytest.param([(504, "Timeout")] * 9, 2, 9, id="of the future, as after an etcd's restore: given up in the end"),
    ],
)
async def test_a_watch_that_is_refused_lists_again_only_where_its_version_is_of_no_use(
    server: CollectionServer, refusals: list[tuple[int, str]], lists: int, failures: int
) -> None:
    server.refuse_watches = refusals
    async with following(server) as running:
        await running.until(lambda: running.reflector.counters["watches"] == 1)
        assert running.reflector.counters["lists"] == len(server.lists) == lists
        assert running.reflector.counters["failures"] == failures


async def test_pages_that_expire_are_replaced_by_one_list_of_everything(server: CollectionServer) -> None:
    await server.put("c")
    server.gone_after_page = True
    async with following(server) as running:
        await running.reflector.synced.wait()
        assert running.picture.names == ["a", "b", "c"]
        assert [each.get("limit") for each in server.lists] == ["2", "2", None]


async def test_a_silent_stream_is_left_and_resumed(server: CollectionServer) -> None:
    settings = ReflectorSettings(backoff=FAST, stall_s=0.05)
    async with streaming(server, settings=settings) as running:
        server.silent = True
        await server.put("c")
        await running.until(lambda: running.reflector.counters["failures"] > 0)
        server.silent = False
        await running.picture.shows("a", "b", "c")
        assert len(server.lists) == 1


async def test_a_name_used_again_is_another_object(server: CollectionServer, running: Running) -> None:
    await server.delete("a")
    await server.put("a", uid="another")
    await running.picture.until(lambda picture: set(picture.pods) == {"another", "uid-b"})


async def test_a_replayed_history_changes_nothing(server: CollectionServer, running: Running) -> None:
    for change in list(server.history):
        await server.line(change.line)
    await server.put("c")
    await running.picture.shows("a", "b", "c")


@pytest.mark.parametrize(
    "line",
    [b"not json", b'{"type": "ADDED", "object": {"metadata": {"name": "x"}}}', b'{"type": "NEW", "object": {}}'],
    ids=["no json", "no version", "unknown type"],
)
async def test_a_broken_line_makes_it_list_again(server: CollectionServer, running: Running, line: bytes) -> None:
    await server.line(line)
    await running.until(lambda: running.reflector.counters["lists"] == 2)
    await running.streaming()
    await server.put("c")
    await running.picture.shows("a", "b", "c")
    assert running.reflector.counters["failures"] >= 1


async def test_one_unreadable_object_hides_no_other_and_is_not_forgotten(server: CollectionServer) -> None:
    async with streaming(server, decode=decode_unbroken) as running:
        await server.put("a", broken="yes")
        await server.put("c")
        await running.picture.shows("a", "b", "c")
        assert running.reflector.counters["undecodable"] == 1
        # Gone for good, it is dropped all the same, though its last state cannot be read.
        await server.delete("a")
        await running.picture.shows("b", "c")


async def test_the_log_says_what_was_listed_what_broke_and_when_it_is_tried_again(
    server: CollectionServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "gcushare.kube.reflector")
    server.refuse_watches = [(503, "ServiceUnavailable")]
    settings = ReflectorSettings(backoff=BackoffPolicy(first_s=0.3, cap_s=0.3))
    async with streaming(server, decode=decode_unbroken, settings=settings) as running:
        await server.put("a", broken="yes")
        await server.put("b", broken="yes")
        await running.until(lambda: running.reflector.counters["undecodable"] == 2)
    listed, broke, *left_out = [record.getMessage() for record in caplog.records]
    assert listed.startswith("listed resource=pods objects=2 version=")
    assert re.match(r"watch broke resource=pods retry_in_s=0\.\d\d? relist=False error=\"GET /api/v1/pods was", broke)
    assert [text.partition(" uid=")[0] for text in left_out] == [
        "left out an object resource=pods name=ns/a",
        "left out an object resource=pods name=ns/b",
    ]


async def test_a_server_that_asks_for_a_pause_gets_it(server: CollectionServer) -> None:
    clock = NotingClock()
    server.refuse_watches = [(429, "TooManyRequests")]
    server.retry_after_s = 7
    async with following(server, clock=clock) as running:
        await running.until(lambda: running.reflector.counters["watches"] == 1)
    assert clock.delays[:1] == [7.0]


async def test_streams_end_at_different_times(server: CollectionServer) -> None:
    settings = ReflectorSettings(backoff=FAST, watch_s=100.0)
    async with following(server, settings=settings) as running:
        counters = running.reflector.counters

        def have(least: int, events: int) -> Callable[[], bool]:
            return lambda: counters["watches"] >= least and counters["events"] >= events

        for number in range(1, 9):
            await running.until(have(number, number - 1))
            await server.put(f"p{number}")
            await running.until(have(number, number))
            await server.end_streams()
    asked = [int(each["timeoutSeconds"]) for each in server.watches]
    assert len(set(asked)) > 1
    assert all(75 <= seconds <= 125 for seconds in asked)


async def test_a_version_that_never_works_again_is_given_up(server: CollectionServer) -> None:
    # So a server answers whose cache never reaches the version.
    server.refuse_watches = [(504, "Timeout")] * 9
    async with following(server) as running:
        await running.until(lambda: running.reflector.counters["watches"] == 1)
        assert running.reflector.counters["lists"] == 2


@pytest.mark.parametrize("from_cache", [False, True])
async def test_a_restored_etcd_is_followed_again(server: CollectionServer, from_cache: bool) -> None:
    async with following(server, settings=ReflectorSettings(from_cache=from_cache, backoff=FAST)) as running:
        await running.picture.shows("a", "b")
        await running.streaming()
        server.restore(900, "b", "c")
        await running.picture.shows("b", "c")
        assert running.reflector.version == "900"


@pytest.mark.parametrize("from_cache", [False, True])
async def test_what_a_restored_etcd_lost_is_not_kept_once_its_version_has_passed(
    server: CollectionServer, from_cache: bool
) -> None:
    async with following(server, settings=ReflectorSettings(from_cache=from_cache, backoff=FAST)) as running:
        await running.picture.shows("a", "b")
        await running.streaming()
        server.restore(900, "b", "c")
        server.version = 5000
        await running.picture.shows("b", "c")


async def test_a_list_from_the_cache_gets_past_a_deletion_that_cannot_be_read(server: CollectionServer) -> None:
    cached = ReflectorSettings(from_cache=True, page_size=2, backoff=FAST)
    async with streaming(server, settings=cached, decode=decode_unbroken) as running:
        await server.put("a", broken="yes")
        await server.delete("a")
        await running.picture.shows("b")
        await server.put("c")
        await running.picture.shows("b", "c")


async def test_a_watch_that_is_never_allowed_has_lists_with_growing_pauses(server: CollectionServer) -> None:
    """Lists that work are no reason to ask at once again."""

    server.refuse_watches = [(403, "Forbidden")] * 1000
    clock = NotingClock()
    settings = ReflectorSettings(backoff=BackoffPolicy(first_s=1.0, cap_s=100.0))
    async with following(server, settings=settings, clock=clock) as running:
        await running.until(lambda: len(clock.delays) >= 8)
        assert min(clock.delays[6:8]) > 10 * max(clock.delays[:2])
        assert running.reflector.counters["lists"] >= 7


async def test_what_the_sink_raises_ends_the_reflector(server: CollectionServer) -> None:
    class Broken(Picture):
        def applied(self, obj: Pod) -> None:
            raise KeyError("a defect of the sink")

    async with KubeClient(server.config()) as client:
        reflector = Reflector(client, PODS, Broken(), decode=DECODER.decode, clock=SystemClock())
        with pytest.raises(KeyError, match="defect"):
            await reflector.run()


async def test_cancelling_it_leaves_no_task_behind(server: CollectionServer) -> None:
    before = asyncio.all_tasks()
    async with streaming(server) as running:
        running.task.cancel()
        await asyncio.wait([running.task])
        assert running.task.cancelled()
    await asyncio.sleep(0)
    ours = {task for task in asyncio.all_tasks() - before if "RequestHandler" not in repr(task)}
    assert ours == set()


async def test_the_picture_stays_true_through_a_storm_of_faults(server: CollectionServer) -> None:
    chance = random.Random(20260101)
    # A stream that is cut while it is being opened may stay silent without end: that ends by its silence, here soon.
    settings = ReflectorSettings(backoff=FAST, page_size=2, stall_s=0.5)
    async with following(server, settings=settings) as running:
        for number in range(200):
            name = f"p{chance.randrange(12)}"
            if name in server.objects and chance.random() < 0.4:
                await server.delete(name)
            else:
                await server.put(
                    name, uid=f"uid-{name}-{number}" if name not in server.objects else None, n=str(number)
                )
            match chance.randrange(12):
                case 0:
                    server.cut_streams()
                case 1:
                    server.compact()
                    server.cut_streams()
                case 2:
                    await server.end_streams()
                case _:
                    await asyncio.sleep(0)
        expected = {obj["metadata"]["uid"]: obj["metadata"]["resourceVersion"] for obj in server.objects.values()}
        await running.picture.until(
            lambda picture: {uid: pod.metadata.resource_version for uid, pod in picture.pods.items()} == expected
        )
