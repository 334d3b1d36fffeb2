"""Run one kubelet double as a process: ``python -m gcushare_playground.kubelet --node N --root DIR --server URL``."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import click

from gcushare.core.errors import ConfigError
from gcushare_playground.kubelet.api import NodeApi
from gcushare_playground.kubelet.kubelet import Kubelet
from gcushare_playground.kubelet.settings import KubeletSettings
from gcushare_playground.lifetime import log_to_stderr, until_signalled

logger = logging.getLogger("gcushare_playground.kubelet")


async def serve(settings: KubeletSettings, server: str) -> None:
    """Run until a signal, or until the kubelet fails."""
    async with NodeApi(server) as api, Kubelet(settings, api) as kubelet:
        await until_signalled(kubelet.main)
        logger.info("kubelet stopping node=%s", settings.node_name)


@click.command(help="Run one kubelet double against an API server.")
@click.option("--node", required=True, help="Name of its Node.")
@click.option(
    "--root", required=True, type=click.Path(path_type=Path), help="Stands for /var/lib/kubelet; keep it short."
)
@click.option("--server", required=True, help="URL of the API server.")
@click.option("--label", "labels", multiple=True, help="KEY=VALUE on the Node it creates; repeatable.")
@click.option("--capacity", "capacities", multiple=True, help="RESOURCE=QUANTITY of the machine, such as cpu=8.")
@click.option(
    "--status-interval", type=float, default=1.0, show_default=True, help="Seconds between reads of the Node."
)
def main(
    *,
    node: str,
    root: Path,
    server: str,
    labels: tuple[str, ...],
    capacities: tuple[str, ...],
    status_interval: float,
) -> None:
    """Parse the options, then run; one parameter per option, as click hands them over."""
    log_to_stderr()
    try:
        defaults = KubeletSettings(node_name=node, root_dir=root)
        settings = KubeletSettings(
            node_name=node,
            root_dir=root.absolute(),
            status_interval_s=status_interval,
            machine={**defaults.machine, **_parse_pairs("--capacity", capacities)},
            labels=_parse_pairs("--label", labels),
        )
    except ConfigError as error:
        raise click.ClickException(str(error)) from error
    asyncio.run(serve(settings, server))


def _parse_pairs(option: str, texts: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint=option)
        pairs[key] = value
    return pairs


if __name__ == "__main__":
    main()
