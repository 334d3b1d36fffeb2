"""``python -m gcushare_playground.apiserver``: serve an empty cluster until a signal ends it."""

from __future__ import annotations

import asyncio
import logging
import signal

import click
import uvloop

from gcushare_playground.apiserver.serving import ApiServer, ApiServerConfig


@click.command()
@click.option("--port", default=0, show_default=True, help="Port on loopback; 0 takes a free one.")
def main(port: int) -> None:
    """Serve a Kubernetes API server double on 127.0.0.1 and print its address."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    uvloop.run(_serve(port))


async def _serve(port: int) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    async with ApiServer(ApiServerConfig(port=port)) as server:
        click.echo(server.url)
        await ended.wait()


if __name__ == "__main__":
    main()
