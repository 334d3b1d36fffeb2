"""Reads what a pod's author chose by annotations, and which pods it shares no card with."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from gcushare.core.assignments import ApartGroup
from gcushare.core.errors import Refused, RemoteContractError
from gcushare.core.placement import POLICIES
from gcushare.core.requests import MAX_POD_UNITS, STRONGEST, CardRequest, CardSelection, limit_per_card
from gcushare.core.units import MEMORY_UNIT_NAMES
from gcushare.core.whole_cards import WHOLE_CARD_POLICIES
from gcushare.core.wording import some_names
from gcushare.vendors import Vendor
from gcushare.wire import annotations as keys
from gcushare.wire.annotations import is_own_record
from gcushare.wire.objects import Pod

MAX_CARDS_PER_POD = 16
_MAX_WORDS = 64
_MAX_WORD = 128
"""Characters of one name in a card selection, which filter's indexes keep in memory."""
_LABEL_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_LABEL_KEY = re.compile(rf"(?:(?=.{{1,253}}/)[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?/)?{_LABEL_NAME}", re.ASCII)
_RECORDED_APART = re.compile(rf"({_LABEL_KEY.pattern})=((?:{_LABEL_NAME})?)", re.ASCII)


@dataclass(frozen=True, slots=True)
class PodOptions:
    """A pod author's options, set by annotations. None means the extender's setting."""

    node_policy: str | None = None
    card_policy: str | None = None
    whole_card_policy: str | None = None
    selection: CardSelection | None = None
    cards: int = 1
    memory_limit: int = 0
    memory_unit: str | None = None
    apart: str = ""
    """The key of the label by whose value the pod is kept apart; "" if it is not."""


NO_OPTIONS = PodOptions()
_RARE_KEYS = frozenset(keys.AUTHORS_KEYS) - {keys.CARDS}


def pod_options(annotations: Mapping[str, str]) -> PodOptions:
    """Read the author's options from the pod's annotations.

    Raises:
        RemoteContractError: an option is malformed; the message has the key, the value and what is accepted.
    """
    if _RARE_KEYS.isdisjoint(annotations):
        cards = _number_option(annotations, keys.CARDS, MAX_CARDS_PER_POD) or 1
        return NO_OPTIONS if cards == 1 else PodOptions(cards=cards)
    use, avoid = _words(annotations, keys.USE_CARDS), _words(annotations, keys.AVOID_CARDS)
    key, words = (keys.AVOID_CARDS, avoid) if STRONGEST in avoid else (keys.USE_CARDS, use)
    if STRONGEST in words and (len(words) > 1 or words is avoid):
        raise RemoteContractError(
            f"annotation {key}={annotations[key][:80]!r}: {STRONGEST!r} is accepted only in {keys.USE_CARDS}, as its "
            "only entry; list models in order of preference instead"
        )
    _word(annotations, keys.COMPUTE_SHARE, (keys.PROPORTIONAL,))
    _word(annotations, keys.WHEN_IDLE, keys.WHEN_IDLE_WORDS)
    linked = _word(annotations, keys.CARDS_LINKED, ("true", "false")) == "true"
    cards = _number_option(annotations, keys.CARDS, MAX_CARDS_PER_POD) or 1
    if linked and cards == 1:
        raise RemoteContractError(
            f"annotation {keys.CARDS_LINKED}='true' is for a pod with its memory on several cards; add {keys.CARDS} of "
            f"2 to {MAX_CARDS_PER_POD}, or remove it"
        )
    apart = annotations.get(keys.APART, "")
    if keys.APART in annotations and not _LABEL_KEY.fullmatch(apart):
        raise RemoteContractError(
            f"annotation {keys.APART}={apart[:80]!r} is not the key of a label; write that of one of the pod's labels, "
            "such as app or app.kubernetes.io/name"
        )
    return PodOptions(
        node_policy=_word(annotations, keys.NODE_POLICY, POLICIES),
        card_policy=_word(annotations, keys.CARD_POLICY, POLICIES),
        whole_card_policy=_word(annotations, keys.WHOLE_CARD_POLICY, WHOLE_CARD_POLICIES),
        selection=CardSelection(use, avoid, linked=linked) if use or avoid or linked else None,
        cards=cards,
        memory_limit=_number_option(annotations, keys.MEMORY_LIMIT, MAX_POD_UNITS),
        memory_unit=_word(annotations, keys.MEMORY_UNIT, MEMORY_UNIT_NAMES),
        apart=apart,
    )


def apart_group(pod: Pod, key: str) -> ApartGroup | None:
    """The pods with which a pod shares no card by its labels as they are now; None if it names no label.

    Raises:
        Refused: the pod lacks the label.
    """
    labels = pod.metadata.labels
    if key and key not in labels:
        has = f"its labels are {some_names(sorted(labels))}" if labels else "it has none"
        raise Refused(
            f"annotation {keys.APART}={key!r} names a label that the pod lacks ({has}); add the label, name another "
            "one, or remove the annotation"
        )
    return ApartGroup(pod.metadata.namespace, key, labels[key]) if key else None


def recorded_apart(pod: Pod, vendor: Vendor) -> ApartGroup | None:
    """The pods with which a bound pod shares no card: what was recorded when it was bound.

    Its labels count as long as it has no record, as another scheduler bound it. They may change afterwards.
    """
    annotations = pod.metadata.annotations
    if is_own_record(annotations, pod.metadata.uid):
        if found := _RECORDED_APART.fullmatch(annotations.get(keys.RECORDED_APART, "")):
            return ApartGroup(pod.metadata.namespace, found[1], found[2])
        if vendor.record.card_index in annotations:
            return None
    try:
        return apart_group(pod, pod_options(annotations).apart)
    except (RemoteContractError, Refused):
        return None


def memory_limit(annotations: Mapping[str, str], request: CardRequest) -> int:
    """The units that a bound pod may use of each card while no other pod needs them; 0 if only those it requests.

    A value that filter would refuse counts as none: the pod was bound without it, or it was written afterwards.
    """
    if keys.MEMORY_LIMIT not in annotations or request.whole:
        return 0
    try:
        return limit_per_card(_number_option(annotations, keys.MEMORY_LIMIT, MAX_POD_UNITS), request)
    except (RemoteContractError, Refused):
        return 0


def _word(annotations: Mapping[str, str], key: str, accepted: Collection[str]) -> str | None:
    name = annotations.get(key)
    if name is not None and name not in accepted:
        raise RemoteContractError(f"annotation {key}={name[:80]!r} is not known; accepted: {', '.join(accepted)}")
    return name


def _words(annotations: Mapping[str, str], key: str) -> tuple[str, ...]:
    text = annotations.get(key)
    if text is None:
        return ()
    words = tuple(dict.fromkeys(word.strip() for word in text.split(",", _MAX_WORDS)))
    if "" in words or len(words) > _MAX_WORDS or any(len(word) > _MAX_WORD for word in words):
        raise RemoteContractError(
            f"annotation {key}={text[:80]!r} is malformed; write 1 to {_MAX_WORDS} card uuids, indexes or models of at "
            f"most {_MAX_WORD} characters each, separated by commas"
        )
    return words


def _number_option(annotations: Mapping[str, str], key: str, most: int) -> int:
    text = annotations.get(key)
    if text is None:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(most)) and 1 <= int(text) <= most):
        raise RemoteContractError(
            f"annotation {key}={text[:80]!r} is not accepted; write a whole number from 1 to {most}"
        )
    return int(text)
