"""Asks plugins for their status: this machine's plugins, or a node's plugins through the API server."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from gcushare.cards.process_owners import PROC, ProcOwners
from gcushare.cluster.card_drawing.node_view import CardsView, process_ids, view_status
from gcushare.cluster.cluster_flags import PluginPodSettings
from gcushare.cluster.plugin_status import ClientTls, fetch_status
from gcushare.cluster.reader import Dated, Reader, ask_all
from gcushare.core.errors import (
    GcushareError,
    NotFoundError,
    Refused,
    RemoteContractError,
    RetryableError,
)
from gcushare.kube.client import KubeClient
from gcushare.kube.resources import NODES
from gcushare.wire.documents.plugin_status import PluginStatus, parse_plugin_status

_ELSEWHERE = "name its address with --plugin, or ask through the API server with 'gcushare cards NODE'"


class CardsSource(Protocol):
    """The plugins to ask."""

    async def fetch(self) -> CardsView:
        """Ask all of them once. Plugins that do not answer are listed in the failures if others do.

        Raises:
            GcushareError: none of them answers.
        """


@dataclass(frozen=True, slots=True)
class AddressSource:
    """Plugins at the given addresses. With ``tries_tls`` those that do not answer plain HTTP are asked over HTTPS."""

    urls: Sequence[str]
    proc: Path = PROC
    tries_tls: bool = False

    async def fetch(self) -> CardsView:
        """Ask all of them at once."""
        ask = self._ask_either_way if self.tries_tls else self._ask
        answers = await ask_all(map(ask, self.urls))
        return _merge(dict(zip(self.urls, answers, strict=True)), self.proc)

    async def _ask_either_way(self, url: str) -> PluginStatus:
        try:
            return await self._ask(url)
        except (RetryableError, RemoteContractError) as silence:
            try:
                return await self._ask(url.replace("http:", "https:", 1))
            except (RetryableError, RemoteContractError):
                raise silence from None

    async def _ask(self, url: str) -> PluginStatus:
        # A plugin's certificate names a service, never the loopback.
        return await fetch_status(url, ClientTls(trusts_any=is_loopback(url)), _ELSEWHERE)


@dataclass(frozen=True, slots=True)
class NodeSource:
    """A node's plugins, through the API server."""

    api: KubeClient
    place: PluginPodSettings
    node: str
    proc: Path = PROC

    async def fetch(self) -> CardsView:
        """Find the node's plugins and ask all of them."""
        reader = Reader(self.api)
        pods = await reader.list_plugins(self.place, node=self.node)
        if not pods:
            raise await self._explain_absence()
        answers = await reader.ask_plugins(pods, "/status", _parse_status, place=self.place)
        return _merge({f"pod {pod.key}": found for pod, found in answers}, self.proc)

    async def _explain_absence(self) -> Refused:
        try:
            await self.api.get(NODES, self.node)
        except NotFoundError as error:
            refusal = Refused(f"there is no node {self.node!r}; `kubectl get nodes` lists them")
            refusal.__cause__ = error
            return refusal
        labels = self.place.plugin_selector
        own = "runs gcushare-device-plugin, or is named after it or gpushare's"
        is_one = f"has labels {labels!r}" if labels is not None else own
        return Refused(
            f"no device plugin runs on node {self.node!r}: no running pod in namespace "
            f"{self.place.plugin_namespace!r} {is_one}; --plugin-namespace and --plugin-selector say where they are, "
            "and 'gcushare doctor --node' why there is none"
        )


StatusOrError = PluginStatus | GcushareError


def _parse_status(answer: Dated) -> PluginStatus:
    try:
        return parse_plugin_status(answer.body)
    except RemoteContractError as error:
        raise RemoteContractError(f"it answers no plugin's status: {error}") from error


def _merge(answers: Mapping[str, StatusOrError], proc: Path) -> CardsView:
    reported = {origin: answer for origin, answer in answers.items() if isinstance(answer, PluginStatus)}
    failures = {origin: answer for origin, answer in answers.items() if not isinstance(answer, PluginStatus)}
    if not reported:
        raise _joined(list(failures.values()))
    pids = {pid for status in reported.values() for pid in process_ids(status)}
    owners = ProcOwners(proc).find(pids)
    views = [view_status(status, origin, owners) for origin, status in reported.items()]
    return CardsView(
        nodes=tuple(sorted(views, key=lambda view: (view.status.node, view.status.vendor, view.origin))),
        failures={origin: str(error) for origin, error in failures.items()},
    )


def _joined(errors: Sequence[GcushareError]) -> GcushareError:
    """Join errors into one, which is retryable if one of them is."""
    if len(errors) == 1:
        return errors[0]
    text = "; ".join(map(str, errors))
    return RetryableError(text) if any(isinstance(each, RetryableError) for each in errors) else Refused(text)


def is_loopback(url: str) -> bool:
    """Whether an address is of the loopback, so that only this machine can answer."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
