"""Reads parts of the cluster for the doctor: a bounded number at a time, and never stopped by what cannot be read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from gcushare.cluster.diagnosis.facts import Area, ClockFacts, Unread
from gcushare.cluster.endpoints import Endpoint
from gcushare.core.errors import GcushareError, NotFoundError
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock
from gcushare.kube.resources import Resource

T = TypeVar("T")

AT_ONCE = 24
"""Questions under way at once: a thousand plugins answer within seconds, and no API server notices."""

ANSWER_S = 5.0
"""How long a program may take to answer; they answer in milliseconds."""

Progress = Callable[[str], None]
"""Called with what is being done."""

_REVIEWS: Resource[dict[str, Any]] = Resource(
    "apis/authorization.k8s.io/v1", "selfsubjectaccessreviews", dict, namespaced=False
)
_ADMISSION, _COORDINATION = "admissionregistration.k8s.io", "coordination.k8s.io"


@dataclass(frozen=True, slots=True)
class Right:
    """A right that a part of the examination needs; ``namespace`` empty means everywhere."""

    part: Area
    verb: str
    resource: str
    namespace: str = ""
    group: str = ""

    def __str__(self) -> str:
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}{'.' + self.group if self.group else ''}{where}"

    def review(self) -> dict[str, Any]:
        """The question whether the caller has it."""
        resource, _, subresource = self.resource.partition("/")
        attributes = {
            "verb": self.verb,
            "group": self.group,
            "resource": resource,
            "subresource": subresource,
            "namespace": self.namespace,
        }
        return {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {key: value for key, value in attributes.items() if value}},
        }


def needed_rights(namespace: str) -> tuple[Right, ...]:
    """Everything that is read; ``namespace`` is where the extender is installed."""
    return (
        Right(Area.NODES, "list", "nodes"),
        Right(Area.PODS, "list", "pods"),
        Right(Area.PLUGINS, "get", "pods/proxy", namespace),
        Right(Area.EXTENDER, "get", "services/proxy", namespace),
        Right(Area.SERVICE, "get", "services", namespace),
        Right(Area.CONFIG_MAPS, "get", "configmaps", namespace),
        Right(Area.LEASES, "get", "leases", namespace, _COORDINATION),
        Right(Area.POLICIES, "list", "validatingadmissionpolicies", group=_ADMISSION),
        Right(Area.POLICIES, "list", "validatingadmissionpolicybindings", group=_ADMISSION),
        Right(Area.SECRETS, "get", "secrets", namespace),
    )


@dataclass(frozen=True, slots=True)
class Dated:
    """An answer with the clock of whoever gave it: ahead of ours by ``ahead_s``, give or take ``within_s``."""

    body: bytes
    ahead_s: float | None = None
    within_s: float = 0.0


@dataclass(slots=True)
class Reader:
    """Asks one API server. ``unread`` is what could not be read, ``ahead_s`` the server's clock against ours."""

    client: KubeClient
    clock: Clock
    progress: Progress
    unread: list[Unread] = field(default_factory=list)
    ahead_s: float = 0.0
    within_s: float = 0.0
    _missing: set[Area] = field(default_factory=set)
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    def now(self) -> datetime:
        """The API server's time."""
        return self.clock.now() + timedelta(seconds=self.ahead_s)

    async def begin(self, rights: Sequence[Right]) -> bytes:
        """Learn the server's time and which rights the caller lacks; returns the body of /version.

        Where the API server does not say whether a right is there, the attempt itself will show it.
        """

        async def is_missing(right: Right) -> bool:
            try:
                answer = await self.client.create(_REVIEWS, right.review())
            except GcushareError:
                return False
            status = answer.get("status")
            return isinstance(status, dict) and status.get("allowed") is False

        self.progress("asking the API server")
        hello = await dated(self.client, self.clock, "/version", "version")
        self.ahead_s, self.within_s = hello.ahead_s or 0.0, hello.within_s
        answers = await asyncio.gather(*(is_missing(right) for right in rights))
        for right in (right for right, missing in zip(rights, answers, strict=True) if missing):
            self._missing.add(right.part)
            self.unread.append(Unread(right.part, "the right is missing", str(right)))
        return hello.body

    def may_read(self, part: Area) -> bool:
        """Whether no right for it is missing."""
        return part not in self._missing

    async def attempt(self, part: Area, read: Callable[[], Awaitable[T]], default: T) -> T:
        """Read a part; what cannot be read is noted, and ``default`` taken. Nothing is tried without its right."""
        if not self.may_read(part):
            return default
        try:
            async with self._slots:
                return await read()
        except NotFoundError:
            return default
        except GcushareError as failure:
            self.unread.append(Unread(part, str(failure)))
        return default

    async def ask(self, endpoint: Endpoint, path: str) -> Dated:
        """Ask a program over HTTP. Raises the errors of ``gcushare.kube``."""
        async with self._slots:
            return await dated(endpoint.client, self.clock, f"{endpoint.prefix}{path}", endpoint.resource or "address")

    def clock_of(self, subject: str, answer: Dated) -> tuple[ClockFacts, ...]:
        """How far the clock behind an answer is ahead of the API server's."""
        if answer.ahead_s is None:
            return ()
        within_s = answer.within_s + self.within_s
        return (ClockFacts(subject=subject, ahead_s=answer.ahead_s - self.ahead_s, within_s=within_s),)


async def dated(client: KubeClient, clock: Clock, path: str, words: str) -> Dated:
    """Read an answer with its Date; the header counts whole seconds, so half a second is added."""
    sent, began = clock.now(), clock.monotonic()
    body, date = await client.get_dated(path, words, timeout_s=ANSWER_S)
    took_s = clock.monotonic() - began
    moment = parse_date(date)
    if moment is None:
        return Dated(body)
    middle = sent + timedelta(seconds=took_s / 2)
    return Dated(body, (moment - middle).total_seconds() + 0.5, 0.5 + took_s / 2)


def parse_date(text: str) -> datetime | None:
    """Read a Date header; None for none. ``-0000`` is UTC, of a sender that does not say its zone (RFC 5322, 3.3)."""
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
