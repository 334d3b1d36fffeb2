"""Calls one extender as kube-scheduler does: same bodies, same rules for what comes back, same words.

Source: ``pkg/scheduler/extender.go`` and ``k8s.io/kube-scheduler/extender/v1`` of Kubernetes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec

from gcushare.core.errors import GcushareError
from gcushare_playground.amounts import JsonObject
from gcushare_playground.lifetime import Startable
from gcushare_playground.scheduler.objects import NodeInfo, PodInfo
from gcushare_playground.scheduler.settings import ExtenderSettings

MAX_SCORE = 10
_JSON = {"Content-Type": "application/json", "User-Agent": "Go-http-client/1.1"}
_encode = msgspec.json.encode


class ExtenderError(GcushareError):
    """An extender did not answer, answered with an error, or broke the protocol; the text goes into the event."""


@dataclass(frozen=True, slots=True)
class FilterAnswer:
    """Which of the nodes asked about stay, and why others do not."""

    names: tuple[str, ...]
    failed: Mapping[str, str]
    unresolvable: Mapping[str, str]


class Extender(Startable):
    """One extender; connections are kept between calls. Open it with ``async with``."""

    def __init__(self, settings: ExtenderSettings) -> None:
        self.settings = settings
        self._managed = frozenset(resource.name for resource in settings.managed_resources)
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=self.settings.http_timeout_s),
            headers=_JSON,
        )

    async def stop(self) -> None:
        if self._session is not None:
            await self._session.close()

    @property
    def is_binder(self) -> bool:
        return bool(self.settings.bind_verb)

    def is_interested(self, pod: PodInfo) -> bool:
        """Whether the pod names a managed resource in any container; with none configured, always."""
        return not self._managed or any(name in self._managed for name in pod.resource_names())

    async def filter(self, pod: PodInfo, nodes: Sequence[NodeInfo]) -> FilterAnswer:
        """Ask which nodes can take the pod.

        Raises:
            ExtenderError: no answer, an error, or a node that was not asked about.
        """
        asked = [node.name for node in nodes]
        answer = await self._call(self.settings.filter_verb, self._arguments(pod, nodes))
        if message := _field(answer, "Error", str, ""):
            raise ExtenderError(message)
        names = self._remaining(answer)
        unknown = next((name for name in names if name not in set(asked)), None)
        if unknown is not None:
            raise ExtenderError(
                f'extender "{self.settings.url_prefix}" claims a filtered node "{unknown}" which is not found in the '
                "input node list"
            )
        return FilterAnswer(
            names,
            _field(answer, "FailedNodes", dict, {}),
            _field(answer, "FailedAndUnresolvableNodes", dict, {}),
        )

    async def prioritize(self, pod: PodInfo, nodes: Sequence[NodeInfo]) -> dict[str, int]:
        """Ask for scores; they come back multiplied by the extender's weight.

        Raises:
            ExtenderError: no answer, or not the protocol.
        """
        if not self.settings.prioritize_verb:
            return {}
        answer = await self._call(self.settings.prioritize_verb, self._arguments(pod, nodes), list)
        scores: dict[str, int] = {}
        for entry in answer:
            scores[_field(entry, "Host", str, "")] = _field(entry, "Score", int, 0) * self.settings.weight
        return scores

    async def bind(self, pod: PodInfo, node: str) -> None:
        """Have the extender bind the pod.

        Raises:
            ExtenderError: no answer, or the extender's reason why it did not.
        """
        arguments = {"PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": pod.uid, "Node": node}
        answer = await self._call(self.settings.bind_verb, _encode(arguments))
        if message := _field(answer, "Error", str, ""):
            raise ExtenderError(message)

    def _arguments(self, pod: PodInfo, nodes: Sequence[NodeInfo]) -> bytes:
        names, items = b"null", b"null"
        if self.settings.node_cache_capable:
            names = _encode([node.name for node in nodes])
        else:
            items = _encode({"metadata": {}, "items": [node.document() for node in nodes]})
        return b'{"Pod":%b,"Nodes":%b,"NodeNames":%b}' % (pod.encode(), items, names)

    def _remaining(self, answer: JsonObject) -> tuple[str, ...]:
        names = _field(answer, "NodeNames", list, None)
        if self.settings.node_cache_capable and names is not None:
            return tuple(str(name) for name in names)
        nodes: JsonObject = _field(answer, "Nodes", dict, {})
        # Neither list: no node stays.
        return tuple(item["metadata"]["name"] for item in nodes.get("items") or [])

    async def preempt(self, pod: PodInfo, proposals: Mapping[str, list[str]]) -> dict[str, list[str]]:
        """Ask which pods really have to end, of those proposed, by node and by their uids.

        Raises:
            ExtenderError: no answer, or not the protocol.
        """
        victims = {
            node: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": 0} for node, uids in proposals.items()
        }
        answer = await self._call(
            self.settings.preempt_verb,
            b'{"Pod":%b,"NodeNameToVictims":null,"NodeNameToMetaVictims":%b}' % (pod.encode(), _encode(victims)),
        )
        found: JsonObject = _field(answer, "NodeNameToMetaVictims", dict, {})
        return {node: [each["UID"] for each in _field(of, "Pods", list, [])] for node, of in found.items()}

    async def _call(self, verb: str, body: bytes, kind: type = dict) -> Any:
        url = f"{self.settings.url_prefix.rstrip('/')}/{verb}"
        try:
            code, text = await self._post(url, body)
        except TimeoutError as error:
            raise ExtenderError(f'Post "{url}": context deadline exceeded') from error
        except aiohttp.ClientConnectorError as error:
            where = f"dial tcp {error.host}:{error.port}: connect"
            raise ExtenderError(f'Post "{url}": {where}: {os.strerror(error.errno or 0).lower()}') from error
        except (aiohttp.ClientError, OSError) as error:
            raise ExtenderError(f'Post "{url}": {error}') from error
        if code != 200:
            raise ExtenderError(f"failed {verb} with extender at URL {url}, code {code}")
        try:
            answer = msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            raise ExtenderError(f"answer of {url} is not JSON: {error}") from error
        if not isinstance(answer, kind):
            raise ExtenderError(f"answer of {url} is a {type(answer).__name__}, expected a {kind.__name__}")
        return answer

    async def _post(self, url: str, body: bytes) -> tuple[int, bytes]:
        """Send a request, here over HTTP; returns the status code and the answer's body."""
        if self._session is None:
            raise RuntimeError("an Extender is used inside its async with block")
        async with self._session.post(url, data=body) as response:
            return response.status, await response.read()


def _field(document: Any, name: str, kind: type, default: Any) -> Any:
    """Read a field as Go's decoder does: the case of its name does not matter, null means absent.

    Raises:
        ExtenderError: it has another type.
    """
    if not isinstance(document, dict):
        raise ExtenderError(f"cannot read {name} of {str(document)[:80]!r}: not an object")
    value = document.get(name)
    if value is None:
        value = next((found for key, found in document.items() if key.lower() == name.lower()), None)
    if value is None:
        return default
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ExtenderError(f"{name} is {str(value)[:80]!r}, expected a {kind.__name__}")
    return value
