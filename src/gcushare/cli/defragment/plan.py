"""``gcushare defragment``: cluster, plan, question, exit code."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from typing import TextIO

from gcushare.cli.defragment.cluster_state import ClusterState, read_state
from gcushare.cli.defragment.defragment_settings import NO_ROOM, STOPPED, DefragmentSettings
from gcushare.cli.defragment.execute import Executor
from gcushare.cli.defragment.render import render_json, render_outcome, render_text
from gcushare.cli.terminal.output_flags import TextOrJson
from gcushare.cli.terminal.screen import is_agreed
from gcushare.cluster.connection import open_cluster
from gcushare.core.log_fields import escape
from gcushare.core.packing.defragment import RoomPlan, plan_room
from gcushare.kube.client import KubeClient
from gcushare.runtime.entry import ProcessContext
from gcushare.runtime.exit_codes import DONE
from gcushare.vendors import VENDORS_BY_NAME


def run(settings: DefragmentSettings, process: ProcessContext, *, stdin: TextIO | None = None) -> int:
    """Read the cluster, print the plan, carry it out if asked to and agreed; returns the exit code.

    Without ``stdin`` the process's own is asked.
    """
    return asyncio.run(_Session(settings, process, stdin or sys.stdin).run())


@dataclass(frozen=True, slots=True)
class _Session:
    settings: DefragmentSettings
    process: ProcessContext
    stdin: TextIO

    async def run(self) -> int:
        settings, stdout = self.settings, self.process.stdout
        is_json = settings.output is TextOrJson.JSON
        async with open_cluster(settings.kube, self.process.environ, program="gcushare-defragment") as client:
            executor = Executor(client, lambda: self._read(client), self._report, settings.patience)
            state = await (executor.read_when_settled() if settings.execute else self._read(client))
            plan = plan_room(state.ledger, settings.request(), state.found.movable, state.opened)
            for problem in state.problems:
                self.process.stderr.write(f"warning: {escape(problem)}\n")
            if not is_json:
                stdout.write(render_text(plan, state.found))
            outcome = None
            if plan is not None and plan.moves and settings.execute and self._is_agreed(plan):
                outcome = await executor.carry_out(plan)
        if is_json:
            stdout.write(render_json(plan, state.found, outcome))
        elif plan is not None and outcome is not None:
            stdout.write(render_outcome(plan, outcome))
        if outcome is not None and not outcome.is_reached:
            return STOPPED
        return DONE if plan is not None else NO_ROOM

    async def _read(self, client: KubeClient) -> ClusterState:
        vendor = VENDORS_BY_NAME[self.settings.vendor]
        return await read_state(client, vendor, self.settings.most_priority)

    def _report(self, words: str) -> None:
        self.process.stderr.write(f"{escape(words)}\n")
        self.process.stderr.flush()

    def _is_agreed(self, plan: RoomPlan) -> bool:
        listed = ", ".join(str(move.pod) for move in plan.moves)
        unattended = f"with --yes these pods are evicted: {listed}"
        return self.settings.yes or is_agreed(f"Evict {listed}, one by one?", unattended, self.stdin, self.process)
