"""Requests for resources: one small function per verb, from a decoded request to the bytes of its answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import msgspec

from gcushare_playground.apiserver import failures, subresources
from gcushare_playground.apiserver.bodies import decode_object, decode_patch, decode_resource
from gcushare_playground.apiserver.identities import Identities
from gcushare_playground.apiserver.listing import list_page
from gcushare_playground.apiserver.logs import Logs
from gcushare_playground.apiserver.objects import JsonObject, dig, uid_of
from gcushare_playground.apiserver.registry import Mutation, Registry
from gcushare_playground.apiserver.rendering import Renderer
from gcushare_playground.apiserver.requests import Target, number
from gcushare_playground.apiserver.resources import Resource
from gcushare_playground.apiserver.reviews import Reviewer
from gcushare_playground.apiserver.storage import Revision


@dataclass(frozen=True, slots=True)
class Call:
    """One authorized request for a resource."""

    target: Target
    verb: str
    query: Mapping[str, str]
    media: str
    body: bytes
    renderer: Renderer

    @property
    def resource(self) -> Resource:
        """The resource asked for."""
        return self.target.resource


@dataclass(frozen=True, slots=True)
class Reply:
    """What is sent back."""

    body: bytes
    code: int = 200
    content_type: str = "application/json"


class Verbs:
    """Answers every request for a resource but watches."""

    def __init__(self, registry: Registry, identities: Identities, reviewer: Reviewer, logs: Logs) -> None:
        self._registry = registry
        self._identities = identities
        self._reviewer = reviewer
        self._logs = logs
        self._verbs: dict[str, Callable[[Call], Reply]] = {
            "get": self._get,
            "list": self._list,
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
        }
        self._subresources: dict[str, Callable[[Call], Awaitable[Reply]]] = {
            "status": self._status,
            "binding": self._binding,
            "eviction": self._eviction,
            "token": self._token,
            "log": self._log,
        }

    async def answer(self, call: Call) -> Reply:
        """Do what a request asks.

        Raises:
            ApiFailure: the request is refused; nothing was changed.
        """
        if call.query.get("dryRun"):
            raise failures.bad_request(subresources.NO_DRY_RUN)
        if call.target.subresource:
            return await self._subresources[call.target.subresource](call)
        return self._verbs[call.verb](call)

    def _get(self, call: Call) -> Reply:
        return Reply(call.renderer.one(self._registry.read(call.resource, call.target.key)))

    def _list(self, call: Call) -> Reply:
        return Reply(call.renderer.many(*list_page(self._registry.storage, call.target, call.query)))

    def _create(self, call: Call) -> Reply:
        obj = decode_resource(call.resource, call.media, call.body)
        if "list" not in call.resource.verbs:
            return _document(self._reviewer.answer(call.resource, obj), 201)
        namespace = call.target.namespace
        if namespace is None and call.resource.namespaced:
            raise failures.method_not_allowed()
        return Reply(call.renderer.one(self._registry.create(call.resource, namespace or "", obj)), 201)

    def _update(self, call: Call) -> Reply:
        obj = decode_resource(call.resource, call.media, call.body)
        return self._change(call, lambda _: obj)

    def _patch(self, call: Call) -> Reply:
        return self._change(call, _decode_patch(call))

    def _change(self, call: Call, mutate: Mutation, *, status_only: bool = False) -> Reply:
        head = {"kind": call.resource.kind, "apiVersion": call.resource.api_version}
        revision = self._registry.update(
            call.resource,
            call.target.key,
            lambda old: mutate({**head, **old}),
            status_only=status_only,
        )
        return Reply(call.renderer.one(revision))

    def _delete(self, call: Call) -> Reply:
        deletion = subresources.read_deletion(_delete_options(call))
        key = call.target.key
        before = self._registry.read(call.resource, key)
        after = self._registry.delete(call.resource, key, deletion)
        if call.resource.qualified == "pods" or self._registry.collection(call.resource).get(key) is not None:
            return Reply(call.renderer.one(after))
        return _document(_deleted(call.resource, before))

    async def _status(self, call: Call) -> Reply:
        if call.verb != "patch":
            raise failures.method_not_allowed()
        return self._change(call, _decode_patch(call), status_only=True)

    async def _binding(self, call: Call) -> Reply:
        document = _created(call)
        subresources.bind(self._registry, call.target.key, document)
        return _document(subresources.SUCCESS, 201)

    async def _eviction(self, call: Call) -> Reply:
        document = _created(call)
        subresources.evict(self._registry, call.target.key, document)
        return _document(subresources.SUCCESS, 201)

    async def _token(self, call: Call) -> Reply:
        asked = _created(call)
        return _document(subresources.issue_token(self._registry, self._identities, call.target.key, asked), 201)

    async def _log(self, call: Call) -> Reply:
        if call.verb != "get":
            raise failures.method_not_allowed()
        text = await self._logs.read(call.target.key, call.query)
        return Reply(text.encode(), content_type="text/plain")


def _document(document: JsonObject, code: int = 200) -> Reply:
    return Reply(msgspec.json.encode(document), code)


def _created(call: Call) -> JsonObject:
    if call.verb != "create":
        raise failures.method_not_allowed()
    return decode_object(call.media, call.body)


def _decode_patch(call: Call) -> Mutation:
    mutate = decode_patch(call.media, call.body)

    def patch(old: JsonObject) -> JsonObject:
        uid, version = uid_of(old), dig(old, "metadata", "resourceVersion")
        new = mutate(old)
        # Unlike in an update, a uid in a patch is not a precondition, but a change of an immutable field.
        if dig(new, "metadata", "uid", default=uid) != uid and dig(new, "metadata", "resourceVersion") == version:
            cause = failures.Cause("metadata.uid", f'Invalid value: "{new["metadata"]["uid"]}": field is immutable')
            raise failures.invalid(call.resource, call.target.key.name, [cause])
        return new

    return patch


def _delete_options(call: Call) -> JsonObject:
    options = decode_object(call.media, call.body)
    grace_s = number(call.query, "gracePeriodSeconds")
    if grace_s is not None:
        options.setdefault("gracePeriodSeconds", grace_s)
    return options


def _deleted(resource: Resource, before: Revision) -> JsonObject:
    details = {"name": before.key.name, "kind": resource.plural, "uid": uid_of(before.obj)}
    if resource.group:
        details["group"] = resource.group
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
