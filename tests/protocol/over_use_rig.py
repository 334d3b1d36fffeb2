"""A plugin, or a claims driver, on simulated cards whose processes grow, and the pods that they belong to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gcushare.core.units import GIB
from gcushare.wire.annotations import OVER_USE
from gcushare.wire.contracts import COMPONENT_LABEL, MPS_COMPONENT
from tests.api_objects import an_object, merge_into
from tests.fake_proc import FakeProc
from tests.protocol.node_rig import NODE, NodeRig
from tests.protocol.plugin_rig import PluginRig


class ProcessUse(NodeRig):
    """``use`` sets what each pod's one process has of a card."""

    proc: FakeProc
    _pids: dict[str, int]

    def use(self, **gib: float) -> None:
        """Let the pods of these names use so many GiB of card 0, and 10 % of its chip."""
        processes = {self._pid_of(name): int(size * GIB) for name, size in gib.items()}
        busy = dict.fromkeys(processes, 10.0)
        self.write_cards({0: {"used": sum(processes.values()), "processes": processes, "process_utilization": busy}})

    def _pid_of(self, name: str) -> int:
        """The process of a pod; another pod of that name has another."""
        uid = self.uid(name)
        if uid not in self._pids:
            self._pids[uid] = 100 + len(self._pids)
            self.proc.start_in_pod(self._pids[uid], uid)
        return self._pids[uid]

    def note(self, name: str) -> dict[str, Any] | None:
        """The annotation, read."""
        text = self.annotation(name, OVER_USE)
        return None if text is None else json.loads(text)

    async def until_noted(self, name: str, *, noted: bool = True) -> None:
        await self.until(lambda: (self.annotation(name, OVER_USE) is not None) == noted, f"{name} is noted: {noted}")

    async def polls(self, count: int) -> None:
        """Wait until the program has polled the cards, and acted on it, this many more times."""
        watch = self.app.observed.over_use.watch
        assert watch is not None
        before = watch.tracker.polls
        await self.until(lambda: watch.tracker.polls >= before + count, f"{count} polls")


class OverUseRig(ProcessUse, PluginRig):
    """Cards of 16 GiB."""

    def __init__(self, proc_root: Path, *, cards: tuple[int, ...] = (16,), **plugin: Any) -> None:
        self.proc, self._pids = FakeProc(proc_root), {}
        PluginRig.__init__(self, cards=cards, plugin={"pod_use": True, "proc_root": proc_root, **plugin})

    def run_mps_daemon(self, namespace: str, gib: int) -> None:
        """Run a pod that is labelled as an MPS daemon, and whose process uses so much of card 0."""
        labels = {COMPONENT_LABEL: MPS_COMPONENT}
        spec = {"nodeName": NODE, "containers": [{"name": "c", "image": "i"}]}
        made = self.api.registry.put(an_object("Pod", "daemon", namespace, metadata={"labels": labels}, spec=spec))
        self.proc.start_in_pod(7, made["metadata"]["uid"])
        self.write_cards({0: {"used": gib * GIB, "processes": {"7": gib * GIB}}})

    def put_budget(self) -> None:
        """Have a disruption budget allow no eviction of any pod."""
        budget, none = "PodDisruptionBudget", {"status": {"disruptionsAllowed": 0}}
        self.api.registry.put(an_object(budget, "keep", spec={"selector": {}, "maxUnavailable": 0}))
        merge_into(self.api, budget, "keep", none, status_only=True)
