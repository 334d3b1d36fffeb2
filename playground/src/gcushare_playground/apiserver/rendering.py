"""Write objects, lists and watch events in the form a client accepts, from bytes encoded once per write."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from gcushare_playground.apiserver.failures import ApiFailure
from gcushare_playground.apiserver.objects import JsonObject
from gcushare_playground.apiserver.resources import Resource
from gcushare_playground.apiserver.storage import ChangeType, Revision
from gcushare_playground.apiserver.tables import table

_JSON_TYPES = frozenset({"application/json", "application/*", "*/*", ""})


def wants_table(accept: str) -> bool:
    """Tell whether the first form of an Accept header that is spoken here is a table, not objects.

    Raises:
        ApiFailure: 406 where none is.
    """
    for offer in accept.split(","):
        media, *parameters = (part.strip() for part in offer.split(";"))
        wanted = dict(parameter.partition("=")[::2] for parameter in parameters)
        if media not in _JSON_TYPES:
            continue
        kind = wanted.get("as", "").removesuffix("List")
        if not kind or (kind == "Table" and wanted.get("v") == "v1"):
            return bool(kind)
    raise ApiFailure(406, "NotAcceptable", f"only application/json is spoken here, accepted was {accept!r:.200}")


@dataclass(frozen=True, slots=True)
class Renderer:
    """Writes objects of one resource for one request."""

    resource: Resource
    is_table: bool
    now_s: float

    def one(self, revision: Revision) -> bytes:
        """Return a single object, or a table of one row."""
        if self.is_table:
            return self._table([revision], {"resourceVersion": str(revision.version)})
        return self._typed(revision)

    def many(self, revisions: Iterable[Revision], meta: JsonObject) -> bytes:
        """Return a list; its items carry no kind of their own, as in typed lists."""
        if self.is_table:
            return self._table(list(revisions), meta)
        items = b",".join(revision.raw for revision in revisions)
        kind, version = f"{self.resource.kind}List", self.resource.api_version
        head = {"kind": kind, "apiVersion": version, "metadata": meta}
        return msgspec.json.encode(head)[:-1] + b',"items":[' + items + b"]}"

    def event(self, kind: ChangeType, revision: Revision) -> bytes:
        """Return one line of a watch."""
        return b'{"type":"' + kind.encode() + b'","object":' + self.one(revision) + b"}\n"

    def bookmark(self, version: int) -> bytes:
        """Return the line that tells how far a watch has come."""
        found: JsonObject = {"resourceVersion": str(version), "creationTimestamp": None}
        obj = {"kind": self.resource.kind, "apiVersion": self.resource.api_version, "metadata": found}
        if self.is_table:
            obj = table(self.resource, [], found, self.now_s)
        return msgspec.json.encode({"type": "BOOKMARK", "object": obj}) + b"\n"

    def _typed(self, revision: Revision) -> bytes:
        head = {"kind": self.resource.kind, "apiVersion": self.resource.api_version}
        return msgspec.json.encode(head)[:-1] + b"," + revision.raw[1:]

    def _table(self, revisions: list[Revision], meta: JsonObject) -> bytes:
        objects = [revision.obj for revision in revisions]
        return msgspec.json.encode(table(self.resource, objects, meta, self.now_s))


def error_event(failure: ApiFailure) -> bytes:
    """Return the line that ends a watch with an error."""
    return msgspec.json.encode({"type": "ERROR", "object": failure.status()}) + b"\n"
