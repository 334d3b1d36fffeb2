"""Run one kubelet double as a process: ``python -m gcushare_playground.kubelet --node N --root DIR --server URL``."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import ssl
import sys
from dataclasses import dataclass
from pathlib import Path

import click

from gcushare.core.errors import ConfigError
from gcushare.wire.protos import services
from gcushare_playground.kubelet.api import NodeApi
from gcushare_playground.kubelet.kubelet import Kubelet
from gcushare_playground.kubelet.settings import KubeletSettings, by_creation

logger = logging.getLogger("gcushare_playground.kubelet")


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where the API server is and how to be let in."""

    url: str
    token: str | None
    ca_file: Path | None


async def serve(settings: KubeletSettings, server: ServerAddress) -> None:
    """Run until SIGTERM or SIGINT, or until the kubelet fails."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    tls = None if server.ca_file is None else ssl.create_default_context(cafile=str(server.ca_file))
    async with NodeApi(server.url, token=server.token, tls=tls) as api, Kubelet(settings, api) as kubelet:
        ended = asyncio.create_task(kubelet.wait_stopped(), name="kubelet ended")
        asked = asyncio.create_task(stopping.wait(), name="asked to stop")
        await asyncio.wait([ended, asked], return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        logger.info("kubelet stopping node=%s", settings.node_name)
        if ended.done():
            ended.result()
        ended.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await ended


@click.command(help="Run one kubelet double against an API server.")
@click.option("--node", required=True, help="Name of its Node.")
@click.option(
    "--root", required=True, type=click.Path(path_type=Path), help="Stands for /var/lib/kubelet; keep it short."
)
@click.option("--server", required=True, help="URL of the API server.")
@click.option("--token", envvar="GCUSHARE_KUBELET_TOKEN", help="Bearer token.")
@click.option("--ca-file", type=click.Path(path_type=Path, exists=True), help="CA of an https server.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the admission order and other chance.")
@click.option(
    "--order", type=click.Choice(["shuffle", "creation"]), default="shuffle", show_default=True, help="Of admission."
)
@click.option("--label", "labels", multiple=True, help="KEY=VALUE on the Node it creates; repeatable.")
@click.option("--capacity", "capacities", multiple=True, help="RESOURCE=QUANTITY of the machine, such as cpu=8.")
@click.option(
    "--status-interval", type=float, default=1.0, show_default=True, help="Seconds between reads of the Node."
)
@click.option(
    "--message-limit", type=int, default=services.KUBELET_RECEIVE_LIMIT_BYTES, show_default=True,
    help="Bytes of the largest message it receives from a plugin.",
)  # fmt: skip
@click.option("--log-port", type=int, default=0, help="Port for kubectl logs; 0 takes a free one.")
@click.option("--tls-cert-file", type=click.Path(path_type=Path, exists=True), help="Serve kubectl logs over TLS.")
@click.option("--tls-private-key-file", type=click.Path(path_type=Path, exists=True), help="Key of the certificate.")
@click.option("--verbose", is_flag=True, help="Log debug lines too.")
def main(
    *,
    node: str,
    root: Path,
    server: str,
    token: str | None,
    ca_file: Path | None,
    seed: int,
    order: str,
    labels: tuple[str, ...],
    capacities: tuple[str, ...],
    status_interval: float,
    message_limit: int,
    log_port: int,
    tls_cert_file: Path | None,
    tls_private_key_file: Path | None,
    verbose: bool,
) -> None:
    """Parse the options, then run; one parameter per option, as click hands them over."""
    level = logging.DEBUG if verbose else logging.INFO
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s %(message)s", stream=sys.stderr)
    try:
        defaults = KubeletSettings(node_name=node, root_dir=root)
        settings = KubeletSettings(
            node_name=node,
            root_dir=root.absolute(),
            order=by_creation if order == "creation" else None,
            seed=seed,
            status_interval_s=status_interval,
            message_limit_bytes=message_limit,
            machine={**defaults.machine, **_parse_pairs("--capacity", capacities)},
            labels=_parse_pairs("--label", labels),
            log_port=log_port,
            tls_cert=tls_cert_file,
            tls_key=tls_private_key_file,
        )
    except ConfigError as error:
        raise click.ClickException(str(error)) from error
    asyncio.run(serve(settings, ServerAddress(server, token, ca_file)))


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
