"""Lists objects from the API server page by page, each once, and decodes only those that are needed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from gcushare.core.errors import RemoteContractError
from gcushare.kube.client import KubeClient
from gcushare.kube.errors import GoneError
from gcushare.kube.resources import EVERYTHING, Resource, Selector
from gcushare.vendors.vendor import Vendor
from gcushare.wire.objects import HEAD

T = TypeVar("T")

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


async def list_objects(
    client: KubeClient,
    resource: Resource[Any],
    selector: Selector,
    decode: Callable[[msgspec.Raw], T],
    *,
    problems: list[str],
    texts: tuple[bytes, ...] = (),
    progress: Callable[[str, int], None] = lambda _what, _count: None,
) -> list[T]:
    """List a collection; objects without any of ``texts`` in their JSON are not even decoded.

    Objects that ``decode`` refuses with ``RemoteContractError`` go to ``problems``. ``progress`` is called with what is
    being read and how many objects came.
    """
    found: dict[str, T] = {}
    unreadable: list[str] = []
    count = 0
    async with aclosing(_list_items(client, resource, selector)) as items:
        async for raw in items:
            if raw is None:
                found, unreadable, count = {}, [], 0
                continue
            count += 1
            progress(resource.plural, count)
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
    problems += unreadable
    return list(found.values())


def asking_words(vendor: Vendor) -> tuple[bytes, ...]:
    """Text that occurs in the JSON of every pod that requests cards of this vendor: its resources, after the slash.

    The slash itself may be escaped in JSON.
    """
    return tuple(name.rpartition("/")[2].encode() for name in (vendor.memory_resource, vendor.whole_card_resource))


def may_ask(raw: msgspec.Raw, words: tuple[bytes, ...]) -> bool:
    """Whether a pod must be decoded. Most pods need not, and a text search is many times faster."""
    text = bytes(raw)
    return any(word in text for word in words)


async def _list_items(
    client: KubeClient, resource: Resource[Any], selector: Selector = EVERYTHING
) -> AsyncGenerator[msgspec.Raw | None, None]:
    """Yield a collection's items.

    If the server forgets the list before its last page, yield None, then all items again. What came before None must
    be dropped: some of it may be gone by now.
    """
    try:
        async with aclosing(client.pages(resource, selector)) as pages:
            async for page in pages:
                for raw in page.entries:
                    yield raw
        return
    except GoneError:
        yield None
    async with aclosing(client.pages(resource, selector, page_size=None)) as whole:
        async for page in whole:
            for raw in page.entries:
                yield raw
