"""Run the scheduler double: ``python -m gcushare_playground.scheduler --server URL --config FILE``."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from gcushare.core.errors import ConfigError
from gcushare.kube.connection.config import KubeConfig
from gcushare_playground.lifetime import log_to_stderr, until_signalled
from gcushare_playground.scheduler.configuration import load_scheduler_settings
from gcushare_playground.scheduler.scheduler import SchedulerDouble
from gcushare_playground.scheduler.settings import UNSCHEDULABLE_S, SchedulerSettings


async def serve(settings: SchedulerSettings, config: KubeConfig) -> None:
    """Run until a signal, or until the scheduler fails."""
    async with SchedulerDouble(settings, config) as scheduler:
        await until_signalled(scheduler.main)


@click.command(help="Run a scheduler double against an API server.")
@click.option("--server", required=True, help="URL of an API server over plain HTTP.")
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="KubeSchedulerConfiguration file.")
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
    wait_factor: float,
    unschedulable_wait: float,
) -> None:
    """Parse the options, then run; one parameter per option, as click hands them over."""
    log_to_stderr()
    try:
        settings = load_scheduler_settings(config_file) if config_file else SchedulerSettings()
        settings = settings.with_waits(wait_factor, unschedulable_wait)
        config = KubeConfig(server=server, source="--server")
        asyncio.run(serve(settings, config))
    except ConfigError as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
