"""The Secret with the certificates of the scheduler's calls, as the replicas keep it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from gcushare.kube.client import KubeClient
from gcushare.runtime.settings.parsers import ObjectName
from gcushare.scheduler_extender.mutual_tls.certificate_keeper import CertificateKeeper
from gcushare.scheduler_extender.mutual_tls.issuing import Terms
from gcushare.wire.contracts import EXTENDER
from simulation.program import CONFIG, ProcessClock, Program
from simulation.transport import SimulatedTransport
from simulation.weather import Weather

TERMS = Terms((EXTENDER,), timedelta(days=30))
KEY = ("kube-system", "verbs")


class SimulatedKeeper(CertificateKeeper):
    """A replica's keeper, which has no disk; ``shown`` is what it would serve with."""

    def __init__(self, program: Program, clock: ProcessClock) -> None:
        # With chances of its own, so that its few requests change nothing of what happens to the others.
        world, name = program.world, f"verbs/{program.name}"
        weather = world.weathers.setdefault(name, Weather(world.rng(name), world.faults))
        transport = SimulatedTransport(world.gateway, program.process, weather)
        client = KubeClient(CONFIG, program="verbs", transport=transport)
        super().__init__(client, ObjectName(*KEY), TERMS, Path("/nonexistent"), clock=clock)
        self.clock = clock
        self.shown: Mapping[str, bytes] = {}

    def _write_files(self, data: Mapping[str, bytes]) -> None:
        self.shown = data
        self.ready.set()
