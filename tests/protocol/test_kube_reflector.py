"""The reflector against a server that cuts, stalls, forgets and lies: the sink's picture ends up true."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec
import pytest

from gcushare.core.errors import ForbiddenError, RemoteContractError
from gcushare.kube.client import KubeClient
from gcushare.kube.pacing import BackoffPolicy
from gcushare.kube.reflector import Reflector, ReflectorSettings
from gcushare.kube.resources import PODS, Selector
from gcushare.wire.objects import Pod
from tests.protocol.kube_collection import CollectionServer, collection

FAST = BackoffPolicy(first_s=0.005, cap_s=0.02)
_decoder = msgspec.json.Decoder(Pod)


@dataclass
class Picture:
    """A sink as the programs write them: pods by uid, applying replaces. Counts what it was told."""

    pods: dict[str, Pod] = field(default_factory=dict)
    applied_count: int = 0
    deleted_count: int = 0
    retained_count: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def applied(self, obj: Pod) -> None:
        self.pods[obj.metadata.uid] = obj
        self.applied_count += 1
        self._changed.set()

    def deleted(self, obj: Pod) -> None:
        self.pods.pop(obj.metadata.uid, None)
        self.deleted_count += 1
        self._changed.set()

    def retained(self, uids: frozenset[str], version: str) -> None:
        self.pods = {uid: pod for uid, pod in self.pods.items() if uid in uids}
        self.retained_count += 1
        self._changed.set()

    @property
    def names(self) -> list[str]:
        return sorted(pod.metadata.name for pod in self.pods.values())

    async def until(self, condition: Callable[[Picture], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition(self):
                self._changed.clear()
                await self._changed.wait()

    async def shows(self, *names: str) -> None:
        await self.until(lambda picture: picture.names == sorted(names))


@dataclass
class Running:
    """A reflector at work and everything around it."""

    server: CollectionServer
    picture: Picture
    reflector: Reflector[Pod]
    task: asyncio.Task[None]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something that tells nobody when it comes; ends early when the reflector ended."""
        async with asyncio.timeout(60):
            while not condition() and not self.task.done():  # noqa: ASYNC110 - counters tell nobody that they changed
                await asyncio.sleep(0.002)

    async def streaming(self) -> None:
        await self.until(lambda: len(self.server.watches) > 0 and self.reflector.counters.watches > 0)


@pytest.fixture
async def server() -> AsyncIterator[CollectionServer]:
    async with collection() as running:
        await running.put("a")
        await running.put("b")
        yield running


@asynccontextmanager
async def following(
    server: CollectionServer,
    *,
    settings: ReflectorSettings | None = None,
    decode: Callable[[msgspec.Raw], Pod] = _decoder.decode,
) -> AsyncIterator[Running]:
    picture = Picture()
    async with KubeClient(server.config()) as client:
        reflector = Reflector(
            client,
            PODS,
            picture,
            decode=decode,
            selector=Selector(fields="spec.nodeName=n1"),
            settings=settings or ReflectorSettings(backoff=FAST, page_size=2),
            rng=random.Random(7),
        )
        task = asyncio.create_task(reflector.run(), name="reflector under test")
        try:
            yield Running(server, picture, reflector, task)
        finally:
            task.cancel()
            await asyncio.wait([task])


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
    async with following(server) as running:
        await running.streaming()
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


async def test_a_cut_stream_is_resumed_where_it_broke(server: CollectionServer) -> None:
    async with following(server) as running:
        await running.streaming()
        await server.put("c")
        await running.picture.shows("a", "b", "c")
        seen = running.reflector.version
        server.cut_streams()
        await server.put("d")
        await running.picture.shows("a", "b", "c", "d")
        assert len(server.lists) == 1
        assert server.watches[-1]["resourceVersion"] == seen
        # Nothing was told twice: two listed, c and d watched.
        assert running.picture.applied_count == 4


async def test_a_stream_that_the_server_ends_is_resumed_without_being_a_failure(server: CollectionServer) -> None:
    async with following(server) as running:
        await running.streaming()
        await server.put("c")
        await running.picture.shows("a", "b", "c")
        await server.end_streams()
        await running.until(lambda: running.reflector.counters.watches == 2)
        assert running.reflector.counters.failures == 0
        assert len(server.lists) == 1


async def test_a_bookmark_moves_the_version_that_a_resume_starts_from(server: CollectionServer) -> None:
    async with following(server) as running:
        await running.streaming()
        await server.bookmark()
        await running.until(lambda: running.reflector.counters.bookmarks == 1)
        server.cut_streams()
        await running.until(lambda: len(server.watches) == 2)
        assert server.watches[1]["resourceVersion"] == str(server.version)
        assert running.picture.applied_count == 2


async def test_after_410_a_new_list_drops_what_went_away_meanwhile(server: CollectionServer) -> None:
    async with following(server) as running:
        await running.streaming()
        server.silent = True
        server.forget("a")
        await server.put("c")
        server.compact()
        server.silent = False
        server.cut_streams()
        await running.picture.shows("b", "c")
        assert running.reflector.counters.gone == 1
        assert running.reflector.counters.lists == 2
        assert running.picture.deleted_count == 0


async def test_a_watch_refused_with_410_lists_again_too(server: CollectionServer) -> None:
    server.refuse_watches = [(410, "Expired")]
    async with following(server) as running:
        await running.until(lambda: running.reflector.counters.watches == 1)
        assert running.reflector.counters.lists == 2


async def test_pages_that_expire_are_replaced_by_one_list_of_everything(server: CollectionServer) -> None:
    await server.put("c")
    server.gone_after_page = True
    async with following(server) as running:
        await running.reflector.synced.wait()
        assert running.picture.names == ["a", "b", "c"]
        assert [each.get("limit") for each in server.lists] == ["2", "2", None]


async def test_a_silent_stream_is_left_and_resumed(server: CollectionServer) -> None:
    settings = ReflectorSettings(backoff=FAST, stall_s=0.05)
    async with following(server, settings=settings) as running:
        await running.streaming()
        server.silent = True
        await server.put("c")
        await running.until(lambda: running.reflector.counters.failures > 0)
        server.silent = False
        await running.picture.shows("a", "b", "c")
        assert len(server.lists) == 1


async def test_a_name_used_again_is_another_object(server: CollectionServer) -> None:
    async with following(server) as running:
        await running.streaming()
        await server.delete("a")
        await server.put("a", uid="another")
        await running.picture.until(lambda picture: set(picture.pods) == {"another", "uid-b"})


async def test_a_replayed_history_changes_nothing(server: CollectionServer) -> None:
    async with following(server) as running:
        await running.streaming()
        for change in list(server.history):
            await server.line(change.line)
        await server.put("c")
        await running.picture.shows("a", "b", "c")


@pytest.mark.parametrize(
    "line",
    [b"not json", b'{"type": "ADDED", "object": {"metadata": {"name": "x"}}}', b'{"type": "NEW", "object": {}}'],
    ids=["no json", "no version", "unknown type"],
)
async def test_a_broken_line_makes_it_list_again(server: CollectionServer, line: bytes) -> None:
    async with following(server) as running:
        await running.streaming()
        await server.line(line)
        await running.until(lambda: running.reflector.counters.lists == 2)
        await running.streaming()
        await server.put("c")
        await running.picture.shows("a", "b", "c")
        assert running.reflector.counters.failures >= 1


async def test_one_unreadable_object_hides_no_other_and_is_not_forgotten(server: CollectionServer) -> None:
    def decode(raw: msgspec.Raw) -> Pod:
        pod = _decoder.decode(raw)
        if "broken" in pod.metadata.annotations:
            raise RemoteContractError("cannot be read")
        return pod

    async with following(server, decode=decode) as running:
        await running.streaming()
        await server.put("a", broken="yes")
        await server.put("c")
        await running.picture.shows("a", "b", "c")
        assert running.reflector.counters.undecodable == 1
        # Gone for good, it is dropped all the same, though its last state cannot be read.
        await server.delete("a")
        await running.picture.shows("b", "c")


async def test_a_server_away_for_a_while_is_asked_with_growing_pauses_until_it_is_back(
    server: CollectionServer,
) -> None:
    server.refuse_watches = [(503, "ServiceUnavailable")] * 4
    async with following(server) as running:
        await running.until(lambda: running.reflector.counters.watches == 1)
        assert running.reflector.counters.failures == 4
        assert len(server.lists) == 1


async def test_a_version_that_never_works_again_is_given_up(server: CollectionServer) -> None:
    # A restored etcd answers so to a version from its future.
    server.refuse_watches = [(504, "Timeout")] * 9
    async with following(server) as running:
        await running.until(lambda: running.reflector.counters.watches == 1)
        assert running.reflector.counters.lists == 2


async def test_what_the_sink_raises_ends_the_reflector(server: CollectionServer) -> None:
    class Broken(Picture):
        def applied(self, obj: Pod) -> None:
            raise KeyError("a defect of the sink")

    async with KubeClient(server.config()) as client:
        reflector = Reflector(client, PODS, Broken(), decode=_decoder.decode)
        with pytest.raises(KeyError, match="defect"):
            await reflector.run()


async def test_cancelling_it_leaves_no_task_behind(server: CollectionServer) -> None:
    before = asyncio.all_tasks()
    async with following(server) as running:
        await running.streaming()
        running.task.cancel()
        await asyncio.wait([running.task])
        assert running.task.cancelled()
    await asyncio.sleep(0)
    ours = {task for task in asyncio.all_tasks() - before if "RequestHandler" not in repr(task)}
    assert ours == set()


async def test_the_picture_stays_true_through_a_storm_of_faults(server: CollectionServer) -> None:
    chance = random.Random(20260101)
    # A stream that is cut while it is being opened may stay silent for ever: that ends by its silence, here soon.
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


async def test_catching_up_costs_no_list_when_the_watch_is_there_already(server: CollectionServer) -> None:
    async with following(server) as running:
        await running.streaming()
        await server.put("c")
        await running.picture.shows("a", "b", "c")
        await running.reflector.catch_up()
        assert running.reflector.counters.lists == 1
        # One object of the newest state told the version.
        assert (server.lists[-1]["limit"], server.lists[-1].get("resourceVersion")) == ("1", None)


async def test_catching_up_lists_anew_when_the_stream_is_half_open(server: CollectionServer) -> None:
    async with following(server) as running:
        await running.streaming()
        server.silent = True
        await server.put("c")
        await server.delete("a")
        await running.reflector.catch_up()
        assert running.picture.names == ["b", "c"]
        assert running.reflector.counters.failures == 0
        server.silent = False
        await server.put("d")
        await running.picture.shows("b", "c", "d")


ASKING = ReflectorSettings(backoff=FAST, page_size=2, ask_above_s=0.0)
"""As if a list took long."""


async def test_catching_up_with_a_long_list_asks_a_new_stream_where_the_collection_stands(
    server: CollectionServer,
) -> None:
    async with following(server, settings=ASKING) as running:
        await running.streaming()
        server.version += 5  # Others wrote other things: no event of ours will ever carry this version.
        catching_up = asyncio.create_task(running.reflector.catch_up())
        await running.until(lambda: server.watches[-1]["timeoutSeconds"] == "3")
        assert not catching_up.done()
        await server.bookmark()
        await catching_up
        assert (running.reflector.counters.lists, running.reflector.counters.failures) == (1, 0)
        await server.end_streams()
        await running.until(lambda: server.watches[-1]["timeoutSeconds"] != "3")
        await server.put("c")
        await running.picture.shows("a", "b", "c")


async def test_catching_up_lists_where_no_bookmark_comes_in_time(server: CollectionServer) -> None:
    async with following(server, settings=ASKING) as running:
        await running.streaming()
        server.silent = True
        await server.put("c")
        await running.reflector.catch_up()
        assert running.picture.names == ["a", "b", "c"]
        assert running.reflector.counters.lists == 2


async def test_catching_up_does_not_wait_for_the_pause_after_failures(server: CollectionServer) -> None:
    patient = ReflectorSettings(backoff=BackoffPolicy(first_s=3600, cap_s=3600), page_size=2)
    async with following(server, settings=patient) as running:
        await running.streaming()
        server.refuse_watches.append((500, "InternalError"))
        server.cut_streams()
        await running.until(lambda: running.reflector.counters.failures > 0)
        await server.put("c")
        await running.reflector.catch_up()
        assert running.picture.names == ["a", "b", "c"]


async def test_catching_up_goes_by_the_list_where_versions_tell_no_order(server: CollectionServer) -> None:
    async with following(server) as running:
        await running.streaming()
        server.opaque = True
        await asyncio.gather(running.reflector.catch_up(), running.reflector.catch_up())
        # The first had the others list anew; whoever asked before that list began is served by it.
        assert 2 <= running.reflector.counters.lists <= 3


async def test_catching_up_fails_when_the_version_is_not_told(server: CollectionServer) -> None:
    async with following(server) as running:
        await running.streaming()
        server.refuse_lists.append((403, "Forbidden"))
        with pytest.raises(ForbiddenError):
            await running.reflector.catch_up()
        await server.put("c")
        await running.picture.shows("a", "b", "c")
