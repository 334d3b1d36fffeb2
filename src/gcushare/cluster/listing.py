"""Lists objects from the API server page by page, each once, and decodes only those that are needed."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from gcushare.kube.client import KubeClient
from gcushare.kube.errors import GoneError
from gcushare.kube.resources import Resource, Selector
from gcushare.vendors.vendor import Vendor

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


def asking_words(vendor: Vendor) -> tuple[bytes, ...]:
    """Text that occurs in the JSON of every pod that requests cards of this vendor: its resources, after the slash.

    The slash itself may be escaped in JSON.
    """
    return tuple(name.rpartition("/")[2].encode() for name in (vendor.memory_resource, vendor.whole_card_resource))


def may_ask(raw: msgspec.Raw, words: tuple[bytes, ...]) -> bool:
    """Whether a pod must be decoded. Most pods need not, and a text search is many times faster."""
    text = bytes(raw)
    return any(word in text for word in words)


async def list_items(
    client: KubeClient, resource: Resource[Any], selector: Selector
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
