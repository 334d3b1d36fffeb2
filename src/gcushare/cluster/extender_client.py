"""Asks the scheduler extender: through the API server's proxy of its Service, or at an address of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import quote

from gcushare.cluster.endpoints import Endpoint, at_address, named_service
from gcushare.cluster.extender_document import ExtenderNode, decode_document
from gcushare.cluster.settings import SourceFlags
from gcushare.core.errors import RemoteContractError, RetryableError
from gcushare.kube.client import KubeClient
from gcushare.vendors.vendor import Vendor
from gcushare.wire.documents.explain import EXPLANATION, ExplainDocument

QUICK_S = 1.0
"""How long the extender is waited for where the API server can answer as well; it answers in milliseconds."""


@dataclass(frozen=True, slots=True)
class Extender:
    """The extender as one vendor's pods see it. ``endpoints`` are tried in turn until one answers."""

    vendor: Vendor
    words: str
    endpoints: tuple[Endpoint, ...]
    timeout_s: float | None = None

    async def inspect(self, node: str | None) -> list[ExtenderNode]:
        """Fetch who uses what, everywhere or on one node.

        Raises:
            GcushareError: it does not answer, or not with its document.
        """
        path = "/inspect" if node is None else f"/inspect/{quote(node, safe='')}"
        return decode_document(await self._get(path))

    async def explain(self, namespace: str, name: str) -> ExplainDocument:
        """Fetch why a pod has no card, or which it has.

        Raises:
            NotFoundError: no such pod asks for cards.
            GcushareError: it does not answer, or not with its document.
        """
        body = await self._get(f"/explain/{quote(namespace, safe='')}/{quote(name, safe='')}")
        return EXPLANATION.read(body)

    async def _get(self, path: str) -> bytes:
        path = f"{self.vendor.url_prefix}{path}"
        *first, last = self.endpoints
        for endpoint in first:
            try:
                return await endpoint.get(path, timeout_s=self.timeout_s)
            except (RetryableError, RemoteContractError) as error:
                # It may speak TLS, as the next endpoint does; but then it would have closed the connection at once.
                if isinstance(error.__cause__, TimeoutError):
                    raise
        return await last.get(path, timeout_s=self.timeout_s)


@asynccontextmanager
async def open_extender(
    flags: SourceFlags, vendor: Vendor, api: KubeClient, *, timeout_s: float | None
) -> AsyncIterator[Extender]:
    """Yield the way to the extender; nothing is asked yet."""
    if flags.extender_url is not None:
        async with at_address(flags.extender_url) as endpoint:
            yield Extender(
                vendor, f"the scheduler extender at {flags.extender_url.rstrip('/')}", (endpoint,), timeout_s
            )
        return
    namespace, _, service = flags.extender_service.partition("/")
    ways = (service,) if service.startswith("https:") else (f"http:{service}", f"https:{service}")
    endpoints = tuple(named_service(api, namespace, way) for way in ways)
    yield Extender(vendor, f"the scheduler extender ({flags.extender_service})", endpoints, timeout_s)
