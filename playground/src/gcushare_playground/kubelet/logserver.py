"""The kubelet's HTTP side: ``/containerLogs`` for ``kubectl logs``, and ``/healthz``."""

from __future__ import annotations

import ssl
from collections.abc import Callable

from aiohttp import web

from gcushare_playground.kubelet.settings import KubeletSettings

LogProvider = Callable[[str, str, str], str | None]
"""Returns the text of namespace, pod and container; None when there is no such container."""


class LogServer:
    """Serves containers' logs on ``host_ip``; ``port`` is known once it runs."""

    def __init__(self, settings: KubeletSettings, provider: LogProvider) -> None:
        self._settings = settings
        self._provider = provider
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._logs)
        app.router.add_get("/healthz", _healthz)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        self._runner = runner
        site = web.TCPSite(runner, self._settings.host_ip, self._settings.log_port, ssl_context=self._tls())
        await site.start()
        self.port = int(runner.addresses[0][1])

    async def stop(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    def _tls(self) -> ssl.SSLContext | None:
        if self._settings.tls_cert is None or self._settings.tls_key is None:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self._settings.tls_cert, self._settings.tls_key)
        return context

    async def _logs(self, request: web.Request) -> web.Response:
        names = request.match_info["namespace"], request.match_info["pod"], request.match_info["container"]
        text = self._provider(*names)
        if text is None:
            raise web.HTTPNotFound(text=f"container {names[2]!r} of pod {names[0]}/{names[1]} was not found here\n")
        lines = text.splitlines(keepends=True)
        tail = request.query.get("tailLines", "")
        if tail.isdecimal():
            lines = lines[len(lines) - min(int(tail), len(lines)) :]
        return web.Response(text="".join(lines))


async def _healthz(request: web.Request) -> web.Response:
    return web.Response(text="ok")
