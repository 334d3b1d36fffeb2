"""Fields of log lines: quoted wherever a reader could lose their end, so that the support bundle can cut them."""

from __future__ import annotations

import ast
import json
import logging
import random
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gcushare.cli.support_bundle.log_filter import cut_log
from gcushare.core.errors import GcushareError
from gcushare.core.lease_times import LeaseTimes
from gcushare.core.log_fields import fields
from gcushare.kube.client import PAGE_SIZE
from gcushare.kube.connection.watch_lines import RawWatchEvent
from gcushare.kube.election import LeaderElector
from gcushare.kube.errors import Attempt, HttpFailure, error_of_answer
from gcushare.kube.events import EventRecorder
from gcushare.kube.reflector import Reflector
from gcushare.kube.resources import EVERYTHING, PODS, Resource, Selector
from gcushare.runtime.logs import TextFormatter
from gcushare.wire.objects import POD, Event, Lease, LeaseSpec, ListOf, ObjectReference, Pod
from tests.documents import ROOT
from tests.running import running
from tests.unit.kube_time import VirtualTime

FORBIDDEN = (
    'pods is forbidden: User "alice" cannot list resource "pods" in API group "" at the cluster scope: '
    'RBAC: role "payroll" not found'
)
SECRETS = ("alice", "payroll")


def forbidden(request: str) -> GcushareError:
    """The error that an API server's refusal becomes."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "reason": "Forbidden"}
    return error_of_answer(
        Attempt(request, False), HttpFailure(403, json.dumps(body | {"message": FORBIDDEN}).encode())
    )


class RefusingServer:
    """An API server that refuses whatever is asked, as a cluster does without the RBAC rules."""

    name, namespace = "extender", "kube-system"

    async def pages(
        self,
        resource: Resource[Any],
        selector: Selector = EVERYTHING,
        *,
        page_size: int | None = PAGE_SIZE,
        not_older_than: str | None = None,
    ) -> AsyncGenerator[ListOf[msgspec.Raw], None]:
        raise forbidden("list pods")
        yield

    def watch(
        self,
        resource: Resource[Any],
        selector: Selector = EVERYTHING,
        *,
        resource_version: str,
        timeout_s: float,
        stall_s: float,
    ) -> AbstractAsyncContextManager[AsyncIterator[RawWatchEvent]]:
        raise forbidden("watch pods")

    async def newest_version(self, resource: Resource[Any], selector: Selector = EVERYTHING) -> str:
        raise forbidden("list pods")

    async def read(self, timeout_s: float) -> Lease:
        raise forbidden("get leases extender")

    async def create(self, lease: Lease, timeout_s: float) -> Lease:
        raise forbidden("create leases")

    async def write(self, spec: LeaseSpec, resource_version: str, timeout_s: float) -> Lease:
        raise forbidden("patch leases extender")

    async def create_event(self, event: Event) -> Event:
        raise forbidden("create events")

    async def repeat_event(self, name: str, namespace: str, *, count: int, message: str, last_timestamp: str) -> Event:
        raise forbidden("patch events")


class NoHandler:
    """Nothing is ever read here."""

    def applied(self, obj: Pod) -> None: ...

    def deleted(self, obj: Pod) -> None: ...

    def retained(self, uids: frozenset[str], version: str) -> None: ...


async def test_the_support_bundle_cuts_every_name_from_the_lines_of_refused_requests(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server, time = RefusingServer(), VirtualTime()
    clock = time.clock()
    reflector = Reflector(server, PODS, NoHandler(), decode=POD.read, clock=clock, rng=random.Random(1))
    elector = LeaderElector(server, "extender-1", times=LeaseTimes(10, 6.5, 1), clock=clock, rng=random.Random(1))
    recorder = EventRecorder(server, "extender", clock=clock)
    recorder.record(ObjectReference(kind="Node", name="node-1"), "Cordoned", "card 1")
    async with running(reflector.run(), "watch"), running(elector.run(), "lease"), running(recorder.run(), "events"):
        await time.pass_(1.0)

    lines = [TextFormatter().format(record) for record in caplog.records if record.levelno >= logging.WARNING]
    assert {line.split()[4] for line in lines} == {"watch", "lease", "event"}
    assert all(secret in line for line in lines for secret in SECRETS), "the negative control: the log itself has them"

    shared = cut_log("".join(f"{line}\n" for line in lines))
    assert len(shared.splitlines()) == len(lines)
    assert not [secret for secret in SECRETS if secret in shared]
    assert all("was answered 403" in line for line in shared.splitlines())


@pytest.mark.parametrize("value", ['a "b" c', "it's b", "two words", "", "a=b", "back\\slash", "line\nbreak"])
def test_a_value_ends_where_its_quotes_end(value: str) -> None:
    line = f"{fields(first=value, second=1)}"
    quoted, rest = re.fullmatch(r'first="((?:[^"\\]|\\.)*)" (.*)', line).groups()  # type: ignore[union-attr]
    assert rest == "second=1"
    assert quoted.replace("\\n", "\n").replace('\\"', '"').replace("\\\\", "\\") == value


def log_calls(file: Path) -> list[ast.Call]:
    return [
        call
        for call in ast.walk(ast.parse(file.read_text()))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id in {"log", "logger"}
    ]


def test_no_log_call_formats_a_field_itself() -> None:
    calls = {file: log_calls(file) for file in sorted((ROOT / "src").rglob("*.py"))}
    assert sum(map(len, calls.values())) > 100
    own = [
        f"{file.relative_to(ROOT)}:{text.lineno} {text.value!r}"
        for file, found in calls.items()
        for call in found
        for argument in call.args
        for text in ast.walk(argument)
        if isinstance(text, ast.Constant) and isinstance(text.value, str) and re.search(r"\w=(%|\{|$)", text.value)
    ]
    assert own == [], "use gcushare.core.log_fields.fields, which quotes what needs it"
