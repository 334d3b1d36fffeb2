"""``gcushare demo``: settings, cluster, scenario, exit code."""

from __future__ import annotations

import asyncio
import logging
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import TextIO

from gcushare.core.errors import GcushareError
from gcushare.core.wording import counted
from gcushare.runtime.entry import ProcessContext, run_program
from gcushare.runtime.exit_codes import DONE, FAILED, SIGNALLED
from gcushare.runtime.shutdown import Shutdown
from gcushare.runtime.shutdown import run as run_until_shutdown
from gcushare_playground.cluster import Cluster
from gcushare_playground.demo.admin_commands import admin_commands, show_admin_commands
from gcushare_playground.demo.claims import play_claims
from gcushare_playground.demo.playing import Player
from gcushare_playground.demo.scenarios import choose_scenario
from gcushare_playground.demo.settings import PROGRAM, DemoSettings, ScenarioName
from gcushare_playground.demo.stage import Mismatch, Stage


def main(process: ProcessContext | None = None) -> int:
    """Run ``gcushare demo`` and return its exit code."""
    process = process or ProcessContext()

    def run(settings: DemoSettings) -> int:
        return run_until_shutdown(lambda shutdown: play(settings, process.stdout, shutdown))

    return run_program(PROGRAM, run, process=process)


async def play(settings: DemoSettings, stream: TextIO, shutdown: Shutdown) -> int:
    """Bring the cluster up, play the scenario, and return the exit code; a wish to stop ends it at any moment."""
    stage = Stage(stream)
    async with Cluster(settings.plan()) as cluster:
        log, form = cluster.place.logs / "demo.log", "%(asctime)s %(levelname)s %(name)s %(message)s"
        logging.basicConfig(filename=log, format=form, encoding="utf-8")
        logging.getLogger("gcushare_playground").setLevel(logging.INFO)  # what the doubles do
        return await _play_until_stopped(cluster, stage, settings, shutdown)


async def _play_until_stopped(cluster: Cluster, stage: Stage, settings: DemoSettings, shutdown: Shutdown) -> int:
    playing = asyncio.create_task(_play(cluster, stage, settings), name="scenario")
    stopping = asyncio.create_task(shutdown.wait(), name="wait for the shutdown")
    await asyncio.wait((playing, stopping), return_when=asyncio.FIRST_COMPLETED)
    try:
        if not playing.done():
            stage.say(f"\nStopping: {shutdown.reason}")
            return _interrupted_by(shutdown.reason)
        code = playing.result()
        if code == DONE and settings.keep:
            _tell_how_to_play(cluster, stage)
            await stopping
        return code
    finally:
        for task in (playing, stopping):
            task.cancel()
        await asyncio.gather(playing, stopping, return_exceptions=True)


def _interrupted_by(reason: str) -> int:
    """The exit code that a shell shows for a program ended by a signal, which the reason names."""
    name = reason.removeprefix("signal ")
    return SIGNALLED + signal.Signals[name] if name in signal.Signals.__members__ else FAILED


async def _play(cluster: Cluster, stage: Stage, settings: DemoSettings) -> int:
    started = time.monotonic()
    try:
        player = Player(cluster, stage)
        if settings.scenario is ScenarioName.CLAIMS:
            await play_claims(player)
        else:
            await player.bring_up()
            await choose_scenario(settings)(player)
            if settings.scenario not in (ScenarioName.IDLE, ScenarioName.APART):  # they end with no pod that waits
                await show_admin_commands(player)
    except Mismatch as mismatch:
        stage.fail(f"\n{mismatch}\n\n{cluster.describe_programs()}")
        return FAILED
    except GcushareError as error:
        stage.fail(f"\nThe demo could not go on: {error}\n\n{cluster.describe_programs()}")
        return FAILED
    stage.step(f"Done: {counted(stage.checks, 'check')}, all as they must be, in {time.monotonic() - started:.1f}s")
    return DONE


def _tell_how_to_play(cluster: Cluster, stage: Stage) -> None:
    prefix = cluster.plan.vendor.url_prefix
    plugins = [] if cluster.serves_claims else [f"  export PLUGIN={url}\n" for url in cluster.plugin_urls.values()][:1]
    kubectl = "" if shutil.which("kubectl") else "kubectl is not on this machine; kubectl-inspect-* works without it.\n"
    commands = "".join(f"  {command.line}\n" for command in admin_commands(cluster).values())
    stage.say(
        f"The cluster stays up; Ctrl-C ends it. {kubectl}In another terminal:\n"
        f"  export PATH={Path(sys.executable).parent}:$PATH\n"
        f"  export KUBECONFIG={cluster.place.kubeconfig}\n"
        f"  export EXTENDER={cluster.extender_url}\n  export PAGE={cluster.page_url}\n{''.join(plugins)}"
        "  kubectl get pod -A\n"
        f"{commands}"
        f'  curl "$EXTENDER{prefix}/inspect?pretty"\n'
        f"The cards in a browser: {cluster.page_url}/dashboard/\n"
        f"API server {cluster.api_url}   extender {cluster.extender_url}   logs {cluster.place.logs}"
    )
