"""One request from its first byte to its last: faults, identity, rights, dispatch, answer."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

import msgspec
from aiohttp import web

from gcushare_playground.apiserver import failures
from gcushare_playground.apiserver.authorization import Asked, Attributes, Authorizer, RequestRecord
from gcushare_playground.apiserver.bodies import media_type, read_body
from gcushare_playground.apiserver.discovery import Discovery
from gcushare_playground.apiserver.execution import Execution
from gcushare_playground.apiserver.failures import ApiFailure
from gcushare_playground.apiserver.faults import (
    CutWatch,
    Delay,
    DropAfter,
    DropBefore,
    FailAfter,
    FailBefore,
    FaultBoard,
    first,
)
from gcushare_playground.apiserver.identities import Identities, User
from gcushare_playground.apiserver.logs import Logs
from gcushare_playground.apiserver.proxying import Proxy, parse_proxied
from gcushare_playground.apiserver.registry import Registry
from gcushare_playground.apiserver.rendering import Renderer, wants_table
from gcushare_playground.apiserver.requests import Target, parse_target, proxy_verb_of, verb_of
from gcushare_playground.apiserver.reviews import Reviewer
from gcushare_playground.apiserver.verbs import Call, Verbs
from gcushare_playground.apiserver.watching import Watches

_log = logging.getLogger(__name__)


class Parts(Protocol):
    """What the handler needs of the server."""

    @property
    def registry(self) -> Registry: ...
    @property
    def faults(self) -> FaultBoard: ...
    @property
    def identities(self) -> Identities: ...
    @property
    def requests(self) -> RequestRecord: ...
    @property
    def authorizer(self) -> Authorizer: ...


class _Dropped(Exception):
    """A fault breaks the connection instead of answering."""


class Handler:
    """The request handler of the HTTP server."""

    def __init__(self, server: Parts, logs: Logs, watches: Watches, version: str) -> None:
        self._server = server
        self._watches = watches
        self._discovery = Discovery(version)
        reviewer = Reviewer(server.identities, lambda: server.authorizer)
        self._verbs = Verbs(server.registry, server.identities, reviewer, logs)
        self.proxy = Proxy(server.registry)
        self._execution = Execution(server.registry)

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request; a refusal becomes its Status document."""
        try:
            return await self._answer(request)
        except ApiFailure as failure:
            return _failed(failure)
        except _Dropped:
            if request.transport is not None:
                request.transport.abort()
            return web.Response()
        except (ConnectionError, web.RequestPayloadError) as error:
            _log.debug("client went away method=%s path=%s reason=%r", request.method, request.path_qs, error)
            return web.Response()
        except Exception:
            # The task root of a request: without this line a defect of the double would show as a bare 500.
            _log.exception("request failed method=%s path=%s", request.method, request.path_qs)
            return _failed(failures.internal("the API server double has a defect; its log has the trace"))

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        user = self._server.identities.authenticate(request.headers.get("Authorization"))
        effects = self._server.faults.apply(request.method, request.path_qs, user.name)
        late_s = sum(each.seconds for each in effects if isinstance(each, Delay))
        if request.method == "GET":
            await asyncio.sleep(late_s)
        if first(effects, DropBefore):
            raise _Dropped
        if failure := first(effects, FailBefore):
            raise ApiFailure(failure.code, failure.reason, failure.message)
        cut = first(effects, CutWatch)
        answer = await self._dispatch(request, user, cut.after_events if cut else None)
        if request.method != "GET":
            await asyncio.sleep(late_s)
        if first(effects, DropAfter):
            raise _Dropped
        if after := first(effects, FailAfter):
            raise ApiFailure(after.code, after.reason, after.message)
        return answer

    def _authorize(self, attributes: Attributes, target: Target | None) -> None:
        allowed = self._server.authorizer.allows(attributes)
        self._server.requests.add(Asked(attributes, allowed))
        if not allowed:
            raise _refusal(attributes, target)

    async def _dispatch(self, request: web.BaseRequest, user: User, cut_after: int | None) -> web.StreamResponse:
        if (proxied := parse_proxied(request.path)) is not None:
            verb = proxy_verb_of(request.method)
            self._authorize(_attributes(user, verb, proxied.target), proxied.target)
            return await self.proxy.answer(proxied, request)
        target = parse_target(request.path)
        if target is None:
            return self._document(request, user)
        verb = verb_of(request.method, target, request.query)
        self._authorize(_attributes(user, verb, target), target)
        if target.subresource == "exec":
            return await self._execution.answer(target, request)
        is_table = wants_table(request.headers.get("Accept", ""))
        renderer = Renderer(target.resource, is_table, self._server.registry.clock())
        if verb == "watch":
            return await self._watches.serve(request, target, renderer, cut_after=cut_after)
        body = await read_body(request)
        call = Call(target, verb, request.query, media_type(request), body, renderer)
        reply = await self._verbs.answer(call)
        return web.Response(body=reply.body, status=reply.code, headers={"Content-Type": reply.content_type})

    def _document(self, request: web.BaseRequest, user: User) -> web.StreamResponse:
        path = request.path
        self._authorize(Attributes(user, request.method.lower(), path=path), None)
        if request.method != "GET":
            raise failures.method_not_allowed()
        found = self._discovery.find(path)
        if found is None:
            raise failures.unknown_path()
        body, content_type = found
        return web.Response(body=body, headers={"Content-Type": content_type})


def _attributes(user: User, verb: str, target: Target) -> Attributes:
    resource = target.resource
    # A namespace is itself in the namespace of its name, as far as rights are concerned.
    namespace = target.name if resource.qualified == "namespaces" else target.namespace or ""
    return Attributes(
        user,
        verb,
        group=resource.group,
        resource=resource.plural,
        subresource=target.subresource,
        namespace=namespace,
        name=target.name,
    )


def _refusal(attributes: Attributes, target: Target | None) -> ApiFailure:
    who = f'User "{attributes.user.name}" cannot {attributes.verb}'
    if target is None:
        return ApiFailure(403, "Forbidden", f'forbidden: {who} path "{attributes.path}"', {})
    where = f'in the namespace "{attributes.namespace}"' if attributes.namespace else "at the cluster scope"
    why = f'{who} resource "{attributes.full_resource}" in API group "{attributes.group}" {where}'
    return failures.forbidden(target.resource, attributes.name, why)


def _failed(failure: ApiFailure) -> web.Response:
    headers = {"Content-Type": "application/json"}
    if wait := (failure.details or {}).get("retryAfterSeconds"):
        headers["Retry-After"] = str(wait)
    return web.Response(body=msgspec.json.encode(failure.status()), status=failure.code, headers=headers)
