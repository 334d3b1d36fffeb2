"""Follows the pods bound to one node: a list, then a watch, again and again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from gcushare.core.errors import ForbiddenError, RemoteContractError, RetryableError
from gcushare_playground.kubelet.api import GoneError, JsonObject, NodeApi, PodEvent
from gcushare_playground.kubelet.podspec import Pod, parse_pod
from gcushare_playground.kubelet.retrying import delay_s

logger = logging.getLogger(__name__)


class PodHandler(Protocol):
    """Takes what the source sees."""

    def replace(self, pods: Sequence[Pod]) -> None:
        """Take the whole list; pods that are not in it are gone."""
        ...

    def update(self, pod: Pod) -> None: ...

    def remove(self, uid: str) -> None: ...


class PodSource:
    """Lists and watches on and on; a cut watch goes on where it was, one too old starts with a list."""

    def __init__(self, api: NodeApi, node: str, sink: PodHandler) -> None:
        self._api = api
        self._node = node
        self._sink = sink

    async def run(self) -> None:
        """Follow until cancelled."""
        version: str | None = None
        attempt = 0
        while True:
            try:
                if version is None:
                    version = await self._list()
                    attempt = 0
                async for event in self._api.watch_pods(self._node, version):
                    version = event.resource_version
                    attempt = 0
                    self._take(event)
            except GoneError as error:
                logger.info("pod watch too old, listing again node=%s reason=%s", self._node, error)
                version = None
            except (RetryableError, ForbiddenError) as error:
                logger.warning("pods unreachable node=%s reason=%s", self._node, error)
                await asyncio.sleep(delay_s(attempt))
                attempt += 1

    async def _list(self) -> str:
        listed = await self._api.list_pods(self._node)
        pods = [pod for pod in map(_parse, listed.pods) if pod is not None]
        self._sink.replace(pods)
        return listed.resource_version

    def _take(self, event: PodEvent) -> None:
        if event.kind == "BOOKMARK":
            return
        if event.kind == "DELETED":
            self._sink.remove(event.pod["metadata"]["uid"])
            return
        pod = _parse(event.pod)
        if pod is not None:
            self._sink.update(pod)


def _parse(raw: JsonObject) -> Pod | None:
    try:
        return parse_pod(raw)
    except (RemoteContractError, KeyError) as error:
        logger.warning("pod unreadable name=%r reason=%r", raw.get("metadata", {}).get("name"), error)
        return None
