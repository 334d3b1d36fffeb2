"""The kubelet's HTTP side: ``/containerLogs`` for ``kubectl logs``, ``/run`` for ``kubectl exec``."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

from aiohttp import web

from gcushare_playground.kubelet.settings import KubeletSettings
from gcushare_playground.kubelet.views import ContainerView

_LIST_DEVICES = "ls /dev"
_COLUMNS = 80

ViewProvider = Callable[[str, str, str], ContainerView | None]
"""Returns the view of a container by namespace, pod and name; None if it does not exist."""


class LogServer:
    """Serves what people ask of containers on ``host_ip``; ``port`` is known once it runs."""

    def __init__(self, settings: KubeletSettings, provider: ViewProvider) -> None:
        self._settings = settings
        self._provider = provider
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._logs)
        app.router.add_post("/run/{namespace}/{pod}/{container}", self._run)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        self._runner = runner
        site = web.TCPSite(runner, self._settings.host_ip, 0)
        await site.start()
        self.port = int(runner.addresses[0][1])

    async def stop(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _logs(self, request: web.Request) -> web.Response:
        return web.Response(text=self._view(request).render())

    async def _run(self, request: web.Request) -> web.Response:
        """Answer the one command whose answer is known without running any: which devices a container has."""
        view, command = self._view(request), request.query.get("cmd", "")
        if view.has_ended:
            raise web.HTTPInternalServerError(text=f"container {view.name!r} has ended\n")
        if command != _LIST_DEVICES:
            raise web.HTTPNotImplemented(
                text=f"no command runs here: {_LIST_DEVICES!r} is answered, {command!r} is not\n"
            )
        names = sorted(view.list_devices())
        if request.query.get("tty") == "true":  # a terminal gets several names to a line
            return web.Response(text="\r\n".join(textwrap.wrap("  ".join(names), _COLUMNS)) + "\r\n")
        return web.Response(text="".join(f"{name}\n" for name in names))

    def _view(self, request: web.Request) -> ContainerView:
        names = request.match_info["namespace"], request.match_info["pod"], request.match_info["container"]
        view = self._provider(*names)
        if view is None:
            raise web.HTTPNotFound(text=f"container {names[2]!r} of pod {names[0]}/{names[1]} was not found here\n")
        return view
