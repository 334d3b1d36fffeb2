"""What grows with the objects of a cluster has a limit, and what came of pods and nodes goes with them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest
from aiohttp import web

from gcushare.cluster.watch_handlers import NodeHandler, PodHandler
from gcushare.core.assignments import PodRef
from gcushare.core.other_resources import SpareResources
from gcushare.kube.clock import SystemClock
from gcushare.scheduler_extender.dashboard import reviewed_tokens
from gcushare.scheduler_extender.dashboard.feed import Feed
from gcushare.scheduler_extender.dashboard.feed_documents import MAX_LABELS
from gcushare.scheduler_extender.dashboard.metadata_cache import MetadataCache
from gcushare.scheduler_extender.explain import failed_scheduling_events, service
from gcushare.scheduler_extender.state import nominations, preferences
from gcushare.scheduler_extender.state.preferences import SpareObserver
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.scheduler_extender.verbs import pod_lookup
from gcushare.scheduler_extender.waking import waker
from gcushare.vendors import ENFLAME
from gcushare.wire.annotations import OVER_USE
from gcushare.wire.objects import Pod
from tests.extender_objects import a_node, a_pod, on_card, request_of, state_of
from tests.manual_clock import ManualClock
from tests.unit.extender_cluster import Cluster
from tests.unit.extender_waker import Bench
from tests.unit.noted_events import Noted
from tests.unit.test_dashboard_reviewed_tokens import Desk, asking


@pytest.mark.slow
async def test_only_so_many_pods_are_woken_without_an_answer() -> None:
    bench = Bench(200)
    bench.hold("x", 200)
    for number in range(200):
        bench.ask(f"p{number}", 1, creationTimestamp="2026-01-01T00:00:00Z")
    bench.end("x")
    async with bench.running():
        most = 0
        for _ in range(60):
            await bench.pass_(waker.CHECK_S)
            most = max(most, len(bench.waker.attempts))
    assert most == waker.MAX_ATTEMPTS


def test_the_reasons_of_the_last_choices_are_stored() -> None:
    state = state_of(a_node("node-1", 16))
    request = request_of(a_pod("a", 4))
    state.indexes.get(request.shape)
    standing = state.preferences.find_standing(request, "node-1")
    for number in range(preferences._MAX_CHOICES + 3):
        pod = PodRef(f"uid-{number}", "default", f"p{number}")
        state.preferences.record_choice(replace(request, pod=pod), "node-1", standing, named=1)
    assert len(state.preferences._choices) == preferences._MAX_CHOICES


@pytest.mark.slow
async def test_pods_without_cards_that_were_read_are_stored_up_to_a_number() -> None:
    names = [f"p{number}" for number in range(pod_lookup._MAX_WITHOUT_CARDS + 3)]
    bench = Bench(16)
    cluster = Cluster(*(a_pod(name, None) for name in names))
    lookup = pod_lookup.PodLookup([bench.state], cluster.client, bench.time.clock())
    for name in names:
        await bench.time.pass_(1 / pod_lookup.READS_PER_S)
        await lookup.read(PodRef(f"uid-{name}", "default", name))
    assert len(lookup._without_cards) == pod_lookup._MAX_WITHOUT_CARDS


async def test_explanations_are_stored_up_to_a_number() -> None:
    state = state_of(a_node("node-1", 16))
    explains = service.ExplainService(state)
    for number in range(service._MAX_KEPT + 3):
        state.pod_applied(a_pod(f"p{number}", 20 + number))
        await explains.explain("default", f"p{number}")
    assert len(explains._kept) == service._MAX_KEPT


def test_reported_pods_are_stored_up_to_a_number() -> None:
    state = state_of(a_node("node-1", 16))
    reporter = failed_scheduling_events.FailedSchedulingReporter(
        service.ExplainService(state), Noted(), clock=SystemClock()
    )
    request = request_of(a_pod("a", 20))
    for number in range(failed_scheduling_events._MAX_REMEMBERED + 3):
        reporter.on_refused(replace(request, pod=PodRef(f"uid-{number}", "default", f"p{number}")))
        reporter._queue.clear()  # As if it were reported.
    assert len(reporter._reported) == failed_scheduling_events._MAX_REMEMBERED


# As many tokens as are stored.
@pytest.mark.slow
async def test_reviewed_tokens_are_stored_up_to_a_number() -> None:
    clock = ManualClock(100.0)
    most = reviewed_tokens._MAX_REMEMBERED
    readers = {f"t-{number}": "jane" for number in range(most + 3)}
    guard = reviewed_tokens.TokenGuard(Desk(readers, frozenset({"jane"})).client, clock=clock)
    for token in (*readers, *(f"made-up-{number}" for number in range(most + 3))):
        clock.now_s += 1.0
        with suppress(web.HTTPUnauthorized):
            await guard.admit(asking(token))
    assert (len(guard._readers), len(guard._refusals), guard._asking) == (most, most, {})


def test_the_victims_of_a_nominee_are_stored_up_to_a_number() -> None:
    state = state_of(a_node("node-1", 16))
    victims = [f"uid-{number}" for number in range(nominations._MAX_VICTIMS + 3)]
    state.nominations.expect(request_of(a_pod("a", 4)), {"node-1": victims})
    ((_, nominee),) = state.nominations._nominees.items()
    assert len(nominee.victims) == nominations._MAX_VICTIMS


def test_the_page_stores_so_many_labels_of_a_pod() -> None:
    state = state_of(a_node("node-1", 16))
    feed = Feed([state])
    pod = a_pod("a", 4, labels={f"label-{number:03}": "x" for number in range(300)})
    for observer in (state, feed.metadata):
        observer.pod_applied(pod)
    assert len(feed.metadata.pods["uid-a"].labels) == MAX_LABELS


def sizes_of(value: object, path: str = "") -> Iterator[tuple[str, int]]:
    """The size of each collection that an object of the extender holds, by its path, without what is empty."""
    if isinstance(value, dict | set | list | frozenset):
        if value:
            yield path, len(value)
        return
    if not type(value).__module__.startswith("gcushare.scheduler_extender") and "gcushare.core" not in str(type(value)):
        return
    slots = getattr(type(value), "__slots__", ())
    for name in (*slots, *getattr(value, "__dict__", ())):
        if not name.endswith(("vendor", "policies", "_states", "_state", "_listeners", "_log", "changes", "_changes")):
            yield from sizes_of(getattr(value, name, None), f"{path}.{name}")


class Watched:
    """All that follows the watches, as the extender has it."""

    def __init__(self) -> None:
        self.bench = Bench(16)
        self.state = self.bench.state
        self.spare = SpareResources()
        self.feed = Feed([self.state])
        observers: list[SpareObserver | VendorState | MetadataCache] = [
            SpareObserver(self.spare),
            self.state,
            self.feed.metadata,
        ]
        self.nodes, self.pods = NodeHandler(observers), PodHandler(observers)

    def sizes(self) -> dict[str, int]:
        follows = {"spare": self.spare, "feed": self.feed, "nodes": self.nodes}
        owners = {"state": self.state, "waker": self.bench.waker, **follows}
        return {path: size for name, owner in owners.items() for path, size in sizes_of(owner, name)}

    async def show(self) -> None:
        """Read the page as a browser that follows it does; the documents are stored."""
        for key in (*self.feed._node_keys(), *self.feed._pod_keys()):
            self.feed._encode(key)


def pods_of(turn: int) -> list[Pod]:
    """A pod of every kind, under names that are new each turn."""
    damaged = a_pod(f"damaged-{turn}", 4, node=f"n-{turn}", annotations={ENFLAME.record.card_index: "no number"})
    over = '{"cards":{"0":{"used":9,"granted":4}},"since":"2026-11-22T03:00:00Z"}'
    return [
        a_pod(f"waiting-{turn}", 4, labels={f"label-{turn}": "x"}, namespace=f"team-{turn}"),
        a_pod(f"large-{turn}", 17),
        a_pod(f"unreadable-{turn}", "a lot"),
        a_pod(f"whole-{turn}", None, whole=1),
        a_pod(f"bound-{turn}", 4, node=f"n-{turn}", record=on_card(0, 4), annotations={OVER_USE: over}),
        a_pod(f"leaving-{turn}", 4, node=f"n-{turn}", record=on_card(0, 4), deletionTimestamp="2026-11-22T03:00:00Z"),
        a_pod(f"elsewhere-{turn}", 4, node=f"no-such-node-{turn}"),
        a_pod(f"bare-{turn}", None, node=f"n-{turn}"),
        a_pod(f"nominee-{turn}", 4, nominated=f"n-{turn}"),
        damaged,
    ]


async def churn(watched: Watched, turns: int, *, missed: bool) -> None:
    """Create and delete a node and its pods; ``missed``: deletions that only the next list shows."""
    for turn in range(turns):
        node = a_node(f"n-{turn}", 16)
        watched.nodes.applied(node)
        found = pods_of(turn)
        for pod in found:
            watched.pods.applied(pod)
            if (request := watched.state.find_request(pod.metadata.uid)) is not None:
                watched.bench.waker.on_refused(request)
                names = frozenset({f"n-{turn}"})
                for store in (
                    watched.state.refused_on,
                    watched.state.named_with_record,
                    watched.state.named_without_record,
                ):
                    store.record(pod.metadata.uid, names)
                watched.state.indexes.get(request.shape)
        await watched.show()
        if missed:
            watched.nodes.retained(frozenset(), "9")
            watched.pods.retained(frozenset(), "9")
        else:
            watched.nodes.deleted(node)
            for pod in found:
                watched.pods.deleted(pod)
        await watched.show()
        await watched.bench.pass_(waker.IDLE_CHECK_S + waker.CHECK_S)


@pytest.mark.slow
@pytest.mark.parametrize("missed", [False, True])
async def test_nothing_is_left_of_pods_and_nodes_that_are_gone(*, missed: bool) -> None:
    watched = Watched()
    async with watched.bench.running():
        await churn(watched, 1, missed=missed)
        after_one = watched.sizes()
        await churn(watched, 40, missed=missed)
    assert watched.sizes() == after_one
    filled = Watched()
    filled.nodes.applied(a_node("n-0", 16))
    for pod in pods_of(0):
        filled.pods.applied(pod)
    await filled.show()
    assert len(filled.sizes()) >= 15, "the walk reaches the collections that fill"
