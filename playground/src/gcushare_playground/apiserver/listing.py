"""Lists in pages that all show the same moment.

Source: ``k8s.io/apiserver/pkg/storage/continue.go`` and the list semantics of resourceVersion.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping

import msgspec

from gcushare_playground.apiserver import failures
from gcushare_playground.apiserver.objects import JsonObject, Key
from gcushare_playground.apiserver.requests import Target, number, selector_of
from gcushare_playground.apiserver.selectors import Selector
from gcushare_playground.apiserver.storage import Expired, Revision, Storage, View


class _Token(msgspec.Struct, frozen=True):
    """Where the next page starts, and at which version: opaque to clients."""

    rv: int
    start: tuple[str, str]


def list_page(storage: Storage, target: Target, query: Mapping[str, str]) -> tuple[list[Revision], JsonObject]:
    """Return the page that a list request asks for, and the metadata of the list.

    Raises:
        ApiFailure: 400 for parameters that cannot be read, 410 for a page of a moment that is forgotten.
    """
    selector, limit = selector_of(query, target.resource), number(query, "limit") or 0
    token = _decode(query["continue"]) if query.get("continue") else None
    asked = None if token else number(query, "resourceVersion")
    match = query.get("resourceVersionMatch")
    exact = match == "Exact" or (asked and limit and match is None)
    version = token.rv if token else asked if exact else None
    if asked == 0:
        # Such lists are answered from the watch cache, which knows no pages.
        limit = 0
    try:
        view = storage.collection(target.resource.qualified).view(version)
    except Expired as error:
        raise failures.expired(f"{error}: start a new list without the continue parameter") from error
    return _page(view, target.namespace, selector, limit, Key(*token.start) if token else None)


def _page(
    view: View, namespace: str | None, selector: Selector, limit: int, after: Key | None
) -> tuple[list[Revision], JsonObject]:
    found: list[Revision] = []
    meta: JsonObject = {"resourceVersion": str(view.version)}
    for revision in view.walk(namespace, after):
        if not selector.matches(revision.obj):
            continue
        if limit and len(found) == limit:
            last = found[-1].key
            meta["continue"] = _encode(_Token(view.version, last))
            if selector.is_everything:
                meta["remainingItemCount"] = view.count(namespace, last)
            break
        found.append(revision)
    return found, meta


def _encode(token: _Token) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def _decode(text: str) -> _Token:
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        return msgspec.json.decode(raw, type=_Token)
    except (binascii.Error, ValueError) as error:
        raise failures.bad_request(f"continue key is not valid: {text!r:.80}") from error
