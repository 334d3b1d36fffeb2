"""Starts the real programs in processes of the simulation."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from gcushare.core.cards import Inventory
from gcushare.core.errors import GcushareError, RetryableError
from gcushare.device_plugin.adapters import HostAdapters
from gcushare.device_plugin.app import PluginApp
from gcushare.device_plugin.plugin_settings import CardSettings, KubeletSettings, PluginSettings
from gcushare.device_plugin.program import NodeProgram
from gcushare.node.node_settings import LimitSettings, MemoryLimit
from gcushare.runtime.http.scheduler_requests import GetPath, Verb, VerbHandler
from gcushare.runtime.http.server import RunningServer
from gcushare.runtime.settings.election import ElectionSettings
from gcushare.runtime.settings.serving import ServeSettings
from gcushare.runtime.shutdown import Shutdown
from gcushare.scheduler_extender.app import Extender
from gcushare.scheduler_extender.dashboard.dashboard_settings import DashboardSettings
from gcushare.scheduler_extender.extender_settings import (
    ExtenderSettings,
    FollowSettings,
    NamedNodes,
    PlacementSettings,
)
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.wire.contracts import EXTENDER, LEADS_LABEL
from simulation.cards import Machine, SimulatedSource
from simulation.certificates import SimulatedKeeper
from simulation.kubelet import Kubelet
from simulation.kubelet_record import KubeletRecord
from simulation.program import CONFIG, ProcessClock, Program, SilentServer, serve_silently
from simulation.sockets import SimulatedSockets
from simulation.world import ClusterWorld

_NOWHERE = Path("/nonexistent/simulation")


class ExtenderReplica(Program):
    """One replica of the extender."""

    app: Extender
    handlers: dict[str, VerbHandler]
    server: SilentServer
    clock: ProcessClock
    keeper: SimulatedKeeper
    is_ready = False
    leads_since_checked = False

    def __init__(
        self, world: ClusterWorld, name: str, rng: random.Random, on_lead: Callable[[ExtenderReplica], None]
    ) -> None:
        super().__init__(world, name, rng)
        self._on_lead = on_lead

    @property
    def state(self) -> VendorState:
        """Its view of the cluster."""
        return self.app.states[0]

    @property
    def is_labelled(self) -> bool:
        """Whether its pod has the label by which the Service selects."""
        pod = self.world.store.read("pods", (CONFIG.namespace, self.name))
        return LEADS_LABEL in pod.obj["metadata"].get("labels", {})

    @property
    def leads(self) -> bool:
        """Whether it would serve requests now."""
        return self.is_up and self.app.leadership.is_leader

    def _build(self) -> None:
        self.handlers = {}
        self.is_ready = self.leads_since_checked = False
        self.clock = ProcessClock(self.world.loop, self.process)
        self.keeper = SimulatedKeeper(self, self.clock)
        duration_s, deadline_s, retry_s = self.world.settings.lease
        settings = ExtenderSettings(
            election=ElectionSettings(
                lease_name=EXTENDER,
                lease_duration=duration_s,
                lease_renew_deadline=deadline_s,
                lease_retry=retry_s,
                pod_name=self.name,
            ),
            placement=PlacementSettings(
                vendor=(self.world.vendor,),
                node_policy=self.world.settings.node_policy,
                filter_answer=NamedNodes(self.world.settings.best, only_equal=self.world.settings.best == 20),
            ),
            dashboard=DashboardSettings(),
            follow=FollowSettings(
                page_size=self.world.settings.page_size,
                watch_timeout=self.rng.choice([60.0, 300.0]),
                watch_stall=self.rng.choice([20.0, 75.0]),
            ),
        )
        self.app = Extender(
            settings,
            self._client("extender"),
            identity=f"{self.name}.{self.starts}",
            clock=self.clock,
            rng=random.Random(self.rng.getrandbits(64)),
            serve=self._serve,
            serve_pages=serve_silently,
        )
        self.world.bugs.plant_in_extender(self.app)
        self.process.after_step = self._check_leaders

    async def _run(self, shutdown: Shutdown) -> None:
        keeping = asyncio.create_task(self.keeper.run())
        try:
            await self.app.run(shutdown)
        finally:
            keeping.cancel()
            await asyncio.wait((keeping,))

    async def _serve(self, verbs: Sequence[Verb], _pages: Sequence[GetPath], _settings: ServeSettings) -> RunningServer:
        self.handlers = {verb.path: verb.answer for verb in verbs}
        self.server = SilentServer()
        return self.server

    def _check_leaders(self) -> None:
        """Have two leaders looked for, which is possible only in the step in which the second one begins to lead."""
        if not self.leads_since_checked and self.app.leadership.is_leader:
            self._on_lead(self)

    async def answer(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Answer a call of the scheduler; in this program's process."""
        handler = self.handlers.get(path)
        if handler is None:
            return 404, b"not found"
        try:
            answer = handler(body)
            found = answer if isinstance(answer, bytes) else await answer
            return 200, self.world.bugs.alter(path, found)
        except RetryableError as error:
            return 503, str(error).encode()
        except GcushareError as error:
            return 400, str(error).encode()


class PluginReplica(Program):
    """The plugin of one node."""

    app: PluginApp

    def __init__(self, world: ClusterWorld, node: str, machine: Machine, kubelet: Kubelet, rng: random.Random) -> None:
        super().__init__(world, f"plugin/{node}", rng)
        self.node = node
        self.machine = machine
        self.kubelet = kubelet
        self.unit: str | None = None
        self.mode = world.settings.mode

    def _build(self) -> None:
        settings = PluginSettings(
            cards=CardSettings(
                vendor=self.world.vendor,
                memory_unit=self.unit,
                mode=self.mode,
                cards="simulated",
                poll_interval=self.world.settings.card_poll_s,
            ),
            kubelet=KubeletSettings(
                node_name=self.node,
                kubelet_dir=_NOWHERE / self.node,
                cdi_dir=_NOWHERE / "cdi",
            ),
        )
        if (groups := self.machine.groups) is not None:
            limits = LimitSettings(memory_limit=MemoryLimit.DRIVER, cgroup_dir=groups.root)
            settings = replace(settings, limits=limits)
        adapters = HostAdapters(
            clock=ProcessClock(self.world.loop, self.process),
            rng=random.Random(self.rng.getrandbits(64)),
            serve=serve_silently,
            sockets=SimulatedSockets(self.kubelet.directory, self.kubelet, self.process),
            record=KubeletRecord(self.kubelet),
            cards=SimulatedSource(self.machine),
            limits=SimulatedSource(self.machine),
        )
        client = self._client("plugin")
        self.app = PluginApp(settings, client, adapters=adapters)
        self._program = NodeProgram(settings, client, adapters, way=self.app)
        self.world.bugs.plant_in_plugin(self.app)

    async def _run(self, shutdown: Shutdown) -> None:
        await self._program.run(shutdown)

    @property
    def inventory(self) -> Inventory | None:
        """What it offers at present."""
        return self.app.observed.agent.inventory if self.is_up else None
