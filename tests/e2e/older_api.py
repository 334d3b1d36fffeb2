"""What a kube-scheduler of 1.20 needs of an API server of today: the one group version that is gone since 1.25.

Everything else is passed on as it is, both ways. Budgets are answered with none, which no test here has.
"""

from __future__ import annotations

import asyncio
from typing import Self

import aiohttp
from aiohttp import web

from gcushare_playground.apiserver.kubeconfig import write_kubeconfig
from tests.e2e.assets import need_older_scheduler
from tests.e2e.control_plane import SCHEDULER, ControlPlane, OlderScheduler

VERSION = "v1.20.2"
_BUDGETS = "/apis/policy/v1beta1/poddisruptionbudgets"
_NO_BUDGETS = {
    "kind": "PodDisruptionBudgetList",
    "apiVersion": "policy/v1beta1",
    "metadata": {"resourceVersion": "1"},
    "items": [],
}
_OF_THE_CONNECTION = frozenset({"host", "connection", "transfer-encoding", "content-length", "content-encoding"})


class OlderApi:
    """A server on loopback in front of a control plane; ``scheduler`` is the one that may talk to it."""

    def __init__(self, control_plane: ControlPlane) -> None:
        self._control_plane = control_plane
        self._binary = need_older_scheduler()
        self._ended = asyncio.Event()
        app = web.Application(client_max_size=1 << 24)
        app.router.add_get(_BUDGETS, self._budgets)
        app.router.add_route("*", "/{path:.*}", self._pass_on)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        self.scheduler: OlderScheduler

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        _, port = self._runner.addresses[0][:2]
        token, path = self._control_plane.tokens[SCHEDULER][0], self._control_plane.root / "older.kubeconfig"
        url = f"http://127.0.0.1:{port}"
        write_kubeconfig(path, url, token=token, authority=None, namespace="default")
        self.scheduler = OlderScheduler(self._binary, VERSION, path)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ended.set()
        await self._runner.cleanup()

    async def _budgets(self, request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return web.json_response(_NO_BUDGETS)
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        await answer.prepare(request)
        await self._ended.wait()
        return answer

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        http, url = self._control_plane.http, f"{self._control_plane.url}{request.raw_path}"
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _OF_THE_CONNECTION}
        body = await request.read()
        patience = aiohttp.ClientTimeout(total=None)
        async with http.request(request.method, url, headers=headers, data=body, timeout=patience) as found:
            kept = {name: value for name, value in found.headers.items() if name.lower() not in _OF_THE_CONNECTION}
            answer = web.StreamResponse(status=found.status, headers=kept)
            await answer.prepare(request)
            async for chunk in found.content.iter_any():
                await answer.write(chunk)
            return answer
