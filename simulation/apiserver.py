"""The API server: what it answers to the programs' requests, by the rules of Kubernetes that they depend on."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from urllib.parse import parse_qsl, unquote

import msgspec

from gcushare.kube.connection.transport import Request
from gcushare_playground.apiserver.failures import ApiFailure
from gcushare_playground.apiserver.patches import merge
from gcushare_playground.apiserver.storage import Revision
from gcushare_playground.apiserver.subresources import bound
from simulation.admission import SYSTEM, AdmissionPolicies
from simulation.store import Doc, Key, Store
from simulation.watches import Matches

_decode = msgspec.json.decode
_NOW = "2026-01-01T00:00:00Z"
STALE_VERSIONS = 40
"""How many writes a list that may be old is behind at most."""


class Target:
    """What a path names."""

    def __init__(self, path: str) -> None:
        path, _, query = path.partition("?")
        self.query = dict(parse_qsl(query)) if query else {}
        parts = path.strip("/").split("/")
        rest = parts[2:] if parts[0] == "api" else parts[3:]
        self.namespace = ""
        if len(rest) > 2 and rest[0] == "namespaces":
            self.namespace, rest = rest[1], rest[2:]
        self.plural = rest[0]
        self.name = unquote(rest[1]) if len(rest) > 1 else ""
        self.subresource = rest[2] if len(rest) > 2 else ""
        self.key: Key = (self.namespace, self.name)

    @property
    def matches(self) -> Matches:
        """Whether an object is selected."""
        namespace, selector = self.namespace, self.query.get("fieldSelector", "")
        name, _, value = selector.partition(",")[0].partition("=")
        if name == "spec.nodeName":
            return lambda doc: doc["spec"].get("nodeName", "") == value
        if name == "status.phase":
            return lambda doc: doc["status"].get("phase", "") == value
        if label := self.query.get("labelSelector", ""):
            key, _, wanted = label.partition("=")
            if self.plural == "resourceclaimtemplates":
                return lambda doc: doc["metadata"].get("labels", {}).get(key) == wanted
        if name == "metadata.name":
            return lambda doc: doc["metadata"]["name"] == value
        if namespace:
            return lambda doc: doc["metadata"].get("namespace") == namespace
        return _always


@lru_cache(maxsize=512)
def find_target(path: str) -> Target:
    """What a path names; most are asked for again and again."""
    return Target(path)


def _always(_: Doc) -> bool:
    return True


class ApiServer:
    """Answers requests from the store. ``pick`` draws a number below its argument, for answers that may be old."""

    def __init__(self, store: Store, pick: Callable[[int], int], policies: AdmissionPolicies) -> None:
        self.store = store
        self._policies = policies
        self._pick = pick
        self._pages: dict[str, tuple[list[Revision], int]] = {}
        self._tokens = 0

    def answer(self, request: Request, by: str) -> bytes:
        """Do what a request asks; raises ApiFailure."""
        target = find_target(request.path)
        match request.method, target.subresource:
            case "GET", _ if target.name:
                return _with_kind(self.store.read(target.plural, target.key).raw)
            case "GET", _:
                return self._list(target)
            case "POST", "binding":
                pod, binding = self.store.read("pods", target.key), _decode(request.body or b"{}")
                self.store.update("pods", target.key, lambda _: bound(pod.copy(), pod.key, binding, _NOW), by)
                return b'{"kind":"Status","status":"Success"}'
            case "POST", _:
                doc: Doc = _decode(request.body or b"{}")
                doc["metadata"].setdefault("namespace", target.namespace)
                return _with_kind(self.store.create(target.plural, doc, by).raw)
            case "PATCH", _:
                return _with_kind(self._patch(target, _decode(request.body or b"{}"), by).raw)
            case "DELETE", _:
                asked = _decode(request.body or b"{}").get("preconditions", {})
                found = self.store.read(target.plural, target.key).obj["metadata"]
                if any(found[name] != value for name, value in asked.items()):
                    raise ApiFailure(409, "Conflict", "the precondition does not hold")
                self.store.delete(target.plural, target.key, by)
                return b'{"kind":"Status","status":"Success"}'
        raise ApiFailure(405, "MethodNotAllowed", request.method)

    def _list(self, target: Target) -> bytes:
        query, store = target.query, self.store
        token, limit = query.get("continue", ""), int(query.get("limit", "0"))
        if token:
            found, version = self._continue(token)
        else:
            version = store.version
            if "resourceVersion" in query:
                # From a cache, which may be older than the newest, and not than what was asked for.
                least = max(int(query["resourceVersion"]), store.compacted)
                version = max(least, store.version - self._pick(STALE_VERSIONS))
                limit = 0
            found = [each for each in store.snapshot(target.plural, version) if target.matches(each.obj)]
        page, rest = (found, []) if not limit else (found[:limit], found[limit:])
        following = self._keep(rest, version) if rest else ""
        items = b",".join(each.raw for each in page)
        meta = b'{"resourceVersion":"%d","continue":"%s"}' % (version, following.encode())
        return b'{"metadata":%s,"items":[%s]}' % (meta, items)

    def _keep(self, rest: list[Revision], version: int) -> str:
        self._tokens += 1
        token = f"token-{self._tokens}"
        self._pages[token] = (rest, version)
        return token

    def _continue(self, token: str) -> tuple[list[Revision], int]:
        found, version = self._pages.pop(token, ([], 0))
        if version < self.store.compacted:
            raise ApiFailure(410, "Expired", "the provided continue parameter is too old")
        return found, version

    def _patch(self, target: Target, patch: Doc, by: str) -> Revision:
        if target.plural == "pods" and target.namespace != SYSTEM and self._policies.refuses(target.name):
            raise ApiFailure(403, "Forbidden", f"admission webhook denied the request: {target.name} must not change")
        asked: Doc = dict(patch.get("metadata") or {})
        old = self.store.read(target.plural, target.key)
        if "uid" in asked and asked.pop("uid") != old.uid:
            causes = [{"field": "metadata.uid", "message": "field is immutable"}]
            raise ApiFailure(422, "Invalid", "field is immutable", {"causes": causes})
        if asked.get("resourceVersion") and asked.pop("resourceVersion") != old.obj["metadata"]["resourceVersion"]:
            raise ApiFailure(409, "Conflict", "the object has been modified")
        if "metadata" in patch:
            patch = {**patch, "metadata": asked}
        return self.store.update(target.plural, target.key, lambda doc: merge(doc, patch), by)


def _with_kind(raw: bytes) -> bytes:
    """An object as an answer, which says that it is one."""
    return b'{"kind":"Object",' + raw[1:]
