"""What the rigs of a node's program share: its simulated cards, its settings, its start and end, and what it says."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from gcushare.cluster.metrics_text import MetricsPage, parse_figures
from gcushare.core.cards import Inventory
from gcushare.core.units import GIB
from gcushare.device_plugin.adapters import HostAdapters
from gcushare.device_plugin.app import PluginApp
from gcushare.device_plugin.claims.app import ClaimsApp
from gcushare.device_plugin.plugin_settings import CardSettings, KubeletSettings, PluginSettings
from gcushare.device_plugin.program import NodeProgram
from gcushare.kube.client import KubeClient
from gcushare.runtime.settings.kubernetes import KubeSettings
from gcushare.runtime.settings.log import LogSettings
from gcushare.runtime.settings.serving import ServeSettings
from gcushare.runtime.shutdown import Shutdown
from gcushare.vendors import ENFLAME
from gcushare.wire.nodes import decode_inventory
from gcushare_playground.apiserver.serving import ApiServer
from tests.api_objects import find, merge_into
from tests.protocol.fetching import fetch

NODE = "node-1"
NOTHING: Mapping[str, Any] = {}
UNCHANGED: Mapping[int, Mapping[str, object]] = {}
SICK: Mapping[str, object] = {"health": "unhealthy", "reason": "fell off the bus"}
"""What ``write_cards`` makes of a card in trouble."""


class NodeRig:
    """``plugin_settings`` are settings in addition to those that every node has, by the name of their field."""

    def __init__(self, cards: Sequence[int], settings: Mapping[str, Any]) -> None:
        self.plugin_settings = dict(settings)
        self.adapters = HostAdapters()
        self._sizes = list(cards)
        self._stack = AsyncExitStack()
        self._shutdown = Shutdown()
        self._running: asyncio.Task[int] | None = None
        self.root = Path()
        self.api: ApiServer
        self.app: PluginApp | ClaimsApp
        self.program: NodeProgram

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def settings(self) -> PluginSettings:
        settings = PluginSettings(
            cards=CardSettings(vendor=ENFLAME, cards=f"simulated:{self.root / 'cards.json'}", poll_interval=0.2),
            kubelet=KubeletSettings(node_name=NODE, kubelet_dir=self.root, cdi_dir=self.root / "cdi"),
            kube=KubeSettings(kubeconfig=str(self.root / "kubeconfig")),
            serve=ServeSettings(listen_address="127.0.0.1", listen_port=0),
            log=LogSettings(log_dir=None),
        )
        return _changed(settings, self.plugin_settings)

    def write_cards(self, changes: Mapping[int, Mapping[str, object]] = UNCHANGED, *, gone: Sequence[int] = ()) -> None:
        """Write the cards' file; ``changes`` by index, ``gone`` left out."""
        cards = [
            {"index": i, "uuid": f"GCU-{i}", "memory": size * GIB, **changes.get(i, {})}
            for i, size in enumerate(self._sizes)
            if i not in gone
        ]
        temporary = self.root / "cards.tmp"
        temporary.write_text(json.dumps({"cards": cards}))
        temporary.replace(self.root / "cards.json")

    # The program

    def run_program(self, client: KubeClient, way: PluginApp | ClaimsApp | None) -> None:
        """Start the program, which serves cards in this way; where none is given, it chooses one."""
        self.program = NodeProgram(self.settings(), client, way=way)
        self.program.check_s = 0.1
        self._shutdown = Shutdown()

        async def run() -> int:
            async with client:
                return await self.program.run(self._shutdown)

        self._running = asyncio.create_task(run(), name="node's program")

    async def end_program(self) -> None:
        """End the program as its DaemonSet does, whatever the kubelet does; nothing if it does not run."""
        running, self._running = self._running, None
        if running is not None:
            self._shutdown.request("the test is over")
            assert await running == 0

    async def until(self, condition: Callable[[], object], what: str, timeout_s: float = 60.0) -> None:
        """Wait for a condition, looking often; a program that failed ends it with its error."""
        try:
            async with asyncio.timeout(timeout_s):
                while not condition():
                    if self._running is not None and self._running.done():
                        self._running.result()
                    await asyncio.sleep(0.01)
        except TimeoutError:
            problems = self.app.observed.problems() if self._running is not None else {}
            raise AssertionError(f"not within {timeout_s:g}s: {what}; problems: {problems}") from None

    # What it says

    async def get(self, path: str, *, tls: ssl.SSLContext | None = None) -> tuple[int, str]:
        """What the program answers on its own port; ``tls`` is the client's, where it serves HTTPS."""
        return await fetch(f"{self.url}{path}", tls=tls)

    @property
    def url(self) -> str:
        """Of the program's own port."""
        assert self.program.server is not None, "the program does not serve yet"
        return self.program.server.url

    async def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((await self.get("/status"))[1])
        return found

    async def figures(self) -> MetricsPage:
        """Its metrics, read."""
        return parse_figures((await self.get("/metrics"))[1])

    async def until_figures(self, wanted: Callable[[MetricsPage], object]) -> MetricsPage:
        """The figures as soon as they are so."""
        async with asyncio.timeout(60):
            while not wanted(found := await self.figures()):  # noqa: ASYNC110 - the plugin polls its cards
                await asyncio.sleep(0.05)
        return found

    def problem(self, part: str) -> str:
        """What the program says is wrong with one of its parts; empty when nothing is."""
        return self.app.observed.problems().get(part, "")

    def events(self, reason: str) -> list[str]:
        return [event["message"] for event in self.api.store.list("events") if event["reason"] == reason]

    async def event(self, reason: str) -> str:
        """The message of the first Event of this reason, once it is posted."""
        await self.until(lambda: self.events(reason), f"an Event {reason}")
        return self.events(reason)[0]

    # The cluster

    def pod(self, name: str) -> dict[str, Any]:
        return find(self.api, "Pod", name)

    def uid(self, name: str) -> str:
        return str(self.pod(name)["metadata"]["uid"])

    def is_here(self, name: str) -> bool:
        """Whether a pod is there that is not about to end."""
        return any(
            found["metadata"]["name"] == name and "deletionTimestamp" not in found["metadata"]
            for found in self.api.store.list("pods")
        )

    def annotation(self, name: str, key: str) -> str | None:
        value: str | None = self.pod(name)["metadata"].get("annotations", {}).get(key)
        return value

    def node(self) -> dict[str, Any]:
        return find(self.api, "Node", NODE)

    def annotate_node(self, key: str, value: str | None) -> None:
        """Set or remove an annotation of the Node, as an admin does."""
        merge_into(self.api, "Node", NODE, {"metadata": {"annotations": {key: value}}})

    def published(self) -> Inventory:
        """The inventory on the Node."""
        return decode_inventory(self.node()["metadata"]["annotations"][ENFLAME.inventory_annotation])


def _changed(settings: PluginSettings, changes: Mapping[str, Any]) -> PluginSettings:
    """Settings with fields of any of their groups changed; a name that no group has is an error."""
    groups = {}
    left = dict(changes)
    for field in dataclasses.fields(settings):
        group = getattr(settings, field.name)
        names = [inner.name for inner in dataclasses.fields(group) if inner.name in left]
        groups[field.name] = dataclasses.replace(group, **{name: left.pop(name) for name in names})
    assert not left, f"no such settings: {sorted(left)}"
    return PluginSettings(**groups)
