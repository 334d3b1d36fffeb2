"""``gcushare defragment``: cluster, plan, question, exit code."""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from typing import TextIO

from gcushare.cli.defragment.cluster_state import read_state
from gcushare.cli.defragment.defragment_settings import NO_ROOM, STOPPED, DefragmentSettings
from gcushare.cli.defragment.execute import Executor
from gcushare.cli.defragment.render import render_json, render_outcome, render_text
from gcushare.cli.terminal.output_flags import TextOrJson
from gcushare.cli.terminal.screen import is_agreed
from gcushare.cluster.connection import open_cluster
from gcushare.core.log_fields import escape
from gcushare.core.packing.defragment import plan_room
from gcushare.runtime.entry import ProcessContext
from gcushare.runtime.exit_codes import DONE
from gcushare.vendors import VENDORS_BY_NAME


def run(settings: DefragmentSettings, process: ProcessContext, *, stdin: TextIO | None = None) -> int:
    """Read the cluster, print the plan, carry it out if asked to and agreed; returns the exit code.

    Without ``stdin`` the process's own is asked.
    """
    stdout, stderr, is_json = process.stdout, process.stderr, settings.output is TextOrJson.JSON

    def report(text: str) -> None:
        stderr.write(f"{escape(text)}\n")
        stderr.flush()

    async def work() -> int:
        async with open_cluster(settings.kube, process.environ, program="gcushare-defragment") as client:
            read = partial(read_state, client, VENDORS_BY_NAME[settings.vendor], settings.most_priority)
            executor = Executor(client, read, report, settings.patience)
            state = await (executor.read_when_settled() if settings.execute else read())
            plan = plan_room(state.ledger, settings.request(), state.found.movable, state.opened)
            for problem in state.problems:
                stderr.write(f"warning: {escape(problem)}\n")
            if not is_json:
                stdout.write(render_text(plan, state.found))
            outcome = None
            if plan is not None and plan.moves and settings.execute:
                listed = ", ".join(str(move.pod) for move in plan.moves)
                question, unattended = f"Evict {listed}, one by one?", f"with --yes these pods are evicted: {listed}"
                if settings.yes or is_agreed(question, unattended, stdin or sys.stdin, process):
                    outcome = await executor.carry_out(plan)
        if is_json:
            stdout.write(render_json(plan, state.found, outcome))
        elif plan is not None and outcome is not None:
            stdout.write(render_outcome(plan, outcome))
        if outcome is not None and not outcome.is_reached:
            return STOPPED
        return DONE if plan is not None else NO_ROOM

    return asyncio.run(work())
