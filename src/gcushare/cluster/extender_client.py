"""Asks the scheduler extender: through the API server's proxy of its Service, or at an address of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import quote

from gcushare.cluster.extender_document import ExtenderNode, decode_document
from gcushare.cluster.settings import SourceFlags
from gcushare.core.errors import RemoteContractError, RetryableError
from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import KubeConfig
from gcushare.vendors.vendor import Vendor
from gcushare.wire.documents.explain import EXPLANATION, ExplainDocument

QUICK_S = 1.0
"""How long the extender is waited for where the API server can answer as well; it answers in milliseconds."""


@dataclass(frozen=True, slots=True)
class Extender:
    """The extender as one vendor's pods see it. ``prefixes`` are tried in turn until one answers."""

    client: KubeClient
    vendor: Vendor
    words: str
    prefixes: tuple[str, ...]
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
        *first, last = self.prefixes
        for prefix in first:
            try:
                return await self._get_at(prefix, path)
            except (RetryableError, RemoteContractError) as error:
                # It may speak TLS, as the next prefix does; but then it would have closed the connection at once.
                if isinstance(error.__cause__, TimeoutError):
                    raise
        return await self._get_at(last, path)

    async def _get_at(self, prefix: str, path: str) -> bytes:
        whole = f"{prefix}{self.vendor.url_prefix}{path}"
        return await self.client.get_raw(whole, "services/proxy", timeout_s=self.timeout_s)


@asynccontextmanager
async def open_extender(
    flags: SourceFlags, vendor: Vendor, api: KubeClient, *, timeout_s: float | None
) -> AsyncIterator[Extender]:
    """Yield the way to the extender; nothing is asked yet."""
    if flags.extender_url is not None:
        url = flags.extender_url.rstrip("/")
        async with KubeClient(KubeConfig(server=url, source="--extender-url"), program="kubectl-inspect") as direct:
            yield Extender(direct, vendor, f"the scheduler extender at {url}", ("",), timeout_s)
        return
    namespace, _, service = flags.extender_service.partition("/")
    ways = (service,) if service.startswith("https:") else (f"http:{service}", f"https:{service}")
    proxies = tuple(
        f"/api/v1/namespaces/{quote(namespace, safe='')}/services/{quote(way, safe=':')}/proxy" for way in ways
    )
    yield Extender(api, vendor, f"the scheduler extender ({flags.extender_service})", proxies, timeout_s)
