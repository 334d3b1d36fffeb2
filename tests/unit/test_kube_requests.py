"""What the API client makes of odd answers, and of a watch's bytes however the network cuts them."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.cluster.watch_handlers import NodeHandler
from gcushare.core.assignments import PodRef
from gcushare.core.errors import ForbiddenError, GcushareError, NotFoundError, RemoteContractError, RetryableError
from gcushare.core.units import parse_memory_unit
from gcushare.device_plugin.claims.slice_publisher import SlicePublisher
from gcushare.kube.client import KubeClient
from gcushare.kube.collections import Gone, ObjectCache, WatchHandler
from gcushare.kube.connection.config import KubeConfig
from gcushare.kube.connection.watch_lines import MAX_LINE_BYTES, watch_events
from gcushare.kube.errors import (
    FailedRequest,
    GoneError,
    HttpFailure,
    NotAnApiServerError,
    UnauthorizedError,
    describe,
    error_of_answer,
)
from gcushare.kube.patches import Precondition, binding, delete_options, eviction
from gcushare.kube.resources import is_at_least
from gcushare.scheduler_extender.claims.template_plan import OWN_LABELS, TemplateKey, TemplatePlan
from gcushare.vendors import ENFLAME
from gcushare.wire.contracts import CLAIMS_ORDER_LABEL
from gcushare.wire.dra.claims import ResourceClaimTemplate, new_template
from gcushare.wire.dra.slices import ResourceSlice
from gcushare.wire.objects import Node, ObjectHead, ObjectMeta


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (TimeoutError(), "no answer in time"),
        (TimeoutError("late"), "TimeoutError: late"),
        (ValueError(), "ValueError"),
        (ValueError("a\n b"), "ValueError: a b"),
    ],
)
def test_a_librarys_exception_is_described_in_one_line(failure: Exception, expected: str) -> None:
    assert describe(failure) == expected


PAGE = b"\xef\xbb\xbf\n<!DOCTYPE html><html><head><title>Sign\n in</title></head></html>"
PODS_PATH, GROUP_PATH, PROXY_PATH = "/api/v1/pods", "/apis/resource.k8s.io/v1/deviceclasses", "/api/v1/pods/p/proxy/x"


@pytest.mark.parametrize(
    ("code", "path", "body", "expected"),
    [
        *((code, "/version", b"", NotAnApiServerError) for code in (301, 302, 307, 407)),
        *((code, PODS_PATH, PAGE, NotAnApiServerError) for code in (302, 400, 403, 404, 407, 413)),
        (400, PODS_PATH, b"Client sent an HTTP request to an HTTPS server.\n", NotAnApiServerError),
        (403, PODS_PATH, b"", NotAnApiServerError),
        (404, PODS_PATH, b"404 page not found\n", NotAnApiServerError),
        (404, PODS_PATH, b'{"detail": "Not Found"}', NotAnApiServerError),
        (404, GROUP_PATH, PAGE, NotAnApiServerError),
        (404, PROXY_PATH, PAGE, NotAnApiServerError),
        (404, GROUP_PATH, b"404 page not found\n", NotFoundError),
        (404, PROXY_PATH, b"404 page not found\n", NotFoundError),
        (401, PODS_PATH, PAGE, UnauthorizedError),
        (429, PODS_PATH, b"Too many requests, please try again later.\n", RetryableError),
        (502, PODS_PATH, PAGE, RetryableError),
    ],
)
def test_what_no_api_server_answers_is_not_taken_for_its_word(
    code: int, path: str, body: bytes, expected: type[GcushareError]
) -> None:
    error = error_of_answer(FailedRequest(f"GET {path}", writes=False), HttpFailure(code, body))
    assert type(error) is expected, str(error)
    assert ("a web page, 'Sign in'" in str(error)) == (body is PAGE)
    assert "<" not in str(error)


ATTEMPT = FailedRequest("GET /api/v1/pods", writes=False)


async def _chunks(parts: Iterable[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def _events(*parts: bytes) -> list[tuple[str, bytes]]:
    return [(event.type, bytes(event.object)) async for event in watch_events(_chunks(parts), ATTEMPT)]


@pytest.mark.slow
@given(st.lists(st.binary().map(bytes.hex), max_size=6), st.data())
def test_events_come_out_whole_however_they_are_cut(objects: list[str], data: st.DataObject) -> None:
    expected = [("ADDED", f'"{text}"'.encode()) for text in objects]
    stream = b"".join(b'{"type":"ADDED","object":%s}\n' % each for _, each in expected)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    pieces = [stream[start:end] for start, end in itertools.pairwise([0, *cuts, len(stream)])]
    assert asyncio.run(_events(*pieces)) == expected


async def test_an_unfinished_line_is_kept_back_and_empty_ones_are_left_out() -> None:
    assert await _events(b'{"type":"ADDED",', b'"object":1}') == []
    assert await _events(b'{"type":"ADDED",', b'"object":1}', b"\n\n \r\n") == [("ADDED", b"1")]


async def test_a_line_without_end_is_refused_before_it_fills_the_memory() -> None:
    parts = (b'{"type":"BOOKMARK","object":{}}\n' + b"y" * 60, b"y" * (MAX_LINE_BYTES - 60), b"y")
    events = watch_events(_chunks(parts), ATTEMPT)
    assert (await anext(events)).type == "BOOKMARK"
    with pytest.raises(RemoteContractError, match=f"longer than {MAX_LINE_BYTES} bytes"):
        await anext(events)


@pytest.mark.parametrize(
    ("code", "expected"), [(410, GoneError), (403, ForbiddenError), (500, RetryableError), (None, RetryableError)]
)
async def test_an_error_event_is_raised_as_the_error_of_its_status(
    code: int | None, expected: type[GcushareError]
) -> None:
    body = b'{"kind":"Status","message":"why"' + (b"" if code is None else b',"code":%d' % code) + b"}"
    with pytest.raises(expected, match="why"):
        await _events(b'{"type":"ERROR","object":' + body + b"}\n")


@pytest.mark.parametrize("line", [b"hello", b"{}", b'{"type":5,"object":{}}', b'{"type":"ERROR","object":[]}'])
async def test_a_line_that_is_no_event_breaks_the_contract(line: bytes) -> None:
    with pytest.raises(RemoteContractError, match="not a watch event"):
        await _events(line + b"\n")


@pytest.mark.parametrize(
    ("seen", "wanted", "reached"),
    [
        pytest.param("100", "100", True, id="equal"),
        pytest.param("101", "100", True, id="newer"),
        pytest.param("99", "100", False, id="older, though greater as text"),
        pytest.param("", "100", False, id="nothing seen"),
        pytest.param("", "", False, id="nothing reported"),
        pytest.param("abc", "abc", True, id="opaque and equal"),
        pytest.param("abd", "abc", False, id="opaque and different"),
        pytest.param("100", "abc", False, id="number against opaque"),
        pytest.param("٢٠٠", "100", False, id="digits of another script"),
    ],
)
def test_a_version_is_reached_or_cannot_be_known(seen: str, wanted: str, reached: bool) -> None:
    assert is_at_least(seen, wanted) is reached


NAMES = ("gcu-memory-1", "gcu-memory-2")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("write", "write", "delete", "watch", "watch", "relist", "answer", "answer")),
        st.integers(min_value=0, max_value=3),
    ),
    max_size=40,
)


@dataclass
class Server:
    """Objects by name, the events that the watch has not shown yet, and the answers that are under way."""

    make: Callable[[ObjectMeta], Any]
    objects: dict[str, Any] = field(default_factory=dict)
    events: list[tuple[str, Any]] = field(default_factory=list)
    answers: list[Any] = field(default_factory=list)
    version: int = 0
    born: int = 0

    def write(self, name: str) -> None:
        """Create or change an object; its answer comes some time."""
        self.version += 1
        if (before := self.objects.get(name)) is None:
            self.born += 1
        uid = f"uid-{self.born}" if before is None else before.metadata.uid
        labels = {**OWN_LABELS, CLAIMS_ORDER_LABEL: str(self.version % 10)}
        self.objects[name] = self.make(
            ObjectMeta(name=name, namespace="team", uid=uid, resource_version=str(self.version), labels=labels)
        )
        self.events.append(("applied", self.objects[name]))
        self.answers.append(self.objects[name])

    def delete(self, name: str) -> None:
        if name in self.objects:
            self.version += 1
            last = self.objects.pop(name)
            meta = ObjectMeta(
                name=name, namespace="team", uid=last.metadata.uid, resource_version=str(self.version), labels={}
            )
            self.events.append(("deleted", self.make(meta)))


def live(
    server: Server,
    handler: WatchHandler[Any],
    steps: list[tuple[str, int]],
    answered: Callable[[Any], object] | None,
    shown: Callable[[], set[str]] = set,
) -> None:
    """Play the steps, then let everything arrive. ``shown`` are the uids of the view: none that was seen deleted."""
    dead: set[str] = set()
    seen: set[str] = set()

    def watch() -> None:
        if server.events:
            kind, obj = server.events.pop(0)
            getattr(handler, kind)(obj)
            (dead if kind == "deleted" else seen).add(obj.metadata.uid)

    def relist(*, in_order: bool) -> None:
        listed = sorted(server.objects.values(), key=lambda obj: obj.metadata.uid, reverse=not in_order)
        for obj in listed:
            handler.applied(obj)
        uids = frozenset(obj.metadata.uid for obj in listed)
        handler.retained(uids, str(server.version))
        server.events.clear()
        dead.update(seen - uids)
        seen.update(uids)

    for kind, number in [*steps, *[("watch", 0)] * 100, *[("answer", 0)] * 100]:
        name = NAMES[number % len(NAMES)]
        match kind:
            case "write":
                server.write(name)
            case "delete":
                server.delete(name)
            case "watch":
                watch()
            case "relist":
                relist(in_order=number > 1)
            case "answer" if server.answers:
                obj = server.answers.pop(number % len(server.answers))
                if answered is not None:
                    answered(obj)
        assert not shown() & dead


def head(meta: ObjectMeta) -> ObjectHead:
    return ObjectHead(metadata=meta)


@given(STEPS)
def test_a_view_becomes_the_servers_and_each_change_is_reported_once(steps: list[tuple[str, int]]) -> None:
    reported: dict[str, str] = {}

    def on_change(before: ObjectHead | None, after: ObjectHead | None) -> None:
        if before is not None:
            assert reported.pop(before.metadata.name) == before.metadata.uid
        if after is not None:
            assert after.metadata.name not in reported, "the first is gone before the second comes"
            reported[after.metadata.name] = after.metadata.uid

    kept: ObjectCache[ObjectHead] = ObjectCache(on_change)
    server = Server(head)
    live(server, kept, steps, kept.answered, lambda: set(kept.objects))
    assert {obj.metadata.name: obj for obj in kept.objects.values()} == server.objects
    assert reported == {name: obj.metadata.uid for name, obj in server.objects.items()}


@pytest.mark.slow
@given(STEPS)
def test_templates_are_those_of_the_server(steps: list[tuple[str, int]]) -> None:
    plan = TemplatePlan([(ENFLAME, parse_memory_unit("1"))], 60.0, lambda: None)

    def make(meta: ObjectMeta) -> ResourceClaimTemplate:
        spec = plan.spec_of(TemplateKey("team", meta.name))
        assert spec is not None
        return ResourceClaimTemplate(metadata=meta, spec=new_template(meta.name, "team", {}, spec).spec)

    server = Server(make)
    live(server, plan.templates, steps, plan.templates.answered)
    found = {name: plan.existing.get(TemplateKey("team", name)) for name in NAMES}
    assert {name: obj for name, obj in found.items() if obj is not None} == server.objects
    assert len(plan) == len(server.objects)
    assert plan._count["team"] == len(server.objects)


class NamedNodes:
    """An observer that keeps nodes by name, as the extender's states do."""

    def __init__(self) -> None:
        self.nodes: dict[str, str] = {}

    def node_applied(self, node: Node) -> None:
        name, uid = node.metadata.name, node.metadata.uid
        assert self.nodes.get(name, uid) == uid, "the first is gone before the second comes"
        self.nodes[name] = uid

    def node_deleted(self, name: str) -> None:
        del self.nodes[name]


@given(STEPS)
def test_the_extenders_nodes_are_those_of_the_server(steps: list[tuple[str, int]]) -> None:
    found, server = NamedNodes(), Server(lambda meta: Node(metadata=meta))
    live(server, NodeHandler([found]), steps, None, lambda: set(found.nodes.values()))
    assert found.nodes == {name: obj.metadata.uid for name, obj in server.objects.items()}


@given(STEPS)
def test_a_publisher_knows_the_slices_of_the_server(steps: list[tuple[str, int]]) -> None:
    publisher = SlicePublisher(KubeClient(KubeConfig("http://127.0.0.1:1", "a test")), "d", "n", random.Random(1))
    server = Server(lambda meta: ResourceSlice(metadata=meta))
    live(server, publisher, steps, publisher._slices.answered)
    assert {each.metadata.name: each for each in publisher._slices.objects.values()} == server.objects


def meta(uid: str, version: str = "") -> ObjectHead:
    return head(ObjectMeta(name="a", uid=uid, resource_version=version))


@pytest.mark.parametrize("version", ["", "opaque-7"])
def test_versions_that_cannot_be_compared_bring_nothing_back(version: str) -> None:
    kept: ObjectCache[ObjectHead] = ObjectCache(lambda _before, _after: None)
    kept.applied(meta("first", version))
    kept.deleted(meta("first", version))
    assert not kept.answered(meta("first", version))
    assert kept.answered(meta("second", f"{version}-later"))
    kept.applied(meta("second", f"{version}-later"))
    kept.retained(frozenset(), f"{version}-listed")
    assert kept.objects == {}


def test_an_answer_of_before_the_list_that_lacks_its_object_is_ignored() -> None:
    """The object came and went while the watch was down: nothing but the list's version says so."""
    kept: ObjectCache[ObjectHead] = ObjectCache(lambda _before, _after: None)
    kept.retained(frozenset(), "20")
    assert not kept.answered(meta("late", "10"))
    assert kept.answered(meta("new", "21"))


def test_a_store_that_was_restored_brings_its_objects_back() -> None:
    kept: ObjectCache[ObjectHead] = ObjectCache(lambda _before, _after: None)
    kept.applied(meta("first", "9"))
    kept.deleted(meta("first", "10"))
    kept.applied(meta("first", "5"))
    kept.retained(frozenset({"first"}), "6")
    assert kept.objects.keys() == {"first"}
    assert kept.answered(meta("first", "7"))


def test_only_so_many_deleted_objects_are_remembered() -> None:
    gone = Gone(2)
    for uid in ("a", "b", "c"):
        gone.add(uid)
    assert [uid in gone for uid in ("a", "b", "c")] == [False, True, True]


def test_an_eviction_is_of_exactly_this_pod() -> None:
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "u"}}
    assert eviction(PodRef("u", "ns", "p"), "v1")["deleteOptions"] == options


def test_what_is_sent_to_bind_and_to_delete_is_what_the_api_server_reads() -> None:
    pod, target = PodRef("u", "team", "a"), {"apiVersion": "v1", "kind": "Node", "name": "n"}
    metadata = {"name": "a", "namespace": "team", "uid": "u", "resourceVersion": "7", "annotations": {"k": "v"}}
    sent = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
    assert binding(pod, "n", {"k": "v"}, "7") == sent
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "u"}}
    assert delete_options(Precondition(uid="u"), 5) == {**options, "gracePeriodSeconds": 5}
