"""Lists in pages that all show the same moment.

Source: ``k8s.io/apiserver/pkg/storage/continue.go`` and the list semantics of resourceVersion.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from gcushare_playground.apiserver import failures
from gcushare_playground.apiserver.objects import Key
from gcushare_playground.apiserver.rendering import ListMeta
from gcushare_playground.apiserver.requests import Target, number, selector_of
from gcushare_playground.apiserver.selectors import Selector
from gcushare_playground.apiserver.storage import Expired, Revision, Storage, View


class _Token(msgspec.Struct, frozen=True):
    """Where the next page starts, and at which version: opaque to clients."""

    rv: int
    start: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list."""

    revisions: list[Revision]
    meta: ListMeta


def list_page(storage: Storage, target: Target, query: Mapping[str, str]) -> Page:
    """Return the page that a list request asks for.

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


def _page(view: View, namespace: str | None, selector: Selector, limit: int, after: Key | None) -> Page:
    if not limit:
        return Page([r for r in view.walk(namespace, after) if selector.matches(r.obj)], ListMeta(view.version))
    found: list[Revision] = []
    for revision in view.walk(namespace, after):
        if not selector.matches(revision.obj):
            continue
        if len(found) == limit:
            last = found[-1].key
            remaining = view.count(namespace, last) if selector.is_everything else None
            return Page(found, ListMeta(view.version, _encode(_Token(view.version, last)), remaining))
        found.append(revision)
    return Page(found, ListMeta(view.version))


def _encode(token: _Token) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def _decode(text: str) -> _Token:
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        return msgspec.json.decode(raw, type=_Token)
    except (binascii.Error, ValueError) as error:
        raise failures.bad_request(f"continue key is not valid: {text!r:.80}") from error
