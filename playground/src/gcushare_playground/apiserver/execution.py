"""``kubectl exec``: a WebSocket to the server, which has the pod's kubelet run the command.

Source: ``k8s.io/apimachinery/pkg/util/remotecommand`` (v4 and v5): each message begins with the number of its stream,
and the last one on the error stream is a Status. Unlike kube-apiserver, this server asks the kubelet by its plain
``/run``, which takes no input, and knows no SPDY, which kubectl before 1.31 speaks.
"""

from __future__ import annotations

import aiohttp
import msgspec
from aiohttp import web

from gcushare_playground.apiserver import failures
from gcushare_playground.apiserver.logs import choose_container, kubelet_address
from gcushare_playground.apiserver.objects import JsonObject, dig
from gcushare_playground.apiserver.registry import Registry
from gcushare_playground.apiserver.requests import Target, flag
from gcushare_playground.apiserver.subresources import PODS

_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDOUT, _ERROR = b"\x01", b"\x03"
_TIMEOUT_S = 10.0


class Execution:
    """The exec subresource of pods."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def answer(self, target: Target, request: web.BaseRequest) -> web.StreamResponse:
        """Run one command and stream what it prints.

        Raises:
            ApiFailure: 404 no such pod; 400 no such container, not bound, or no WebSocket; 500 no such kubelet.
        """
        pod = self._registry.read(PODS, target.key).copy()
        container = choose_container(pod, request.query.get("container", ""))
        node = dig(pod, "spec", "nodeName", default="")
        if not node:
            raise failures.bad_request(f"pod {target.name} does not have a host assigned")
        socket = web.WebSocketResponse(protocols=_PROTOCOLS)
        if not socket.can_prepare(request):
            raise failures.bad_request("this server takes exec over a WebSocket only, as kubectl opens since 1.31")
        place = f"{target.namespace}/{target.name}/{container}"
        url = f"{kubelet_address(self._registry, node)}/run/{place}"
        words = {"cmd": " ".join(request.query.getall("command", [])), "tty": str(flag(request.query, "tty")).lower()}
        output, status = await _run(url, words)
        await socket.prepare(request)
        await socket.send_bytes(_STDOUT + output.encode())
        await socket.send_bytes(_ERROR + msgspec.json.encode(status))
        await socket.close()
        return socket


async def _run(url: str, words: dict[str, str]) -> tuple[str, JsonObject]:
    """Have the kubelet run a command: what it printed, and the Status that ends it."""
    try:
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(url, params=words) as answer,
        ):
            text = await answer.text()
    except (aiohttp.ClientError, TimeoutError) as error:
        return "", failures.internal(f'Post "{url}": {error!r}').status()
    if answer.status != 200:
        return "", failures.internal(text.strip()).status()
    return text, {"metadata": {}, "status": "Success"}
