"""Run the scheduler double: ``python -m gcushare_playground.scheduler --server URL --config FILE``."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from pathlib import Path

import click
from aiohttp import web

from gcushare.core.errors import ConfigError
from gcushare.kube.connection.config import KubeConfig
from gcushare.runtime.health import HealthChecks
from gcushare.runtime.http.page_server import start_server
from gcushare.runtime.settings.serving import ServeSettings
from gcushare_playground.scheduler.configuration import load_scheduler_settings
from gcushare_playground.scheduler.scheduler import SchedulerDouble
from gcushare_playground.scheduler.settings import UNSCHEDULABLE_S, SchedulerSettings

logger = logging.getLogger("gcushare_playground.scheduler")


async def serve(settings: SchedulerSettings, config: KubeConfig, port: int) -> None:
    """Run until SIGTERM or SIGINT, or until the scheduler fails; /healthz and /readyz answer meanwhile."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    async with SchedulerDouble(settings, config) as scheduler:
        health = HealthChecks()

        async def check_synced() -> str | None:
            return None if scheduler.synced.is_set() else "nodes and pods were not listed yet"

        health.add_ready("synced", check_synced)
        app = web.Application()
        app.add_routes(health.routes())
        server = await start_server(app, ServeSettings(listen_address="127.0.0.1", listen_port=port))
        ended = asyncio.create_task(scheduler.wait_stopped(), name="scheduler ended")
        asked = asyncio.create_task(stopping.wait(), name="asked to stop")
        try:
            await asyncio.wait([ended, asked], return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.cancel()
            asked.cancel()
            await server.stop(1.0)


@click.command(help="Run a scheduler double against an API server.")
@click.option("--server", required=True, help="URL of an API server over plain HTTP.")
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="KubeSchedulerConfiguration file.")
@click.option("--listen-port", type=int, default=0, show_default=True, help="Of /healthz; 0 takes a free one.")
@click.option(
    "--wait-factor", type=float, default=1.0, show_default=True, help="Multiplies the backoff between attempts."
)
@click.option(
    "--unschedulable-wait",
    type=float,
    default=UNSCHEDULABLE_S,
    show_default=True,
    help="Seconds until a pod that fitted nowhere is tried again without an event.",
)
def main(
    *,
    server: str,
    config_file: Path | None,
    listen_port: int,
    wait_factor: float,
    unschedulable_wait: float,
) -> None:
    """Parse the options, then run; one parameter per option, as click hands them over."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s", stream=sys.stderr)
    try:
        settings = load_scheduler_settings(config_file) if config_file else SchedulerSettings()
        settings = settings.with_waits(wait_factor, unschedulable_wait)
        config = KubeConfig(server=server, source="--server")
        asyncio.run(serve(settings, config, listen_port))
    except ConfigError as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
