"""The Secret with the certificates of the scheduler's calls, the replicas that keep it, and what happens to it."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from gcushare.kube.client import KubeClient
from gcushare.runtime.settings.parsers import ObjectName
from gcushare.scheduler_extender.mutual_tls.certificate_keeper import CertificateKeeper
from gcushare.scheduler_extender.mutual_tls.issuing import Terms, next_issue
from gcushare.wire.contracts import CA, CA_KEY, CLIENT_CERT, EXTENDER, SERVER_CERT, SERVER_KEY
from simulation.people import ADMIN
from simulation.program import CONFIG, ProcessClock, Program
from simulation.transport import SimulatedTransport
from simulation.weather import Weather

if TYPE_CHECKING:
    from simulation.world import World

TERMS = Terms((EXTENDER,), timedelta(days=30))
KEY = ("kube-system", "verbs")
SECRET_FAULTS = ("lost", "half written", "torn", "swapped", "replaced")


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


class Secrets:
    """The Secret as the chart creates it, and people who spoil it."""

    def __init__(self, world: World) -> None:
        self._world = world

    def create(self) -> None:
        """Create it empty, unless it is there."""
        if self._world.store.find("secrets", KEY) is None:
            metadata = {"namespace": KEY[0], "name": KEY[1]}
            self._world.store.create("secrets", {"metadata": metadata, "data": {}}, ADMIN)

    def spoil(self, how: str) -> None:
        """Delete it, or write what does not belong into it."""
        store = self._world.store
        if store.find("secrets", KEY) is None:
            return
        if how == "lost":
            store.delete("secrets", KEY, ADMIN)
            return
        data = dict(store.read("secrets", KEY).obj["data"])
        if how == "replaced":
            other = next_issue({}, Terms(("another",), TERMS.life), self._world.extenders[0].clock.now())
            data = _encoded(other.data) if other is not None else {}
        elif SERVER_CERT in data:
            torn = base64.b64encode(base64.b64decode(data[SERVER_CERT])[:100]).decode()
            match how:
                case "half written":
                    data = {key: text for key, text in data.items() if key not in (CA_KEY, CLIENT_CERT)}
                case "torn":
                    data[SERVER_CERT] = torn
                case "swapped":
                    data[SERVER_KEY] = data.get(CA_KEY, torn)
        store.update("secrets", KEY, lambda doc: {**doc, "data": data}, ADMIN)

    def check_settled(self) -> None:
        """Check that every replica serves with one whole set, which is valid by each one's clock."""
        found = self._world.store.find("secrets", KEY)
        held = {key: base64.b64decode(text) for key, text in (found.obj["data"] if found is not None else {}).items()}
        for replica in self._world.extenders:
            if (issue := next_issue(held, TERMS, replica.clock.now())) is not None:
                self._fail(f"{replica.name} would renew them: {issue.reason}")
            elif any(replica.keeper.shown.get(key) != held[key] for key in (CA, SERVER_CERT, SERVER_KEY)):
                self._fail(f"{replica.name} serves with others than the Secret's")

    def _fail(self, words: str) -> None:
        self._world.fail("the scheduler's certificates are whole after calm", words)


def _encoded(data: Mapping[str, bytes]) -> dict[str, str]:
    return {key: base64.b64encode(value).decode() for key, value in data.items()}
