"""The reflector against a server that cuts, stalls, forgets and lies: the sink's picture ends up true."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from functools import partial

import msgspec
import pytest

from gcushare.core.backoff import BackoffPolicy
from gcushare.core.errors import ForbiddenError, RemoteContractError
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


async def test_a_bookmark_moves_the_version_of_the_next_resume_and_a_proper_end_is_no_failure(
    server: CollectionServer, running: Running
) -> None:
    await server.bookmark()
    await running.until(lambda: running.reflector.counters["bookmarks"] == 1)
    for opened in range(2, 9):
        await server.end_streams()
        await running.until(partial(lambda opened: running.reflector.counters["watches"] == opened, opened))
        assert server.watches[-1]["resourceVersion"] == str(server.version)
        await server.put("c")  # An event, without which streams that end at once are retried slowly.
        await running.until(lambda: running.reflector.version == str(server.version))
    assert (len(server.lists), running.reflector.counters["failures"]) == (1, 0)
    asked = [int(each["timeoutSeconds"]) for each in server.watches]
    assert len(set(asked)) > 1, "not all end at the same time"
    assert all(225 <= seconds <= 375 for seconds in asked)


async def test_pages_that_expire_are_replaced_by_one_list_of_everything(server: CollectionServer) -> None:
    await server.put("c")
    server.gone_after_page = True
    async with following(server) as running:
        await running.reflector.synced.wait()
        assert running.picture.names == ["a", "b", "c"]
        assert [each.get("limit") for each in server.lists] == ["2", "2", None]
    server.lists.clear()
    server.cut_lists_of_all = 1
    async with following(server) as running:
        await running.reflector.synced.wait()
        assert [each.get("limit") for each in server.lists] == ["2", "2", None, "2", "2", None], "not at once for good"


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


async def test_a_silent_stream_is_left_and_resumed(server: CollectionServer) -> None:
    async with streaming(server, settings=ReflectorSettings(backoff=FAST, stall_s=0.05)) as running:
        server.silent = True
        await running.until(lambda: running.reflector.counters["failures"] > 0)
        assert len(server.lists) == 1


async def test_one_unreadable_object_hides_no_other_and_is_not_forgotten(server: CollectionServer) -> None:
    async with streaming(server, decode=decode_unbroken) as running:
        await server.put("a", broken="yes")
        await server.put("c")
        await running.picture.shows("a", "b", "c")
        assert (running.reflector.counters["undecodable"], running.reflector.counters["events"]) == (1, 2)
        # Gone for good, it is dropped all the same, though its last state cannot be read.
        await server.delete("a")
        await running.picture.shows("b", "c")


async def test_a_server_that_asks_for_a_pause_gets_it(server: CollectionServer) -> None:
    clock = NotingClock()
    server.refuse_watches = [(429, "TooManyRequests")]
    server.retry_after_s = 7
    async with following(server, clock=clock) as running:
        await running.until(lambda: running.reflector.counters["watches"] == 1)
    assert clock.delays[:1] == [7.0]


@pytest.mark.parametrize("from_cache", [False, True])
@pytest.mark.parametrize("version", [900, 5000], ids=["of before", "past the last one seen"])
async def test_a_restored_etcd_is_followed_again(server: CollectionServer, version: int, from_cache: bool) -> None:
    async with streaming(server, settings=ReflectorSettings(from_cache=from_cache, backoff=FAST)) as running:
        server.restore(900, "b", "c")
        server.version = version
        await running.picture.shows("b", "c")
        assert running.reflector.version == str(version)


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


async def test_catching_up_costs_no_list_when_the_watch_is_there(server: CollectionServer, running: Running) -> None:
    await server.put("c")
    await running.picture.shows("a", "b", "c")
    await running.reflector.catch_up()
    assert running.reflector.counters["lists"] == 1
    # One object of the newest state reported the version.
    assert (server.lists[-1]["limit"], server.lists[-1].get("resourceVersion")) == ("1", None)


ASKING = ReflectorSettings(backoff=FAST, page_size=2, ask_above_s=0.0)
"""As if a list took long."""


async def test_catching_up_with_a_long_list_asks_a_new_stream_where_the_collection_stands(
    server: CollectionServer,
) -> None:
    async with streaming(server, settings=ASKING) as running:
        server.version += 5  # Others wrote other things: no event of ours will ever carry this version.
        catching_up = asyncio.create_task(running.reflector.catch_up())
        await running.until(lambda: server.watches[-1]["timeoutSeconds"] == "3")
        assert not catching_up.done()
        await server.bookmark()
        await catching_up
        assert (running.reflector.counters["lists"], running.reflector.counters["failures"]) == (1, 0)
        await server.end_streams()
        await running.until(lambda: server.watches[-1]["timeoutSeconds"] != "3")
        await server.put("c")
        await running.picture.shows("a", "b", "c")


async def test_catching_up_does_not_wait_for_the_pause_after_failures(server: CollectionServer) -> None:
    patient = ReflectorSettings(backoff=BackoffPolicy(first_s=3600, cap_s=3600), page_size=2)
    async with streaming(server, settings=patient) as running:
        server.refuse_watches.append((500, "InternalError"))
        server.cut_streams()
        await running.until(lambda: running.reflector.counters["failures"] > 0)
        await server.put("c")
        await running.reflector.catch_up()
        assert running.picture.names == ["a", "b", "c"]


async def test_catching_up_goes_by_lists_if_versions_tell_no_order(server: CollectionServer, running: Running) -> None:
    server.opaque = True
    await asyncio.gather(running.reflector.catch_up(), running.reflector.catch_up())
    # The first call made the others list again; that list answers every call from before it began.
    assert 2 <= running.reflector.counters["lists"] <= 3


async def test_many_may_catch_up_at_once(server: CollectionServer, running: Running) -> None:
    """Two that are out of patience in one moment both end the reflector's turn."""
    server.silent = True
    await server.put("c")
    await asyncio.gather(*(running.reflector.catch_up() for _ in range(30)))
    assert running.picture.names == ["a", "b", "c"]


async def test_catching_up_fails_when_the_version_is_not_reported(server: CollectionServer, running: Running) -> None:
    server.refuse_lists.append((403, "Forbidden"))
    with pytest.raises(ForbiddenError):
        await running.reflector.catch_up()
    await server.put("c")
    await running.picture.shows("a", "b", "c")
