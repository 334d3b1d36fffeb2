"""The annotation on a pod that uses more of a card than it was granted. The plugin writes it; other programs show it.

It exists while the over-use lasts. Its figures are updated only after large changes; the metrics have those of every
measurement. Anyone with the right to patch the pod may have written it, so no decision depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated

import msgspec

from gcushare.core.bounds import MAX_CARDS, CardIndex
from gcushare.core.errors import RemoteContractError
from gcushare.core.over_use.tracking import Figures, OverUse, describe_over_use
from gcushare.core.wording import utc_text
from gcushare.wire.annotations.keys import OVER_USE
from gcushare.wire.untrusted_json import ANNOTATION_BYTES, BoundedJsonDecoder, Count

_MAX_TIME = 40


class _CardUse(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    used: Count
    granted: Count
    peak: Count = 0
    limit: Count = 0


class _Document(msgspec.Struct, frozen=True):
    since: Annotated[str, msgspec.Meta(max_length=_MAX_TIME)]
    cards: Annotated[dict[CardIndex, _CardUse], msgspec.Meta(max_length=MAX_CARDS)]


OVER_USE_NOTE = BoundedJsonDecoder(_Document, f"annotation {OVER_USE}", limit_bytes=ANNOTATION_BYTES)
"""``since`` is a time in Kubernetes' format, ``cards`` maps card indexes to bytes."""
_encoder = msgspec.json.Encoder()


def encode_over_use(cards: Mapping[int, OverUse]) -> str:
    """Encode a pod's over-use by card index. ``cards`` must not be empty."""
    since = utc_text(int(min(each.since for each in cards.values())))
    found = {
        index: _CardUse(
            each.figures.used,
            each.figures.granted,
            each.peak if each.peak > each.figures.used else 0,
            each.figures.limit,
        )
        for index, each in sorted(cards.items())
    }
    return _encoder.encode(_Document(since, found)).decode()


def decode_over_use(text: str) -> dict[int, OverUse]:
    """Decode a pod's over-use by card index.

    Raises:
        RemoteContractError: the annotation is malformed.
    """
    found = OVER_USE_NOTE.read(text)
    try:
        since = datetime.fromisoformat(found.since)
        moment = (since if since.tzinfo is not None else since.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError) as error:
        raise RemoteContractError(f"annotation {OVER_USE} has an unreadable time: {found.since[:80]!r}") from error
    return {
        index: OverUse(Figures(each.used, each.granted, limit=each.limit), moment, max(each.used, each.peak))
        for index, each in found.cards.items()
    }


def over_use_text(annotations: Mapping[str, str]) -> str:
    """A pod's over-use as text: how much of which card, since when. "" if the pod has no annotation."""
    cards = _read(annotations)
    if not cards:
        return ""
    uses = "; ".join(describe_over_use(index, each.figures) for index, each in sorted(cards.items()))
    return f"{uses}, since {utc_text(int(min(each.since for each in cards.values())))}"


def over_used_cards(annotations: Mapping[str, str]) -> frozenset[int]:
    """The cards of which a pod uses more than it was granted, according to its annotation."""
    return frozenset(_read(annotations))


def note_since_s(annotations: Mapping[str, str], index: int) -> float | None:
    """The start of a pod's over-use of a card, according to its annotation; None if there is none."""
    found = _read(annotations).get(index)
    return found.since if found is not None else None


def _read(annotations: Mapping[str, str]) -> dict[int, OverUse]:
    """Read the annotation. An unreadable one counts as none; the plugin replaces it at its next measurement."""
    text = annotations.get(OVER_USE)
    try:
        return decode_over_use(text) if text is not None else {}
    except RemoteContractError:
        return {}
