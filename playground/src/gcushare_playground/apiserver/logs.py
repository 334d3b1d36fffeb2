"""``kubectl logs``: the server asks the pod's node, as kube-apiserver asks the kubelet.

A node's logs come from a provider registered in this process, or over plain HTTP from the port that the node's
status names (``daemonEndpoints.kubeletEndpoint``), under the kubelet's own path ``/containerLogs``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import aiohttp

from gcushare_playground.apiserver import failures
from gcushare_playground.apiserver.objects import JsonObject, Key, dig
from gcushare_playground.apiserver.registry import Registry
from gcushare_playground.apiserver.requests import flag, number
from gcushare_playground.apiserver.resources import BY_NAME
from gcushare_playground.apiserver.subresources import PODS

_TIMEOUT_S = 5.0


LogProvider = Callable[[JsonObject, str], Awaitable[str]]
"""Returns what a container of a pod, by its name, has printed; raises ApiFailure for what is answered instead."""


class Logs:
    """The log subresource of pods."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._providers: dict[str, LogProvider] = {}

    def register(self, node: str, provider: LogProvider) -> None:
        """Let a provider answer for the pods of a node; the latest one counts."""
        self._providers[node] = provider

    async def read(self, key: Key, query: Mapping[str, str]) -> str:
        """Return a container's output, cut to what the query asks for.

        Raises:
            ApiFailure: 404 no such pod, 400 no such container or not bound, 500 the node does not answer.
        """
        pod = self._registry.read(PODS, key).copy()
        container = choose_container(pod, query.get("container", ""))
        node = dig(pod, "spec", "nodeName", default="")
        if not node:
            raise failures.bad_request(f"pod {key.name} does not have a host assigned")
        if flag(query, "previous"):
            raise failures.bad_request(f'previous terminated container "{container}" in pod "{key.name}" not found')
        provider = self._providers.get(node)
        text = await provider(pod, container) if provider else await self._fetch(node, key, container)
        return _tail(text, query)

    async def _fetch(self, node: str, key: Key, container: str) -> str:
        url = f"{kubelet_address(self._registry, node)}/containerLogs/{key.namespace}/{key.name}/{container}"
        try:
            timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
            async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as answer:
                text = await answer.text()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise failures.internal(f'Get "{url}": {error!r}') from error
        if answer.status != 200:
            raise failures.internal(f"node {node!r} answered {answer.status} to {url}: {text:.200}")
        return text


def kubelet_address(registry: Registry, node: str) -> str:
    """Return the URL of a node's kubelet.

    Raises:
        ApiFailure: 404 no such node, 500 its status names no kubelet.
    """
    found = registry.read(BY_NAME["nodes"], Key("", node)).obj
    port = dig(found, "status", "daemonEndpoints", "kubeletEndpoint", "Port")
    addresses = dig(found, "status", "addresses", default=[])
    host = next((a["address"] for a in addresses if a.get("type") == "InternalIP"), None)
    if port is None or host is None:
        raise failures.internal(
            f"node {node!r} has no log provider, and its status names no InternalIP and kubelet port"
        )
    return f"http://{host}:{port}"


def choose_container(pod: JsonObject, asked: str) -> str:
    """Return the requested container, which kubectl always names.

    Raises:
        ApiFailure: 400 no such container.
    """
    names = [str(c["name"]) for field in ("initContainers", "containers") for c in dig(pod, "spec", field, default=[])]
    if asked not in names:
        raise failures.bad_request(f"container {asked} is not valid for pod {dig(pod, 'metadata', 'name')}")
    return asked


def _tail(text: str, query: Mapping[str, str]) -> str:
    lines, limit = number(query, "tailLines"), number(query, "limitBytes")
    if lines is not None:
        kept = text.splitlines(keepends=True)
        text = "".join(kept[len(kept) - min(lines, len(kept)) :])
    return text if limit is None else text.encode()[:limit].decode(errors="replace")
