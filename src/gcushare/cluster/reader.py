"""The one reader of a cluster: lists objects and asks programs through the API server, for every command for people.

Requests are bounded in number. A part without its right is not tried, and what cannot be read never stops the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, TypeVar

import msgspec

from gcushare.cluster.programs import PLUGIN_PODS, ProgramAddress, SeenPod, is_plugin, proxied_pod
from gcushare.cluster.rights import Area, Unread
from gcushare.core.errors import ForbiddenError, GcushareError, NotFoundError, RemoteContractError
from gcushare.kube.client import PAGE_SIZE, KubeClient
from gcushare.kube.clock import Clock, SystemClock
from gcushare.kube.errors import GoneError, UnauthorizedError
from gcushare.kube.resources import EVERYTHING, NODES, PODS, Resource, Selector
from gcushare.vendors.vendor import Vendor
from gcushare.wire.documents.plugin_status import PLUGIN_STATUS, PluginStatus
from gcushare.wire.objects import HEAD, NODE, POD, Node, Pod

T = TypeVar("T")

AT_ONCE = 24
"""Requests under way at once: a thousand plugins answer within seconds, and no API server notices."""

ANSWER_S = 5.0
"""How long a program may take to answer; they answer in milliseconds."""


UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"


@dataclass(frozen=True, slots=True)
class Scope:
    """Which nodes: all, one by name, or those with these labels."""

    node: str | None = None
    labels: str = ""

    @property
    def is_partial(self) -> bool:
        return self.node is not None or bool(self.labels)

    def selectors(self) -> tuple[Selector, Selector]:
        """Of nodes, and of unfinished pods that may hold or want cards there."""
        if self.node is None:
            return Selector(labels=self.labels), Selector(fields=UNFINISHED)
        return Selector(fields=f"metadata.name={self.node}"), Selector(fields=f"{UNFINISHED},spec.nodeName={self.node}")


def asking_texts(vendor: Vendor) -> tuple[bytes, ...]:
    """One of these occurs in the JSON of every pod that requests cards of this vendor.

    They are its resources, after the slash: the slash itself may be escaped in JSON. The request of a pod with claims
    may stand in the claims alone.
    """
    names = (vendor.memory_resource, vendor.whole_card_resource)
    return (*(name.rpartition("/")[2].encode() for name in names), b'"resourceClaims"')


def claim_texts(vendor: Vendor) -> tuple[bytes, ...]:
    """One of these occurs in the JSON of every claim for cards of this vendor."""
    names = vendor.claims
    return tuple(name.encode() for name in (names.driver, names.memory_class, names.whole_class))


def may_ask(raw: msgspec.Raw, texts: tuple[bytes, ...]) -> bool:
    """Whether a pod must be decoded. Most pods need not, and a text search is many times faster."""
    text = bytes(raw)
    return any(each in text for each in texts)


class ReadProgress:
    """Receives what is being read, and shows nothing; a terminal's is ``cli.terminal.screen.Progress``."""

    def __call__(self, doing: str) -> None:
        """Set the current step."""

    def count(self, what: str, count: int) -> None:
        """Set how many of something were read."""


@dataclass(slots=True)
class Reader:
    """Reads one cluster. Make one per snapshot: what could not be read adds up in it.

    ``problems`` are objects that could not be decoded, one line each; ``unread`` are parts of an examination that could
    not be read; ``ahead_s`` is the API server's clock against ours, once ``learn_time`` has asked.

    Methods that list or ask raise ``GcushareError`` if the API server or the program does not answer, or the caller may
    not ask. Those that name an ``Area`` raise ``UnauthorizedError`` alone.
    """

    client: KubeClient
    progress: ReadProgress = field(default_factory=ReadProgress)
    clock: Clock = field(default_factory=SystemClock)
    problems: list[str] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    ahead_s: float = 0.0
    _missing: set[Area] = field(default_factory=set)
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    # Objects

    async def list_nodes(self, scope: Scope) -> list[Node]:
        """List the nodes of the scope; ``NotFoundError`` if the one node that was named does not exist."""
        if scope.node is not None:
            with naming_node(scope.node):
                return [await self.client.get(NODES, scope.node)]
        return await self.list_objects(NODES, NODE.read, selector=scope.selectors()[0])

    async def list_pods(self, vendor: Vendor, scope: Scope) -> list[Pod]:
        """List the unfinished pods of the scope that ask for cards of this vendor."""
        return await self.list_objects(PODS, POD.read, selector=scope.selectors()[1], texts=asking_texts(vendor))

    async def list_objects(
        self,
        resource: Resource[Any],
        decode: Callable[[msgspec.Raw], T],
        *,
        selector: Selector = EVERYTHING,
        texts: tuple[bytes, ...] = (),
        problems: list[str] | None = None,
    ) -> list[T]:
        """List a collection, each object once; those without any of ``texts`` in their JSON are not even decoded.

        Objects that ``decode`` refuses with ``RemoteContractError`` go to ``problems``, by default the reader's own.
        """
        try:
            found, unreadable = await self._list(resource, decode, selector, texts, PAGE_SIZE)
        except GoneError:  # the server forgot the list before its last page
            found, unreadable = await self._list(resource, decode, selector, texts, None)
        (self.problems if problems is None else problems).extend(unreadable)
        return list(found.values())

    async def _list(
        self,
        resource: Resource[Any],
        decode: Callable[[msgspec.Raw], T],
        selector: Selector,
        texts: tuple[bytes, ...],
        page_size: int | None,
    ) -> tuple[dict[str, T], list[str]]:
        found: dict[str, T] = {}
        unreadable: list[str] = []
        count = 0
        async with aclosing(self.client.pages(resource, selector, page_size=page_size)) as pages:
            async for page in pages:
                for raw in page.entries:
                    count += 1
                    self.progress.count(resource.plural, count)
                    if texts and not may_ask(raw, texts):
                        continue
                    try:
                        meta = HEAD.read(raw).metadata
                    except RemoteContractError as error:
                        unreadable.append(f"an object of {resource.plural} has no readable metadata: {error}")
                        continue
                    name = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
                    try:
                        found[meta.uid or name] = decode(raw)
                    except RemoteContractError as error:
                        unreadable.append(f"{resource.plural.removesuffix('s')} {name} cannot be read: {error}")
        return found, unreadable

    async def list_part(
        self, part: Area, resource: Resource[Any], decode: Callable[[msgspec.Raw], T], texts: tuple[bytes, ...] = ()
    ) -> list[T]:
        """List a part of an examination; what cannot be read goes to ``unread``."""
        problems: list[str] = []
        found = await self.attempt(part, partial(self.list_objects, resource, decode, texts=texts, problems=problems))
        self.unread.extend(Unread(part, problem) for problem in problems)
        return found or []

    async def list_if_allowed(self, part: Area, resource: Resource[T]) -> list[T]:
        """List a collection that is all of a part; empty if it does not exist or cannot be read."""
        return await self.attempt(part, partial(self.client.list_all, resource)) or []

    async def get_if_allowed(self, part: Area, resource: Resource[T], namespace: str, name: str) -> T | None:
        """Read one object of a part; None if it does not exist or cannot be read."""
        return await self.attempt(part, partial(self.client.get, resource, name, namespace=namespace))

    # Rights

    def miss(self, part: Area, refusal: ForbiddenError) -> None:
        """Record that the caller may not read a part: it is not tried again, and reported once."""
        if self.may_read(part):
            self._missing.add(part)
            self.unread.append(Unread(part, str(refusal), lacks_right=True))

    def may_read(self, part: Area) -> bool:
        """Whether no right for it is known to be missing."""
        return part not in self._missing

    async def attempt(self, part: Area, read: Callable[[], Awaitable[T]]) -> T | None:
        """Read a part; None if it does not exist, cannot be read or its right is missing.

        Raises:
            UnauthorizedError: no part can be read with these credentials.
        """
        if not self.may_read(part):
            return None
        try:
            async with self._slots:
                return await read()
        except NotFoundError:
            return None
        except UnauthorizedError:
            raise
        except ForbiddenError as failure:
            self.miss(part, failure)
        except GcushareError as failure:
            self.unread.append(Unread(part, str(failure)))
        return None

    # Programs

    async def list_plugins(self, namespace: str, *, node: str | None = None) -> list[SeenPod]:
        """List the device plugins that run, on one node or on all, by name.

        They are known by the command or image that they run, or by their pods' names.
        """
        fields = f"spec.nodeName={node}" if node is not None else ""
        found = await self.client.list_all(PLUGIN_PODS, Selector(namespace, fields))
        plugins = (pod for pod in found if pod.status.phase in ("Running", "") and is_plugin(pod))
        return sorted(plugins, key=lambda pod: pod.key)

    async def ask_plugins(
        self,
        pods: Sequence[SeenPod],
        *,
        timeout_s: float | None = None,
    ) -> list[tuple[SeenPod, PluginStatus | GcushareError]]:
        """Ask every one of these plugins for its status, through the proxy of its pod."""
        done = 0

        async def ask(pod: SeenPod) -> PluginStatus:
            nonlocal done
            try:
                answer = await self.ask(proxied_pod(self.client, pod), "/status", timeout_s=timeout_s)
            finally:
                done += 1
                self.progress.count("device plugins", done)
            try:
                return PLUGIN_STATUS.read(answer)
            except RemoteContractError as error:
                raise RemoteContractError(f"it answers no plugin's status: {error}") from error

        answers = await ask_all(map(ask, pods))
        return list(zip(pods, answers, strict=True))

    async def ask(self, endpoint: ProgramAddress, path: str, *, timeout_s: float | None = ANSWER_S) -> bytes:
        """Ask a program over HTTP; ``timeout_s`` None leaves the client's own deadline."""
        async with self._slots:
            return await endpoint.get(path, timeout_s=timeout_s)

    # The API server's time

    async def learn_time(self) -> str:
        """Learn the API server's time; returns its version, "" without a right to it."""
        self.progress("asking the API server")
        sent, began = self.clock.now(), self.clock.monotonic()
        try:
            body, date = await self.client.get_dated("/version", "version", timeout_s=ANSWER_S)
        except UnauthorizedError:
            raise
        except ForbiddenError as refusal:
            self.miss(Area.VERSION, refusal)
            return ""
        if (moment := parse_date(date)) is not None:
            middle = sent + timedelta(seconds=(self.clock.monotonic() - began) / 2)
            # The header counts whole seconds, so half a second is added.
            self.ahead_s = (moment - middle).total_seconds() + 0.5
        return self.client.version_of(body)

    def now(self) -> datetime:
        """Return the API server's time."""
        return self.clock.now() + timedelta(seconds=self.ahead_s)


@contextmanager
def naming_node(name: str) -> Iterator[None]:
    """Have a node that does not exist reported by its name."""
    try:
        yield
    except NotFoundError as error:
        raise NotFoundError(f"there is no node {name!r}; 'kubectl get nodes' lists them") from error


async def ask_all(questions: Iterable[Awaitable[T]]) -> list[T | GcushareError]:
    """Await all of these at once, in order; errors are returned, so that one failure stops no other."""
    return await asyncio.gather(*map(error_as_value, questions))


async def error_as_value(question: Awaitable[T]) -> T | GcushareError:
    """Return a ``GcushareError`` instead of raising it, so that what runs at the same time can end."""
    try:
        return await question
    except GcushareError as error:
        return error


def parse_date(text: str) -> datetime | None:
    """Read a Date header; None for none. ``-0000`` is UTC, of a sender that does not say its zone (RFC 5322, 3.3)."""
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
