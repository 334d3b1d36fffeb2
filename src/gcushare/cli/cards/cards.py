"""``gcushare cards``: asks this machine's plugins, or a node's through the API server, and prints their cards."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from gcushare.cards.process_owners import PROC, ProcessOwners
from gcushare.cli.cards.cards_settings import HERE, CardsOutput, CardsSettings
from gcushare.cli.terminal.output import to_json
from gcushare.cli.terminal.screen import Screen
from gcushare.cluster.card_tables import view_lines
from gcushare.cluster.connection import open_cluster
from gcushare.cluster.node_view import CardsView, process_ids, view_status
from gcushare.cluster.plugin_status import fetch_status
from gcushare.cluster.reader import Reader, ask_all, naming_node
from gcushare.core.errors import GcushareError, Refused
from gcushare.kube.client import KubeClient
from gcushare.kube.resources import NODES
from gcushare.runtime.entry import ProcessContext
from gcushare.runtime.exit_codes import DONE, FAILED
from gcushare.wire.documents.plugin_status import PluginStatus


def run(settings: CardsSettings, process: ProcessContext, *, proc: Path = PROC) -> int:
    """Show the cards; the exit code is 1 if some plugins could not be asked. ``proc``: the folder of control groups.

    Raises:
        GcushareError: no plugin answers.
    """

    async def work() -> CardsView:
        if settings.node is None:
            return await ask_addresses(settings.plugin or HERE, proc, takes_first=not settings.plugin)
        async with open_cluster(settings.kube, process.environ, program="gcushare-cards") as api:
            return await ask_node(api, settings.plugin_namespace, settings.node, proc)

    cards = asyncio.run(work())
    screen = Screen(process)
    if settings.output is CardsOutput.JSON:
        screen.print_text(to_json(cards))
    else:
        screen.print_lines(view_lines(cards, screen.width, is_wide=settings.output is CardsOutput.WIDE))
        for origin, why in sorted(cards.failures.items()):
            screen.say("warning", f"{origin}: {why}")
    return FAILED if cards.failures else DONE


_ELSEWHERE = "name its address with --plugin, or ask through the API server with 'gcushare cards NODE'"


async def ask_addresses(urls: Sequence[str], proc: Path = PROC, *, takes_first: bool = False) -> CardsView:
    """Ask the plugins at these addresses, or with ``takes_first`` one plugin that is at one of them.

    Plugins that do not answer are listed in the failures if others do.

    Raises:
        GcushareError: none of them answers.
    """
    # A plugin's certificate names a service, never the loopback.
    answers = await ask_all(fetch_status(url, _ELSEWHERE, trusts_any=is_loopback(url)) for url in urls)
    found = dict(zip(urls, answers, strict=True))
    reported = {url: answer for url, answer in found.items() if isinstance(answer, PluginStatus)}
    return _merge(reported if takes_first and reported else found, proc)


async def ask_node(api: KubeClient, namespace: str, node: str, proc: Path = PROC) -> CardsView:
    """Find a node's plugins and ask them through the API server.

    Raises:
        NotFoundError: there is no such node.
        Refused: no plugin runs on it.
        GcushareError: none of them answers.
    """

    reader = Reader(api)
    pods = await reader.list_plugins(namespace, node=node)
    if pods:
        return _merge({f"pod {pod.key}": found for pod, found in await reader.ask_plugins(pods)}, proc)
    with naming_node(node):
        await api.get(NODES, node)
    raise Refused(
        f"no device plugin runs on node {node!r}: no running pod in namespace {namespace!r} runs "
        "gcushare-device-plugin, or is named after gpushare's plugin; --plugin-namespace "
        "says where they are, and 'gcushare doctor --node' why there is none"
    )


def _merge(answers: Mapping[str, PluginStatus | GcushareError], proc: Path) -> CardsView:
    reported = {origin: answer for origin, answer in answers.items() if isinstance(answer, PluginStatus)}
    failures = {origin: answer for origin, answer in answers.items() if not isinstance(answer, PluginStatus)}
    if not reported:
        raise next(iter(failures.values()))
    pids = {pid for status in reported.values() for pid in process_ids(status)}
    owners = ProcessOwners(proc).find(pids)
    views = [view_status(status, origin, owners) for origin, status in reported.items()]
    return CardsView(
        nodes=tuple(sorted(views, key=lambda view: (view.status.node, view.status.vendor, view.origin))),
        failures={origin: str(error) for origin, error in failures.items()},
    )


def is_loopback(url: str) -> bool:
    """Whether an address is of the loopback, so that only this machine can answer."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
