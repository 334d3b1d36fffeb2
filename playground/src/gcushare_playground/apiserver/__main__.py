"""``python -m gcushare_playground.apiserver``: serve an empty cluster until a signal ends it."""

from __future__ import annotations

import click
import uvloop

from gcushare_playground.apiserver.serving import ApiServer, ApiServerConfig
from gcushare_playground.lifetime import log_to_stderr, until_signalled


@click.command()
@click.option("--port", default=0, show_default=True, help="Port on loopback; 0 takes a free one.")
def main(port: int) -> None:
    """Serve a Kubernetes API server double on 127.0.0.1 and print its address."""
    log_to_stderr()
    uvloop.run(_serve(port))


async def _serve(port: int) -> None:
    async with ApiServer(ApiServerConfig(port=port)) as server:
        click.echo(server.url)
        await until_signalled()


if __name__ == "__main__":
    main()
